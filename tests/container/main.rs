//! The container: formats, caps, sized writers. One behaviour per module.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod golden;
mod golden_read;
mod golden_write;
mod malformed;
mod sink;
