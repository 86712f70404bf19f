use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result};

use super::stored::{StoredBlock, StoredExtent};
use super::{ScratchPlan, Space};
use crate::codec::Codec;
use crate::error::Place;
use crate::ifile::{RawBound, SegmentOptions, SegmentWriter, WriteScratch};
use crate::memory::{Held, Kept, Ledger};

/// Bytes of segments gathered before they go to a file. A segment of several blocks is not longer.
const BUFFER_BYTES: usize = 128 * 1024;

/// Segments that are given back together have at least so many bytes, where they lie together: what is
/// known of them then takes little memory.
const EXTENT_BYTES: usize = 32 * 1024;

/// Two lengths before a record, at most.
const MAX_RECORD_HEAD: usize = 10;

/// Length of the record of a block of `len` bytes: without a key, and with two lengths before it.
fn record_bytes(len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    let length = if bits <= 7 { 1 } else { 1 + bits.div_ceil(8) };
    1 + usize::try_from(length).unwrap_or(0) + len
}

/// Header and end of a segment.
const SEGMENT_ENVELOPE: usize = 10;

/// Most bytes of the segment writer's own buffer.
const MAX_SCRATCH_BYTES: usize = 2 * BUFFER_BYTES;

/// The longest buffer where the longest block has `largest` bytes.
fn buffer_bytes(largest: usize) -> usize {
    BUFFER_BYTES.max(largest.saturating_add(SEGMENT_ENVELOPE + MAX_RECORD_HEAD))
}

/// An encoded block and what is known of it.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) bytes: Buffer,
    pub(crate) rows: usize,
    /// Length that it has without its codec.
    pub(crate) raw_bytes: usize,
}

/// Blocks on their way to a run. `partition` and `tag` are the caller's.
pub(crate) struct RunBlocks<T> {
    pub(crate) partition: usize,
    pub(crate) tag: T,
    pub(crate) blocks: Vec<Arc<Held<Block>>>,
}

/// What a run put where.
pub(crate) struct Run<T> {
    /// For every input, its tag and the places of its blocks.
    pub(crate) stored: Vec<(T, Vec<StoredBlock>)>,
    pub(crate) rows: usize,
    /// Bytes of the blocks without their codec.
    pub(crate) raw_bytes: usize,
    /// Bytes of the segments in the files.
    pub(crate) bytes: u64,
}

/// Writes runs to scratch files, one after another.
pub(crate) struct RunWriter {
    space: Space,
    ledger: Arc<Ledger>,
    fingerprint: u64,
    max_segment_bytes: usize,
    scratch: WriteScratch,
    buffer: Vec<u8>,
    /// The segments in the buffer.
    pending: Vec<Pending>,
}

struct Pending {
    start: usize,
    end: usize,
    partition: usize,
    /// For every block the number of its input, its offset in the buffer and its length.
    blocks: Vec<(usize, usize, usize)>,
}

/// A block of a run that is being written.
struct Piece<'a> {
    input: usize,
    partition: usize,
    bytes: &'a [u8],
}

impl RunWriter {
    /// Runs in the space of `plan`.
    ///
    /// # Errors
    /// None today; the segment options are checked.
    pub(crate) fn try_new(plan: &Arc<ScratchPlan>) -> Result<Self> {
        let max_file_bytes = usize::try_from(plan.max_file_bytes).unwrap_or(usize::MAX);
        Ok(Self {
            space: Space::new(plan),
            ledger: Arc::clone(&plan.ledger),
            fingerprint: plan.fingerprint,
            max_segment_bytes: BUFFER_BYTES.min(max_file_bytes),
            scratch: WriteScratch::new(SegmentOptions::new(Codec::None))?,
            buffer: Vec::new(),
            pending: Vec::new(),
        })
    }

    /// Bytes that writing blocks of up to `largest` bytes takes beside the blocks.
    pub(crate) fn working_bytes(&self, largest: usize) -> usize {
        buffer_bytes(largest).max(self.buffer.capacity())
            + MAX_SCRATCH_BYTES.max(self.scratch.held_bytes())
    }

    /// Makes room for that.
    pub(crate) fn prepare(&mut self, largest: usize) {
        self.buffer.reserve_exact(buffer_bytes(largest));
    }

    /// Bytes held between two runs.
    pub(crate) fn held_bytes(&self) -> usize {
        self.buffer.capacity() + self.scratch.held_bytes()
    }

    /// Writes one run. The inputs come in partition order.
    ///
    /// # Errors
    /// Those of the disk, its limits included, with file, partitions and offset. What earlier runs
    /// left stays readable.
    pub(crate) fn write<T>(&mut self, inputs: Vec<RunBlocks<T>>) -> Result<Run<T>> {
        let mut stored: Vec<_> =
            inputs.iter().map(|input| Vec::with_capacity(input.blocks.len())).collect();
        let outcome = self.write_segments(&inputs, &mut stored);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES);
        self.pending.clear();
        let bytes = outcome.inspect_err(|_| self.space.abandon())?;
        let blocks = || inputs.iter().flat_map(|input| &input.blocks);
        let rows = blocks().map(|block| block.value.rows).sum();
        let raw_bytes = blocks().map(|block| block.value.raw_bytes).sum();
        let tags = inputs.into_iter().map(|input| input.tag);
        Ok(Run { stored: tags.zip(stored).collect(), rows, raw_bytes, bytes })
    }

    fn write_segments<T>(
        &mut self,
        inputs: &[RunBlocks<T>],
        stored: &mut [Vec<StoredBlock>],
    ) -> Result<u64> {
        self.space.begin_run();
        let pieces = inputs.iter().enumerate().flat_map(|(input, of)| {
            let partition = of.partition;
            let bytes = of.blocks.iter().map(|block| block.value.bytes.as_slice());
            bytes.map(move |bytes| Piece { input, partition, bytes })
        });
        let pieces: Vec<_> = pieces.collect();
        let mut rest = pieces.as_slice();
        let mut bytes = 0;
        while let Some(first) = rest.first() {
            let mut bound = SEGMENT_ENVELOPE;
            let fits = |piece: &&Piece| {
                bound += record_bytes(piece.bytes.len());
                piece.partition == first.partition && bound <= self.max_segment_bytes
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let Some((segment, more)) = rest.split_at_checked(count) else { break };
            bytes += self.add_segment(first.partition, segment, stored)?;
            rest = more;
        }
        self.flush(stored)?;
        self.space.end_run()?;
        Ok(bytes)
    }

    /// Adds a segment to the buffer. Returns its length.
    fn add_segment(
        &mut self,
        partition: usize,
        segment: &[Piece<'_>],
        stored: &mut [Vec<StoredBlock>],
    ) -> Result<u64> {
        let records = segment.iter().map(|piece| record_bytes(piece.bytes.len()));
        let len = SEGMENT_ENVELOPE + records.sum::<usize>();
        if self.buffer.len() + len > self.max_segment_bytes {
            self.flush(stored)?;
        }
        let start = self.buffer.len();
        let place =
            Place { file: None, partition: u32::try_from(partition).ok(), offset: start as u64 };
        let bound = RawBound::exact(len as u64);
        let mut blocks = Vec::with_capacity(segment.len());
        let mut writer = SegmentWriter::at(&mut self.buffer, &mut self.scratch, bound, place)?;
        for piece in segment {
            writer.append(&[], piece.bytes)?;
            let end = start + usize::try_from(writer.raw_length()).unwrap_or(usize::MAX);
            blocks.push((piece.input, end - piece.bytes.len(), piece.bytes.len()));
        }
        writer.finish()?;
        let end = self.buffer.len();
        debug_assert_eq!(end - start, len);
        self.pending.push(Pending { start, end, partition, blocks });
        Ok((end - start) as u64)
    }

    /// Writes the buffer, and tells where its blocks are.
    fn flush(&mut self, stored: &mut [Vec<StoredBlock>]) -> Result<()> {
        let (Some(first), Some(last)) = (self.pending.first(), self.pending.last()) else {
            return Ok(());
        };
        let (first, last) = (first.partition, last.partition);
        let placed = self.space.place(&self.buffer).map_err(|error| {
            error.context(format!("writing the rows of partitions {first} to {last}"))
        })?;
        let mut rest = self.pending.as_slice();
        while let Some(first) = rest.first() {
            let below = |pending: &&Pending| pending.end - first.start < EXTENT_BYTES;
            let count = rest.iter().take_while(below).count() + 1;
            let (segments, more) = rest.split_at(count.min(rest.len()));
            rest = more;
            let end = segments.last().map_or(first.end, |last| last.end);
            let extent = Arc::new(StoredExtent {
                file: Arc::clone(&placed.file),
                offset: placed.offset + first.start as u64,
                len: (end - first.start) as u64,
                fingerprint: self.fingerprint,
                _permit: Kept::new(self.ledger.force(StoredExtent::HELD_BYTES)),
            });
            for (input, at, len) in segments.iter().flat_map(|segment| &segment.blocks) {
                let extent = Arc::clone(&extent);
                let block =
                    StoredBlock { extent, at: to_u32(at - first.start)?, len: to_u32(*len)? };
                if let Some(blocks) = stored.get_mut(*input) {
                    blocks.push(block);
                }
            }
        }
        self.pending.clear();
        self.buffer.clear();
        Ok(())
    }
}

fn to_u32(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|error| DataFusionError::External(Box::new(error)))
}
