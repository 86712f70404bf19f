//! Typed append kernels: the rows that one column of a partition has so far.

use arrow::array::{ArrayData, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, DataType, IntervalDayTime, IntervalMonthDayNano,
    IntervalUnit, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type, i256,
};
use datafusion::common::Result;

use super::bits::Bits;
use super::pieces::{Finished, Pieces};
use super::source::{Rows, SourceColumn};
use super::values::{Strings, Views};

/// What a column holds beside its fixed bytes per row.
pub(super) enum Column {
    Fixed1(Vec<u8>),
    Fixed2(Vec<u16>),
    Fixed4(Vec<u32>),
    Fixed8(Vec<u64>),
    Fixed16(Vec<i128>),
    Fixed32(Vec<i256>),
    DayTime(Vec<IntervalDayTime>),
    MonthDayNano(Vec<IntervalMonthDayNano>),
    Bits(Bits),
    FixedBytes { width: usize, values: Vec<u8> },
    Bytes32(Strings<i32>),
    Bytes64(Strings<i64>),
    Views(Views),
    Pieces(Pieces),
}

macro_rules! for_fixed {
    ($column:expr, $values:ident => $body:expr, $rest:pat => $other:expr) => {
        match $column {
            Column::Fixed1($values) => $body,
            Column::Fixed2($values) => $body,
            Column::Fixed4($values) => $body,
            Column::Fixed8($values) => $body,
            Column::Fixed16($values) => $body,
            Column::Fixed32($values) => $body,
            Column::DayTime($values) => $body,
            Column::MonthDayNano($values) => $body,
            $rest => $other,
        }
    };
}

impl Column {
    pub(super) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Column::Bits(Bits::default()),
            DataType::Utf8 | DataType::Binary => Column::Bytes32(Strings::default()),
            DataType::LargeUtf8 | DataType::LargeBinary => Column::Bytes64(Strings::default()),
            DataType::Utf8View | DataType::BinaryView => Column::Views(Views::default()),
            DataType::FixedSizeBinary(width) => Column::FixedBytes {
                width: usize::try_from(*width).unwrap_or_default(),
                values: Vec::new(),
            },
            DataType::Interval(IntervalUnit::DayTime) => Column::DayTime(Vec::new()),
            DataType::Interval(IntervalUnit::MonthDayNano) => Column::MonthDayNano(Vec::new()),
            other => match other.primitive_width() {
                Some(1) => Column::Fixed1(Vec::new()),
                Some(2) => Column::Fixed2(Vec::new()),
                Some(4) => Column::Fixed4(Vec::new()),
                Some(8) => Column::Fixed8(Vec::new()),
                Some(16) => Column::Fixed16(Vec::new()),
                Some(32) => Column::Fixed32(Vec::new()),
                _ => Column::Pieces(Pieces::default()),
            },
        }
    }

    /// Bytes that every row takes, validity not counted.
    pub(super) fn fixed_bits(&self) -> usize {
        fn bits<T>(_: &[T]) -> usize {
            8 * size_of::<T>()
        }
        for_fixed!(self, values => bits(values), _ => match self {
            Column::Bits(_) => 1,
            Column::FixedBytes { width, .. } => 8 * width,
            Column::Bytes32(_) => 32,
            Column::Bytes64(_) => 64,
            Column::Views(_) => 128,
            _ => 0,
        })
    }

    /// Bytes beside the fixed ones by which this column grows when it takes `rows`.
    pub(super) fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        match self {
            Column::Bytes32(strings) => strings.growth(source, rows),
            Column::Bytes64(strings) => strings.growth(source, rows),
            Column::Views(views) => views.growth(source, rows),
            Column::Pieces(pieces) => pieces.growth(source, rows),
            _ => 0,
        }
    }

    /// Whether rows take bytes beside the fixed ones.
    pub(super) fn is_variable(&self) -> bool {
        matches!(
            self,
            Column::Bytes32(_) | Column::Bytes64(_) | Column::Views(_) | Column::Pieces(_)
        )
    }

    /// Bytes that values of variable length are charged with.
    pub(super) fn value_capacity(&self) -> usize {
        match self {
            Column::Bytes32(strings) => strings.value_capacity(),
            Column::Bytes64(strings) => strings.value_capacity(),
            Column::Views(views) => views.value_capacity(),
            other => other.value_bytes(),
        }
    }

    /// Bytes that a column of strings or binaries holds: values, and offsets or views.
    pub(super) fn variable_bytes(&self) -> usize {
        match self {
            Column::Bytes32(strings) => strings.held_bytes(),
            Column::Bytes64(strings) => strings.held_bytes(),
            Column::Views(views) => views.held_bytes(),
            other => other.value_bytes(),
        }
    }

    /// Bytes of values of variable length held so far.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Column::Bytes32(strings) => strings.value_bytes(),
            Column::Bytes64(strings) => strings.value_bytes(),
            Column::Views(views) => views.value_bytes(),
            Column::Pieces(pieces) => pieces.bytes(),
            _ => 0,
        }
    }

    /// Makes room for `capacity` rows in all.
    pub(super) fn reserve_rows(&mut self, capacity: usize) {
        for_fixed!(self, values => reserve_to(values, capacity), _ => match self {
            Column::Bits(bits) => bits.reserve(capacity),
            Column::FixedBytes { width, values } => reserve_to(values, *width * capacity),
            Column::Bytes32(strings) => strings.reserve_rows(capacity),
            Column::Bytes64(strings) => strings.reserve_rows(capacity),
            Column::Views(views) => views.reserve_rows(capacity),
            _ => {}
        });
    }

    pub(super) fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) -> Result<()> {
        for_fixed!(self, values => gather(values, source, rows), _ => match self {
            Column::Bits(bits) => {
                let values = BooleanBuffer::new(
                    source.data.buffers().first().cloned().unwrap_or_default(),
                    source.data.offset(),
                    source.data.len(),
                );
                bits.gather(&values, rows);
            }
            Column::FixedBytes { width, values } => gather_bytes(values, *width, source, rows),
            Column::Bytes32(strings) => strings.append(source, rows),
            Column::Bytes64(strings) => strings.append(source, rows),
            Column::Views(views) => views.append(source, rows),
            Column::Pieces(pieces) => pieces.append(source, rows)?,
            _ => {}
        });
        Ok(())
    }

    /// The rows taken so far as an array of `data_type`; the column is empty after it.
    pub(super) fn finish(
        &mut self,
        data_type: &DataType,
        len: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<Finished> {
        let values = for_fixed!(self, values => Buffer::from_vec(std::mem::take(values)), _ => match self {
            Column::Bits(bits) => bits.finish().into_inner(),
            Column::FixedBytes { values, .. } => Buffer::from_vec(std::mem::take(values)),
            Column::Bytes32(strings) => return match data_type {
                DataType::Utf8 => strings.finish::<Utf8Type>(nulls),
                _ => strings.finish::<BinaryType>(nulls),
            },
            Column::Bytes64(strings) => return match data_type {
                DataType::LargeUtf8 => strings.finish::<LargeUtf8Type>(nulls),
                _ => strings.finish::<LargeBinaryType>(nulls),
            },
            Column::Views(views) => return match data_type {
                DataType::Utf8View => views.finish::<StringViewType>(nulls),
                _ => views.finish::<BinaryViewType>(nulls),
            },
            Column::Pieces(pieces) => return Ok(pieces.finish(data_type)),
            _ => Buffer::default(),
        });
        let data = ArrayData::builder(data_type.clone())
            .len(len)
            .add_buffer(values)
            .nulls(nulls)
            .build()?;
        Ok(Finished::Array(make_array(data)))
    }

    /// Whether validity is part of the pieces, so that the stage keeps none beside them.
    pub(super) fn carries_validity(&self) -> bool {
        matches!(self, Column::Pieces(_))
    }
}

/// Room that a vector of `capacity` with `len` elements needs to take `more`: exact at first, then
/// doubled, so that a partition of few rows stays small and one of many is not copied often.
pub(super) fn next_capacity(len: usize, capacity: usize, more: usize) -> usize {
    let needed = len + more;
    if needed <= capacity { capacity } else { needed.max(2 * capacity) }
}

/// Makes room for `capacity` elements in all.
pub(super) fn reserve_to<T>(values: &mut Vec<T>, capacity: usize) {
    values.reserve_exact(capacity.saturating_sub(values.len()));
}

#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
fn gather<T: ArrowNativeType>(values: &mut Vec<T>, source: &SourceColumn, rows: Rows<'_>) {
    let from = source.data.buffer::<T>(0);
    match rows {
        Rows::Range { start, len } => values.extend_from_slice(&from[start..start + len]),
        Rows::Index(rows) => {
            values.extend(rows.iter().map(|&row| from[row as usize]));
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
fn gather_bytes(values: &mut Vec<u8>, width: usize, source: &SourceColumn, rows: Rows<'_>) {
    let Some(buffer) = source.data.buffers().first() else { return };
    let from = &buffer.as_slice()[source.data.offset() * width..];
    match rows {
        Rows::Range { start, len } => {
            values.extend_from_slice(&from[start * width..(start + len) * width]);
        }
        Rows::Index(_) => rows.for_each(|row| {
            values.extend_from_slice(&from[row * width..(row + 1) * width]);
        }),
    }
}
