//! `ifile verify`.

use crate::Target;
use crate::input::{Data, Input};
use crate::output::{Failure, Out, fault_json};
use datafusion_ifile::error::{IFileError, Result};
use datafusion_ifile::ifile::{Lengths, SegmentReader};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};

/// Digest of the raw stream that a reader uses up.
#[derive(Clone, Default)]
struct RawDigest(Arc<Mutex<Sha256>>);

impl RawDigest {
    fn attach(&self, reader: &mut SegmentReader<&mut dyn Data>) {
        let digest = self.clone();
        reader.observe_raw(move |bytes| digest.update(bytes));
    }

    fn update(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).update(bytes);
    }

    /// The digest, which starts anew.
    fn take(&self) -> String {
        let mut digest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = std::mem::take(&mut *digest).finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Reads everything. The first fault ends it.
pub(crate) fn run(target: &Target, out: &mut Out) -> Result<(), Failure> {
    let mut segments = vec![];
    let opened = Input::open(target);
    let result = opened.and_then(|mut input| Ok(read_all(&mut input, target, &mut segments)?));
    if let Err(failure @ Failure::Other(_)) = result {
        return Err(failure);
    }
    if target.json {
        let fault = match &result {
            Err(Failure::Data(error)) => fault_json(error),
            _ => Value::Null,
        };
        let file = target.file.display().to_string();
        let ok = result.is_ok();
        out.line(json!({ "file": file, "ok": ok, "segments": segments, "error": fault }))?;
    } else if result.is_ok() {
        let records: u64 = segments.iter().filter_map(|segment| segment["records"].as_u64()).sum();
        out.line(format_args!(
            "{}: ok, {} segments, {records} records",
            target.file.display(),
            segments.len()
        ))?;
    }
    result
}

fn read_all(input: &mut Input, target: &Target, segments: &mut Vec<Value>) -> Result<()> {
    let digest = RawDigest::default();
    let Some(entries) = input.entries() else {
        let mut reader = input.row(target)?;
        digest.attach(&mut reader);
        let mut offset = target.offset;
        loop {
            offset += read_one(&mut reader, None, offset, &digest, segments)?;
            if target.length.is_some() || !reader.next_segment(Lengths::UNKNOWN, None)? {
                return Ok(());
            }
        }
    };
    for (partition, entry) in entries {
        if entry.has_segment() {
            let mut reader = input.partition(partition, entry)?;
            digest.attach(&mut reader);
            read_one(&mut reader, Some(partition), entry.start_offset, &digest, segments)?;
        }
    }
    match &input.index {
        Some(index) => index.check_contiguous(input.len),
        None => Ok(()),
    }
}

/// Reads a segment to its end and returns its stored length.
fn read_one(
    reader: &mut SegmentReader<&mut dyn Data>,
    partition: Option<u32>,
    offset: u64,
    digest: &RawDigest,
    segments: &mut Vec<Value>,
) -> Result<u64> {
    while reader.next_record()?.is_some() {}
    let summary =
        reader.summary().ok_or(IFileError::Usage("ask for the summary before the end"))?;
    segments.push(json!({
        "partition": partition,
        "offset": offset,
        "records": summary.records,
        "raw_length": summary.raw_length,
        "part_length": summary.part_length,
        "compressed": summary.compressed,
        "crc32": format!("{:08x}", summary.crc32),
        "raw_sha256": digest.take(),
    }));
    Ok(summary.part_length)
}
