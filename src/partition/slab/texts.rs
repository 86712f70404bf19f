//! A column of strings or binaries of all partitions, numbered as they come.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::datatypes::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, LargeBinaryType,
    LargeUtf8Type, StringViewType, Utf8Type,
};
use datafusion::common::Result;

use super::Take;
use super::chunk::Chunk;
use super::frame::{Frame, NarrowColumn, Seen};
use super::narrow::{Narrow, SlabScratch};
use super::narrowed::Narrowed;
use super::native::Native;
use crate::block::{BlockEncoder, Interner, Keyed, OffsetValues, ViewValues};
use crate::partition::bits::Bits;
use crate::partition::column::Column;
use crate::partition::source::{Rows, SourceColumn};
use crate::partition::stage::StageColumn;

/// Rows after which the number of values is judged.
const JUDGED_ROWS: usize = 1024;

/// Bytes of values of a partition from which on they are no longer estimated.
const MANY_BYTES: usize = 1 << 28;

/// Values that a column is expected to have at most where they are numbered.
const MANY_VALUES: usize = 1 << 15;

/// While values repeat, a row is the number of its value; what comes after they stopped to is staged
/// as it is.
pub(super) struct Texts {
    data_type: DataType,
    interner: Interner,
    rows: usize,
    /// Bytes of the values of those rows.
    bytes: usize,
    open: bool,
    numbers: NarrowColumn,
    /// Whether rows that come have no numbers any more.
    is_plain: bool,
    /// Rows that are numbered, and the others, by partition: those come after them.
    parts: Vec<TextPart>,
    /// Bytes of the values that are not numbered, and of the room for them.
    plain_bytes: usize,
    plain_room_bytes: usize,
}

/// The rows of a partition.
struct TextPart {
    numbered: usize,
    plain_rows: usize,
    plain: StageColumn,
}

impl TextPart {
    fn new(data_type: &DataType) -> Self {
        Self { numbered: 0, plain_rows: 0, plain: StageColumn::new(data_type) }
    }
}

impl Texts {
    /// What a partition takes without rows.
    pub(super) const PART_BYTES: usize = size_of::<TextPart>();

    /// A column of `data_type`, if that is one of strings or binaries.
    pub(super) fn try_new(data_type: &DataType, partitions: usize) -> Option<Self> {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        let known =
            matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
        known.then(|| Self {
            data_type: data_type.clone(),
            interner: Interner::default(),
            rows: 0,
            bytes: 0,
            open: true,
            // Wider than any number, so that one more stands for no value.
            numbers: NarrowColumn::new(Native::U32),
            is_plain: false,
            parts: (0..partitions).map(|_| TextPart::new(data_type)).collect(),
            plain_bytes: 0,
            plain_room_bytes: 0,
        })
    }

    /// Bytes held beside the numbers.
    pub(super) fn held_bytes(&self) -> usize {
        self.interner.held_bytes() + self.plain_room_bytes
    }

    /// How numbers are narrowed.
    pub(super) fn native(&self) -> Native {
        self.numbers.native()
    }

    /// The frame of the numbers in chunks that holds what is staged and `more`.
    pub(super) fn frame_with(&self, more: Seen) -> Frame {
        if self.is_plain { Frame::NOTHING } else { self.numbers.frame_with(more) }
    }

    pub(super) fn fit(&mut self, more: Seen) {
        self.numbers.fit(more);
    }

    /// Bytes held beside the numbers, without room that is not used.
    pub(super) fn used_bytes(&self) -> usize {
        self.interner.held_bytes() + self.plain_bytes
    }

    /// Bytes by which it grows at most, beside the numbers, when `rows` of `source` come.
    pub(super) fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        let values = Column::new(&self.data_type).growth(source, rows);
        // Offsets or views, and room that doubles, for what is no longer numbered.
        let plain = 2 * (values + size_of::<u128>() * rows.len());
        plain + if self.open { self.interner.growth(values, rows.len()) } else { 0 }
    }

    /// About how many bytes the values of `partition` have; a bound where they could be too many for
    /// offsets.
    pub(super) fn value_bytes(&self, partition: usize) -> usize {
        let Some(part) = self.parts.get(partition) else { return 0 };
        let plain = part.plain.column.value_bytes();
        let rows = part.numbered;
        let most = rows.saturating_mul(self.interner.longest());
        let numbered = match most {
            ..MANY_BYTES => rows.saturating_mul(self.bytes.div_ceil(self.rows.max(1))).min(most),
            _ => most,
        };
        plain + numbered
    }

    /// Numbers the first of the `rows` rows of a batch, in the order of its memory, and says how many:
    /// all of them as long as values repeat.
    pub(super) fn number(&mut self, source: &SourceColumn, rows: usize) -> (Narrowed, usize) {
        if !self.open {
            self.is_plain = true;
            return (Narrowed::default(), 0);
        }
        let array = source.array.as_ref();
        let ids = match self.data_type {
            DataType::Utf8 => self.number_offsets::<Utf8Type>(array, rows),
            DataType::LargeUtf8 => self.number_offsets::<LargeUtf8Type>(array, rows),
            DataType::Utf8View => self.number_views::<StringViewType>(array, rows),
            DataType::Binary => self.number_offsets::<BinaryType>(array, rows),
            DataType::LargeBinary => self.number_offsets::<LargeBinaryType>(array, rows),
            _ => self.number_views::<BinaryViewType>(array, rows),
        };
        let numbered = ids.len();
        let last = self.interner.len().checked_sub(1);
        (Narrowed::numbers(ids, last, rows, array.nulls()), numbered)
    }

    fn number_offsets<T: ByteArrayType>(&mut self, array: &dyn Array, rows: usize) -> Vec<u16>
    where
        T::Offset: OffsetSizeTrait,
    {
        let all = array.as_bytes::<T>();
        let values = OffsetValues { offsets: all.value_offsets(), bytes: all.value_data() };
        self.number_values(&values, array, rows)
    }

    fn number_views<T: ByteViewType>(&mut self, array: &dyn Array, rows: usize) -> Vec<u16> {
        let all = array.as_byte_view::<T>();
        let value = |row: usize| -> &[u8] { all.value(row).as_ref() };
        self.number_values(&ViewValues { views: all.views(), value }, array, rows)
    }

    fn number_values(&mut self, values: &impl Keyed, array: &dyn Array, rows: usize) -> Vec<u16> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut ids = Vec::with_capacity(rows);
        let before = self.rows;
        while self.open && ids.len() < rows {
            let start = ids.len();
            let end = match self.rows {
                0 => (start + JUDGED_ROWS).min(rows),
                _ => rows,
            };
            self.open = self.interner.number(values, start..end, nulls, &mut ids);
            self.rows += ids.len() - start;
            self.open &= self.rows < JUDGED_ROWS || self.repeats();
        }
        let numbered = self.rows - before;
        self.bytes +=
            if numbered == rows { values.bytes(rows) } else { numbered * self.interner.longest() };
        ids
    }

    /// Whether the values will be few. Of N of them, k rows repeat about k^2 / 2N times.
    fn repeats(&self) -> bool {
        let repeats = self.rows.saturating_sub(self.interner.len());
        2 * repeats >= self.rows || repeats * 2 * MANY_VALUES >= self.rows.saturating_mul(self.rows)
    }

    /// Appends the values of `takes` that are not among the first `numbered` rows of the batch. The
    /// numbers of those go to chunks.
    pub(super) fn append(
        &mut self,
        source: &SourceColumn,
        numbered: usize,
        takes: &[Take<'_>],
    ) -> Result<()> {
        let whole = numbered == source.array.len();
        for take in takes {
            let count = match take.rows {
                rows if whole => rows.len(),
                Rows::Range { start, len } => numbered.saturating_sub(start).min(len),
                Rows::Index(rows) => rows.partition_point(|row| (*row as usize) < numbered),
            };
            let Some(part) = self.parts.get_mut(take.partition) else { continue };
            part.numbered += count;
            let rest = take.rows.split_at(count).1;
            if rest.is_empty() {
                continue;
            }
            let before = part.plain_rows;
            part.plain_rows += rest.len();
            let bytes = used_bytes(&part.plain, before);
            self.plain_room_bytes -= part.plain.column.variable_bytes();
            part.plain.append(source, rest, before, part.plain_rows)?;
            self.plain_room_bytes += part.plain.column.variable_bytes();
            self.plain_bytes += used_bytes(&part.plain, part.plain_rows) - bytes;
        }
        Ok(())
    }

    /// Appends the rows of `partition`, whose numbers are column `column` of `chunks`, to the block
    /// that `encoder` has begun; none are left.
    pub(super) fn encode(
        &mut self,
        partition: usize,
        (chunks, column): (&[Chunk], usize),
        encoder: &mut BlockEncoder,
        scratch: &mut SlabScratch,
    ) -> Result<()> {
        let (native, nulls) = (self.numbers.native(), self.numbers.has_nulls());
        let numbers = Narrow { chunks, column, native, nulls };
        let Some(part) = self.parts.get_mut(partition) else { return Ok(()) };
        let numbered = std::mem::take(&mut part.numbered);
        let plain = std::mem::take(&mut part.plain_rows);
        if plain == 0 {
            let Self { data_type, interner, .. } = self;
            numbers.encode_numbers(0..numbered, data_type, interner, encoder, scratch)?;
            return Ok(());
        }
        self.plain_bytes -= used_bytes(&part.plain, plain);
        self.plain_room_bytes -= part.plain.column.variable_bytes();
        let rest = part.plain.finish(&self.data_type, plain)?;
        if numbered == 0 {
            encoder.put_distinct(&self.data_type, rest.as_ref())?;
            return Ok(());
        }
        let (ids, valid) = numbers.numbers(0..numbered);
        self.encode_mixed(&ids, valid, &rest, encoder)
    }

    /// Rows that are numbered, followed by those of `rest`.
    fn encode_mixed<'a>(
        &'a self,
        ids: &[usize],
        mut valid: Bits,
        rest: &'a ArrayRef,
        encoder: &mut BlockEncoder,
    ) -> Result<()> {
        let mut values: Vec<&[u8]> = Vec::with_capacity(ids.len() + rest.len());
        values.extend(ids.iter().map(|id| self.interner.value(*id)));
        let rest_of: Box<dyn Fn(usize) -> &'a [u8] + 'a> = match self.data_type {
            DataType::Utf8 => Box::new(|row| rest.as_string::<i32>().value(row).as_bytes()),
            DataType::LargeUtf8 => Box::new(|row| rest.as_string::<i64>().value(row).as_bytes()),
            DataType::Utf8View => Box::new(|row| rest.as_string_view().value(row).as_bytes()),
            DataType::Binary => Box::new(|row| rest.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Box::new(|row| rest.as_binary::<i64>().value(row)),
            _ => Box::new(|row| rest.as_binary_view().value(row)),
        };
        values.extend((0..rest.len()).map(rest_of));
        if valid.words().is_empty() {
            valid.append_ones(ids.len());
        }
        match rest.nulls() {
            Some(nulls) => valid.gather(nulls.inner(), Rows::Range { start: 0, len: rest.len() }),
            None => valid.append_ones(rest.len()),
        }
        Ok(encoder.put_scattered(&self.data_type, &values, valid.words())?)
    }

    /// No partition holds rows any more.
    pub(super) fn forget(&mut self) {
        self.numbers.forget();
    }
}

/// Bytes of the `rows` rows of a column.
fn used_bytes(column: &StageColumn, rows: usize) -> usize {
    column.column.value_bytes() + rows * column.column.fixed_bits() / 8
}
