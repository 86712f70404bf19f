use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::SpillFile;
use futures::StreamExt;
use parking_lot::Mutex;

use super::punch;
use super::query::QueryScratch;
use super::root::Root;
use super::space::FileSpace;
use super::usage::ScratchMetrics;
use crate::memory::Permit;

/// A scratch file: how to read it, and which of its bytes are in use. It is deleted with its last
/// reference.
///
/// The lock of its space is held to look ranges up, never across IO.
pub(crate) struct ScratchFile {
    name: Arc<str>,
    backing: Backing,
    /// Kept while the file is written to. A managed file that was rotated is read by a handle of the
    /// moment, so that it costs the one descriptor that DataFusion keeps.
    handle: Mutex<Option<Arc<File>>>,
    metrics: ScratchMetrics,
    space: Mutex<(FileSpace, Permit)>,
}

/// Whose file it is.
pub(super) enum Backing {
    /// DataFusion's, with a path or as a stream. Its writer charges what it appends.
    Managed(Arc<dyn SpillFile>),
    /// Ours.
    Own { path: PathBuf, root: Arc<Root>, query: Arc<QueryScratch> },
}

impl fmt::Debug for ScratchFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScratchFile").field(&self.name).finish()
    }
}

impl ScratchFile {
    /// A file without bytes. `handle` is one to read and write it, if it has a path; `permit` is one
    /// for nothing.
    pub(super) fn new(
        name: Arc<str>,
        backing: Backing,
        handle: Option<File>,
        punches: bool,
        metrics: ScratchMetrics,
        permit: Permit,
    ) -> Self {
        let handle = Mutex::new(handle.map(Arc::new));
        let space = Mutex::new((FileSpace::new(punches), permit));
        Self { name, backing, handle, metrics, space }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The path, unless the backend has none.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.backing {
            Backing::Managed(spill) => spill.path(),
            Backing::Own { path, .. } => Some(path),
        }
    }

    /// Length of the file.
    pub(super) fn end(&self) -> u64 {
        self.space.lock().0.end()
    }

    /// Opens a file for reads, and for writes where it may be written.
    pub(super) fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    fn handle(&self) -> io::Result<Arc<File>> {
        if let Some(file) = &*self.handle.lock() {
            return Ok(Arc::clone(file));
        }
        let path = self.path().ok_or_else(|| io::Error::other("a file without a path"))?;
        Self::open(path).map(Arc::new)
    }

    /// The file is not appended to any more.
    pub(super) fn close_handle(&self) {
        *self.handle.lock() = None;
    }

    /// Takes a consumed range; its offset. `None` without one, or beyond a limit.
    pub(super) fn take_gap(&self, len: u64) -> Option<u64> {
        let mut locked = self.space.lock();
        let (mut range, fresh) = locked.0.fit(len)?;
        if matches!(self.backing, Backing::Own { .. }) && !self.charge(fresh) {
            // At a limit only blocks that the file still has are to be had.
            range = locked.0.fit_charged(len)?;
        }
        locked.0.take(&range);
        self.settle(&mut locked);
        drop(locked);
        self.metrics.live(len);
        self.metrics.reused.add(usize::try_from(len).unwrap_or(usize::MAX));
        Some(range.start)
    }

    /// Takes `len` bytes at the end; their offset. `None` beyond a limit.
    pub(super) fn append(&self, len: u64) -> Option<u64> {
        if !self.charge(len) {
            return None;
        }
        let range = self.space.lock().0.append(len);
        self.metrics.live(len);
        Some(range.start)
    }

    fn charge(&self, bytes: u64) -> bool {
        if let Backing::Own { root, query, .. } = &self.backing {
            if !root.quota.take(bytes) {
                return false;
            }
            if !query.quota.take(bytes) {
                root.quota.give_back(bytes);
                return false;
            }
        }
        self.metrics.charge(bytes);
        true
    }

    fn discharge(&self, bytes: u64) {
        if let Backing::Own { root, query, .. } = &self.backing {
            root.quota.give_back(bytes);
            query.quota.give_back(bytes);
        }
        self.metrics.discharge(bytes);
    }

    /// Nobody will read `range` again.
    pub(super) fn release(&self, range: Range<u64>) {
        self.metrics.dead(range.end - range.start);
        let mut locked = self.space.lock();
        locked.0.release(range);
        self.settle(&mut locked);
    }

    /// Charges the memory of the ranges.
    fn settle(&self, locked: &mut (FileSpace, Permit)) {
        let (space, permit) = locked;
        permit.resize(space.metadata_bytes());
    }

    /// Gives the blocks of consumed ranges back to the file system. Blocks the thread.
    pub(super) fn punch_holes(&self) {
        let holes = self.space.lock().0.take_holes();
        if holes.is_empty() {
            return;
        }
        let file = self.handle();
        for hole in holes {
            let len = hole.end - hole.start;
            let punched = match &file {
                Ok(file) => punch::punch(file, &hole),
                Err(error) => Err(io::Error::from(error.kind())),
            };
            if let Err(error) = &punched {
                log::warn!("no hole of {len} bytes at {} of {}: {error}", hole.start, self.name);
            } else {
                self.metrics.punched.add(usize::try_from(len).unwrap_or(usize::MAX));
                if matches!(self.backing, Backing::Own { .. }) {
                    self.discharge(len);
                }
            }
            let mut locked = self.space.lock();
            locked.0.punched(hole, punched.is_ok());
            self.settle(&mut locked);
        }
    }

    /// Makes sure that there are blocks for `range`.
    pub(super) fn preallocate(&self, range: &Range<u64>) -> io::Result<()> {
        punch::preallocate(&*self.handle()?, range)
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.handle()?.write_all_at(bytes, offset)
    }

    /// Reads `len` bytes at `offset`.
    pub(super) fn read(&self, offset: u64, len: usize) -> Result<Buffer> {
        let read = || {
            let mut bytes = vec![0; len];
            self.handle()?.read_exact_at(&mut bytes, offset)?;
            Ok(Buffer::from_vec(bytes))
        };
        read().map_err(|error: io::Error| self.failed_read(offset, len, error.into()))
    }

    /// Reads `len` bytes at `offset` from the stream of a file without a path.
    pub(super) async fn stream(&self, offset: u64, len: usize) -> Result<Buffer> {
        let read = self.read_stream(offset, len).await;
        read.map_err(|error| self.failed_read(offset, len, error))
    }

    fn failed_read(&self, offset: u64, len: usize, error: DataFusionError) -> DataFusionError {
        error.context(format!("reading {len} bytes at offset {offset} of {}", self.name))
    }

    async fn read_stream(&self, offset: u64, len: usize) -> Result<Buffer> {
        let Backing::Managed(spill) = &self.backing else {
            return internal_err!("a file with a path is not read as a stream");
        };
        let mut skip = to_usize(offset)?;
        let mut bytes = Vec::with_capacity(len);
        let mut stream = spill.read_stream()?;
        while bytes.len() < len {
            let Some(chunk) = stream.next().await.transpose()? else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            };
            let rest = chunk.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(chunk.len());
            let more = rest.len().min(len - bytes.len());
            bytes.extend_from_slice(rest.get(..more).unwrap_or_default());
        }
        Ok(Buffer::from_vec(bytes))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let space = &self.space.get_mut().0;
        let held = match &self.backing {
            Backing::Managed(_) => space.end(),
            Backing::Own { .. } => space.held_bytes(),
        };
        self.discharge(held);
        if let Backing::Own { path, .. } = &self.backing
            && let Err(error) = std::fs::remove_file(path)
        {
            log::warn!("{} stays behind: {error}", self.name);
        }
    }
}

pub(super) fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|error| DataFusionError::External(Box::new(error)))
}
