//! `ifile dump`.

use crate::Target;
use crate::input::{Data, Input};
use crate::output::{Failure, Out};
use datafusion_ifile::ifile::{Lengths, Record, SegmentReader};
use serde_json::json;
use std::fmt::{self, Write};

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Prints all records. Those of a segment appear only if its checksum is right.
pub(crate) fn run(target: &Target, out: &mut Out) -> Result<(), Failure> {
    let mut input = Input::open(target)?;
    let mut number = 0;
    let Some(entries) = input.entries() else {
        let mut reader = input.verified_row(target)?;
        loop {
            segment(&mut reader, None, &mut number, target, out)?;
            if target.length.is_some() || !reader.next_segment(Lengths::UNKNOWN, None)? {
                return Ok(());
            }
        }
    };
    for (partition, entry) in entries {
        if entry.has_segment() {
            let mut reader = input.verified_partition(partition, entry)?;
            segment(&mut reader, Some(partition), &mut number, target, out)?;
        }
    }
    Ok(())
}

fn segment(
    reader: &mut SegmentReader<&mut dyn Data>,
    partition: Option<u32>,
    number: &mut u64,
    target: &Target,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut text = String::new();
    while let Some(record) = reader.next_record()? {
        if target.json {
            out.line(json!({
                "partition": partition,
                "segment": *number,
                "key": Hex(record.key).to_string(),
                "value": Hex(record.value).to_string(),
                "in_run": record.in_run,
            }))?;
            continue;
        }
        text.clear();
        line(&mut text, partition, &record)
            .map_err(|_| Failure::Other("cannot format a record".into()))?;
        out.line(&text)?;
    }
    *number += 1;
    Ok(())
}

fn line(text: &mut String, partition: Option<u32>, record: &Record<'_>) -> fmt::Result {
    if let Some(partition) = partition {
        write!(text, "{partition}\t")?;
    }
    write!(text, "{}\t{}", Hex(record.key), Hex(record.value))
}
