//! Where a reader gets the bytes of a map output from.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;

use super::commit::{OutputName, OutputStore};
use super::index::IndexLayout;
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};

/// A map output that can be opened. Whatever it gives is verified the same way.
pub trait SegmentSource: fmt::Debug + Send + Sync {
    /// The map task that wrote it.
    fn map_id(&self) -> u64;

    /// Its name in errors.
    fn name(&self) -> Arc<str>;

    /// Layout of its index.
    fn layout(&self) -> IndexLayout;

    /// Opens data and index. May block.
    ///
    /// # Errors
    /// [`IFileError::Io`] if there is none.
    fn open(&self) -> Result<Box<dyn OpenSegments>>;

    /// The same output, open: whoever opens what is returned shares its files. `None` where every reader has to open the
    /// output itself. May block.
    ///
    /// # Errors
    /// Those of [`SegmentSource::open`].
    fn to_shared(&self) -> Result<Option<Arc<dyn SegmentSource>>> {
        Ok(None)
    }

    /// Waits until no commit of the output is under way, where this process can tell. Blocks the thread.
    fn await_commit(&self) {}

    /// The files, if this is an output in local files: what another process can open as well.
    fn as_local(&self) -> Option<&LocalOutput> {
        None
    }
}

/// An open map output. All calls may block; ranges are within the lengths.
pub trait OpenSegments: Send {
    /// Bytes of the index.
    ///
    /// # Errors
    /// Those of the medium.
    fn index_len(&mut self) -> Result<u64>;

    /// Fills `buffer` from `offset` of the index.
    ///
    /// # Errors
    /// Those of the medium, and if there are fewer bytes.
    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Bytes of the data file; `None` if only parts of it are here, and its trailer is not.
    ///
    /// # Errors
    /// Those of the medium.
    fn data_len(&mut self) -> Result<Option<u64>>;

    /// Fills `buffer` from `offset` of the data file.
    ///
    /// # Errors
    /// Those of the medium, and if there are fewer bytes.
    fn read_data(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// A map output in local files, read by position.
#[derive(Debug, Clone)]
pub struct LocalOutput {
    map_id: u64,
    data: PathBuf,
    index: PathBuf,
    layout: IndexLayout,
    /// Under which commits lock it.
    output: Option<OutputName>,
}

impl LocalOutput {
    /// The output of map task `map_id` in these files. Its name follows from that of the data file, where this is one that
    /// an [`OutputStore`] gives.
    pub fn new(
        map_id: u64,
        data: impl Into<PathBuf>,
        index: impl Into<PathBuf>,
        layout: IndexLayout,
    ) -> Self {
        let data = data.into();
        let output = OutputName::of_file(&data);
        Self { map_id, data, index: index.into(), layout, output }
    }

    /// The same, of the output `name` of the directory of its data file.
    #[must_use]
    pub fn with_output_name(self, name: OutputName) -> Self {
        Self { output: Some(name), ..self }
    }

    /// The data file.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Path {
        &self.index
    }
}

impl SegmentSource for LocalOutput {
    fn map_id(&self) -> u64 {
        self.map_id
    }

    fn name(&self) -> Arc<str> {
        self.data.display().to_string().into()
    }

    fn layout(&self) -> IndexLayout {
        self.layout
    }

    fn open(&self) -> Result<Box<dyn OpenSegments>> {
        Ok(Box::new(self.open_files()?))
    }

    fn to_shared(&self) -> Result<Option<Arc<dyn SegmentSource>>> {
        Ok(Some(Arc::new(SharedOutput { local: self.clone(), files: self.open_files()? })))
    }

    fn await_commit(&self) {
        if let (Some(name), Some(directory)) = (self.output, self.data.parent()) {
            OutputStore::new(directory).await_lock(name);
        }
    }

    fn as_local(&self) -> Option<&LocalOutput> {
        Some(self)
    }
}

impl LocalOutput {
    fn open_files(&self) -> Result<OpenFiles> {
        let open = |path: &Path| -> Result<Arc<NamedFile>> {
            let name: Arc<str> = path.display().to_string().into();
            let failed = |source| IFileError::Io {
                action: "open map output",
                place: Place { file: Some(Arc::clone(&name)), ..Place::default() },
                source,
            };
            let file = File::open(path).map_err(failed)?;
            Ok(Arc::new(NamedFile { file, name }))
        };
        // The index goes first: it is renamed last, so its data is there or newer.
        let index = open(&self.index)?;
        Ok(OpenFiles { data: open(&self.data)?, index })
    }
}

/// A map output in local files that are open.
#[derive(Debug)]
struct SharedOutput {
    local: LocalOutput,
    files: OpenFiles,
}

impl SegmentSource for SharedOutput {
    fn map_id(&self) -> u64 {
        self.local.map_id()
    }

    fn name(&self) -> Arc<str> {
        self.local.name()
    }

    fn layout(&self) -> IndexLayout {
        self.local.layout()
    }

    fn open(&self) -> Result<Box<dyn OpenSegments>> {
        Ok(Box::new(self.files.clone()))
    }

    fn as_local(&self) -> Option<&LocalOutput> {
        Some(&self.local)
    }
}

#[derive(Debug)]
struct NamedFile {
    file: File,
    name: Arc<str>,
}

impl NamedFile {
    fn failed(&self, action: &'static str, offset: u64, source: std::io::Error) -> IFileError {
        let place = Place { file: Some(Arc::clone(&self.name)), partition: None, offset };
        IFileError::Io { action, place, source }
    }

    fn len(&self) -> Result<u64> {
        let data =
            self.file.metadata().map_err(|error| self.failed("size map output", 0, error))?;
        Ok(data.len())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| self.failed("read map output", offset, error))
    }
}

/// Read by position, so that readers can share them.
#[derive(Debug, Clone)]
struct OpenFiles {
    data: Arc<NamedFile>,
    index: Arc<NamedFile>,
}

impl OpenSegments for OpenFiles {
    fn index_len(&mut self) -> Result<u64> {
        self.index.len()
    }

    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.index.read(offset, buffer)
    }

    fn data_len(&mut self) -> Result<Option<u64>> {
        self.data.len().map(Some)
    }

    fn read_data(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.data.read(offset, buffer)
    }
}

/// A map output that somebody else has fetched: its index, and the parts of the data file that are wanted.
#[derive(Debug, Clone)]
pub struct FetchedOutput {
    map_id: u64,
    name: Arc<str>,
    layout: IndexLayout,
    index: Buffer,
    /// Offset in the data file and bytes, ascending.
    parts: Vec<(u64, Buffer)>,
    data_len: Option<u64>,
}

impl FetchedOutput {
    /// The output of map task `map_id`, called `name` in errors. `parts` are offsets in the data file and the bytes
    /// there, ascending; a segment lies in one of them.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for a part that begins before the end of the one before it.
    pub fn try_new(
        map_id: u64,
        name: &str,
        layout: IndexLayout,
        index: Buffer,
        parts: Vec<(u64, Buffer)>,
    ) -> Result<Self> {
        let name: Arc<str> = name.into();
        let mut end = 0;
        for &(offset, ref bytes) in &parts {
            if offset < end {
                let (what, file) = ("offset of fetched bytes", Some(Arc::clone(&name)));
                let fault = Fault::Invalid { what, expected: end, found: offset };
                return Err(IFileError::corrupt(fault, Place { file, partition: None, offset }));
            }
            end = offset.saturating_add(to_u64(bytes.len()));
        }
        Ok(Self { map_id, name, layout, index, parts, data_len: None })
    }

    /// The same, where the whole data file was fetched: the ids of data and index are then compared.
    #[must_use]
    pub fn with_whole_data(mut self, data: Buffer) -> Self {
        self.data_len = Some(to_u64(data.len()));
        self.parts = vec![(0, data)];
        self
    }
}

impl SegmentSource for FetchedOutput {
    fn map_id(&self) -> u64 {
        self.map_id
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn layout(&self) -> IndexLayout {
        self.layout
    }

    fn open(&self) -> Result<Box<dyn OpenSegments>> {
        Ok(Box::new(self.clone()))
    }
}

impl FetchedOutput {
    fn copy(&self, from: &[u8], base: u64, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = offset.checked_sub(base).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| from.get(start..)?.get(..buffer.len()));
        match range {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let place = Place { file: Some(Arc::clone(&self.name)), partition: None, offset };
                let (what, expected) = ("fetched bytes", to_u64(buffer.len()));
                let found = base.saturating_add(to_u64(from.len())).saturating_sub(offset);
                let fault = Fault::UnexpectedEnd { what, expected, found: found.min(expected) };
                Err(IFileError::corrupt(fault, place))
            }
        }
    }
}

impl OpenSegments for FetchedOutput {
    fn index_len(&mut self) -> Result<u64> {
        Ok(to_u64(self.index.len()))
    }

    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.copy(&self.index, 0, offset, buffer)
    }

    fn data_len(&mut self) -> Result<Option<u64>> {
        Ok(self.data_len)
    }

    fn read_data(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let at = self.parts.partition_point(|part| part.0 <= offset);
        match at.checked_sub(1).and_then(|at| self.parts.get(at)) {
            Some((base, bytes)) => self.copy(bytes, *base, offset, buffer),
            None => self.copy(&[], offset, offset, buffer),
        }
    }
}
