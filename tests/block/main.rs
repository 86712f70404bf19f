//! Blocks, as users of the crate see them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod golden;
mod scratch_is_reused;
mod working_set;
