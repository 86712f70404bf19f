//! Columns without children: words, bits, values of one length.

use std::ops::Range;

use arrow::array::{Array, AsArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::{BlockError, BlockResult, Body};
use crate::block::sink::{Validity, is_valid};
use crate::block::word::Word;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn leaf(&mut self, array: &dyn Array, rows: Range<usize>) -> BlockResult<()> {
        if rows.is_empty() || array.data_type() == &DataType::Null {
            self.sink.put_tag(tags::EMPTY, Validity::AllValid, 0);
            return Ok(());
        }
        match array.data_type() {
            DataType::Int8 => self.primitive::<Int8Type>(array, rows),
            DataType::Int16 => self.primitive::<Int16Type>(array, rows),
            DataType::Int32 => self.primitive::<Int32Type>(array, rows),
            DataType::Int64 => self.primitive::<Int64Type>(array, rows),
            DataType::UInt8 => self.primitive::<UInt8Type>(array, rows),
            DataType::UInt16 => self.primitive::<UInt16Type>(array, rows),
            DataType::UInt32 => self.primitive::<UInt32Type>(array, rows),
            DataType::UInt64 => self.primitive::<UInt64Type>(array, rows),
            DataType::Float16 => self.floats::<Float16Type, u16>(array, rows),
            DataType::Float32 => self.floats::<Float32Type, u32>(array, rows),
            DataType::Float64 => self.floats::<Float64Type, u64>(array, rows),
            DataType::Date32 => self.primitive::<Date32Type>(array, rows),
            DataType::Date64 => self.primitive::<Date64Type>(array, rows),
            DataType::Decimal32(_, _) => self.primitive::<Decimal32Type>(array, rows),
            DataType::Decimal64(_, _) => self.primitive::<Decimal64Type>(array, rows),
            DataType::Decimal128(_, _) => self.primitive::<Decimal128Type>(array, rows),
            DataType::Decimal256(_, _) => self.primitive::<Decimal256Type>(array, rows),
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => self.primitive::<TimestampSecondType>(array, rows),
                TimeUnit::Millisecond => self.primitive::<TimestampMillisecondType>(array, rows),
                TimeUnit::Microsecond => self.primitive::<TimestampMicrosecondType>(array, rows),
                TimeUnit::Nanosecond => self.primitive::<TimestampNanosecondType>(array, rows),
            },
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => self.primitive::<DurationSecondType>(array, rows),
                TimeUnit::Millisecond => self.primitive::<DurationMillisecondType>(array, rows),
                TimeUnit::Microsecond => self.primitive::<DurationMicrosecondType>(array, rows),
                TimeUnit::Nanosecond => self.primitive::<DurationNanosecondType>(array, rows),
            },
            DataType::Time32(TimeUnit::Second) => self.primitive::<Time32SecondType>(array, rows),
            DataType::Time32(_) => self.primitive::<Time32MillisecondType>(array, rows),
            DataType::Time64(TimeUnit::Microsecond) => {
                self.primitive::<Time64MicrosecondType>(array, rows)
            }
            DataType::Time64(_) => self.primitive::<Time64NanosecondType>(array, rows),
            DataType::Interval(unit) => self.interval(array, *unit, rows),
            DataType::Boolean => self.bits(array, rows),
            DataType::FixedSizeBinary(_) => self.fixed(array.as_fixed_size_binary(), rows),
            DataType::Utf8 => self.strings(array.as_string::<i32>(), rows),
            DataType::LargeUtf8 => self.strings(array.as_string::<i64>(), rows),
            DataType::Binary => self.strings(array.as_binary::<i32>(), rows),
            DataType::LargeBinary => self.strings(array.as_binary::<i64>(), rows),
            DataType::Utf8View => self.views(array.as_string_view(), rows),
            DataType::BinaryView => self.views(array.as_binary_view(), rows),
            other => Err(BlockError::Schema(format!("{other} is not a leaf type"))),
        }
    }

    fn primitive<T: ArrowPrimitiveType<Native: Word>>(
        &mut self,
        array: &dyn Array,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let array: &PrimitiveArray<T> = array.as_primitive();
        self.words(array, array.values(), rows)
    }

    fn floats<T: ArrowPrimitiveType, B: Word>(
        &mut self,
        array: &dyn Array,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let array: &PrimitiveArray<T> = array.as_primitive();
        self.words(array, array.values().inner().typed_data::<B>(), rows)
    }

    fn words<T: Word>(
        &mut self,
        array: &dyn Array,
        values: &[T],
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let values = within(values, &rows)?;
        self.sink.charge(values.len() * T::BYTES);
        self.with_validity(array.nulls(), &rows, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, values.len());
            } else {
                this.sink.put_tag(tags::WORDS, validity, values.len());
                this.sink.put_words(values, validity.mask());
            }
        });
        Ok(())
    }

    fn interval(
        &mut self,
        array: &dyn Array,
        unit: IntervalUnit,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        match unit {
            IntervalUnit::YearMonth => self.primitive::<IntervalYearMonthType>(array, rows),
            IntervalUnit::DayTime => {
                let values = within(array.as_primitive::<IntervalDayTimeType>().values(), &rows)?;
                self.parts(array, values, &rows, |sink, values, mask| {
                    let days: Vec<i32> = values.iter().map(|v| v.days).collect();
                    sink.put_words(&days, mask);
                    let millis: Vec<i32> = values.iter().map(|v| v.milliseconds).collect();
                    sink.put_words(&millis, mask);
                });
                Ok(())
            }
            IntervalUnit::MonthDayNano => {
                let values =
                    within(array.as_primitive::<IntervalMonthDayNanoType>().values(), &rows)?;
                self.parts(array, values, &rows, |sink, values, mask| {
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

    fn parts<T: ArrowNativeType>(
        &mut self,
        array: &dyn Array,
        values: &[T],
        rows: &Range<usize>,
        write: impl FnOnce(&mut super::Sink, &[T], Option<&[u64]>),
    ) {
        self.sink.charge(size_of_val(values));
        self.with_validity(array.nulls(), rows, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, values.len());
            } else {
                this.sink.put_tag(tags::PARTS, validity, values.len());
                write(&mut this.sink, values, validity.mask());
            }
        });
    }

    fn bits(&mut self, array: &dyn Array, rows: Range<usize>) -> BlockResult<()> {
        let values = array.as_boolean().values();
        let mut words = std::mem::take(&mut self.words);
        let mut ones = super::bits::load(values, rows.start, rows.len(), &mut words);
        self.with_validity(array.nulls(), &rows, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
                this.sink.put_tag(tags::EMPTY, validity, rows.len());
                return;
            }
            if let Some(mask) = validity.mask() {
                let valid: u32 = mask.iter().map(|bits| bits.count_ones()).sum();
                words.iter_mut().zip(mask).for_each(|(word, bits)| *word &= bits);
                let true_rows: u32 = words.iter().map(|word| word.count_ones()).sum();
                // Null rows follow the others where those are all true.
                ones =
                    if true_rows == valid { rows.len() } else { super::nested::to_len(true_rows) };
            }
            this.sink.put_tag(tags::BITS, validity, rows.len());
            this.sink.put_bits(&words, ones, rows.len());
        });
        self.words = words;
        Ok(())
    }

    fn fixed(&mut self, array: &FixedSizeBinaryArray, rows: Range<usize>) -> BlockResult<()> {
        let width = usize::try_from(array.value_length()).unwrap_or(0);
        let bytes = within(array.value_data(), &(rows.start * width..rows.end * width))?;
        self.sink.charge(bytes.len());
        self.with_validity(array.nulls(), &rows, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, rows.len());
                return;
            }
            this.sink.put_tag(tags::FIXED, validity, rows.len());
            if width == 0 {
                return;
            }
            let mask = validity.mask();
            let valid =
                || bytes.chunks_exact(width).enumerate().filter(|(i, _)| is_valid(mask, *i));
            let first = valid().next().map_or(&[][..], |(_, value)| value);
            if valid().all(|(_, value)| value == first) {
                this.sink.put_u8(tags::CONSTANT);
                this.sink.packed.extend_from_slice(first);
                return;
            }
            this.sink.put_bytes(bytes.len(), |out| match mask {
                None => out.extend_from_slice(bytes),
                Some(_) => {
                    for (i, value) in bytes.chunks_exact(width).enumerate() {
                        out.extend_from_slice(if is_valid(mask, i) { value } else { first });
                    }
                }
            });
        });
        Ok(())
    }
}

/// `values` of `rows`.
pub(super) fn within<'a, T>(values: &'a [T], rows: &Range<usize>) -> BlockResult<&'a [T]> {
    values.get(rows.clone()).ok_or(BlockError::Invalid("rows beyond the array"))
}
