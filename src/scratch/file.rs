use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::{SpillFile, SpillWriter};
use futures::StreamExt;

/// Fetches of blocks whose distance in a file is at most this share one read.
const MAX_READ_GAP: u64 = 4096;

/// A scratch file and how to read it. It is deleted with its last reference.
pub(crate) struct ScratchFile {
    spill: Arc<dyn SpillFile>,
    /// `None` where the backend has no local path.
    local: Option<File>,
    name: Arc<str>,
}

impl fmt::Debug for ScratchFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScratchFile").field(&self.name).finish()
    }
}

impl ScratchFile {
    /// Creates a file for the exchange `owner`, and its writer.
    ///
    /// # Errors
    /// When scratch files are disabled, naming the setting, or the file cannot be made.
    pub(super) fn create(
        disk: &Arc<DiskManager>,
        owner: &str,
    ) -> Result<(Arc<Self>, Box<dyn SpillWriter>)> {
        if !disk.tmp_files_enabled() {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{owner} needs to spill, but the DiskManager is disabled: set \
                 datafusion.runtime.temp_directory (DiskManagerMode), or raise \
                 datafusion.runtime.memory_limit"
            )));
        }
        let spill = disk.create_tmp_file(owner)?;
        let local = spill.path().map(|path| (File::open(path), path.display().to_string()));
        let (local, name) = match local {
            Some((file, name)) => (Some(file?), name),
            None => (None, format!("scratch file of {owner}")),
        };
        let writer = spill.open_writer()?;
        Ok((Arc::new(Self { spill, local, name: name.into() }), writer))
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn has_path(&self) -> bool {
        self.local.is_some()
    }

    /// Reads `len` bytes at `offset` of the local file.
    fn read(&self, offset: u64, len: usize) -> Result<Buffer> {
        let file = self.local.as_ref().ok_or_else(|| {
            internal_datafusion_err!("{} has no local path to read from", self.name)
        })?;
        let mut bytes = vec![0; len];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(Buffer::from_vec(bytes)),
            Err(error) => Err(self.failed_read(error.into(), offset, len)),
        }
    }

    /// Reads `len` bytes at `offset` of a file without a local path, from its start.
    async fn read_stream(&self, offset: u64, len: usize) -> Result<Buffer> {
        let mut skip = usize::try_from(offset)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut bytes = Vec::with_capacity(len);
        let mut stream = self.spill.read_stream()?;
        while bytes.len() < len {
            let chunk = match stream.next().await {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return Err(self.failed_read(error, offset, len)),
                None => {
                    let short = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(self.failed_read(short.into(), offset, len));
                }
            };
            let rest = chunk.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(chunk.len());
            let more = rest.len().min(len - bytes.len());
            bytes.extend_from_slice(rest.get(..more).unwrap_or_default());
        }
        Ok(Buffer::from_vec(bytes))
    }

    fn failed_read(&self, error: DataFusionError, offset: u64, len: usize) -> DataFusionError {
        error.context(format!("reading {len} bytes at offset {offset} of {}", self.name))
    }
}

/// A block in a scratch file. The file lives as long as one of its blocks.
#[derive(Debug, Clone)]
pub(crate) struct StoredBlock {
    pub(super) file: Arc<ScratchFile>,
    pub(super) partition: usize,
    pub(super) offset: u64,
    pub(super) len: usize,
}

impl StoredBlock {
    /// Stored bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the block is, for errors.
    pub(crate) fn place(&self) -> String {
        format!("partition {}, offset {} of {}", self.partition, self.offset, self.file.name)
    }

    /// Reads `blocks`, those that lie next to each other together.
    ///
    /// # Errors
    /// Those of the file, naming it, the offset and the length.
    pub(crate) fn read_all(blocks: &[&StoredBlock]) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(blocks.len());
        let mut rest = blocks;
        while let Some((first, _)) = rest.split_first() {
            let mut end = first.end();
            let mut count = 1;
            for next in rest.get(1..).unwrap_or_default() {
                let near = next.offset.checked_sub(end).is_some_and(|gap| gap <= MAX_READ_GAP);
                if !near || !Arc::ptr_eq(&first.file, &next.file) {
                    break;
                }
                end = next.end();
                count += 1;
            }
            let (group, others) = rest.split_at(count);
            let len = usize::try_from(end - first.offset)
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
            let bytes = first.file.read(first.offset, len)?;
            for block in group {
                let start = usize::try_from(block.offset - first.offset)
                    .map_err(|error| DataFusionError::External(Box::new(error)))?;
                buffers.push(bytes.slice_with_length(start, block.len));
            }
            rest = others;
        }
        Ok(buffers)
    }

    /// Whether the block is in a file without a local path, which only
    /// [`read_streamed`](Self::read_streamed) reads.
    pub(crate) fn is_streamed(&self) -> bool {
        !self.file.has_path()
    }

    /// Reads `blocks` from files without a local path.
    ///
    /// # Errors
    /// Those of the backend, naming the file, the offset and the length.
    pub(crate) async fn read_streamed(blocks: &[&StoredBlock]) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(blocks.len());
        for block in blocks {
            buffers.push(block.file.read_stream(block.offset, block.len).await?);
        }
        Ok(buffers)
    }

    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}
