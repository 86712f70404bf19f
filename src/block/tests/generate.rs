//! Random schemas and arrays of every type, from a seed.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;

/// A small generator of random numbers (SplitMix64), so that a seed is all a failing test needs.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// One of every type without children.
pub(crate) fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Binary,
        LargeBinary,
        BinaryView,
        Utf8,
        LargeUtf8,
        Utf8View,
        FixedSizeBinary(0),
        FixedSizeBinary(1),
        FixedSizeBinary(16),
        Decimal32(9, 2),
        Decimal64(18, 3),
        Decimal128(38, 10),
        Decimal128(7, 2),
        Decimal256(76, 5),
    ];
    for unit in
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
    {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("+02:00".into())));
        types.push(Duration(unit));
    }
    types
}

pub(crate) const NESTED_KINDS: usize = 13;

/// A type of the `kind`-th nested form over random children.
pub(crate) fn nested_type(rng: &mut Rng, kind: usize, depth: usize) -> DataType {
    use DataType::*;
    let field = |rng: &mut Rng, name: &str| {
        let data_type = random_type(rng, depth);
        let nullable = may_be_null(&data_type) || rng.chance(70);
        Field::new(name, data_type, nullable)
    };
    match kind {
        0 => List(Arc::new(field(rng, "item"))),
        1 => LargeList(Arc::new(field(rng, "item"))),
        2 => ListView(Arc::new(field(rng, "item"))),
        3 => LargeListView(Arc::new(field(rng, "item"))),
        4 => {
            let size = rng.below(4) as i32;
            FixedSizeList(Arc::new(field(rng, "item")), size)
        }
        5 => {
            let n = rng.below(4);
            Struct((0..n).map(|i| field(rng, &format!("f{i}"))).collect())
        }
        6 => {
            let key = Field::new("keys", random_leaf(rng), false);
            let key = if key.data_type() == &Null { key.with_data_type(Int32) } else { key };
            let entries = Struct(vec![key, field(rng, "values")].into());
            Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        7 | 8 => {
            let keys = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
            let key = keys[rng.below(keys.len())].clone();
            let value = if kind == 7 { random_leaf(rng) } else { random_type(rng, depth) };
            // Dictionaries of dictionaries and runs are legal, but arrow cannot compare them.
            let value = if matches!(value, Dictionary(_, _) | RunEndEncoded(_, _) | Null) {
                Utf8
            } else {
                value
            };
            let value = if may_be_null(&value) { Int64 } else { value };
            Dictionary(Box::new(key), Box::new(value))
        }
        9 | 10 => {
            let ends = [Int16, Int32, Int64][rng.below(3)].clone();
            let value = field(rng, "values");
            RunEndEncoded(Arc::new(Field::new("run_ends", ends, false)), Arc::new(value))
        }
        _ => {
            let n = 1 + rng.below(3);
            let fields: Vec<_> = (0..n).map(|i| Arc::new(field(rng, &format!("u{i}")))).collect();
            let ids = (0..n).map(|i| (i * 3) as i8);
            let mode = if kind == 11 { UnionMode::Sparse } else { UnionMode::Dense };
            Union(UnionFields::try_new(ids, fields).unwrap(), mode)
        }
    }
}

pub(crate) fn random_leaf(rng: &mut Rng) -> DataType {
    let types = leaf_types();
    types[rng.below(types.len())].clone()
}

pub(crate) fn random_type(rng: &mut Rng, depth: usize) -> DataType {
    if depth == 0 || rng.chance(50) {
        return random_leaf(rng);
    }
    let kind = rng.below(NESTED_KINDS);
    nested_type(rng, kind, depth - 1)
}

/// Whether arrays of a type have nulls without a validity buffer of their own.
pub(crate) fn may_be_null(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::Union(fields, _) => {
            fields.iter().any(|(_, f)| f.is_nullable() || may_be_null(f.data_type()))
        }
        DataType::RunEndEncoded(_, values) => {
            values.is_nullable() || may_be_null(values.data_type())
        }
        _ => false,
    }
}

fn nulls(rng: &mut Rng, rows: usize, nullable: bool) -> Option<NullBuffer> {
    if !nullable || rng.chance(25) {
        return None;
    }
    let percent = [1, 5, 50, 95, 100][rng.below(5)];
    Some((0..rows).map(|_| !rng.chance(percent)).collect())
}

/// Integers whose range is of a random size, somewhere.
fn number(rng: &mut Rng, bits: u32, base: u64) -> u64 {
    base.wrapping_add(if bits == 0 { 0 } else { rng.next() >> (64 - bits) })
}

fn numbers(rng: &mut Rng, rows: usize) -> Vec<u64> {
    let bits = [0, 1, 7, 8, 9, 16, 20, 24, 31, 32, 40, 48, 56, 63, 64][rng.below(15)];
    let base = if rng.chance(50) { rng.next() } else { rng.next() % 1000 };
    (0..rows).map(|_| number(rng, bits, base)).collect()
}

fn wide(rng: &mut Rng, rows: usize) -> Vec<(u128, i128)> {
    let bits = [0u32, 8, 60, 64, 70, 96, 100, 128, 200, 256][rng.below(10)];
    let base = if rng.chance(50) { (u128::from(rng.next()), -1) } else { (5, 0) };
    (0..rows)
        .map(|_| {
            let low = u128::from(rng.next()) << 64 | u128::from(rng.next());
            let high = u128::from(rng.next()) << 64 | u128::from(rng.next());
            let low = if bits == 0 { 0 } else { low >> 128u32.saturating_sub(bits) };
            let high = if bits <= 128 { 0 } else { (high >> (256 - bits)).cast_signed() };
            (base.0.wrapping_add(low), base.1 ^ high)
        })
        .collect()
}

fn text(rng: &mut Rng, pool: &[String]) -> String {
    pool[rng.below(pool.len())].clone()
}

fn texts(rng: &mut Rng, rows: usize) -> Vec<String> {
    let distinct = [1, 3, 50, 1_000_000][rng.below(4)].min(rows.max(1));
    let max = [0, 3, 12, 13, 40][rng.below(5)];
    let alphabet = ["a", "b", "z", "0", "é", "漢", "🦀", " "];
    let pool: Vec<String> = (0..distinct)
        .map(|_| {
            let n = if rng.chance(20) { max } else { rng.below(max + 1) };
            (0..n).map(|_| alphabet[rng.below(alphabet.len())]).collect()
        })
        .collect();
    (0..rows).map(|_| text(rng, &pool)).collect()
}

macro_rules! native {
    ($t:ty, $rng:expr, $rows:expr, $nulls:expr, $dt:expr, $map:expr) => {{
        let values: Vec<<$t as ArrowPrimitiveType>::Native> =
            numbers($rng, $rows).into_iter().map($map).collect();
        let array = PrimitiveArray::<$t>::new(ScalarBuffer::from(values), $nulls);
        Arc::new(array.with_data_type($dt.clone())) as ArrayRef
    }};
}

/// `rows` random rows of `data_type`, often sliced from more.
pub(crate) fn array(rng: &mut Rng, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
    if rng.chance(30) {
        let (front, back) = (rng.below(20), rng.below(20));
        return whole(rng, data_type, front + rows + back, nullable).slice(front, rows);
    }
    whole(rng, data_type, rows, nullable)
}

fn whole(rng: &mut Rng, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
    use DataType::*;
    let n = nulls(rng, rows, nullable);
    match data_type {
        Null => Arc::new(NullArray::new(rows)),
        Boolean => {
            let percent = [0, 3, 50, 100][rng.below(4)];
            Arc::new(BooleanArray::new((0..rows).map(|_| rng.chance(percent)).collect(), n))
        }
        Int8 => native!(Int8Type, rng, rows, n, data_type, |v| v as i8),
        Int16 => native!(Int16Type, rng, rows, n, data_type, |v| v as i16),
        Int32 => native!(Int32Type, rng, rows, n, data_type, |v| v as i32),
        Int64 => native!(Int64Type, rng, rows, n, data_type, |v| v as i64),
        UInt8 => native!(UInt8Type, rng, rows, n, data_type, |v| v as u8),
        UInt16 => native!(UInt16Type, rng, rows, n, data_type, |v| v as u16),
        UInt32 => native!(UInt32Type, rng, rows, n, data_type, |v| v as u32),
        UInt64 => native!(UInt64Type, rng, rows, n, data_type, |v| v),
        Float16 => {
            let bits: Vec<u16> = numbers(rng, rows).into_iter().map(|v| v as u16).collect();
            Arc::new(PrimitiveArray::<Float16Type>::new(
                ScalarBuffer::new(Buffer::from_vec(bits), 0, rows),
                n,
            ))
        }
        Float32 => {
            let special =
                [f32::NAN, -f32::NAN, -0.0, 0.0, f32::INFINITY, f32::from_bits(0x7fc0_1234)];
            let specials = rng.chance(50);
            let values = numbers(rng, rows).into_iter();
            let values: Vec<f32> = values
                .map(|v| {
                    if specials && v % 3 == 0 {
                        special[v as usize % special.len()]
                    } else {
                        f32::from_bits(v as u32)
                    }
                })
                .collect();
            Arc::new(Float32Array::new(values.into(), n))
        }
        Float64 => {
            let special = [
                f64::NAN,
                -f64::NAN,
                -0.0,
                0.0,
                f64::INFINITY,
                f64::from_bits(0x7ff8_0000_0000_1234),
            ];
            let mode = rng.below(3);
            let values: Vec<f64> = numbers(rng, rows)
                .into_iter()
                .map(|v| match mode {
                    0 => special[v as usize % special.len()],
                    1 => (v % 1000) as f64 / 7.0,
                    _ => f64::from_bits(v),
                })
                .collect();
            Arc::new(Float64Array::new(values.into(), n))
        }
        Date32 => native!(Date32Type, rng, rows, n, data_type, |v| v as i32),
        Date64 => native!(Date64Type, rng, rows, n, data_type, |v| v as i64),
        Time32(TimeUnit::Second) => {
            native!(Time32SecondType, rng, rows, n, data_type, |v| v as i32)
        }
        Time32(_) => native!(Time32MillisecondType, rng, rows, n, data_type, |v| v as i32),
        Time64(TimeUnit::Microsecond) => {
            native!(Time64MicrosecondType, rng, rows, n, data_type, |v| v as i64)
        }
        Time64(_) => native!(Time64NanosecondType, rng, rows, n, data_type, |v| v as i64),
        Timestamp(unit, _) => match unit {
            TimeUnit::Second => native!(TimestampSecondType, rng, rows, n, data_type, |v| v as i64),
            TimeUnit::Millisecond => {
                native!(TimestampMillisecondType, rng, rows, n, data_type, |v| v as i64)
            }
            TimeUnit::Microsecond => {
                native!(TimestampMicrosecondType, rng, rows, n, data_type, |v| v as i64)
            }
            TimeUnit::Nanosecond => {
                native!(TimestampNanosecondType, rng, rows, n, data_type, |v| v as i64)
            }
        },
        Duration(unit) => match unit {
            TimeUnit::Second => native!(DurationSecondType, rng, rows, n, data_type, |v| v as i64),
            TimeUnit::Millisecond => {
                native!(DurationMillisecondType, rng, rows, n, data_type, |v| v as i64)
            }
            TimeUnit::Microsecond => {
                native!(DurationMicrosecondType, rng, rows, n, data_type, |v| v as i64)
            }
            TimeUnit::Nanosecond => {
                native!(DurationNanosecondType, rng, rows, n, data_type, |v| v as i64)
            }
        },
        Interval(IntervalUnit::YearMonth) => {
            native!(IntervalYearMonthType, rng, rows, n, data_type, |v| v as i32)
        }
        Interval(IntervalUnit::DayTime) => {
            native!(IntervalDayTimeType, rng, rows, n, data_type, |v| IntervalDayTime::new(
                v as i32,
                (v >> 13) as i32
            ))
        }
        Interval(IntervalUnit::MonthDayNano) => {
            native!(IntervalMonthDayNanoType, rng, rows, n, data_type, |v| {
                IntervalMonthDayNano::new((v >> 40) as i32, v as i32, v as i64)
            })
        }
        Decimal32(_, _) => native!(Decimal32Type, rng, rows, n, data_type, |v| v as i32),
        Decimal64(_, _) => native!(Decimal64Type, rng, rows, n, data_type, |v| v as i64),
        Decimal128(_, _) => {
            let values: Vec<i128> =
                wide(rng, rows).into_iter().map(|(low, _)| low.cast_signed()).collect();
            Arc::new(Decimal128Array::new(values.into(), n).with_data_type(data_type.clone()))
        }
        Decimal256(_, _) => {
            let values: Vec<i256> = wide(rng, rows)
                .into_iter()
                .map(|(low, high)| i256::from_parts(low, high))
                .collect();
            Arc::new(Decimal256Array::new(values.into(), n).with_data_type(data_type.clone()))
        }
        FixedSizeBinary(width) => {
            let constant = rng.chance(30);
            let bytes: Vec<u8> = (0..rows * *width as usize)
                .map(|_| if constant { 7 } else { rng.next() as u8 })
                .collect();
            Arc::new(FixedSizeBinaryArray::try_new_with_len(*width, bytes.into(), n, rows).unwrap())
        }
        Utf8 => Arc::new(bytes::<Utf8Type>(rng, rows, n)),
        LargeUtf8 => Arc::new(bytes::<LargeUtf8Type>(rng, rows, n)),
        Binary => Arc::new(bytes::<BinaryType>(rng, rows, n)),
        LargeBinary => Arc::new(bytes::<LargeBinaryType>(rng, rows, n)),
        Utf8View => {
            let array = bytes::<Utf8Type>(rng, rows, n);
            if rng.chance(50) {
                Arc::new(StringViewArray::from(&array))
            } else {
                Arc::new(array.iter().collect::<StringViewArray>())
            }
        }
        BinaryView => Arc::new(BinaryViewArray::from(&bytes::<BinaryType>(rng, rows, n))),
        List(field) => list::<i32>(rng, field, rows, n),
        LargeList(field) => list::<i64>(rng, field, rows, n),
        ListView(field) => list_view::<i32>(rng, field, rows, n),
        LargeListView(field) => list_view::<i64>(rng, field, rows, n),
        FixedSizeList(field, size) => {
            let values = array(rng, field.data_type(), rows * *size as usize, field.is_nullable());
            let array =
                FixedSizeListArray::try_new_with_length(field.clone(), *size, values, n, rows);
            Arc::new(array.unwrap())
        }
        Struct(fields) => {
            let children =
                fields.iter().map(|f| array(rng, f.data_type(), rows, f.is_nullable())).collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), children, n, rows).unwrap())
        }
        Map(field, sorted) => {
            let (offsets, total) = offsets::<i32>(rng, rows);
            let entries = whole(rng, field.data_type(), total, false);
            let entries = entries.as_struct().clone();
            Arc::new(MapArray::try_new(field.clone(), offsets, entries, n, *sorted).unwrap())
        }
        Dictionary(key, value) => dictionary(rng, key, value, rows, (n, nullable)),
        RunEndEncoded(ends, values) => runs(rng, data_type, ends, values, rows),
        Union(fields, mode) => union(rng, fields, *mode, rows),
    }
}

fn bytes<T: ByteArrayType>(
    rng: &mut Rng,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> GenericByteArray<T> {
    let values = texts(rng, rows);
    let offsets = OffsetBuffer::<T::Offset>::from_lengths(values.iter().map(String::len));
    let data: Vec<u8> = values.iter().flat_map(|v| v.bytes()).collect();
    GenericByteArray::try_new(offsets, data.into(), nulls).unwrap()
}

fn offsets<O: OffsetSizeTrait>(rng: &mut Rng, rows: usize) -> (OffsetBuffer<O>, usize) {
    let max = [1, 2, 5][rng.below(3)];
    let lens: Vec<usize> = (0..rows).map(|_| rng.below(max)).collect();
    (OffsetBuffer::from_lengths(lens.iter().copied()), lens.iter().sum())
}

fn list<O: OffsetSizeTrait>(
    rng: &mut Rng,
    field: &FieldRef,
    rows: usize,
    n: Option<NullBuffer>,
) -> ArrayRef {
    let (offsets, total) = offsets::<O>(rng, rows);
    let values = array(rng, field.data_type(), total, field.is_nullable());
    Arc::new(GenericListArray::<O>::try_new(field.clone(), offsets, values, n).unwrap())
}

fn list_view<O: OffsetSizeTrait>(
    rng: &mut Rng,
    field: &FieldRef,
    rows: usize,
    n: Option<NullBuffer>,
) -> ArrayRef {
    let total = rng.below(rows + 5);
    let values = array(rng, field.data_type(), total, field.is_nullable());
    let views: Vec<(usize, usize)> = (0..rows)
        .map(|_| {
            let at = rng.below(total + 1);
            (at, rng.below((total - at).min(4) + 1))
        })
        .collect();
    let offsets: Vec<O> = views.iter().map(|(at, _)| O::usize_as(*at)).collect();
    let sizes: Vec<O> = views.iter().map(|(_, len)| O::usize_as(*len)).collect();
    let array =
        GenericListViewArray::<O>::try_new(field.clone(), offsets.into(), sizes.into(), values, n);
    Arc::new(array.unwrap())
}

fn dictionary(
    rng: &mut Rng,
    key: &DataType,
    value: &DataType,
    rows: usize,
    (n, nullable): (Option<NullBuffer>, bool),
) -> ArrayRef {
    let max = [1, 5, 100][rng.below(3)];
    let size = 1 + rng.below(max);
    let values = array(rng, value, size, nullable);
    macro_rules! keyed {
        ($t:ty) => {{
            let keys: Vec<_> = (0..rows)
                .map(|_| <$t as ArrowPrimitiveType>::Native::usize_as(rng.below(size)))
                .collect();
            Arc::new(
                DictionaryArray::<$t>::try_new(PrimitiveArray::new(keys.into(), n), values)
                    .unwrap(),
            )
        }};
    }
    match key {
        DataType::Int8 => keyed!(Int8Type),
        DataType::Int16 => keyed!(Int16Type),
        DataType::Int32 => keyed!(Int32Type),
        DataType::Int64 => keyed!(Int64Type),
        DataType::UInt8 => keyed!(UInt8Type),
        DataType::UInt16 => keyed!(UInt16Type),
        DataType::UInt32 => keyed!(UInt32Type),
        _ => keyed!(UInt64Type),
    }
}

fn runs(
    rng: &mut Rng,
    data_type: &DataType,
    ends: &FieldRef,
    values: &FieldRef,
    rows: usize,
) -> ArrayRef {
    let mut lens = Vec::new();
    let mut left = rows;
    while left > 0 {
        let len = 1 + rng.below(left.min(10));
        lens.push(len);
        left -= len;
    }
    let width = ends.data_type().primitive_width().unwrap();
    let mut end = 0u64;
    let mut bytes = Vec::new();
    for len in &lens {
        end += *len as u64;
        bytes.extend_from_slice(&end.to_le_bytes()[..width]);
    }
    let buffer = Buffer::from_vec(bytes);
    let data = ArrayData::builder(ends.data_type().clone()).len(lens.len()).add_buffer(buffer);
    let ends = data.align_buffers(true).build().unwrap();
    let values = whole(rng, values.data_type(), lens.len(), values.is_nullable());
    let children = vec![ends, values.to_data()];
    make_array(
        ArrayData::builder(data_type.clone()).len(rows).child_data(children).build().unwrap(),
    )
}

fn union(rng: &mut Rng, fields: &UnionFields, mode: UnionMode, rows: usize) -> ArrayRef {
    let known: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
    let ids: Vec<i8> = (0..rows).map(|_| known[rng.below(known.len())]).collect();
    if mode == UnionMode::Sparse {
        let children =
            fields.iter().map(|(_, f)| array(rng, f.data_type(), rows, f.is_nullable())).collect();
        return Arc::new(UnionArray::try_new(fields.clone(), ids.into(), None, children).unwrap());
    }
    let mut counts = [0i32; 128];
    let offsets: Vec<i32> = ids
        .iter()
        .map(|id| {
            counts[*id as usize] += 1;
            counts[*id as usize] - 1
        })
        .collect();
    let children = fields
        .iter()
        .map(|(id, f)| array(rng, f.data_type(), counts[id as usize] as usize, f.is_nullable()))
        .collect();
    Arc::new(
        UnionArray::try_new(fields.clone(), ids.into(), Some(offsets.into()), children).unwrap(),
    )
}
