use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;

use crate::memory::{Held, Kept, Permit};
use crate::partition::Slab;
use crate::scratch::{Block, StoredBlock};

/// Rows in one of their forms.
#[derive(Debug)]
pub(in crate::exchange) enum Body {
    Batch(Arc<Held<RecordBatch>>),
    Slab(Arc<Held<Slab>>),
    Blocks(Vec<Arc<Held<Block>>>),
    Stored {
        blocks: Arc<Vec<StoredBlock>>,
        fetched: Option<Vec<Arc<Held<Buffer>>>>,
        /// How often its blocks were fetched.
        reads: u8,
        permit: Kept,
    },
}

/// Rows that may be encoded.
#[derive(Debug, Clone)]
pub(in crate::exchange) enum Unencoded {
    Batch(Arc<Held<RecordBatch>>),
    Slab(Arc<Held<Slab>>),
}

/// Rows of a lane that change their form together.
#[derive(Debug)]
pub(in crate::exchange) struct Item {
    /// Grows along the queue.
    pub(super) number: u64,
    pub(in crate::exchange) body: Body,
    /// Whether its window ends with this item.
    pub(super) ends_window: bool,
}

/// Bytes held as rows, and bytes held as blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::exchange) struct Weight {
    pub(in crate::exchange) arrow: usize,
    pub(in crate::exchange) blocks: usize,
}

/// What an item takes in memory beside its stored blocks.
const ITEM_BYTES: usize = 64 + size_of::<Item>() + size_of::<Vec<StoredBlock>>();

fn stored_bytes(blocks: &Vec<StoredBlock>) -> usize {
    ITEM_BYTES + blocks.capacity() * size_of::<StoredBlock>()
}

impl Body {
    /// Blocks in scratch files, not fetched. The permit becomes one for what is known of them.
    pub(in crate::exchange) fn stored(blocks: Vec<StoredBlock>, permit: Permit) -> Self {
        let mut permit = Kept::new(permit);
        permit.resize(stored_bytes(&blocks));
        Body::Stored { blocks: Arc::new(blocks), fetched: None, reads: 0, permit }
    }

    /// Whether other stored blocks may be added.
    pub(super) fn is_stored(&self) -> bool {
        matches!(self, Body::Stored { fetched: None, .. })
    }

    /// Adds the stored blocks of the item behind.
    pub(super) fn add_stored(&mut self, behind: Body) {
        let Body::Stored { blocks, reads, permit, .. } = self else { return };
        let Body::Stored { blocks: more, reads: others, .. } = behind else { return };
        let blocks = Arc::make_mut(blocks);
        blocks.extend_from_slice(&more);
        permit.resize(stored_bytes(blocks));
        *reads = (*reads).max(others);
    }

    /// Drops blocks that were fetched, unless that was done before.
    pub(super) fn give_up_fetched(&mut self) -> bool {
        match self {
            Body::Stored { fetched, reads: 1, .. } => fetched.take().is_some(),
            _ => false,
        }
    }

    pub(super) fn is_fetched(&self) -> bool {
        matches!(self, Body::Stored { fetched: Some(_), .. })
    }

    pub(super) fn weight(&self) -> Weight {
        match self {
            Body::Batch(batch) => Weight { arrow: batch.bytes(), blocks: 0 },
            Body::Slab(slab) => Weight { arrow: slab.bytes(), blocks: 0 },
            Body::Blocks(blocks) => {
                Weight { arrow: 0, blocks: blocks.iter().map(|block| block.bytes()).sum() }
            }
            Body::Stored { .. } => Weight::default(),
        }
    }
}

impl Weight {
    pub(super) fn add(&mut self, more: Weight) {
        self.arrow += more.arrow;
        self.blocks += more.blocks;
    }

    pub(super) fn sub(&mut self, less: Weight) {
        self.arrow -= less.arrow;
        self.blocks -= less.blocks;
    }
}
