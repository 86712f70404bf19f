use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ballista_core::JobId;
use ballista_core::client_pool::BallistaClientPool;
use ballista_core::execution_plans::SortShuffleWriterExec;
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use datafusion::prelude::SessionConfig;

use super::client_pool::ClientPool;
use super::fetch::Channels;
use super::node::IFileFetchExec;
use super::readers::with_stock_readers;
use super::stage::MapStage;
use crate::block::why_not;
use crate::config::IFileOptions;
use crate::map_output::{IndexLayout, MapOutputOptions};

/// Rows of a task that wait as Arrow arrays: an executor runs several tasks, each with memory of its own.
const STAGED_BYTES: usize = 16 * 1024 * 1024;

/// How long connections are kept that nobody uses.
const CLIENT_TTL: Duration = Duration::from_secs(30);

/// Runs stages of Ballista: hash exchanges on map outputs of this crate, everything else by Ballista's own engine.
///
/// It is for `ExecutorProcessConfig::override_execution_engine`. All executors of a cluster have to run it, with the
/// same version of this crate. A stage whose schema blocks cannot carry stays with Ballista on both sides.
pub struct IFileExecutionEngine {
    stock: DefaultExecutionEngine,
    pool: Arc<dyn BallistaClientPool>,
    channels: Arc<Channels>,
    options: IFileOptions,
    output: MapOutputOptions,
    epoch: AtomicU64,
}

impl fmt::Debug for IFileExecutionEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IFileExecutionEngine")
            .field("options", &self.options)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl Default for IFileExecutionEngine {
    fn default() -> Self {
        Self::new(IFileOptions::default(), CLIENT_TTL)
    }
}

impl IFileExecutionEngine {
    /// An engine that writes with `options` and closes connections which nobody used for `client_ttl`.
    #[must_use]
    pub fn new(options: IFileOptions, client_ttl: Duration) -> Self {
        let pool: Arc<dyn BallistaClientPool> = Arc::new(ClientPool::new(client_ttl));
        Self {
            stock: DefaultExecutionEngine::with_client_pool(Arc::clone(&pool)),
            pool,
            channels: Arc::new(Channels::new(client_ttl)),
            options,
            output: MapOutputOptions {
                layout: IndexLayout::Ballista,
                staged_bytes: STAGED_BYTES,
                ..MapOutputOptions::default()
            },
            epoch: AtomicU64::new(0),
        }
    }

    /// The same; files and directories are synchronized before an output counts as written.
    #[must_use]
    pub fn with_fsync(mut self, fsync: bool) -> Self {
        self.output.fsync = fsync;
        self
    }

    /// The epoch of a task that begins now. Paths carry no attempt, and whatever begins later is to replace what is
    /// there, also after a restart.
    fn next_epoch(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let last = self.epoch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            Some(now.max(last.saturating_add(1)))
        });
        last.map_or(now, |last| now.max(last.saturating_add(1)))
    }

    /// `plan` as it is run by an executor whose files are below `work_dir`: with an [`IFileFetchExec`] in place of each
    /// reader of map outputs.
    ///
    /// # Errors
    /// If a node refuses its new children.
    pub fn with_readers(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &Path,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let work_dir: &Arc<Path> = &work_dir.into();
        let replaced = plan.transform_up(|node| {
            let ours = IFileFetchExec::in_place_of(&node, work_dir, &self.options, &self.channels);
            Ok(match ours {
                Some(ours) => Transformed::yes(Arc::new(ours) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        Ok(replaced?.data)
    }
}

impl ExecutionEngine for IFileExecutionEngine {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let directory: Arc<Path> = Path::new(work_dir).into();
        let plan = self.with_readers(plan, &directory)?;
        let partitioning = match plan.downcast_ref::<SortShuffleWriterExec>() {
            Some(writer) if why_not(&writer.schema()).is_none() => {
                writer.shuffle_output_partitioning().clone()
            }
            _ => {
                return self.stock.create_query_stage_exec(
                    job_id,
                    stage_id,
                    task_id,
                    global_output_partition_ids,
                    plan,
                    work_dir,
                    config,
                );
            }
        };
        if !matches!(&partitioning, Partitioning::Hash(_, count) if *count > 0) {
            return plan_err!(
                "stage {stage_id} of job {job_id} does not place rows by hash: {partitioning}"
            );
        }
        let stock = with_stock_readers(plan, work_dir, &self.pool)?;
        let [input] = stock.children()[..] else {
            return plan_err!("the writer of stage {stage_id} of job {job_id} has no input");
        };
        let input = Arc::clone(input);
        let columns = input.schema().fields().len();
        Ok(Arc::new(MapStage {
            job_id,
            stage_id,
            task_id,
            work_dir: directory,
            stock,
            input,
            partitioning,
            options: self.options.clone(),
            output: self.output,
            epoch: self.next_epoch(),
            metrics: ExecutionPlanMetricsSet::new(),
            nulls: (0..columns).map(|_| AtomicU64::new(0)).collect(),
        }))
    }
}
