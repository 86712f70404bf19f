use std::io;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};

use super::file::{Backing, ScratchFile};
use super::punch;
use super::root::Root;
use super::{Placed, ScratchPlan, failed_write};
use crate::config::ScratchDir;

/// Scratch files in directories of our own: one per exchange and directory.
///
/// The directories of the best priority are filled first, in turn; the next ones when those are at
/// their limit. A device that fails a write gets no other of this query, and the write goes to the
/// next one; what it holds stays readable.
pub(super) struct OwnSpace {
    plan: Arc<ScratchPlan>,
    devices: Vec<Device>,
    /// Of the next placement, within a priority.
    turn: usize,
}

struct Device {
    dir: ScratchDir,
    file: Option<Arc<ScratchFile>>,
}

impl OwnSpace {
    pub(super) fn new(plan: Arc<ScratchPlan>) -> Self {
        let mut dirs = plan.dirs.as_slice().to_vec();
        dirs.sort_by_key(|dir| dir.priority);
        let devices = dirs.into_iter().map(|dir| Device { dir, file: None }).collect();
        Self { plan, devices, turn: 0 }
    }

    fn files(&self) -> impl Iterator<Item = &Arc<ScratchFile>> {
        let working = |device: &&Device| !self.plan.query.is_dropped(&device.dir.path);
        self.devices.iter().filter(working).filter_map(|device| device.file.as_ref())
    }

    /// Gives back the blocks of what was consumed.
    pub(super) fn begin_run(&mut self) {
        self.files().for_each(|file| file.punch_holes());
    }

    pub(super) fn place(&mut self, bytes: &[u8]) -> Result<Placed> {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let mut failure = None;
        for level in self.devices.chunk_by_mut(|one, next| one.dir.priority == next.dir.priority) {
            let count = level.len();
            level.rotate_left(turn.checked_rem(count).unwrap_or(0));
            let placed = level.iter_mut().find_map(|device| {
                place_on(&self.plan, device, bytes).unwrap_or_else(|error| {
                    failure = Some(error);
                    None
                })
            });
            level.rotate_right(turn.checked_rem(count).unwrap_or(0));
            if let Some(placed) = placed {
                return Ok(placed);
            }
        }
        Err(self.refusal(bytes.len(), failure))
    }

    fn refusal(&self, len: usize, failure: Option<DataFusionError>) -> DataFusionError {
        let (owner, query) = (&self.plan.owner, &self.plan.query);
        let message = format!(
            "{owner} has no scratch directory for {len} more bytes: ifile.scratch_dirs = '{}', \
             ifile.scratch_limit, {} bytes of this query in use{}",
            self.plan.dirs,
            query.quota.used(),
            query.dropped()
        );
        match failure {
            Some(error) => error.context(message),
            None => DataFusionError::ResourcesExhausted(message),
        }
    }
}

/// Places `bytes` on a device; `None` where it has no room or was dropped. An error drops it.
fn place_on(plan: &ScratchPlan, device: &mut Device, bytes: &[u8]) -> Result<Option<Placed>> {
    let path = device.dir.path.clone();
    if plan.query.is_dropped(&path) {
        return Ok(None);
    }
    try_place(plan, device, bytes).inspect_err(|error| {
        log::warn!("{} gives up {} for this query: {error}", plan.owner, path.display());
        plan.query.drop_device(&path, error.to_string());
        plan.metrics.dropped_devices.add(1);
        device.file = None;
    })
}

fn try_place(plan: &ScratchPlan, device: &mut Device, bytes: &[u8]) -> Result<Option<Placed>> {
    let file = match &device.file {
        Some(file) => Arc::clone(file),
        None => {
            let file = create(plan, &device.dir).map_err(|error| {
                let directory = device.dir.path.display();
                DataFusionError::from(error).context(format!("making a file in {directory}"))
            })?;
            Arc::clone(device.file.insert(Arc::new(file)))
        }
    };
    let len = bytes.len() as u64;
    let Some(offset) = file.take_gap(len).or_else(|| file.append(len)) else { return Ok(None) };
    match file.write_at(bytes, offset) {
        Ok(()) => Ok(Some(Placed { file, offset })),
        Err(error) => {
            file.release(offset..offset + len);
            Err(failed_write(&file, offset, bytes.len(), error.into()))
        }
    }
}

fn create(plan: &ScratchPlan, dir: &ScratchDir) -> io::Result<ScratchFile> {
    let root = Root::open(&dir.path, dir.limit)?;
    let (path, handle) = root.create_file()?;
    let punches = plan.punch_holes && path.parent().is_some_and(punch::can_punch);
    let name = path.display().to_string().into();
    let backing = Backing::Own { path, root, query: Arc::clone(&plan.query) };
    let (metrics, permit) = (plan.metrics.clone(), plan.ledger.empty());
    Ok(ScratchFile::new(name, backing, Some(handle), punches, metrics, permit))
}
