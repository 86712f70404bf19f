//! A bounded-memory, compressed exchange for Apache DataFusion.
//!
//! [`IFileRepartitionExec`] takes the place of DataFusion's `RepartitionExec` in the plans of a
//! session. Rows move between its inputs and outputs as Arrow batches while memory lasts; when the
//! memory pool refuses, rows become compressed blocks, and blocks become runs in scratch files, all
//! counted against one reservation.
//!
//! ```text
//!   inputs                          one lane per output                       outputs
//!   ------    +--------+   +----------------------------------+    +------------------------+
//!   batch --> | Router | ->| stage -> batches -> blocks -> run | -> | batches of the session's |
//!   batch --> |        |   |          Arrow      memory    disk |    | batch size               |
//!             +--------+   +----------------------------------+    +------------------------+
//!                                 pressure: encode the largest lanes, then write all blocks
//! ```
//!
//! With 16 outputs or more rows are narrowed to a few bytes per value as they are staged, memory to
//! spare or not: see [`BlockPartitioner`] for the same outside of a plan.
//!
//! One line switches it on, see [`SessionStateBuilderExt`]. The options are in [`IFileOptions`].
//!
//! # Layers
//!
//! A module names those of its row and nothing else of this crate; everybody may name `error` and
//! `config`. A test reads the `use` lines and fails on other edges.
//!
//! | module | one job | may name |
//! |---|---|---|
//! | [`error`] | what can go wrong, with its place | - |
//! | `config` | the `ifile.*` options | codec |
//! | [`wire`] | bounds-checked cursor, vints | - |
//! | [`codec`] | codecs with reusable states | wire |
//! | [`ifile`] | the container: segments, checksums, spill index | wire, codec |
//! | [`map_status`] | sizes per partition, status tables, envelope | wire, codec |
//! | `kernels` | arrays of values that were checked already: the unsafe code | - |
//! | [`block`] | rows of a batch to block bytes and back | wire, codec, kernels |
//! | `memory` | the one reservation, and permits on it | - |
//! | `scratch` | scratch files and runs of segments | memory, ifile, codec |
//! | `partition` | rows to partitions, staged rows | block, codec, kernels |
//! | `exchange` | producers, lanes, pressure, consumers | block, memory, partition, scratch |
//! | [`map_output`] | files of map tasks: collect, write, commit, read | codec, wire, ifile, block, map_status, memory, partition |
//! | `exec` | the plan nodes and their protobuf form | exchange, block, map_output, map_status, memory |
//! | `optimizer` | one rule per file | exec, block |
//! | `session` | switches it on | optimizer |
//! | `ballista` | feature: Ballista's executors on map outputs | codec, block, map_output, map_status, memory, exec |

#[cfg(feature = "ballista")]
pub mod ballista;
pub mod block;
pub mod codec;
mod config;
pub mod error;
mod exchange;
mod exec;
pub mod ifile;
mod kernels;
pub mod map_output;
pub mod map_status;
mod memory;
mod optimizer;
mod partition;
mod scratch;
mod session;
pub mod wire;

pub use codec::Codec;
pub use config::{IFileOptions, ScratchDir, ScratchDirs};
pub use error::{IFileError, LostOutput, Result};
#[cfg(feature = "proto")]
pub use exec::IFilePhysicalCodec;
pub use exec::{
    IFileRepartitionExec, IFileShuffleReaderExec, IFileShuffleWriterExec, ShuffleWrite,
};
pub use optimizer::{LimitJoinFilters, ReplaceRepartition, why_not};
pub use partition::BlockPartitioner;
pub use session::SessionStateBuilderExt;
