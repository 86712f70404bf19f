//! Ballista's own readers, told where they are.

use std::sync::Arc;

use ballista_core::client_pool::BallistaClientPool;
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;

/// `plan`, with Ballista's readers that read files below `work_dir` and connect through `pool`.
pub(super) fn with_stock_readers(
    plan: Arc<dyn ExecutionPlan>,
    work_dir: &str,
    pool: &Arc<dyn BallistaClientPool>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let told = plan.transform_up(|node| {
        let told: Arc<dyn ExecutionPlan> =
            if let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() {
                let reader = reader.with_work_dir(work_dir.to_owned());
                Arc::new(reader.with_client_pool(Arc::clone(pool)))
            } else if let Some(reader) = node.downcast_ref::<RangeShuffleReaderExec>() {
                let reader = reader.with_work_dir(work_dir.to_owned());
                Arc::new(reader.with_client_pool(Arc::clone(pool)))
            } else {
                return Ok(Transformed::no(node));
            };
        Ok(Transformed::yes(told))
    });
    Ok(told?.data)
}
