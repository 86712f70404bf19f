use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::ScopedTimerGuard;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;

use super::Exchange;
use super::lane::{Appended, Ask};
use super::pressure::Relief;
use crate::memory::{Permit, WORKING_SET_BYTES};
use crate::partition::{Room, Routed, Router, Rows, Source};

/// Least bytes that a producer asks the pool for at once.
const CREDIT_BYTES: usize = 64 * 1024;

/// Most bytes that a producer asks the pool for beyond what it needs.
const MAX_CREDIT_BYTES: usize = 1024 * 1024;

impl Exchange {
    pub(super) fn spawn_producers(
        self: &Arc<Self>,
        inputs: Vec<SendableRecordBatchStream>,
    ) -> Result<()> {
        let count = inputs.len();
        if count == 0 {
            return self.end_lanes(0..self.lanes.len());
        }
        let mut turns = Vec::with_capacity(count);
        for (input, stream) in inputs.into_iter().enumerate() {
            // As in RepartitionExec, an ordered exchange deals each input's batches from output 0.
            let turn = if self.plan.preserve_order { 0 } else { input };
            let router = Router::try_new(&self.plan.partitioning, turn, count)?;
            let unfinished = Unfinished { exchange: Some(Arc::clone(self)), input };
            turns.push(Turn { stream, router, unfinished });
        }
        // Each task reads one input after another: those that are left have no task of their own.
        let turns = Arc::new(Mutex::new(turns.into_iter()));
        let spawn = |_| {
            let (exchange, turns) = (Arc::clone(self), Arc::clone(&turns));
            SpawnedTask::spawn(async move {
                while exchange.failure.get().is_none() {
                    let turn = turns.lock().next();
                    match turn {
                        Some(turn) => exchange.take_turn(turn).await,
                        None => return,
                    }
                }
            })
        };
        let spawned = (0..self.plan.active_inputs.clamp(1, count)).map(spawn).collect();
        *self.producers.lock() = spawned;
        if self.failure.get().is_some() {
            self.abort();
        }
        Ok(())
    }

    /// Reads one input; what goes wrong there ends the exchange.
    async fn take_turn(self: &Arc<Self>, turn: Turn) {
        let Turn { stream, router, unfinished } = turn;
        let input = unfinished.input;
        let work = async {
            self.run_input(input, stream, router).await?;
            self.end_input(input)
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic.as_ref(), input)));
        unfinished.end();
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    fn end_input(&self, input: usize) -> Result<()> {
        self.note_peak();
        let last = self.inputs_left.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            // There will be no more spills by producers. Consumers that see the end see nothing held.
            self.pressure.release();
        }
        if self.plan.preserve_order {
            return self.end_lanes(input * self.outputs..(input + 1) * self.outputs);
        }
        if last { self.end_lanes(0..self.lanes.len()) } else { Ok(()) }
    }

    fn end_lanes(&self, lanes: std::ops::Range<usize>) -> Result<()> {
        self.end_slabs()?;
        for index in lanes {
            if let Some(result) = self.with_lane(index, |lane| lane.finish(&self.shape)) {
                result?;
            }
        }
        Ok(())
    }

    /// Pulls one input to its end, or until no consumer is left.
    async fn run_input(
        self: &Arc<Self>,
        input: usize,
        mut stream: SendableRecordBatchStream,
        mut router: Router,
    ) -> Result<()> {
        let group = if self.plan.preserve_order { input } else { 0 };
        let Some(gate) = self.gates.get(group) else { return Ok(()) };
        while gate.is_open() {
            let timer = self.plan.metrics.fetch_time.timer();
            let batch = stream.next().await;
            timer.done();
            let Some(batch) = batch.transpose()? else { return Ok(()) };
            if batch.num_rows() > 0 {
                self.deliver(group, input, &mut router, batch).await?;
            }
            gate.pass().await;
            // Consumers that were woken take their batches while these are few, and in the cache.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn deliver(
        &self,
        group: usize,
        input: usize,
        router: &mut Router,
        batch: RecordBatch,
    ) -> Result<()> {
        let timer = self.plan.metrics.repartition_time.timer();
        let credit = &mut Credit { permit: self.ledger.empty(), timer };
        let routed = router.route(&batch)?;
        let first = group * self.outputs;
        if let (Routed::Whole(partition), None) = (&routed, &self.slabs) {
            return self.deliver_whole(first + partition, batch, credit).await;
        }
        let source = Source::try_new(&self.plan.schema, &batch)?;
        match routed {
            Routed::Grouped(grouped) if self.slabs.is_some() => {
                self.deliver_to_slabs(input, &source, Some(&grouped), 0, credit).await
            }
            Routed::Whole(partition) => {
                self.deliver_to_slabs(input, &source, None, partition, credit).await
            }
            Routed::Grouped(grouped) => {
                self.deliver_grouped(first, input, &source, &grouped, credit).await
            }
        }
    }

    /// Gathers `rows` into the stage of a lane.
    pub(super) async fn append(
        &self,
        lane: usize,
        source: &Source,
        mut rows: Rows<'_>,
        credit: &mut Credit<'_>,
    ) -> Result<()> {
        let mut ask = Ask::ALL;
        while !rows.is_empty() {
            let permit = &mut credit.permit;
            let appended =
                self.with_lane(lane, |lane| lane.append(&self.shape, source, rows, ask, permit));
            match appended.unwrap_or(Ok(Appended::Closed))? {
                Appended::Closed => return Ok(()),
                Appended::Taken(count) => {
                    rows = rows.split_at(count).1;
                    ask.most_rows = usize::MAX;
                }
                Appended::Needs { bytes, .. } if self.try_extend(credit, bytes) => {}
                // The pool refuses. Before others give way for it, the ask becomes modest.
                Appended::Needs { .. } if ask.room == Room::Full => ask.room = Room::Lean,
                Appended::Needs { bytes, rows: count } => {
                    if bytes > self.working_set_bytes() / 4 && count > 1 {
                        ask.most_rows = count / 2;
                    } else {
                        self.extend(credit, bytes).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives all rows of `batch` to a lane: without a copy, cut at the ends of windows, where the lane
    /// takes it; what would stay a small part of a batch, or pin more than its rows, is copied.
    async fn deliver_whole(
        &self,
        lane: usize,
        batch: RecordBatch,
        credit: &mut Credit<'_>,
    ) -> Result<()> {
        let batch = Source::conform(&self.plan.schema, batch)?;
        let (all, rows) = (batch.get_array_memory_size(), batch.num_rows());
        let (compact, mut start) = (is_compact(&batch, all), 0);
        while compact && start < rows {
            let left = rows - start;
            let passes = self.with_lane(lane, |lane| match lane.closed {
                true => Err(()),
                false => Ok(lane.passes(&self.shape, left)),
            });
            let count = match passes.unwrap_or(Err(())) {
                Err(()) => return Ok(()),
                Ok(None) => break,
                Ok(Some(count)) => count,
            };
            let count = match self.shape.eager {
                true => count.min((self.shape.batch_bytes * rows / all.max(1)).max(1)),
                false => count,
            };
            let bytes = (all * count).div_ceil(rows);
            if !self.try_extend(credit, bytes) {
                break;
            }
            let mut permit = self.ledger.empty();
            permit.move_from(&mut credit.permit, bytes);
            let part = if count == rows { batch.clone() } else { batch.slice(start, count) };
            // Another producer may have staged rows meanwhile: they go first.
            let pushed = self.with_lane(lane, |lane| match lane.passes(&self.shape, count) {
                Some(still) if still == count => {
                    lane.push(&self.shape, part, permit);
                    true
                }
                _ => false,
            });
            if pushed.unwrap_or(true) {
                start += count;
            }
        }
        if start == rows {
            return Ok(());
        }
        let source = Source::try_new(&self.plan.schema, &batch)?;
        self.append(lane, &source, Rows::Range { start, len: rows - start }, credit).await
    }

    /// What may be held although the pool refuses: the rows of a block, which may be small.
    pub(super) fn working_set_bytes(&self) -> usize {
        WORKING_SET_BYTES.min(self.plan.options.block_bytes)
    }

    /// Extends `credit` to at least `bytes` where the pool grants it.
    pub(super) fn try_extend(&self, credit: &mut Credit<'_>, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(credit.permit.bytes());
        if missing == 0 {
            return true;
        }
        let ahead = (4 * missing).clamp(CREDIT_BYTES, MAX_CREDIT_BYTES).max(missing);
        let granted = self.ledger.try_reserve(ahead).or_else(|_| self.ledger.try_reserve(missing));
        granted.map(|permit| credit.permit.merge(permit)).is_ok()
    }

    /// Extends `credit` to at least `bytes`, spilling what the exchange holds when the pool refuses.
    /// With nothing left to spill the bytes are taken all the same.
    pub(super) async fn extend(&self, credit: &mut Credit<'_>, bytes: usize) -> Result<()> {
        let missing = bytes.saturating_sub(credit.permit.bytes());
        credit.timer.stop();
        let permit = self.reserve_or_relieve(missing).await;
        credit.timer.restart();
        credit.permit.merge(permit?);
        Ok(())
    }

    async fn reserve_or_relieve(&self, bytes: usize) -> Result<Permit> {
        loop {
            if let Ok(permit) = self.ledger.try_reserve(bytes) {
                return Ok(permit);
            }
            // What the encoder and the disk need beside the rows does not shrink the runs.
            let spillable = self.spillable_bytes.load(Ordering::Relaxed);
            if spillable.saturating_add(bytes) <= self.working_set_bytes() {
                return Ok(self.take_working_set(bytes));
            }
            match self.relieve(bytes).await? {
                Relief::Granted(permit) => return Ok(permit),
                Relief::Freed => {}
                Relief::Nothing => return Ok(self.take_working_set(bytes)),
            }
        }
    }
}

/// What a producer has reserved for the batch in hand, and the time it works on it; waiting for
/// memory is not part of that.
pub(super) struct Credit<'a> {
    pub(super) permit: Permit,
    timer: ScopedTimerGuard<'a>,
}

/// An input, until it is read.
struct Turn {
    stream: SendableRecordBatchStream,
    router: Router,
    unfinished: Unfinished,
}

/// Fails the exchange when a producer is dropped before its end: the runtime that it ran on is gone,
/// and consumers that run on another would wait for ever. Where the exchange aborted it, no consumer
/// is left or it has failed already.
struct Unfinished {
    /// `None` once the producer has ended.
    exchange: Option<Arc<Exchange>>,
    input: usize,
}

impl Unfinished {
    fn end(mut self) {
        self.exchange = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.fail(exec_datafusion_err!(
                "the task that reads input partition {} of the exchange was cancelled",
                self.input
            ));
        }
    }
}

/// Whether the `held` bytes of the buffers of `batch` are little beside its rows, so that queueing it pins
/// no other rows' memory.
fn is_compact(batch: &RecordBatch, held: usize) -> bool {
    held <= 4096 + 2 * crate::block::logical_bytes(batch, 0, batch.num_rows())
}

fn panicked(panic: &(dyn std::any::Any + Send), input: usize) -> DataFusionError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    DataFusionError::Execution(format!(
        "input partition {input} of the exchange panicked: {message}"
    ))
}
