//! The golden files: their manifest, and the records it says they hold.

use datafusion_ifile::codec::Codec;
use serde_json::Value;
use std::path::PathBuf;

pub(crate) type Record = (Vec<u8>, Vec<u8>);

/// Directory of the golden files. Another set can be tried through `IFILE_GOLDEN_DIR`.
pub(crate) fn dir() -> PathBuf {
    std::env::var_os("IFILE_GOLDEN_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tez"),
        PathBuf::from,
    )
}

pub(crate) fn manifest() -> Value {
    let text = std::fs::read(dir().join("manifest.json")).expect("the manifest is there");
    serde_json::from_slice(&text).expect("the manifest is JSON")
}

pub(crate) fn read(name: &str) -> Vec<u8> {
    std::fs::read(dir().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

pub(crate) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} of {value}"))
}

pub(crate) fn size(value: &Value, field: &str) -> usize {
    usize::try_from(number(value, field)).unwrap()
}

pub(crate) fn codec(file: &Value) -> Codec {
    text(file, "codec").parse().unwrap()
}

/// The codec buffer that a file was written with.
pub(crate) fn codec_buffer(file: &Value) -> usize {
    match file["codec_buffer_size"].as_u64() {
        // Stream codecs have none of that meaning.
        Some(bytes) if matches!(text(file, "codec"), "snappy" | "lz4") => {
            usize::try_from(bytes).unwrap()
        }
        _ => 256 * 1024,
    }
}

/// All records of a file, in the order of its groups, with their partitions.
pub(crate) fn records(file: &Value) -> Vec<(Record, Option<u64>)> {
    let mut records = vec![];
    let mut i = 0;
    for group in list(file, "groups") {
        for n in 0..size(group, "count") {
            let k = match list(group, "key_idx") {
                [] => i,
                key_idx => key_idx[n].as_u64().unwrap(),
            };
            let key = bytes(text(group, "key_gen"), true, k, length(group, "key_len", k));
            let value = bytes(text(group, "val_gen"), false, i, length(group, "val_len", i));
            let partition = list(group, "partitions").get(n).and_then(Value::as_u64);
            records.push(((key, value), partition));
            i += 1;
        }
    }
    records
}

fn length(group: &Value, field: &str, index: u64) -> usize {
    let base = number(group, &format!("{field}_base"));
    let modulus = number(group, &format!("{field}_mod"));
    let extra = if modulus == 0 { 0 } else { index % modulus };
    usize::try_from(base + extra).unwrap()
}

fn bytes(generator: &str, key: bool, index: u64, len: usize) -> Vec<u8> {
    let low = |value: u64| value.to_le_bytes()[0];
    let linear = |j: u64| {
        if key { low(31 * index + j) } else { low(17 * index + 3 * j + 101) }
    };
    match generator {
        "lin" => (0..).map(linear).take(len).collect(),
        "be" => index.to_be_bytes()[8 - len..].to_vec(),
        "xs" => {
            let seed = if key { 0x9E37_79B9_7F4A_7C15 } else { 0xD1B5_4A32_D192_ED03_u64 };
            let mut state = seed ^ (2 * index + 1);
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_be_bytes()[0]
            };
            (0..len).map(|_| next()).collect()
        }
        other => panic!("generator {other}"),
    }
}

/// The records of one partition, in the order of its segment.
pub(crate) fn in_order(all: &[(Record, Option<u64>)], partition: &Value) -> Vec<Record> {
    list(partition, "record_order")
        .iter()
        .map(|index| all[usize::try_from(index.as_u64().unwrap()).unwrap()].0.clone())
        .collect()
}
