//! What users of other shuffles have met, as far as it concerns blocks.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::Buffer;
use arrow::datatypes::*;

use super::{batch, decode, encode, encode_rows, round_trip};
use crate::block::{
    BlockDecoder, BlockEncoder, BlockError, BlockHeader, BlockSlice, DecodeLimits, HEADER_LEN,
    logical_bytes,
};
use crate::codec::Codec;

fn retained(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(Array::get_buffer_memory_size).sum()
}

#[test]
fn b8_short_strings_retain_little_more_than_they_are() {
    let values: Vec<String> = (0..100).map(|i| format!("value {}", i * i * 7919)).collect();
    let plain: ArrayRef = Arc::new(StringArray::from_iter_values(&values));
    let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&values));
    for column in [plain, views] {
        let batch = batch(vec![("s", column)]);
        let decoded = round_trip(&batch, 0, 100, Codec::Lz4);
        let logical = logical_bytes(&batch, 0, 100);
        assert!(retained(&decoded) <= logical * 3 / 2, "{} of {logical}", retained(&decoded));
    }
}

#[test]
fn b6_a_slice_of_views_does_not_carry_its_buffers() {
    // A hundred bytes per value, on buffers a hundred times as large as what is kept.
    let values: Vec<String> = (0..20_000).map(|i| format!("{i:0>100}")).collect();
    let views = StringViewArray::from(&StringArray::from_iter_values(&values));
    let field = Arc::new(Field::new("item", DataType::Utf8View, true));
    let offsets = OffsetBufferOf::lengths(20_000);
    let list = ListArray::new(field, offsets, Arc::new(views.clone()), None);
    let fields = Fields::from(vec![Field::new("v", DataType::Utf8View, true)]);
    let nested = StructArray::new(fields, vec![Arc::new(views.clone())], None);
    let batch = batch(vec![("v", Arc::new(views)), ("l", Arc::new(list)), ("s", Arc::new(nested))]);
    let bytes = encode_rows(&batch, 10_000, 200, Codec::None);
    let live = 3 * 200 * (100 + 16);
    assert!(bytes.len() <= live * 3 / 2, "{} for {live} live bytes", bytes.len());
    assert!(logical_bytes(&batch, 10_000, 200) <= live * 3 / 2);
    let decoded = round_trip(&batch, 10_000, 200, Codec::None);
    assert!(retained(&decoded) <= live * 3 / 2, "{} for {live} live bytes", retained(&decoded));
}

struct OffsetBufferOf;

impl OffsetBufferOf {
    /// One child row per row.
    fn lengths(rows: usize) -> arrow::buffer::OffsetBuffer<i32> {
        arrow::buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(1, rows))
    }
}

#[test]
fn b6_values_that_views_share_are_not_multiplied() {
    let rows = 100_000;
    let distinct: Vec<String> = (0..1000).map(|i| format!("{i:0>60}")).collect();
    let dictionary = StringViewArray::from(&StringArray::from_iter_values(&distinct));
    let ids = UInt32Array::from_iter_values((0..rows).map(|i| i * 7919 % 1000));
    let shared = arrow::compute::take(&dictionary, &ids, None).unwrap();
    let input = rows as usize * 16 + 60_000;
    let batch = batch(vec![("v", shared)]);
    assert!(logical_bytes(&batch, 0, rows as usize) <= input + rows as usize / 8 + 1);
    let bytes = encode(&batch, Codec::None);
    assert!(bytes.len() <= input / 4, "{} bytes", bytes.len());
    let decoded = decode(batch.schema(), &bytes);
    assert!(retained(&decoded) <= input * 11 / 10, "{} bytes", retained(&decoded));
    assert_eq!(decoded, batch);
}

#[test]
fn b7_dictionaries_keep_only_the_values_that_rows_use() {
    let values: StringArray = (0..300).map(|i| (i % 50 != 0).then(|| format!("v{i}"))).collect();
    // Keys under nulls, a null among the values, and a slice that uses a few of them.
    let keys = Int32Array::from(vec![Some(7), None, Some(50), Some(7), Some(299), Some(120)]);
    let array = DictionaryArray::try_new(keys, Arc::new(values)).unwrap();
    let batch = batch(vec![("d", Arc::new(array))]);
    let decoded = round_trip(&batch, 0, 5, Codec::None);
    let dictionary = decoded.column(0).as_dictionary::<Int32Type>();
    assert_eq!(dictionary.values().len(), 3);
    assert_eq!(
        dictionary.keys(),
        &Int32Array::from(vec![Some(0), None, Some(1), Some(0), Some(2)])
    );
    assert_eq!(
        dictionary.values().as_string::<i32>(),
        &StringArray::from(vec![Some("v7"), None, Some("v299")])
    );
}

#[test]
fn dictionaries_of_several_batches_become_one_and_never_overflow_their_keys() {
    let one = |from: i32, n: i32| {
        let values = StringArray::from_iter_values((from..from + n).map(|i| format!("v{i}")));
        let keys = Int8Array::from_iter_values((0..n).map(|i| i as i8));
        let array: ArrayRef = Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).unwrap());
        batch(vec![("d", array)])
    };
    let (a, b) = (one(0, 60), one(60, 60));
    let b = RecordBatch::try_new(a.schema(), b.columns().to_vec()).unwrap();
    let slice = |batch, offset, len| BlockSlice { batch, offset, len };
    let mut encoder = BlockEncoder::try_new(a.schema(), Codec::None).unwrap();
    let mut out = Vec::new();
    encoder.encode_slices(&[slice(&a, 0, 60), slice(&b, 0, 60)], &mut out).unwrap();
    let decoded = decode(a.schema(), &out);
    let column = decoded.column(0).as_dictionary::<Int8Type>();
    let texts: Vec<_> = column
        .downcast_dict::<StringArray>()
        .unwrap()
        .into_iter()
        .flatten()
        .map(String::from)
        .collect();
    assert_eq!(texts, (0..120).map(|i| format!("v{i}")).collect::<Vec<_>>());

    let c = RecordBatch::try_new(a.schema(), one(120, 60).columns().to_vec()).unwrap();
    out.clear();
    let found =
        encoder.encode_slices(&[slice(&a, 0, 60), slice(&b, 0, 60), slice(&c, 0, 60)], &mut out);
    assert_eq!(found, Err(BlockError::Limit { what: "dictionary values", found: 180, limit: 127 }));
    assert!(out.is_empty());
}

#[test]
fn b3_the_reader_gives_its_own_schema() {
    let metadata = [("k".to_string(), "v".to_string())].into();
    let inner = Field::new("x", DataType::Int64, true).with_metadata(metadata);
    let extended = Field::new("s", DataType::Struct(vec![inner].into()), true)
        .with_metadata([("ARROW:extension:name".to_string(), "geo.point".to_string())].into());
    let plan = Arc::new(Schema::new(vec![extended, Field::new("n", DataType::Int32, true)]));

    // The batches know less: required fields, no metadata.
    let x = Field::new("x", DataType::Int64, false);
    let without =
        StructArray::new(vec![x].into(), vec![Arc::new(Int64Array::from(vec![1, 2]))], None);
    let first = RecordBatch::try_from_iter(vec![
        ("s", Arc::new(without) as ArrayRef),
        ("n", Arc::new(Int32Array::from(vec![1, 2]))),
    ]);
    let x = Field::new("x", DataType::Int64, true);
    let with = StructArray::new(
        vec![x].into(),
        vec![Arc::new(Int64Array::from(vec![Some(3), None]))],
        None,
    );
    let second = RecordBatch::try_from_iter(vec![
        ("s", Arc::new(with) as ArrayRef),
        ("n", Arc::new(Int32Array::from(vec![None, Some(4)]))),
    ]);
    let (first, second) = (first.unwrap(), second.unwrap());
    for pair in [[&first, &second], [&second, &first]] {
        let mut encoder = BlockEncoder::try_new(plan.clone(), Codec::Lz4).unwrap();
        for batch in pair {
            let mut bytes = Vec::new();
            encoder.encode(batch, 0, 2, &mut bytes).unwrap();
            let decoded = decode(plan.clone(), &bytes);
            assert_eq!(decoded.schema(), plan);
            assert_eq!(decoded.column(1), batch.column(1));
            let x = |batch: &RecordBatch| batch.column(0).as_struct().column(0).clone();
            assert_eq!(&x(&decoded), &x(batch));
        }
    }
}

#[test]
fn nulls_in_a_required_column_and_foreign_types_are_refused() {
    let required = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
    let mut encoder = BlockEncoder::try_new(required, Codec::None).unwrap();
    let mut out = vec![1];
    let nulls = batch(vec![("c", Arc::new(Int64Array::from(vec![Some(1), None])))]);
    let text = batch(vec![("c", Arc::new(StringArray::from(vec!["a"])))]);
    let found = encoder.encode(&nulls, 0, 2, &mut out);
    assert_eq!(found, Err(BlockError::Schema("nulls in the required column \"c\"".into())));
    let found = encoder.encode(&text, 0, 1, &mut out);
    assert_eq!(found, Err(BlockError::Schema("column \"c\" is Utf8 instead of Int64".into())));
    let found = encoder.encode(&nulls, 1, 2, &mut out);
    assert_eq!(found, Err(BlockError::Limit { what: "rows of the batch", found: 3, limit: 2 }));
    assert_eq!(out, [1]);
}

#[test]
fn rows_without_columns_are_counted() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(8192));
    let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    let mut encoder = BlockEncoder::try_new(schema.clone(), Codec::Lz4).unwrap();
    let mut rows = 0;
    for _ in 0..3 {
        for part in 0..8 {
            let mut out = Vec::new();
            encoder.encode(&batch, part * 1024, 1024, &mut out).unwrap();
            assert_eq!(out.len(), HEADER_LEN);
            rows += decode(schema.clone(), &out).num_rows();
        }
    }
    assert_eq!(rows, 24_576);
}

#[test]
fn framing_is_below_one_percent() {
    // 5,000 rows of 1 M over 200 outputs.
    let text = |salt: u64| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            (0..5000u64).map(|i| format!("{:x}", (i + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        ))
    };
    let mut columns: Vec<(&str, ArrayRef)> = (0..7).map(|i| ("s", text(i * 10_000))).collect();
    columns.push((
        "t",
        Arc::new(TimestampMicrosecondArray::from_iter_values((0..5000).map(|i| i * 7919))),
    ));
    let batch = batch(columns);
    let bytes = encode(&batch, Codec::Lz4);
    // Header, tags, control bytes, minimums.
    let framing = HEADER_LEN + 7 * (1 + 2 + 1) + (1 + 1 + 8);
    assert!(framing * 100 <= bytes.len(), "{framing} of {}", bytes.len());
    let decoded = decode(batch.schema(), &bytes);
    assert_eq!(decoded, batch);
}

#[test]
fn b9_tiny_and_incompressible_blocks_are_stored_raw() {
    let noise: Vec<i64> = (0..4000u64)
        .map(|i| {
            (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i << 17)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
                as i64
        })
        .collect();
    let noise = batch(vec![("c", Arc::new(Int64Array::from(noise)))]);
    let tiny = batch(vec![("c", Arc::new(Int64Array::from(vec![1, 1, 2])))]);
    for codec in [Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::Zstd { level: 9 }] {
        for batch in [&noise, &tiny] {
            let header = BlockHeader::parse(&encode(batch, codec)).unwrap();
            assert_eq!(header.codec, 0);
            assert_eq!(header.stored_bytes, header.raw_bytes);
        }
        // Never more bytes than plain.
        assert!(encode(&noise, codec).len() <= 4000 * 8 + HEADER_LEN + 16);
    }
}

#[test]
fn levels_differ() {
    let words = StringArray::from_iter_values(
        (0..20_000).map(|i| format!("{i} {} {} row", i % 97, i * 31 % 1013)),
    );
    let batch = batch(vec![("s", Arc::new(words))]);
    let sizes: Vec<usize> =
        [1, 3, 9].map(|level| encode(&batch, Codec::Zstd { level }).len()).to_vec();
    assert!(sizes[0] != sizes[1] && sizes[1] != sizes[2] && sizes[2] != sizes[0], "{sizes:?}");
}

#[test]
fn b10_a_block_does_not_depend_on_those_before_it() {
    let a = batch(vec![(
        "s",
        Arc::new(StringArray::from_iter_values((0..5000).map(|i| format!("{}", i % 700)))),
    )]);
    let b = batch(vec![(
        "s",
        Arc::new(StringArray::from_iter_values((0..900).map(|i| format!("{}", i * i)))),
    )]);
    for codec in super::CODECS {
        let mut encoder = BlockEncoder::try_new(a.schema(), codec).unwrap();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        encoder.encode(&a, 0, 5000, &mut first).unwrap();
        encoder.encode(&b, 0, 900, &mut Vec::new()).unwrap();
        encoder.encode(&a, 0, 5000, &mut again).unwrap();
        assert_eq!(first, again);
    }
}

#[test]
fn b1_the_bound_of_decoded_bytes_holds_and_is_near() {
    let batch = batch(vec![
        ("i", Arc::new(Int64Array::from_iter((0..1000).map(|i| (i % 3 != 0).then_some(i))))),
        (
            "s",
            Arc::new(StringArray::from_iter_values((0..1000).map(|i| format!("value number {i}")))),
        ),
    ]);
    let bytes = encode(&batch, Codec::Lz4);
    let bound = BlockHeader::parse(&bytes).unwrap().decoded_bytes as usize;
    let decoded = decode(batch.schema(), &bytes);
    let held = retained(&decoded);
    assert!(held <= bound + 64 && bound <= held + held / 10, "{held} bytes, bound {bound}");
    let limits = DecodeLimits { max_decoded_bytes: bound - 1, ..DecodeLimits::default() };
    let found = BlockDecoder::try_new(batch.schema(), limits).unwrap().decode(&bytes);
    let refused =
        BlockError::Limit { what: "decoded bytes", found: bound as u64, limit: bound as u64 - 1 };
    assert_eq!(found, Err(refused));
}

#[test]
fn out_of_precision_decimals_and_full_ranges_are_kept() {
    let wide = vec![i128::MIN, i128::MAX, 0, -1, 10_i128.pow(38)];
    let wider = vec![i256::MIN, i256::MAX, i256::ZERO, i256::MINUS_ONE, i256::from_i128(i128::MAX)];
    let batch = batch(vec![
        ("a", Arc::new(Decimal128Array::from(wide).with_precision_and_scale(5, 2).unwrap())),
        ("b", Arc::new(Decimal256Array::from(wider))),
        ("c", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0, -1, 1]))),
        ("d", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1, 1 << 63, 5]))),
    ]);
    round_trip(&batch, 0, 5, Codec::None);
}

#[test]
fn b4_bytes_under_null_rows_are_not_stored() {
    let data = Buffer::from_vec(b"secretvisible".to_vec());
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([6, 7]);
    let array = StringArray::new(offsets, data, Some(vec![false, true].into()));
    let batch = batch(vec![("s", Arc::new(array))]);
    let bytes = encode(&batch, Codec::None);
    assert!(!bytes.windows(6).any(|w| w == b"secret"));
    assert!(bytes.windows(7).any(|w| w == b"visible"));
    round_trip(&batch, 0, 2, Codec::None);
}
