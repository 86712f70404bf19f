//! Columns without children: words, bits, values of one length.

use arrow::array::AsArray;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, BinaryType, BinaryViewType, DataType, Date32Type,
    Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    LargeBinaryType, LargeUtf8Type, StringViewType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type, Utf8Type,
};

use super::parts::{self, Part};
use super::{BlockError, BlockResult, Body};
use crate::block::sink::is_valid;
use crate::block::word::Word;
use crate::block::{bits, sizes, tags};

impl Body {
    pub(super) fn leaf(
        &mut self,
        data_type: &DataType,
        parts: &[Part<'_>],
        rows: usize,
    ) -> BlockResult<()> {
        self.sink.charge(sizes::null_leaf_bytes(data_type, rows));
        match data_type {
            DataType::Int8 => self.primitive::<Int8Type>(parts),
            DataType::Int16 => self.primitive::<Int16Type>(parts),
            DataType::Int32 => self.primitive::<Int32Type>(parts),
            DataType::Int64 => self.primitive::<Int64Type>(parts),
            DataType::UInt8 => self.primitive::<UInt8Type>(parts),
            DataType::UInt16 => self.primitive::<UInt16Type>(parts),
            DataType::UInt32 => self.primitive::<UInt32Type>(parts),
            DataType::UInt64 => self.primitive::<UInt64Type>(parts),
            DataType::Float16 => self.floats::<Float16Type, u16>(parts),
            DataType::Float32 => self.floats::<Float32Type, u32>(parts),
            DataType::Float64 => self.floats::<Float64Type, u64>(parts),
            DataType::Date32 => self.primitive::<Date32Type>(parts),
            DataType::Date64 => self.primitive::<Date64Type>(parts),
            DataType::Decimal32(_, _) => self.primitive::<Decimal32Type>(parts),
            DataType::Decimal64(_, _) => self.primitive::<Decimal64Type>(parts),
            DataType::Decimal128(_, _) => self.wide_words::<Decimal128Type>(parts),
            DataType::Decimal256(_, _) => self.primitive::<Decimal256Type>(parts),
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => self.primitive::<TimestampSecondType>(parts),
                TimeUnit::Millisecond => self.primitive::<TimestampMillisecondType>(parts),
                TimeUnit::Microsecond => self.primitive::<TimestampMicrosecondType>(parts),
                TimeUnit::Nanosecond => self.primitive::<TimestampNanosecondType>(parts),
            },
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => self.primitive::<DurationSecondType>(parts),
                TimeUnit::Millisecond => self.primitive::<DurationMillisecondType>(parts),
                TimeUnit::Microsecond => self.primitive::<DurationMicrosecondType>(parts),
                TimeUnit::Nanosecond => self.primitive::<DurationNanosecondType>(parts),
            },
            DataType::Time32(TimeUnit::Second) => self.primitive::<Time32SecondType>(parts),
            DataType::Time32(_) => self.primitive::<Time32MillisecondType>(parts),
            DataType::Time64(TimeUnit::Microsecond) => {
                self.primitive::<Time64MicrosecondType>(parts)
            }
            DataType::Time64(_) => self.primitive::<Time64NanosecondType>(parts),
            DataType::Interval(unit) => self.interval(*unit, parts),
            DataType::Boolean => self.bits(parts, rows),
            DataType::FixedSizeBinary(width) => self.fixed(*width, parts, rows),
            DataType::Utf8 => self.strings::<Utf8Type>(parts, rows),
            DataType::LargeUtf8 => self.strings::<LargeUtf8Type>(parts, rows),
            DataType::Binary => self.strings::<BinaryType>(parts, rows),
            DataType::LargeBinary => self.strings::<LargeBinaryType>(parts, rows),
            DataType::Utf8View => self.views::<StringViewType>(parts, rows),
            DataType::BinaryView => self.views::<BinaryViewType>(parts, rows),
            other => Err(BlockError::Schema(format!("{other} is not a leaf type"))),
        }
    }

    fn primitive<T: ArrowPrimitiveType<Native: Word>>(
        &mut self,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        let values = parts::values(parts, |array| array.as_primitive::<T>().values())?;
        self.words(&values, T::Native::BYTES, parts, false);
        Ok(())
    }

    fn floats<T: ArrowPrimitiveType, B: Word>(&mut self, parts: &[Part<'_>]) -> BlockResult<()> {
        let values = parts::values(parts, |array| {
            array.as_primitive::<T>().values().inner().typed_data::<B>()
        })?;
        self.words(&values, B::BYTES, parts, true);
        Ok(())
    }

    fn interval(&mut self, unit: IntervalUnit, parts: &[Part<'_>]) -> BlockResult<()> {
        match unit {
            IntervalUnit::YearMonth => self.primitive::<IntervalYearMonthType>(parts),
            IntervalUnit::DayTime => {
                let values = parts::values(parts, |array| {
                    array.as_primitive::<IntervalDayTimeType>().values()
                })?;
                self.components(&values, parts, |sink, values, mask| {
                    let days: Vec<i32> = values.iter().map(|v| v.days).collect();
                    sink.put_words(&days, mask);
                    let millis: Vec<i32> = values.iter().map(|v| v.milliseconds).collect();
                    sink.put_words(&millis, mask);
                });
                Ok(())
            }
            IntervalUnit::MonthDayNano => {
                let values = parts::values(parts, |array| {
                    array.as_primitive::<IntervalMonthDayNanoType>().values()
                })?;
                self.components(&values, parts, |sink, values, mask| {
                    let months: Vec<i32> = values.iter().map(|v| v.months).collect();
                    sink.put_words(&months, mask);
                    let days: Vec<i32> = values.iter().map(|v| v.days).collect();
                    sink.put_words(&days, mask);
                    let nanos: Vec<i64> = values.iter().map(|v| v.nanoseconds).collect();
                    sink.put_words(&nanos, mask);
                });
                Ok(())
            }
        }
    }

    fn components<T: ArrowNativeType>(
        &mut self,
        values: &[T],
        parts: &[Part<'_>],
        write: impl FnOnce(&mut super::Sink, &[T], Option<&[u64]>),
    ) {
        self.with_validity(parts, |this, validity| {
            if this.open(tags::PARTS, validity, values.len()) {
                write(&mut this.sink, values, validity.mask());
            }
        });
    }

    fn bits(&mut self, parts: &[Part<'_>], rows: usize) -> BlockResult<()> {
        let mut words = std::mem::take(&mut self.words);
        let values =
            |array| -> Option<&BooleanBuffer> { Some(AsArray::as_boolean(array).values()) };
        let mut ones = parts::load_bits(parts, values, &mut words);
        self.with_validity(parts, |this, validity| {
            if !this.open(tags::BITS, validity, rows) {
                return;
            }
            if let Some(mask) = validity.mask() {
                words.iter_mut().zip(mask).for_each(|(word, bits)| *word &= bits);
                ones = bits::count_ones(&words);
                // Null rows follow the others where those are all true.
                ones = if ones == bits::count_ones(mask) { rows } else { ones };
            }
            this.sink.put_bits(&words, ones, rows);
        });
        self.words = words;
        Ok(())
    }

    fn fixed(&mut self, width: i32, parts: &[Part<'_>], rows: usize) -> BlockResult<()> {
        let width = usize::try_from(width).unwrap_or(0);
        let in_bytes = parts
            .iter()
            .map(|part| Part::new(part.array, part.rows.start * width..part.rows.end * width));
        let in_bytes: Vec<Part<'_>> = in_bytes.collect();
        let bytes = parts::values(&in_bytes, |array| array.as_fixed_size_binary().value_data())?;
        self.with_validity(parts, |this, validity| {
            if this.open(tags::FIXED, validity, rows) && width > 0 {
                this.fixed_values(&bytes, width, validity.mask());
            }
        });
        Ok(())
    }

    fn fixed_values(&mut self, bytes: &[u8], width: usize, mask: Option<&[u64]>) {
        let valid = || bytes.chunks_exact(width).enumerate().filter(|(i, _)| is_valid(mask, *i));
        let first = valid().next().map_or(&[][..], |(_, value)| value);
        if valid().all(|(_, value)| value == first) {
            self.sink.put_u8(tags::CONSTANT);
            self.sink.packed.extend_from_slice(first);
            return;
        }
        self.sink.put_bytes(bytes.len(), |out| match mask {
            None => out.extend_from_slice(bytes),
            Some(_) => {
                for (i, value) in bytes.chunks_exact(width).enumerate() {
                    out.extend_from_slice(if is_valid(mask, i) { value } else { first });
                }
            }
        });
    }
}
