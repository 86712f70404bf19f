//! The running exchange: producers, lanes, the spill decision, consumers.
//!
//! ```text
//!  input 0 -> producer -> Router -> Stage of each partition -> Lane 0 -> consumer 0
//!  input 1 -> producer ----^   \--> Slabs of many outputs ---> Lane 1 -> consumer 1
//!                                       | the pool refuses
//!                                       v
//!                      Pressure: encode largest lanes -> write a run -> RunWriter -> scratch files
//! ```
//!
//! **Where rows are staged.** With few outputs every lane has a stage of Arrow rows, and a batch goes
//! to the stages of several lanes column by column ([`gather`]). With many outputs the rows of all of
//! them are narrowed as they come, in slabs that the lanes get when they are full ([`slabs`]).
//!
//! **Who reads.** A producer reads one input, and the next one that nobody has begun when that ends. There
//! are as many as inputs, or as many as may be read at the same time where all of them can be read one
//! after another.
//!
//! **Who waits.** A producer waits while every open lane has a whole batch ([`gate`]); it never
//! waits for memory: a refused reservation spills what the exchange itself holds ([`pressure`]). A
//! consumer waits for rows and for blocks that a blocking thread fetches.
//!
//! **Locks.** Each lane has a lock of its own, held to append rows or to take a batch, never across
//! IO, encoding, decoding or an await. A producer that gathers a batch holds those of several lanes,
//! locked in their order; the lock of the slabs comes before that of a lane; a consumer holds one
//! lane's. Producers that spill encode side by
//! side and write alone, in turns that they wait for asynchronously, before any lane's lock. Spilling copies references out of a lane, works without
//! its lock, and then gives the items that are still there their new form.
//!
//! **Ends.** When the last lane is closed, or the last handle dropped, the producers are aborted;
//! what is held is released by permits and files by their last block. An error of an input, a panic
//! included, aborts the others and reaches every consumer once, after the batches before it.

mod consumer;
mod encode;
mod gate;
mod gather;
mod lane;
mod metrics;
mod pressure;
mod producer;
mod slabs;
mod spill;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::consumer::LaneStream;
pub(crate) use self::metrics::ExchangeMetrics;

use self::gate::Gate;
use self::lane::{Lane, LaneShape, Next, Weight};
use self::pressure::Pressure;
use self::slabs::SlabStages;
use crate::config::IFileOptions;
use crate::memory::{Ledger, MergePool, Shares};

/// Least bytes of the batches that lanes give to merges, however small the memory pool.
const LEAST_MERGE_BATCH_BYTES: usize = 8 * 1024;

/// What an exchange is asked to do.
pub(crate) struct ExchangePlan {
    pub(crate) name: Arc<str>,
    pub(crate) schema: SchemaRef,
    pub(crate) partitioning: Partitioning,
    /// Whether the rows of each input keep a lane of their own per output, for a merge.
    pub(crate) preserve_order: bool,
    /// Inputs that are read at the same time; the others follow as those end.
    pub(crate) active_inputs: usize,
    pub(crate) options: IFileOptions,
    pub(crate) metrics: ExchangeMetrics,
}

/// An exchange in execution.
pub(crate) struct Exchange {
    plan: ExchangePlan,
    shape: LaneShape,
    inputs: usize,
    /// Inputs that can be worked on at the same time.
    producers_at_once: usize,
    outputs: usize,
    ledger: Arc<Ledger>,
    /// What merges of lanes reserve from.
    merge_pool: Arc<dyn MemoryPool>,
    lanes: Vec<LaneCell>,
    gates: Vec<Gate>,
    /// Where rows are staged for many outputs; `None` where each lane stages its own.
    slabs: Option<SlabStages>,
    pressure: Pressure,
    /// Bytes of all lanes that pressure could change.
    spillable_bytes: AtomicUsize,
    open_lanes: AtomicUsize,
    inputs_left: AtomicUsize,
    failure: OnceLock<Arc<DataFusionError>>,
    producers: Mutex<Vec<SpawnedTask<()>>>,
}

/// A lane and, for the choice of what to spill, what it holds.
struct LaneCell {
    lane: Mutex<Lane>,
    arrow_bytes: AtomicUsize,
    block_bytes: AtomicUsize,
    /// Whether it holds something ready for its reader.
    unread: AtomicBool,
}

/// A lane under its lock; when it is dropped, what others see of the lane is settled and its
/// consumer woken.
struct LockedLane<'a> {
    exchange: &'a Exchange,
    index: usize,
    cell: &'a LaneCell,
    // The lock goes before the consumer is woken: fields are dropped in their order.
    lane: MutexGuard<'a, Lane>,
    waking: Waking,
}

/// Wakes a consumer when it is dropped.
struct Waking(Option<Waker>);

impl Drop for Waking {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

impl Deref for LockedLane<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl DerefMut for LockedLane<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl Drop for LockedLane<'_> {
    fn drop(&mut self) {
        self.waking.0 = self.exchange.settle(self.index, self.cell, &mut self.lane);
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("name", &self.plan.name).finish_non_exhaustive()
    }
}

/// Keeps an exchange running. The producers are aborted with the last handle.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeHandle(Arc<HandleInner>);

#[derive(Debug)]
struct HandleInner {
    exchange: Arc<Exchange>,
}

impl Drop for HandleInner {
    fn drop(&mut self) {
        self.exchange.abort();
    }
}

impl ExchangeHandle {
    /// Registers the memory consumer and starts the producers.
    ///
    /// # Errors
    /// A partitioning without a placement of rows.
    pub(crate) fn start(
        plan: ExchangePlan,
        inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let outputs = plan.partitioning.partition_count();
        let groups = if plan.preserve_order { inputs.len() } else { 1 };
        let shares =
            Shares { most: plan.options.memory_share, headroom: plan.options.memory_headroom };
        let ledger = Ledger::new(&plan.name, context.memory_pool(), shares);
        let lanes = groups * outputs;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let producers_at_once = cores.min(inputs.len()).min(plan.active_inputs).max(1);
        let exchange = Arc::new(Exchange {
            shape: LaneShape {
                schema: SchemaRef::clone(&plan.schema),
                batch_rows: context.session_config().batch_size(),
                batch_bytes: match plan.preserve_order {
                    true => merge_batch_bytes(&plan.options, &ledger, lanes),
                    false => plan.options.batch_bytes,
                },
                eager: plan.preserve_order,
            },
            inputs: inputs.len(),
            producers_at_once,
            outputs,
            lanes: (0..lanes)
                .map(|_| LaneCell {
                    lane: Mutex::new(Lane::new(ledger.empty())),
                    arrow_bytes: AtomicUsize::new(0),
                    block_bytes: AtomicUsize::new(0),
                    unread: AtomicBool::new(false),
                })
                .collect(),
            gates: (0..groups).map(|_| Gate::new(outputs)).collect(),
            slabs: SlabStages::try_new(
                &plan,
                producers_at_once,
                outputs,
                context.session_config().batch_size(),
                &ledger,
            ),
            pressure: Pressure::new(&plan, context, producers_at_once, &ledger),
            spillable_bytes: AtomicUsize::new(0),
            open_lanes: AtomicUsize::new(lanes),
            inputs_left: AtomicUsize::new(inputs.len()),
            failure: OnceLock::new(),
            producers: Mutex::new(Vec::new()),
            merge_pool: Arc::new(MergePool::new(Arc::clone(&ledger), lanes)),
            ledger,
            plan,
        });
        exchange.spawn_producers(inputs)?;
        Ok(Self(Arc::new(HandleInner { exchange })))
    }

    /// The pool for a merge of lanes.
    pub(crate) fn merge_pool(&self) -> &Arc<dyn MemoryPool> {
        &self.0.exchange.merge_pool
    }

    /// The lanes that feed output `output`, one per group of inputs.
    pub(crate) fn lanes_of(&self, output: usize) -> Vec<LaneStream> {
        let exchange = &self.0.exchange;
        (0..exchange.gates.len())
            .map(|group| LaneStream::new(self.clone(), group * exchange.outputs + output))
            .collect()
    }
}

/// Bytes of the batches that lanes give to merges: a merge holds one or two of each lane, in rows
/// and in keys, so all of them together stay within the exchange's part of the pool.
fn merge_batch_bytes(options: &IFileOptions, ledger: &Ledger, lanes: usize) -> usize {
    let share = ledger.ceiling_bytes() / (4 * lanes.max(1));
    share.max(LEAST_MERGE_BATCH_BYTES).min(options.batch_bytes)
}

impl Exchange {
    fn gate_of(&self, lane: usize) -> Option<&Gate> {
        self.gates.get(lane.checked_div(self.outputs)?)
    }

    /// Works on a lane under its lock, then settles what others see of it.
    fn with_lane<T>(&self, index: usize, work: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let mut lane = self.lock_lane(index)?;
        Some(work(&mut lane))
    }

    fn lock_lane(&self, index: usize) -> Option<LockedLane<'_>> {
        let cell = self.lanes.get(index)?;
        let (lane, waking) = (cell.lane.lock(), Waking(None));
        Some(LockedLane { exchange: self, index, cell, lane, waking })
    }

    /// Settles what others see of a lane: backpressure, bytes held, and the consumer if there is
    /// something for it. Returns its waker.
    fn settle(&self, index: usize, cell: &LaneCell, lane: &mut Lane) -> Option<Waker> {
        let Weight { arrow, blocks } = lane.weight();
        let less = cell.arrow_bytes.swap(arrow, Ordering::Relaxed)
            + cell.block_bytes.swap(blocks, Ordering::Relaxed);
        let more = arrow + blocks;
        if more > less {
            self.spillable_bytes.fetch_add(more - less, Ordering::Relaxed);
        } else if less > more {
            self.spillable_bytes.fetch_sub(less - more, Ordering::Relaxed);
        }
        cell.unread.store(lane.has_unread(), Ordering::Relaxed);
        let starving = lane.is_starving(&self.shape);
        if starving != lane.starving {
            lane.starving = starving;
            if let Some(gate) = self.gate_of(index) {
                gate.set_starving(starving);
            }
        }
        let ready = lane.has_output(&self.shape) && !lane.fetching || lane.is_done();
        if ready { lane.waiter.take() } else { None }
    }

    /// What lane `index` has for its consumer; registers the consumer where that is nothing.
    fn poll_lane(&self, index: usize, cx: &mut Context<'_>) -> Poll<Result<Next>> {
        let polled = self.with_lane(index, |lane| {
            // Read under the lock: `fail` sets it before it goes from lane to lane.
            let failed = self.failure.get();
            if let Some(error) = lane.error.take() {
                return Poll::Ready(Err(error));
            }
            match lane.next(&self.shape, self.plan.options.read_ahead_bytes) {
                Ok(Next::Wait) => match failed {
                    Some(error) if !lane.fetching => Poll::Ready(Err(DataFusionError::from(error))),
                    _ => {
                        lane.wanted = true;
                        lane.waiter = Some(cx.waker().clone());
                        Poll::Pending
                    }
                },
                other => {
                    lane.wanted = false;
                    Poll::Ready(other)
                }
            }
        });
        polled.unwrap_or(Poll::Ready(Ok(Next::Done)))
    }

    /// The consumer of lane `index` is gone.
    fn close_lane(&self, index: usize) {
        let closed = self.with_lane(index, Lane::close).unwrap_or(false);
        if !closed {
            return;
        }
        self.close_slab(index);
        if let Some(gate) = self.gate_of(index) {
            gate.close_lane();
        }
        if self.open_lanes.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.abort();
            // Tasks that are about to end may hold the exchange a little longer than its consumers.
            self.pressure.release();
        }
    }

    /// Ends the exchange with `error`, the first one counts.
    fn fail(&self, error: DataFusionError) {
        if self.failure.set(Arc::new(error)).is_err() {
            return;
        }
        self.abort();
        for cell in &self.lanes {
            let waiter = cell.lane.lock().waiter.take();
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
    }

    fn abort(&self) {
        let producers = std::mem::take(&mut *self.producers.lock());
        drop(producers);
    }

    fn note_peak(&self) {
        self.plan.metrics.peak_reserved.set_max(self.ledger.peak_bytes());
    }
}
