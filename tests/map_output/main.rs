//! Map outputs and map statuses. One behaviour per module.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

#[allow(dead_code, reason = "shared with the tests of the exchange")]
#[path = "../exchange/support/child.rs"]
mod child;
#[allow(dead_code, reason = "shared with the tests of the exchange")]
#[path = "../model/disk.rs"]
mod disk;
#[allow(dead_code, reason = "shared with the tests of the exchange")]
#[path = "../model/pool.rs"]
mod pool;
#[allow(dead_code, reason = "shared with the tests of the exchange")]
#[path = "../model/rng.rs"]
mod rng;
mod support;

mod a_failed_write_leaves_what_stock_leaves;
mod attempts_leave_a_valid_pair_or_none;
mod damage_is_found;
mod dictionaries_are_joined_as_far_as_keys_go;
mod discarded_attempts_tell_of_the_pair_in_place;
mod disks_that_fail;
mod ended_inputs_make_room_for_others;
mod failed_commits_leave_nothing_half_done;
mod faults_of_the_reader_are_not_of_outputs;
mod indexes_have_their_layouts;
mod outputs_come_back;
mod outputs_go_by_epoch;
mod planners_coalesce_and_split;
mod readers_wait_for_commits;
mod skewed_partitions_are_shared;
mod sorted_segments_merge;
mod spills_are_spliced;
mod statuses_round_trip;
mod statuses_serialize_once;
mod tables_round_trip;
