use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::Result;

use super::file::{ScratchFile, to_usize};
use crate::memory::Kept;

/// Fetches of blocks whose distance in a file is at most this share one read.
const MAX_READ_GAP: u64 = 4096;

/// Some segments that lie together in a scratch file. Their range is free again with the last of
/// their blocks.
#[derive(Debug)]
pub(super) struct StoredExtent {
    pub(super) file: Arc<ScratchFile>,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Fingerprint of the schema of the rows.
    pub(super) fingerprint: u64,
    /// For the memory of this.
    pub(super) _permit: Kept,
}

impl StoredExtent {
    /// What it takes in memory.
    pub(super) const HELD_BYTES: usize = 32 + size_of::<Self>();
}

impl Drop for StoredExtent {
    fn drop(&mut self) {
        self.file.release(self.offset..self.offset + self.len);
    }
}

/// A block in a scratch file. The file lives as long as one of its blocks.
#[derive(Debug, Clone)]
pub(crate) struct StoredBlock {
    pub(super) extent: Arc<StoredExtent>,
    /// In the extent.
    pub(super) at: u32,
    pub(super) len: u32,
}

// There may be one for every run and partition.
const _: () = assert!(size_of::<StoredBlock>() == 16);

impl StoredBlock {
    /// Most bytes that one read takes for several blocks.
    pub(crate) const MAX_READ_BYTES: usize = 256 * 1024;

    /// Stored bytes.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Fingerprint of the schema of the rows, which travels with the run.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.extent.fingerprint
    }

    /// In the file.
    fn offset(&self) -> u64 {
        self.extent.offset + u64::from(self.at)
    }

    /// Where the block is, for errors.
    pub(crate) fn place(&self) -> String {
        format!("offset {} of {}", self.offset(), self.extent.file.name())
    }

    /// Whether the block is read by [`stream_all`](Self::stream_all) rather than by
    /// [`read_all`](Self::read_all): its file has no path.
    pub(crate) fn is_streamed(&self) -> bool {
        self.extent.file.path().is_none()
    }

    /// Reads `blocks`, those that lie next to each other together, and gives the blocks of what was
    /// consumed of their files back. Blocks the thread.
    ///
    /// # Errors
    /// Those of the file, naming it, the offset and the length.
    pub(crate) fn read_all(blocks: &[&StoredBlock]) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(blocks.len());
        for group in neighbours(blocks) {
            let (offset, len) = extent(group)?;
            if let Some(first) = group.first() {
                let file = &first.extent.file;
                cut(&file.read(offset, len)?, group, offset, &mut buffers)?;
                file.punch_holes();
            }
        }
        Ok(buffers)
    }

    /// Reads `blocks` of files without a path as [`read_all`](Self::read_all) reads others.
    ///
    /// # Errors
    /// Those of the backend, naming the file, the offset and the length.
    pub(crate) async fn stream_all(blocks: &[&StoredBlock]) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(blocks.len());
        for group in neighbours(blocks) {
            let (offset, len) = extent(group)?;
            let Some(first) = group.first() else { continue };
            let file = &first.extent.file;
            // A backend may give files of both kinds; its local ones do not wait long.
            let bytes = match first.is_streamed() {
                true => file.stream(offset, len).await?,
                false => file.read(offset, len)?,
            };
            cut(&bytes, group, offset, &mut buffers)?;
        }
        Ok(buffers)
    }

    fn end(&self) -> u64 {
        self.offset() + u64::from(self.len)
    }
}

/// Runs of `blocks` that one read serves: of one file, near each other, and small.
fn neighbours<'a, 'b>(
    mut blocks: &'a [&'b StoredBlock],
) -> impl Iterator<Item = &'a [&'b StoredBlock]> {
    std::iter::from_fn(move || {
        let first = blocks.first()?;
        let joins = |(block, next): &(&&StoredBlock, &&StoredBlock)| {
            let gap = next.offset().checked_sub(block.end());
            Arc::ptr_eq(&block.extent.file, &next.extent.file)
                && gap.is_some_and(|gap| gap <= MAX_READ_GAP)
                && next.end() - first.offset() <= StoredBlock::MAX_READ_BYTES as u64
        };
        let more = blocks.iter().zip(blocks.iter().skip(1)).take_while(joins).count();
        let (group, rest) = blocks.split_at_checked(1 + more)?;
        blocks = rest;
        Some(group)
    })
}

/// Offset and length of what `group` spans.
fn extent(group: &[&StoredBlock]) -> Result<(u64, usize)> {
    let start = group.first().map_or(0, |block| block.offset());
    let end = group.last().map_or(0, |block| block.end());
    Ok((start, to_usize(end.saturating_sub(start))?))
}

/// Takes the blocks of `group` out of `bytes`, read at `offset`. Blocks that share a read are copied
/// apart, so that each lives and is counted for itself.
fn cut(
    bytes: &Buffer,
    group: &[&StoredBlock],
    offset: u64,
    buffers: &mut Vec<Buffer>,
) -> Result<()> {
    if let [_] = group {
        buffers.push(bytes.clone());
        return Ok(());
    }
    for block in group {
        let start = to_usize(block.offset() - offset)?;
        let part = bytes.slice_with_length(start, block.len());
        buffers.push(Buffer::from_slice_ref(part.as_slice()));
    }
    Ok(())
}
