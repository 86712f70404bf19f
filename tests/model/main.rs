//! The exchange against a plain in-memory partitioner, under random schedules of inputs, consumers
//! and refusals, and with disks that fail.
//!
//! A case is made from a few numbers, so a failure names all that repeats it. Inputs yield only
//! what a schedule lets through; consumers are polled only when they were woken, so that a lost
//! wake-up is a hang; every case runs under a watchdog that turns a hang into a failure.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod case;
mod check;
mod data;
mod disk;
mod drive;
mod input;
mod pool;
mod rng;
mod watchdog;
mod world;

mod a_case_repeats_by_its_numbers;
mod a_runtime_that_is_gone;
mod cancelled_anywhere_leaves_nothing;
mod disks_that_fail;
mod random_schedules;
mod refused_runs_are_of_a_useful_size;
mod streams_dropped_unpolled;
