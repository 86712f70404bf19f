//! An input that a test controls and watches.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream::{BoxStream, Stream, StreamExt};

/// What a test sees of the streams of a [`feed`].
#[derive(Debug, Default)]
pub(crate) struct Watch {
    polls: AtomicUsize,
    alive: AtomicUsize,
}

impl Watch {
    /// How often the streams were polled so far.
    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    /// Streams that are not dropped.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// Lets other tasks run until every stream is dropped.
    pub(crate) async fn all_dropped(&self) {
        super::within(20, async {
            while self.alive() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Makes the stream of one input partition, afresh for every execution.
pub(crate) type Make = Arc<dyn Fn() -> Batches + Send + Sync>;

/// A partition that gives `batches`.
pub(crate) fn batches(batches: Vec<Result<RecordBatch, &'static str>>) -> Make {
    Arc::new(move || {
        let items = batches.clone().into_iter().map(|item| {
            item.map_err(|message| datafusion::common::exec_datafusion_err!("{message}"))
        });
        futures::stream::iter(items).boxed()
    })
}

/// A partition that gives batch number 0, 1, 2, ... of `batch` until it answers `None`.
pub(crate) fn generated(
    batch: impl Fn(usize) -> Option<RecordBatch> + Clone + Send + Sync + 'static,
) -> Make {
    Arc::new(move || {
        let batch = batch.clone();
        futures::stream::iter(0..)
            .map(batch)
            .take_while(|item| futures::future::ready(item.is_some()))
            .filter_map(futures::future::ready)
            .map(Ok)
            .boxed()
    })
}

/// A partition that never gives anything.
pub(crate) fn silent() -> Make {
    Arc::new(|| futures::stream::pending().boxed())
}

struct FeedPartition {
    schema: SchemaRef,
    make: Make,
    watch: Arc<Watch>,
}

impl fmt::Debug for FeedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FeedPartition")
    }
}

impl PartitionStream for FeedPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.watch.alive.fetch_add(1, Ordering::SeqCst);
        let watched = Watched { inner: (self.make)(), watch: Arc::clone(&self.watch) };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), watched))
    }
}

struct Watched {
    inner: Batches,
    watch: Arc<Watch>,
}

impl Stream for Watched {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.watch.polls.fetch_add(1, Ordering::SeqCst);
        self.inner.poll_next_unpin(cx)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn feed_with(
    schema: &SchemaRef,
    partitions: Vec<Make>,
    order: Option<LexOrdering>,
    infinite: bool,
) -> (Arc<dyn ExecutionPlan>, Arc<Watch>) {
    let watch = Arc::new(Watch::default());
    let partitions = partitions.into_iter().map(|make| {
        let (schema, watch) = (Arc::clone(schema), Arc::clone(&watch));
        Arc::new(FeedPartition { schema, make, watch }) as Arc<dyn PartitionStream>
    });
    let plan = StreamingTableExec::try_new(
        Arc::clone(schema),
        partitions.collect(),
        None,
        order,
        infinite,
        None,
    );
    (Arc::new(plan.unwrap()), watch)
}

/// A plan over `partitions`, and what it does.
pub(crate) fn feed(
    schema: &SchemaRef,
    partitions: Vec<Make>,
) -> (Arc<dyn ExecutionPlan>, Arc<Watch>) {
    feed_with(schema, partitions, None, false)
}

/// A plan over `partitions` whose rows have `order`, and what it does.
pub(crate) fn ordered_feed(
    schema: &SchemaRef,
    partitions: Vec<Make>,
    order: LexOrdering,
) -> (Arc<dyn ExecutionPlan>, Arc<Watch>) {
    feed_with(schema, partitions, Some(order), false)
}

/// A plan that says of itself that it is unbounded.
pub(crate) fn unbounded_feed(schema: &SchemaRef, partitions: Vec<Make>) -> Arc<dyn ExecutionPlan> {
    feed_with(schema, partitions, None, true).0
}
