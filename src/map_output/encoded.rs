//! The blocks of one input of a map task, and what is told of them.

use std::sync::Arc;

use super::blocks::Blocks;
use crate::block::{BlockHeader, BlockInfo, BlockResult, DecodeLimits};
use crate::codec::to_u64;
use crate::memory::{Ledger, Permit};

/// Blocks in memory of an input that has ended.
pub(super) struct Parked {
    pub(super) input: usize,
    pub(super) blocks: Blocks,
    pub(super) permit: Permit,
}

/// What an input came to, by partition.
pub(super) struct Counted {
    pub(super) rows: Vec<u64>,
    pub(super) memory_bytes: Vec<u64>,
}

/// Blocks of an input, charged.
pub(super) struct Encoded {
    pub(super) blocks: Blocks,
    /// What the blocks hold.
    held: Permit,
    /// What grows with the partitions, whatever their rows.
    per_partition: Permit,
    /// Rows, and bytes of them as Arrow arrays, by partition; of blocks that have left as well.
    rows: Vec<u64>,
    memory_bytes: Vec<u64>,
}

impl Encoded {
    pub(super) fn new(ledger: &Arc<Ledger>, partitions: usize) -> Self {
        Self {
            blocks: Blocks::new(partitions),
            held: ledger.empty(),
            per_partition: ledger.force(partitions * (Blocks::PARTITION_BYTES + 16)),
            rows: vec![0; partitions],
            memory_bytes: vec![0; partitions],
        }
    }

    pub(super) fn partitions(&self) -> usize {
        self.rows.len()
    }

    /// Adds the block of `rows` rows that `write` appends to the buffer it gets. It takes over what `room` has of the bytes
    /// it needs, and the rest whatever the pool says.
    ///
    /// # Errors
    /// Those of `write`, and for a block that no reader would take.
    pub(super) fn push(
        &mut self,
        partition: usize,
        rows: usize,
        room: &mut Permit,
        write: impl FnOnce(&mut Vec<u8>) -> BlockResult<BlockInfo>,
    ) -> BlockResult<()> {
        let (header, bytes) = self.blocks.push(partition, rows, |out| {
            let start = out.len();
            write(out)?;
            let header = BlockHeader::parse(out.get(start..).unwrap_or_default())?;
            DecodeLimits::default().check(&header).map(|_| header)
        })?;
        self.held.move_from(room, bytes.min(room.bytes()));
        self.held.resize(self.blocks.bytes());
        if let Some(sum) = self.memory_bytes.get_mut(partition) {
            *sum += u64::from(header.decoded_bytes);
        }
        if let Some(sum) = self.rows.get_mut(partition) {
            *sum += to_u64(rows);
        }
        Ok(())
    }

    /// The blocks, with what they are charged with; none are left.
    pub(super) fn take(&mut self) -> (Blocks, Permit) {
        let none = Blocks::new(self.partitions());
        let blocks = std::mem::replace(&mut self.blocks, none);
        (blocks, self.held.take())
    }

    /// No more blocks will come.
    pub(super) fn end(mut self, input: usize) -> (Parked, Counted) {
        self.held.merge(self.per_partition);
        let parked = Parked { input, blocks: self.blocks, permit: self.held };
        (parked, Counted { rows: self.rows, memory_bytes: self.memory_bytes })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;
    use crate::block::BlockError;

    #[test]
    fn a_block_that_no_reader_takes_is_not_kept() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ledger = Ledger::unspillable("test", &pool);
        let mut encoded = Encoded::new(&ledger, 1);
        let limit = u32::try_from(DecodeLimits::default().max_decoded_bytes).unwrap();
        for (decoded_bytes, taken) in [(limit, true), (limit + 1, false)] {
            let pushed = encoded.push(0, 1, &mut ledger.empty(), |out| {
                let header = BlockHeader {
                    codec: 0,
                    rows: 1,
                    decoded_bytes,
                    raw_bytes: 0,
                    stored_bytes: 0,
                    plain_bytes: 0,
                    crc: 0,
                };
                out.extend_from_slice(&header.to_bytes());
                Ok(BlockInfo { rows: 1, raw_bytes: 0, stored_bytes: out.len() })
            });
            let (what, found) = ("decoded bytes", u64::from(decoded_bytes));
            let refused = BlockError::Limit { what, found, limit: u64::from(limit) };
            assert_eq!(pushed, if taken { Ok(()) } else { Err(refused) });
        }
    }
}
