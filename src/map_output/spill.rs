//! Runs of a map task on scratch files: segments in partition order, kept until they are spliced.
//!
//! A failed write may leave its length behind in the disk manager's used bytes, as one of DataFusion's own operators does.

use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::iter::Peekable;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::vec::IntoIter;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::{SpillFile, SpillWriter};
use futures::StreamExt;
use futures::stream::BoxStream;

use super::segment::StoredSegment;
use super::writer::{BlockBytes, OutputWriter, write_segment};
use crate::codec::{Codec, to_u64, to_usize_limit};
use crate::error::Place;
use crate::ifile::{SegmentOptions, WriteScratch};
use crate::memory::{Kept, Ledger};

const FILE_BUFFER: usize = 256 * 1024;

/// A spilled run.
pub(super) struct SpilledRun {
    file: Arc<dyn SpillFile>,
    name: Arc<str>,
    /// Ascending by partition.
    segments: Vec<(usize, StoredSegment)>,
}

/// Scratch of a map task. Runs share one file where the backend has local files, so that a task has few descriptors;
/// others have a file each, to be read as a stream.
pub(super) struct Spills {
    disk: Arc<DiskManager>,
    owner: Arc<str>,
    scratch: Option<WriteScratch>,
    open: Option<OpenFile>,
    pub(super) runs: Vec<SpilledRun>,
    /// Bytes of all runs.
    pub(super) bytes: u64,
    /// What the segments of runs hold of memory.
    held: Kept,
}

struct OpenFile {
    file: Arc<dyn SpillFile>,
    name: Arc<str>,
    sink: Sink,
    end: u64,
}

/// Gathers what is written. What it still has is lost with it: a disk manager charges a write before it fails, so none is
/// tried again.
struct Sink {
    writer: Box<dyn SpillWriter>,
    buffer: Vec<u8>,
}

impl Sink {
    fn new(writer: Box<dyn SpillWriter>) -> Self {
        Self { writer, buffer: Vec::with_capacity(FILE_BUFFER) }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let written = self.writer.write_all(&self.buffer);
        self.buffer.clear();
        written
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.writer.finish()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > FILE_BUFFER {
            self.write_buffer()?;
        }
        match bytes.len() < FILE_BUFFER {
            true => self.buffer.extend_from_slice(bytes),
            false => self.writer.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer()?;
        self.writer.flush()
    }
}

impl Spills {
    pub(super) fn new(disk: Arc<DiskManager>, owner: Arc<str>, ledger: &Arc<Ledger>) -> Self {
        Self {
            disk,
            owner,
            scratch: None,
            open: None,
            runs: Vec::new(),
            bytes: 0,
            held: Kept::new(ledger.empty()),
        }
    }

    pub(super) fn disk(&self) -> Arc<DiskManager> {
        Arc::clone(&self.disk)
    }

    fn create(&self) -> Result<OpenFile> {
        if !self.disk.tmp_files_enabled() {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} needs to spill, but the DiskManager is disabled: set \
                 datafusion.runtime.temp_directory (DiskManagerMode), or raise \
                 datafusion.runtime.memory_limit",
                self.owner
            )));
        }
        let file = self.disk.create_tmp_file(&self.owner)?;
        let name = file.path().map(|path| path.display().to_string());
        let name = name.unwrap_or_else(|| format!("scratch file of {}", self.owner)).into();
        let sink = Sink::new(file.open_writer()?);
        Ok(OpenFile { file, name, sink, end: 0 })
    }

    /// Writes a run: blocks by partition, ascending. Returns its bytes. Blocks the thread.
    pub(super) fn write<'b>(
        &mut self,
        partitions: impl Iterator<Item = (usize, Vec<BlockBytes<'b>>)>,
    ) -> Result<u64> {
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => WriteScratch::new(SegmentOptions::new(Codec::None))?,
        };
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.create().map_err(|error| {
                error.context(format!("making a scratch file of {}", self.owner))
            })?,
        };
        let run = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        let start = open.end;
        let mut segments = Vec::new();
        for (partition, blocks) in partitions {
            let place = Place {
                file: Some(Arc::clone(&open.name)),
                partition: u32::try_from(partition).ok(),
                offset: open.end,
            };
            let segment = write_segment(&mut open.sink, &mut scratch, place, run, &blocks)?;
            open.end = segment.end();
            segments.push((partition, segment));
        }
        let bytes = open.end - start;
        self.held.grow(segments.capacity() * size_of::<(usize, StoredSegment)>());
        let (file, name) = (Arc::clone(&open.file), Arc::clone(&open.name));
        let ended = match file.path() {
            Some(_) => open.sink.flush().map_err(DataFusionError::from),
            None => open.sink.finish(),
        };
        ended.map_err(|error| {
            error.context(format!("writing {bytes} bytes at offset {start} of {name}"))
        })?;
        self.bytes += bytes;
        if file.path().is_some() {
            self.open = Some(open);
        }
        self.scratch = Some(scratch);
        self.runs.push(SpilledRun { file, name, segments });
        Ok(bytes)
    }

    /// Ends writing, and opens the runs for splicing; with what their segments hold of memory.
    pub(super) fn into_readers(mut self) -> Result<(Vec<RunReader>, Kept)> {
        if let Some(mut open) = self.open.take() {
            let failed = |error: DataFusionError| {
                error.context(format!("ending {} at offset {}", open.name, open.end))
            };
            open.sink.finish().map_err(failed)?;
        }
        let mut local: Option<Arc<File>> = None;
        let mut readers = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            let failed = |error: DataFusionError| error.context(format!("opening {}", run.name));
            let bytes = match run.file.path() {
                // All runs with a path share one file.
                Some(path) => {
                    let file = match &local {
                        Some(file) => Arc::clone(file),
                        None => {
                            let file = File::open(path).map_err(|error| failed(error.into()))?;
                            Arc::clone(local.insert(Arc::new(file)))
                        }
                    };
                    RunBytes::Local(file)
                }
                None => {
                    let stream = run.file.read_stream().map_err(failed)?;
                    let stream = stream.map(|chunk| chunk.map(|bytes| bytes.to_vec())).boxed();
                    RunBytes::Stream { stream, rest: Vec::new(), at: 0 }
                }
            };
            let segments = run.segments.into_iter().peekable();
            readers.push(RunReader { bytes, segments, name: run.name, _file: run.file });
        }
        Ok((readers, self.held))
    }
}

enum RunBytes {
    Local(Arc<File>),
    /// What has been read of a stream and not used yet, and the offset of its first byte.
    Stream {
        stream: BoxStream<'static, Result<Vec<u8>>>,
        rest: Vec<u8>,
        at: u64,
    },
}

/// A run on its way to the data file, partition after partition.
pub(super) struct RunReader {
    bytes: RunBytes,
    segments: Peekable<IntoIter<(usize, StoredSegment)>>,
    name: Arc<str>,
    /// Keeps the file.
    _file: Arc<dyn SpillFile>,
}

impl RunReader {
    /// The segment of `partition`, if the run has one and none of a later partition was asked for.
    pub(super) fn next_of(&mut self, partition: usize) -> Option<StoredSegment> {
        self.segments.next_if(|(of, _)| *of == partition).map(|(_, segment)| segment)
    }

    /// Splices a segment into the data file.
    pub(super) fn splice(
        &mut self,
        partition: usize,
        segment: &StoredSegment,
        writer: &mut OutputWriter,
    ) -> Result<()> {
        if let RunBytes::Local(file) = &self.bytes {
            let spliced = writer.splice(partition, segment, file);
            return spliced.map_err(|error| self.failed(segment, error.into()));
        }
        let bytes = self.read(segment)?;
        Ok(writer.splice_bytes(partition, segment, &bytes)?)
    }

    /// Opens a segment. Those of streams come in order, and whole.
    pub(super) fn open(&mut self, segment: &StoredSegment) -> Result<SegmentBytes> {
        if let RunBytes::Local(file) = &self.bytes {
            let (at, end) = (segment.offset, segment.end());
            return Ok(SegmentBytes::Local { file: Arc::clone(file), at, end });
        }
        Ok(SegmentBytes::Whole(Cursor::new(self.read(segment)?)))
    }

    /// The stored bytes of a segment. Those of streams come in order.
    fn read(&mut self, segment: &StoredSegment) -> Result<Vec<u8>> {
        let len = to_usize_limit(segment.stored);
        let read = match &mut self.bytes {
            RunBytes::Local(file) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, segment.offset).map(|()| bytes).map_err(Into::into)
            }
            RunBytes::Stream { stream, rest, at } => {
                read_stream(stream, rest, at, segment.offset, len)
            }
        };
        read.map_err(|error| self.failed(segment, error))
    }

    fn failed(&self, segment: &StoredSegment, error: DataFusionError) -> DataFusionError {
        error.context(format!("reading a segment at offset {} of {}", segment.offset, self.name))
    }
}

/// The stored bytes of a segment on their way to a reader.
pub(super) enum SegmentBytes {
    Local { file: Arc<File>, at: u64, end: u64 },
    Whole(Cursor<Vec<u8>>),
}

impl Read for SegmentBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local { file, at, end } => {
                let len = to_usize_limit(end.saturating_sub(*at)).min(buffer.len());
                let read = file.read_at(buffer.get_mut(..len).unwrap_or_default(), *at)?;
                *at += to_u64(read);
                Ok(read)
            }
            Self::Whole(bytes) => bytes.read(buffer),
        }
    }
}

fn read_stream(
    stream: &mut BoxStream<'static, Result<Vec<u8>>>,
    rest: &mut Vec<u8>,
    at: &mut u64,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>> {
    let skip = to_usize_limit(offset.saturating_sub(*at));
    while rest.len() < skip.saturating_add(len) {
        let Some(chunk) = futures::executor::block_on(stream.next()).transpose()? else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        rest.extend_from_slice(&chunk);
    }
    let bytes = rest.get(skip..skip + len).unwrap_or_default().to_vec();
    rest.drain(..skip + len);
    *at = offset + to_u64(len);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::disk_manager::DiskManagerBuilder;
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn segments_of_runs_are_reserved_until_they_are_spliced() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ledger = Ledger::unspillable("test", &pool);
        let disk = Arc::new(DiskManagerBuilder::default().build().unwrap());
        let mut spills = Spills::new(disk, "test".into(), &ledger);
        for runs in 1..=3 {
            let blocks = || vec![BlockBytes { bytes: &[1, 2, 3], rows: 1 }];
            spills.write((0..1000).map(|partition| (partition, blocks()))).unwrap();
            let least = runs * 1000 * size_of::<(usize, StoredSegment)>();
            assert!((least..2 * least).contains(&pool.reserved()), "{}", pool.reserved());
        }
        let before = pool.reserved();
        let (readers, held) = spills.into_readers().unwrap();
        assert_eq!((readers.len(), pool.reserved()), (3, before));
        drop((readers, held));
        assert_eq!(pool.reserved(), 0);
    }
}
