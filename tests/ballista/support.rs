//! Stages of one job, run by an engine as an executor does, and a Flight service over their files.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use ballista_core::JobId;
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::sort_shuffle::SortShuffleConfig;
use ballista_core::execution_plans::{
    CoalescePlan, PartitionGroup, RangeShuffleReaderExec, ShuffleReaderExec, SortShuffleWriterExec,
};
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::ShuffleWritePartition;
use ballista_core::serde::scheduler::{
    ExecutorMetadata, ExecutorOperatingSystemSpecification, ExecutorSpecification, PartitionId,
    PartitionLocation, PartitionStats,
};
use ballista_executor::execution_engine::{ExecutionEngine, QueryStageExecutor};
use ballista_executor::flight_service::BallistaFlightService;
use datafusion::common::DataFusionError;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_ifile::ballista::IFileExecutionEngine;
use futures::TryStreamExt;

pub(crate) const STAGE: usize = 3;
pub(crate) const PARTITIONS: usize = 5;

/// A directory of an executor, and where its Flight service listens.
pub(crate) struct Executor {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Serves `service` on a port that is free.
pub(crate) async fn serve<S: FlightService>(
    service: S,
) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(FlightServiceServer::new(service));
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    (address, server)
}

impl Executor {
    pub(crate) async fn new() -> Self {
        Self::serving(BallistaFlightService::new).await
    }

    /// One whose Flight service is made by `service`, of the name of its directory.
    pub(crate) async fn serving<S: FlightService>(service: impl FnOnce(String) -> S) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let service = service(directory.path().display().to_string());
        let (address, server) = serve(service).await;
        Self { directory, address, server }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The data file of a task of [`STAGE`].
    pub(crate) fn data(&self, task: usize) -> PathBuf {
        self.path().join(format!("job/{STAGE}/{task}/data.arrow"))
    }

    pub(crate) fn index(&self, task: usize) -> PathBuf {
        self.data(task).with_extension("arrow.index")
    }

    /// Where partitions are that a task reported.
    pub(crate) fn locations(&self, reported: &[ShuffleWritePartition]) -> Vec<PartitionLocation> {
        let location = |written: &ShuffleWritePartition| PartitionLocation {
            map_partition_id: 0,
            partition_id: PartitionId::new(&job(), STAGE, written.partition_id as usize),
            executor_meta: ExecutorMetadata {
                id: "executor-a".to_owned(),
                host: self.address.ip().to_string(),
                port: self.address.port(),
                grpc_port: 0,
                specification: ExecutorSpecification::default(),
                os_info: ExecutorOperatingSystemSpecification::default(),
            },
            partition_stats: PartitionStats::new(
                Some(written.num_rows),
                Some(written.num_batches),
                Some(written.num_bytes),
            ),
            file_id: written.file_id,
            is_sort_shuffle: written.is_sort_shuffle,
        };
        reported.iter().map(location).collect()
    }
}

pub(crate) fn job() -> JobId {
    "job".into()
}

/// `rows` rows with keys from `first`, in batches of a hundred.
pub(crate) fn rows(first: i64, rows: i64) -> Vec<RecordBatch> {
    let batch = |from: i64| {
        let keys: Vec<i64> = (from..(from + 100).min(first + rows)).collect();
        let texts = keys.iter().map(|key| (key % 7 != 0).then(|| format!("text of {key}")));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(Int64Array::from(keys.clone()))),
            ("text", Arc::new(StringArray::from_iter(texts))),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    };
    (first..first + rows).step_by(100).map(batch).collect()
}

pub(crate) fn schema() -> SchemaRef {
    rows(0, 1)[0].schema()
}

pub(crate) fn by_key() -> LexOrdering {
    let key = PhysicalSortExpr::new_default(col("key", &schema()).unwrap());
    LexOrdering::new([key]).unwrap()
}

/// The plan of a task that writes `inputs` by hash of the key.
pub(crate) fn writing(inputs: &[Vec<RecordBatch>], sorted: bool) -> Arc<dyn ExecutionPlan> {
    let source = MemorySourceConfig::try_new(inputs, schema(), None).unwrap();
    let source =
        if sorted { source.try_with_sort_information(vec![by_key(); 1]).unwrap() } else { source };
    writing_of(DataSourceExec::from_data_source(source))
}

/// The plan of a task that writes the rows of `input` by hash of the key.
pub(crate) fn writing_of(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let placed = Partitioning::Hash(vec![col("key", &schema()).unwrap()], PARTITIONS);
    let config = SortShuffleConfig::new(true, 8192);
    Arc::new(
        SortShuffleWriterExec::try_new(job(), STAGE, input, String::new(), placed, config).unwrap(),
    )
}

/// Reads each partition from the locations of all tasks.
pub(crate) fn reading(locations: &[PartitionLocation]) -> Arc<dyn ExecutionPlan> {
    let placed = Partitioning::Hash(vec![col("key", &schema()).unwrap()], PARTITIONS);
    let reader = ShuffleReaderExec::try_new(STAGE, by_partition(locations), schema(), placed);
    Arc::new(reader.unwrap())
}

/// The same, by all tasks of each partition merged.
pub(crate) fn merging(locations: &[PartitionLocation]) -> Arc<dyn ExecutionPlan> {
    let reader =
        RangeShuffleReaderExec::try_new(STAGE, by_partition(locations), schema(), by_key());
    Arc::new(reader.unwrap())
}

/// Reads the partitions of `groups` together.
pub(crate) fn coalescing(
    locations: &[PartitionLocation],
    groups: &[Vec<u32>],
) -> Arc<dyn ExecutionPlan> {
    let all = by_partition(locations);
    let of_group =
        |group: &Vec<u32>| group.iter().flat_map(|at| all[*at as usize].clone()).collect();
    let read: Vec<Vec<PartitionLocation>> = groups.iter().map(of_group).collect();
    let coalesced = CoalescePlan {
        upstream_partition_count: PARTITIONS as u32,
        groups: groups
            .iter()
            .map(|group| PartitionGroup { upstream_indices: group.clone() })
            .collect(),
    };
    let placed = Partitioning::UnknownPartitioning(groups.len());
    let reader = ShuffleReaderExec::try_new_coalesced(STAGE, read, coalesced, schema(), placed);
    Arc::new(reader.unwrap())
}

pub(crate) fn by_partition(locations: &[PartitionLocation]) -> Vec<Vec<PartitionLocation>> {
    let of = |partition: usize| {
        let of = |location: &&PartitionLocation| location.partition_id.partition_id == partition;
        locations.iter().filter(of).cloned().collect()
    };
    (0..PARTITIONS).map(of).collect()
}

/// A session whose fetches are tried again once, at once.
pub(crate) fn session(force_remote: bool) -> SessionConfig {
    let mut config = SessionConfig::new_with_ballista()
        .with_ballista_shuffle_reader_force_remote_read(force_remote)
        .with_batch_size(512);
    for (key, value) in
        [("ballista.client.io_retries_times", "1"), ("ballista.client.io_retry_wait_time_ms", "0")]
    {
        config.options_mut().set(key, value).unwrap();
    }
    config
}

/// The context of a task with a pool of `memory` bytes, or without a limit.
pub(crate) fn context(config: SessionConfig, memory: Option<usize>) -> Arc<TaskContext> {
    let pool: Arc<dyn MemoryPool> = match memory {
        Some(bytes) => Arc::new(FairSpillPool::new(bytes)),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime))
}

pub(crate) fn engine() -> IFileExecutionEngine {
    IFileExecutionEngine::default()
}

/// The task of `plan` as an executor makes it.
pub(crate) fn stage(
    engine: &dyn ExecutionEngine,
    executor: &Executor,
    task: usize,
    plan: Arc<dyn ExecutionPlan>,
) -> Arc<dyn QueryStageExecutor> {
    let directory = executor.path().display().to_string();
    let config = session(false);
    engine
        .create_query_stage_exec(job(), STAGE, task, vec![task], plan, &directory, &config)
        .unwrap()
}

/// Writes `inputs` as the output of `task`, and returns what is reported of it.
pub(crate) async fn write(
    engine: &dyn ExecutionEngine,
    executor: &Executor,
    task: usize,
    inputs: &[Vec<RecordBatch>],
    sorted: bool,
) -> Vec<ShuffleWritePartition> {
    let stage = stage(engine, executor, task, writing(inputs, sorted));
    stage.execute_query_stage(task, context(session(false), None)).await.unwrap()
}

/// The batches of a partition of `plan`, as `engine` runs it.
pub(crate) async fn read(
    engine: &IFileExecutionEngine,
    executor: &Executor,
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let plan = engine.with_readers(Arc::clone(plan), executor.path())?;
    assert_eq!(plan.name(), "IFileFetchExec");
    plan.execute(partition, context)?.try_collect().await
}

/// The rows of all partitions of `plan`.
pub(crate) async fn read_all(
    engine: &IFileExecutionEngine,
    executor: &Executor,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Vec<RecordBatch> {
    let mut all = Vec::new();
    for partition in 0..plan.properties().output_partitioning().partition_count() {
        let batches = read(engine, executor, plan, partition, Arc::clone(context)).await;
        all.extend(batches.unwrap());
    }
    all
}

/// The rows as sorted lines.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.retain(|line| line.starts_with("| ") && !line.contains("| key"));
    let mut lines: Vec<String> =
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort_unstable();
    lines
}

/// The keys in their order.
pub(crate) fn keys(batches: &[RecordBatch]) -> Vec<i64> {
    let one = concat_batches(&schema(), batches).unwrap();
    let keys = one.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
    keys.values().to_vec()
}

/// The failed fetch that an executor tells the scheduler of: executor, stage and message.
pub(crate) fn failed_fetch(error: DataFusionError) -> (String, usize, String) {
    let text = error.to_string();
    match BallistaError::from(error) {
        BallistaError::FetchFailed(executor, stage, _, message) => (executor, stage, message),
        _ => panic!("not a failed fetch: {text}"),
    }
}

/// The value of a metric of a node, of all its partitions.
pub(crate) fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    plan.metrics().unwrap().sum_by_name(name).map_or(0, |value| value.as_usize())
}

/// A number that grows.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(crate) fn add(&self, count: u64) -> u64 {
        self.0.fetch_add(count, Ordering::SeqCst) + count
    }

    pub(crate) fn take(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::SeqCst);
    }

    pub(crate) fn max(&self, value: u64) {
        self.0.fetch_max(value, Ordering::SeqCst);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until nothing is reserved: fetches that are stopped end soon.
pub(crate) async fn released(context: &TaskContext) {
    let pool = context.memory_pool();
    until("memory stays reserved", || pool.reserved() == 0).await;
}
