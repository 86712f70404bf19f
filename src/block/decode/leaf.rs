//! Columns without children.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, BinaryType, BinaryViewType, DataType, Date32Type, Date64Type,
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTime, IntervalDayTimeType,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    LargeBinaryType, LargeUtf8Type, StringViewType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type, Utf8Type,
};

use super::bytes::{byte_array, view_array};
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::{Nulls, Source, unknown};
use crate::block::word::Word;
use crate::block::{bits, sizes, tags};

/// A node of a type without children.
pub(super) fn leaf(
    source: &mut Source<'_>,
    data_type: &DataType,
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    source.charge(sizes::null_leaf_bytes(data_type, rows))?;
    let node = &mut Leaf { source, data_type, tag, nulls: nulls.buffer(rows), rows };
    match data_type {
        DataType::Int8 => node.primitive::<Int8Type>(),
        DataType::Int16 => node.primitive::<Int16Type>(),
        DataType::Int32 => node.primitive::<Int32Type>(),
        DataType::Int64 => node.primitive::<Int64Type>(),
        DataType::UInt8 => node.primitive::<UInt8Type>(),
        DataType::UInt16 => node.primitive::<UInt16Type>(),
        DataType::UInt32 => node.primitive::<UInt32Type>(),
        DataType::UInt64 => node.primitive::<UInt64Type>(),
        DataType::Float16 => node.floats::<Float16Type, u16>(),
        DataType::Float32 => node.floats::<Float32Type, u32>(),
        DataType::Float64 => node.floats::<Float64Type, u64>(),
        DataType::Date32 => node.primitive::<Date32Type>(),
        DataType::Date64 => node.primitive::<Date64Type>(),
        DataType::Decimal32(_, _) => node.primitive::<Decimal32Type>(),
        DataType::Decimal64(_, _) => node.primitive::<Decimal64Type>(),
        DataType::Decimal128(_, _) => node.primitive::<Decimal128Type>(),
        DataType::Decimal256(_, _) => node.primitive::<Decimal256Type>(),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => node.primitive::<TimestampSecondType>(),
            TimeUnit::Millisecond => node.primitive::<TimestampMillisecondType>(),
            TimeUnit::Microsecond => node.primitive::<TimestampMicrosecondType>(),
            TimeUnit::Nanosecond => node.primitive::<TimestampNanosecondType>(),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => node.primitive::<DurationSecondType>(),
            TimeUnit::Millisecond => node.primitive::<DurationMillisecondType>(),
            TimeUnit::Microsecond => node.primitive::<DurationMicrosecondType>(),
            TimeUnit::Nanosecond => node.primitive::<DurationNanosecondType>(),
        },
        DataType::Time32(TimeUnit::Second) => node.primitive::<Time32SecondType>(),
        DataType::Time32(_) => node.primitive::<Time32MillisecondType>(),
        DataType::Time64(TimeUnit::Microsecond) => node.primitive::<Time64MicrosecondType>(),
        DataType::Time64(_) => node.primitive::<Time64NanosecondType>(),
        DataType::Interval(IntervalUnit::YearMonth) => node.primitive::<IntervalYearMonthType>(),
        DataType::Interval(IntervalUnit::DayTime) => node.day_times(),
        DataType::Interval(IntervalUnit::MonthDayNano) => node.month_day_nanos(),
        DataType::Boolean => node.bits(),
        DataType::FixedSizeBinary(width) => node.fixed(*width),
        DataType::Utf8 => byte_array::<Utf8Type>(node),
        DataType::LargeUtf8 => byte_array::<LargeUtf8Type>(node),
        DataType::Binary => byte_array::<BinaryType>(node),
        DataType::LargeBinary => byte_array::<LargeBinaryType>(node),
        DataType::Utf8View => view_array::<StringViewType, Utf8Type>(node),
        DataType::BinaryView => view_array::<BinaryViewType, BinaryType>(node),
        other => Err(unknown(other, tag)),
    }
}

/// A node whose tag and validity are read.
pub(super) struct Leaf<'s, 'a, 't> {
    pub(super) source: &'s mut Source<'a>,
    pub(super) data_type: &'t DataType,
    pub(super) tag: u8,
    pub(super) nulls: Option<NullBuffer>,
    pub(super) rows: usize,
}

impl Leaf<'_, '_, '_> {
    fn expect(&self, tag: u8) -> BlockResult<()> {
        if self.tag == tag { Ok(()) } else { Err(unknown(self.data_type, self.tag)) }
    }

    fn array<T: ArrowPrimitiveType>(
        &mut self,
        values: ScalarBuffer<T::Native>,
    ) -> BlockResult<ArrayRef> {
        let array = PrimitiveArray::<T>::try_new(values, self.nulls.take())?;
        if array.data_type() == self.data_type {
            return Ok(Arc::new(array));
        }
        if !PrimitiveArray::<T>::is_compatible(self.data_type) {
            return Err(unknown(self.data_type, self.tag));
        }
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }

    fn primitive<T: ArrowPrimitiveType<Native: Word>>(&mut self) -> BlockResult<ArrayRef> {
        let values = self.words::<T::Native>()?;
        self.array::<T>(ScalarBuffer::from(values))
    }

    fn floats<T: ArrowPrimitiveType, B: Word>(&mut self) -> BlockResult<ArrayRef> {
        let bits = match self.tag {
            tags::SPLIT => self.source.planes::<B>(self.rows)?,
            _ => self.words::<B>()?,
        };
        self.array::<T>(ScalarBuffer::new(Buffer::from_vec(bits), 0, self.rows))
    }

    fn words<T: Word>(&mut self) -> BlockResult<Vec<T>> {
        let mut words = Vec::new();
        self.words_into(&mut words)?;
        Ok(words)
    }

    /// Appends the words of the node to `out`.
    pub(super) fn words_into<T: Word>(&mut self, out: &mut Vec<T>) -> BlockResult<()> {
        match self.tag {
            tags::WORDS => self.source.words_into(self.rows, out),
            tags::WORD_DICT => self.word_dict(out),
            tag => Err(unknown(self.data_type, tag)),
        }
    }

    fn word_dict<T: Word>(&mut self, out: &mut Vec<T>) -> BlockResult<()> {
        let distinct = self.source.count()?;
        if distinct > self.rows {
            return Err(BlockError::Invalid("more distinct values than rows"));
        }
        self.source.charge(sizes::word_dict_bytes(T::BYTES, self.rows, distinct))?;
        let ids = self.source.ids(self.rows, distinct)?;
        let values = self.source.words::<T>(distinct)?;
        let value = |id: &u32| {
            usize::try_from(*id).ok().and_then(|id| values.get(id)).copied().unwrap_or_default()
        };
        out.reserve_exact(self.rows);
        out.extend(ids.iter().map(value));
        Ok(())
    }

    fn day_times(&mut self) -> BlockResult<ArrayRef> {
        self.expect(tags::PARTS)?;
        let days = self.source.words::<i32>(self.rows)?;
        let millis = self.source.words::<i32>(self.rows)?;
        let values =
            days.into_iter().zip(millis).map(|(days, millis)| IntervalDayTime::new(days, millis));
        let values: Vec<_> = values.collect();
        self.array::<IntervalDayTimeType>(ScalarBuffer::from(values))
    }

    fn month_day_nanos(&mut self) -> BlockResult<ArrayRef> {
        self.expect(tags::PARTS)?;
        let months = self.source.words::<i32>(self.rows)?;
        let days = self.source.words::<i32>(self.rows)?;
        let nanos = self.source.words::<i64>(self.rows)?;
        let parts = months.into_iter().zip(days).zip(nanos);
        let values: Vec<_> = parts.map(|((m, d), n)| IntervalMonthDayNano::new(m, d, n)).collect();
        self.array::<IntervalMonthDayNanoType>(ScalarBuffer::from(values))
    }

    fn bits(&mut self) -> BlockResult<ArrayRef> {
        self.expect(tags::BITS)?;
        let control = self.source.u8()?;
        let values = if control & tags::CONSTANT != 0 {
            match control ^ tags::CONSTANT {
                0 => BooleanBuffer::new_unset(self.rows),
                1 => BooleanBuffer::new_set(self.rows),
                _ => return Err(BlockError::Invalid("control byte")),
            }
        } else {
            bits::from_bytes(self.source.placed(control, bits::bitmap_bytes(self.rows))?, self.rows)
        };
        Ok(Arc::new(BooleanArray::new(values, self.nulls.take())))
    }

    fn fixed(&mut self, width: i32) -> BlockResult<ArrayRef> {
        self.expect(tags::FIXED)?;
        let bytes = usize::try_from(width).unwrap_or(0);
        let len =
            bytes.checked_mul(self.rows).ok_or(BlockError::Invalid("length of fixed values"))?;
        let buffer = match if len == 0 { 0 } else { self.source.u8()? } {
            tags::CONSTANT => Buffer::from_vec(self.source.packed(bytes)?.repeat(self.rows)),
            control => Buffer::from_slice_ref(self.source.placed(control, len)?),
        };
        Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(
            width,
            buffer,
            self.nulls.take(),
            self.rows,
        )?))
    }
}
