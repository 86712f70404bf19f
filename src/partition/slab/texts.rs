//! A column of strings or binaries of all partitions, numbered as they come.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::datatypes::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, LargeBinaryType,
    LargeUtf8Type, StringViewType, Utf8Type,
};
use datafusion::common::Result;

use super::narrow::{Missing, NarrowColumn};
use super::native::Native;
use super::{Part, Take};
use crate::block::{BlockEncoder, Interner, Keyed, OffsetValues, ViewValues};
use crate::partition::blocks::After;
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
    /// By partition.
    plain: Vec<StageColumn>,
    /// Bytes of the values that are not numbered.
    plain_bytes: usize,
}

/// Numbers of the first rows of a batch.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) ids: Vec<u16>,
    /// Smallest and largest.
    pub(super) range: Option<(i128, i128)>,
}

impl Texts {
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
            numbers: NarrowColumn::new(Native::U16, partitions),
            plain: (0..partitions).map(|_| StageColumn::new(data_type)).collect(),
            plain_bytes: 0,
        })
    }

    /// Bytes held beside the numbers.
    pub(super) fn held_bytes(&self) -> usize {
        let plain = |column: &StageColumn| column.column.variable_bytes();
        self.interner.held_bytes() + self.plain.iter().map(plain).sum::<usize>()
    }

    pub(super) fn row_bits(&self, range: Option<(i128, i128)>) -> usize {
        NarrowColumn::row_bits(self.numbers.frame_for(range))
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
        let plain = self.plain.get(partition).map_or(0, |column| column.column.value_bytes());
        let rows = self.numbers.rows(partition);
        let most = rows.saturating_mul(self.interner.longest());
        let numbered = match most {
            ..MANY_BYTES => rows.saturating_mul(self.bytes.div_ceil(self.rows.max(1))).min(most),
            _ => most,
        };
        plain + numbered
    }

    /// Numbers the first `rows` rows of a batch, in the order of its memory: all of them as long as
    /// values repeat.
    pub(super) fn number(&mut self, source: &SourceColumn, rows: usize) -> Numbers {
        if !self.open {
            return Numbers::default();
        }
        let array = source.array.as_ref();
        match self.data_type {
            DataType::Utf8 => self.number_offsets::<Utf8Type>(array, rows),
            DataType::LargeUtf8 => self.number_offsets::<LargeUtf8Type>(array, rows),
            DataType::Utf8View => self.number_views::<StringViewType>(array, rows),
            DataType::Binary => self.number_offsets::<BinaryType>(array, rows),
            DataType::LargeBinary => self.number_offsets::<LargeBinaryType>(array, rows),
            _ => self.number_views::<BinaryViewType>(array, rows),
        }
    }

    fn number_offsets<T: ByteArrayType>(&mut self, array: &dyn Array, rows: usize) -> Numbers
    where
        T::Offset: OffsetSizeTrait,
    {
        let all = array.as_bytes::<T>();
        let values = OffsetValues { offsets: all.value_offsets(), bytes: all.value_data() };
        self.number_values(&values, array, rows)
    }

    fn number_views<T: ByteViewType>(&mut self, array: &dyn Array, rows: usize) -> Numbers {
        let all = array.as_byte_view::<T>();
        let value = |row: usize| -> &[u8] { all.value(row).as_ref() };
        self.number_values(&ViewValues { views: all.views(), value }, array, rows)
    }

    fn number_values(&mut self, values: &impl Keyed, array: &dyn Array, rows: usize) -> Numbers {
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
        let last = self.interner.len().checked_sub(1).and_then(|last| i128::try_from(last).ok());
        Numbers { range: last.map(|last| (0, last)).filter(|_| !ids.is_empty()), ids }
    }

    /// Whether the values will be few. Of N of them, k rows repeat about k^2 / 2N times.
    fn repeats(&self) -> bool {
        let repeats = self.rows.saturating_sub(self.interner.len());
        2 * repeats >= self.rows || repeats * 2 * MANY_VALUES >= self.rows.saturating_mul(self.rows)
    }

    pub(super) fn reserve(&mut self, partition: usize, rows: usize) {
        self.numbers.reserve(partition, rows);
    }

    /// Appends the values of `takes`; `parts` says what their partitions have so far.
    pub(super) fn append(
        &mut self,
        source: &SourceColumn,
        numbers: &Numbers,
        takes: &[Take<'_>],
        parts: &[Part],
    ) -> Result<()> {
        self.numbers.fit(numbers.range);
        let numbered = |take: &Take<'_>| match take.rows {
            Rows::Range { start, len } => numbers.ids.len().saturating_sub(start).min(len),
            Rows::Index(rows) => rows.partition_point(|row| (*row as usize) < numbers.ids.len()),
        };
        if numbers.ids.len() == source.array.len() {
            self.numbers.append_values(&numbers.ids, takes);
        } else {
            let firsts = takes.iter();
            let firsts = firsts.map(|t| Take { rows: t.rows.split_at(numbered(t)).0, ..*t });
            let firsts: Vec<_> = firsts.collect();
            self.numbers.append_values(&numbers.ids, &firsts);
            for take in takes {
                let rest = take.rows.split_at(numbered(take)).1;
                let Some(plain) = self.plain.get_mut(take.partition).filter(|_| !rest.is_empty())
                else {
                    continue;
                };
                let before = parts.get(take.partition).map_or(0, |part| part.rows);
                let numbered = self.numbers.rows(take.partition);
                let rows = (before + take.rows.len()).saturating_sub(numbered);
                let bytes = used_bytes(plain, rows.saturating_sub(rest.len()));
                plain.append(source, rest, rows.saturating_sub(rest.len()), rows)?;
                self.plain_bytes += used_bytes(plain, rows) - bytes;
            }
        }
        Ok(())
    }

    /// The rows without a value, by partition.
    pub(super) fn missing(&mut self, partitions: usize) -> &mut [Missing] {
        self.numbers.missing(partitions)
    }

    /// Appends the `rows` rows of `partition` to the block that `encoder` has begun; none are left.
    pub(super) fn encode(
        &mut self,
        partition: usize,
        rows: usize,
        encoder: &mut BlockEncoder,
        after: After,
    ) -> Result<()> {
        let numbered = self.numbers.rows(partition);
        if numbered == rows {
            let Self { data_type, interner, numbers, .. } = self;
            numbers.encode_numbers(partition, data_type, interner, encoder)?;
            numbers.clear(partition, after);
            return Ok(());
        }
        let Some(plain) = self.plain.get_mut(partition) else { return Ok(()) };
        self.plain_bytes -= used_bytes(plain, rows - numbered);
        let rest = plain.finish(&self.data_type, rows - numbered)?;
        if numbered == 0 {
            self.numbers.clear(partition, after);
            encoder.put_distinct(&self.data_type, rest.as_ref())?;
            return Ok(());
        }
        self.encode_mixed(partition, &rest, encoder)?;
        self.numbers.clear(partition, after);
        Ok(())
    }

    /// Rows that are numbered, followed by those of `rest`.
    fn encode_mixed<'a>(
        &'a self,
        partition: usize,
        rest: &'a ArrayRef,
        encoder: &mut BlockEncoder,
    ) -> Result<()> {
        let (ids, mut missing) = self.numbers.numbers(partition);
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
        for row in (0..rest.len()).filter(|row| rest.is_null(*row)) {
            missing.set(ids.len() + row);
        }
        let mut valid = Vec::new();
        if !missing.is_empty() {
            missing.valid(0, values.len(), &mut valid);
        }
        Ok(encoder.put_scattered(&self.data_type, &values, &valid)?)
    }

    /// No partition has rows any more.
    pub(super) fn forget_range(&mut self) {
        self.numbers.forget_range();
    }
}

/// Bytes of the `rows` rows of a column.
fn used_bytes(column: &StageColumn, rows: usize) -> usize {
    column.column.value_bytes() + rows * column.column.fixed_bits() / 8
}
