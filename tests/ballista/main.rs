//! Stages and clusters of Ballista on map outputs of this crate.

#![allow(
    clippy::cast_possible_truncation,
    clippy::default_trait_access,
    clippy::expect_used,
    clippy::field_reassign_with_default,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod broken_transfers_go_on;
mod cluster;
mod clusters_answer_like_one_process;
mod engines_do_not_mix;
mod failed_writes_are_tried_again;
mod lost_executors_are_made_up_for;
mod lost_outputs_are_failed_fetches;
mod outputs_come_back;
mod small_memory_spills;
mod sorted_inputs_merge;
mod support;
mod work_directories_are_left_clean;

#[path = "../../examples/tpcds/compare.rs"]
#[expect(dead_code, reason = "only a part of the main job's module is needed")]
mod compare;
#[path = "../../examples/tpcds/generate.rs"]
mod generate;
#[path = "../../examples/cluster/ports.rs"]
mod ports;
#[path = "../../examples/tpcds/register.rs"]
mod register;
#[path = "../../examples/tpcds/suite.rs"]
mod suite;
#[path = "../../examples/tpcds/tables.rs"]
mod tables;
#[path = "../../examples/tpcds/tpch.rs"]
mod tpch;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync + 'static>>;
