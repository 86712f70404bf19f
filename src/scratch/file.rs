use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result, internal_err};
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
            None => internal_err!("a file without a path is read as a stream"),
        };
        read.map_err(|error| self.failed_read(offset, len, error))
    }

    /// Reads `len` bytes at `offset` from the stream of a file without a path.
    async fn stream(&self, offset: u64, len: usize) -> Result<Buffer> {
        let read = self.read_stream(offset, len).await;
        read.map_err(|error| self.failed_read(offset, len, error))
    }

    fn failed_read(&self, offset: u64, len: usize, error: DataFusionError) -> DataFusionError {
        error.context(format!("reading {len} bytes at offset {offset} of {}", self.name))
    }

    async fn read_stream(&self, offset: u64, len: usize) -> Result<Buffer> {
        let mut skip = to_usize(offset)?;
        let mut bytes = Vec::with_capacity(len);
        let mut stream = self.spill.read_stream()?;
        while bytes.len() < len {
            let Some(chunk) = stream.next().await.transpose()? else {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            };
            let rest = chunk.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(chunk.len());
            let more = rest.len().min(len - bytes.len());
            bytes.extend_from_slice(rest.get(..more).unwrap_or_default());
        }
        Ok(Buffer::from_vec(bytes))
    }
}

fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|error| DataFusionError::External(Box::new(error)))
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

    /// Whether the block is read by [`stream_all`](Self::stream_all) rather than by
    /// [`read_all`](Self::read_all): its file has no path.
    pub(crate) fn is_streamed(&self) -> bool {
        !self.file.has_path()
    }

    /// Reads `blocks`, those that lie next to each other together. Blocks the thread.
    ///
    /// # Errors
    /// Those of the file, naming it, the offset and the length.
    pub(crate) fn read_all(blocks: &[&StoredBlock]) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(blocks.len());
        for group in neighbours(blocks) {
            let (offset, len) = extent(group)?;
            if let Some(first) = group.first() {
                cut(&first.file.read(offset, len)?, group, offset, &mut buffers)?;
            }
        }
        Ok(buffers)
    }

    /// Reads `blocks` of files without a path as [`read_all`](Self::read_all) reads others.
    ///
    /// # Errors
    /// Those of the backend, naming the file, the offset and the length.
    pub(crate) async fn stream_all(blocks: &[&StoredBlock]) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(blocks.len());
        for group in neighbours(blocks) {
            let (offset, len) = extent(group)?;
            let Some(first) = group.first() else { continue };
            // A backend may give files of both kinds; its local ones do not wait long.
            let bytes = match first.is_streamed() {
                true => first.file.stream(offset, len).await?,
                false => first.file.read(offset, len)?,
            };
            cut(&bytes, group, offset, &mut buffers)?;
        }
        Ok(buffers)
    }

    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}

/// Runs of `blocks` that one read serves: of one file, and near each other.
fn neighbours<'a, 'b>(
    blocks: &'a [&'b StoredBlock],
) -> impl Iterator<Item = &'a [&'b StoredBlock]> {
    blocks.chunk_by(|block, next| {
        let gap = next.offset.checked_sub(block.end());
        Arc::ptr_eq(&block.file, &next.file) && gap.is_some_and(|gap| gap <= MAX_READ_GAP)
    })
}

/// Offset and length of what `group` spans.
fn extent(group: &[&StoredBlock]) -> Result<(u64, usize)> {
    let start = group.first().map_or(0, |block| block.offset);
    let end = group.last().map_or(0, |block| block.end());
    Ok((start, to_usize(end.saturating_sub(start))?))
}

/// Cuts `bytes`, read at `offset`, into the blocks of `group`.
fn cut(
    bytes: &Buffer,
    group: &[&StoredBlock],
    offset: u64,
    buffers: &mut Vec<Buffer>,
) -> Result<()> {
    for block in group {
        let start = to_usize(block.offset - offset)?;
        buffers.push(bytes.slice_with_length(start, block.len));
    }
    Ok(())
}
