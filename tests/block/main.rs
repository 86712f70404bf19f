//! Blocks, as users of the crate see them.

mod golden;
mod scratch_is_reused;
mod working_set;
