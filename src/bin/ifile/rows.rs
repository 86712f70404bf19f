//! Rows out of blocks of this crate's own exchange.

use crate::output::Failure;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_ifile::block::{BlockDecoder, BlockHeader, DecodeLimits};
use datafusion_ifile::error::{Fault, IFileError, Place};
use datafusion_ifile::ifile::Record;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The block that a record is, if it looks like one: an empty key, and a value that a block's header
/// describes to the byte.
pub(crate) fn block_of(record: &Record<'_>) -> Option<BlockHeader> {
    let header = BlockHeader::parse(record.value).ok()?;
    let len = u64::try_from(record.value.len()).ok()?;
    (record.key.is_empty() && header.block_len() == len).then_some(header)
}

/// What a block's header says, in a line.
pub(crate) fn describe(header: &BlockHeader) -> String {
    format!(
        "block of {} rows, {} packed bytes stored in {}, {} plain",
        header.rows, header.raw_bytes, header.stored_bytes, header.plain_bytes
    )
}

/// What a block's header says, as JSON.
pub(crate) fn header_json(header: &BlockHeader) -> Value {
    json!({
        "rows": header.rows,
        "packed_bytes": header.raw_bytes,
        "stored_bytes": header.stored_bytes,
        "plain_bytes": header.plain_bytes,
    })
}

/// Decodes blocks of one schema. Blocks do not carry their schema.
pub(crate) struct Rows {
    schema: SchemaRef,
    decoder: BlockDecoder,
}

impl Rows {
    /// Takes the schema of an Arrow IPC file or stream.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let open = || {
            let opened = File::open(path).map(BufReader::new);
            opened.map_err(|e| Failure::Other(format!("cannot read {}: {e}", path.display())))
        };
        let schema = match FileReader::try_new(open()?, None) {
            Ok(file) => file.schema(),
            Err(_) => {
                StreamReader::try_new(open()?, None).map(|stream| stream.schema()).map_err(|e| {
                    Failure::Other(format!("no Arrow schema in {}: {e}", path.display()))
                })?
            }
        };
        let decoder = BlockDecoder::try_new(schema.clone(), DecodeLimits::default())
            .map_err(|error| Failure::Other(error.to_string()))?;
        Ok(Self { schema, decoder })
    }

    /// The rows of a block.
    pub(crate) fn decode(&mut self, value: &[u8], place: &Place) -> Result<RecordBatch, Failure> {
        self.decoder.decode(value).map_err(|error| {
            let fault = Fault::Decompress { codec: "block", detail: error.to_string() };
            Failure::Data(IFileError::corrupt(fault, place.clone()))
        })
    }

    /// Every row as a line: its values, tabs between them, or an object.
    pub(crate) fn lines(&self, batch: &RecordBatch, json: bool) -> Result<Vec<String>, Failure> {
        let options = FormatOptions::default().with_null("null");
        let failed = |e: arrow::error::ArrowError| Failure::Other(e.to_string());
        let columns = batch.columns().iter();
        let formatters: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).map_err(failed))
            .collect::<Result<_, _>>()?;
        let row = |row: usize| {
            let texts = formatters.iter().map(|column| column.value(row).try_to_string());
            let texts: Vec<String> = texts.collect::<Result<_, _>>().map_err(failed)?;
            if !json {
                return Ok(texts.join("\t"));
            }
            let names = self.schema.fields().iter().map(|field| field.name().clone());
            let object: Map<String, Value> =
                names.zip(texts).map(|(name, text)| (name, Value::from(text))).collect();
            Ok(Value::Object(object).to_string())
        };
        (0..batch.num_rows()).map(row).collect()
    }
}
