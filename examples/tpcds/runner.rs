//! Starts child processes, waits for them, and stops those that take too long.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Result;
use crate::interrupt::Interrupt;
use crate::protocol::{Outcome, Request, Status};

/// What is kept of the end of a child's standard error.
const STDERR_BYTES: usize = 4 * 1024;

const SIGKILL: i32 = 9;

/// How often a wait looks at the interrupt.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs `request` in a process of its own; `None` when the job was interrupted meanwhile.
///
/// # Errors
///
/// Fails when the process cannot be started; whatever happens to it then is an outcome.
pub(crate) fn run(
    request: &Request,
    timeout: Duration,
    interrupt: &Interrupt,
) -> Result<Option<Outcome>> {
    let start = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--child")
        .arg(serde_json::to_string(request)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Out of the terminal's reach: Ctrl-C is for the job, which ends its child itself.
        .process_group(0)
        .spawn()?;
    let errors = read_errors(&mut child);
    let line = read_line(&mut child, timeout, interrupt);
    let unanswered = matches!(line, Err(RecvTimeoutError::Timeout));
    if unanswered {
        child.kill()?;
    }
    let exit = child.wait()?;
    let errors = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
    remove_dir(&request.spill_dir)?;
    if interrupt.is_set() {
        return Ok(None);
    }

    let outcome = line.ok().and_then(|line| serde_json::from_str::<Outcome>(&line).ok());
    if let Some(mut outcome) = outcome {
        if outcome.status == Status::Error
            && let Some(message) = &mut outcome.message
        {
            // A panic tells its place there.
            message.push_str(&format!(": {}", errors.trim()));
        }
        return Ok(Some(outcome));
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Some(failure(unanswered, exit, &errors, seconds)))
}

fn failure(timed_out: bool, exit: ExitStatus, errors: &str, seconds: f64) -> Outcome {
    let (status, message) = if timed_out {
        (Status::Timeout, None)
    } else if exit.signal() == Some(SIGKILL) {
        (Status::Oom, Some("the process was killed".to_owned()))
    } else {
        (Status::Error, Some(format!("the process ended with {exit}: {}", errors.trim())))
    };
    Outcome::new(status, message, seconds)
}

/// Waits for the one line of the child. It is read by a thread, so that the wait can end before the child.
fn read_line(
    child: &mut Child,
    timeout: Duration,
    interrupt: &Interrupt,
) -> std::result::Result<String, RecvTimeoutError> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut line = String::new();
            if BufReader::new(stdout).read_line(&mut line).is_ok() {
                // Nobody listens any more when the child came too late.
                sender.send(line).ok();
            }
        });
    }
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(GLANCE)) {
            Err(RecvTimeoutError::Timeout) if left > GLANCE && !interrupt.is_set() => {}
            answer => return answer,
        }
    }
}

fn read_errors(child: &mut Child) -> Option<JoinHandle<String>> {
    let mut stderr = child.stderr.take()?;
    Some(thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut chunk = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut chunk) {
            bytes.extend(chunk.iter().take(count));
            let extra = bytes.len().saturating_sub(STDERR_BYTES);
            bytes.drain(..extra);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

/// A process that was killed leaves its spill files behind.
fn remove_dir(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", dir.display()).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Engine, JoinKind, MemoryLimit, PoolKind};

    fn run_in(dir: &Path, interrupt: &Interrupt) -> Option<Outcome> {
        let request = Request {
            sql: dir.join("q.sql"),
            tables: dir.to_owned(),
            spill_dir: dir.join("spill"),
            result: dir.join("result"),
            engine: Engine::Stock,
            limit: MemoryLimit(None),
            pool: PoolKind::Fair,
            partitions: 1,
            codec: "lz4".to_owned(),
            join: JoinKind::Hash,
            set: Vec::new(),
            timeline: false,
        };
        run(&request, Duration::from_secs(60), interrupt).unwrap()
    }

    #[test]
    fn an_interrupted_run_has_no_outcome_and_leaves_no_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("spill")).unwrap();
        let interrupt = Interrupt::default();
        interrupt.set();
        assert!(run_in(dir.path(), &interrupt).is_none());
        assert!(!dir.path().join("spill").exists());
    }

    #[test]
    fn a_child_that_says_nothing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        // The program of the tests does not know the flag of a child.
        let outcome = run_in(dir.path(), &Interrupt::default()).unwrap();
        assert_eq!(outcome.status, Status::Error);
        assert!(outcome.message.unwrap().contains("the process ended with"));
    }
}
