//! Plans with exchanges through protobuf.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

#[path = "../exchange/support/mod.rs"]
mod support;

mod damaged_buffers_are_refused;
mod plans_round_trip;
mod shuffles_round_trip;
