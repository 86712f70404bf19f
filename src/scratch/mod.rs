//! Scratch files of an exchange: runs of segments, written once and read block by block.
//!
//! A run is one segment per partition that has blocks, in partition order, on one file for all
//! partitions. Files come from DataFusion's `DiskManager`, whose quota is charged by its own writer
//! and given back when a file is dropped; a file rotates at `max_spill_file_size_bytes` and is
//! dropped with the last block that somebody may still read.
//!
//! All functions here block: the exchange calls them on blocking threads. The one exception reads a
//! backend without local paths, as a stream from its start, which is slower and gives the same rows:
//! such a stream may need a blocking thread of its own, and there may be only one.

mod file;
mod run;

pub(crate) use file::StoredBlock;
pub(crate) use run::{Block, RunBlocks, RunWriter};
