//! Writes the data file of one attempt and commits it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use datafusion::common::Result as DataFusionResult;

use super::cancel::Cancel;
use super::commit::{Committed, Pending};
use super::index::{IndexLayout, OutputHead, encode_index};
use super::segment::{StoredSegment, composed_crc, segment_crc};
use super::trailer::Trailer;
use crate::codec::{Codec, to_u64, to_usize_limit};
use crate::error::{IFileError, Place, Result};
use crate::ifile::{RawBound, SegmentOptions, SegmentWriter, WriteScratch};
use crate::memory::{Kept, Ledger};

const FILE_BUFFER: usize = 256 * 1024;

/// Segments from here on are copied by the system, smaller ones through the file's buffer.
const COPY_RANGE: u64 = 256 * 1024;

/// Bytes that the system copies at once, however many there are: a task that is cancelled stops after them.
const COPY_STEP: usize = 64 * 1024 * 1024;

/// Two lengths before a record.
const MAX_RECORD_HEAD: usize = 10;

/// Header and end of a segment.
const SEGMENT_ENVELOPE: usize = 6;

/// A block and its rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockBytes<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) rows: usize,
}

/// Writes one segment of blocks.
pub(super) struct BlocksWriter<'s, W: Write> {
    writer: SegmentWriter<'s, W>,
    offset: u64,
    run: u32,
    rows: u64,
}

impl<'s, W: Write> BlocksWriter<'s, W> {
    /// A segment in `sink`, whose next byte is at `place`.
    fn begin(
        sink: W,
        scratch: &'s mut WriteScratch,
        bound: RawBound,
        place: Place,
        run: u32,
    ) -> Result<Self> {
        let offset = place.offset;
        Ok(Self { writer: SegmentWriter::at(sink, scratch, bound, place)?, offset, run, rows: 0 })
    }

    pub(super) fn append(&mut self, bytes: &[u8], rows: usize) -> Result<()> {
        self.rows += to_u64(rows);
        self.writer.append(&[], bytes)
    }

    fn finish(self) -> Result<StoredSegment> {
        let summary = self.writer.finish()?;
        Ok(StoredSegment {
            offset: self.offset,
            stored: summary.part_length,
            raw: summary.raw_length,
            rows: self.rows,
            run: self.run,
            crc32: segment_crc(&summary),
        })
    }
}

/// Writes one segment of `blocks` to `sink`, whose next byte is at `place`.
pub(super) fn write_segment<W: Write>(
    sink: W,
    scratch: &mut WriteScratch,
    place: Place,
    run: u32,
    blocks: &[BlockBytes<'_>],
) -> Result<StoredSegment> {
    let raw: usize = blocks.iter().map(|block| block.bytes.len() + MAX_RECORD_HEAD).sum();
    let bound = RawBound::exact(to_u64(SEGMENT_ENVELOPE + raw));
    let mut segment = BlocksWriter::begin(sink, scratch, bound, place, run)?;
    for block in blocks {
        segment.append(block.bytes, block.rows)?;
    }
    segment.finish()
}

/// The data file of an attempt: segments come in the order of their partitions.
pub(super) struct OutputWriter {
    pending: Pending,
    cancel: Cancel,
    sink: BufWriter<File>,
    scratch: WriteScratch,
    file: Arc<str>,
    offset: u64,
    partitions: Vec<Vec<StoredSegment>>,
    /// What the segments hold of memory.
    held: Kept,
    copied: Vec<u8>,
}

impl OutputWriter {
    pub(super) fn new(
        pending: Pending,
        partitions: usize,
        cancel: Cancel,
        ledger: &Arc<Ledger>,
    ) -> Result<Self> {
        let file: Arc<str> = pending.data_path().display().to_string().into();
        let handle = pending.file().try_clone().map_err(|source| IFileError::Io {
            action: "write map output",
            place: Place { file: Some(Arc::clone(&file)), ..Place::default() },
            source,
        })?;
        Ok(Self {
            pending,
            cancel,
            sink: BufWriter::with_capacity(FILE_BUFFER, handle),
            scratch: WriteScratch::new(SegmentOptions::new(Codec::None))?,
            file,
            offset: 0,
            partitions: vec![Vec::new(); partitions],
            held: Kept::new(ledger.force(partitions * size_of::<Vec<StoredSegment>>())),
            copied: Vec::new(),
        })
    }

    fn place(&self, partition: usize) -> Place {
        Place {
            file: Some(Arc::clone(&self.file)),
            partition: u32::try_from(partition).ok(),
            offset: self.offset,
        }
    }

    /// Asks whether to go on with `partition`.
    ///
    /// # Errors
    /// Once the task is cancelled.
    pub(super) fn check(&self, partition: usize) -> Result<()> {
        self.cancel.check().map_err(|source| {
            let place = self.place(partition);
            IFileError::Io { action: "write map output", place, source }
        })
    }

    fn push(&mut self, partition: usize, segment: StoredSegment) {
        self.offset = segment.end();
        if let Some(segments) = self.partitions.get_mut(partition) {
            let capacity = segments.capacity();
            segments.push(segment);
            if segments.capacity() > capacity {
                self.held.grow((segments.capacity() - capacity) * size_of::<StoredSegment>());
            }
        }
    }

    /// Appends a segment of blocks; nothing where there are none.
    pub(super) fn blocks(
        &mut self,
        partition: usize,
        run: u32,
        blocks: &[BlockBytes<'_>],
    ) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let place = self.place(partition);
        let segment = write_segment(&mut self.sink, &mut self.scratch, place, run, blocks)?;
        self.push(partition, segment);
        Ok(())
    }

    /// Appends a segment of the blocks that `fill` writes.
    pub(super) fn segment(
        &mut self,
        partition: usize,
        run: u32,
        fill: impl FnOnce(&mut BlocksWriter<'_, &mut BufWriter<File>>) -> DataFusionResult<()>,
    ) -> DataFusionResult<()> {
        let place = self.place(partition);
        let (sink, scratch) = (&mut self.sink, &mut self.scratch);
        let mut segment = BlocksWriter::begin(sink, scratch, RawBound::UNKNOWN, place, run)?;
        fill(&mut segment)?;
        let segment = segment.finish()?;
        self.push(partition, segment);
        Ok(())
    }

    /// Appends a stored segment of another file, as it is.
    pub(super) fn splice(
        &mut self,
        partition: usize,
        segment: &StoredSegment,
        from: &File,
    ) -> Result<()> {
        let place = self.place(partition);
        let failed = |source| IFileError::Io {
            action: "splice a spilled segment",
            place: place.clone(),
            source,
        };
        if segment.stored < COPY_RANGE {
            self.copied.resize(to_usize_limit(segment.stored), 0);
            from.read_exact_at(&mut self.copied, segment.offset).map_err(failed)?;
            self.sink.write_all(&self.copied).map_err(failed)?;
        } else {
            self.sink.flush().map_err(failed)?;
            let (to, len) = (self.sink.get_mut(), segment.stored);
            copy_range(from, segment.offset, to, len, &mut self.copied, &self.cancel)
                .map_err(failed)?;
        }
        self.push(partition, StoredSegment { offset: self.offset, ..*segment });
        Ok(())
    }

    /// Appends a stored segment whose bytes are at hand.
    pub(super) fn splice_bytes(
        &mut self,
        partition: usize,
        segment: &StoredSegment,
        bytes: &[u8],
    ) -> Result<()> {
        let place = self.place(partition);
        let failed = |source| IFileError::Io { action: "splice a spilled segment", place, source };
        self.sink.write_all(bytes).map_err(failed)?;
        self.push(partition, StoredSegment { offset: self.offset, ..*segment });
        Ok(())
    }

    /// Completes the data file and commits the pair.
    pub(super) fn finish(
        mut self,
        layout: IndexLayout,
        mut head: OutputHead,
    ) -> Result<(Committed, Vec<Vec<StoredSegment>>)> {
        let place = self.place(0);
        self.sink.flush().map_err(|source| IFileError::Io {
            action: "write map output",
            place: Place { partition: None, ..place },
            source,
        })?;
        head.data_length = self.offset;
        head.data_crc = composed_crc(self.partitions.iter().flatten());
        let index = encode_index(layout, &head, &self.partitions)?;
        let trailer = Trailer {
            layout: layout.wire_id(),
            attempt_id: head.attempt_id,
            epoch: head.epoch,
            length: self.offset,
            data_crc: head.data_crc,
            index_crc: crc32fast::hash(&index),
            map_id: head.map_id,
            attempt: head.attempt,
        };
        let committed = self.pending.commit(&trailer, &index, &self.cancel)?;
        Ok((committed, self.partitions))
    }
}

/// Copies within the system where it can, else through a buffer.
fn copy_range(
    from: &File,
    mut offset: u64,
    to: &mut File,
    mut left: u64,
    buffer: &mut Vec<u8>,
    cancel: &Cancel,
) -> std::io::Result<()> {
    while left > 0 {
        cancel.check()?;
        let copied = rustix::fs::copy_file_range(
            from.as_fd(),
            Some(&mut offset),
            to.as_fd(),
            None,
            to_usize_limit(left).min(COPY_STEP),
        );
        match copied {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => left -= to_u64(len),
            // Other file systems, or a system without the call.
            Err(_) => break,
        }
    }
    while left > 0 {
        cancel.check()?;
        buffer.resize(to_usize_limit(left).min(FILE_BUFFER), 0);
        from.read_exact_at(buffer, offset)?;
        to.write_all(buffer)?;
        offset += to_u64(buffer.len());
        left -= to_u64(buffer.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;
    use crate::map_output::{OutputName, OutputStore};
    use crate::map_status::AttemptId;

    #[test]
    fn segments_of_the_index_are_reserved() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ledger = Ledger::unspillable("test", &pool);
        let directory = tempfile::tempdir().unwrap();
        let name = OutputName { shuffle: 0, map_id: 0 };
        let pending = OutputStore::new(directory.path()).begin(name, AttemptId([1; 16])).unwrap();
        let mut writer = OutputWriter::new(pending, 100, Cancel::default(), &ledger).unwrap();
        for (partition, run) in
            (0..100).flat_map(|partition| (0..5).map(move |run| (partition, run)))
        {
            writer.blocks(partition, run, &[BlockBytes { bytes: &[1, 2, 3], rows: 1 }]).unwrap();
        }
        let least = 100 * size_of::<Vec<StoredSegment>>() + 500 * size_of::<StoredSegment>();
        assert!((least..2 * least).contains(&pool.reserved()), "{}", pool.reserved());
        drop(writer);
        assert_eq!(pool.reserved(), 0);
    }
}
