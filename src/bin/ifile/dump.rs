//! `ifile dump`.

use crate::Target;
use crate::input::{Data, Input};
use crate::output::{Failure, Out};
use crate::rows::{self, Rows};
use datafusion_ifile::error::Place;
use datafusion_ifile::ifile::{Lengths, Record, SegmentReader};
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is being printed, and how.
struct Dump<'a> {
    target: &'a Target,
    out: &'a mut Out,
    rows: Option<Rows>,
    segment: u64,
}

/// Prints all records. Those of a segment appear only if its checksum is right.
pub(crate) fn run(target: &Target, schema: Option<&Path>, out: &mut Out) -> Result<(), Failure> {
    let mut input = Input::open(target)?;
    let rows = schema.map(Rows::open).transpose()?;
    let mut dump = Dump { target, out, rows, segment: 0 };
    let Some(entries) = input.entries() else {
        let mut reader = input.verified_row(target)?;
        loop {
            dump.segment(&mut reader, None)?;
            if target.length.is_some() || !reader.next_segment(Lengths::UNKNOWN, None)? {
                return Ok(());
            }
        }
    };
    for (partition, entry) in entries {
        if entry.has_segment() {
            let mut reader = input.verified_partition(partition, entry)?;
            dump.segment(&mut reader, Some(partition))?;
        }
    }
    Ok(())
}

impl Dump<'_> {
    fn segment(
        &mut self,
        reader: &mut SegmentReader<&mut dyn Data>,
        partition: Option<u32>,
    ) -> Result<(), Failure> {
        let mut place = Place {
            file: Some(self.target.file.display().to_string().into()),
            partition,
            offset: 0,
        };
        loop {
            place.offset = self.target.offset.saturating_add(reader.position());
            match reader.next_record()? {
                Some(record) => self.record(&record, &place)?,
                None => break,
            }
        }
        self.segment += 1;
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, place: &Place) -> Result<(), Failure> {
        let Some(header) = rows::block_of(record) else {
            return self.pair(record, place.partition, None);
        };
        let Some(rows) = &mut self.rows else {
            let header = (rows::describe(&header), rows::header_json(&header));
            return self.pair(record, place.partition, Some(header));
        };
        let batch = rows.decode(record.value, place)?;
        for line in rows.lines(&batch, self.target.json)? {
            self.out.line(line)?;
        }
        Ok(())
    }

    /// A key and a value as hexadecimal digits; for a block, what its header says goes with them.
    fn pair(
        &mut self,
        record: &Record<'_>,
        partition: Option<u32>,
        block: Option<(String, Value)>,
    ) -> Result<(), Failure> {
        if self.target.json {
            let mut object = json!({
                "partition": partition,
                "segment": self.segment,
                "key": Hex(record.key).to_string(),
                "value": Hex(record.value).to_string(),
                "in_run": record.in_run,
            });
            if let (Some((_, header)), Value::Object(object)) = (block, &mut object) {
                object.insert("block".into(), header);
            }
            return self.out.line(object);
        }
        let number = partition.map_or_else(String::new, |number| format!("{number}\t"));
        let text = block.map_or_else(String::new, |(text, _)| format!("\t{text}"));
        self.out.line(format_args!("{number}{}\t{}{text}", Hex(record.key), Hex(record.value)))
    }
}
