//! Typed append kernels: the rows that one column of a partition has so far.

use std::sync::Arc;

use arrow::array::{
    AnyDictionaryArray, Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder,
    GenericByteArray, GenericByteViewArray, OffsetSizeTrait, UInt32Array, make_array,
    new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType,
    IntervalDayTime, IntervalMonthDayNano, IntervalUnit, LargeBinaryType, LargeUtf8Type,
    StringViewType, Utf8Type, i256,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, exec_datafusion_err};

use super::source::{Rows, SourceColumn};

/// Strings up to this length live in their view.
const INLINE_VIEW_BYTES: u32 = 12;

/// Bytes of values from which on a column grows by a quarter instead of to the double.
const MANY_VALUE_BYTES: usize = 16 * 1024;

/// Values gathered before they are copied to their place.
const GATHER_ROWS: usize = 1024;

/// What an array costs beside its buffers.
const PIECE_BYTES: usize = 128;

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
    Bits(BooleanBufferBuilder),
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
            DataType::Boolean => Column::Bits(BooleanBufferBuilder::new(0)),
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

    /// Bytes of values of variable length held so far.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Column::Bytes32(strings) => strings.values.len(),
            Column::Bytes64(strings) => strings.values.len(),
            Column::Views(views) => views.values.len(),
            Column::Pieces(pieces) => pieces.bytes,
            _ => 0,
        }
    }

    /// Makes room for `capacity` rows in all.
    pub(super) fn reserve_rows(&mut self, capacity: usize) {
        for_fixed!(self, values => reserve_to(values, capacity), _ => match self {
            Column::Bits(bits) => bits.reserve(capacity.saturating_sub(bits.len())),
            Column::FixedBytes { width, values } => reserve_to(values, *width * capacity),
            Column::Bytes32(strings) => reserve_to(&mut strings.offsets, capacity + 1),
            Column::Bytes64(strings) => reserve_to(&mut strings.offsets, capacity + 1),
            Column::Views(views) => reserve_to(&mut views.views, capacity),
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
                gather_bits(bits, &values, rows);
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

/// As [`next_capacity`], for bytes of values: once there are many, little room is left unused.
fn next_value_capacity(values: &Vec<u8>, more: usize) -> usize {
    let (needed, capacity) = (values.len() + more, values.capacity());
    if capacity < MANY_VALUE_BYTES || needed <= capacity {
        return next_capacity(values.len(), capacity, more);
    }
    needed.max(capacity + capacity / 4)
}

fn reserve_to<T>(values: &mut Vec<T>, capacity: usize) {
    values.reserve_exact(capacity.saturating_sub(values.len()));
}

#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
fn gather<T: ArrowNativeType>(values: &mut Vec<T>, source: &SourceColumn, rows: Rows<'_>) {
    let from = source.data.buffer::<T>(0);
    match rows {
        Rows::Range { start, len } => values.extend_from_slice(&from[start..start + len]),
        Rows::Index(rows) => {
            // Gathered in the nearest cache, then copied in one go: a large copy need not read the
            // lines that it writes.
            let mut near = [T::default(); GATHER_ROWS];
            for chunk in rows.chunks(GATHER_ROWS) {
                let near = &mut near[..chunk.len()];
                for (value, &row) in near.iter_mut().zip(chunk) {
                    *value = from[row as usize];
                }
                values.extend_from_slice(near);
            }
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

/// Appends the bits of `rows`, 64 at a time.
#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
pub(super) fn gather_bits(bits: &mut BooleanBufferBuilder, from: &BooleanBuffer, rows: Rows<'_>) {
    match rows {
        Rows::Range { start, len } => bits.append_buffer(&from.slice(start, len)),
        Rows::Index(rows) => {
            let (bytes, offset) = (from.values(), from.offset());
            let mut words = [0_u64; GATHER_ROWS / 64];
            for chunk in rows.chunks(GATHER_ROWS) {
                for (word, rows) in words.iter_mut().zip(chunk.chunks(64)) {
                    *word = 0;
                    for (at, &row) in rows.iter().enumerate() {
                        let bit = offset + row as usize;
                        *word |= u64::from(bytes[bit / 8] >> (bit % 8) & 1) << at;
                    }
                }
                let packed = words.map(u64::to_le_bytes);
                bits.append_packed_range(0..chunk.len(), packed.as_flattened());
            }
        }
    }
}

/// Offsets and bytes of a string or binary column.
#[derive(Default)]
pub(super) struct Strings<O> {
    offsets: Vec<O>,
    values: Vec<u8>,
}

#[expect(clippy::indexing_slicing, reason = "row numbers and offsets come from a valid array")]
impl<O: OffsetSizeTrait> Strings<O> {
    fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        let offsets = source.data.buffer::<O>(0);
        let mut bytes = 0;
        match rows {
            Rows::Range { start, len } if !offsets.is_empty() => {
                bytes = offsets[start + len].as_usize() - offsets[start].as_usize();
            }
            Rows::Range { .. } => {}
            Rows::Index(rows) => {
                for &row in rows {
                    let row = row as usize;
                    bytes += offsets[row + 1].as_usize() - offsets[row].as_usize();
                }
            }
        }
        next_value_capacity(&self.values, bytes) - self.values.capacity()
    }

    fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) {
        if rows.is_empty() {
            return;
        }
        let growth = self.growth(source, rows);
        let capacity = self.values.capacity() + growth;
        reserve_to(&mut self.values, capacity);
        if self.offsets.is_empty() {
            self.offsets.push(O::default());
        }
        let offsets = source.data.buffer::<O>(0);
        let bytes = source.data.buffers()[1].as_slice();
        let Self { offsets: ends, values } = self;
        rows.for_each(|row| {
            values.extend_from_slice(&bytes[offsets[row].as_usize()..offsets[row + 1].as_usize()]);
            ends.push(O::usize_as(values.len()));
        });
    }

    fn finish<T: ByteArrayType<Offset = O>>(
        &mut self,
        nulls: Option<NullBuffer>,
    ) -> Result<Finished> {
        if self.offsets.is_empty() {
            self.offsets.push(O::default());
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let values = Buffer::from_vec(std::mem::take(&mut self.values));
        let array = GenericByteArray::<T>::try_new(offsets, values, nulls)?;
        Ok(Finished::Array(Arc::new(array)))
    }
}

/// Views whose long strings are copied to one buffer of this column, so that a partition neither
/// pins nor shares the buffers of its input.
#[derive(Default)]
pub(super) struct Views {
    views: Vec<u128>,
    values: Vec<u8>,
}

#[derive(Clone, Copy)]
struct View(u128);

impl View {
    #[expect(clippy::cast_possible_truncation, reason = "takes the low 32 bits")]
    fn len(self) -> u32 {
        self.0 as u32
    }

    fn is_inline(self) -> bool {
        self.len() <= INLINE_VIEW_BYTES
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes 32 bits each")]
    fn location(self) -> (usize, usize) {
        ((self.0 >> 64) as u32 as usize, (self.0 >> 96) as u32 as usize)
    }

    /// The same string at `offset` of buffer 0.
    fn at(self, offset: u32) -> u128 {
        (self.0 & u128::from(u64::MAX)) | (u128::from(offset) << 96)
    }
}

#[expect(clippy::indexing_slicing, reason = "row numbers and views come from a valid array")]
impl Views {
    fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        let views = source.data.buffer::<u128>(0);
        let mut bytes = 0;
        rows.for_each(|row| {
            let view = View(views[row]);
            if !view.is_inline() && source.array.is_valid(row) {
                bytes += view.len() as usize;
            }
        });
        next_value_capacity(&self.values, bytes) - self.values.capacity()
    }

    fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) {
        let growth = self.growth(source, rows);
        let capacity = self.values.capacity() + growth;
        reserve_to(&mut self.values, capacity);
        let views = source.data.buffer::<u128>(0);
        let buffers = &source.data.buffers()[1..];
        let mut last = (0_u128, 0_u128);
        rows.for_each(|row| {
            let view = View(views[row]);
            if source.array.is_null(row) {
                self.views.push(0);
            } else if view.is_inline() {
                self.views.push(view.0);
            } else if view.0 == last.0 {
                self.views.push(last.1);
            } else {
                let (buffer, start) = view.location();
                let offset = self.values.len();
                self.values.extend_from_slice(&buffers[buffer][start..start + view.len() as usize]);
                last = (view.0, view.at(offset_u32(offset)));
                self.views.push(last.1);
            }
        });
    }

    fn finish<T: ByteViewType>(&mut self, nulls: Option<NullBuffer>) -> Result<Finished> {
        let views = ScalarBuffer::from(std::mem::take(&mut self.views));
        let values = std::mem::take(&mut self.values);
        let buffers = if values.is_empty() { vec![] } else { vec![Buffer::from_vec(values)] };
        let array = GenericByteViewArray::<T>::try_new(views, buffers, nulls)?;
        Ok(Finished::Array(Arc::new(array)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the stage's byte cap lies below 2^31")]
fn offset_u32(offset: usize) -> u32 {
    offset as u32
}

/// A column of a type without a kernel of its own: what Arrow's `take` made, joined at the end.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: Vec<ArrayRef>,
    bytes: usize,
    /// Values of the last dictionary taken, which pieces share.
    dictionary: Option<ArrayRef>,
}

impl Pieces {
    fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        let values = source.array.as_any_dictionary_opt().map(AnyDictionaryArray::values);
        let shared = values.map_or(0, Array::get_array_memory_size);
        let known = match (values, &self.dictionary) {
            (Some(values), Some(known)) => Arc::ptr_eq(values, known),
            _ => false,
        };
        let own = source.data.get_slice_memory_size().unwrap_or(0).saturating_sub(shared);
        let part = (own * rows.len()).div_ceil(source.data.len().max(1));
        PIECE_BYTES + part + if known { 0 } else { shared }
    }

    fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) -> Result<()> {
        let index = match rows {
            Rows::Range { start, len } => (start..start + len)
                .map(|row| u32::try_from(row).map_err(|_| exec_datafusion_err!("row {row}")))
                .collect::<Result<Vec<_>>>()?,
            Rows::Index(rows) => rows.to_vec(),
        };
        self.bytes += self.growth(source, rows);
        let taken = take(&source.array, &UInt32Array::from(index), None)?;
        self.dictionary =
            taken.as_any_dictionary_opt().map(|dictionary| ArrayRef::clone(dictionary.values()));
        self.pieces.push(taken);
        Ok(())
    }

    fn finish(&mut self, data_type: &DataType) -> Finished {
        let mut done = std::mem::take(self).pieces;
        match done.pop() {
            None => Finished::Array(new_empty_array(data_type)),
            Some(only) if done.is_empty() => Finished::Array(only),
            Some(last) => {
                done.push(last);
                Finished::Pieces(done)
            }
        }
    }
}

/// The rows of a column once no more are taken.
pub(super) enum Finished {
    Array(ArrayRef),
    Pieces(Vec<ArrayRef>),
}

impl Finished {
    /// One array of all rows; `None` when the dictionaries of the pieces overflow the key type.
    pub(super) fn joined(&self) -> Result<Option<ArrayRef>> {
        match self {
            Finished::Array(array) => Ok(Some(ArrayRef::clone(array))),
            Finished::Pieces(pieces) => {
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                match concat(&pieces) {
                    Ok(array) => Ok(Some(array)),
                    Err(ArrowError::DictionaryKeyOverflowError) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    pub(super) fn pieces(&self) -> Option<&[ArrayRef]> {
        match self {
            Finished::Array(_) => None,
            Finished::Pieces(pieces) => Some(pieces),
        }
    }

    /// Piece `index`, or rows `start..start + len` where the column is one array.
    #[expect(clippy::indexing_slicing, reason = "every column of pieces has one for every append")]
    pub(super) fn piece(&self, index: usize, start: usize, len: usize) -> ArrayRef {
        match self {
            Finished::Array(array) => array.slice(start, len),
            Finished::Pieces(pieces) => ArrayRef::clone(&pieces[index]),
        }
    }
}
