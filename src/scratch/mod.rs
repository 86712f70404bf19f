//! Scratch files of an exchange: runs of segments, written once and read block by block.
//!
//! A run is one segment per partition that has blocks, in partition order, on one file for all
//! partitions. Files come from DataFusion's `DiskManager`, whose quota is charged by its own writer
//! and given back when a file is dropped; a file rotates at `max_spill_file_size_bytes` and is
//! dropped with the last block that somebody may still read.
//!
//! Writing and reading block: the exchange calls them on blocking threads. A backend without a local
//! path is read asynchronously, as a stream from its start: slower, with the same rows.

mod file;
mod run;

pub(crate) use file::StoredBlock;
pub(crate) use run::{Block, RunBlocks, RunWriter};
