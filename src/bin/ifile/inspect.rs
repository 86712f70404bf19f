//! `ifile inspect`.

use crate::Target;
use crate::input::{Data, Input};
use crate::output::{Failure, Out, fault_json};
use datafusion_ifile::error::{IFileError, Result};
use datafusion_ifile::ifile::{IndexEntry, Lengths, SegmentReader, SegmentSummary};
use serde_json::{Value, json};

/// One line of the listing.
struct Line {
    partition: Option<u32>,
    offset: u64,
    what: What,
}

enum What {
    /// The index says that there is no segment.
    Nothing,
    Segment(SegmentSummary),
    Fault(IFileError),
}

/// Lists what the file holds. A fault in one partition does not keep the others from being listed;
/// without an index nothing is known behind it.
pub(crate) fn run(target: &Target, out: &mut Out) -> Result<(), Failure> {
    let mut input = Input::open(target)?;
    let lines = match input.entries() {
        Some(entries) => by_index(&mut input, &entries),
        None => in_a_row(&mut input, target),
    };
    if target.json {
        out.line(json_of(target, input.len, &lines))?;
    } else {
        print(target, input.len, &lines, out)?;
    }
    lines.into_iter().try_for_each(|line| match line.what {
        What::Fault(error) => Err(error.into()),
        What::Nothing | What::Segment(_) => Ok(()),
    })
}

fn by_index(input: &mut Input, entries: &[(u32, IndexEntry)]) -> Vec<Line> {
    let line = |&(partition, entry): &(u32, IndexEntry)| {
        let what = if entry.has_segment() {
            let summary =
                input.partition(partition, entry).and_then(|mut reader| drain(&mut reader));
            summary.map_or_else(What::Fault, What::Segment)
        } else {
            What::Nothing
        };
        Line { partition: Some(partition), offset: entry.start_offset, what }
    };
    entries.iter().map(line).collect()
}

fn in_a_row(input: &mut Input, target: &Target) -> Vec<Line> {
    let mut lines = vec![];
    let mut offset = target.offset;
    let fault = |offset, error| Line { partition: None, offset, what: What::Fault(error) };
    let mut reader = match input.row(target) {
        Ok(reader) => reader,
        Err(error) => return vec![fault(offset, error)],
    };
    loop {
        match drain(&mut reader) {
            Ok(summary) => {
                lines.push(Line { partition: None, offset, what: What::Segment(summary) });
                offset += summary.part_length;
            }
            Err(error) => {
                lines.push(fault(offset, error));
                return lines;
            }
        }
        if target.length.is_some() {
            return lines;
        }
        match reader.next_segment(Lengths::UNKNOWN, None) {
            Ok(true) => {}
            Ok(false) => return lines,
            Err(error) => {
                lines.push(fault(offset, error));
                return lines;
            }
        }
    }
}

/// Reads a segment to its end, where its checksum is compared.
fn drain(reader: &mut SegmentReader<&mut dyn Data>) -> Result<SegmentSummary> {
    while reader.next_record()?.is_some() {}
    reader.summary().ok_or(IFileError::Usage("ask for the summary before the end"))
}

/// Raw bytes per stored byte.
#[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
fn ratio(summary: &SegmentSummary) -> f64 {
    summary.raw_length as f64 / summary.part_length as f64
}

fn kind(summary: &SegmentSummary) -> &'static str {
    if summary.compressed { "compressed" } else { "raw" }
}

fn json_of(target: &Target, len: u64, lines: &[Line]) -> Value {
    let segments: Vec<Value> = lines
        .iter()
        .map(|line| match &line.what {
            What::Nothing => json!({
                "partition": line.partition, "offset": line.offset, "body": "none", "records": 0,
                "raw_length": 0, "part_length": 0,
            }),
            What::Segment(summary) => json!({
                "partition": line.partition, "offset": line.offset, "body": kind(summary),
                "records": summary.records, "raw_length": summary.raw_length,
                "part_length": summary.part_length, "ratio": ratio(summary),
                "crc32": format!("{:08x}", summary.crc32), "checksum": "ok",
            }),
            What::Fault(error) => json!({
                "partition": line.partition, "offset": line.offset, "checksum": checksum(error),
                "error": fault_json(error),
            }),
        })
        .collect();
    json!({
        "file": target.file.display().to_string(),
        "bytes": len,
        "codec": target.codec.to_string(),
        "segments": segments,
    })
}

/// What is known of the checksum of a segment with a fault.
fn checksum(error: &IFileError) -> &'static str {
    match error.fault() {
        Some(datafusion_ifile::error::Fault::Checksum { .. }) => "wrong",
        _ => "not reached",
    }
}

fn print(target: &Target, len: u64, lines: &[Line], out: &mut Out) -> Result<(), Failure> {
    out.line(format_args!("{}: {len} bytes, codec {}", target.file.display(), target.codec))?;
    out.line(format_args!(
        "{:>9} {:>12} {:>10} {:>10} {:>12} {:>12} {:>7} checksum",
        "partition", "offset", "body", "records", "raw", "stored", "ratio"
    ))?;
    let (mut segments, mut records, mut raw, mut stored) = (0_u64, 0_u64, 0_u64, 0_u64);
    for line in lines {
        let partition = line.partition.map_or_else(|| "-".into(), |number| number.to_string());
        let offset = line.offset;
        match &line.what {
            What::Nothing => {
                out.line(format_args!("{partition:>9} {offset:>12} {:>10}", "none"))?;
            }
            What::Segment(summary) => {
                segments += 1;
                records += summary.records;
                raw += summary.raw_length;
                stored += summary.part_length;
                out.line(format_args!(
                    "{partition:>9} {offset:>12} {:>10} {:>10} {:>12} {:>12} {:>7.3} ok {:08x}",
                    kind(summary),
                    summary.records,
                    summary.raw_length,
                    summary.part_length,
                    ratio(summary),
                    summary.crc32,
                ))?;
            }
            What::Fault(error) => {
                out.line(format_args!("{partition:>9} {offset:>12} {} {error}", checksum(error)))?;
            }
        }
    }
    out.line(format_args!(
        "{segments} segments, {records} records, {raw} raw bytes, {stored} stored"
    ))
}
