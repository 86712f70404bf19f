//! Of more inputs than `ifile.max_active_inputs` so many are read at a time, where no input can wait for
//! another; else all of them are.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::{StreamExt, stream};
use rstest::rstest;
use tokio::sync::Barrier;

use super::support::{
    Make, context, drain, exchange, feed, greedy_runtime, hash, nothing_left_soon, numbered,
    order_by, ordered_feed, sorted_keys,
};

const INPUTS: usize = 40;
const BATCHES: i64 = 5;
const ROWS: i64 = 100;

/// A scan that counts the partitions that have begun and not ended.
#[derive(Debug, Default)]
struct Counted {
    active: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl DataSource for Counted {
    fn open(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (active, most) = (Arc::clone(&self.active), Arc::clone(&self.most));
        let begin = partition as i64 * BATCHES * ROWS;
        let batches = stream::unfold(0, move |number| {
            let (active, most) = (Arc::clone(&active), Arc::clone(&most));
            async move {
                if number == 0 {
                    most.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
                if number == BATCHES {
                    active.fetch_sub(1, Ordering::SeqCst);
                    return None;
                }
                Some((Ok(numbered(begin + number * ROWS, ROWS)), number + 1))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), Box::pin(batches))))
    }

    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "counted")
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(INPUTS)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(schema())
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&schema())))
    }

    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn try_swapping_with_projection(
        &self,
        _: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

fn schema() -> SchemaRef {
    numbered(0, 0).schema()
}

fn active(most: usize) -> IFileOptions {
    IFileOptions { max_active_inputs: most, ..IFileOptions::default() }
}

/// The keys of all rows that `plan` gives.
async fn rows_of(plan: Arc<dyn ExecutionPlan>, runtime: &Arc<RuntimeEnv>) -> Vec<i64> {
    let parts = drain(&plan, &context(runtime, 64)).await.unwrap();
    drop(plan);
    nothing_left_soon(runtime).await;
    sorted_keys(parts.into_iter().flatten())
}

fn all_rows() -> Vec<i64> {
    (0..INPUTS as i64 * BATCHES * ROWS).collect()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_scans(
    #[values(1, 3, INPUTS - 1, INPUTS)] most: usize,
    #[values(1 << 30, 1 << 18)] pool_bytes: usize,
) {
    let runtime = greedy_runtime(pool_bytes);
    let scan = Counted::default();
    let (running, peak) = (Arc::clone(&scan.active), Arc::clone(&scan.most));
    let scan: Arc<dyn ExecutionPlan> = Arc::new(DataSourceExec::new(Arc::new(scan)));
    let partitioning = hash(&scan, "k", 7);
    let plan = exchange(scan, partitioning, active(most));
    assert_eq!(rows_of(plan, &runtime).await, all_rows());
    assert!(peak.load(Ordering::SeqCst) <= most, "{peak:?}");
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_an_exchange_of_more_outputs() {
    let runtime = greedy_runtime(1 << 18);
    let scan: Arc<dyn ExecutionPlan> = Arc::new(DataSourceExec::new(Arc::new(Counted::default())));
    let (lower, upper) = (hash(&scan, "k", 50), hash(&scan, "k", 3));
    let plan = exchange(exchange(scan, lower, active(2)), upper, active(2));
    assert_eq!(rows_of(plan, &runtime).await, all_rows());
}

/// Inputs that give their rows when all of them have begun.
fn waiting() -> Vec<Make> {
    let barrier = Arc::new(Barrier::new(INPUTS));
    let input = |number| -> Make {
        let barrier = Arc::clone(&barrier);
        Arc::new(move || {
            let barrier = Arc::clone(&barrier);
            let rows = numbered(number * BATCHES * ROWS, BATCHES * ROWS);
            stream::once(async move { barrier.wait().await }).map(move |_| Ok(rows.clone())).boxed()
        })
    };
    (0..INPUTS as i64).map(input).collect()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_that_may_wait_for_each_other_all_start(#[values(true, false)] in_order: bool) {
    let runtime = greedy_runtime(1 << 30);
    let plan = if in_order {
        let order = order_by("k", &schema(), SortOptions::default());
        let (input, _) = ordered_feed(&schema(), waiting(), order);
        let partitioning = hash(&input, "k", 3);
        let merging = IFileRepartitionExec::try_new(input, partitioning, active(2)).unwrap();
        Arc::new(merging.with_preserve_order()) as Arc<dyn ExecutionPlan>
    } else {
        let (input, _) = feed(&schema(), waiting());
        let partitioning = hash(&input, "k", 3);
        exchange(input, partitioning, active(2))
    };
    assert_eq!(rows_of(plan, &runtime).await, all_rows());
}
