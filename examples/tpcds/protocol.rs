//! What the job and its child processes tell each other: a request in a flag, an outcome on standard output.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::args::{Engine, JoinKind, MemoryLimit, PoolKind};
use crate::digest::Digest;

/// One query to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) sql: PathBuf,
    /// Directory with one directory per table.
    pub(crate) tables: PathBuf,
    pub(crate) spill_dir: PathBuf,
    /// Where the rows of the result go, as Parquet.
    pub(crate) result: PathBuf,
    pub(crate) engine: Engine,
    pub(crate) limit: MemoryLimit,
    pub(crate) pool: PoolKind,
    pub(crate) partitions: u32,
    pub(crate) codec: String,
    pub(crate) join: JoinKind,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    /// Memory was refused, or the kernel killed the process.
    Oom,
    Timeout,
    Error,
    Wrong,
}

/// What a run gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// The consumer that was refused, for [`Status::Oom`].
    pub(crate) consumer: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) seconds: f64,
    /// Unknown when the process was killed.
    pub(crate) usage: Option<Usage>,
    /// Known when the query came to its end.
    pub(crate) digest: Option<Digest>,
}

/// What a run took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) reserved_peak_bytes: u64,
    pub(crate) resident_growth_bytes: u64,
    pub(crate) files_peak: u64,
    pub(crate) exchanges: Exchanges,
    pub(crate) spill: Spill,
}

/// How many exchanges the plan had, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exchanges {
    pub(crate) stock: u64,
    pub(crate) ifile: u64,
}

/// What the plan wrote to disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spill {
    /// Spills of the exchanges.
    pub(crate) count: u64,
    /// Bytes of their rows before compression.
    pub(crate) raw_bytes: u64,
    /// Bytes that they wrote.
    pub(crate) stored_bytes: u64,
    /// Bytes that all other operators wrote.
    pub(crate) others_bytes: u64,
}
