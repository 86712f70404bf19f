//! Runs every query of `sql/` on a small scale with the stock exchange and with ours.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod exchanges_of_every_plan;
mod pool;
mod stock_and_ours_agree;
mod support;

#[path = "../../examples/tpcds/compare.rs"]
#[expect(dead_code, reason = "only a part of the main job's module is needed")]
mod compare;
#[path = "../../examples/tpcds/tables.rs"]
#[expect(dead_code, reason = "only a part of the main job's module is needed")]
mod tables;
#[path = "../../examples/tpcds/tpch.rs"]
mod tpch;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync + 'static>>;
