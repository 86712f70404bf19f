use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_err};

use super::bits::Bits;
use super::column::{Column, next_capacity};
use super::pieces::Finished;
use super::source::{Rows, Source, SourceColumn};

/// A stage that is this part full gets room for all its rows.
const FULL_AT_ONCE: usize = 16;

/// How much room a stage makes when it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// For a full stage, where it is going to be one.
    Full,
    /// For little more than the rows that come: memory is short.
    Lean,
}

/// Rows that one partition has so far, column by column, each gathered once from its batch.
///
/// The stage owns all its bytes and knows them exactly: it grows only by what
/// [`growth`](Self::growth) said, so the caller reserves that first.
pub(crate) struct Stage {
    schema: SchemaRef,
    columns: Vec<StageColumn>,
    rows: usize,
    capacity: usize,
    /// Rows of a full stage.
    full: usize,
    fixed_bits: usize,
}

/// Validity of one column of a batch, in the order of its rows by partition.
#[derive(Debug, Default)]
pub(crate) struct GroupedValidity {
    words: Vec<u64>,
}

impl GroupedValidity {
    /// That of column `index` of `source`, if it has nulls that are so few that this is cheaper than
    /// a gather of the bits of all rows. `places` are those of the rows in the grouped order.
    #[expect(
        clippy::indexing_slicing,
        reason = "every row of the batch has a place below them all"
    )]
    pub(crate) fn load(&mut self, source: &Source, index: usize, places: &[u32]) -> Option<&Self> {
        let nulls = source.few_nulls(index)?;
        self.words.clear();
        self.words.resize(places.len().div_ceil(64), u64::MAX);
        let chunks = nulls.inner().bit_chunks();
        for (chunk, bits) in chunks.iter_padded().enumerate() {
            let in_chunk = (places.len() - (64 * chunk).min(places.len())).min(64);
            let mut missing = !bits & u64::MAX.checked_shr(64 - to_u32(in_chunk)).unwrap_or(0);
            while missing != 0 {
                let place = places[64 * chunk + missing.trailing_zeros() as usize] as usize;
                self.words[place / 64] &= !(1 << (place % 64));
                missing &= missing - 1;
            }
        }
        Some(self)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most 64")]
fn to_u32(bits: usize) -> u32 {
    bits as u32
}

/// Rows of one column and their validity.
pub(super) struct StageColumn {
    pub(super) column: Column,
    nulls: Option<Bits>,
}

impl StageColumn {
    pub(super) fn new(data_type: &DataType) -> Self {
        Self { column: Column::new(data_type), nulls: None }
    }

    /// Whether rows take bytes beside the fixed ones.
    pub(super) fn is_variable(&self) -> bool {
        self.column.is_variable()
    }

    /// Takes `rows` of `source` after `before` others; there is room for `capacity` in all.
    ///
    /// # Errors
    /// Those of Arrow's `take` for the types without a kernel of their own.
    pub(super) fn append(
        &mut self,
        source: &SourceColumn,
        rows: Rows<'_>,
        before: usize,
        capacity: usize,
    ) -> Result<()> {
        if !self.column.carries_validity() {
            let nulls = source.data.nulls().filter(|nulls| nulls.null_count() > 0);
            append_validity(&mut self.nulls, before, capacity, nulls, rows);
        }
        self.column.append(source, rows)
    }

    /// The `rows` rows as an array, for the types with a kernel.
    ///
    /// # Errors
    /// Those of building the array.
    pub(super) fn finish(&mut self, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
        let nulls = self.nulls.take().map(|mut bits| NullBuffer::new(bits.finish()));
        match self.column.finish(data_type, rows, nulls)?.joined()? {
            Some(array) => Ok(array),
            None => internal_err!("a column of {data_type} came in pieces"),
        }
    }
}

impl Stage {
    /// An empty stage that is full at `full` rows.
    pub(crate) fn new(schema: &SchemaRef, full: usize) -> Self {
        let columns: Vec<_> =
            schema.fields().iter().map(|field| StageColumn::new(field.data_type())).collect();
        let fixed_bits = columns.iter().map(|column| column.column.fixed_bits() + 1).sum();
        Self { schema: Arc::clone(schema), columns, rows: 0, capacity: 0, full, fixed_bits }
    }

    /// What an empty stage of `schema` takes.
    pub(crate) fn overhead_bytes(schema: &SchemaRef) -> usize {
        size_of::<Self>() + schema.fields().len() * size_of::<StageColumn>()
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the rows, room for more not counted.
    pub(crate) fn row_bytes(&self) -> usize {
        let values: usize = self.columns.iter().map(|column| column.column.value_bytes()).sum();
        values + (self.rows * self.fixed_bits).div_ceil(8)
    }

    /// Bytes held, with the room for more rows.
    pub(crate) fn held_bytes(&self) -> usize {
        let values: usize = self.columns.iter().map(|column| column.column.value_capacity()).sum();
        let rounding = if self.capacity == 0 { 0 } else { 16 * self.columns.len() };
        Self::overhead_bytes(&self.schema)
            + (self.capacity * self.fixed_bits).div_ceil(8)
            + values
            + rounding
    }

    /// Capacity in rows that takes `more`: what is needed while a partition gets few rows of a batch,
    /// room for a full stage at once when it gets many, so that they are copied once.
    fn grown(&self, more: usize, room: Room) -> usize {
        let needed = self.rows + more;
        if needed <= self.capacity {
            return self.capacity;
        }
        match room {
            Room::Full if needed * FULL_AT_ONCE >= self.full => self.full.max(needed),
            _ => next_capacity(self.rows, self.capacity, more).min(self.full).max(needed),
        }
    }

    /// Bytes by which the stage grows when it takes `rows` of `source`.
    pub(crate) fn growth(&self, source: &Source, rows: Rows<'_>, room: Room) -> usize {
        let capacity = self.grown(rows.len(), room);
        let fixed = (capacity - self.capacity) * self.fixed_bits;
        let values: usize = self
            .columns
            .iter()
            .zip(&source.columns)
            .map(|(column, source)| column.column.growth(source, rows))
            .sum();
        // Every column may round its bits up and keeps one offset more than rows.
        let rounding = if self.capacity == 0 { 16 * self.columns.len() } else { 0 };
        fixed.div_ceil(8) + values + rounding
    }

    /// Takes `rows` of `source`.
    ///
    /// # Errors
    /// Those of Arrow's `take` for the types without a kernel of their own.
    pub(crate) fn append(&mut self, source: &Source, rows: Rows<'_>, room: Room) -> Result<()> {
        self.make_room(rows.len(), room);
        for index in 0..self.columns.len() {
            self.append_column(index, source, rows, None)?;
        }
        self.appended(rows.len());
        Ok(())
    }

    /// Makes room for `more` rows, which come column by column.
    pub(crate) fn make_room(&mut self, more: usize, room: Room) {
        let capacity = self.grown(more, room);
        if capacity > self.capacity {
            for column in &mut self.columns {
                column.column.reserve_rows(capacity);
            }
            self.capacity = capacity;
        }
    }

    /// Takes `rows` of column `index` of `source`. `valid` is their validity, and where it starts,
    /// if that is known in this order already.
    ///
    /// # Errors
    /// Those of Arrow's `take` for the types without a kernel of their own.
    pub(crate) fn append_column(
        &mut self,
        index: usize,
        source: &Source,
        rows: Rows<'_>,
        valid: Option<(&GroupedValidity, usize)>,
    ) -> Result<()> {
        let (Some(column), Some(source)) = (self.columns.get_mut(index), source.columns.get(index))
        else {
            return Ok(());
        };
        if let Some((valid, start)) = valid {
            let bits = validity_of(&mut column.nulls, self.rows, self.capacity);
            bits.append_range(&valid.words, start, rows.len());
            return column.column.append(source, rows);
        }
        column.append(source, rows, self.rows, self.capacity)
    }

    /// All columns have taken `count` more rows.
    pub(crate) fn appended(&mut self, count: usize) {
        self.rows += count;
    }

    /// The rows taken so far as a batch of the plan's schema; the stage is empty after it. It is
    /// more than one batch only when the dictionaries of its rows do not fit the key type together.
    ///
    /// # Errors
    /// Nulls where the plan's schema has none.
    pub(crate) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        self.capacity = 0;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter_mut().zip(self.schema.fields()) {
            let nulls = column.nulls.take().map(|mut bits| NullBuffer::new(bits.finish()));
            arrays.push(column.column.finish(field.data_type(), rows, nulls)?);
        }
        join(&self.schema, &arrays, rows)
    }
}

/// Joins what the columns finished to: one array each, or the pieces of the columns without a
/// kernel, which are cut at the same rows.
fn join(schema: &SchemaRef, columns: &[Finished], rows: usize) -> Result<Vec<RecordBatch>> {
    let mut whole = Vec::with_capacity(columns.len());
    for column in columns {
        match column.joined()? {
            Some(array) => whole.push(array),
            None => return join_by_piece(schema, columns),
        }
    }
    Ok(vec![to_batch(schema, whole, rows)?])
}

fn join_by_piece(schema: &SchemaRef, columns: &[Finished]) -> Result<Vec<RecordBatch>> {
    let lengths: Vec<_> = columns
        .iter()
        .find_map(Finished::pieces)
        .map(|pieces| pieces.iter().map(|piece| piece.len()).collect())
        .unwrap_or_default();
    let mut start = 0;
    let mut batches = Vec::with_capacity(lengths.len());
    for (index, len) in lengths.into_iter().enumerate() {
        let arrays = columns.iter().map(|column| column.piece(index, start, len)).collect();
        batches.push(to_batch(schema, arrays, len)?);
        start += len;
    }
    Ok(batches)
}

fn to_batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

fn append_validity(
    bits: &mut Option<Bits>,
    before: usize,
    capacity: usize,
    nulls: Option<&NullBuffer>,
    rows: Rows<'_>,
) {
    match (nulls, &mut *bits) {
        (None, None) => {}
        (None, Some(bits)) => bits.append_ones(rows.len()),
        (Some(nulls), _) => validity_of(bits, before, capacity).gather(nulls.inner(), rows),
    }
}

/// Validity of a column, that of the `before` rows until now included.
fn validity_of(bits: &mut Option<Bits>, before: usize, capacity: usize) -> &mut Bits {
    bits.get_or_insert_with(|| {
        let mut bits = Bits::default();
        bits.reserve(capacity);
        bits.append_ones(before);
        bits
    })
}
