//! Whether the inputs of an exchange can be read one after another.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::{IFileRepartitionExec, IFileShuffleReaderExec};

/// Whether any type of the list is that of the node.
macro_rules! is_any {
    ($node:expr, $($exec:ty),+ $(,)?) => {
        $($node.downcast_ref::<$exec>().is_some())||+
    };
}

/// Inputs of an exchange over `input` that run at the same time: all of them, unless they are more
/// than `most` and none ever waits for another.
pub(super) fn active_inputs(input: &Arc<dyn ExecutionPlan>, most: usize) -> usize {
    let count = input.output_partitioning().partition_count();
    if count > most && ends_alone(input) { most } else { count }
}

/// Whether each partition of `node` comes to its end although no other is polled: so it is for the
/// nodes listed here, over others of the list, down to nodes that move rows between partitions.
fn ends_alone(node: &Arc<dyn ExecutionPlan>) -> bool {
    is_exchange(node) || (is_listed(node) && node.children().into_iter().all(ends_alone))
}

/// These read their inputs by tasks of their own, or all of them for each output.
fn is_exchange(node: &Arc<dyn ExecutionPlan>) -> bool {
    is_any!(
        node,
        IFileRepartitionExec,
        IFileShuffleReaderExec,
        RepartitionExec,
        CoalescePartitionsExec,
        SortPreservingMergeExec,
    )
}

fn is_listed(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        // The partitions wait until each has told its part of the filter.
        return join.dynamic_expressions_produced().is_empty();
    }
    is_any!(
        node,
        DataSourceExec,
        EmptyExec,
        PlaceholderRowExec,
        FilterExec,
        ProjectionExec,
        AggregateExec,
        SortExec,
        SortMergeJoinExec,
        LocalLimitExec,
        GlobalLimitExec,
        WindowAggExec,
        BoundedWindowAggExec,
        UnionExec,
        UnnestExec,
        CooperativeExec,
    )
}
