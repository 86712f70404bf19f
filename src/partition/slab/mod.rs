//! Rows of many partitions, narrowed as they come.
//!
//! With many partitions a batch gives few rows to each, and what is staged of all of them together
//! is large. So values are held as offsets from a base that all partitions of a column share, in
//! as few bytes as the range of what came needs, three to four times smaller than Arrow rows. A
//! partition's rows leave as a [`Slab`], which becomes an Arrow batch or blocks.
//!
//! ```text
//!   batch ----> column 0: base, 2 bytes   [ p0: 17 3 250 .. ][ p1: 9 12 .. ] ..
//!   by runs     column 1: base, 4 bytes   [ p0: ..          ][ p1: ..      ] ..
//!                                              finish(p0) -> Slab -> RecordBatch | block
//! ```

mod finished;
mod narrow;
mod native;
mod rows;
mod texts;

use std::ops::Range;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};

use self::finished::SlabColumn;
use self::narrow::{Missing, NarrowColumn};
use self::native::Native;
use self::rows::Targets;
use self::texts::{Numbers, Texts};
use super::blocks::After;
use super::column::Column;
use super::source::{Source, SourceColumn};
use super::stage::StageColumn;
use crate::block::{BlockEncoder, BlockInfo};

pub(crate) use self::finished::Slab;
pub(crate) use self::rows::{SlabSource, Take};

/// What a column of a partition takes beside its rows: itself, what the allocator adds to its
/// buffer, and one offset more than rows.
const COLUMN_BYTES: usize = size_of::<SlabColumn>() + 32;

/// A partition that gets this part of its rows from one batch gets room for all of them.
const FULL_AT_ONCE: usize = 16;

/// A column is read in order first where at least this part of its rows is gathered.
const FETCH_PART: usize = 4;

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
    Narrow(NarrowColumn),
    /// One per partition.
    Plain(Vec<StageColumn>),
    Texts(Box<Texts>),
}

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    rows: usize,
    capacity: usize,
}

/// The rows that some partitions have so far. It owns all its bytes and knows them exactly: it
/// grows only by what [`growth`](Self::growth) said, so the caller reserves that first.
pub(crate) struct Slabs {
    schema: SchemaRef,
    /// Number of the first of the partitions; those in takes are counted from it.
    first: usize,
    /// Number of this group of partitions.
    group: usize,
    columns: Vec<SlabColumns>,
    /// Those with values of variable length.
    variable: Vec<usize>,
    parts: Vec<Part>,
    /// Rows of a full slab.
    full: usize,
    /// Bits that a row takes, beside values of variable length.
    row_bits: usize,
    /// Bytes that a row takes as Arrow arrays, beside values of variable length.
    arrow_row_bytes: usize,
    rows: usize,
}

impl Slabs {
    /// Whether rows of `schema` can be staged in slabs.
    pub(crate) fn can_hold(schema: &Schema) -> bool {
        schema.fields().iter().all(|field| !Column::new(field.data_type()).carries_validity())
    }

    /// Empty slabs of `partitions`, which are group `group` of all, each full at `full` rows.
    pub(crate) fn new(
        schema: &SchemaRef,
        group: usize,
        partitions: Range<usize>,
        full: usize,
    ) -> Self {
        let first = partitions.start;
        let partitions = partitions.len();
        let columns = schema.fields().iter().map(|field| {
            let data_type = field.data_type();
            match Native::of(data_type) {
                Some(native) => SlabColumns::Narrow(NarrowColumn::new(native, partitions)),
                None => SlabColumns::Plain(
                    (0..partitions).map(|_| StageColumn::new(data_type)).collect(),
                ),
            }
        });
        let is_variable = |index: &usize| {
            let field = schema.fields().get(*index);
            field.is_some_and(|field| Column::new(field.data_type()).is_variable())
        };
        let mut slabs = Self {
            variable: (0..schema.fields().len()).filter(is_variable).collect(),
            schema: SchemaRef::clone(schema),
            first,
            group,
            columns: columns.collect(),
            parts: vec![Part::default(); partitions],
            full,
            row_bits: 0,
            arrow_row_bytes: Self::arrow_row_bytes(schema),
            rows: 0,
        };
        slabs.row_bits = slabs.row_bits_with(&[]);
        slabs
    }

    /// As [`new`](Self::new), with the values of strings and binaries numbered as they come. Such slabs
    /// only become blocks, and their [`growth`](Self::growth) leaves the values out.
    pub(crate) fn with_numbered_values(schema: &SchemaRef, partitions: usize, full: usize) -> Self {
        let mut slabs = Self::new(schema, 0, 0..partitions, full);
        for (column, field) in slabs.columns.iter_mut().zip(schema.fields()) {
            if let Some(texts) = Texts::try_new(field.data_type(), partitions) {
                *column = SlabColumns::Texts(Box::new(texts));
            }
        }
        slabs.row_bits = slabs.row_bits_with(&[]);
        slabs
    }

    /// Bytes that a row of `schema` takes as Arrow arrays, beside values of variable length.
    pub(crate) fn arrow_row_bytes(schema: &Schema) -> usize {
        schema.fields().iter().map(|field| Column::new(field.data_type()).fixed_bits() / 8).sum()
    }

    /// What empty slabs take.
    pub(crate) fn overhead_bytes(&self) -> usize {
        let per_column = |column: &SlabColumns| match column {
            SlabColumns::Narrow(_) => size_of::<Vec<u64>>() * 2,
            SlabColumns::Plain(_) => size_of::<StageColumn>(),
            SlabColumns::Texts(_) => size_of::<StageColumn>() + size_of::<Vec<u64>>() * 2,
        };
        let columns: usize = self.columns.iter().map(per_column).sum();
        self.parts.len() * (columns + size_of::<Part>())
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

    fn plain(&self, partition: usize) -> impl Iterator<Item = &StageColumn> {
        self.columns.iter().filter_map(move |column| match column {
            SlabColumns::Plain(parts) => parts.get(partition),
            SlabColumns::Narrow(_) | SlabColumns::Texts(_) => None,
        })
    }

    fn row_bits_with(&self, ranges: &[Option<(i128, i128)>]) -> usize {
        let bits = |(index, column): (usize, &SlabColumns)| match column {
            SlabColumns::Narrow(column) => {
                let range = ranges.get(index).copied().flatten();
                NarrowColumn::row_bits(column.frame_for(range))
            }
            SlabColumns::Plain(parts) => {
                parts.first().map_or(0, |part| part.column.fixed_bits() + 1)
            }
            SlabColumns::Texts(texts) => texts.row_bits(ranges.get(index).copied().flatten()),
        };
        self.columns.iter().enumerate().map(bits).sum()
    }

    /// Bits of a row in the columns that are narrowed.
    fn narrow_bits(&self) -> usize {
        let bits = |column: &SlabColumns| match column {
            SlabColumns::Narrow(column) => NarrowColumn::row_bits(column.frame_for(None)),
            SlabColumns::Plain(_) | SlabColumns::Texts(_) => 0,
        };
        self.columns.iter().map(bits).sum()
    }

    fn bytes_of(&self, capacity: usize, row_bits: usize) -> usize {
        match capacity {
            0 => 0,
            _ => (capacity * row_bits).div_ceil(8) + COLUMN_BYTES * self.columns.len(),
        }
    }

    fn grown(&self, part: Part, more: usize, growth: Growth) -> usize {
        let needed = part.rows + more;
        if needed <= part.capacity {
            return part.capacity;
        }
        if growth != Growth::Lean && more * FULL_AT_ONCE >= self.full {
            return self.full.max(needed);
        }
        let capacity = match (growth, part.capacity) {
            (Growth::Lean, _) => needed,
            (Growth::Ample, 0) => needed.max(self.first_rows()),
            (Growth::Careful, 0) => needed.max(FIRST_ROWS),
            (Growth::Careful, large @ MANY_ROWS..) => needed.max(large + large / 4),
            (_, some) => needed.max(2 * some),
        };
        capacity.next_multiple_of(16).min(self.full.max(needed))
    }

    fn first_rows(&self) -> usize {
        let bytes = self.parts.len().saturating_mul(self.row_bits) / 8;
        (AMPLE_FIRST_BYTES / bytes.max(1)).clamp(FIRST_ROWS, AMPLE_FIRST_ROWS)
    }

    /// Bytes by which the slabs grow when they take `takes`, at most one for each partition.
    pub(crate) fn growth(
        &self,
        source: &SlabSource<'_>,
        takes: &[Take<'_>],
        growth: Growth,
    ) -> usize {
        let row_bits = self.row_bits_with(&source.ranges);
        let mut more = 0;
        if row_bits > self.row_bits {
            let widened = |part: &Part| {
                self.bytes_of(part.capacity, row_bits) - self.bytes_of(part.capacity, self.row_bits)
            };
            more += self.parts.iter().map(widened).sum::<usize>();
        }
        for take in takes {
            let part = self.parts.get(take.partition).copied().unwrap_or_default();
            let capacity = self.grown(part, take.rows.len(), growth);
            more += self.bytes_of(capacity, row_bits) - self.bytes_of(part.capacity, row_bits);
        }
        more + self.plain_growth(source.source, takes)
    }

    fn plain_growth(&self, source: &Source, takes: &[Take<'_>]) -> usize {
        let mut more = 0;
        for (column, source) in self.columns.iter().zip(&source.columns) {
            let SlabColumns::Plain(parts) = column else { continue };
            if parts.first().is_none_or(|part| !part.column.is_variable()) {
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
        if !source.numbers.is_empty() {
            return;
        }
        source.numbers.resize_with(self.columns.len(), Numbers::default);
        for (index, column) in self.columns.iter_mut().enumerate() {
            let (SlabColumns::Texts(texts), Some(from)) =
                (column, source.source.columns.get(index))
            else {
                continue;
            };
            let numbers = texts.number(from, source.source.rows());
            let nulls = source.null_rows(from);
            if let Some(to) = source.nulls.get_mut(index) {
                *to = nulls;
            }
            if let Some(range) = source.ranges.get_mut(index) {
                *range = numbers.range;
            }
            if let Some(to) = source.numbers.get_mut(index) {
                *to = numbers;
            }
        }
    }

    /// Takes the rows of `takes`, at most one for each partition. Returns the bytes by which it
    /// shrank, where narrower offsets do.
    ///
    /// # Errors
    /// None that occur: the types that need Arrow's `take` are not held in slabs.
    pub(crate) fn append(
        &mut self,
        source: &SlabSource<'_>,
        takes: &[Take<'_>],
        growth: Growth,
    ) -> Result<usize> {
        let before = self.row_bits;
        self.row_bits = self.row_bits_with(&source.ranges);
        let shrunk = |part: &Part| {
            self.bytes_of(part.capacity, before)
                .saturating_sub(self.bytes_of(part.capacity, self.row_bits))
        };
        let freed = if before > self.row_bits { self.parts.iter().map(shrunk).sum() } else { 0 };
        let mut grown = Vec::with_capacity(takes.len());
        for take in takes {
            let part = self.parts.get(take.partition).copied().unwrap_or_default();
            let capacity = self.grown(part, take.rows.len(), growth);
            grown.push((capacity > part.capacity).then_some(capacity));
        }
        let partitions = self.parts.len();
        let taken: usize = takes.iter().map(|take| take.rows.len()).sum();
        let scattered = source.grouped.is_some() && taken * FETCH_PART >= source.source.rows();
        let group = if source.grouped.is_some() { self.group } else { 0 };
        let nulls = |index: usize| {
            let rows = source.nulls.get(index).and_then(|groups| groups.get(group));
            rows.map_or(&[][..], Vec::as_slice)
        };
        let any_nulls = (0..self.columns.len()).any(|index| !nulls(index).is_empty());
        let targets =
            any_nulls.then(|| Targets::new(source.grouped, takes, &self.parts, self.first));
        let unnumbered = Numbers::default();
        for (index, column) in self.columns.iter_mut().enumerate() {
            let Some(from) = source.source.columns.get(index) else { continue };
            match column {
                SlabColumns::Narrow(column) => {
                    column.fit(source.ranges.get(index).copied().flatten());
                    for (take, capacity) in takes.iter().zip(&grown) {
                        capacity.iter().for_each(|rows| column.reserve(take.partition, *rows));
                    }
                    if scattered {
                        source.source.fetch(index);
                    }
                    column.append(from, takes);
                    if !nulls(index).is_empty() {
                        mark_missing(column.missing(partitions), nulls(index), targets.as_ref());
                    }
                }
                SlabColumns::Texts(texts) => {
                    for (take, capacity) in takes.iter().zip(&grown) {
                        capacity.iter().for_each(|rows| texts.reserve(take.partition, *rows));
                    }
                    let numbers = source.numbers.get(index).unwrap_or(&unnumbered);
                    texts.append(from, numbers, takes, &self.parts)?;
                    if !nulls(index).is_empty() {
                        mark_missing(texts.missing(partitions), nulls(index), targets.as_ref());
                    }
                }
                SlabColumns::Plain(parts) => {
                    for (take, capacity) in takes.iter().zip(&grown) {
                        let Some(column) = parts.get_mut(take.partition) else { continue };
                        let part = self.parts.get(take.partition).copied().unwrap_or_default();
                        if let Some(capacity) = capacity {
                            column.column.reserve_rows(*capacity);
                        }
                        let capacity = capacity.unwrap_or(part.capacity);
                        column.append(from, take.rows, part.rows, capacity)?;
                    }
                }
            }
        }
        for (take, capacity) in takes.iter().zip(grown) {
            if let Some(part) = self.parts.get_mut(take.partition) {
                part.rows += take.rows.len();
                part.capacity = capacity.unwrap_or(part.capacity);
                self.rows += take.rows.len();
            }
        }
        Ok(freed)
    }

    /// The rows of `partition`, which is empty after it, and the bytes they were charged with.
    ///
    /// # Errors
    /// Those of building the arrays.
    pub(crate) fn finish(&mut self, partition: usize) -> Result<(Slab, usize)> {
        let part = self.parts.get_mut(partition).map(std::mem::take).unwrap_or_default();
        let mut bytes = self.bytes_of(part.capacity, self.row_bits);
        let sparse = part.capacity > 2 * part.rows;
        let mut columns = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter_mut().zip(self.schema.fields()) {
            columns.push(match column {
                SlabColumns::Narrow(column) => {
                    let mut column = column.take(partition);
                    if sparse {
                        column.shrink();
                    }
                    SlabColumn::Narrow(column)
                }
                SlabColumns::Texts(_) => return internal_err!("numbered values become blocks"),
                SlabColumns::Plain(parts) => {
                    let Some(column) = parts.get_mut(partition) else { continue };
                    bytes += column.column.value_capacity();
                    SlabColumn::Array(column.finish(field.data_type(), part.rows)?)
                }
            });
        }
        self.rows -= part.rows;
        if self.rows == 0 {
            self.forget_ranges();
        }
        let held_bytes = match sparse {
            true => {
                bytes - self.bytes_of(part.capacity, self.narrow_bits())
                    + self.bytes_of(part.rows, self.narrow_bits())
            }
            false => bytes,
        };
        Ok((Slab { columns, rows: part.rows, held_bytes }, bytes))
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
        after: After,
    ) -> Result<BlockInfo> {
        let Some(part) = self.parts.get_mut(partition) else {
            return internal_err!("there is no partition {partition}");
        };
        let rows = std::mem::take(&mut part.rows);
        if after == After::Release {
            part.capacity = 0;
        }
        let capacity = part.capacity;
        self.rows -= rows;
        encoder.begin();
        for (column, field) in self.columns.iter_mut().zip(self.schema.fields()) {
            match column {
                SlabColumns::Narrow(column) => column.encode(partition, encoder, after)?,
                SlabColumns::Texts(texts) => texts.encode(partition, rows, encoder, after)?,
                SlabColumns::Plain(parts) => {
                    let Some(column) = parts.get_mut(partition) else { continue };
                    let array = column.finish(field.data_type(), rows)?;
                    encoder.put_array(field.data_type(), array.as_ref(), 0..rows)?;
                    column.column.reserve_rows(capacity);
                }
            }
        }
        if self.rows == 0 {
            self.forget_ranges();
        }
        Ok(encoder.finish(rows, out)?)
    }

    /// Bytes by which the values that are numbered grow at most when all rows of `source` come.
    pub(crate) fn numbered_growth(&self, source: &SlabSource<'_>) -> usize {
        let growth = |(column, from): (&SlabColumns, &SourceColumn)| match column {
            SlabColumns::Texts(texts) => texts.growth(from, source.source.all_rows()),
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
        self.rows * self.row_bits / 8 + self.columns.iter().map(texts).sum::<usize>()
    }

    /// Bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        let of = |(partition, part): (usize, &Part)| {
            let values: usize =
                self.plain(partition).map(|column| column.column.value_capacity()).sum();
            self.bytes_of(part.capacity, self.row_bits) + values
        };
        let texts = |column: &SlabColumns| match column {
            SlabColumns::Texts(texts) => texts.held_bytes(),
            SlabColumns::Narrow(_) | SlabColumns::Plain(_) => 0,
        };
        self.overhead_bytes()
            + self.parts.iter().enumerate().map(of).sum::<usize>()
            + self.columns.iter().map(texts).sum::<usize>()
    }

    fn forget_ranges(&mut self) {
        for column in &mut self.columns {
            match column {
                SlabColumns::Narrow(column) => column.forget_range(),
                SlabColumns::Texts(texts) => texts.forget_range(),
                SlabColumns::Plain(_) => {}
            }
        }
    }
}

/// Sets the bits of the rows of a batch that have no value.
fn mark_missing(missing: &mut [Missing], nulls: &[u32], targets: Option<&Targets<'_>>) {
    let Some(targets) = targets else { return };
    for &row in nulls {
        let Some((partition, row)) = targets.of(row as usize) else { continue };
        missing.get_mut(partition).into_iter().for_each(|missing| missing.set(row));
    }
}

#[cfg(test)]
mod tests;
