//! Replaces `RepartitionExec` by [`IFileRepartitionExec`].
//!
//! ```text
//!   before                                  after
//!   AggregateExec: mode=FinalPartitioned    AggregateExec: mode=FinalPartitioned
//!     RepartitionExec: Hash([k], 8)           IFileRepartitionExec: Hash([k], 8), codec=lz4
//!       AggregateExec: mode=Partial             AggregateExec: mode=Partial
//! ```
//!
//! The node keeps its properties, so its parents do too, and dynamic filters that were pushed below
//! it keep pruning. Running the rule again changes nothing.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::block;
use crate::config::IFileOptions;
use crate::exec::IFileRepartitionExec;

/// The rule that swaps the exchanges of a plan. It belongs after all others.
#[derive(Debug, Default)]
pub struct ReplaceRepartition;

impl PhysicalOptimizerRule for ReplaceRepartition {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(options) = IFileOptions::enabled_in(config) else { return Ok(plan) };
        plan.transform_up(|node| {
            let Some(stock) = node.downcast_ref::<RepartitionExec>() else {
                return Ok(Transformed::no(node));
            };
            if let Some(reason) = why_not_stock(stock) {
                log::debug!("RepartitionExec stays: {reason}");
                return Ok(Transformed::no(node));
            }
            let ours = IFileRepartitionExec::from_repartition(stock, options.clone());
            Ok(Transformed::yes(Arc::new(ours)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "ReplaceRepartition"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Why the rule leaves `node` as it is; `None` when it swaps it.
pub fn why_not(node: &dyn ExecutionPlan) -> Option<String> {
    match node.downcast_ref::<RepartitionExec>() {
        Some(stock) => why_not_stock(stock),
        None => Some(format!("{} is not a RepartitionExec", node.name())),
    }
}

fn why_not_stock(stock: &RepartitionExec) -> Option<String> {
    if stock.properties().boundedness.is_unbounded() {
        return Some(
            "the input is unbounded, and rows of full batches only would leave".to_owned(),
        );
    }
    if let Partitioning::UnknownPartitioning(_) = stock.partitioning() {
        return Some("an unknown partitioning places no rows".to_owned());
    }
    block::why_not(&stock.schema())
}
