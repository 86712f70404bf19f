//! Encoded blocks in memory, by partition.

use super::writer::BlockBytes;

/// Blocks share buffers of this size.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Room that a block may need at the end of a chunk; else the next one begins.
const CHUNK_ROOM: usize = 256 * 1024;

/// What a block takes in memory beside its bytes.
const BLOCK_OVERHEAD: usize = 48;

/// A block in a chunk.
#[derive(Debug, Clone, Copy)]
struct BlockRef {
    chunk: usize,
    start: usize,
    len: usize,
    rows: usize,
}

/// Encoded blocks by partition.
#[derive(Default)]
pub(super) struct Blocks {
    full: Vec<Vec<u8>>,
    /// The chunk that takes the next block; its number is that of the full ones.
    open: Vec<u8>,
    partitions: Vec<Vec<BlockRef>>,
    bytes: usize,
}

impl Blocks {
    /// What a partition takes without blocks.
    pub(super) const PARTITION_BYTES: usize = size_of::<Vec<BlockRef>>();

    pub(super) fn new(partitions: usize) -> Self {
        Self { partitions: vec![Vec::new(); partitions], ..Self::default() }
    }

    /// The blocks of a partition, in their order.
    pub(super) fn of(&self, partition: usize) -> impl Iterator<Item = BlockBytes<'_>> {
        self.partitions.get(partition).into_iter().flatten().filter_map(|block| {
            let chunk = self.full.get(block.chunk).unwrap_or(&self.open);
            let bytes = chunk.get(block.start..block.start + block.len)?;
            Some(BlockBytes { bytes, rows: block.rows })
        })
    }

    /// The partitions that have blocks, ascending, with them.
    pub(super) fn by_partition(&self) -> impl Iterator<Item = (usize, Vec<BlockBytes<'_>>)> {
        let filled = self.partitions.iter().enumerate().filter(|(_, blocks)| !blocks.is_empty());
        filled.map(|(partition, _)| (partition, self.of(partition).collect()))
    }

    /// Adds a block that `write` appends to the buffer it gets. Returns what `write` does, and the bytes that are
    /// charged.
    pub(super) fn push<T, E>(
        &mut self,
        partition: usize,
        rows: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>,
    ) -> Result<(T, usize), E> {
        if self.open.capacity() - self.open.len() < CHUNK_ROOM {
            let full = std::mem::replace(&mut self.open, Vec::with_capacity(CHUNK_BYTES));
            if !full.is_empty() {
                self.full.push(full);
            }
        }
        let (start, capacity) = (self.open.len(), self.open.capacity());
        let written = write(&mut self.open)?;
        let len = self.open.len() - start;
        if let Some(blocks) = self.partitions.get_mut(partition) {
            blocks.push(BlockRef { chunk: self.full.len(), start, len, rows });
        }
        // A large block may have grown its chunk.
        let held = len + BLOCK_OVERHEAD + self.open.capacity() - capacity;
        self.bytes += held;
        Ok((written, held))
    }

    /// What all blocks are charged with.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
