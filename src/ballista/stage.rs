//! The last node of a stage that ends in a hash exchange.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::Array;
use ballista_core::JobId;
use ballista_core::execution_plans::{collect_runtime_stats_reports, create_shuffle_path};
use ballista_core::serde::protobuf::{RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats};
use ballista_core::utils::collect_plan_metrics;
use ballista_executor::execution_engine::QueryStageExecutor;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_err, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use futures::StreamExt;

use super::fault::retryable;
use crate::codec::to_u64;
use crate::config::IFileOptions;
use crate::error::{IFileError, Place};
use crate::map_output::{
    MapOutputOptions, MapTask, MapTaskMetrics, OutputName, OutputStore, WrittenOutput,
};
use crate::map_status::Location;

const DATA: &str = "data.arrow";
const INDEX: &str = "data.arrow.index";

/// A task of a stage that writes a map output.
pub(super) struct MapStage {
    pub(super) job_id: JobId,
    pub(super) stage_id: usize,
    pub(super) task_id: usize,
    pub(super) work_dir: Arc<Path>,
    /// Ballista's writer over `input`, for what is asked of a plan; it never runs.
    pub(super) stock: Arc<dyn ExecutionPlan>,
    pub(super) input: Arc<dyn ExecutionPlan>,
    pub(super) partitioning: Partitioning,
    pub(super) options: IFileOptions,
    pub(super) output: MapOutputOptions,
    /// Later attempts of the task replace what earlier ones left.
    pub(super) epoch: u64,
    pub(super) metrics: ExecutionPlanMetricsSet,
    /// Nulls of each column.
    pub(super) nulls: Arc<[AtomicU64]>,
}

impl fmt::Debug for MapStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapStage")
            .field("job_id", &self.job_id)
            .field("stage_id", &self.stage_id)
            .field("task_id", &self.task_id)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for MapStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics: Vec<String> =
            self.metrics.clone_inner().iter().map(ToString::to_string).collect();
        let plan = displayable(self.input.as_ref());
        write!(
            f,
            "IFileMapStage: {}, metrics=[{}]\n{}",
            self.partitioning,
            metrics.join(", "),
            plan.one_line()
        )
    }
}

impl MapStage {
    fn directory(&self) -> Result<PathBuf> {
        let (job, task) = (&self.job_id, to_u64(self.task_id));
        let path = create_shuffle_path(&self.work_dir, job, self.stage_id, 0, Some(task), true)?;
        match path.parent() {
            Some(directory) if path.file_name().is_some_and(|name| name == DATA) => {
                Ok(directory.to_owned())
            }
            _ => exec_err!("Ballista puts map outputs in {}, which is not {DATA}", path.display()),
        }
    }

    fn task(&self, directory: &Path) -> MapTask {
        let path = directory.join(DATA).display().to_string();
        MapTask {
            owner: "IFileMapStage".into(),
            schema: self.input.schema(),
            partitioning: self.partitioning.clone(),
            sorted: self.input.output_ordering().is_some(),
            options: self.options.clone(),
            output: self.output,
            store: OutputStore::new(directory)
                .with_fsync(self.output.fsync)
                .with_file_names(DATA, INDEX),
            name: OutputName { shuffle: to_u64(self.stage_id), map_id: to_u64(self.task_id) },
            attempt: 0,
            epoch: self.epoch,
            location: Location { executor: "".into(), host: "".into(), port: 0, path: path.into() },
            metrics: MapTaskMetrics::new(&self.metrics),
        }
    }

    async fn write(&self, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let directory = self.directory()?;
        let mut task = self.task(&directory);
        let in_place = epoch_in_place(directory.clone(), task.store.clone(), task.name).await?;
        // The clock may have been set back.
        task.epoch = task.epoch.max(in_place.map_or(0, |epoch| epoch.saturating_add(1)));
        let count = self.input.output_partitioning().partition_count();
        let inputs = (0..count)
            .map(|input| {
                let stream = self.input.execute(input, Arc::clone(&context))?;
                Ok(counting_nulls(stream, &self.nulls))
            })
            .collect::<Result<Vec<_>>>()?;
        let written = task.run(inputs, &context).await?;
        if !written.committed.ours {
            return exec_err!(
                "{} has the output of a later attempt of task {}",
                directory.display(),
                self.task_id
            );
        }
        partitions(&written, to_u64(self.task_id))
    }
}

/// Makes the directory of an output, unless it is there; returns the epoch of the pair in place, if there is one.
async fn epoch_in_place(
    directory: PathBuf,
    store: OutputStore,
    name: OutputName,
) -> Result<Option<u64>> {
    let found = SpawnedTask::spawn_blocking(move || {
        std::fs::create_dir_all(&directory).map_err(|source| {
            let file = Some(directory.display().to_string().into());
            let place = Place { file, ..Place::default() };
            IFileError::Io { action: "create the directory of a map output", place, source }
        })?;
        store.epoch_of(name)
    });
    let found = found
        .join_unwind()
        .await
        .map_err(|_| internal_datafusion_err!("the task that makes a directory was cancelled"))?;
    Ok(found?)
}

/// Adds the nulls of each column of `stream` to `nulls`.
fn counting_nulls(
    stream: SendableRecordBatchStream,
    nulls: &Arc<[AtomicU64]>,
) -> SendableRecordBatchStream {
    let (schema, nulls) = (stream.schema(), Arc::clone(nulls));
    let counted = stream.inspect(move |batch| {
        if let Ok(batch) = batch {
            for (column, count) in batch.columns().iter().zip(nulls.iter()) {
                count.fetch_add(to_u64(column.logical_null_count()), Ordering::Relaxed);
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, counted))
}

/// What Ballista is told of an output: the partitions that have rows, with their rows, their bytes as Arrow arrays, and
/// segments for batches.
fn partitions(written: &WrittenOutput, task: u64) -> Result<Vec<ShuffleWritePartition>> {
    let columns = &written.status.columns;
    let (Some(rows), Some(bytes), Some(segments)) =
        (&columns.rows, &columns.memory_bytes, &columns.segments)
    else {
        return exec_err!("the status of map task {task} lacks rows, bytes or segments");
    };
    let of_partition = (0..).zip(rows).zip(bytes).zip(segments);
    let reported = of_partition.filter(|(((_, rows), _), _)| **rows > 0);
    let reported =
        reported.map(|(((partition_id, rows), bytes), segments)| ShuffleWritePartition {
            partition_id,
            num_batches: u64::from(*segments),
            num_rows: *rows,
            num_bytes: (*bytes).max(1),
            file_id: Some(task),
            is_sort_shuffle: true,
        });
    Ok(reported.collect())
}

#[async_trait::async_trait]
impl QueryStageExecutor for MapStage {
    async fn execute_query_stage(
        &self,
        _task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        self.write(context).await.map_err(retryable)
    }

    /// One set per node, this one first: the scheduler counts them.
    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        let mut sets = vec![self.metrics.clone_inner()];
        sets.append(&mut collect_plan_metrics(self.input.as_ref()));
        sets
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        collect_runtime_stats_reports(&self.stock).unwrap_or_else(|error| {
            log::warn!("no statistics of task {} are reported: {error}", self.task_id);
            Vec::new()
        })
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        let of_column = |(column, nulls): (u32, &AtomicU64)| TaskColumnStats {
            column,
            null_count: nulls.load(Ordering::Relaxed),
            sketches: vec![],
        };
        (0..).zip(self.nulls.iter()).map(of_column).collect()
    }
}
