//! What the job and its child processes tell each other: a request in a flag, an outcome on standard output.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::args::{Engine, JoinKind, MemoryLimit, PoolKind};
use crate::digest::Digest;
use crate::timeline::Point;

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
    /// Options of the session, as `name=value`.
    pub(crate) set: Vec<String>,
    /// Whether to follow the run over time.
    pub(crate) timeline: bool,
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
    /// Who held the memory when that consumer was refused, largest first.
    #[serde(default)]
    pub(crate) holders: Vec<Holder>,
    pub(crate) message: Option<String>,
    pub(crate) seconds: f64,
    /// Unknown when the process was killed.
    pub(crate) usage: Option<Usage>,
    /// Known when the query came to its end.
    pub(crate) digest: Option<Digest>,
    #[serde(default)]
    pub(crate) timeline: Vec<Point>,
}

impl Outcome {
    /// A run of which only this is known.
    pub(crate) fn new(status: Status, message: Option<String>, seconds: f64) -> Self {
        Self {
            status,
            consumer: None,
            holders: Vec::new(),
            message,
            seconds,
            usage: None,
            digest: None,
            timeline: Vec::new(),
        }
    }
}

/// An operator, all its partitions together, and what it held of the memory pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) operator: String,
    pub(crate) bytes: u64,
}

/// What a run took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) reserved_peak_bytes: u64,
    pub(crate) resident_growth_bytes: u64,
    pub(crate) files_peak: u64,
    /// Most descriptors of spill files open at a time.
    pub(crate) descriptors_peak: u64,
    pub(crate) joins: u64,
    pub(crate) exchanges: Exchanges,
    pub(crate) shuffled: Shuffled,
    pub(crate) spill: Spill,
}

/// How many exchanges the plan had, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exchanges {
    pub(crate) stock: u64,
    pub(crate) ifile: u64,
}

/// What went through the exchanges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shuffled {
    pub(crate) rows: u64,
    /// Arrow bytes of the batches that left.
    pub(crate) bytes: u64,
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
