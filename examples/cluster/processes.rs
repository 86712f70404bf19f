//! Starts the processes of a cluster on 127.0.0.1, watches and ends them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use tonic::transport::Channel;

use crate::Result;
use crate::counters::{ACTION, Counts};
use crate::ports::free_port;
use crate::roles::Engine;

/// How long a process may take until it is ready.
const START: Duration = Duration::from_secs(60);

/// A cluster to start.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) engine: Engine,
    pub(crate) executors: usize,
    /// Tasks at a time per executor.
    pub(crate) vcores: usize,
    /// Bytes of the memory pool of each executor; none is no limit.
    pub(crate) memory: Option<u64>,
    /// After how many seconds without a sign of life an executor is lost.
    pub(crate) patience: u64,
}

/// A process that is killed when it is dropped.
struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An executor.
pub(crate) struct Executor {
    process: Process,
    port: u16,
}

/// A scheduler and executors; they end when it is dropped.
pub(crate) struct Cluster {
    _scheduler: Process,
    pub(crate) port: u16,
    pub(crate) executors: Vec<Executor>,
    _directory: tempfile::TempDir,
}

fn start(logs: &Path, name: &str, arguments: &[String]) -> Result<Process> {
    let log = File::create(logs.join(format!("{name}.log")))?;
    let child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(Process { child })
}

/// Waits until `ready` says so, or the process has ended.
fn wait_for(
    process: &mut Process,
    name: &str,
    logs: &Path,
    ready: impl Fn() -> bool,
) -> Result<()> {
    let begun = Instant::now();
    while !ready() {
        let ended = process.child.try_wait()?;
        if ended.is_some() || begun.elapsed() > START {
            let log = fs::read_to_string(logs.join(format!("{name}.log"))).unwrap_or_default();
            return Err(format!("{name} did not start ({ended:?}):\n{log}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether a GET of `path` is answered with 200.
fn answers(port: u16, path: &str) -> bool {
    let get = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    get().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

impl Cluster {
    /// Starts a cluster; its files are below `directory` until it ends. Blocks the thread.
    pub(crate) fn start(plan: &Plan, directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = tempfile::tempdir_in(directory)?;
        let logs = directory.path();
        let port = free_port()?;
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let (port_text, patience) = (port.to_string(), plan.patience.to_string());
        let arguments: Vec<String> =
            words(&["scheduler", "--port", &port_text, "--patience", &patience]);
        let mut scheduler = start(logs, "scheduler", &arguments)?;
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        wait_for(&mut scheduler, "scheduler", logs, listens)?;
        let mut executors = Vec::new();
        for number in 0..plan.executors {
            let name = format!("executor-{number}");
            let work_dir = logs.join(&name);
            fs::create_dir(&work_dir)?;
            let [flight, grpc, health] = [free_port()?, free_port()?, free_port()?];
            let engine = match plan.engine {
                Engine::Stock => "stock",
                Engine::Ifile => "ifile",
            };
            let mut arguments: Vec<String> = words(&[
                "executor",
                "--engine",
                engine,
                "--id",
                &name,
                "--bind-host",
                "127.0.0.1",
                "--external-host",
                "127.0.0.1",
                "--scheduler-host",
                "127.0.0.1",
                "--executor-heartbeat-interval-seconds",
                "1",
            ]);
            for (flag, value) in [
                ("--scheduler-port", port.to_string()),
                ("--bind-port", flight.to_string()),
                ("--bind-grpc-port", grpc.to_string()),
                ("--bind-health-port", health.to_string()),
                ("--vcores", plan.vcores.to_string()),
                ("--memory-pool-size", plan.memory.unwrap_or(0).to_string()),
                ("--work-dir", work_dir.display().to_string()),
            ] {
                arguments.extend([flag.to_owned(), value]);
            }
            let mut process = start(logs, &name, &arguments)?;
            wait_for(&mut process, &name, logs, || answers(health, "/readyz"))?;
            executors.push(Executor { process, port: flight });
        }
        Ok(Self { _scheduler: scheduler, port, executors, _directory: directory })
    }

    /// The sum of what all executors have done.
    pub(crate) async fn counts(&self) -> Result<Counts> {
        let mut sum = Counts::default();
        for executor in &self.executors {
            let counts = executor.counts().await?;
            sum.written += counts.written;
            sum.served += counts.served;
            sum.partitions += counts.partitions;
            sum.failed_fetches += counts.failed_fetches;
        }
        Ok(sum)
    }

    /// The most memory that an executor held since the last call of [`Cluster::forget_peaks`].
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        let peaks = self.executors.iter().map(Executor::peak_bytes);
        Ok(peaks.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0))
    }

    /// Lets the peaks begin at what is held now.
    pub(crate) fn forget_peaks(&self) -> Result<()> {
        for executor in &self.executors {
            let path = format!("/proc/{}/clear_refs", executor.process.child.id());
            fs::write(&path, "5").map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    }
}

impl Executor {
    /// What it has done since it began.
    pub(crate) async fn counts(&self) -> Result<Counts> {
        let address = format!("http://127.0.0.1:{}", self.port);
        let channel = Channel::from_shared(address)?.connect().await?;
        let mut client = FlightServiceClient::new(channel);
        let action = Action { r#type: ACTION.to_owned(), body: Default::default() };
        let mut answer = client.do_action(action).await?.into_inner();
        let message = answer.message().await?.ok_or("no counts")?;
        Ok(serde_json::from_slice(&message.body)?)
    }

    fn peak_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.ok_or(format!("{path}: no VmHWM"))?.trim().parse()?;
        Ok(kilobytes * 1024)
    }

    /// Ends it at once, as if the machine was lost.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.child.kill()?;
        self.process.child.wait()?;
        Ok(())
    }
}
