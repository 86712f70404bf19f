//! Rows to compressed bytes of each partition, and back: blocks against `interleave` and the Arrow IPC stream.
//!
//! Both sides get the same batches and partition ids, run in turn in one process on one thread, and are measured in CPU
//! time of that thread; figures are medians. The peers' way: keep all batches, `interleave` 8,192 rows of a partition at
//! a time, write them as one IPC stream per partition. Ours: group the rows of each batch by partition with a counting
//! sort and one `take`, then encode the rows of each partition from those as blocks of up to 8,192 rows.
//!
//! `cargo bench --bench block -- [--quick] [--rows N] [--table store_sales|strings|entropy|nested]`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a bench stops at its first fault"
)]

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, UInt32Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion_ifile::Codec;
use datafusion_ifile::block::{BlockDecoder, BlockEncoder, BlockSlice, DecodeLimits};
use tpcdsgen::config::SessionBuilder;
use tpcdsgen_arrow::{CustomerAddressArrow, StoreSalesArrow};

const BLOCK_ROWS: usize = 8192;

struct Input {
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
    rows: usize,
    bytes: usize,
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

fn session() -> tpcdsgen::config::Session {
    SessionBuilder::new().with_scale_factor(1.0).build().expect("session")
}

fn take_rows(batches: impl Iterator<Item = RecordBatch>, rows: usize) -> Vec<RecordBatch> {
    let mut left = rows;
    let mut out = Vec::new();
    for batch in batches {
        let len = batch.num_rows().min(left);
        out.push(batch.slice(0, len));
        left -= len;
        if left == 0 {
            break;
        }
    }
    out
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn input(table: &str, rows: usize) -> Input {
    match table {
        "store_sales" => {
            let all = StoreSalesArrow::new(session()).with_batch_size(BLOCK_ROWS);
            Input::new(take_rows(all.map(|b| b.expect("batch")), rows))
        }
        "strings" => {
            let all = CustomerAddressArrow::new(session()).with_batch_size(BLOCK_ROWS);
            // With views, IPC would write whole shared buffers again and again.
            let all: Vec<_> = all.map(|b| with_offsets(&b.expect("batch"))).collect();
            Input::new(take_rows(all.iter().cycle().cloned(), rows.min(1_000_000)))
        }
        "entropy" => Input::new(synthetic(rows, entropy_columns)),
        "nested" => Input::new(synthetic(rows.min(1_000_000), nested_columns)),
        other => panic!("unknown table {other}"),
    }
}

/// The batch with its string views as strings with offsets.
fn with_offsets(batch: &RecordBatch) -> RecordBatch {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column: ArrayRef = match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().iter().collect::<StringArray>()),
            _ => Arc::clone(column),
        };
        (field.name().clone(), column)
    });
    RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).expect("batch")
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
fn partition_ids(input: &Input, partitions: usize) -> Vec<Vec<u32>> {
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

/// CPU time of this thread in seconds, from the scheduler's statistics.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = cpu_seconds();
    let result = work();
    (cpu_seconds() - start, result)
}

fn ipc_write(
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

fn ipc_read(streams: &[Vec<u8>]) -> usize {
    let rows = |bytes: &Vec<u8>| -> usize {
        let reader = StreamReader::try_new(Cursor::new(bytes), None).expect("reader");
        reader.map(|batch| batch.expect("batch").num_rows()).sum()
    };
    streams.iter().map(rows).sum()
}

struct Blocks {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

fn group(batch: &RecordBatch, ids: &[u32], partitions: usize) -> (RecordBatch, Vec<u32>) {
    let mut starts = vec![0u32; partitions + 1];
    for id in ids {
        starts[*id as usize + 1] += 1;
    }
    for p in 0..partitions {
        starts[p + 1] += starts[p];
    }
    let mut next = starts.clone();
    let mut order = vec![0u32; ids.len()];
    for (row, id) in ids.iter().enumerate() {
        let at = &mut next[*id as usize];
        order[*at as usize] = row as u32;
        *at += 1;
    }
    let grouped = take_record_batch(batch, &UInt32Array::from(order)).expect("take");
    (grouped, starts)
}

fn block_write(
    input: &Input,
    ids: &[Vec<u32>],
    partitions: usize,
    encoder: &mut BlockEncoder,
) -> (f64, Vec<Blocks>) {
    let start = cpu_seconds();
    let grouped: Vec<_> =
        input.batches.iter().zip(ids).map(|(batch, ids)| group(batch, ids, partitions)).collect();
    let gather = cpu_seconds() - start;
    let mut slices = Vec::new();
    let blocks = (0..partitions).map(|p| {
        let mut blocks = Blocks { bytes: Vec::new(), ends: Vec::new() };
        let mut flush = |slices: &mut Vec<BlockSlice<'_>>| {
            encoder.encode_slices(slices, &mut blocks.bytes).expect("encode");
            blocks.ends.push(blocks.bytes.len());
            slices.clear();
        };
        let mut held = 0;
        for (batch, starts) in &grouped {
            let (mut offset, end) = (starts[p] as usize, starts[p + 1] as usize);
            while offset < end {
                let len = (end - offset).min(BLOCK_ROWS - held);
                slices.push(BlockSlice { batch, offset, len });
                offset += len;
                held += len;
                if held == BLOCK_ROWS {
                    flush(&mut slices);
                    held = 0;
                }
            }
        }
        if held > 0 {
            flush(&mut slices);
        }
        blocks
    });
    (gather, blocks.collect())
}

fn block_read(blocks: &[Blocks], decoder: &mut BlockDecoder) -> usize {
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of one table, codec and number of partitions.
#[derive(Default)]
struct Series(BTreeMap<&'static str, Vec<f64>>);

impl Series {
    fn add(&mut self, name: &'static str, value: f64) {
        self.0.entry(name).or_default().push(value);
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(name).map_or(f64::NAN, |values| median(values.clone()))
    }
}

fn run(input: &Input, codec: Codec, partitions: usize, rounds: usize) -> Series {
    let ids = partition_ids(input, partitions);
    // For a profiler: nothing but our side.
    let only_ours = std::env::args().any(|arg| arg == "--ours");
    let compression = match codec {
        Codec::Lz4 => Some(CompressionType::LZ4_FRAME),
        Codec::Zstd { .. } => Some(CompressionType::ZSTD),
        _ => None,
    };
    let mut encoder = BlockEncoder::try_new(Arc::clone(&input.schema), codec).expect("encoder");
    let mut decoder =
        BlockDecoder::try_new(Arc::clone(&input.schema), DecodeLimits::default()).expect("decoder");
    let mut series = Series::default();
    let gb = input.bytes as f64 / 1e9;
    for _ in 0..rounds {
        if !only_ours {
            let (write, streams) = timed(|| ipc_write(input, &ids, partitions, compression));
            let (read, rows) = timed(|| ipc_read(&streams));
            assert_eq!(rows, input.rows);
            series.add("ipc_write_s_per_gb", write / gb);
            series.add("ipc_read_s_per_gb", read / gb);
            series.add("ipc_bytes", streams.iter().map(Vec::len).sum::<usize>() as f64);
        }
        let (write, (gather, blocks)) =
            timed(|| block_write(input, &ids, partitions, &mut encoder));
        let (read, rows) = timed(|| block_read(&blocks, &mut decoder));
        assert_eq!(rows, input.rows);
        series.add("write_s_per_gb", write / gb);
        series.add("gather_s_per_gb", gather / gb);
        series.add("read_s_per_gb", read / gb);
        series.add("bytes", blocks.iter().map(|b| b.bytes.len()).sum::<usize>() as f64);
        let copied: Vec<u8> = vec![1; 64 << 20];
        let (copy, _) = timed(|| std::hint::black_box(copied.clone()));
        series.add("memcpy_s_per_gb", copy / (64.0 * 1.048_576e-3));
    }
    series
}

/// One spill of 1,009 partitions with `rows` rows each: microseconds per partition, of the IPC stream and of blocks.
fn spill(input: &Input, rows: usize, rounds: usize) {
    let batch = arrow::compute::concat_batches(&input.schema, &input.batches).expect("concat");
    let partitions = 1009.min(batch.num_rows() / rows);
    let mut encoder =
        BlockEncoder::try_new(Arc::clone(&input.schema), Codec::Lz4).expect("encoder");
    let mut out = Vec::with_capacity(8 << 20);
    // The scheduler's clock ticks in milliseconds: enough work per reading.
    let spills = 200 / rows.clamp(1, 100) + 2;
    let done = (partitions * spills) as f64;
    let mut series = Series::default();
    for _ in 0..rounds {
        let (ipc, _) = timed(|| {
            for p in (0..partitions * spills).map(|i| i % partitions) {
                let options = IpcWriteOptions::default();
                let options = options
                    .try_with_compression(Some(CompressionType::LZ4_FRAME))
                    .expect("options");
                out.clear();
                let mut writer =
                    StreamWriter::try_new_with_options(&mut out, &input.schema, options)
                        .expect("writer");
                writer.write(&batch.slice(p * rows, rows)).expect("write");
                writer.finish().expect("finish");
            }
        });
        series.add("ipc", ipc / done * 1e6);
        let (blocks, _) = timed(|| {
            for p in (0..partitions * spills).map(|i| i % partitions) {
                out.clear();
                encoder.encode(&batch, p * rows, rows, &mut out).expect("encode");
            }
        });
        series.add("blocks", blocks / done * 1e6);
    }
    let (ipc, blocks) = (series.get("ipc"), series.get("blocks"));
    println!(
        "{{\"bench\":\"spill\",\"rows\":{rows},\"ratio\":{:.3},\"ipc_us\":{ipc:.2},\"block_us\":{blocks:.2}}}",
        blocks / ipc
    );
}

fn report(table: &str, codec: Codec, partitions: usize, series: &Series) {
    let codec = codec.name();
    let ratio = |ours: &str, theirs: &str| series.get(ours) / series.get(theirs);
    let figures = series.0.keys().map(|name| format!("\"{name}\":{:.3}", series.get(name)));
    println!(
        "{{\"bench\":\"block\",\"table\":\"{table}\",\"codec\":\"{codec}\",\"partitions\":{partitions},\
         \"write_ratio\":{:.3},\"read_ratio\":{:.3},\"bytes_ratio\":{:.3},{}}}",
        ratio("write_s_per_gb", "ipc_write_s_per_gb"),
        ratio("read_s_per_gb", "ipc_read_s_per_gb"),
        ratio("bytes", "ipc_bytes"),
        figures.collect::<Vec<_>>().join(",")
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let quick = args.iter().any(|arg| arg == "--quick" || arg == "--test");
    let rows = value("--rows")
        .map_or(if quick { 50_000 } else { 2_880_404 }, |n| n.parse().expect("rows"));
    let rounds =
        if quick { 1 } else { value("--rounds").map_or(3, |n| n.parse().expect("rounds")) };
    let only = value("--table");
    let parts = value("--partitions").map(|n| vec![n.parse().expect("partitions")]);
    for table in ["store_sales", "strings", "entropy", "nested"] {
        if only.as_ref().is_some_and(|only| only != table) {
            continue;
        }
        let input = input(table, rows);
        if table == "store_sales" {
            for rows in [1, 10, 100] {
                spill(&input, rows, rounds.max(5));
            }
        }
        for codec in [Codec::Lz4, Codec::Zstd { level: 1 }, Codec::None] {
            if value("--codec").is_some_and(|only| only != codec.name()) {
                continue;
            }
            for &partitions in parts.as_deref().unwrap_or(&[8, 200, 1009]) {
                report(table, codec, partitions, &run(&input, codec, partitions, rounds));
            }
        }
    }
}
