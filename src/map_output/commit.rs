//! Files of map outputs: names, the commit of a pair, removal.

use std::fmt;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;

use super::cancel::Cancel;
use super::index::IndexLayout;
use super::open::read_trailer;
use super::source::{LocalOutput, SegmentSource};
use super::step::{CommitStep, Observer};
use super::trailer::Trailer;
use crate::codec::{to_u64, to_usize_limit};
use crate::error::{Fault, IFileError, Place, Result};
use crate::map_status::AttemptId;

/// Names the output of a map task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputName {
    /// The shuffle.
    pub shuffle: u64,
    /// The map task.
    pub map_id: u64,
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shuffle_{}_{}", self.shuffle, self.map_id)
    }
}

impl OutputName {
    /// The output that a store has in a file of this path.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        Self::parse(path.file_stem()?.to_str()?)
    }

    /// The name in a file name without its extension.
    fn parse(stem: &str) -> Option<Self> {
        let (shuffle, map_id) = stem.strip_prefix("shuffle_")?.split_once('_')?;
        Some(Self { shuffle: shuffle.parse().ok()?, map_id: map_id.parse().ok()? })
    }
}

/// Bytes of an index that are read at a time to compare its checksum.
const HASHED_BYTES: usize = 64 * 1024;

/// A directory of map outputs.
#[derive(Clone)]
pub struct OutputStore {
    directory: PathBuf,
    fsync: bool,
    observer: Option<Observer>,
    /// Names of the data file and the index, where they do not follow from that of the output.
    file_names: Option<[Arc<str>; 2]>,
}

impl fmt::Debug for OutputStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputStore")
            .field("directory", &self.directory)
            .field("fsync", &self.fsync)
            .finish_non_exhaustive()
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The attempt whose pair is in place.
    pub attempt_id: AttemptId,
    /// Whether that is the attempt that asked; else another was there before, and this one was discarded.
    pub ours: bool,
    /// The data file.
    pub data: PathBuf,
    /// The index.
    pub index: PathBuf,
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> IFileError {
    let file = Some(path.display().to_string().into());
    IFileError::Io { action, place: Place { file, ..Place::default() }, source }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl OutputStore {
    /// The outputs in `directory`, which exists.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), fsync: false, observer: None, file_names: None }
    }

    /// The same for the only output of a directory, whose files are called `data` and `index`.
    #[must_use]
    pub fn with_file_names(self, data: &str, index: &str) -> Self {
        Self { file_names: Some([data.into(), index.into()]), ..self }
    }

    /// Whether files and directory are synchronized before an output counts as committed.
    #[must_use]
    pub fn with_fsync(self, fsync: bool) -> Self {
        Self { fsync, ..self }
    }

    /// Calls `observer` after each step of a commit. Its error is that of the step.
    #[must_use]
    pub fn with_observer(
        self,
        observer: impl Fn(CommitStep) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The data file of an output.
    #[must_use]
    pub fn data_path(&self, name: OutputName) -> PathBuf {
        match &self.file_names {
            Some([data, _]) => self.directory.join(&**data),
            None => self.directory.join(format!("{name}.data")),
        }
    }

    /// The index of an output.
    #[must_use]
    pub fn index_path(&self, name: OutputName) -> PathBuf {
        match &self.file_names {
            Some([_, index]) => self.directory.join(&**index),
            None => self.directory.join(format!("{name}.index")),
        }
    }

    /// The output as a source for readers.
    #[must_use]
    pub fn source(&self, name: OutputName, layout: IndexLayout) -> LocalOutput {
        let (data, index) = (self.data_path(name), self.index_path(name));
        LocalOutput::new(name.map_id, data, index, layout).with_output_name(name)
    }

    /// Ends a step of a commit, which was for the file `path`.
    fn end(&self, step: CommitStep, path: &Path, outcome: io::Result<()>) -> Result<()> {
        let observer = self.observer.as_ref();
        let seen = outcome.and_then(|()| observer.map_or(Ok(()), |observer| observer(step)));
        seen.map_err(|error| io_error(step.action(), path, error))
    }

    /// A step that synchronizes, if that is asked for.
    fn sync(
        &self,
        step: CommitStep,
        path: &Path,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> Result<()> {
        if self.fsync { self.end(step, path, sync()) } else { Ok(()) }
    }

    /// Begins an attempt: opens its data file under a temporary name, and removes what killed attempts left.
    pub(super) fn begin(&self, name: OutputName, attempt_id: AttemptId) -> Result<Pending> {
        let lock = self.lock(name)?;
        self.remove_dead(name)?;
        let data = self.directory.join(format!(".{name}.{attempt_id}.data.tmp"));
        let index = self.directory.join(format!(".{name}.{attempt_id}.index.tmp"));
        let failed = |error| io_error("create map output", &data, error);
        let file = OpenOptions::new().create_new(true).write(true).open(&data).map_err(failed)?;
        let pending = Pending { store: self.clone(), name, attempt_id, data, index, file };
        // As long as the lock on it is held, the attempt is alive.
        let locked = pending.file.lock();
        locked.map_err(|error| io_error("lock map output", &pending.data, error))?;
        drop(lock);
        Ok(pending)
    }

    /// The lock of an output. Its file is removed by whoever holds it last; a lock on a file that is no longer there does not
    /// count.
    fn lock(&self, name: OutputName) -> Result<Lock> {
        let path = self.lock_path(name);
        let failed = |error| io_error("lock map output", &path, error);
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(failed)?;
            file.lock().map_err(failed)?;
            let ours = file.metadata().map_err(failed)?;
            match fs::metadata(&path) {
                Ok(now) if now.ino() == ours.ino() => return Ok(Lock { _file: file, path }),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn lock_path(&self, name: OutputName) -> PathBuf {
        self.directory.join(format!(".{name}.lock"))
    }

    /// Waits for whoever holds the lock of an output, if anybody does. A lock that cannot be asked for, for want of rights
    /// say, is not waited for. Blocks the thread.
    pub(super) fn await_lock(&self, name: OutputName) {
        if let Ok(file) = File::open(self.lock_path(name)) {
            // Whether it comes or fails, nothing is done under it.
            drop(file.lock_shared());
        }
    }

    /// Removes temporary files of an output whose attempts are dead. The lock is held.
    fn remove_dead(&self, name: OutputName) -> Result<()> {
        let prefix = format!(".{name}.");
        for entry in self.entries()? {
            let entry = entry?;
            let file_name = entry.file_name();
            let rest = file_name.to_str().and_then(|file| file.strip_prefix(&prefix));
            let attempt = rest.and_then(|rest| rest.strip_suffix(".tmp")?.split('.').next());
            let Some(attempt) = attempt else { continue };
            if is_dead(&self.directory.join(format!("{prefix}{attempt}.data.tmp"))) {
                let path = entry.path();
                absent_is_fine(fs::remove_file(&path))
                    .map_err(|error| io_error("remove map output", &path, error))?;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Result<impl Iterator<Item = Result<DirEntry>>> {
        let failed = |error| io_error("list map outputs", &self.directory, error);
        let entries = fs::read_dir(&self.directory).map_err(failed)?;
        Ok(entries.map(move |entry| entry.map_err(failed)))
    }

    /// The trailer of an output's pair, if it is valid: both files are complete and of one attempt.
    fn valid_pair(&self, name: OutputName) -> Result<Option<Trailer>> {
        let (data, index) = (self.data_path(name), self.index_path(name));
        match read_pair(&data, &index) {
            Ok(trailer) => Ok(Some(trailer)),
            Err(IFileError::Corrupt(_)) => Ok(None),
            Err(IFileError::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The epoch of an output's pair, if it has a valid one. Blocks the thread.
    ///
    /// # Errors
    /// Those of the file system.
    #[cfg(feature = "ballista")]
    pub(crate) fn epoch_of(&self, name: OutputName) -> Result<Option<u64>> {
        Ok(self.valid_pair(name)?.map(|trailer| trailer.epoch))
    }

    /// Whether an output has a valid pair.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn exists(&self, name: OutputName) -> Result<bool> {
        Ok(self.valid_pair(name)?.is_some())
    }

    /// Removes an output. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, name: OutputName) -> Result<bool> {
        let _lock = self.lock(name)?;
        self.remove_dead(name)?;
        self.unlink(name)
    }

    fn unlink(&self, name: OutputName) -> Result<bool> {
        let mut there = false;
        for path in [self.index_path(name), self.data_path(name)] {
            there |= absent_is_fine(fs::remove_file(&path))
                .map_err(|error| io_error("remove map output", &path, error))?;
        }
        Ok(there)
    }

    /// Removes the outputs of a shuffle that were written before `epoch`, or that are not valid, and what dead attempts at
    /// any of its outputs left. Returns the names of the outputs, ascending.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove_before(&self, shuffle: u64, epoch: u64) -> Result<Vec<OutputName>> {
        let mut names = Vec::new();
        for entry in self.entries()? {
            let file = PathBuf::from(entry?.file_name());
            let name = hidden(&file).or_else(|| OutputName::of_file(&file));
            names.extend(name.filter(|name| name.shuffle == shuffle));
        }
        names.sort_unstable();
        names.dedup();
        let mut removed = Vec::new();
        for name in names {
            let _lock = self.lock(name)?;
            self.remove_dead(name)?;
            let kept = self.valid_pair(name)?.is_some_and(|trailer| trailer.epoch >= epoch);
            if !kept && self.unlink(name)? {
                removed.push(name);
            }
        }
        Ok(removed)
    }
}

/// The output of a lock or a temporary file.
fn hidden(path: &Path) -> Option<OutputName> {
    let (stem, _) = path.file_name()?.to_str()?.strip_prefix('.')?.split_once('.')?;
    OutputName::parse(stem)
}

/// Whether the attempt with this data file is known to be dead: the file is gone, or nobody holds its lock. What cannot
/// be opened or asked, for want of descriptors say, may be alive.
fn is_dead(data: &Path) -> bool {
    match File::open(data) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Checks that both files are complete and of one attempt.
fn read_pair(data: &Path, index: &Path) -> Result<Trailer> {
    let mut open = LocalOutput::new(0, data, index, IndexLayout::IFile).open()?;
    let name: Arc<str> = data.display().to_string().into();
    let Some(trailer) = read_trailer(open.as_mut(), &name)? else {
        return Err(IFileError::Usage("read the trailer of a part of a data file"));
    };
    let (len, mut at) = (open.index_len()?, 0);
    let (mut hasher, mut buffer) = (Hasher::new(), vec![0; HASHED_BYTES]);
    while at < len {
        let bytes =
            buffer.get_mut(..to_usize_limit(len - at).min(HASHED_BYTES)).unwrap_or_default();
        open.read_index(at, bytes)?;
        hasher.update(bytes);
        at += to_u64(bytes.len());
    }
    let found = hasher.finalize();
    if found != trailer.index_crc {
        let file = Some(index.display().to_string().into());
        let fault = Fault::Checksum { expected: trailer.index_crc, found };
        return Err(IFileError::corrupt(fault, Place { file, ..Place::default() }));
    }
    Ok(trailer)
}

struct Lock {
    _file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever waits for it sees that it is gone and takes a new one. A file that stays is taken again.
        drop(fs::remove_file(&self.path));
    }
}

/// An attempt in progress. Dropping it removes its files.
pub(super) struct Pending {
    store: OutputStore,
    name: OutputName,
    attempt_id: AttemptId,
    data: PathBuf,
    index: PathBuf,
    file: File,
}

impl Pending {
    pub(super) fn data_path(&self) -> &Path {
        &self.data
    }

    /// The data file, for writing.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the pair in place, or finds that an earlier attempt of this epoch or a later one did. All of the data but its
    /// trailer is written. A cancelled attempt leaves what is there.
    pub(super) fn commit(
        self,
        trailer: &Trailer,
        index: &[u8],
        cancel: &Cancel,
    ) -> Result<Committed> {
        let store = &self.store;
        let data_written = (&self.file).write_all(&trailer.encode());
        store.end(CommitStep::DataWritten, &self.data, data_written)?;
        store.sync(CommitStep::DataSynced, &self.data, || self.file.sync_all())?;
        let mut file = File::create(&self.index)
            .map_err(|error| io_error(CommitStep::IndexWritten.action(), &self.index, error))?;
        store.end(CommitStep::IndexWritten, &self.index, file.write_all(index))?;
        store.sync(CommitStep::IndexSynced, &self.index, || file.sync_all())?;
        let (data, index) = (store.data_path(self.name), store.index_path(self.name));
        let _lock = store.lock(self.name)?;
        if let Some(known) = store.valid_pair(self.name)?
            && known.epoch >= trailer.epoch
        {
            return Ok(Committed { attempt_id: known.attempt_id, ours: false, data, index });
        }
        store.end(CommitStep::Locked, &data, Ok(()))?;
        cancel.check().map_err(|error| io_error("commit map output", &data, error))?;
        self.put_in_place(&data, &index).inspect_err(|_| {
            // A half of a pair is of no use, and one that is not synchronized must not be found by the next attempt. Where
            // the old index could not be removed, it stays with its data.
            if let Err(error) = store.unlink(self.name) {
                log::warn!("what is left of {} stays: {error}", self.name);
            }
        })?;
        Ok(Committed { attempt_id: self.attempt_id, ours: true, data, index })
    }

    fn put_in_place(&self, data: &Path, index: &Path) -> Result<()> {
        let store = &self.store;
        let unlinked = absent_is_fine(fs::remove_file(index)).map(drop);
        store.end(CommitStep::OldIndexUnlinked, index, unlinked)?;
        store.end(CommitStep::DataRenamed, data, fs::rename(&self.data, data))?;
        store.end(CommitStep::IndexRenamed, index, fs::rename(&self.index, index))?;
        let directory = &store.directory;
        store.sync(CommitStep::DirectorySynced, directory, || File::open(directory)?.sync_all())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a commit they have other names.
        drop(fs::remove_file(&self.data));
        drop(fs::remove_file(&self.index));
    }
}
