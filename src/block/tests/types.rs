//! The table of types in the module's text, walked.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use std::sync::Arc;

use super::generate::{self, NESTED_KINDS, Rng};
use super::{batch, round_trip};
use crate::block::{BlockDecoder, BlockError, DecodeLimits, schema_fingerprint, why_not};
use crate::codec::Codec;

/// Exhaustive, so that a new type in Arrow does not compile before it is decided upon.
fn name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Null => "Null",
        DataType::Boolean => "Boolean",
        DataType::Int8 => "Int8",
        DataType::Int16 => "Int16",
        DataType::Int32 => "Int32",
        DataType::Int64 => "Int64",
        DataType::UInt8 => "UInt8",
        DataType::UInt16 => "UInt16",
        DataType::UInt32 => "UInt32",
        DataType::UInt64 => "UInt64",
        DataType::Float16 => "Float16",
        DataType::Float32 => "Float32",
        DataType::Float64 => "Float64",
        DataType::Timestamp(_, _) => "Timestamp",
        DataType::Date32 => "Date32",
        DataType::Date64 => "Date64",
        DataType::Time32(_) => "Time32",
        DataType::Time64(_) => "Time64",
        DataType::Duration(_) => "Duration",
        DataType::Interval(_) => "Interval",
        DataType::Binary => "Binary",
        DataType::FixedSizeBinary(_) => "FixedSizeBinary",
        DataType::LargeBinary => "LargeBinary",
        DataType::BinaryView => "BinaryView",
        DataType::Utf8 => "Utf8",
        DataType::LargeUtf8 => "LargeUtf8",
        DataType::Utf8View => "Utf8View",
        DataType::List(_) => "List",
        DataType::ListView(_) => "ListView",
        DataType::FixedSizeList(_, _) => "FixedSizeList",
        DataType::LargeList(_) => "LargeList",
        DataType::LargeListView(_) => "LargeListView",
        DataType::Struct(_) => "Struct",
        DataType::Union(_, _) => "Union",
        DataType::Dictionary(_, _) => "Dictionary",
        DataType::Decimal32(_, _) => "Decimal32",
        DataType::Decimal64(_, _) => "Decimal64",
        DataType::Decimal128(_, _) => "Decimal128",
        DataType::Decimal256(_, _) => "Decimal256",
        DataType::Map(_, _) => "Map",
        DataType::RunEndEncoded(_, _) => "RunEndEncoded",
    }
}

#[test]
fn every_type_of_the_table_survives_and_every_type_is_in_it() {
    let text = include_str!("../mod.rs");
    let (_, table) = text.split_once("//! # Types").unwrap();
    let (table, _) = table.split_once("//! [`why_not`]").unwrap();
    let first_columns =
        table.lines().filter_map(|line| line.strip_prefix("//! | `")?.split(" | ").next());
    let mut listed: Vec<&str> = first_columns
        .flat_map(|names| names.split(' '))
        .map(|name| name.trim_matches('`'))
        .collect();
    listed.sort_unstable();

    let mut rng = Rng(7);
    let mut types = generate::leaf_types();
    types.extend((0..NESTED_KINDS).map(|kind| generate::nested_type(&mut rng, kind, 1)));
    let mut carried: Vec<&str> = types.iter().map(name).collect();
    carried.sort_unstable();
    carried.dedup();
    assert_eq!(carried, listed);
    for data_type in types {
        let array = generate::array(&mut rng, &data_type, 500, true);
        round_trip(&batch(vec![("c", array)]), 0, 500, Codec::Lz4);
    }
}

#[test]
fn refusals_name_the_field_and_its_type() {
    let schema = |data_type| {
        Schema::new(vec![
            Field::new("ok", DataType::Int8, true),
            Field::new("odd", data_type, true),
        ])
    };
    assert_eq!(why_not(&schema(DataType::Utf8View)), None);
    let reason = why_not(&schema(DataType::FixedSizeBinary(-1))).unwrap();
    assert_eq!(reason, "field \"odd\" of type FixedSizeBinary(-1): its size is negative");
    let list = |inner| DataType::List(Arc::new(Field::new("item", inner, true)));
    let deep = (0..100).fold(DataType::Int8, |inner, _| list(inner));
    assert!(why_not(&schema(deep)).unwrap().ends_with("it is nested too deeply"));
    let key = DataType::Dictionary(Box::new(DataType::Utf8), Box::new(DataType::Utf8));
    assert!(why_not(&schema(list(key))).unwrap().ends_with("its keys are not integers"));
}

#[test]
fn fingerprints_tell_types_zones_and_nullability_apart_and_nothing_else() {
    let of = |data_type, nullable| {
        schema_fingerprint(&Schema::new(vec![Field::new("c", data_type, nullable)]))
    };
    let zoned = |zone: &str| DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
    let list =
        |name: &str, nullable| DataType::List(Arc::new(Field::new(name, DataType::Int8, nullable)));
    let mut prints = vec![
        of(DataType::Int64, true),
        of(DataType::Int64, false),
        of(zoned("UTC"), true),
        of(zoned("+01:00"), true),
        of(DataType::Timestamp(TimeUnit::Second, None), true),
        of(list("item", true), true),
        of(list("item", false), true),
        of(DataType::Interval(IntervalUnit::DayTime), true),
        of(DataType::Decimal128(7, 2), true),
        of(DataType::Decimal128(7, 3), true),
        schema_fingerprint(&Schema::empty()),
    ];
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), 11);
    assert_eq!(of(list("item", true), true), of(list("element", true), true));
    // Part of file formats: this value never changes.
    assert_eq!(of(DataType::Int64, true), 18_189_319_524_031_692_936);
}

#[test]
fn blocks_that_came_with_another_fingerprint_are_refused() {
    let schema = |nullable| Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, nullable)]));
    let decoder = BlockDecoder::try_new(schema(true), DecodeLimits::default()).unwrap();
    let (expected, found) = (schema_fingerprint(&schema(true)), schema_fingerprint(&schema(false)));
    assert_eq!(decoder.check_fingerprint(expected), Ok(()));
    let error = decoder.check_fingerprint(found).unwrap_err();
    assert_eq!(error, BlockError::Fingerprint { expected, found });
    assert!(error.to_string().contains(&format!("{found:#018x}")), "{error}");
}
