//! Which schemas blocks carry, when a batch fits one, and its fingerprint.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit, UnionMode};

/// `None` if blocks can carry every field; else the first field that they cannot, and its type.
#[must_use]
pub fn why_not(schema: &Schema) -> Option<String> {
    schema.fields().iter().find_map(|field| {
        let reason = refusal(field.data_type())?;
        Some(format!("field {:?} of type {}: {reason}", field.name(), field.data_type()))
    })
}

/// Nesting beyond this is refused: encoding and decoding recurse.
const MAX_DEPTH: usize = 64;

fn refusal(data_type: &DataType) -> Option<&'static str> {
    refusal_at(data_type, MAX_DEPTH)
}

fn refusal_at(data_type: &DataType, depth: usize) -> Option<&'static str> {
    let Some(depth) = depth.checked_sub(1) else { return Some("it is nested too deeply") };
    let child = |field: &Field| refusal_at(field.data_type(), depth);
    match data_type {
        DataType::FixedSizeBinary(size) if *size < 0 => Some("its size is negative"),
        DataType::FixedSizeList(_, size) if *size < 0 => Some("its size is negative"),
        DataType::List(field)
        | DataType::ListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::LargeList(field)
        | DataType::LargeListView(field) => child(field),
        DataType::Struct(fields) => fields.iter().find_map(|field| child(field)),
        DataType::Union(fields, _) if fields.is_empty() => Some("it has no children"),
        DataType::Union(fields, _) => fields.iter().find_map(|(_, field)| child(field)),
        DataType::Dictionary(key, _) if !key.is_dictionary_key_type() => {
            Some("its keys are not integers")
        }
        DataType::Dictionary(_, value) => refusal_at(value, depth),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => child(entries),
            _ => Some("its entries are not pairs"),
        },
        DataType::RunEndEncoded(ends, values) => match ends.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => child(values),
            _ => Some("its run ends are not 16, 32 or 64 bit integers"),
        },
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Timestamp(_, _)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Interval(_)
        | DataType::Binary
        | DataType::FixedSizeBinary(_)
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => None,
    }
}

/// How a batch of schema `found` differs from `wanted`, beyond nullability, metadata and names; `None` if it fits.
pub(crate) fn difference(wanted: &Schema, found: &Schema) -> Option<String> {
    if wanted.fields().len() != found.fields().len() {
        return Some(format!(
            "{} columns instead of {}",
            found.fields().len(),
            wanted.fields().len()
        ));
    }
    let mut pairs = wanted.fields().iter().zip(found.fields());
    pairs.find(|(w, f)| !same_layout(w.data_type(), f.data_type())).map(|(w, f)| {
        format!("column {:?} is {} instead of {}", w.name(), f.data_type(), w.data_type())
    })
}

/// Whether two types differ at most in names, nullability and metadata of nested fields.
fn same_layout(a: &DataType, b: &DataType) -> bool {
    let fields = |a: &Field, b: &Field| same_layout(a.data_type(), b.data_type());
    match (a, b) {
        (DataType::List(a), DataType::List(b))
        | (DataType::LargeList(a), DataType::LargeList(b))
        | (DataType::ListView(a), DataType::ListView(b))
        | (DataType::LargeListView(a), DataType::LargeListView(b)) => fields(a, b),
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => n == m && fields(a, b),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fields(a, b))
        }
        (DataType::Map(a, _), DataType::Map(b, _)) => fields(a, b),
        (DataType::Dictionary(ka, va), DataType::Dictionary(kb, vb)) => {
            ka == kb && same_layout(va, vb)
        }
        (DataType::RunEndEncoded(ra, va), DataType::RunEndEncoded(rb, vb)) => {
            fields(ra, rb) && fields(va, vb)
        }
        (DataType::Union(a, am), DataType::Union(b, bm)) => {
            am == bm
                && a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((i, a), (j, b))| i == j && fields(a, b))
        }
        (a, b) => a == b,
    }
}

/// A number that differs, but for accidents, between schemas whose blocks do not mean the same.
///
/// It covers types, zones and nullability, nested ones included, and neither names nor metadata. The value is part of
/// file formats: FNV-1a, 64 bits, over a pre-order text of the types.
#[must_use]
pub fn schema_fingerprint(schema: &Schema) -> u64 {
    let mut text = String::new();
    for field in schema.fields() {
        describe_field(field, &mut text);
    }
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn describe_field(field: &Field, out: &mut String) {
    describe(field.data_type(), out);
    out.push(if field.is_nullable() { '?' } else { '!' });
}

fn describe(data_type: &DataType, out: &mut String) {
    match data_type {
        DataType::List(field) => nested("list", &[field], out),
        DataType::LargeList(field) => nested("large_list", &[field], out),
        DataType::ListView(field) => nested("list_view", &[field], out),
        DataType::LargeListView(field) => nested("large_list_view", &[field], out),
        DataType::FixedSizeList(field, size) => {
            nested(&format!("fixed_list:{size}"), &[field], out);
        }
        DataType::Map(field, sorted) => nested(&format!("map:{sorted}"), &[field], out),
        DataType::RunEndEncoded(ends, values) => nested("runs", &[ends, values], out),
        DataType::Struct(fields) => {
            let fields: Vec<&Field> = fields.iter().map(AsRef::as_ref).collect();
            nested("struct", &fields, out);
        }
        DataType::Union(fields, mode) => {
            out.push_str(match mode {
                UnionMode::Sparse => "sparse(",
                UnionMode::Dense => "dense(",
            });
            for (id, field) in fields.iter() {
                out.push_str(&format!("{id}="));
                describe_field(field, out);
            }
            out.push(')');
        }
        DataType::Dictionary(key, value) => {
            out.push_str("dictionary(");
            describe(key, out);
            out.push(',');
            describe(value, out);
            out.push(')');
        }
        DataType::Timestamp(unit, zone) => {
            out.push_str(&format!(
                "timestamp:{}:{};",
                unit_name(*unit),
                zone.as_deref().unwrap_or("-")
            ));
        }
        DataType::Time32(unit) => out.push_str(&format!("time32:{};", unit_name(*unit))),
        DataType::Time64(unit) => out.push_str(&format!("time64:{};", unit_name(*unit))),
        DataType::Duration(unit) => out.push_str(&format!("duration:{};", unit_name(*unit))),
        DataType::Interval(IntervalUnit::YearMonth) => out.push_str("interval:ym;"),
        DataType::Interval(IntervalUnit::DayTime) => out.push_str("interval:dt;"),
        DataType::Interval(IntervalUnit::MonthDayNano) => out.push_str("interval:mdn;"),
        DataType::FixedSizeBinary(width) => out.push_str(&format!("fixed_binary:{width};")),
        DataType::Decimal32(p, s) => out.push_str(&format!("decimal32:{p}:{s};")),
        DataType::Decimal64(p, s) => out.push_str(&format!("decimal64:{p}:{s};")),
        DataType::Decimal128(p, s) => out.push_str(&format!("decimal128:{p}:{s};")),
        DataType::Decimal256(p, s) => out.push_str(&format!("decimal256:{p}:{s};")),
        plain => out.push_str(plain_name(plain)),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Names of types without parameters; empty for the others.
fn plain_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Null => "null;",
        DataType::Boolean => "bool;",
        DataType::Int8 => "i8;",
        DataType::Int16 => "i16;",
        DataType::Int32 => "i32;",
        DataType::Int64 => "i64;",
        DataType::UInt8 => "u8;",
        DataType::UInt16 => "u16;",
        DataType::UInt32 => "u32;",
        DataType::UInt64 => "u64;",
        DataType::Float16 => "f16;",
        DataType::Float32 => "f32;",
        DataType::Float64 => "f64;",
        DataType::Date32 => "date32;",
        DataType::Date64 => "date64;",
        DataType::Binary => "binary;",
        DataType::LargeBinary => "large_binary;",
        DataType::BinaryView => "binary_view;",
        DataType::Utf8 => "utf8;",
        DataType::LargeUtf8 => "large_utf8;",
        DataType::Utf8View => "utf8_view;",
        _ => "",
    }
}

fn nested(name: &str, fields: &[&Field], out: &mut String) {
    out.push_str(name);
    out.push('(');
    for field in fields {
        describe_field(field, out);
    }
    out.push(')');
}
