//! The tables, and the two ways from rows to bytes of each partition and back.

use std::cell::Cell;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion_ifile::block::BlockDecoder;
use datafusion_ifile::{BlockPartitioner, Codec};

#[path = "../common/tables.rs"]
mod tables;

/// Rows of a block.
pub(crate) const BLOCK_ROWS: usize = tables::BATCH_ROWS;

pub(crate) struct Input {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) schema: SchemaRef,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Input {
    fn new(batches: Vec<RecordBatch>) -> Self {
        let schema = batches[0].schema();
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let bytes = batches
            .iter()
            .map(|b| datafusion_ifile::block::logical_bytes(b, 0, b.num_rows()))
            .sum();
        Self { batches, schema, rows, bytes }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn input(table: &str, rows: usize) -> Input {
    match table {
        "entropy" => Input::new(synthetic(rows, entropy_columns)),
        "nested" => Input::new(synthetic(rows.min(1_000_000), nested_columns)),
        other => Input::new(tables::table(other, rows).expect("a known table")),
    }
}

fn synthetic(
    rows: usize,
    columns: impl Fn(u64, usize) -> Vec<(&'static str, ArrayRef)>,
) -> Vec<RecordBatch> {
    let batch = |start: usize| {
        let columns = columns(start as u64, BLOCK_ROWS.min(rows - start));
        RecordBatch::try_from_iter(columns).expect("batch")
    };
    (0..rows).step_by(BLOCK_ROWS).map(batch).collect()
}

fn entropy_columns(start: u64, len: usize) -> Vec<(&'static str, ArrayRef)> {
    let at = |i: usize, salt: u64| mix(start + i as u64 + (salt << 40));
    let int = |salt| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..len).map(|i| at(i, salt) as i64)))
    };
    let float = |salt| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            (0..len).map(|i| at(i, salt) as f64 / u64::MAX as f64 * 1000.0),
        ))
    };
    vec![("a", int(1)), ("b", int(2)), ("x", float(3)), ("y", float(4))]
}

fn nested_columns(start: u64, len: usize) -> Vec<(&'static str, ArrayRef)> {
    let at = |i: usize, salt: u64| mix(start + i as u64 + (salt << 40));
    let lens: Vec<usize> = (0..len).map(|i| (at(i, 1) % 4) as usize).collect();
    let total: usize = lens.iter().sum();
    let names = StringArray::from_iter_values(
        (0..total).map(|i| format!("item number {}", at(i, 2) % 300)),
    );
    let prices = Int64Array::from_iter_values((0..total).map(|i| (at(i, 3) % 10_000) as i64));
    let fields = vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("price", DataType::Int64, false),
    ];
    let items = StructArray::new(fields.into(), vec![Arc::new(names), Arc::new(prices)], None);
    let field = Arc::new(Field::new("item", items.data_type().clone(), false));
    let list = ListArray::new(field, OffsetBuffer::from_lengths(lens), Arc::new(items), None);
    let ids = Int64Array::from_iter_values((0..len).map(|i| (start + i as u64) as i64));
    vec![("id", Arc::new(ids)), ("items", Arc::new(list))]
}

/// Partition of every row, as a hash would give it.
pub(crate) fn partition_ids(input: &Input, partitions: usize) -> Vec<Vec<u32>> {
    let mut row = 0u64;
    let ids = input.batches.iter().map(|batch| {
        (0..batch.num_rows())
            .map(|_| {
                row += 1;
                (mix(row) % partitions as u64) as u32
            })
            .collect()
    });
    ids.collect()
}

/// The IPC compression that stands against `codec`.
pub(crate) fn ipc_compression(codec: Codec) -> Option<CompressionType> {
    match codec {
        Codec::Lz4 => Some(CompressionType::LZ4_FRAME),
        Codec::Zstd { .. } => Some(CompressionType::ZSTD),
        _ => None,
    }
}

pub(crate) fn ipc_write(
    input: &Input,
    ids: &[Vec<u32>],
    partitions: usize,
    compression: Option<CompressionType>,
) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<(usize, usize)>> = vec![Vec::new(); partitions];
    for (b, ids) in ids.iter().enumerate() {
        for (r, id) in ids.iter().enumerate() {
            rows[*id as usize].push((b, r));
        }
    }
    let batches: Vec<&RecordBatch> = input.batches.iter().collect();
    let write = |rows: Vec<(usize, usize)>| {
        let options =
            IpcWriteOptions::default().try_with_compression(compression).expect("options");
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &input.schema, options).expect("writer");
        for rows in rows.chunks(BLOCK_ROWS) {
            let batch = interleave_record_batch(&batches, rows).expect("interleave");
            writer.write(&batch).expect("write");
        }
        writer.into_inner().expect("finish")
    };
    rows.into_iter().map(write).collect()
}

pub(crate) fn ipc_read(streams: &[Vec<u8>]) -> usize {
    let rows = |bytes: &Vec<u8>| -> usize {
        let reader = StreamReader::try_new(Cursor::new(bytes), None).expect("reader");
        reader.map(|batch| batch.expect("batch").num_rows()).sum()
    };
    streams.iter().map(rows).sum()
}

pub(crate) struct Blocks {
    pub(crate) bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Blocks of all partitions, and the bytes held when all rows were taken: staged ones and blocks.
pub(crate) fn block_write(
    input: &Input,
    ids: &[Vec<u32>],
    partitions: usize,
    partitioner: &mut BlockPartitioner,
) -> (usize, Vec<Blocks>) {
    let mut blocks: Vec<_> =
        (0..partitions).map(|_| Blocks { bytes: Vec::new(), ends: Vec::new() }).collect();
    let stored = Cell::new(0);
    let mut keep = |partition: usize, bytes: &[u8], _| {
        let blocks = &mut blocks[partition];
        blocks.bytes.extend_from_slice(bytes);
        blocks.ends.push(blocks.bytes.len());
        stored.set(stored.get() + bytes.len());
        Ok(())
    };
    for (batch, ids) in input.batches.iter().zip(ids) {
        partitioner.push(batch, ids, &mut keep).expect("push");
    }
    let held = partitioner.held_bytes() + stored.get();
    partitioner.finish(&mut keep).expect("finish");
    (held, blocks)
}

pub(crate) fn block_read(blocks: &[Blocks], decoder: &mut BlockDecoder) -> usize {
    let mut rows = 0;
    for blocks in blocks {
        let mut start = 0;
        for end in &blocks.ends {
            rows += decoder.decode(&blocks.bytes[start..*end]).expect("decode").num_rows();
            start = *end;
        }
    }
    rows
}
