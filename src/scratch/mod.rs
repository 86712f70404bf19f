//! Scratch files of an exchange: runs of segments, written once and read block by block.
//!
//! A run is what one spill writes: segments of one partition each, in partition order. Segments are
//! gathered in a small buffer and get a place in a file when their size is known, so that a segment
//! may go where consumed ones were.
//!
//! | space | files | charged | a full disk |
//! |---|---|---|---|
//! | DataFusion's `DiskManager` | rotate at `max_spill_file_size_bytes`, deleted with their last block | appended bytes, until the file is deleted | is met before the write that is charged |
//! | `ifile.scratch_dirs` | one per exchange and directory | bytes with blocks, against the limits of directory and query | drops the device for the query |
//!
//! Segments that lie together are free with the last of their blocks. Free ranges are written to again, first
//! fit, and where they are large their blocks go back to the file system as holes, if `ifile.punch_holes`
//! says so and a probe finds that it works.
//!
//! **Failed writes.** In DataFusion's space a failed write may leave its length behind in the manager's
//! used bytes, as it does for DataFusion's own operators: at most one write, of the size of the buffer.
//! Everything else is given back.
//!
//! Functions that read or write block: the exchange calls them on blocking threads. What is dropped may
//! delete or close a file wherever it is dropped. The one exception reads a
//! backend without local paths, as a stream from its start, which is slower and gives the same rows:
//! such a stream may need a blocking thread of its own, and there may be only one.
//!
//! ```text
//!   blocks -> RunWriter -> segments -> buffer -> Space -> ScratchFile <- StoredExtent <- StoredBlock
//!                                                              FileSpace: live, free, punched
//! ```

mod file;
mod managed;
mod own;
mod punch;
mod query;
mod ranges;
mod root;
mod run;
mod space;
mod stored;
mod usage;

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManager;

pub(crate) use query::QueryScratch;
pub(crate) use run::{Block, Run, RunBlocks, RunWriter};
pub(crate) use stored::StoredBlock;
pub(crate) use usage::ScratchMetrics;

use self::file::ScratchFile;
use self::managed::ManagedSpace;
use self::own::OwnSpace;
use crate::config::ScratchDirs;
use crate::memory::Ledger;

/// Where an exchange puts its runs.
pub(crate) struct ScratchPlan {
    /// The name of the exchange.
    pub(crate) owner: Arc<str>,
    /// Fingerprint of the schema of the rows.
    pub(crate) fingerprint: u64,
    pub(crate) disk: Arc<DiskManager>,
    /// Bytes at which a file of `disk` is closed.
    pub(crate) max_file_bytes: u64,
    /// Directories to use instead of `disk`, if there are any.
    pub(crate) dirs: ScratchDirs,
    pub(crate) query: Arc<QueryScratch>,
    pub(crate) punch_holes: bool,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) metrics: ScratchMetrics,
}

#[cfg(test)]
impl ScratchPlan {
    /// A plan for files of at most 1 MiB, in `dirs` with a limit, or in the temporary directory.
    pub(crate) fn for_tests(ledger: &Arc<Ledger>, dirs: &str, limit: Option<u64>) -> Self {
        use datafusion::physical_plan::metrics::{Count, Gauge};
        let metrics = ScratchMetrics {
            charged: Gauge::new(),
            charged_peak: Gauge::new(),
            live: Gauge::new(),
            live_peak: Gauge::new(),
            punched: Count::new(),
            reused: Count::new(),
            dropped_devices: Count::new(),
        };
        Self {
            owner: "exchange".into(),
            fingerprint: 7,
            disk: Arc::new(DiskManager::builder().build().unwrap()),
            max_file_bytes: 1 << 20,
            dirs: dirs.parse().unwrap(),
            query: Arc::new(QueryScratch::new(limit)),
            punch_holes: true,
            ledger: Arc::clone(ledger),
            metrics,
        }
    }
}

/// Where some bytes are.
struct Placed {
    file: Arc<ScratchFile>,
    offset: u64,
}

enum Space {
    Managed(ManagedSpace),
    Own(OwnSpace),
}

impl Space {
    fn new(plan: &Arc<ScratchPlan>) -> Self {
        match plan.dirs.as_slice() {
            [] => Self::Managed(ManagedSpace::new(Arc::clone(plan))),
            _ => Self::Own(OwnSpace::new(Arc::clone(plan))),
        }
    }

    fn begin_run(&mut self) {
        match self {
            Self::Managed(space) => space.begin_run(),
            Self::Own(space) => space.begin_run(),
        }
    }

    /// Writes `bytes` somewhere.
    ///
    /// # Errors
    /// Those of the disk, its limits included, with file, offset and length.
    fn place(&mut self, bytes: &[u8]) -> Result<Placed> {
        match self {
            Self::Managed(space) => space.place(bytes),
            Self::Own(space) => space.place(bytes),
        }
    }

    /// Makes what was written readable.
    fn end_run(&mut self) -> Result<()> {
        match self {
            Self::Managed(space) => space.end_run(),
            Self::Own(_) => Ok(()),
        }
    }

    /// A write has failed.
    fn abandon(&mut self) {
        match self {
            Self::Managed(space) => space.abandon(),
            Self::Own(_) => {}
        }
    }
}

fn failed_write(
    file: &ScratchFile,
    offset: u64,
    len: usize,
    error: DataFusionError,
) -> DataFusionError {
    error.context(format!("writing {len} bytes at offset {offset} of {}", file.name()))
}

#[cfg(test)]
mod tests;
