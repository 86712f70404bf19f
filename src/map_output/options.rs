//! How a map output is written.

use super::index::IndexLayout;

const MIB: usize = 1024 * 1024;

/// Options of a map output, beside the codec and the sizes in [`IFileOptions`](crate::IFileOptions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapOutputOptions {
    /// Layout of the index.
    pub layout: IndexLayout,
    /// Whether files and directory are synchronized before the output counts as written.
    pub fsync: bool,
    /// Bytes of rows that wait as Arrow arrays, however much memory there is: beyond it they become blocks, one per
    /// partition. More makes larger blocks and costs fresh memory.
    pub staged_bytes: usize,
    /// Whether blocks of less than half of the batch size are joined when spilled segments are merged; costs decoding
    /// where blocks are otherwise spliced as they are.
    pub join_small_blocks: bool,
}

impl Default for MapOutputOptions {
    fn default() -> Self {
        Self {
            layout: IndexLayout::IFile,
            fsync: false,
            staged_bytes: 64 * MIB,
            join_small_blocks: false,
        }
    }
}
