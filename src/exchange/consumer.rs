use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, Time};
use futures::Stream;

use super::lane::{Body, Item, Next};
use super::{Exchange, ExchangeHandle};
use crate::block::{BlockDecoder, BlockHeader, DecodeLimits};
use crate::memory::{Held, Permit};
use crate::scratch::StoredBlock;

/// The rows of one lane. Closing is by drop: it releases what the lane holds.
///
/// Blocks are decoded inside `poll_next`, so a decoded batch is never held for a consumer that may
/// not come back; only stored bytes are.
pub(crate) struct LaneStream {
    /// `None` once the stream has ended.
    handle: Option<ExchangeHandle>,
    lane: usize,
    schema: SchemaRef,
    decoder: Option<BlockDecoder>,
    /// Batches that could not be joined to one: dictionary keys that would overflow.
    ready: VecDeque<RecordBatch>,
    metrics: Option<BaselineMetrics>,
}

impl LaneStream {
    pub(super) fn new(handle: ExchangeHandle, lane: usize) -> Self {
        let schema = SchemaRef::clone(&handle.0.exchange.plan.schema);
        Self {
            handle: Some(handle),
            lane,
            schema,
            decoder: None,
            ready: VecDeque::new(),
            metrics: None,
        }
    }

    /// Counts what leaves in `metrics`, for a stream that is the operator's output.
    pub(crate) fn with_metrics(mut self, metrics: BaselineMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Poll::Ready(Ok(Some(batch)));
            }
            let Some(handle) = &self.handle else { return Poll::Ready(Ok(None)) };
            let exchange = Arc::clone(&handle.0.exchange);
            match ready!(exchange.poll_lane(self.lane, cx))? {
                Next::Items(items) => self.ready = self.assemble(&exchange, items)?.into(),
                Next::Fetch(blocks) => exchange.fetch(self.lane, blocks),
                Next::Wait | Next::Done => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Makes the batch of one window out of its items.
    fn assemble(&mut self, exchange: &Exchange, items: Vec<Item>) -> Result<Vec<RecordBatch>> {
        if let [Item { body: Body::Batch(batch), .. }] = items.as_slice() {
            return Ok(vec![batch.value.clone()]);
        }
        let timer = exchange.plan.metrics.decode_time.timer();
        let mut batches = Vec::with_capacity(items.len());
        let mut working = exchange.ledger.empty();
        for item in &items {
            match &item.body {
                Body::Batch(batch) => batches.push(batch.value.clone()),
                Body::Blocks(blocks) => {
                    for block in blocks {
                        let place = || format!("partition {} in memory", self.lane);
                        let bytes = &block.value.bytes;
                        working.merge(exchange.ledger.force(decoded_bytes(bytes)));
                        batches.push(decode(&mut self.decoder, &self.schema, bytes, place)?);
                    }
                }
                Body::Stored { blocks, fetched, .. } => {
                    let fetched = fetched
                        .as_ref()
                        .ok_or_else(|| internal_datafusion_err!("a block was not fetched"))?;
                    for (stored, bytes) in blocks.iter().zip(fetched) {
                        let place = || stored.place();
                        working.merge(exchange.ledger.force(decoded_bytes(&bytes.value)));
                        batches.push(decode(&mut self.decoder, &self.schema, &bytes.value, place)?);
                    }
                }
            }
        }
        let joined = join(&self.schema, batches);
        timer.done();
        exchange.note_peak();
        joined
    }

    fn end(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.done();
        }
        if let Some(handle) = self.handle.take() {
            handle.0.exchange.close_lane(self.lane);
        }
        self.decoder = None;
    }
}

fn decoded_bytes(block: &[u8]) -> usize {
    let bytes = BlockHeader::parse(block).map(|header| header.decode_reserve_bytes());
    bytes.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

fn decode(
    decoder: &mut Option<BlockDecoder>,
    schema: &SchemaRef,
    bytes: &[u8],
    place: impl Fn() -> String,
) -> Result<RecordBatch> {
    let decoder = match decoder {
        Some(decoder) => decoder,
        empty => {
            empty.insert(BlockDecoder::try_new(SchemaRef::clone(schema), DecodeLimits::default())?)
        }
    };
    decoder.decode(bytes).map_err(|error| {
        DataFusionError::from(error).context(format!("decoding a block of {}", place()))
    })
}

/// One batch of all rows, or the batches as they are where dictionary keys would overflow.
fn join(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    if batches.len() == 1 {
        return Ok(batches);
    }
    match concat_batches(schema, &batches) {
        Ok(batch) => Ok(vec![batch]),
        Err(ArrowError::DictionaryKeyOverflowError) => Ok(batches),
        Err(error) => Err(error.into()),
    }
}

/// Item numbers and where their blocks are.
type ToFetch = Vec<(u64, Arc<Vec<StoredBlock>>)>;

impl Exchange {
    /// Reads blocks in the background and leaves them in the lane, which wakes its consumer. Local
    /// files are read on a blocking thread.
    fn fetch(self: &Arc<Self>, lane: usize, items: ToFetch) {
        let exchange = Arc::clone(self);
        let timer = self.plan.metrics.read_time.clone();
        if items.iter().any(|(_, blocks)| blocks.iter().any(StoredBlock::is_streamed)) {
            tokio::spawn(async move {
                let timer = timer.timer();
                let permit = exchange.read_permit(&items);
                let read = StoredBlock::read_streamed(&all_blocks(&items)).await;
                timer.done();
                exchange.set_fetched(lane, &items, permit, read);
            });
            return;
        }
        tokio::task::spawn_blocking(move || {
            let timer = timer.timer();
            let permit = exchange.read_permit(&items);
            let read = std::panic::catch_unwind(AssertUnwindSafe(|| {
                StoredBlock::read_all(&all_blocks(&items))
            }));
            timer.done();
            let read = read.unwrap_or_else(|_| {
                Err(internal_datafusion_err!("the task that reads blocks panicked"))
            });
            exchange.set_fetched(lane, &items, permit, read);
        });
    }

    fn read_permit(&self, items: &ToFetch) -> Permit {
        let bytes = all_blocks(items).iter().map(|block| block.len()).sum();
        self.ledger.try_reserve(bytes).unwrap_or_else(|_| self.ledger.force(bytes))
    }

    fn set_fetched(
        &self,
        lane: usize,
        items: &ToFetch,
        mut permit: Permit,
        read: Result<Vec<Buffer>>,
    ) {
        self.with_lane(lane, |lane| {
            lane.fetching = false;
            let mut buffers = match read {
                Ok(buffers) => buffers.into_iter(),
                Err(error) => {
                    lane.error = Some(error);
                    return;
                }
            };
            for (number, blocks) in items {
                let held = buffers.by_ref().take(blocks.len()).map(|buffer| {
                    let mut part = self.ledger.empty();
                    part.move_from(&mut permit, buffer.len());
                    Held::new(buffer, part)
                });
                lane.set_fetched(*number, held.collect());
            }
        });
    }
}

fn all_blocks(items: &ToFetch) -> Vec<&StoredBlock> {
    items.iter().flat_map(|(_, blocks)| blocks.iter()).collect()
}

impl Stream for LaneStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let time = self.metrics.as_ref().map(|metrics| metrics.elapsed_compute().clone());
        let timer = time.as_ref().map(Time::timer);
        let next = self.poll_batch(cx).map(Result::transpose);
        drop(timer);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.end();
        }
        match &self.metrics {
            Some(metrics) => metrics.record_poll(next),
            None => next,
        }
    }
}

impl RecordBatchStream for LaneStream {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

impl Drop for LaneStream {
    fn drop(&mut self) {
        self.end();
    }
}
