use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SpillWriter;
use datafusion::execution::disk_manager::DiskManager;

use super::file::{ScratchFile, StoredBlock};
use crate::codec::Codec;
use crate::error::Place;
use crate::ifile::{RawBound, SegmentOptions, SegmentWriter, WriteScratch};
use crate::memory::Held;

/// Bytes gathered before they go to the file.
const FILE_BUFFER_BYTES: usize = 128 * 1024;

/// Two lengths before a record.
const MAX_RECORD_HEAD: usize = 10;

/// Header and end of a segment.
const SEGMENT_ENVELOPE: usize = 6;

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
    disk: Arc<DiskManager>,
    owner: Arc<str>,
    max_file_bytes: u64,
    scratch: WriteScratch,
    open: Option<OpenFile>,
}

struct OpenFile {
    file: Arc<ScratchFile>,
    sink: BufWriter<Counted>,
    end: u64,
}

/// Passes writes on, whole.
struct Counted(Box<dyn SpillWriter>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl RunWriter {
    /// Runs of the exchange `owner`, on files of `disk` that rotate at `max_file_bytes`.
    ///
    /// # Errors
    /// None today; the segment options are checked.
    pub(crate) fn try_new(
        disk: Arc<DiskManager>,
        owner: Arc<str>,
        max_file_bytes: u64,
    ) -> Result<Self> {
        let scratch = WriteScratch::new(SegmentOptions::new(Codec::None))?;
        Ok(Self { disk, owner, max_file_bytes, scratch, open: None })
    }

    /// Bytes that writing takes beside the blocks.
    pub(crate) fn working_bytes(&self) -> usize {
        FILE_BUFFER_BYTES + self.scratch.held_bytes()
    }

    /// Writes one run. The inputs come in partition order.
    ///
    /// # Errors
    /// Those of the disk, its quota included, with file, partition and offset. The file is not
    /// written to again after one; what earlier runs left in it stays readable.
    pub(crate) fn write<T>(&mut self, inputs: Vec<RunBlocks<T>>) -> Result<Run<T>> {
        let stored = Vec::with_capacity(inputs.len());
        let mut run = Run { stored, rows: 0, raw_bytes: 0, bytes: 0 };
        let mut rest = inputs.into_iter().peekable();
        while let Some(first) = rest.next() {
            let partition = first.partition;
            let mut segment = vec![first];
            while let Some(more) = rest.next_if(|next| next.partition == partition) {
                segment.push(more);
            }
            if let Err(error) = self.write_segment(partition, segment, &mut run) {
                self.open = None;
                return Err(error);
            }
        }
        self.end_run()?;
        Ok(run)
    }

    fn write_segment<T>(
        &mut self,
        partition: usize,
        segment: Vec<RunBlocks<T>>,
        run: &mut Run<T>,
    ) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| open.end >= self.max_file_bytes) {
            self.close_file()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            empty => {
                let (file, writer) = ScratchFile::create(&self.disk, &self.owner)?;
                let sink = BufWriter::with_capacity(FILE_BUFFER_BYTES, Counted(writer));
                empty.insert(OpenFile { file, sink, end: 0 })
            }
        };
        let start = open.end;
        let place = Place {
            file: Some(Arc::clone(open.file.name())),
            partition: u32::try_from(partition).ok(),
            offset: start,
        };
        let blocks = segment.iter().flat_map(|part| &part.blocks);
        let raw: usize = blocks.map(|block| block.value.bytes.len() + MAX_RECORD_HEAD).sum();
        let bound = RawBound::exact((SEGMENT_ENVELOPE + raw) as u64);
        let mut writer = SegmentWriter::at(&mut open.sink, &mut self.scratch, bound, place)?;
        for RunBlocks { tag, blocks, .. } in segment {
            let mut stored = Vec::with_capacity(blocks.len());
            for block in blocks {
                let len = block.value.bytes.len();
                writer.append(&[], block.value.bytes.as_slice())?;
                let offset = start + writer.raw_length() - len as u64;
                stored.push(StoredBlock { file: Arc::clone(&open.file), partition, offset, len });
                run.rows += block.value.rows;
                run.raw_bytes += block.value.raw_bytes;
            }
            run.stored.push((tag, stored));
        }
        let summary = writer.finish()?;
        open.end += summary.part_length;
        run.bytes += summary.part_length;
        Ok(())
    }

    /// Makes what was written readable.
    fn end_run(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if !open.file.has_path() {
            return self.close_file();
        }
        if let Err(error) = open.sink.flush() {
            let error = failed_write(&open.file, open.end, error);
            self.open = None;
            return Err(error);
        }
        Ok(())
    }

    fn close_file(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.sink.flush().map_err(|error| failed_write(&open.file, open.end, error))?;
        open.sink.get_mut().0.finish().map_err(|error| {
            error.context(format!("finishing {} at offset {}", open.file.name(), open.end))
        })
    }
}

fn failed_write(file: &ScratchFile, end: u64, error: io::Error) -> DataFusionError {
    DataFusionError::from(error).context(format!("writing {} up to offset {end}", file.name()))
}
