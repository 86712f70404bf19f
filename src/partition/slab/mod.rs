//! Rows of many partitions, narrowed as they come.
//!
//! With many partitions a batch gives few rows to each, and what is staged of all of them together
//! is large. So values are held as offsets from a base that all partitions of a column share, in
//! as few bytes as the range of what came needs, three to four times smaller than Arrow rows. A
//! partition's rows leave as a [`Slab`], which becomes an Arrow batch or blocks.
//!
//! ```text
//!   batch ----> column 0: base, 2 bytes     p0: [ 17 3 250 .. | 7 7 9 .. ][ chunk ] ..
//!   narrowed    column 1: base, 4 bytes     p1: [ chunk ] ..
//!                                              finish(p0) -> Slab -> RecordBatch | block
//! ```

mod chunk;
mod finished;
mod frame;
mod narrow;
mod narrowed;
mod native;
mod rows;
mod texts;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};

use self::chunk::{Chunk, Segment, scatter};
use self::finished::SlabColumn;
use self::frame::{Frame, Layout, NarrowColumn, Seen};
use self::narrow::Narrow;
use self::native::Native;
use self::texts::Texts;
use super::column::Column;
use super::source::{Source, SourceColumn};
use super::stage::StageColumn;
use crate::block::{BlockEncoder, BlockInfo};

pub(crate) use self::finished::Slab;
pub(crate) use self::narrow::SlabScratch;
pub(crate) use self::rows::{SlabLayout, SlabSource, Take};

/// What a column takes of a slab, and what the allocator adds to its buffer.
const SLAB_COLUMN_BYTES: usize = size_of::<SlabColumn>();
const PLAIN_COLUMN_BYTES: usize = 32;

/// A partition that gets this part of its rows from one batch gets room for all of them.
const FULL_AT_ONCE: usize = 16;

/// Rows that a slab has room for at first.
const FIRST_ROWS: usize = 32;

/// The same where memory is ample, as long as all slabs together take no more than so many bytes.
const AMPLE_FIRST_ROWS: usize = 256;
const AMPLE_FIRST_BYTES: usize = 16 * 1024 * 1024;

/// Rows from which on a slab grows by a quarter instead of to the double.
const MANY_ROWS: usize = 512;

/// How much room for more rows a slab makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// What is not used yet is memory that nobody else lacks: rows are moved as rarely as can be.
    Ample,
    /// Little is left unused.
    Careful,
    /// None.
    Lean,
}

enum SlabColumns {
    /// The column of the same number in the chunks.
    Narrow(NarrowColumn),
    /// One per partition.
    Plain(Vec<StageColumn>),
    Texts(Box<Texts>),
}

#[derive(Debug, Default)]
struct Part {
    rows: usize,
    /// Rows that there is room for.
    capacity: usize,
    chunks: Vec<Chunk>,
    /// Bytes of the chunks.
    chunk_bytes: usize,
}

/// How a partition makes room for rows.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// Rows that there is room for then.
    capacity: usize,
    last: Last,
    /// Rows of a chunk that is added.
    added: usize,
}

/// What becomes of the last chunk of a partition.
#[derive(Debug, Clone, Copy)]
enum Last {
    Kept,
    /// It moves to memory with room for so many rows, in the layout of those that come.
    Moved(usize),
    /// It loses its room for more rows, since it has columns that those have not.
    Closed,
}

impl Part {
    fn make_room(&mut self, room: Room, layout: &Arc<Layout>) {
        self.capacity = room.capacity;
        match room.last {
            Last::Kept => {}
            Last::Moved(capacity) => self.move_last(Some(layout), Some(capacity)),
            Last::Closed => self.move_last(None, None),
        }
        if room.added > 0 {
            let chunk = Chunk::new(layout, room.added);
            self.chunk_bytes += chunk.held_bytes();
            self.chunks.push(chunk);
        }
    }

    /// Moves the last chunk to `layout` or the one that it has, with room for `capacity` rows or just
    /// its own.
    fn move_last(&mut self, layout: Option<&Arc<Layout>>, capacity: Option<usize>) {
        let Some(last) = self.chunks.last_mut() else { return };
        let moved = last.to(layout.unwrap_or(&last.layout), capacity.unwrap_or(last.rows));
        self.chunk_bytes = self.chunk_bytes - last.held_bytes() + moved.held_bytes();
        *last = moved;
    }

    /// Shares `take` out to the chunks that have room.
    fn fill<'a>(&mut self, take: &Take<'a>, segments: &mut Vec<Segment<'a>>) {
        let mut left = take.rows;
        let last = self.chunks.len().saturating_sub(2);
        for (index, chunk) in self.chunks.iter_mut().enumerate().skip(last) {
            let (now, rest) = left.split_at(left.len().min(chunk.capacity - chunk.rows));
            left = rest;
            if !now.is_empty() {
                segments.push(Segment::new(take.partition, index, chunk, now));
            }
        }
    }
}

/// The rows that some partitions have so far. It owns all its bytes and knows them exactly: it
/// grows only by what [`growth`](Self::growth) said, so the caller reserves that first.
pub(crate) struct Slabs {
    schema: SchemaRef,
    columns: Vec<SlabColumns>,
    /// Those with values of variable length.
    variable: Vec<usize>,
    parts: Vec<Part>,
    /// Where the columns of rows lie that come.
    layout: Arc<Layout>,
    /// Rows of a full slab.
    full: usize,
    /// Bits that a row takes in plain columns, beside values of variable length, and their number.
    plain_bits: usize,
    plain_columns: usize,
    /// Bytes that a row takes as Arrow arrays, beside values of variable length.
    arrow_row_bytes: usize,
    rows: usize,
    /// Bytes of room for rows, without values of variable length.
    room_bytes: usize,
    scratch: SlabScratch,
}

impl Slabs {
    /// Whether rows of `schema` can be staged in slabs.
    pub(crate) fn can_hold(schema: &Schema) -> bool {
        schema.fields().iter().all(|field| !Column::new(field.data_type()).carries_validity())
    }

    /// Empty slabs of `partitions` partitions, each full at `full` rows.
    pub(crate) fn new(schema: &SchemaRef, partitions: usize, full: usize) -> Self {
        Self::with_texts(schema, partitions, full, |_| None)
    }

    /// As [`new`](Self::new), with the values of strings and binaries numbered as they come. Such slabs
    /// only become blocks, and their [`growth`](Self::growth) leaves the values out.
    pub(crate) fn with_numbered_values(schema: &SchemaRef, partitions: usize, full: usize) -> Self {
        Self::with_texts(schema, partitions, full, |data_type| {
            Texts::try_new(data_type, partitions)
        })
    }

    fn with_texts(
        schema: &SchemaRef,
        partitions: usize,
        full: usize,
        texts: impl Fn(&DataType) -> Option<Texts>,
    ) -> Self {
        let types = || schema.fields().iter().map(|field| field.data_type());
        let column = |data_type: &DataType| match (Native::of(data_type), texts(data_type)) {
            (Some(native), _) => SlabColumns::Narrow(NarrowColumn::new(native)),
            (None, Some(texts)) => SlabColumns::Texts(Box::new(texts)),
            (None, None) => {
                SlabColumns::Plain((0..partitions).map(|_| StageColumn::new(data_type)).collect())
            }
        };
        let columns: Vec<_> = types().map(column).collect();
        let plain = || types().zip(&columns).filter(|(_, c)| matches!(c, SlabColumns::Plain(_)));
        let is_variable =
            |(_, data_type): &(usize, &DataType)| Column::new(data_type).is_variable();
        let mut slabs = Self {
            variable: types().enumerate().filter(is_variable).map(|(index, _)| index).collect(),
            schema: SchemaRef::clone(schema),
            parts: Vec::new(),
            layout: Arc::new(Layout::new(columns.iter().map(SlabColumns::frame))),
            full,
            plain_bits: plain().map(|(of, _)| Column::new(of).fixed_bits() + 1).sum(),
            plain_columns: plain().count(),
            arrow_row_bytes: Self::arrow_row_bytes(schema),
            rows: 0,
            room_bytes: 0,
            scratch: SlabScratch::default(),
            columns,
        };
        slabs.parts.resize_with(partitions, Part::default);
        slabs
    }

    /// Bytes that a row of `schema` takes as Arrow arrays, beside values of variable length.
    pub(crate) fn arrow_row_bytes(schema: &Schema) -> usize {
        schema.fields().iter().map(|field| Column::new(field.data_type()).fixed_bits() / 8).sum()
    }

    /// What empty slabs take.
    pub(crate) fn overhead_bytes(&self) -> usize {
        let per_column = |column: &SlabColumns| match column {
            SlabColumns::Narrow(_) => 0,
            SlabColumns::Plain(_) => size_of::<StageColumn>(),
            SlabColumns::Texts(_) => Texts::PART_BYTES,
        };
        let columns: usize = self.columns.iter().map(per_column).sum();
        self.parts.len() * (columns + size_of::<Part>())
    }

    /// How the rows are held that came last.
    pub(crate) fn layout(&self) -> SlabLayout {
        SlabLayout(Arc::clone(&self.layout))
    }

    /// Rows of `partition`.
    pub(crate) fn rows(&self, partition: usize) -> usize {
        self.parts.get(partition).map_or(0, |part| part.rows)
    }

    /// Bytes of the values of variable length that `partition` holds.
    pub(crate) fn value_bytes(&self, partition: usize) -> usize {
        let bytes = |column: &SlabColumns| match column {
            SlabColumns::Plain(parts) => {
                parts.get(partition).map_or(0, |part| part.column.value_bytes())
            }
            SlabColumns::Texts(texts) => texts.value_bytes(partition),
            SlabColumns::Narrow(_) => 0,
        };
        self.variable.iter().filter_map(|index| self.columns.get(*index)).map(bytes).sum()
    }

    /// Bytes that the rows of `partition` take as Arrow arrays.
    pub(crate) fn arrow_bytes(&self, partition: usize) -> usize {
        self.rows(partition) * self.arrow_row_bytes + self.value_bytes(partition)
    }

    /// The layout of the rows of `source` and of those that come after them.
    fn layout_with(&self, source: &SlabSource<'_>) -> Arc<Layout> {
        let frames =
            || self.columns.iter().enumerate().map(|(index, c)| c.frame_with(source.seen(index)));
        match self.layout.is_of(frames()) {
            true => Arc::clone(&self.layout),
            false => Arc::new(Layout::new(frames())),
        }
    }

    /// Bits that a row takes, beside values of variable length.
    fn row_bits(&self, layout: &Layout) -> usize {
        8 * layout.row_bytes() + self.plain_bits
    }

    /// Bytes of room for `capacity` rows, chunks not counted.
    fn bytes_of(&self, capacity: usize) -> usize {
        let slab = SLAB_COLUMN_BYTES * self.columns.len();
        match capacity {
            0 => 0,
            rows => {
                (rows * self.plain_bits).div_ceil(8)
                    + PLAIN_COLUMN_BYTES * self.plain_columns
                    + slab
            }
        }
    }

    /// Bytes of the room that `partition` has, without values of variable length.
    fn room_bytes_of(&self, partition: usize) -> usize {
        let bytes = |part: &Part| self.bytes_of(part.capacity) + part.chunk_bytes;
        self.parts.get(partition).map_or(0, bytes)
    }

    fn grown(&self, part: &Part, more: usize, growth: Growth, row_bits: usize) -> usize {
        let needed = part.rows + more;
        if needed <= part.capacity {
            return part.capacity;
        }
        if growth != Growth::Lean && more * FULL_AT_ONCE >= self.full {
            return self.full.max(needed);
        }
        let capacity = match (growth, part.capacity) {
            (Growth::Lean, _) => needed,
            (Growth::Ample, 0) => needed.max(self.first_rows(row_bits)),
            (Growth::Careful, 0) => needed.max(FIRST_ROWS),
            (Growth::Careful, large @ MANY_ROWS..) => needed.max(large + large / 4),
            (_, some) => needed.max(2 * some),
        };
        capacity.next_multiple_of(16).min(self.full.max(needed))
    }

    fn first_rows(&self, row_bits: usize) -> usize {
        let bytes = self.parts.len().saturating_mul(row_bits) / 8;
        (AMPLE_FIRST_BYTES / bytes.max(1)).clamp(FIRST_ROWS, AMPLE_FIRST_ROWS)
    }

    /// How `part` makes room for `more` rows in `layout`.
    fn room(&self, part: &Part, more: usize, growth: Growth, layout: &Arc<Layout>) -> Room {
        let capacity = self.grown(part, more, growth, self.row_bits(layout));
        let added = if layout.row_bytes() > 0 { capacity - part.capacity } else { 0 };
        let room = Room { capacity, last: Last::Kept, added };
        let Some(last) = part.chunks.last() else { return room };
        let free = last.capacity - last.rows;
        let is_small = growth == Growth::Lean && last.rows < FIRST_ROWS && added > 0;
        if is_small && last.fits(layout) {
            // Little is moved, and what a chunk takes beside its rows is saved.
            return Room { last: Last::Moved(last.capacity + added), added: 0, ..room };
        }
        match free > 0 && !Arc::ptr_eq(&last.layout, layout) {
            true if last.fits(layout) => Room { last: Last::Moved(last.capacity), ..room },
            true if layout.row_bytes() > 0 => {
                Room { last: Last::Closed, added: added + free, ..room }
            }
            true => Room { last: Last::Closed, ..room },
            false => room,
        }
    }

    /// Bytes by which the slabs grow when they take `takes`, at most one for each partition.
    pub(crate) fn growth(
        &self,
        source: &SlabSource<'_>,
        takes: &[Take<'_>],
        growth: Growth,
    ) -> usize {
        let layout = self.layout_with(source);
        let row_bytes = layout.row_bytes();
        let mut more = 0;
        for take in takes {
            let Some(part) = self.parts.get(take.partition) else { continue };
            let room = self.room(part, take.rows.len(), growth, &layout);
            more += self.bytes_of(room.capacity) - self.bytes_of(part.capacity);
            if room.added > 0 {
                more += Chunk::bytes_of(room.added, row_bytes);
            }
            if let (Last::Moved(capacity), Some(last)) = (room.last, part.chunks.last()) {
                more += Chunk::bytes_of(capacity, row_bytes).saturating_sub(last.held_bytes());
            }
        }
        more + self.plain_growth(source.source, takes)
    }

    fn plain_growth(&self, source: &Source, takes: &[Take<'_>]) -> usize {
        let mut more = 0;
        for (column, source) in self.columns.iter().zip(&source.columns) {
            let SlabColumns::Plain(parts) = column else { continue };
            if !parts.first().is_some_and(StageColumn::is_variable) {
                continue;
            }
            for take in takes {
                let part = parts.get(take.partition);
                more += part.map_or(0, |part| part.column.growth(source, take.rows));
            }
        }
        more
    }

    /// Numbers the values of strings and binaries of `source`, where these are slabs that do so, once
    /// for all rows of the batch.
    pub(crate) fn number(&mut self, source: &mut SlabSource<'_>) {
        if !source.numbered.is_empty() {
            return;
        }
        source.numbered.resize(self.columns.len(), 0);
        for (index, column) in self.columns.iter_mut().enumerate() {
            let (SlabColumns::Texts(texts), Some(from)) =
                (column, source.source.columns.get(index))
            else {
                continue;
            };
            let (numbers, rows) = texts.number(from, source.source.rows());
            if let Some(narrowed) = source.narrowed.get_mut(index) {
                *narrowed = Some(numbers);
            }
            if let Some(numbered) = source.numbered.get_mut(index) {
                *numbered = rows;
            }
        }
    }

    /// Takes the rows of `takes`, at most one for each partition.
    ///
    /// # Errors
    /// None that occur: the types that need Arrow's `take` are not held in slabs.
    pub(crate) fn append(
        &mut self,
        source: &SlabSource<'_>,
        takes: &[Take<'_>],
        growth: Growth,
    ) -> Result<()> {
        let layout = self.layout_with(source);
        let rooms: Vec<Room> = takes
            .iter()
            .map(|take| match self.parts.get(take.partition) {
                Some(part) => self.room(part, take.rows.len(), growth, &layout),
                None => Room { capacity: 0, last: Last::Kept, added: 0 },
            })
            .collect();
        self.append_plain(source, takes, &rooms)?;
        self.layout = layout;
        let mut segments = Vec::with_capacity(takes.len() + takes.len() / 4);
        for (take, room) in takes.iter().zip(rooms) {
            let before = self.room_bytes_of(take.partition);
            let Some(part) = self.parts.get_mut(take.partition) else { continue };
            part.make_room(room, &self.layout);
            part.rows += take.rows.len();
            self.rows += take.rows.len();
            if self.layout.row_bytes() > 0 {
                part.fill(take, &mut segments);
            }
            self.room_bytes = self.room_bytes - before + self.room_bytes_of(take.partition);
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.fit(source.seen(index));
            let native = match column {
                SlabColumns::Narrow(column) => column.native(),
                SlabColumns::Texts(texts) => texts.native(),
                SlabColumns::Plain(_) => continue,
            };
            let (from, narrowed) = (source.source.columns.get(index), source.narrowed(index));
            let slot = self.layout.slot(index);
            if let (Some(from), Some(narrowed), 1..) = (from, narrowed, slot.frame.width) {
                scatter(narrowed, native, from, slot, &mut segments);
            }
        }
        for segment in segments {
            let (partition, index) = segment.place();
            let part = self.parts.get_mut(partition);
            if let Some(chunk) = part.and_then(|part| part.chunks.get_mut(index)) {
                segment.end(chunk);
            }
        }
        Ok(())
    }

    /// The same for what is not held in chunks.
    fn append_plain(
        &mut self,
        source: &SlabSource<'_>,
        takes: &[Take<'_>],
        rooms: &[Room],
    ) -> Result<()> {
        for (index, column) in self.columns.iter_mut().enumerate() {
            let Some(from) = source.source.columns.get(index) else { continue };
            match column {
                SlabColumns::Narrow(_) => {}
                SlabColumns::Texts(texts) => {
                    let numbered = source.numbered.get(index).copied().unwrap_or(0);
                    texts.append(from, numbered, takes)?;
                }
                SlabColumns::Plain(parts) => {
                    for (take, room) in takes.iter().zip(rooms) {
                        let (Some(column), Some(part)) =
                            (parts.get_mut(take.partition), self.parts.get(take.partition))
                        else {
                            continue;
                        };
                        if room.capacity > part.capacity {
                            column.column.reserve_rows(room.capacity);
                        }
                        column.append(from, take.rows, part.rows, room.capacity)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of `partition`, which is empty after it, and the bytes they were charged with.
    ///
    /// # Errors
    /// Those of building the arrays.
    pub(crate) fn finish(&mut self, partition: usize) -> Result<(Slab, usize)> {
        self.room_bytes -= self.room_bytes_of(partition);
        let mut part = self.parts.get_mut(partition).map(std::mem::take).unwrap_or_default();
        let mut bytes = self.bytes_of(part.capacity);
        let charged = part.chunk_bytes;
        if part.capacity > 2 * part.rows {
            part.move_last(None, None);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter_mut().zip(self.schema.fields()) {
            columns.push(match column {
                SlabColumns::Narrow(column) => {
                    SlabColumn::Narrow { native: column.native(), nulls: column.has_nulls() }
                }
                SlabColumns::Texts(_) => return internal_err!("numbered values become blocks"),
                SlabColumns::Plain(parts) => {
                    let Some(column) = parts.get_mut(partition) else { continue };
                    bytes += column.column.value_capacity();
                    SlabColumn::Array(column.finish(field.data_type(), part.rows)?)
                }
            });
        }
        self.emptied(part.rows);
        let held_bytes = bytes + part.chunk_bytes;
        let Part { rows, chunks, .. } = part;
        Ok((Slab { columns, chunks, rows, held_bytes }, bytes + charged))
    }

    /// `rows` have left.
    fn emptied(&mut self, rows: usize) {
        self.rows -= rows;
        if self.rows == 0 {
            self.columns.iter_mut().for_each(SlabColumns::forget);
        }
    }
}

impl Slabs {
    /// Appends a block with the rows of `partition` to `out`. The partition is empty after it.
    ///
    /// # Errors
    /// As [`BlockEncoder::encode`].
    pub(crate) fn encode(
        &mut self,
        partition: usize,
        encoder: &mut BlockEncoder,
        out: &mut Vec<u8>,
    ) -> Result<BlockInfo> {
        self.room_bytes -= self.room_bytes_of(partition);
        let part = self.parts.get_mut(partition).map(std::mem::take).unwrap_or_default();
        let Part { rows, chunks, .. } = part;
        encoder.begin();
        let scratch = &mut self.scratch;
        let columns = self.columns.iter_mut().zip(self.schema.fields());
        for (index, (column, field)) in columns.enumerate() {
            match column {
                SlabColumns::Narrow(column) => {
                    let (native, nulls) = (column.native(), column.has_nulls());
                    let column = Narrow { chunks: &chunks, column: index, native, nulls };
                    column.encode(0..rows, encoder, scratch)?;
                }
                SlabColumns::Texts(texts) => {
                    texts.encode(partition, (&chunks, index), encoder, scratch)?;
                }
                SlabColumns::Plain(parts) => {
                    let Some(column) = parts.get_mut(partition) else { continue };
                    let array = column.finish(field.data_type(), rows)?;
                    encoder.put_array(field.data_type(), array.as_ref(), 0..rows)?;
                }
            }
        }
        self.emptied(rows);
        Ok(encoder.finish(rows, out)?)
    }

    /// Bytes by which the values that are numbered grow at most when all rows of `source` come.
    pub(crate) fn numbered_growth(&self, source: &SlabSource<'_>) -> usize {
        let growth = |(column, from): (&SlabColumns, &SourceColumn)| match column {
            SlabColumns::Texts(texts) => texts.growth(from, source.all_rows()),
            SlabColumns::Narrow(_) | SlabColumns::Plain(_) => 0,
        };
        self.columns.iter().zip(&source.source.columns).map(growth).sum()
    }

    /// Bytes of the rows, without room that they do not use.
    pub(crate) fn used_bytes(&self) -> usize {
        let texts = |column: &SlabColumns| match column {
            SlabColumns::Texts(texts) => texts.used_bytes(),
            SlabColumns::Narrow(_) | SlabColumns::Plain(_) => 0,
        };
        let rows = self.rows * self.row_bits(&self.layout) / 8;
        rows + self.columns.iter().map(texts).sum::<usize>()
    }

    /// Bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |column: &SlabColumns| match column {
            SlabColumns::Texts(texts) => texts.held_bytes(),
            SlabColumns::Plain(parts) if parts.first().is_some_and(StageColumn::is_variable) => {
                parts.iter().map(|part| part.column.value_capacity()).sum()
            }
            SlabColumns::Narrow(_) | SlabColumns::Plain(_) => 0,
        };
        self.overhead_bytes() + self.room_bytes + self.columns.iter().map(held).sum::<usize>()
    }

    /// Bytes of scratch that blocks share.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.scratch.held_bytes()
    }
}

impl SlabColumns {
    /// How the column is held in chunks.
    fn frame(&self) -> Frame {
        self.frame_with(Seen::default())
    }

    /// The same with the rows that `more` is known of.
    fn frame_with(&self, more: Seen) -> Frame {
        match self {
            SlabColumns::Narrow(column) => column.frame_with(more),
            SlabColumns::Texts(texts) => texts.frame_with(more),
            SlabColumns::Plain(_) => Frame::NOTHING,
        }
    }

    fn fit(&mut self, more: Seen) {
        match self {
            SlabColumns::Narrow(column) => column.fit(more),
            SlabColumns::Texts(texts) => texts.fit(more),
            SlabColumns::Plain(_) => {}
        }
    }

    /// No partition holds rows any more.
    fn forget(&mut self) {
        match self {
            SlabColumns::Narrow(column) => column.forget(),
            SlabColumns::Texts(texts) => texts.forget(),
            SlabColumns::Plain(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
