//! What happens when the pool refuses: the one place where that is decided.
//!
//! 1. While Arrow rows take the larger part of what is held, the largest lanes are encoded, until
//!    what was asked for is free and at least half of the Arrow bytes are. Blocks stay in memory,
//!    under the same reservation: they are several times smaller. Rows in slabs are encoded all
//!    together: their outputs are many, and blocks of few rows are dear.
//! 2. Once blocks take the larger part, all of them are written as one run, in partition order.
//! 3. What is held ready for a reader - the batch it was woken for, blocks fetched for it - stays out
//!    of this the first time. Where the reader has not come by the second time, its batch is encoded as
//!    well and its fetched blocks are dropped; those are read again when it comes, and then kept.
//! 4. When nothing is left, the caller goes on with a small working set.
//!
//! Worked case: 32 MB may be held. Rows fill them; 16 MB are encoded to 3 MB; rows fill the rest;
//! again and again, until 16 MB of blocks (80 MB of rows) go to disk in one run. An exchange of
//! 80 MB never touches the disk.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::encode::Encoder;
use super::lane::Lane;
use super::spill::Runs;
use super::{Exchange, ExchangePlan, LaneCell};
use crate::block::schema_fingerprint;
use crate::memory::{Cause, Ledger, Permit};
use crate::scratch::{QueryScratch, ScratchPlan};

/// Encoded Arrow bytes after which a producer lets others run.
const YIELD_BYTES: usize = 1024 * 1024;

/// Most producers of an exchange that encode at the same time.
const MAX_ENCODERS: u32 = 4;

/// Encoders and scratch of an exchange, made when they are first needed.
pub(super) struct Pressure {
    /// A producer that encodes has one turn, one that writes has all.
    turns: Semaphore,
    count: u32,
    pub(super) idle: Mutex<Vec<Encoder>>,
    pub(super) runs: Mutex<Runs>,
}

impl Pressure {
    pub(super) fn new(
        plan: &ExchangePlan,
        context: &Arc<TaskContext>,
        producers_at_once: usize,
        ledger: &Arc<Ledger>,
    ) -> Self {
        let execution = &context.session_config().options().execution;
        let count = u32::try_from(producers_at_once).unwrap_or(MAX_ENCODERS).clamp(1, MAX_ENCODERS);
        let limit = Some(plan.options.scratch_limit).filter(|limit| *limit > 0);
        let scratch = ScratchPlan {
            fingerprint: schema_fingerprint(&plan.schema),
            owner: Arc::clone(&plan.name),
            disk: Arc::clone(&context.runtime_env().disk_manager),
            max_file_bytes: execution.max_spill_file_size_bytes.get() as u64,
            dirs: plan.options.scratch_dirs.clone(),
            query: QueryScratch::of(context, limit),
            punch_holes: plan.options.punch_holes,
            ledger: Arc::clone(ledger),
            metrics: plan.metrics.scratch.clone(),
        };
        let runs = Runs { plan: Arc::new(scratch), writer: None, permit: ledger.empty() };
        Self {
            turns: Semaphore::new(count as usize),
            count,
            idle: Mutex::new(Vec::new()),
            runs: Mutex::new(runs),
        }
    }

    /// Gives up what is held for later spills: there will be none.
    pub(super) fn release(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        let mut runs = self.runs.lock();
        let held = (runs.writer.take(), runs.permit.take());
        // What goes may close a file: not under the lock.
        drop(runs);
        drop((idle, held));
    }

    async fn turns(&self, count: u32) -> Result<SemaphorePermit<'_>> {
        let turns = self.turns.acquire_many(count).await;
        turns.map_err(|_| internal_datafusion_err!("the exchange has ended"))
    }
}

/// What [`Exchange::relieve`] came to.
pub(super) enum Relief {
    /// What was asked for. It is handed over, since a pool may refuse the next time.
    Granted(Permit),
    /// Some memory was freed.
    Freed,
    /// There is nothing to free.
    Nothing,
}

impl Exchange {
    /// Frees memory for `bytes` more. Producers encode side by side, each lanes of its own; what is
    /// written is written by one of them, while no other encodes.
    pub(super) async fn relieve(&self, bytes: usize) -> Result<Relief> {
        let turn = self.pressure.turns(1).await?;
        let cause = match self.ledger.try_reserve(bytes) {
            Ok(permit) => return Ok(Relief::Granted(permit)),
            Err(refusal) => {
                log::debug!("{}: {refusal}", self.plan.name);
                refusal.cause
            }
        };
        self.plan.metrics.count_refusal(cause);
        self.note_peak();
        self.age_unread().await;
        let share = 2 * self.pressure.count as usize;
        if let Some(arrow) = self.arrow_to_encode(bytes)
            && self.encode_part(bytes, arrow / share).await? > 0
        {
            return Ok(Relief::Freed);
        }
        drop(turn);
        let _all = self.pressure.turns(self.pressure.count).await?;
        if let Ok(permit) = self.ledger.try_reserve(bytes) {
            return Ok(Relief::Granted(permit));
        }
        if self.free_alone(bytes, cause).await? {
            return Ok(Relief::Freed);
        }
        Ok(Relief::Nothing)
    }

    /// Encodes or writes, while no other producer does. Returns whether anything was.
    async fn free_alone(&self, bytes: usize, cause: Cause) -> Result<bool> {
        if let Some(arrow) = self.arrow_to_encode(bytes)
            && self.encode_part(bytes, arrow / 2).await? > 0
        {
            return Ok(true);
        }
        if self.write_run(cause).await? || self.encode_largest(usize::MAX).await? > 0 {
            return Ok(true);
        }
        self.flush_slabs()?;
        Ok(self.encode_largest(usize::MAX).await? > 0)
    }

    /// What is held ready for a reader that does not come is given up the second time that memory is
    /// short: a stream that is never polled again must not keep it. Readers that are about to run do
    /// so first.
    async fn age_unread(&self) {
        let unread: Vec<_> = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.unread.load(Ordering::Relaxed))
            .map(|(lane, _)| lane)
            .collect();
        if unread.is_empty() {
            return;
        }
        tokio::task::yield_now().await;
        for lane in unread {
            if self.with_lane(lane, Lane::age_unread) == Some(true) {
                log::debug!("{}: the reader of lane {lane} stays away", self.plan.name);
                self.plan.metrics.unread_count.add(1);
            }
        }
    }

    /// Takes `bytes` that were refused: nothing is left to give up for them, or little enough is held.
    pub(super) fn take_working_set(&self, bytes: usize) -> Permit {
        self.plan.metrics.working_set_count.add(1);
        log::trace!("{}: {bytes} bytes of the working set", self.plan.name);
        self.ledger.force(bytes)
    }

    /// Encodes `part` of the rows, and enough for `bytes`; all of them where rows of many outputs are
    /// staged together, since half of them would make blocks of half as many rows.
    async fn encode_part(&self, bytes: usize, part: usize) -> Result<usize> {
        if self.slabs.is_none() {
            return self.encode_largest(bytes.max(part)).await;
        }
        self.flush_slabs()?;
        self.encode_largest(usize::MAX).await
    }

    /// Bytes of rows held, where they are the larger part of what is.
    fn arrow_to_encode(&self, bytes: usize) -> Option<usize> {
        let arrow = self.total(|cell| &cell.arrow_bytes) + self.staged_bytes();
        let blocks = self.total(|cell| &cell.block_bytes);
        log::debug!(
            "{}: {bytes} bytes refused; {arrow} as rows, {blocks} as blocks",
            self.plan.name
        );
        (arrow > 0 && arrow >= blocks).then_some(arrow)
    }

    fn total(&self, bytes: impl Fn(&LaneCell) -> &AtomicUsize) -> usize {
        self.lanes.iter().map(|cell| bytes(cell).load(Ordering::Relaxed)).sum()
    }

    /// Encodes lanes, those with most Arrow bytes first, until `target` of them are encoded.
    /// Returns how many were.
    async fn encode_largest(&self, target: usize) -> Result<usize> {
        let mut victims: Vec<(usize, usize)> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(lane, cell)| (cell.arrow_bytes.load(Ordering::Relaxed), lane))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        victims.sort_unstable_by_key(|victim| Reverse(*victim));
        let mut encoded = 0;
        let mut next_yield = YIELD_BYTES;
        for (_, lane) in victims {
            encoded += self.encode_lane(lane)?;
            if encoded >= target {
                break;
            }
            if encoded >= next_yield {
                next_yield = encoded + YIELD_BYTES;
                tokio::task::yield_now().await;
            }
        }
        Ok(encoded)
    }
}
