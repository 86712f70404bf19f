//! Starts child processes, waits for them, and stops those that take too long.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Result;
use crate::protocol::{Outcome, Request, Status};

/// What is kept of the end of a child's standard error.
const STDERR_BYTES: usize = 4 * 1024;

const SIGKILL: i32 = 9;

/// Runs `request` in a process of its own.
///
/// # Errors
///
/// Fails when the process cannot be started; whatever happens to it then is an outcome.
pub(crate) fn run(request: &Request, timeout: Duration) -> Result<Outcome> {
    let start = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--child")
        .arg(serde_json::to_string(request)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let errors = read_errors(&mut child);
    let line = read_line(&mut child, timeout);
    let timed_out = matches!(line, Err(RecvTimeoutError::Timeout));
    if timed_out {
        child.kill()?;
    }
    let exit = child.wait()?;
    let errors = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
    remove_dir(&request.spill_dir)?;

    let outcome = line.ok().and_then(|line| serde_json::from_str::<Outcome>(&line).ok());
    if let Some(mut outcome) = outcome {
        if outcome.status == Status::Error
            && let Some(message) = &mut outcome.message
        {
            // A panic tells its place there.
            message.push_str(&format!(": {}", errors.trim()));
        }
        return Ok(outcome);
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(failure(timed_out, exit, &errors, seconds))
}

fn failure(timed_out: bool, exit: ExitStatus, errors: &str, seconds: f64) -> Outcome {
    let (status, message) = if timed_out {
        (Status::Timeout, None)
    } else if exit.signal() == Some(SIGKILL) {
        (Status::Oom, Some("the process was killed".to_owned()))
    } else {
        (Status::Error, Some(format!("the process ended with {exit}: {}", errors.trim())))
    };
    Outcome { status, consumer: None, message, seconds, usage: None, digest: None }
}

/// Waits for the one line of the child. It is read by a thread, so that the wait can end before the child.
fn read_line(
    child: &mut Child,
    timeout: Duration,
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
    receiver.recv_timeout(timeout)
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
