use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, SpillMetrics};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, SpillManager};
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::IFileRepartitionExec;
use crate::exchange::{ExchangeHandle, ExchangeMetrics, ExchangePlan, LaneStream};

/// What a node knows of its execution. Outputs share it; a node with other children has its own.
#[derive(Debug, Default)]
pub(super) struct NodeState(Arc<Mutex<Progress>>);

#[derive(Debug, Default)]
struct Progress {
    stage: Stage,
    /// Outputs that were executed.
    taken: Vec<bool>,
    /// Outputs that were given up before the exchange started.
    given_up: Vec<usize>,
    /// Outputs whose stream has been neither polled nor dropped yet.
    waiting: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    New,
    /// The inputs are executed and not polled yet.
    Opened(ExchangePlan, Vec<SendableRecordBatchStream>),
    Running(ExchangeHandle),
    /// No output waits for its lanes: the exchange lives as long as their streams do.
    HandedOut,
    Failed,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::New => "New",
            Stage::Opened(..) => "Opened",
            Stage::Running(_) => "Running",
            Stage::HandedOut => "HandedOut",
            Stage::Failed => "Failed",
        })
    }
}

impl NodeState {
    /// Marks `partition` as executed and executes the inputs the first time.
    fn open(
        &self,
        node: &IFileRepartitionExec,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Output> {
        let outputs = node.partitioning().partition_count();
        let mut progress = self.0.lock();
        if matches!(progress.stage, Stage::New) {
            let inputs = node.input().output_partitioning().partition_count();
            let streams = (0..inputs)
                .map(|input| node.input().execute(input, Arc::clone(context)))
                .collect::<Result<_>>()?;
            progress.stage = Stage::Opened(node.exchange_plan(), streams);
            progress.taken = vec![false; outputs];
            progress.waiting = outputs;
        }
        match progress.taken.get_mut(partition) {
            Some(taken) if !*taken => *taken = true,
            Some(_) => {
                return internal_err!(
                    "partition {partition} of {} was executed before; a node executes each \
                     partition once (reset_state gives a fresh node)",
                    node.name()
                );
            }
            None => {
                return internal_err!(
                    "partition {partition} of {} does not exist, it has {outputs}",
                    node.name()
                );
            }
        }
        Ok(Output { progress: Arc::clone(&self.0), partition, waiting: true })
    }
}

impl Progress {
    /// One output less waits. Returns what is not needed any more, to be dropped without the lock.
    fn settle(&mut self) -> Option<Stage> {
        self.waiting -= 1;
        (self.waiting == 0).then(|| std::mem::replace(&mut self.stage, Stage::HandedOut))
    }
}

/// An output between its execution and its first poll.
struct Output {
    progress: Arc<Mutex<Progress>>,
    partition: usize,
    waiting: bool,
}

impl Output {
    /// The lanes of this output; starts the exchange the first time.
    fn lanes(mut self, context: &TaskContext) -> Result<Vec<LaneStream>> {
        self.waiting = false;
        let mut progress = self.progress.lock();
        let handle = match std::mem::replace(&mut progress.stage, Stage::Failed) {
            Stage::Opened(plan, inputs) => ExchangeHandle::start(plan, inputs, context)?,
            Stage::Running(handle) => handle,
            other => {
                return internal_err!("partition {} polled in state {other:?}", self.partition);
            }
        };
        for output in std::mem::take(&mut progress.given_up) {
            drop(handle.lanes_of(output));
        }
        let lanes = handle.lanes_of(self.partition);
        progress.stage = Stage::Running(handle);
        drop(progress.settle());
        Ok(lanes)
    }
}

impl Drop for Output {
    /// The stream was never polled: nobody will read the lanes of this output.
    fn drop(&mut self) {
        if !self.waiting {
            return;
        }
        let mut progress = self.progress.lock();
        let lanes = match &progress.stage {
            Stage::Running(handle) => handle.lanes_of(self.partition),
            _ => Vec::new(),
        };
        progress.given_up.push(self.partition);
        let unneeded = progress.settle();
        drop(progress);
        drop((lanes, unneeded));
    }
}

impl IFileRepartitionExec {
    /// The stream of one output. Inputs are executed here; nothing is polled, and no memory
    /// consumer exists, before the stream is.
    pub(super) fn run(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        log::trace!("{}: execute partition {partition}", self.name());
        let output = self.state().open(self, partition, &context)?;
        let schema = self.schema();
        let stream_schema = SchemaRef::clone(&schema);
        let order = self.merge_order().cloned();
        let baseline = BaselineMetrics::new(self.metrics_set(), partition);
        let spill_metrics = SpillMetrics::new(self.metrics_set(), partition);
        let stream = futures::stream::once(async move {
            let mut lanes = output.lanes(&context)?;
            let schema = SchemaRef::clone(&stream_schema);
            let Some(order) = order else {
                let Some(lane) = lanes.pop() else {
                    return internal_err!("output {partition} has no lane");
                };
                return Ok(Box::pin(lane.with_metrics(baseline)) as SendableRecordBatchStream);
            };
            let name = format!("IFileRepartitionExec[Merge {partition}]");
            let reservation = MemoryConsumer::new(name).register(context.memory_pool());
            let spills =
                SpillManager::new(context.runtime_env(), spill_metrics, SchemaRef::clone(&schema));
            let streams = lanes.into_iter().map(|lane| Box::pin(lane) as SendableRecordBatchStream);
            StreamingMergeBuilder::new()
                .with_streams(streams.collect())
                .with_schema(schema)
                .with_expressions(&order)
                .with_metrics(baseline)
                .with_batch_size(context.session_config().batch_size())
                .with_reservation(reservation)
                .with_spill_manager(spills)
                .build()
        });
        let stream = RecordBatchStreamAdapter::new(schema, Box::pin(stream.try_flatten()));
        Ok(Box::pin(cooperative(stream)))
    }

    fn exchange_plan(&self) -> ExchangePlan {
        ExchangePlan {
            name: self.name().into(),
            schema: self.schema(),
            partitioning: self.partitioning().clone(),
            preserve_order: self.preserve_order(),
            options: self.options().clone(),
            metrics: ExchangeMetrics::new(self.metrics_set()),
        }
    }
}
