use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_datafusion_err};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, Time};
use futures::Stream;

use super::lane::{Body, Item, Next, StoredItem, ToFetch};
use super::{Exchange, ExchangeHandle, ExchangeMetrics};
use crate::block::{BlockDecoder, BlockError, BlockHeader, BlockResult, DecodeLimits, Joined};
use crate::memory::{Held, Permit};
use crate::partition::Slab;
use crate::scratch::{Block, StoredBlock};

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
    /// Batches that could not be joined to one: dictionary keys or offsets that would overflow.
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

    /// The metrics of its exchange.
    pub(crate) fn exchange_metrics(&self) -> Option<ExchangeMetrics> {
        self.handle.as_ref().map(|handle| handle.0.exchange.plan.metrics.clone())
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
                Next::Items(items) => self.ready = self.assemble(&exchange, &items)?.into(),
                Next::Fetch(wanted) => exchange.fetch(self.lane, wanted),
                Next::Wait | Next::Done => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Makes the batch of one window out of its items.
    fn assemble(&mut self, exchange: &Exchange, items: &[Item]) -> Result<Vec<RecordBatch>> {
        if let [Item { body: Body::Batch(batch), .. }] = items {
            return Ok(vec![batch.value.clone()]);
        }
        let timer = exchange.plan.metrics.decode_time.timer();
        let mut working = exchange.ledger.empty();
        let mut parts = Vec::with_capacity(items.len());
        for run in items.chunk_by(|a, b| slab_of(a).is_some() && slab_of(b).is_some()) {
            let slabs: Vec<&Slab> = run.iter().filter_map(slab_of).collect();
            if !slabs.is_empty() {
                let bytes = slabs.iter().map(|slab| slab.arrow_bytes()).sum();
                working.merge(exchange.ledger.force(bytes));
                parts.push(Part::Batch(Slab::join(&self.schema, &slabs)?));
                continue;
            }
            for item in run {
                self.add_parts(&item.body, &mut parts)?;
            }
        }
        let bytes = parts.iter().map(Part::decoded_bytes).sum();
        working.merge(exchange.ledger.force(bytes));
        let joined = self.join(&parts);
        timer.done();
        exchange.note_peak();
        joined
    }

    fn add_parts<'a>(&self, body: &'a Body, parts: &mut Vec<Part<'a>>) -> Result<()> {
        match body {
            Body::Slab(_) => {}
            Body::Batch(batch) => parts.push(Part::Batch(batch.value.clone())),
            Body::Blocks(blocks) => {
                let part = |block: &'a Arc<Held<Block>>| Part::Block(&block.value.bytes, None);
                parts.extend(blocks.iter().map(part));
            }
            Body::Stored { blocks, fetched, .. } => {
                let fetched = fetched
                    .as_ref()
                    .ok_or_else(|| internal_datafusion_err!("a block was not fetched"))?;
                let part = |(stored, bytes): (&'a StoredBlock, &'a Arc<Held<Buffer>>)| {
                    Part::Block(&bytes.value, Some(stored))
                };
                parts.extend(blocks.iter().zip(fetched).map(part));
            }
        }
        Ok(())
    }

    /// One batch of all parts; several only where dictionary keys or offsets would overflow.
    fn join(&mut self, parts: &[Part<'_>]) -> Result<Vec<RecordBatch>> {
        if let [Part::Batch(batch)] = parts {
            return Ok(vec![batch.clone()]);
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            empty => {
                let schema = SchemaRef::clone(&self.schema);
                empty.insert(BlockDecoder::try_new(schema, DecodeLimits::default())?)
            }
        };
        let outputs = self.handle.as_ref().map_or(1, |handle| handle.0.exchange.outputs.max(1));
        let output = self.lane % outputs;
        let at = |error: BlockError, stored: Option<&StoredBlock>| {
            let place = match stored {
                Some(stored) => format!("partition {output}, {}", stored.place()),
                None => format!("partition {output} in memory"),
            };
            DataFusionError::from(error).context(format!("decoding a block of {place}"))
        };
        if let [Part::Block(bytes, stored)] = parts {
            check(decoder, *stored).map_err(|error| at(error, *stored))?;
            let batch = decoder.decode(bytes).map_err(|error| at(error, *stored))?;
            return Ok(vec![batch]);
        }
        let batch_rows =
            self.handle.as_ref().map_or(0, |handle| handle.0.exchange.shape.batch_rows);
        // A header that was not checked yet does not say how much is allocated.
        let rows = parts.iter().map(Part::rows).sum::<usize>().min(batch_rows);
        let mut joined = Joined::new(&self.schema, rows);
        for part in parts {
            match part {
                Part::Batch(batch) => joined.push(batch)?,
                Part::Block(bytes, stored) => {
                    check(decoder, *stored).map_err(|error| at(error, *stored))?;
                    decoder.decode_into(bytes, &mut joined).map_err(|error| at(error, *stored))?;
                }
            }
        }
        Ok(joined.finish()?)
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

fn slab_of(item: &Item) -> Option<&Slab> {
    match &item.body {
        Body::Slab(slab) => Some(&slab.value),
        _ => None,
    }
}

/// Whether a stored block is of the decoder's schema.
fn check(decoder: &BlockDecoder, stored: Option<&StoredBlock>) -> BlockResult<()> {
    stored.map_or(Ok(()), |stored| decoder.check_fingerprint(stored.fingerprint()))
}

/// Rows of one output batch, and where their block is stored.
enum Part<'a> {
    Batch(RecordBatch),
    Block(&'a [u8], Option<&'a StoredBlock>),
}

impl Part<'_> {
    /// Rows, as far as the block's header can be read: its decoder checks it.
    fn rows(&self) -> usize {
        match self {
            Part::Batch(batch) => batch.num_rows(),
            Part::Block(bytes, _) => {
                let rows = BlockHeader::parse(bytes).map_or(0, |header| header.rows);
                usize::try_from(rows).unwrap_or(0).min(DecodeLimits::default().max_rows)
            }
        }
    }

    fn decoded_bytes(&self) -> usize {
        let Part::Block(bytes, _) = self else { return 0 };
        let bytes = BlockHeader::parse(bytes).map(|header| header.decode_reserve_bytes());
        bytes.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
    }
}

type Fetched = Vec<(u64, Vec<Arc<Held<Buffer>>>)>;

/// A fetch that runs; the consumer learns what came of it when this is dropped.
struct Fetching {
    exchange: Arc<Exchange>,
    lane: usize,
    /// `None` where the task panicked, or never ran because its runtime is gone.
    read: Option<Result<Fetched>>,
}

impl Fetching {
    fn end(mut self, read: Result<Fetched>) {
        self.read = Some(read);
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let cancelled = || Err(exec_datafusion_err!("the task that reads blocks was cancelled"));
        self.exchange.fetched(self.lane, self.read.take().unwrap_or_else(cancelled));
    }
}

impl Exchange {
    /// Reads blocks and leaves them in the lane, which wakes its consumer: on a blocking thread, or
    /// in a task where the backend gives streams, which may need the blocking threads themselves.
    fn fetch(self: &Arc<Self>, lane: usize, wanted: ToFetch) {
        let fetching = Fetching { exchange: Arc::clone(self), lane, read: None };
        let time = self.plan.metrics.read_time.clone();
        let blocks = || wanted.items.iter().flat_map(|(_, blocks)| blocks.iter());
        if blocks().any(StoredBlock::is_streamed) {
            tokio::spawn(async move {
                let timer = time.timer();
                let read = fetching.exchange.read_streams(wanted).await;
                timer.done();
                fetching.end(read);
            });
        } else {
            tokio::task::spawn_blocking(move || {
                let timer = time.timer();
                let read = fetching.exchange.read(wanted);
                timer.done();
                fetching.end(read);
            });
        }
    }

    fn fetched(&self, lane: usize, read: Result<Fetched>) {
        self.with_lane(lane, |lane| {
            lane.fetching = false;
            match read {
                Err(error) => lane.error = Some(error),
                Ok(fetched) => {
                    for (number, buffers) in fetched {
                        lane.set_fetched(number, buffers);
                    }
                }
            }
        });
    }

    fn read(&self, wanted: ToFetch) -> Result<Fetched> {
        let (items, permit) = self.reserve_fetch(wanted);
        let buffers = StoredBlock::read_all(&blocks_of(&items))?;
        Ok(self.hold_fetched(&items, buffers, permit))
    }

    async fn read_streams(&self, wanted: ToFetch) -> Result<Fetched> {
        let (items, permit) = self.reserve_fetch(wanted);
        let buffers = StoredBlock::stream_all(&blocks_of(&items)).await?;
        Ok(self.hold_fetched(&items, buffers, permit))
    }

    /// Reserves the bytes to fetch, and one read of several blocks beside them. When the pool
    /// refuses, nothing is read ahead.
    fn reserve_fetch(&self, wanted: ToFetch) -> (Vec<StoredItem>, Permit) {
        let ToFetch { mut items, needed } = wanted;
        let bytes_of = |items: &[StoredItem]| -> usize {
            let blocks = items.iter().flat_map(|(_, blocks)| blocks.iter());
            let bytes: usize = blocks.map(StoredBlock::len).sum();
            bytes + bytes.min(StoredBlock::MAX_READ_BYTES)
        };
        match self.ledger.try_reserve(bytes_of(&items)) {
            Ok(permit) => (items, permit),
            Err(_) => {
                items.truncate(needed);
                let permit = self.ledger.force(bytes_of(&items));
                (items, permit)
            }
        }
    }

    fn hold_fetched(
        &self,
        items: &[StoredItem],
        buffers: Vec<Buffer>,
        mut permit: Permit,
    ) -> Fetched {
        let held = |buffer: Buffer| {
            let mut part = self.ledger.empty();
            part.move_from(&mut permit, buffer.len());
            Held::new(buffer, part)
        };
        let mut held = buffers.into_iter().map(held);
        let of_item =
            |(number, blocks): &StoredItem| (*number, held.by_ref().take(blocks.len()).collect());
        items.iter().map(of_item).collect()
    }
}

fn blocks_of(items: &[StoredItem]) -> Vec<&StoredBlock> {
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
