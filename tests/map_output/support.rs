//! Inputs, tasks and readers that the tests share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{Int64Type, SchemaRef, UInt64Type};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use datafusion_ifile::map_output::{
    IndexLayout, LocalOutput, MapOutputOptions, OpenSegments, OutputName, OutputStore,
    SegmentSource, ShuffleRead,
};
use datafusion_ifile::map_status::{Location, MapStatus};
use datafusion_ifile::{
    IFileError, IFileOptions, IFileShuffleReaderExec, IFileShuffleWriterExec, ShuffleWrite,
};
use futures::stream::BoxStream;
use parking_lot::Mutex;

/// Rows `from..to`: a number, and a text with nulls.
pub(crate) fn rows(from: i64, to: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let text = |n: i64| {
        (n % 7 != 0)
            .then(|| format!("{:x} of row {}", n.wrapping_mul(0x1234_5678_9abc_def1), n / 64))
    };
    let texts: ArrayRef = Arc::new((from..to).map(text).collect::<StringArray>());
    RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("t", texts, true)]).unwrap()
}

pub(crate) fn schema() -> SchemaRef {
    rows(0, 0).schema()
}

/// `parts` inputs with batches of `step` of the rows `0..total`.
pub(crate) fn input(total: i64, parts: usize, step: usize) -> Arc<dyn ExecutionPlan> {
    let mut inputs = vec![vec![]; parts];
    for (at, from) in (0..total).step_by(step).enumerate() {
        inputs[at % parts].push(rows(from, (from + step as i64).min(total)));
    }
    MemorySourceConfig::try_new_exec(&inputs, schema(), None).unwrap()
}

/// An output that is opened in a way of the test's own.
pub(crate) struct Opening<F> {
    pub(crate) inner: LocalOutput,
    pub(crate) open: F,
}

impl<F> fmt::Debug for Opening<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<F> SegmentSource for Opening<F>
where
    F: Fn(&LocalOutput) -> datafusion_ifile::Result<Box<dyn OpenSegments>> + Send + Sync + 'static,
{
    fn map_id(&self) -> u64 {
        self.inner.map_id()
    }

    fn name(&self) -> Arc<str> {
        self.inner.name()
    }

    fn layout(&self) -> IndexLayout {
        self.inner.layout()
    }

    fn open(&self) -> datafusion_ifile::Result<Box<dyn OpenSegments>> {
        (self.open)(&self.inner)
    }

    fn await_commit(&self) {
        self.inner.await_commit();
    }
}

type Batches = BoxStream<'static, datafusion::error::Result<RecordBatch>>;

/// An input that is executed once.
struct Once(Mutex<Option<Batches>>, SchemaRef);

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.1
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.0.lock().take().unwrap();
        Box::pin(RecordBatchStreamAdapter::new(schema(), batches))
    }
}

/// Inputs of the batches that `streams` give.
pub(crate) fn streamed(streams: Vec<Batches>) -> Arc<dyn ExecutionPlan> {
    let once =
        |stream| Arc::new(Once(Mutex::new(Some(stream)), schema())) as Arc<dyn PartitionStream>;
    let inputs = streams.into_iter().map(once).collect();
    let table = StreamingTableExec::try_new(schema(), inputs, None, None, false, None);
    Arc::new(table.unwrap())
}

pub(crate) fn order() -> LexOrdering {
    let key = col("n", &schema()).unwrap();
    [PhysicalSortExpr::new(key, SortOptions::default())].into()
}

/// As [`input`]; every input is sorted by `n`, and says so.
pub(crate) fn sorted_input(total: i64, parts: usize, step: usize) -> Arc<dyn ExecutionPlan> {
    let mut inputs = vec![vec![]; parts];
    for (at, from) in (0..total).step_by(step).enumerate() {
        inputs[at % parts].push(rows(from, (from + step as i64).min(total)));
    }
    let source = MemorySourceConfig::try_new(&inputs, schema(), None).unwrap();
    let source = source.try_with_sort_information(vec![order()]).unwrap();
    Arc::new(DataSourceExec::new(Arc::new(source)))
}

pub(crate) fn hash(partitions: usize) -> Partitioning {
    Partitioning::Hash(vec![col("n", &schema()).unwrap()], partitions)
}

pub(crate) fn write_to(directory: &Path, map_id: u64, layout: IndexLayout) -> ShuffleWrite {
    ShuffleWrite {
        directory: directory.to_owned(),
        name: OutputName { shuffle: 1, map_id },
        attempt: 0,
        epoch: 1,
        location: Location::default(),
        output: MapOutputOptions { layout, ..MapOutputOptions::default() },
    }
}

pub(crate) fn context(runtime: &Arc<RuntimeEnv>, batch_rows: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(Arc::clone(runtime)))
}

pub(crate) fn limited(bytes: usize) -> Arc<RuntimeEnv> {
    let pool = Arc::new(GreedyMemoryPool::new(bytes));
    RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap()
}

/// What a writer told.
pub(crate) struct Written {
    pub(crate) status: MapStatus,
    pub(crate) summary: RecordBatch,
}

impl Written {
    pub(crate) fn of(summary: &RecordBatch) -> Self {
        let status = summary.column_by_name("status").unwrap().as_binary::<i32>().value(0);
        Self { status: MapStatus::decode(status).unwrap(), summary: summary.clone() }
    }

    pub(crate) fn number(&self, column: &str) -> u64 {
        self.summary.column_by_name(column).unwrap().as_primitive::<UInt64Type>().value(0)
    }

    pub(crate) fn committed(&self) -> bool {
        self.summary.column_by_name("committed").unwrap().as_boolean().value(0)
    }
}

pub(crate) async fn try_write(
    input: Arc<dyn ExecutionPlan>,
    partitioning: Partitioning,
    write: ShuffleWrite,
    context: &Arc<TaskContext>,
) -> Result<Written, DataFusionError> {
    let options = IFileOptions::default();
    let writer = IFileShuffleWriterExec::try_new(input, partitioning, write, options)?;
    let summary = collect(Arc::new(writer), Arc::clone(context)).await?;
    let [summary] = &summary[..] else { panic!("one row") };
    Ok(Written::of(summary))
}

pub(crate) async fn write(
    input: Arc<dyn ExecutionPlan>,
    partitioning: Partitioning,
    write: ShuffleWrite,
    context: &Arc<TaskContext>,
) -> Written {
    try_write(input, partitioning, write, context).await.unwrap()
}

/// The output that a status tells of.
pub(crate) fn source(status: &MapStatus) -> LocalOutput {
    let data = Path::new(&*status.location.path);
    let layout = IndexLayout::from_wire_id(status.layout).unwrap();
    LocalOutput::new(status.map_id, data, data.with_extension("index"), layout)
}

pub(crate) fn reads(statuses: &[MapStatus]) -> Vec<Vec<ShuffleRead>> {
    let partitions = statuses[0].placement.count;
    let of = |partition: u32| {
        let read = |status: &MapStatus| {
            ShuffleRead::new(Arc::new(source(status)), partition..partition + 1)
                .with_attempt_id(status.attempt_id)
        };
        statuses.iter().map(read).collect()
    };
    (0..partitions).map(of).collect()
}

pub(crate) fn reader(status: &MapStatus, reads: Vec<Vec<ShuffleRead>>) -> IFileShuffleReaderExec {
    let partitioning = Partitioning::UnknownPartitioning(reads.len());
    let options = IFileOptions::default();
    IFileShuffleReaderExec::try_new(schema(), status.placement, partitioning, reads, options)
        .unwrap()
}

/// The rows of each partition of `reads`.
pub(crate) async fn read(
    status: &MapStatus,
    reads: Vec<Vec<ShuffleRead>>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Vec<RecordBatch>>, DataFusionError> {
    let reader: Arc<dyn ExecutionPlan> = Arc::new(reader(status, reads));
    let mut all = Vec::new();
    for partition in 0..reader.properties().partitioning.partition_count() {
        let stream = reader.execute(partition, Arc::clone(context))?;
        all.push(datafusion::physical_plan::common::collect(stream).await?);
    }
    Ok(all)
}

/// The numbers of all rows.
pub(crate) fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    let values =
        |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(values).collect()
}

/// Asserts that `parts` are exactly the rows `0..total`, each with its own text, and every one where the stock node puts it.
pub(crate) fn assert_all_rows(parts: &[Vec<RecordBatch>], total: i64) {
    let mut seen: Vec<i64> = parts.iter().flat_map(|part| numbers(part)).collect();
    seen.sort_unstable();
    assert!(seen == (0..total).collect::<Vec<_>>(), "{} of {total} rows", seen.len());
    for batch in parts.iter().flatten() {
        for (row, n) in numbers(std::slice::from_ref(batch)).into_iter().enumerate() {
            assert_eq!(batch.slice(row, 1), rows(n, n + 1), "row {n}");
        }
    }
}

/// The crate's error inside of DataFusion's.
pub(crate) fn lost(error: &DataFusionError) -> &datafusion_ifile::LostOutput {
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<IFileError>() {
            Some(IFileError::LostOutput(lost)) => lost,
            other => panic!("{other:?}"),
        },
        other => panic!("{other}"),
    }
}

/// Lets other tasks run until `done`.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let waits = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    let beyond_any_machine = std::time::Duration::from_secs(60);
    tokio::time::timeout(beyond_any_machine, waits).await.expect("what is held is released");
}

/// Waits until a task that failed or was dropped holds neither memory nor scratch files.
pub(crate) async fn released(runtime: &RuntimeEnv) {
    let files = || runtime.disk_manager.spilling_progress().active_files_count;
    until(|| runtime.memory_pool.reserved() == 0 && files() == 0).await;
}

/// All files of a directory, ascending.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

pub(crate) fn store(directory: &Path) -> OutputStore {
    OutputStore::new(directory)
}

pub(crate) fn as_source(source: impl SegmentSource + 'static) -> Arc<dyn SegmentSource> {
    Arc::new(source)
}
