//! The plan nodes.

mod node;
#[cfg(feature = "proto")]
mod proto;
mod pushdown;
mod run;
mod shuffle_reader;
pub(crate) mod shuffle_reading;
mod shuffle_writer;
mod waves;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::apply_expression_roots;

pub use node::IFileRepartitionExec;
#[cfg(feature = "proto")]
pub use proto::IFilePhysicalCodec;
pub use shuffle_reader::IFileShuffleReaderExec;
pub use shuffle_writer::{IFileShuffleWriterExec, ShuffleWrite};

/// Applies `f` to the keys of `partitioning`.
fn apply_to_keys(
    partitioning: &Partitioning,
    f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    match partitioning {
        Partitioning::Hash(keys, _) => apply_expression_roots(keys, f),
        Partitioning::Range(range) => {
            apply_expression_roots(range.ordering().iter().map(|key| &key.expr), f)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }
}
