use std::sync::Arc;

use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::{LexOrdering, Partitioning, RangePartitioning};
use datafusion::physical_expr_common::sort_expr::PhysicalSortExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{
    ProjectionExec, all_columns, make_with_child, update_expr,
};

use super::IFileRepartitionExec;

impl IFileRepartitionExec {
    /// Puts `projection` below the exchange when it drops columns, keeps to plain columns, and
    /// keeps those that rows are placed by.
    pub(super) fn swap_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let narrows = projection.expr().len() < projection.input().schema().fields().len();
        let benefits = projection.benefits_from_input_partitioning();
        if !narrows || benefits.first() == Some(&true) || !all_columns(projection.expr()) {
            return Ok(None);
        }
        let Some(partitioning) = project(self.partitioning(), projection)? else {
            return Ok(None);
        };
        let input = make_with_child(projection, self.input())?;
        Ok(Some(Arc::new(self.rebuilt(input, partitioning)?)))
    }
}

/// The partitioning in terms of the projection's columns; `None` when a key is dropped.
fn project(
    partitioning: &Partitioning,
    projection: &ProjectionExec,
) -> Result<Option<Partitioning>> {
    let project_key = |key| update_expr(key, projection.expr(), false);
    match partitioning {
        Partitioning::Hash(keys, count) => {
            let keys: Option<Vec<_>> = keys.iter().map(project_key).collect::<Result<_>>()?;
            Ok(keys.map(|keys| Partitioning::Hash(keys, *count)))
        }
        Partitioning::Range(range) => {
            let mut keys = Vec::with_capacity(range.ordering().len());
            for key in range.ordering() {
                let Some(expr) = project_key(&key.expr)? else { return Ok(None) };
                keys.push(PhysicalSortExpr::new(expr, key.options));
            }
            let ordering = LexOrdering::new(keys)
                .ok_or_else(|| internal_datafusion_err!("a range partitioning without keys"))?;
            let range = RangePartitioning::try_new(ordering, range.split_points().to_vec())?;
            Ok(Some(Partitioning::Range(range)))
        }
        other => Ok(Some(other.clone())),
    }
}
