//! What an executor tells the scheduler of map outputs that cannot be read.

use std::sync::Arc;

use ballista_core::error::BallistaError;
use datafusion::common::DataFusionError;

use super::reads::OutputRead;
use crate::error::{IFileError, LostOutput};

/// The outputs that a stream reads.
#[derive(Clone)]
pub(super) struct Blame {
    reads: Arc<[OutputRead]>,
}

impl Blame {
    pub(super) fn new(reads: &[OutputRead]) -> Self {
        Self { reads: reads.into() }
    }

    /// A lost output as a failed fetch, so that its map task runs again. Formats that are not ours stay an error of the
    /// query: running the task again would not help.
    pub(super) fn of(&self, error: DataFusionError) -> DataFusionError {
        let lost = match error.find_root() {
            DataFusionError::External(inner) => match inner.downcast_ref::<IFileError>() {
                Some(IFileError::LostOutput(lost)) => Some(lost),
                _ => None,
            },
            _ => None,
        };
        let Some(lost) = lost else { return error };
        if let Some(reason) = unsupported(lost) {
            return DataFusionError::Execution(reason);
        }
        let Some(read) = self.read_of(lost) else { return error };
        let (location, message) = (&read.location, format!("{}: {error}", read.name));
        let failed = BallistaError::FetchFailed(
            location.executor_meta.id.clone(),
            location.partition_id.stage_id,
            location.map_partition_id,
            message,
        );
        failed.into_datafusion()
    }

    /// The read of a lost output: by its name, where the fault has it, or by the map task.
    fn read_of(&self, lost: &LostOutput) -> Option<&OutputRead> {
        let named = |read: &&OutputRead| lost.place.file.as_ref() == Some(&read.name);
        let of_task = |read: &&OutputRead| read.map_id == lost.map_id;
        self.reads.iter().find(named).or_else(|| self.reads.iter().find(of_task))
    }
}

fn unsupported(lost: &LostOutput) -> Option<String> {
    match lost.cause.downcast_ref::<IFileError>() {
        Some(error @ IFileError::Unsupported { .. }) => Some(error.to_string()),
        _ => None,
    }
}
