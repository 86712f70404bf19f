//! Takes the dynamic filter from partitioned hash joins of many partitions.
//!
//! Such a filter is one `CASE` over all partitions of the build side, which the scans of the probe side
//! evaluate for every row: what it costs grows with the partitions, what it saves does not. Joins that
//! collect their build side have a filter without cases and keep it, whatever the partitions.
//!
//! ```text
//!   before                                       after (join_filter_partitions < 256)
//!   HashJoinExec: mode=Partitioned               HashJoinExec: mode=Partitioned
//!     RepartitionExec: Hash([k], 256)              RepartitionExec: Hash([k], 256)
//!       ...                                          ...
//!     RepartitionExec: Hash([k], 256)              RepartitionExec: Hash([k], 256)
//!       DataSourceExec:                              DataSourceExec:
//!         predicate=DynamicFilter [ empty ]            predicate=DynamicFilter [ true ]
//! ```
//!
//! The filter stays in the predicate of the scan, as a constant that passes every row and will not change.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::config::IFileOptions;

/// The rule that bounds the dynamic filters of joins by `ifile.join_filter_partitions`. It belongs after
/// the rule that pushes them down.
#[derive(Debug, Default)]
pub struct LimitJoinFilters;

impl PhysicalOptimizerRule for LimitJoinFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(options) = IFileOptions::enabled_in(config) else { return Ok(plan) };
        plan.transform_up(|node| match node.downcast_ref::<HashJoinExec>() {
            Some(join) => match without_filter(join, options.join_filter_partitions)? {
                Some(join) => Ok(Transformed::yes(join)),
                None => Ok(Transformed::no(node)),
            },
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "LimitJoinFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `join` without its dynamic filter, where it has one and more than `most` partitions.
fn without_filter(join: &HashJoinExec, most: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let partitions = join.left().output_partitioning().partition_count();
    let filters = join.dynamic_expressions_produced();
    if *join.partition_mode() != PartitionMode::Partitioned
        || partitions <= most
        || filters.is_empty()
    {
        return Ok(None);
    }
    for filter in &filters {
        if let Some(filter) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
            filter.update(lit(true))?;
            filter.mark_complete();
        }
    }
    // Nothing has run yet, so that the state that is reset is the filter alone.
    join.builder().reset_state().build_exec().map(Some)
}
