//! A scheduler in this process, and executors of their own processes.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Once};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::compare::{self, Texts};
use crate::ports::free_port;
use crate::register::register_tables;
use crate::suite::Suite;

/// An executor with this crate's engine; it is killed when it is dropped.
pub(crate) struct Executor {
    child: Child,
    pub(crate) work_dir: PathBuf,
}

impl Drop for Executor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Executor {
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Files below the work directory, with their lengths.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        list(&self.work_dir, &mut files);
        files
    }

    /// Whether a hash shuffle is in its files.
    pub(crate) fn has_outputs(&self) -> bool {
        self.files().iter().any(|(path, _)| path.ends_with("data.arrow.index"))
    }
}

fn list(directory: &Path, files: &mut Vec<(PathBuf, u64)>) {
    // Both may go while they are looked at.
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => list(&entry.path(), files),
            Ok(metadata) => files.push((entry.path(), metadata.len())),
            Err(_) => {}
        }
    }
}

pub(crate) struct Cluster {
    pub(crate) port: u16,
    pub(crate) executors: Vec<Executor>,
    state: BallistaCluster,
    scheduler: tokio::task::JoinHandle<()>,
    directory: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.scheduler.abort();
    }
}

impl Cluster {
    /// A scheduler that removes what a job has written `clean_up` seconds after its end.
    pub(crate) async fn new(clean_up: u64) -> Self {
        let mut config = SchedulerConfig::default();
        config.bind_port = free_port().unwrap();
        config.external_host = "127.0.0.1".to_owned();
        config.finished_job_data_clean_up_interval_seconds = clean_up;
        config.executor_timeout_seconds = 10;
        config.expire_dead_executor_interval_seconds = 1;
        let port = config.bind_port;
        let state = BallistaCluster::new_from_config(&config).await.unwrap();
        let address: SocketAddr = ([127, 0, 0, 1], port).into();
        let server = start_server(state.clone(), address, Arc::new(config));
        let scheduler = tokio::spawn(async move { server.await.unwrap() });
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let directory = tempfile::tempdir().unwrap();
        Self { port, executors: Vec::new(), state, scheduler, directory }
    }

    /// Starts executors, each with a pool of `memory`, and waits until the scheduler knows them.
    pub(crate) async fn with_executors(mut self, count: usize, memory: &str) -> Self {
        let known = self.state.cluster_state().registered_executor_metadata().await.len();
        for _ in 0..count {
            let name = format!("executor-{}", self.executors.len());
            let work_dir = self.directory.path().join(&name);
            fs::create_dir(&work_dir).unwrap();
            let log = File::create(self.directory.path().join(format!("{name}.log"))).unwrap();
            let child = Command::new(env!("CARGO_BIN_EXE_ifile-executor"))
                .args(["--id", &name, "--bind-host", "127.0.0.1", "--external-host", "127.0.0.1"])
                .args(["--scheduler-host", "127.0.0.1", "--vcores", "2"])
                .args(["--executor-heartbeat-interval-seconds", "1"])
                .args(["--scheduler-port", &self.port.to_string()])
                .args(["--bind-port", &free_port().unwrap().to_string()])
                .args(["--bind-grpc-port", &free_port().unwrap().to_string()])
                .args(["--bind-health-port", &free_port().unwrap().to_string()])
                .args(["--memory-pool-size", memory])
                .args(["--work-dir".as_ref(), work_dir.as_os_str()])
                .args(["--ifile", "codec=lz4"])
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            self.executors.push(Executor { child, work_dir });
        }
        self.wait_for(known + count).await;
        self
    }

    /// Starts executors once the scheduler has forgotten all others.
    pub(crate) async fn with_executors_again(self, count: usize) -> Self {
        let begun = std::time::Instant::now();
        while !self.state.cluster_state().registered_executor_metadata().await.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "executors are not forgotten");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        fs::remove_dir_all(self.directory.path()).unwrap();
        fs::create_dir(self.directory.path()).unwrap();
        self.with_executors(count, "0").await
    }

    /// Starts an executor of Ballista in this process.
    pub(crate) async fn with_stock_executor(self) -> Self {
        let known = self.state.cluster_state().registered_executor_metadata().await.len();
        let work_dir = self.directory.path().join("stock");
        fs::create_dir(&work_dir).unwrap();
        let config = ExecutorProcessConfig {
            executor_id: "stock".to_owned(),
            bind_host: "127.0.0.1".to_owned(),
            external_host: Some("127.0.0.1".to_owned()),
            scheduler_host: "127.0.0.1".to_owned(),
            scheduler_port: self.port,
            port: free_port().unwrap(),
            grpc_port: free_port().unwrap(),
            vcores: 2,
            work_dir: Some(work_dir.display().to_string()),
            executor_heartbeat_interval_seconds: 1,
            ..ExecutorProcessConfig::default()
        };
        tokio::spawn(async move { drop(start_executor_process(Arc::new(config)).await) });
        self.wait_for(known + 1).await;
        self
    }

    async fn wait_for(&self, count: usize) {
        let begun = std::time::Instant::now();
        while self.state.cluster_state().registered_executor_metadata().await.len() < count {
            if begun.elapsed() > Duration::from_secs(60) {
                panic!("{}", self.logs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The last lines that the executors have logged.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for at in 0..self.executors.len() {
            let path = self.directory.path().join(format!("executor-{at}.log"));
            let log = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(30);
            text = format!("{text}\nexecutor-{at}:\n{}", lines[last..].join("\n"));
        }
        text
    }

    /// A session with the tables of TPC-DS.
    pub(crate) async fn session(&self, adaptive: bool, force_remote: bool) -> SessionContext {
        let mut config = SessionConfig::new_with_ballista()
            .with_target_partitions(6)
            .with_ballista_adaptive_query_planner(adaptive)
            // Joins of small tables too shuffle both sides.
            .with_ballista_broadcast_join_threshold_bytes(20_000)
            .with_ballista_broadcast_join_threshold_rows(100)
            .with_ballista_shuffle_reader_force_remote_read(force_remote);
        let options = config.options_mut();
        options.set("ballista.client.io_retries_times", "1").unwrap();
        options.set("ballista.client.io_retry_wait_time_ms", "50").unwrap();
        let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
        let url = format!("df://127.0.0.1:{}", self.port);
        let context = SessionContext::remote_with_state(&url, state).await.unwrap();
        register_tables(&context, &tables()).await.unwrap();
        context
    }
}

/// The tables of a small scale, made once.
pub(crate) fn tables() -> PathBuf {
    static MADE: Once = Once::new();
    let directory = Suite::Tpcds.dir(Path::new(env!("CARGO_TARGET_TMPDIR")), SCALE);
    MADE.call_once(|| crate::generate::generate(&directory, Suite::Tpcds, SCALE).unwrap());
    directory
}

const SCALE: f64 = 0.02;

/// The text of a query of `sql/tpcds`.
pub(crate) fn sql(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sql/tpcds/{name}.sql"));
    fs::read_to_string(path).unwrap()
}

/// The rows of the last statement of `sql`.
pub(crate) async fn run(context: &SessionContext, sql: &str) -> crate::Result<RecordBatch> {
    let mut rows = None;
    for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
        let frame = context.sql(statement).await?;
        let schema = frame.schema().inner().clone();
        let batches = frame.collect().await?;
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        rows = Some(concat_batches(&schema, &batches)?);
    }
    Ok(rows.unwrap())
}

/// The rows of `sql` by DataFusion in this process.
pub(crate) async fn answer(sql: &str) -> RecordBatch {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register_tables(&context, &tables()).await.unwrap();
    run(&context, sql).await.unwrap()
}

/// Whether both have the same rows; says what differs.
pub(crate) fn assert_same(answer: &RecordBatch, rows: &RecordBatch, what: &str) {
    let difference = compare::compare(answer, rows, Texts::Exact).unwrap();
    assert!(
        difference.is_empty(),
        "{what}: missing {:?}, wrong {:?}",
        difference.left_only,
        difference.right_only
    );
}
