use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, SpillMetrics};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, SpillManager};
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::IFileRepartitionExec;
use super::waves::active_inputs;
use crate::exchange::{ExchangeHandle, ExchangeMetrics, ExchangePlan, LaneStream};

/// What a node knows of its execution. Outputs share it; a node with other children has its own.
#[derive(Debug, Default)]
pub(super) struct NodeState(Arc<Mutex<Progress>>);

#[derive(Debug, Default)]
struct Progress {
    stage: Stage,
    taken: Vec<bool>,
    /// Outputs whose stream has neither been polled nor dropped yet.
    waiting: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    New,
    /// The inputs are executed and not polled yet.
    Opened(Box<Opening>),
    Running(ExchangeHandle),
    /// Every output has its stream: the exchange lives as long as they do.
    HandedOut,
    /// The exchange did not start.
    Failed(Arc<DataFusionError>),
}

struct Opening {
    plan: ExchangePlan,
    inputs: Vec<SendableRecordBatchStream>,
    /// Outputs whose stream was dropped unpolled.
    dropped: Vec<usize>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::New => "New",
            Stage::Opened(_) => "Opened",
            Stage::Running(_) => "Running",
            Stage::HandedOut => "HandedOut",
            Stage::Failed(_) => "Failed",
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
    ) -> Result<Claim> {
        let outputs = node.partitioning().partition_count();
        let mut progress = self.0.lock();
        if matches!(progress.stage, Stage::New) {
            let inputs = node.input().output_partitioning().partition_count();
            let inputs = (0..inputs)
                .map(|input| node.input().execute(input, Arc::clone(context)))
                .collect::<Result<_>>()?;
            let opening = Opening { plan: node.exchange_plan(), inputs, dropped: vec![] };
            progress.stage = Stage::Opened(Box::new(opening));
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
        Ok(Claim { state: Some(Self(Arc::clone(&self.0))), partition })
    }
}

impl Progress {
    /// The running exchange; starts it the first time.
    fn handle(&mut self, context: &Arc<TaskContext>) -> Result<ExchangeHandle> {
        let opening = match std::mem::take(&mut self.stage) {
            Stage::Opened(opening) => *opening,
            other => {
                self.stage = other;
                return match &self.stage {
                    Stage::Running(handle) => Ok(handle.clone()),
                    Stage::Failed(error) => Err(DataFusionError::from(error)),
                    other => internal_err!("an output was polled in state {other:?}"),
                };
            }
        };
        match ExchangeHandle::start(opening.plan, opening.inputs, context) {
            Ok(handle) => {
                for output in opening.dropped {
                    drop(handle.lanes_of(output));
                }
                self.stage = Stage::Running(handle.clone());
                Ok(handle)
            }
            Err(error) => {
                let error = Arc::new(error);
                self.stage = Stage::Failed(Arc::clone(&error));
                Err(DataFusionError::from(&error))
            }
        }
    }

    /// One output has been polled or dropped. After the last one this no longer keeps the exchange
    /// running; what kept it is returned, to be dropped without the lock.
    fn served(&mut self) -> Option<Stage> {
        self.waiting = self.waiting.saturating_sub(1);
        (self.waiting == 0 && !matches!(self.stage, Stage::Failed(_)))
            .then(|| std::mem::replace(&mut self.stage, Stage::HandedOut))
    }
}

/// The right of an output's stream to its lanes. Dropping it unused closes them: nobody will ever
/// ask for their rows.
struct Claim {
    /// `None` once it is used.
    state: Option<NodeState>,
    partition: usize,
}

impl Claim {
    /// The lanes of the output, and the pool for a merge of them.
    fn lanes(
        mut self,
        context: &Arc<TaskContext>,
    ) -> Result<(Vec<LaneStream>, Arc<dyn MemoryPool>)> {
        let Some(state) = self.state.take() else {
            return internal_err!("an output has its lanes once");
        };
        let mut progress = state.0.lock();
        let lanes = progress
            .handle(context)
            .map(|handle| (handle.lanes_of(self.partition), Arc::clone(handle.merge_pool())));
        let served = progress.served();
        drop(progress);
        drop(served);
        lanes
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        let mut progress = state.0.lock();
        let lanes = match &mut progress.stage {
            Stage::Running(handle) => handle.lanes_of(self.partition),
            Stage::Opened(opening) => {
                opening.dropped.push(self.partition);
                vec![]
            }
            _ => vec![],
        };
        let served = progress.served();
        drop(progress);
        drop((lanes, served));
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
        let claim = self.state().open(self, partition, &context)?;
        let schema = self.schema();
        let stream_schema = SchemaRef::clone(&schema);
        let order = self.merge_order().cloned();
        let baseline = BaselineMetrics::new(self.metrics_set(), partition);
        let metrics = self.metrics_set().clone();
        let stream = futures::stream::once(async move {
            let (mut lanes, merge_pool) = claim.lanes(&context)?;
            let exchange = lanes.first().and_then(LaneStream::exchange_metrics);
            let count = move |batch: &RecordBatch| {
                exchange.iter().for_each(|metrics| metrics.count_output(batch.num_rows()));
            };
            let schema = SchemaRef::clone(&stream_schema);
            let Some(order) = order else {
                let Some(lane) = lanes.pop() else {
                    return internal_err!("output {partition} has no lane");
                };
                let lane = Box::pin(lane.with_metrics(baseline)) as SendableRecordBatchStream;
                return Ok(lane.inspect_ok(count));
            };
            let name = format!("IFileRepartitionExec[Merge {partition}]");
            let reservation = MemoryConsumer::new(name).register(&merge_pool);
            let spill_metrics = SpillMetrics::new(&metrics, partition);
            let spills =
                SpillManager::new(context.runtime_env(), spill_metrics, SchemaRef::clone(&schema));
            let streams = lanes.into_iter().map(|lane| Box::pin(lane) as SendableRecordBatchStream);
            let merge = StreamingMergeBuilder::new()
                .with_streams(streams.collect())
                .with_schema(schema)
                .with_expressions(&order)
                .with_metrics(baseline)
                .with_batch_size(context.session_config().batch_size())
                .with_reservation(reservation)
                .with_spill_manager(spills)
                .build()?;
            Ok(merge.inspect_ok(count))
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
            active_inputs: match self.preserve_order() {
                // The merge needs a row of each.
                true => usize::MAX,
                false => active_inputs(self.input(), self.options().active_inputs()),
            },
            options: self.options().clone(),
            metrics: ExchangeMetrics::new(self.metrics_set()),
        }
    }
}
