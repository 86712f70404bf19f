//! Spill backends that fail at the n-th call of a kind.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tempfile::NamedTempFile;

/// Text of every error that is made here.
pub(crate) const FAULT: &str = "the disk says no";

/// What goes wrong; numbers count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Create(usize),
    Write(usize),
    /// A write takes a part of its bytes, every other time after an interruption.
    ShortWrites,
    /// A write takes no bytes.
    NoProgress(usize),
    WritePanic(usize),
    Flush(usize),
    Finish(usize),
    Read(usize),
    /// A write is reported as done and its last byte is lost.
    LostByte(usize),
    /// A write changes a byte.
    ChangedByte(usize),
    /// A stream ends before its end.
    ShortRead(usize),
    /// A file with a path has no bytes when it is finished.
    Truncated(usize),
    /// It has no path any more.
    Removed(usize),
}

/// Where scratch files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// The default of DataFusion, in a directory of the test.
    Plain,
    /// The same, with so many bytes.
    Quota(u64),
    Disabled,
    /// Directories of the exchange itself.
    Own,
    /// A backend of files with paths.
    Local(Fault),
    /// A backend without paths, whose streams need a blocking thread where `blocking` says so.
    Remote {
        fault: Fault,
        blocking: bool,
    },
}

pub(crate) struct FaultyDisk {
    fault: Fault,
    /// `None` for a backend without paths.
    directory: Option<PathBuf>,
    blocking: bool,
    creates: AtomicUsize,
    writes: AtomicUsize,
    flushes: AtomicUsize,
    finishes: AtomicUsize,
    reads: AtomicUsize,
    short_reads: AtomicUsize,
    struck: AtomicUsize,
    live: AtomicUsize,
    last_write_bytes: AtomicUsize,
}

impl FaultyDisk {
    pub(crate) fn new(fault: Fault, directory: Option<PathBuf>, blocking: bool) -> Arc<Self> {
        Arc::new(Self {
            fault,
            directory,
            blocking,
            creates: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            flushes: AtomicUsize::new(0),
            finishes: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            short_reads: AtomicUsize::new(0),
            struck: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            last_write_bytes: AtomicUsize::new(0),
        })
    }

    /// How often the fault occurred.
    pub(crate) fn struck(&self) -> usize {
        self.struck.load(Ordering::SeqCst)
    }

    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// What the last write was asked to take.
    #[allow(dead_code, reason = "for the tests of map outputs")]
    pub(crate) fn last_write_bytes(&self) -> usize {
        self.last_write_bytes.load(Ordering::SeqCst)
    }

    /// Files that exist.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    /// Counts a call of a kind; whether it is the one of `fault`.
    fn hits(&self, counter: &AtomicUsize, fault: impl Fn(usize) -> Fault) -> bool {
        let call = counter.fetch_add(1, Ordering::SeqCst) + 1;
        let hit = fault(call) == self.fault;
        self.struck.fetch_add(usize::from(hit), Ordering::SeqCst);
        hit
    }
}

/// The factory that a disk manager takes.
pub(crate) struct Factory(pub(crate) Arc<FaultyDisk>);

impl TempFileFactory for Factory {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let disk = &self.0;
        if disk.hits(&disk.creates, Fault::Create) {
            return exec_err!("{FAULT}");
        }
        disk.live.fetch_add(1, Ordering::SeqCst);
        let store = match &disk.directory {
            Some(directory) => Store::File(NamedTempFile::new_in(directory)?),
            None => Store::Bytes(Arc::default()),
        };
        Ok(Arc::new(FaultyFile { disk: Arc::clone(disk), store }))
    }
}

enum Store {
    File(NamedTempFile),
    Bytes(Arc<Mutex<Vec<u8>>>),
}

struct FaultyFile {
    disk: Arc<FaultyDisk>,
    store: Store,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.disk.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SpillFile for FaultyFile {
    fn path(&self) -> Option<&Path> {
        match &self.store {
            Store::File(file) => Some(file.path()),
            Store::Bytes(_) => None,
        }
    }

    fn size(&self) -> Option<u64> {
        None
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let Store::Bytes(bytes) = &self.store else { return exec_err!("read by path") };
        let chunks: Vec<_> = bytes.lock().chunks(1000).map(Bytes::copy_from_slice).collect();
        let disk = Arc::clone(&self.disk);
        let ends = Arc::clone(&disk);
        let short = move |_: &Bytes| {
            futures::future::ready(!ends.hits(&ends.short_reads, Fault::ShortRead))
        };
        Ok(Box::pin(futures::stream::iter(chunks).take_while(short).then(move |chunk| {
            let disk = Arc::clone(&disk);
            async move {
                if disk.hits(&disk.reads, Fault::Read) {
                    return exec_err!("{FAULT}");
                }
                if !disk.blocking {
                    return Ok(chunk);
                }
                let chunk = tokio::task::spawn_blocking(move || chunk).await;
                chunk.map_err(|error| DataFusionError::External(Box::new(error)))
            }
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let sink: Box<dyn Write + Send> = match &self.store {
            Store::File(file) => Box::new(file.as_file().try_clone()?),
            Store::Bytes(bytes) => Box::new(Shared(Arc::clone(bytes))),
        };
        let path = self.path().map(Path::to_path_buf);
        Ok(Box::new(FaultyWriter { disk: Arc::clone(&self.disk), path, sink }))
    }
}

struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct FaultyWriter {
    disk: Arc<FaultyDisk>,
    path: Option<PathBuf>,
    sink: Box<dyn Write + Send>,
}

impl Write for FaultyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let disk = &self.disk;
        disk.last_write_bytes.store(bytes.len(), Ordering::SeqCst);
        if disk.fault == Fault::ShortWrites {
            let call = disk.writes.fetch_add(1, Ordering::SeqCst);
            if call.is_multiple_of(2) {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            return self.sink.write(&bytes[..bytes.len().div_ceil(3)]);
        }
        let call = |call| match disk.fault {
            Fault::Write(_) => Fault::Write(call),
            Fault::NoProgress(_) => Fault::NoProgress(call),
            Fault::WritePanic(_) => Fault::WritePanic(call),
            Fault::LostByte(_) => Fault::LostByte(call),
            _ => Fault::ChangedByte(call),
        };
        if !disk.hits(&disk.writes, call) {
            self.sink.write_all(bytes)?;
            return Ok(bytes.len());
        }
        match disk.fault {
            Fault::NoProgress(_) => Ok(0),
            Fault::WritePanic(_) => panic!("{FAULT}"),
            Fault::LostByte(_) => {
                self.sink.write_all(&bytes[..bytes.len() - 1])?;
                Ok(bytes.len())
            }
            Fault::ChangedByte(_) => {
                let mut changed = bytes.to_vec();
                changed[bytes.len() / 2] ^= 0x10;
                self.sink.write_all(&changed)?;
                Ok(bytes.len())
            }
            _ => Err(io::Error::other(FAULT)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.disk.hits(&self.disk.flushes, Fault::Flush) {
            return Err(io::Error::other(FAULT));
        }
        self.sink.flush()
    }
}

impl SpillWriter for FaultyWriter {
    fn finish(&mut self) -> Result<()> {
        let fault = self.disk.fault;
        let call = |call| match fault {
            Fault::Truncated(_) => Fault::Truncated(call),
            Fault::Removed(_) => Fault::Removed(call),
            _ => Fault::Finish(call),
        };
        let hit = self.disk.hits(&self.disk.finishes, call);
        match (&self.path, fault) {
            _ if !hit => Ok(()),
            (Some(path), Fault::Truncated(_)) => {
                Ok(OpenOptions::new().write(true).open(path)?.set_len(0)?)
            }
            (Some(path), Fault::Removed(_)) => Ok(std::fs::remove_file(path)?),
            _ => exec_err!("{FAULT}"),
        }
    }
}
