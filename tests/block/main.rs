//! Blocks, as users of the crate see them.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests fail by panics")]

mod golden;
mod scratch_is_reused;
mod working_set;
