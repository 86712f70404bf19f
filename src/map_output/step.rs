//! The steps of a commit.

use std::io;
use std::sync::Arc;

/// A step of a commit, in their order. Those that synchronize are left out where that is not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitStep {
    /// The data file is complete under its temporary name.
    DataWritten,
    /// It is synchronized.
    DataSynced,
    /// The index is complete under its temporary name.
    IndexWritten,
    /// It is synchronized.
    IndexSynced,
    /// The lock is held, and no valid pair is there.
    Locked,
    /// An older index is gone.
    OldIndexUnlinked,
    /// The data file has its name.
    DataRenamed,
    /// The index has its name: the pair is valid.
    IndexRenamed,
    /// The directory is synchronized.
    DirectorySynced,
}

impl CommitStep {
    /// What is done in it, for errors.
    pub(super) fn action(self) -> &'static str {
        match self {
            Self::DataWritten => "write the data of a map output",
            Self::DataSynced => "synchronize the data of a map output",
            Self::IndexWritten => "write the index of a map output",
            Self::IndexSynced => "synchronize the index of a map output",
            Self::Locked => "lock a map output",
            Self::OldIndexUnlinked => "remove the old index of a map output",
            Self::DataRenamed => "rename the data of a map output",
            Self::IndexRenamed => "rename the index of a map output",
            Self::DirectorySynced => "synchronize the directory of a map output",
        }
    }
}

/// Is called after each step; its error is that of the step.
pub(super) type Observer = Arc<dyn Fn(CommitStep) -> io::Result<()> + Send + Sync>;
