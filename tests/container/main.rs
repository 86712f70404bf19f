//! The container: formats, caps, sized writers. One behaviour per module.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod blocks;
mod caps;
mod corruption;
mod determinism;
mod field_cases;
mod fuzz_corpus;
mod golden;
mod golden_read;
mod golden_write;
mod incompressible;
mod malformed;
mod random_records;
mod ranges;
mod runs;
mod sized;
mod spill;
mod support;
mod tool;
mod write_buffer;
mod write_sizes;
