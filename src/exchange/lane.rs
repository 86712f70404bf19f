//! One lane: the rows on their way to one consumer, first in, first out.
//!
//! A lane is a queue of items and, behind it, the stage that is being filled. An item holds rows as
//! an Arrow batch, as encoded blocks, or as blocks in a scratch file; under pressure an item changes
//! its form in place, so order never changes. The queue is cut into **windows**: the rows of one
//! output batch. A window ends where the batch size is reached, so that a stage that was encoded
//! half full still becomes part of a full batch when it is read back.
//!
//! ```text
//!    consumer <- [ window ][ window ][ open window | stage ] <- producers
//!                 items: Batch -> Blocks -> Stored            append
//! ```

mod item;
mod stored;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};

pub(super) use self::item::{Body, Item, Unencoded, Weight};
use crate::memory::{Held, Permit};
use crate::partition::{GroupedValidity, Room, Rows, Slab, Source, Stage};
use crate::scratch::{Block, StoredBlock};

/// Bytes that a stage of several rows never exceeds, so that 32-bit offsets hold for its strings.
const MOST_STAGE_BYTES: usize = i32::MAX as usize;

/// What all lanes of an exchange share.
#[derive(Debug)]
pub(super) struct LaneShape {
    pub(super) schema: SchemaRef,
    /// Rows of an output batch.
    pub(super) batch_rows: usize,
    /// Logical bytes beyond which an output batch ends early.
    pub(super) batch_bytes: usize,
    /// Whether every item is a window of its own: a merge does the batching.
    pub(super) eager: bool,
}

/// What a consumer finds.
pub(super) enum Next {
    /// The items of one output batch.
    Items(Vec<Item>),
    /// Blocks to fetch from scratch before there is a batch.
    Fetch(ToFetch),
    /// Nothing yet.
    Wait,
    /// No more rows.
    Done,
}

/// The number of an item and where its blocks are.
pub(super) type StoredItem = (u64, Arc<Vec<StoredBlock>>);

/// Stored items to fetch.
pub(super) struct ToFetch {
    pub(super) items: Vec<StoredItem>,
    /// How many of the items the next batch needs. The others are read ahead.
    pub(super) needed: usize,
}

/// How a producer appends: less at once when memory is short.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) most_rows: usize,
    pub(super) room: Room,
}

impl Ask {
    pub(super) const ALL: Self = Self { most_rows: usize::MAX, room: Room::Full };
}

/// What became of an append.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// So many rows were taken, at least one.
    Taken(usize),
    /// So many bytes are needed to take the first so many rows.
    Needs { bytes: usize, rows: usize },
    /// The consumer is gone.
    Closed,
}

/// The state of a lane; the exchange holds it under a lock.
pub(super) struct Lane {
    stage: Option<Stage>,
    stage_permit: Permit,
    queue: VecDeque<Item>,
    queued: Weight,
    /// Of the item that comes next.
    next_number: u64,
    windows: usize,
    open_window_rows: usize,
    open_window_bytes: usize,
    pub(super) closed: bool,
    finished: bool,
    pub(super) fetching: bool,
    encoding: bool,
    pub(super) starving: bool,
    pub(super) waiter: Option<Waker>,
    /// Whether the consumer asked for rows and was not given any since.
    pub(super) wanted: bool,
    /// How often memory was short since the consumer came, up to 2.
    unread_age: u8,
    pub(super) error: Option<DataFusionError>,
}

impl Lane {
    /// An open, empty lane. `permit` is one for nothing.
    pub(super) fn new(permit: Permit) -> Self {
        Self {
            stage: None,
            stage_permit: permit,
            queue: VecDeque::new(),
            queued: Weight::default(),
            next_number: 0,
            windows: 0,
            open_window_rows: 0,
            open_window_bytes: 0,
            closed: false,
            finished: false,
            fetching: false,
            encoding: false,
            starving: true,
            waiter: None,
            wanted: false,
            unread_age: 0,
            error: None,
        }
    }

    fn stage_rows(&self) -> usize {
        self.stage.as_ref().map_or(0, Stage::rows)
    }

    /// Rows that the open window still takes.
    fn room(&self, shape: &LaneShape) -> usize {
        shape.batch_rows.saturating_sub(self.open_window_rows + self.stage_rows()).max(1)
    }

    /// Whether a consumer would find rows.
    pub(super) fn has_output(&self, shape: &LaneShape) -> bool {
        self.windows > 0 || (shape.eager && self.stage_rows() > 0)
    }

    /// Whether producers should go on for this lane's sake.
    pub(super) fn is_starving(&self, shape: &LaneShape) -> bool {
        !self.closed && !self.finished && !self.has_output(shape)
    }

    /// Takes the first of `rows`, as many as `ask` says and the open window takes.
    pub(super) fn append(
        &mut self,
        shape: &LaneShape,
        source: &Source,
        rows: Rows<'_>,
        ask: Ask,
        credit: &mut Permit,
    ) -> Result<Appended> {
        let prepared = self.prepare(shape, source, rows, ask, credit)?;
        if let Appended::Taken(count) = prepared {
            let rows = rows.split_at(count).0;
            for index in 0..source.columns() {
                self.append_column(index, source, rows, None)?;
            }
            self.appended(shape, count)?;
        }
        Ok(prepared)
    }

    /// Makes room for the first of `rows`, as many as `ask` says and the open window takes. Those
    /// are then appended column by column, and [`appended`](Self::appended) ends it.
    pub(super) fn prepare(
        &mut self,
        shape: &LaneShape,
        source: &Source,
        rows: Rows<'_>,
        ask: Ask,
        credit: &mut Permit,
    ) -> Result<Appended> {
        if self.closed {
            return Ok(Appended::Closed);
        }
        let mut count = rows.len().min(self.room(shape)).min(ask.most_rows.max(1));
        // A merge takes what there is: the stage is not going to be full.
        let room = if shape.eager { Room::Lean } else { ask.room };
        let stage = self.stage.get_or_insert_with(|| Stage::new(&shape.schema, shape.batch_rows));
        let mut growth = stage.growth(source, rows.split_at(count).0, room);
        while growth > shape.batch_bytes && count > 1 {
            count /= 2;
            growth = stage.growth(source, rows.split_at(count).0, room);
        }
        if stage.rows() > 0 && stage.row_bytes().saturating_add(growth) > MOST_STAGE_BYTES {
            self.flush(shape, true)?;
            return self.prepare(shape, source, rows, ask, credit);
        }
        if self.stage_permit.bytes() == 0 {
            growth += Stage::overhead_bytes(&shape.schema);
        }
        if growth > credit.bytes() {
            return Ok(Appended::Needs { bytes: growth, rows: count });
        }
        stage.make_room(count, room);
        self.stage_permit.move_from(credit, growth);
        Ok(Appended::Taken(count))
    }

    /// Appends column `index` of the rows that were prepared for. `valid` is as for
    /// [`Stage::append_column`].
    pub(super) fn append_column(
        &mut self,
        index: usize,
        source: &Source,
        rows: Rows<'_>,
        valid: Option<(&GroupedValidity, usize)>,
    ) -> Result<()> {
        self.stage.as_mut().map_or(Ok(()), |stage| stage.append_column(index, source, rows, valid))
    }

    /// All columns have taken the `count` rows that were prepared for.
    pub(super) fn appended(&mut self, shape: &LaneShape, count: usize) -> Result<()> {
        let Some(stage) = &mut self.stage else { return Ok(()) };
        stage.appended(count);
        let full = self.open_window_rows + stage.rows() >= shape.batch_rows
            || self.open_window_bytes + stage.row_bytes() >= shape.batch_bytes;
        if full || (shape.eager && self.wanted) {
            self.flush(shape, full)?;
        }
        Ok(())
    }

    /// Rows that a batch of its own may have to pass through without a copy: those that the open
    /// window takes, when nothing is staged. `None` when a copy is better.
    pub(super) fn passes(&self, shape: &LaneShape, rows: usize) -> Option<usize> {
        let room = self.room(shape);
        let whole = rows >= room || rows * 2 >= shape.batch_rows || shape.eager;
        (self.stage_rows() == 0 && whole).then(|| rows.min(room))
    }

    /// Queues `batch` as it is.
    pub(super) fn push(&mut self, shape: &LaneShape, batch: RecordBatch, permit: Permit) {
        if self.closed {
            return;
        }
        let full = self.open_window_rows + batch.num_rows() >= shape.batch_rows;
        self.push_item(shape, batch, permit, full);
    }

    fn push_item(&mut self, shape: &LaneShape, batch: RecordBatch, permit: Permit, full: bool) {
        self.open_window_rows += batch.num_rows();
        self.open_window_bytes += permit.bytes();
        let ends_window = full || shape.eager || self.open_window_bytes >= shape.batch_bytes;
        self.push_body(Body::Batch(Held::new(batch, permit)), ends_window);
    }

    fn push_body(&mut self, body: Body, ends_window: bool) {
        if ends_window {
            self.windows += 1;
            (self.open_window_rows, self.open_window_bytes) = (0, 0);
        }
        self.queued.add(body.weight());
        let number = self.next_number;
        self.next_number += 1;
        self.queue.push_back(Item { number, body, ends_window });
    }

    /// Queues `slab`. `ends_window` says whether its window ends with it: slabs are cut at the ends
    /// of windows where they are filled.
    pub(super) fn push_slab(&mut self, slab: Slab, permit: Permit, ends_window: bool) {
        if !self.closed {
            self.push_body(Body::Slab(Held::new(slab, permit)), ends_window);
        }
    }

    /// Moves the staged rows to the queue. `full` says whether their window ends with them.
    pub(super) fn flush(&mut self, shape: &LaneShape, full: bool) -> Result<()> {
        let Some(stage) = self.stage.as_mut().filter(|stage| stage.rows() > 0) else {
            return Ok(());
        };
        let rows = stage.rows();
        let batches = stage.finish()?;
        let mut permit = self.stage_permit.take();
        let bytes = permit.bytes();
        let count = batches.len();
        for (index, batch) in batches.into_iter().enumerate() {
            let mut part = self.stage_permit.take();
            let share = if index + 1 == count {
                permit.bytes()
            } else {
                (bytes * batch.num_rows() / rows).min(permit.bytes())
            };
            part.move_from(&mut permit, share);
            self.push_item(shape, batch, part, full && index + 1 == count);
        }
        Ok(())
    }

    /// No more rows will come: what is staged becomes the last window.
    pub(super) fn finish(&mut self, shape: &LaneShape) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.flush(shape, true)?;
        if let Some(last) = self.queue.back_mut().filter(|last| !last.ends_window) {
            last.ends_window = true;
            self.windows += 1;
        }
        self.stage = None;
        self.finished = true;
        Ok(())
    }

    /// The next output batch, in whatever form its items have. `read_ahead` is how many stored
    /// bytes may be fetched together.
    pub(super) fn next(&mut self, shape: &LaneShape, read_ahead: usize) -> Result<Next> {
        self.unread_age = 0;
        if shape.eager && self.windows == 0 {
            self.flush(shape, true)?;
        }
        if self.windows == 0 {
            return Ok(if self.finished { Next::Done } else { Next::Wait });
        }
        if self.fetching {
            return Ok(Next::Wait);
        }
        let wanted = self.to_fetch(read_ahead);
        if wanted.needed > 0 {
            self.fetching = true;
            return Ok(Next::Fetch(wanted));
        }
        let mut items = Vec::new();
        while let Some(item) = self.queue.pop_front() {
            self.queued.sub(item.body.weight());
            let last = item.ends_window;
            items.push(item);
            if last {
                break;
            }
        }
        self.windows -= 1;
        Ok(Next::Items(items))
    }

    fn item_mut(&mut self, number: u64) -> Option<&mut Item> {
        let index = self.index_of(number)?;
        self.queue.get_mut(index)
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&number, |item| item.number).ok()
    }

    /// The rows that may be encoded, for one caller until
    /// [`end_encoding`](Self::end_encoding); staged rows are flushed first. The batch that a
    /// consumer has been woken for stays, unless that does not come.
    pub(super) fn batches(&mut self, shape: &LaneShape) -> Result<Vec<(u64, Unencoded)>> {
        if self.closed || self.encoding {
            return Ok(Vec::new());
        }
        let skip = usize::from(self.wanted && self.windows > 0 && self.unread_age < 2);
        self.flush(shape, false)?;
        self.stage = None;
        let batches = self.queue.iter().skip(skip).filter_map(|item| {
            let number = item.number;
            match &item.body {
                Body::Batch(batch) => Some((number, Unencoded::Batch(Arc::clone(batch)))),
                Body::Slab(slab) => Some((number, Unencoded::Slab(Arc::clone(slab)))),
                Body::Blocks(_) | Body::Stored { .. } => None,
            }
        });
        let batches: Vec<_> = batches.collect();
        self.encoding = !batches.is_empty();
        Ok(batches)
    }

    /// The batches that were to be encoded are.
    pub(super) fn end_encoding(&mut self) {
        self.encoding = false;
    }

    /// The encoded blocks that may be written.
    pub(super) fn blocks(&self) -> Vec<(u64, Vec<Arc<Held<Block>>>)> {
        let blocks = self.queue.iter().filter_map(|item| match &item.body {
            Body::Blocks(blocks) => Some((item.number, blocks.clone())),
            _ => None,
        });
        blocks.collect()
    }

    /// Gives item `number` another form, if it is still there.
    pub(super) fn replace(&mut self, number: u64, body: Body) {
        let more = body.weight();
        if let Some(item) = self.item_mut(number) {
            let less = std::mem::replace(&mut item.body, body).weight();
            self.queued.sub(less);
            self.queued.add(more);
            self.merge_stored(number);
        }
    }

    /// Gives up all rows. Returns false when the lane was closed before.
    pub(super) fn close(&mut self) -> bool {
        self.stage = None;
        drop(self.stage_permit.take());
        self.queue.clear();
        self.queued = Weight::default();
        self.windows = 0;
        self.waiter = None;
        !std::mem::replace(&mut self.closed, true)
    }

    /// What the lane holds that pressure could change.
    pub(super) fn weight(&self) -> Weight {
        Weight { arrow: self.queued.arrow + self.stage_permit.bytes(), ..self.queued }
    }

    /// Whether the consumer will find the end, or an error.
    pub(super) fn is_done(&self) -> bool {
        self.closed || self.error.is_some() || (self.finished && self.windows == 0)
    }
}

#[cfg(test)]
mod tests;
