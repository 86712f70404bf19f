//! Writes one spill: a data file with a segment per partition, and the entries of its index.

use super::bound::RawBound;
use super::index::{IndexEntry, SpillIndex};
use super::scratch::WriteScratch;
use super::segment_writer::SegmentWriter;
use crate::error::{IFileError, Place, Result};
use std::io::Write;

/// Writes the segments of a spill, partition after partition, with the states and buffers of one
/// scratch.
pub struct SpillWriter<'s, W: Write> {
    sink: W,
    scratch: &'s mut WriteScratch,
    entries: Vec<IndexEntry>,
    place: Place,
    failed: bool,
}

impl<'s, W: Write> SpillWriter<'s, W> {
    /// A spill whose first byte goes to `place` of the data file. `partitions` sizes the index.
    pub fn new(sink: W, scratch: &'s mut WriteScratch, partitions: usize, place: Place) -> Self {
        Self { sink, scratch, entries: Vec::with_capacity(partitions), place, failed: false }
    }

    /// Writes the next partition: `fill` appends its records. Without any it becomes a segment
    /// without records.
    ///
    /// # Errors
    /// Those of the sink, the codec and `fill`. The spill cannot be completed after that.
    pub fn partition(
        &mut self,
        bound: RawBound,
        fill: impl FnOnce(&mut SegmentWriter<'_, &mut W>) -> Result<()>,
    ) -> Result<IndexEntry> {
        self.check()?;
        self.failed = true;
        let start_offset = self.place.offset;
        self.place.partition = u32::try_from(self.entries.len()).ok();
        let place = self.place.clone();
        let mut writer = SegmentWriter::at(&mut self.sink, &mut *self.scratch, bound, place)?;
        fill(&mut writer)?;
        let entry = IndexEntry::of(start_offset, &writer.finish()?);
        self.failed = false;
        self.place.offset = entry.end_offset();
        self.entries.push(entry);
        Ok(entry)
    }

    /// Leaves the next partition without a segment.
    ///
    /// # Errors
    /// If a write has failed before.
    pub fn skip(&mut self) -> Result<()> {
        self.check()?;
        self.entries.push(IndexEntry::EMPTY);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(IFileError::Usage("write on with a spill whose write has failed"));
        }
        Ok(())
    }

    /// Bytes written.
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// The index, and the sink, which has not been flushed.
    ///
    /// # Errors
    /// If a write has failed before.
    pub fn finish(self) -> Result<(SpillIndex, W)> {
        self.check()?;
        Ok((SpillIndex::new(self.entries), self.sink))
    }
}
