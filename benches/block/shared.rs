//! The tables, and this crate's way from rows to bytes of each partition and back.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion_ifile::block::{BlockDecoder, DecodeLimits};
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
    pub(crate) fn new(batches: Vec<RecordBatch>) -> Self {
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

/// Rows, the partition that each of them goes to, and the codec.
pub(crate) struct Case<'a> {
    pub(crate) input: &'a Input,
    pub(crate) ids: Vec<Vec<u32>>,
    pub(crate) partitions: usize,
    pub(crate) codec: Codec,
}

impl<'a> Case<'a> {
    /// Partitions as a hash would give them.
    pub(crate) fn new(input: &'a Input, partitions: usize, codec: Codec) -> Self {
        let mut row = 0u64;
        let ids = input.batches.iter().map(|batch| {
            (0..batch.num_rows())
                .map(|_| {
                    row += 1;
                    (mix(row) % partitions as u64) as u32
                })
                .collect()
        });
        Self { input, ids: ids.collect(), partitions, codec }
    }
}

/// Blocks of one partition.
#[derive(Default)]
pub(crate) struct Blocks {
    pub(crate) bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Blocks {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, block: &[u8]) {
        self.bytes.extend_from_slice(block);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[*start..*end])
    }
}

/// This crate's side.
pub(crate) struct Ours {
    partitioner: BlockPartitioner,
    decoder: BlockDecoder,
}

impl Ours {
    pub(crate) fn new(case: &Case<'_>) -> Self {
        let schema = || Arc::clone(&case.input.schema);
        let partitioner =
            BlockPartitioner::try_new(schema(), case.partitions, case.codec, BLOCK_ROWS);
        let decoder = BlockDecoder::try_new(schema(), DecodeLimits::default());
        Self { partitioner: partitioner.expect("partitioner"), decoder: decoder.expect("decoder") }
    }

    /// Bytes held when all rows were taken, staged ones and blocks, and then the blocks of every partition, which go to
    /// the room of `blocks`. `taken` gets the rows of each batch and the bytes of all blocks so far.
    pub(crate) fn write(
        &mut self,
        case: &Case<'_>,
        mut blocks: Vec<Blocks>,
        mut taken: impl FnMut(usize, usize),
    ) -> (usize, Vec<Blocks>) {
        blocks.iter_mut().for_each(Blocks::clear);
        blocks.resize_with(case.partitions, Blocks::default);
        let stored = Cell::new(0);
        let mut keep = |partition: usize, bytes: &[u8], _| {
            blocks[partition].push(bytes);
            stored.set(stored.get() + bytes.len());
            Ok(())
        };
        for (batch, ids) in case.input.batches.iter().zip(&case.ids) {
            self.partitioner.push(batch, ids, &mut keep).expect("push");
            taken(batch.num_rows(), stored.get());
        }
        let held = self.partitioner.held_bytes() + stored.get();
        self.partitioner.finish(&mut keep).expect("finish");
        (held, blocks)
    }

    /// Reads all partitions and returns their rows.
    pub(crate) fn read(&mut self, partitions: &[Blocks]) -> usize {
        let mut rows = |block| self.decoder.decode(block).expect("decode").num_rows();
        partitions.iter().flat_map(Blocks::iter).map(&mut rows).sum()
    }
}
