//! Plans with exchanges through protobuf.

#[path = "../exchange/support/mod.rs"]
mod support;

mod damaged_buffers_are_refused;
mod plans_round_trip;
