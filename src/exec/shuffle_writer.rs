use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, RecordBatch, StringArray,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, assert_or_internal_err, not_impl_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, EvaluationType, SchedulingType,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use crate::block::why_not;
use crate::config::IFileOptions;
use crate::map_output::{
    CommitStep, MapOutputOptions, MapTask, MapTaskMetrics, OutputName, OutputStore, WrittenOutput,
};
use crate::map_status::Location;

/// Which output a task writes, and where.
#[derive(Debug, Clone)]
pub struct ShuffleWrite {
    /// Directory of the files; it exists.
    pub directory: PathBuf,
    /// Shuffle and map task.
    pub name: OutputName,
    /// Attempt of the map task.
    pub attempt: u32,
    /// Epoch of the shuffle: a valid pair of this epoch or a later one stays, older ones are replaced.
    pub epoch: u64,
    /// Where readers will find the output, for the status. An empty path becomes that of the data file.
    pub location: Location,
    /// How it is written.
    pub output: MapOutputOptions,
}

/// Writes the rows of its input, all partitions of it side by side, as one map output: a data file with segments in
/// partition order and its index.
///
/// The stream has one row when the output is in place: `map_id`, `attempt`, `attempt_id`, `committed` (false if the pair
/// of another attempt was there before, which the other columns then describe), `data_path`, `index_path`, `rows` (null if the
/// index does not say), `data_bytes`, `segments`, `spills` and `spilled_bytes` (null if another attempt wrote the pair), and
/// `status`, the bytes of a [`MapStatus`](crate::map_status::MapStatus).
///
/// Rows are placed as by [`IFileRepartitionExec`](crate::IFileRepartitionExec), but for round-robin, which deals rows by
/// their ordinal. Dropping the stream removes what was not committed.
#[derive(Debug)]
pub struct IFileShuffleWriterExec {
    input: Arc<dyn ExecutionPlan>,
    partitioning: Partitioning,
    write: ShuffleWrite,
    options: IFileOptions,
    store: OutputStore,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

fn summary_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("map_id", DataType::UInt64, false),
        Field::new("attempt", DataType::UInt32, false),
        Field::new("attempt_id", DataType::FixedSizeBinary(16), false),
        Field::new("committed", DataType::Boolean, false),
        Field::new("data_path", DataType::Utf8, false),
        Field::new("index_path", DataType::Utf8, false),
        Field::new("rows", DataType::UInt64, true),
        Field::new("data_bytes", DataType::UInt64, false),
        Field::new("segments", DataType::UInt64, false),
        Field::new("spills", DataType::UInt64, true),
        Field::new("spilled_bytes", DataType::UInt64, true),
        Field::new("status", DataType::Binary, false),
    ]))
}

impl IFileShuffleWriterExec {
    /// A writer of `input`, placed by `partitioning`.
    ///
    /// # Errors
    /// A schema that blocks cannot carry, a partitioning without a placement, an unbounded input.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        partitioning: Partitioning,
        write: ShuffleWrite,
        options: IFileOptions,
    ) -> Result<Self> {
        if let Some(reason) = why_not(&input.schema()) {
            return plan_err!("IFileShuffleWriterExec cannot carry {reason}");
        }
        if matches!(input.boundedness(), Boundedness::Unbounded { .. }) {
            return plan_err!("IFileShuffleWriterExec needs an input that ends");
        }
        match &partitioning {
            Partitioning::Hash(_, count) | Partitioning::RoundRobinBatch(count) if *count > 0 => {}
            Partitioning::Range(_) => {}
            other => return not_impl_err!("shuffle write by {other:?}"),
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(summary_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager);
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        let store = OutputStore::new(&write.directory).with_fsync(write.output.fsync);
        Ok(Self { input, partitioning, write, options, store, properties, metrics })
    }

    /// The same; `observer` is called after each step of the commit, for traces and tests. Its error is that of the step.
    #[must_use]
    pub fn with_commit_observer(
        self,
        observer: impl Fn(CommitStep) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { store: self.store.with_observer(observer), ..self }
    }

    /// The node that gives the rows.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// How rows are placed.
    pub fn partitioning(&self) -> &Partitioning {
        &self.partitioning
    }

    /// What is written.
    pub fn shuffle_write(&self) -> &ShuffleWrite {
        &self.write
    }

    /// The options.
    pub fn options(&self) -> &IFileOptions {
        &self.options
    }

    fn task(&self) -> MapTask {
        let write = &self.write;
        let store = self.store.clone();
        let mut location = write.location.clone();
        if location.path.is_empty() {
            location.path = store.data_path(write.name).display().to_string().into();
        }
        MapTask {
            owner: self.name().into(),
            schema: self.input.schema(),
            partitioning: self.partitioning.clone(),
            sorted: self.input.output_ordering().is_some(),
            options: self.options.clone(),
            output: write.output,
            store,
            name: write.name,
            attempt: write.attempt,
            epoch: write.epoch,
            location,
            metrics: MapTaskMetrics::new(&self.metrics),
        }
    }
}

/// The one row that tells of an output.
fn summary(written: &WrittenOutput) -> Result<RecordBatch> {
    let status = &written.status;
    let known = |value: Option<u64>| -> ArrayRef { Arc::new(UInt64Array::from(vec![value])) };
    let number = |value: u64| known(Some(value));
    let rows: Option<u64> = status.columns.rows.as_ref().map(|rows| rows.iter().sum());
    let segments = status.columns.segments.iter().flatten().map(|count| u64::from(*count)).sum();
    let spilled = written.spilled.as_ref();
    let id = written.committed.attempt_id.0;
    let text = |path: &PathBuf| -> ArrayRef {
        Arc::new(StringArray::from(vec![path.display().to_string()]))
    };
    let columns: Vec<ArrayRef> = vec![
        number(status.map_id),
        Arc::new(UInt32Array::from(vec![status.attempt])),
        Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(id))?),
        Arc::new(BooleanArray::from(vec![written.committed.ours])),
        text(&written.committed.data),
        text(&written.committed.index),
        known(rows),
        number(status.data_length.unwrap_or(0)),
        number(segments),
        known(spilled.map(|spilled| spilled.runs)),
        known(spilled.map(|spilled| spilled.bytes)),
        Arc::new(BinaryArray::from_vec(vec![&status.encode()?])),
    ];
    Ok(RecordBatch::try_new(summary_schema(), columns)?)
}

impl DisplayAs for IFileShuffleWriterExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, output) = (self.write.name, self.write.output);
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(
                f,
                "{}: output={name}, partitioning={}, codec={}, layout={}",
                self.name(),
                self.partitioning,
                self.options.codec,
                output.layout
            ),
            DisplayFormatType::TreeRender => {
                writeln!(f, "output={name}")?;
                writeln!(f, "partitioning_scheme={}", self.partitioning)?;
                writeln!(f, "codec={}", self.options.codec)
            }
        }
    }
}

impl ExecutionPlan for IFileShuffleWriterExec {
    fn name(&self) -> &'static str {
        "IFileShuffleWriterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        super::apply_to_keys(&self.partitioning, f)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_or_internal_err!(
            children.len() == 1,
            "{} has one child, got {}",
            self.name(),
            children.len()
        );
        let input = children.swap_remove(0);
        let (partitioning, write) = (self.partitioning.clone(), self.write.clone());
        let node = Self::try_new(input, partitioning, write, self.options.clone())?;
        Ok(Arc::new(Self { store: self.store.clone(), ..node }))
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        assert_or_internal_err!(
            partition == 0,
            "partition {partition} of {} does not exist, it has one",
            self.name()
        );
        let inputs = self.input.output_partitioning().partition_count();
        let inputs = (0..inputs)
            .map(|input| self.input.execute(input, Arc::clone(&context)))
            .collect::<Result<Vec<_>>>()?;
        let task = self.task();
        let row = async move { summary(&task.run(inputs, &context).await?) };
        let stream = futures::stream::once(row);
        Ok(Box::pin(RecordBatchStreamAdapter::new(summary_schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
