//! What an executor tells the scheduler of map outputs that cannot be written or read.

use std::io;
use std::sync::Arc;

use ballista_core::error::BallistaError;
use datafusion::common::DataFusionError;

use super::reads::OutputRead;
use crate::error::{IFileError, LostOutput};

/// A fault of the system as an error on which Ballista tries a task again; all others as they are.
pub(super) fn retryable(error: DataFusionError) -> DataFusionError {
    match ours(&error) {
        Some(IFileError::Io { source, .. }) => {
            DataFusionError::IoError(io::Error::new(source.kind(), error.to_string()))
        }
        _ => error,
    }
}

/// The error of this crate at the root of `error`.
fn ours(error: &DataFusionError) -> Option<&IFileError> {
    match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref(),
        _ => None,
    }
}

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
    /// query: running the task again would not help. Where this executor lacks something, the reading task is tried again.
    pub(super) fn of(&self, error: DataFusionError) -> DataFusionError {
        let Some(IFileError::LostOutput(lost)) = ours(&error) else { return retryable(error) };
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

#[cfg(test)]
mod tests {
    use super::super::reads::by_output;
    use super::super::reads::tests::location;
    use super::*;
    use crate::error::Place;

    fn io_error(code: i32) -> IFileError {
        let (action, place) = ("open map output", Place::at(0));
        IFileError::Io { action, place, source: io::Error::from_raw_os_error(code) }
    }

    #[test]
    fn a_task_whose_executor_lacks_descriptors_is_tried_again() {
        let blame = Blame::new(&by_output(&[location("a", Some(1), 0)], 0).unwrap());
        let retried = blame.of(io_error(libc::EMFILE).into());
        assert!(matches!(retried, DataFusionError::IoError(_)), "{retried}");
        assert!(retried.to_string().contains("cannot open map output"), "{retried}");
        let (place, cause) = (Place::at(0), io_error(libc::EIO).into());
        let lost = LostOutput { map_id: 1, place, cause };
        let failed = blame.of(IFileError::LostOutput(Box::new(lost)).into());
        assert!(matches!(failed, DataFusionError::External(_)), "{failed}");
        let usage = blame.of(IFileError::Usage("read on after the end").into());
        assert!(matches!(usage, DataFusionError::External(_)), "{usage}");
    }
}
