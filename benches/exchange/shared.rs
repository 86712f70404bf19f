//! What is exchanged and how, for the bench of time and for that of the heap.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use clap::{Args, ValueEnum};
use datafusion::common::{Result, ScalarValue, SplitPoint};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::prelude::SessionConfig;
use datafusion_ifile::block::logical_bytes;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::StreamExt;

#[path = "../common/tables.rs"]
mod tables;

pub(crate) use tables::BATCH_ROWS;

/// Rows of a run, for which the benches are quick.
const QUICK_ROWS: usize = 20_000;

#[derive(Debug, Clone, Args)]
pub(crate) struct Shape {
    /// One small iteration, to see that the bench runs.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The table: store_sales or strings.
    #[arg(long, default_value = "store_sales")]
    pub(crate) table: String,
    /// How rows are placed.
    #[arg(long, value_enum, default_value_t = Scheme::Hash)]
    pub(crate) scheme: Scheme,
    /// Output partitions.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64, 200, 1009])]
    pub(crate) outputs: Vec<usize>,
    /// Input partitions.
    #[arg(long, default_value_t = 2)]
    pub(crate) inputs: usize,
    /// Megabytes of the memory pool; without it the pool is unbounded.
    #[arg(long)]
    pub(crate) pool_mb: Option<usize>,
    /// Drain the outputs one after another instead of together.
    #[arg(long)]
    pub(crate) serial: bool,
    /// Rounds per side.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Outputs from which on our rows are narrowed.
    #[arg(long, default_value_t = IFileOptions::default().narrow_outputs)]
    pub(crate) narrow_outputs: usize,
    /// Inputs that ours reads at the same time.
    #[arg(long, default_value_t = 0)]
    pub(crate) active_inputs: usize,
    /// Passed by cargo.
    #[arg(long)]
    pub(crate) bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    Hash,
    RoundRobin,
    Range,
    /// By hash, and outputs are merged by the order of the inputs.
    PreserveOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Stock,
    Ours,
}

impl Shape {
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    pub(crate) fn input(&self) -> Input {
        let rows = if self.quick { QUICK_ROWS } else { 2_880_404 };
        let batches = tables::table(&self.table, rows).expect("store_sales or strings");
        let key = if self.table == "strings" { "ca_address_sk" } else { "ss_item_sk" };
        Input::new(&batches, key, self)
    }

    fn options(&self) -> IFileOptions {
        IFileOptions {
            memory_share: 1.0,
            memory_headroom: 0.0,
            narrow_outputs: self.narrow_outputs,
            max_active_inputs: self.active_inputs,
            ..IFileOptions::default()
        }
    }

    fn pool(&self) -> Arc<dyn MemoryPool> {
        match self.pool_mb {
            Some(megabytes) => Arc::new(GreedyMemoryPool::new(megabytes << 20)),
            None => Arc::new(UnboundedMemoryPool::default()),
        }
    }
}

/// Batches in memory, a list for each input partition.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) partitions: Vec<Vec<RecordBatch>>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// Where rows go by.
    key: &'static str,
    /// Whether each partition is sorted by the key.
    sorted: bool,
}

impl Input {
    fn new(batches: &[RecordBatch], key: &'static str, shape: &Shape) -> Self {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        // Every input has a few batches.
        let most_rows = (rows / shape.inputs / 2).clamp(1, BATCH_ROWS);
        let mut partitions = vec![Vec::new(); shape.inputs];
        let cut = batches.iter().flat_map(|batch| batches_of(batch, most_rows, 0));
        for (index, batch) in cut.enumerate() {
            partitions[index % shape.inputs].push(batch);
        }
        let sorted = shape.scheme == Scheme::PreserveOrder;
        if sorted {
            let sort = |part: Vec<RecordBatch>| batches_of(&sorted_by(&part, key), BATCH_ROWS, 0);
            partitions = partitions.into_iter().map(sort).collect();
        }
        Self::of(partitions, key, sorted)
    }

    pub(crate) fn of(partitions: Vec<Vec<RecordBatch>>, key: &'static str, sorted: bool) -> Self {
        let all = || partitions.iter().flatten();
        let (rows, bytes) = (
            all().map(RecordBatch::num_rows).sum(),
            all().map(|batch| logical_bytes(batch, 0, batch.num_rows())).sum(),
        );
        Self { partitions, rows, bytes, key, sorted }
    }

    fn order(&self) -> LexOrdering {
        let schema = self.partitions[0][0].schema();
        [PhysicalSortExpr::new_default(col(self.key, &schema).expect("a column"))].into()
    }

    fn plan(&self) -> Arc<dyn ExecutionPlan> {
        let schema = self.partitions[0][0].schema();
        let source = MemorySourceConfig::try_new(&self.partitions, schema, None).expect("source");
        let source = match self.sorted {
            true => source.try_with_sort_information(vec![self.order()]).expect("order"),
            false => source,
        };
        Arc::new(DataSourceExec::new(Arc::new(source)))
    }

    fn partitioning(&self, scheme: Scheme, outputs: usize) -> Partitioning {
        let schema = self.partitions[0][0].schema();
        match scheme {
            Scheme::RoundRobin => Partitioning::RoundRobinBatch(outputs),
            Scheme::Hash | Scheme::PreserveOrder => {
                Partitioning::Hash(vec![col(self.key, &schema).expect("a column")], outputs)
            }
            Scheme::Range => {
                let points = self.split_points(outputs).expect("split points");
                let range = RangePartitioning::try_new(self.order(), points);
                Partitioning::Range(range.expect("ascending points"))
            }
        }
    }

    /// Points that make the outputs alike in rows, as far as the keys go.
    fn split_points(&self, outputs: usize) -> Result<Vec<SplitPoint>> {
        let some: Vec<_> = self.partitions.iter().flatten().step_by(8).cloned().collect();
        let keys = sorted_by(&some, self.key);
        let keys = keys.column_by_name(self.key).expect("the key");
        let first = keys.null_count();
        let mut points: Vec<ScalarValue> = Vec::new();
        for output in 1..outputs {
            let row = first + (keys.len() - first) * output / outputs;
            let point = ScalarValue::try_from_array(keys, row)?;
            if points.last().is_none_or(|last| *last < point) {
                points.push(point);
            }
        }
        Ok(points.into_iter().map(|point| SplitPoint::new(vec![point])).collect())
    }

    /// The exchange of one side to `outputs` partitions, or to as many as there are ranges.
    pub(crate) fn exchange(
        &self,
        shape: &Shape,
        side: Side,
        outputs: usize,
    ) -> Arc<dyn ExecutionPlan> {
        let partitioning = self.partitioning(shape.scheme, outputs);
        let mut stock = RepartitionExec::try_new(self.plan(), partitioning).expect("exchange");
        if shape.scheme == Scheme::PreserveOrder {
            stock = stock.with_preserve_order();
        }
        match side {
            Side::Stock => Arc::new(stock),
            Side::Ours => Arc::new(IFileRepartitionExec::from_repartition(&stock, shape.options())),
        }
    }
}

/// All rows in one batch, in the order of `key`.
pub(crate) fn sorted_by(batches: &[RecordBatch], key: &str) -> RecordBatch {
    let batch = concat_batches(&batches[0].schema(), batches).expect("batches of a schema");
    let keys: &ArrayRef = batch.column_by_name(key).expect("the key");
    let indices = sort_to_indices(keys, None, None).expect("keys with an order");
    take_record_batch(&batch, &indices).expect("rows of the batch")
}

/// The rows in batches of `rows`, the first of which has `first` unless that is none.
pub(crate) fn batches_of(batch: &RecordBatch, rows: usize, first: usize) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    let mut start = 0;
    while start < batch.num_rows() {
        let wanted = if start == 0 && first > 0 { first } else { rows };
        let len = wanted.min(batch.num_rows() - start);
        batches.push(batch.slice(start, len));
        start += len;
    }
    batches
}

/// What left an exchange.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Drained {
    pub(crate) rows: usize,
    pub(crate) batches: usize,
    /// Batches and rows before the last batch of each output.
    full_batches: usize,
    full_rows: usize,
}

impl Drained {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.batches += other.batches;
        self.full_batches += other.full_batches;
        self.full_rows += other.full_rows;
    }

    /// Mean rows of the batches that are not the last of an output.
    pub(crate) fn rows_per_batch(&self) -> f64 {
        self.full_rows as f64 / self.full_batches as f64
    }
}

/// Drains all outputs of `plan` with batches of `batch_rows`; `seen` is called with each batch in hand.
pub(crate) async fn drain(
    plan: &Arc<dyn ExecutionPlan>,
    shape: &Shape,
    batch_rows: usize,
    seen: fn(),
) -> Drained {
    let env = RuntimeEnvBuilder::new().with_memory_pool(shape.pool()).build().expect("runtime");
    let config = SessionConfig::new().with_batch_size(batch_rows);
    let context = TaskContext::default().with_session_config(config).with_runtime(Arc::new(env));
    let context = Arc::new(context);
    let outputs = plan.properties().output_partitioning().partition_count();
    let drain_one = |output| {
        let mut stream = plan.execute(output, Arc::clone(&context)).expect("a stream");
        async move {
            let mut drained = Drained::default();
            let mut last = 0;
            while let Some(batch) = stream.next().await {
                let rows = batch.expect("a batch").num_rows();
                seen();
                drained.batches += 1;
                drained.rows += rows;
                last = rows;
            }
            drained.full_batches = drained.batches.saturating_sub(1);
            drained.full_rows = drained.rows - last;
            drained
        }
    };
    let drains: Vec<_> = (0..outputs).map(drain_one).collect();
    let mut all = Drained::default();
    if shape.serial {
        for drain in drains {
            all.add(drain.await);
        }
    } else {
        let mut tasks: tokio::task::JoinSet<_> = drains.into_iter().collect();
        while let Some(drained) = tasks.join_next().await {
            all.add(drained.expect("a task that ends"));
        }
    }
    all
}
