use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SpillWriter;

use super::file::{Backing, ScratchFile};
use super::punch;
use super::{Placed, ScratchPlan, failed_write};

/// Scratch files of DataFusion's `DiskManager`.
///
/// Its writer charges what it appends, and the file gives all of that back when it is dropped. So
/// what is appended has its blocks promised first, and consumed ranges, charged already, are written
/// to again through a handle of our own.
pub(super) struct ManagedSpace {
    plan: Arc<ScratchPlan>,
    open: Option<OpenFile>,
    /// Files that are not appended to any more.
    closed: Vec<Weak<ScratchFile>>,
}

struct OpenFile {
    file: Arc<ScratchFile>,
    writer: Box<dyn SpillWriter>,
}

impl ManagedSpace {
    pub(super) fn new(plan: Arc<ScratchPlan>) -> Self {
        Self { plan, open: None, closed: Vec::new() }
    }

    fn files(&self) -> impl Iterator<Item = Arc<ScratchFile>> {
        let open = self.open.iter().map(|open| Arc::clone(&open.file));
        self.closed.iter().filter_map(Weak::upgrade).chain(open)
    }

    /// Gives back the blocks of what was consumed, and forgets files that are gone.
    pub(super) fn begin_run(&mut self) {
        self.closed.retain(|file| file.strong_count() > 0);
        self.files().for_each(|file| file.punch_holes());
    }

    pub(super) fn place(&mut self, bytes: &[u8]) -> Result<Placed> {
        let len = bytes.len() as u64;
        let local = self.files().filter(|file| file.path().is_some());
        for file in local.collect::<Vec<_>>() {
            let Some(offset) = file.take_gap(len) else { continue };
            return match file.write_at(bytes, offset) {
                Ok(()) => Ok(Placed { file, offset }),
                Err(error) => {
                    file.release(offset..offset + len);
                    Err(failed_write(&file, offset, bytes.len(), error.into()))
                }
            };
        }
        self.append(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<Placed> {
        let full = |open: &OpenFile| open.file.end() >= self.plan.max_file_bytes;
        if self.open.as_ref().is_some_and(full) {
            self.close_file()?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => create(&self.plan)?,
        };
        let len = bytes.len() as u64;
        let offset = open.file.end();
        let promised = match open.file.path() {
            Some(_) => open.file.preallocate(&(offset..offset + len)),
            None => Ok(()),
        };
        promised
            .and_then(|()| open.writer.write_all(bytes))
            .map_err(|error| failed_write(&open.file, offset, bytes.len(), error.into()))?;
        open.file.append(len);
        let file = Arc::clone(&open.file);
        self.open = Some(open);
        Ok(Placed { file, offset })
    }

    /// Makes what was written readable. A file that is read as a stream ends with its run.
    pub(super) fn end_run(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.file.path().is_none() {
            return self.close_file();
        }
        if let Err(error) = open.writer.flush() {
            let (file, end) = (Arc::clone(&open.file), open.file.end());
            self.abandon();
            return Err(failed_write(&file, end, 0, error.into()));
        }
        Ok(())
    }

    /// Does not write to the open file again; what earlier runs left in it stays readable.
    pub(super) fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            open.file.close_handle();
        }
    }

    fn close_file(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let end = open.file.end();
        open.writer
            .flush()
            .map_err(DataFusionError::from)
            .and_then(|()| open.writer.finish())
            .map_err(|error| failed_write(&open.file, end, 0, error))?;
        open.file.close_handle();
        self.closed.push(Arc::downgrade(&open.file));
        Ok(())
    }
}

/// Makes a file, and opens its writer.
fn create(plan: &ScratchPlan) -> Result<OpenFile> {
    if !plan.disk.tmp_files_enabled() {
        return Err(DataFusionError::ResourcesExhausted(format!(
            "{} needs to spill, but the DiskManager is disabled: set \
             datafusion.runtime.temp_directory (DiskManagerMode) or ifile.scratch_dirs, or raise \
             datafusion.runtime.memory_limit",
            plan.owner
        )));
    }
    let spill = plan.disk.create_tmp_file(&plan.owner)?;
    let (handle, name) = match spill.path() {
        Some(path) => (Some(ScratchFile::open(path)?), path.display().to_string()),
        None => (None, format!("scratch file of {}", plan.owner)),
    };
    let directory = spill.path().and_then(Path::parent);
    let punches = plan.punch_holes && directory.is_some_and(punch::can_punch);
    let writer = spill.open_writer()?;
    let (metrics, permit) = (plan.metrics.clone(), plan.ledger.empty());
    let backing = Backing::Managed(spill);
    let file = ScratchFile::new(name.into(), backing, handle, punches, metrics, permit);
    Ok(OpenFile { file: Arc::new(file), writer })
}
