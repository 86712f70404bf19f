//! The exchange, driven through plans: one behaviour per file.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

mod a_dropped_runtime_leaves_nothing;
mod a_failed_write_leaves_what_stock_leaves;
mod a_limit_stops_the_inputs;
mod batches_have_the_session_size;
mod disk_quota;
mod each_partition_executes_once;
mod every_type_passes_or_is_refused;
mod faults_of_inputs;
mod few_descriptors;
mod file_systems_without_holes;
mod files_cut_short_end_their_readers;
mod float_keys;
mod hash_exchange_keeps_every_row;
mod inputs_start_in_waves;
mod killed_processes_are_not_in_the_way;
mod merges_sorted_inputs;
mod node_answers_like_stock;
mod one_blocking_thread;
mod one_sorted_input_stays_in_order;
mod other_consumers_hold_the_pool;
mod output_schema_is_the_plans;
mod overflow_goes_to_disk;
mod pushdown;
mod readers_that_stay_away;
mod reading_while_writing;
mod replaced_children;
mod rows_land_where_stock_puts_them;
mod scratch_directories;
mod scratch_files_are_disabled;
mod short_and_long_inputs;
mod skewed_groups_in_a_small_pool;
mod small_shapes;
mod spill_metrics;
mod stalled_readers_give_up_memory;
mod zero_columns;
