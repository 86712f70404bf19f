//! What others do: keep all batches and the places of each partition's rows in them, gather a batch of a partition at a
//! time with `interleave`, and write it as Arrow IPC.

use std::io::{Cursor, Read, Write};

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion_ifile::Codec;
use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use crate::shared::{BLOCK_ROWS, Case};

/// How batches of a partition become bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    /// Ballista: one IPC stream, whose buffers are compressed one by one.
    Ipc,
    /// Comet's native shuffle: a block for each batch, see [`comet_block`].
    Comet,
}

impl Peer {
    pub(crate) const ALL: [Self; 2] = [Self::Ipc, Self::Comet];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ipc => "ipc",
            Self::Comet => "comet",
        }
    }

    /// Bytes held when all rows were taken, batches and places, and then the bytes of every partition.
    pub(crate) fn write(self, case: &Case<'_>) -> (usize, Vec<Vec<u8>>) {
        let mut places: Vec<Vec<(u32, u32)>> = vec![Vec::new(); case.partitions];
        for (b, ids) in case.ids.iter().enumerate() {
            for (r, id) in ids.iter().enumerate() {
                places[*id as usize].push((b as u32, r as u32));
            }
        }
        let place_bytes: usize = places.iter().map(|places| places.capacity() * 8).sum();
        let batches: Vec<&RecordBatch> = case.input.batches.iter().collect();
        let write = |places: &Vec<(u32, u32)>| {
            let mut wide = Vec::new();
            let gathered = places.chunks(BLOCK_ROWS).map(|places| {
                wide.clear();
                wide.extend(places.iter().map(|(b, r)| (*b as usize, *r as usize)));
                interleave_record_batch(&batches, &wide).expect("interleave")
            });
            let mut out = Vec::new();
            self.encode(&case.input.schema, case.codec, gathered, &mut out);
            out
        };
        (case.input.bytes + place_bytes, places.iter().map(write).collect())
    }

    /// Appends `batches` of one partition to `out`.
    pub(crate) fn encode(
        self,
        schema: &SchemaRef,
        codec: Codec,
        batches: impl IntoIterator<Item = RecordBatch>,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Ipc => drop(ipc_stream(schema, codec, batches, out)),
            Self::Comet => {
                batches.into_iter().for_each(|batch| comet_block(schema, codec, batch, out));
            }
        }
    }

    /// Reads all partitions and returns their rows.
    pub(crate) fn read(self, partitions: &[Vec<u8>]) -> usize {
        let rows = |bytes: &Vec<u8>| match self {
            Self::Ipc => {
                let reader = StreamReader::try_new(Cursor::new(bytes), None).expect("reader");
                reader.map(|batch| batch.expect("batch").num_rows()).sum()
            }
            Self::Comet => comet_rows(bytes),
        };
        partitions.iter().map(rows).sum()
    }
}

fn ipc_stream<W: Write>(
    schema: &SchemaRef,
    codec: Codec,
    batches: impl IntoIterator<Item = RecordBatch>,
    out: W,
) -> W {
    let compression = match codec {
        Codec::Lz4 => Some(CompressionType::LZ4_FRAME),
        Codec::Zstd { .. } => Some(CompressionType::ZSTD),
        _ => None,
    };
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("options");
    let mut writer = StreamWriter::try_new_with_options(out, schema, options).expect("writer");
    batches.into_iter().for_each(|batch| writer.write(&batch).expect("write"));
    writer.into_inner().expect("finish")
}

/// Appends one batch as Comet's native shuffle stores it. Numbers are little-endian.
///
/// | offset | length | field |
/// |---|---|---|
/// | 0 | 8 | length of what follows |
/// | 8 | 8 | fields of the schema |
/// | 16 | 4 | codec: `NONE`, `LZ4_` or `ZSTD` |
/// | 20 | | Arrow IPC stream of the batch without compression of its own, all of it in one frame of the codec |
fn comet_block(schema: &SchemaRef, codec: Codec, batch: RecordBatch, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&(schema.fields().len() as u64).to_le_bytes());
    match codec {
        Codec::Lz4 => {
            out.extend_from_slice(b"LZ4_");
            let frame = ipc_stream(schema, Codec::None, [batch], FrameEncoder::new(&mut *out));
            frame.finish().expect("frame");
        }
        Codec::Zstd { level } => {
            out.extend_from_slice(b"ZSTD");
            let frame = zstd::Encoder::new(&mut *out, level).expect("encoder");
            ipc_stream(schema, Codec::None, [batch], frame).finish().expect("frame");
        }
        _ => {
            out.extend_from_slice(b"NONE");
            ipc_stream(schema, Codec::None, [batch], &mut *out);
        }
    }
    let len = (out.len() - start - 8) as u64;
    out[start..start + 8].copy_from_slice(&len.to_le_bytes());
}

fn comet_rows(mut bytes: &[u8]) -> usize {
    let mut rows = 0;
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (block, rest) = rest.split_at(u64::from_le_bytes(*len) as usize);
        bytes = rest;
        let (tag, body) = block[8..].split_at(4);
        rows += match tag {
            b"LZ4_" => trusted_rows(FrameDecoder::new(body)),
            b"ZSTD" => trusted_rows(zstd::Decoder::with_buffer(body).expect("decoder")),
            _ => trusted_rows(body),
        };
    }
    rows
}

/// Rows of the one batch of an IPC stream.
#[expect(
    unsafe_code,
    reason = "Comet does not validate what it reads, and checks would slow it down"
)]
fn trusted_rows(stream: impl Read) -> usize {
    let reader = StreamReader::try_new(stream, None).expect("reader");
    // SAFETY: `comet_block` of this process wrote the stream, out of a valid batch.
    let mut reader = unsafe { reader.with_skip_validation(true) };
    reader.next().expect("one batch").expect("batch").num_rows()
}
