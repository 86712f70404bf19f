//! The exchange in sessions: switching it on, options, the rule, and what plans show.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

mod a_thousand_queries_leak_nothing;
mod dynamic_filters_prune_scans;
mod explain_shows_the_exchange;
mod join_filters_are_limited;
mod options_are_set_in_sql;
mod recursive_queries;
mod rule_swaps_exchanges;
mod switching_on;
