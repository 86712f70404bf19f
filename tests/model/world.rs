//! The plan of a case, its session, and what should come out.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{ScalarValue, SplitPoint};
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionConfig;
use datafusion_ifile::IFileRepartitionExec;
use tempfile::TempDir;

use crate::case::{Case, Ending, Scheme};
use crate::data::{KINDS, Kind, Maker};
use crate::disk::{Disk, Factory, Fault, FaultyDisk};
use crate::input::{Event, Input, Scripted};
use crate::pool::ScriptedPool;
use crate::rng::Rng;

/// Text of the errors and panics of inputs.
pub(crate) const SCRIPTED: &str = "an input ends by script";

pub(crate) struct World {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) inputs: Vec<Arc<Input>>,
    pub(crate) pool: Arc<ScriptedPool>,
    pub(crate) faulty: Option<Arc<FaultyDisk>>,
    pub(crate) expected: Expected,
    runtime: Arc<RuntimeEnv>,
    scratch: TempDir,
}

/// What a plain partitioner makes of the inputs.
pub(crate) struct Expected {
    pub(crate) schema: SchemaRef,
    converter: RowConverter,
    /// Of every row, by `id`, its input and its values.
    pub(crate) rows: HashMap<i64, (usize, Vec<u8>)>,
    /// The ids of output `o` from input `i`, in order, at `[o][i]`.
    pub(crate) ids: Vec<Vec<Vec<i64>>>,
    /// Whether dictionaries may overflow their keys, so that a batch is cut.
    pub(crate) cuts: bool,
}

impl Expected {
    pub(crate) fn ids_of(batch: &RecordBatch) -> Vec<i64> {
        batch.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    /// The values of every row of `batch`.
    pub(crate) fn values_of(&self, batch: &RecordBatch) -> Vec<Vec<u8>> {
        let rows = self.converter.convert_columns(batch.columns()).unwrap();
        rows.iter().map(|row| row.as_ref().to_vec()).collect()
    }
}

impl World {
    pub(crate) fn new(case: &Case) -> Self {
        let mut rng = Rng::new(case.seed);
        // DataFusion's merge fails where dictionaries do not fit their key type together.
        let merges = case.preserve_order && case.inputs > 1;
        let kinds: Vec<Kind> = KINDS
            .into_iter()
            .filter(|kind| rng.chance(40) && !(merges && *kind == Kind::SmallDictionary))
            .collect();
        let maker = Maker::new(&kinds, &mut rng);
        let batches = make_batches(case, &maker, &mut rng);
        let partitioning = partitioning(case, maker.schema());
        let expected = expect(case, &maker, &kinds, &partitioning, &batches);
        let inputs: Vec<_> = batches
            .into_iter()
            .enumerate()
            .map(|(input, batches)| {
                let last = batches.iter().rfind(|batch| batch.num_rows() > 0).cloned();
                let mut events: Vec<_> = batches.into_iter().map(Event::Batch).collect();
                events.extend(match (input, case.ending) {
                    (0, Ending::Error) => Some(Event::Error(SCRIPTED.to_owned())),
                    (0, Ending::Panic) => Some(Event::Panic(SCRIPTED.to_owned())),
                    (_, Ending::Never) => last.map(Event::Endless),
                    _ => None,
                });
                Input::new(maker.schema(), events)
            })
            .collect();
        let scratch = scratch_directory();
        let (disk, faulty) = disk(case, &scratch);
        let pool = Arc::new(ScriptedPool::new(case.refusals, case.seed));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
            .with_disk_manager_builder(disk)
            .build()
            .unwrap();
        let runtime = Arc::new(runtime);
        let mut config = SessionConfig::new().with_batch_size(case.batch_rows);
        config
            .options_mut()
            .set("datafusion.execution.max_spill_file_size_bytes", &case.file_bytes.to_string())
            .unwrap();
        let context = TaskContext::default().with_session_config(config);
        Self {
            plan: plan(case, &scratch, maker.schema(), &inputs, partitioning),
            context: Arc::new(context.with_runtime(Arc::clone(&runtime))),
            inputs,
            pool,
            faulty,
            expected,
            runtime,
            scratch,
        }
    }

    /// What is still held, in words; `None` when there is nothing.
    pub(crate) fn left(&self) -> Option<String> {
        let mut left = Vec::new();
        let live = self.inputs.iter().filter(|input| input.is_live()).count();
        if live > 0 {
            left.push(format!("{live} inputs"));
        }
        match self.pool.reserved() {
            0 => {}
            bytes => left.push(format!("{bytes} bytes reserved")),
        }
        match self.pool.exchanges().0 {
            0 => {}
            count => left.push(format!("{count} memory consumers")),
        }
        let progress = self.runtime.disk_manager.spilling_progress();
        if progress.current_bytes > 0 || progress.active_files_count > 0 {
            left.push(format!("{progress:?}"));
        }
        match self.faulty.as_ref().map_or(0, |disk| disk.live()) {
            0 => {}
            count => left.push(format!("{count} files of the backend")),
        }
        let files = self.files();
        if files > 0 {
            left.push(format!("{files} files"));
        }
        if left.is_empty() { None } else { Some(left.join(", ")) }
    }

    fn files(&self) -> usize {
        let mut directories = self.runtime.disk_manager.temp_dir_paths();
        if self.faulty.is_some() {
            directories.push(self.scratch.path().to_path_buf());
        }
        let own = OWN_DIRECTORIES.map(|name| self.scratch.path().join(name));
        directories.extend(own.into_iter().filter(|path| path.exists()));
        directories.iter().map(|path| std::fs::read_dir(path).unwrap().count()).sum()
    }

    pub(crate) fn metric(&self, name: &str) -> usize {
        let metrics = self.plan.metrics().unwrap();
        metrics.sum(|metric| metric.value().name() == name).map_or(0, |value| value.as_usize())
    }
}

/// Some batches for every input. Ids grow within an input, and no two rows share one.
fn make_batches(case: &Case, maker: &Maker, rng: &mut Rng) -> Vec<Vec<RecordBatch>> {
    let mut next = vec![0_i64; case.inputs];
    let step = i64::try_from(case.inputs).unwrap();
    (0..case.inputs)
        .map(|input| {
            let count = 1 + rng.below(case.batches);
            let batches = (0..count).map(|_| {
                let rows = if rng.chance(10) { 0 } else { 1 + rng.below(case.rows) };
                let ids: Vec<_> = (0..rows)
                    .map(|_| {
                        next[input] += 1 + i64::try_from(rng.below(3)).unwrap();
                        next[input] * step + i64::try_from(input).unwrap()
                    })
                    .collect();
                maker.batch(&ids, rng)
            });
            batches.collect()
        })
        .collect()
}

fn partitioning(case: &Case, schema: &SchemaRef) -> Partitioning {
    let key = col("key", schema).unwrap();
    match case.scheme {
        Scheme::Hash => Partitioning::Hash(vec![key], case.outputs),
        Scheme::RoundRobin => Partitioning::RoundRobinBatch(case.outputs),
        Scheme::Range => {
            let points = (1..case.outputs)
                .map(|point| i64::try_from(point).unwrap())
                .map(|point| SplitPoint::new(vec![ScalarValue::Int64(Some(point))]));
            let key = PhysicalSortExpr::new(key, SortOptions::default());
            let order = LexOrdering::new(vec![key]).unwrap();
            Partitioning::Range(RangePartitioning::try_new(order, points.collect()).unwrap())
        }
    }
}

/// Names of directories of the exchange itself.
const OWN_DIRECTORIES: [&str; 2] = ["own-a", "own-b"];

fn plan(
    case: &Case,
    scratch: &TempDir,
    schema: &SchemaRef,
    inputs: &[Arc<Input>],
    partitioning: Partitioning,
) -> Arc<dyn ExecutionPlan> {
    let partitions = inputs
        .iter()
        .map(|input| Arc::new(Scripted(Arc::clone(input))) as Arc<dyn PartitionStream>)
        .collect();
    let id = PhysicalSortExpr::new(col("id", schema).unwrap(), SortOptions::default());
    let order = case.preserve_order.then(|| LexOrdering::new(vec![id]).unwrap());
    let table =
        StreamingTableExec::try_new(Arc::clone(schema), partitions, None, order, false, None);
    let mut options = case.options();
    if case.disk == Disk::Own {
        let paths = OWN_DIRECTORIES.map(|name| scratch.path().join(name).display().to_string());
        options.scratch_dirs = paths.join(",").parse().unwrap();
    }
    let node = IFileRepartitionExec::try_new(Arc::new(table.unwrap()), partitioning, options);
    let node = node.unwrap();
    Arc::new(if case.preserve_order { node.with_preserve_order() } else { node })
}

fn expect(
    case: &Case,
    maker: &Maker,
    kinds: &[Kind],
    partitioning: &Partitioning,
    batches: &[Vec<RecordBatch>],
) -> Expected {
    let schema = Arc::clone(maker.schema());
    let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
    let mut expected = Expected {
        converter: RowConverter::new(fields.collect()).unwrap(),
        schema,
        rows: HashMap::new(),
        ids: vec![vec![vec![]; case.inputs]; case.outputs],
        cuts: kinds.contains(&Kind::SmallDictionary),
    };
    let merges = case.preserve_order && case.inputs > 1;
    for (input, batches) in batches.iter().enumerate() {
        // An ordered exchange deals every input's batches from output 0.
        let turn = if merges { 0 } else { input };
        let mut stock =
            BatchPartitioner::try_new(partitioning.clone(), Time::new(), turn, case.inputs)
                .unwrap();
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            for (id, values) in Expected::ids_of(batch).into_iter().zip(expected.values_of(batch)) {
                expected.rows.insert(id, (input, values));
            }
            let place = |output: usize, part: RecordBatch| {
                expected.ids[output][input].extend(Expected::ids_of(&part));
                Ok(())
            };
            stock.partition(batch.clone(), place).unwrap();
        }
    }
    expected
}

/// A directory in memory where the system has one: these tests make files by the thousand.
fn scratch_directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

fn disk(case: &Case, scratch: &TempDir) -> (DiskManagerBuilder, Option<Arc<FaultyDisk>>) {
    let builder = DiskManagerBuilder::default();
    let directory = scratch.path().to_path_buf();
    let own = |fault: Fault, directory, blocking| {
        let disk = FaultyDisk::new(fault, directory, blocking);
        let factory = Arc::new(Factory(Arc::clone(&disk)));
        (DiskManagerBuilder::default().with_temp_file_factory(factory), Some(disk))
    };
    match case.disk {
        Disk::Plain => (builder.with_mode(DiskManagerMode::Directories(vec![directory])), None),
        Disk::Quota(bytes) => {
            let builder = builder.with_mode(DiskManagerMode::Directories(vec![directory]));
            (builder.with_max_temp_directory_size(bytes), None)
        }
        Disk::Disabled | Disk::Own => (builder.with_mode(DiskManagerMode::Disabled), None),
        Disk::Local(fault) => own(fault, Some(directory), false),
        Disk::Remote { fault, blocking } => own(fault, None, blocking),
    }
}
