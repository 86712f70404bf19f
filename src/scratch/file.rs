use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result};
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

    /// Reads `len` bytes at `offset`.
    fn read(&self, offset: u64, len: usize) -> Result<Buffer> {
        let read = match &self.local {
            Some(file) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset)
                    .map(|()| Buffer::from_vec(bytes))
                    .map_err(DataFusionError::from)
            }
            None => self.read_stream(offset, len),
        };
        read.map_err(|error| {
            error.context(format!("reading {len} bytes at offset {offset} of {}", self.name))
        })
    }

    fn read_stream(&self, offset: u64, len: usize) -> Result<Buffer> {
        let mut skip =
            usize::try_from(offset).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut bytes = Vec::with_capacity(len);
        let mut stream = self.spill.read_stream()?;
        tokio::runtime::Handle::current().block_on(async {
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                let rest = chunk.get(skip..).unwrap_or_default();
                skip = skip.saturating_sub(chunk.len());
                let more = rest.len().min(len - bytes.len());
                bytes.extend_from_slice(rest.get(..more).unwrap_or_default());
                if bytes.len() == len {
                    return Ok(Buffer::from_vec(bytes));
                }
            }
            Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into())
        })
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

    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}
