//! Where our time goes: CPU time of each phase, and the bytes that it moves against `memcpy`.
//!
//! | phase | time | bytes in | bytes out |
//! |---|---|---|---|
//! | write group | the same rows without columns | partition ids | row numbers and places |
//! | write stage | batches that fill no block, for all of them; less group | rows | narrowed rows |
//! | write encode | what is left of the write | narrowed rows; blocks | blocks without codec; blocks |
//! | write compress | the codec on the same packed parts | packed parts | the same, compressed |
//! | write checksum | CRC-32 of the same blocks | blocks | |
//! | read checksum | CRC-32 of the same blocks | blocks | |
//! | read decompress | the codec on the same packed parts | packed parts, compressed | the same |
//! | read decode | what is left of the read | blocks without codec | rows |
//!
//! Narrowed rows are taken to be as long as blocks without codec. Blocks end in buffers that had as many before: new
//! pages would cost more than the copy, and are the bench's. `memcpy` moves as many bytes, half of them in and half out,
//! in as many pieces, out of memory that caches have forgotten into one piece that they know.

use std::hint::black_box;

use datafusion_ifile::Codec;
use datafusion_ifile::block::{BlockHeader, HEADER_LEN};
use datafusion_ifile::codec::{Compressor, Decompressor};

use crate::clock::{Laps, timed};
use crate::shared::{Blocks, Case, Input, Ours};

/// Bytes of a row's partition id, its number and its place.
const GROUP_BYTES: usize = 12;

pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) seconds: f64,
    /// Bytes in and out.
    pub(crate) moved: usize,
    /// What `memcpy` takes to move as many.
    pub(crate) copy_seconds: f64,
}

/// The phases of one write and one read that move bytes. `before` has the same blocks; `memory` is what `memcpy` reads.
pub(crate) fn measure(
    case: &Case<'_>,
    ours: &mut Ours,
    before: Vec<Blocks>,
    memory: &[u8],
) -> Vec<Phase> {
    let Input { rows, bytes, ref batches, .. } = *case.input;
    let group = group_seconds(case);
    let (write, staged, partitions) = write_seconds(case, ours, before);
    let (read, _) = timed(|| ours.read(&partitions));
    let alone = Alone::of(&partitions, case.codec);
    let Alone { checksum, compress, decompress, .. } = alone;
    let encode = write - staged - compress - checksum;
    let decode = read - checksum - decompress;
    let (stored, plain, blocks) = (alone.stored_bytes, alone.plain_bytes, alone.blocks);
    [
        ("write group", group, GROUP_BYTES * rows, batches.len()),
        ("write stage", staged - group, bytes + plain, batches.len()),
        ("write encode", encode, 2 * (plain + stored), blocks),
        ("write compress", compress, alone.compress_bytes, blocks),
        ("write checksum", checksum, stored, blocks),
        ("read checksum", checksum, stored, blocks),
        ("read decompress", decompress, alone.decompress_bytes, blocks),
        ("read decode", decode, plain + bytes, blocks),
    ]
    .into_iter()
    .filter(|(_, _, moved, _)| *moved > 0)
    .map(|(name, seconds, moved, pieces)| {
        let copy_seconds = copy_seconds(memory, moved / 2, pieces);
        Phase { name, seconds, moved, copy_seconds }
    })
    .collect()
}

fn group_seconds(case: &Case<'_>) -> f64 {
    let bare = case.input.batches.iter().map(|batch| batch.project(&[]).expect("no columns"));
    let bare = Input::new(bare.collect());
    let case = Case::new(&bare, case.partitions, Codec::None);
    let mut ours = Ours::new(&case);
    timed(|| ours.write(&case, Vec::new(), |_, _| ())).0
}

/// The time of a write and of that what grouping and staging take, and the blocks.
fn write_seconds(case: &Case<'_>, ours: &mut Ours, before: Vec<Blocks>) -> (f64, f64, Vec<Blocks>) {
    let (mut seconds, mut rows, mut last) = (0.0, 0, 0);
    let mut laps = Laps::start();
    let (write, (_, partitions)) = timed(|| {
        ours.write(case, before, |taken, stored| {
            let lap = laps.lap();
            if stored == last {
                seconds += lap;
                rows += taken;
            }
            last = stored;
        })
    });
    (write, seconds * case.input.rows as f64 / rows as f64, partitions)
}

/// Checksum and codec on their own, over some blocks.
#[derive(Default)]
struct Alone {
    checksum: f64,
    compress: f64,
    decompress: f64,
    blocks: usize,
    stored_bytes: usize,
    /// Bytes of the blocks without codec.
    plain_bytes: usize,
    compress_bytes: usize,
    decompress_bytes: usize,
}

impl Alone {
    fn of(partitions: &[Blocks], codec: Codec) -> Self {
        let mut alone = Self::default();
        let mut compressor = Compressor::new(codec).expect("compressor");
        let mut out = Vec::new();
        let blocks = || partitions.iter().flat_map(Blocks::iter);
        for block in blocks() {
            let [raw, stored, plain] = lengths(block);
            alone.blocks += 1;
            alone.stored_bytes += block.len();
            alone.plain_bytes += HEADER_LEN + raw + plain;
            if stored < raw {
                alone.decompress_bytes += stored + raw;
            }
        }
        alone.checksum = timed(|| blocks().map(crc32fast::hash).for_each(consume)).0;
        alone.decompress = timed(|| each_packed(blocks(), codec, |_| ())).0;
        if codec != Codec::None {
            // Right after it was decompressed a packed part is in cache, as it is right after it was made.
            let (both, ()) = timed(|| {
                each_packed(blocks(), codec, |packed| {
                    out.clear();
                    let stored = compressor.compress(packed, &mut out).expect("compress");
                    alone.compress_bytes += packed.len() + stored;
                });
            });
            alone.compress = both - alone.decompress;
        }
        alone
    }
}

/// Lengths of a block's packed part, of that as it is stored, and of its plain part.
fn lengths(block: &[u8]) -> [usize; 3] {
    let header = BlockHeader::parse(block).expect("header");
    [header.raw_bytes, header.stored_bytes, header.plain_bytes].map(|len| len as usize)
}

fn each_packed<'a>(
    blocks: impl Iterator<Item = &'a [u8]>,
    codec: Codec,
    mut work: impl FnMut(&[u8]),
) {
    let mut decompressor = Decompressor::new();
    let mut scratch = Vec::new();
    for block in blocks {
        let [raw, stored, _] = lengths(block);
        let packed = &block[HEADER_LEN..HEADER_LEN + stored];
        if stored == raw {
            work(packed);
            continue;
        }
        scratch.resize(raw.max(scratch.len()), 0);
        decompressor.decompress_into(codec, packed, &mut scratch[..raw]).expect("decompress");
        work(&scratch[..raw]);
    }
}

fn consume(value: u32) {
    black_box(value);
}

fn copy_seconds(memory: &[u8], bytes: usize, pieces: usize) -> f64 {
    let piece = (bytes / pieces).clamp(1, memory.len());
    let mut to = vec![0; piece];
    let from = memory.chunks_exact(piece).cycle().take(bytes / piece);
    timed(|| from.for_each(|from| black_box(&mut to).copy_from_slice(from))).0
}
