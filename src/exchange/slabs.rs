//! Many outputs: the rows of all of them are staged together, narrowed.
//!
//! Producers take turns at the slabs, for a batch at a time. A slab that is full, or given up under
//! pressure, goes to its lane as an item of its own; the consumer or the encoder does the rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::Result;
use datafusion::physical_expr::Partitioning;
use parking_lot::Mutex;

use super::producer::Credit;
use super::{Exchange, ExchangePlan};
use crate::memory::{Ledger, Permit};
use crate::partition::{Grouped, Growth, Rows, SlabLayout, SlabSource, Slabs, Source, Take};

/// Bytes of values that a slab of several rows never exceeds, so that 32-bit offsets hold.
const MOST_VALUE_BYTES: usize = i32::MAX as usize;

/// Rows are narrowed where one Arrow batch for each output takes more than this part of what the
/// exchange may hold.
const TIGHT_SHARE: usize = 8;

/// Least outputs of a group.
const LEAST_GROUP: usize = 2;

/// Most groups: so many producers stage rows at the same time.
const MOST_GROUPS: usize = 32;

/// Slabs of all outputs, in groups with a lock of their own.
pub(super) struct SlabStages {
    stages: Vec<Mutex<SlabStage>>,
    /// Outputs of a group; the last one may have fewer.
    group: usize,
}

/// The slabs of some outputs and what they are charged with.
struct SlabStage {
    /// The first of the outputs; below they are counted from it.
    first: usize,
    slabs: Slabs,
    permit: Permit,
    /// By output.
    windows: Vec<Window>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    /// Rows of the open window that are in the lane already, and their bytes as Arrow arrays.
    rows: usize,
    bytes: usize,
    closed: bool,
}

/// The rows of a batch that are still to be taken.
struct Pending<'a> {
    source: SlabSource<'a>,
    runs: Vec<Run<'a>>,
}

struct Run<'a> {
    partition: usize,
    rows: Rows<'a>,
}

/// What became of an attempt to take rows.
enum Taken {
    Some,
    /// So many bytes are needed to take any.
    Needs(usize),
}

impl SlabStages {
    /// Slabs for the exchange of `plan`, if rows are better narrowed there.
    pub(super) fn try_new(
        plan: &ExchangePlan,
        producers_at_once: usize,
        outputs: usize,
        batch_rows: usize,
        ledger: &Arc<Ledger>,
    ) -> Option<Self> {
        let whole_batches = matches!(plan.partitioning, Partitioning::RoundRobinBatch(_));
        if plan.preserve_order || whole_batches || !Slabs::can_hold(&plan.schema) {
            return None;
        }
        // As Arrow rows, full batches of all outputs would take a good part of what may be held.
        let wide = Slabs::arrow_row_bytes(&plan.schema) * batch_rows;
        let tight = wide.saturating_mul(outputs) > ledger.ceiling_bytes() / TIGHT_SHARE;
        if outputs < plan.options.narrow_outputs && !tight {
            return None;
        }
        let groups = producers_at_once.min(outputs / LEAST_GROUP).clamp(1, MOST_GROUPS);
        let group = outputs.div_ceil(groups).max(1);
        let stage = |first: usize| {
            let count = group.min(outputs - first);
            let slabs = Slabs::new(&plan.schema, count, batch_rows);
            let permit = ledger.force(slabs.overhead_bytes());
            Mutex::new(SlabStage { first, slabs, permit, windows: vec![Window::default(); count] })
        };
        Some(Self { stages: (0..outputs).step_by(group).map(stage).collect(), group })
    }

    /// How rows are held in the slabs that `input` comes to first, unless another one is at them.
    fn layout(&self, input: usize) -> Option<SlabLayout> {
        let stage = self.stages.get(input % self.stages.len().max(1))?;
        stage.try_lock().map(|stage| stage.slabs.layout())
    }

    fn of(&self, output: usize) -> Option<&Mutex<SlabStage>> {
        self.stages.get(output.checked_div(self.group)?)
    }
}

impl Exchange {
    /// Stages the rows of a batch of `input`: those of `grouped`, or all of them for `partition`.
    pub(super) async fn deliver_to_slabs(
        &self,
        input: usize,
        source: &Source,
        grouped: Option<&Grouped<'_>>,
        partition: usize,
        credit: &mut Credit<'_>,
    ) -> Result<()> {
        let Some(stages) = &self.slabs else { return Ok(()) };
        let layout = stages.layout(input);
        let source = SlabSource::new(source, layout.as_ref());
        let narrowed = source.held_bytes();
        let reserved = self.ledger.try_reserve(narrowed);
        let _narrowed = reserved.unwrap_or_else(|_| self.ledger.force(narrowed));
        let share = grouped.map_or(1, Grouped::len).div_ceil(stages.stages.len());
        let mut groups: Vec<Vec<Run<'_>>> = Vec::with_capacity(stages.stages.len());
        groups.resize_with(stages.stages.len(), || Vec::with_capacity(share));
        let mut add = |partition: usize, rows| {
            if let Some(runs) = groups.get_mut(partition / stages.group) {
                runs.push(Run { partition: partition % stages.group, rows });
            }
        };
        match grouped {
            None => add(partition, source.all_rows()),
            Some(grouped) => (0..grouped.len()).for_each(|index| {
                let (partition, rows) = grouped.run(index);
                add(partition, Rows::Index(rows));
            }),
        }
        // Producers start at different groups, to meet at few locks.
        let start = input * groups.len() / self.inputs.max(1);
        let mut pending = Pending { source, runs: Vec::new() };
        for index in (start..groups.len()).chain(0..start) {
            let (Some(stage), Some(runs)) = (stages.stages.get(index), groups.get_mut(index))
            else {
                continue;
            };
            pending.runs = std::mem::take(runs);
            self.deliver_to_group(stage, &mut pending, credit).await?;
        }
        Ok(())
    }

    async fn deliver_to_group(
        &self,
        stage: &Mutex<SlabStage>,
        pending: &mut Pending<'_>,
        credit: &mut Credit<'_>,
    ) -> Result<()> {
        let (mut most_runs, mut most_rows) = (usize::MAX, usize::MAX);
        while !pending.runs.is_empty() {
            match self.take_into_slabs(stage, pending, most_runs, most_rows, credit)? {
                Taken::Some => (most_runs, most_rows) = (usize::MAX, usize::MAX),
                // The pool refuses: less at once, as little as may be held beyond it.
                Taken::Needs(bytes) if bytes > self.working_set_bytes() / 4 => {
                    let runs = most_runs.min(pending.runs.len());
                    let rows = pending.runs.iter().take(runs).map(|run| run.rows.len()).max();
                    let rows = most_rows.min(rows.unwrap_or(1));
                    match (runs, rows) {
                        (2.., _) => most_runs = runs / 2,
                        (_, 2..) => most_rows = rows / 2,
                        _ => self.extend(credit, bytes).await?,
                    }
                }
                Taken::Needs(bytes) => self.extend(credit, bytes).await?,
            }
        }
        Ok(())
    }

    /// Takes rows of the first runs, as many as their windows have room for.
    fn take_into_slabs(
        &self,
        stage: &Mutex<SlabStage>,
        pending: &mut Pending<'_>,
        most_runs: usize,
        most_rows: usize,
        credit: &mut Credit<'_>,
    ) -> Result<Taken> {
        let mut stage = stage.lock();
        let windows = &stage.windows;
        pending.runs.retain(|run| windows.get(run.partition).is_some_and(|window| !window.closed));
        let runs = pending.runs.iter().take(most_runs);
        let mut takes: Vec<_> = runs.map(|run| self.first_rows(&stage, run, most_rows)).collect();
        self.split_large(&mut stage, &pending.source, &mut takes)?;
        let lean = most_runs < usize::MAX || most_rows < usize::MAX;
        let mut growth = if lean { Growth::Lean } else { self.growth() };
        let mut bytes = stage.slabs.growth(&pending.source, &takes, growth);
        if !self.try_extend(credit, bytes) {
            // The pool refuses. Before others give way for it, the room is made to measure.
            growth = Growth::Lean;
            bytes = stage.slabs.growth(&pending.source, &takes, growth);
            if !self.try_extend(credit, bytes) {
                return Ok(Taken::Needs(bytes));
            }
        }
        stage.slabs.append(&pending.source, &takes, growth)?;
        stage.permit.move_from(&mut credit.permit, bytes);
        self.spillable_bytes.fetch_add(bytes, Ordering::Relaxed);
        for take in &takes {
            if self.is_full(&stage, take.partition) {
                self.push_slab(&mut stage, take.partition, true)?;
            }
        }
        let mut taken = takes.iter().map(|take| take.rows.len());
        for run in pending.runs.iter_mut().take(most_runs) {
            let count = taken.next().unwrap_or(0);
            run.rows = run.rows.split_at(count).1;
        }
        pending.runs.retain(|run| !run.rows.is_empty());
        Ok(Taken::Some)
    }

    /// Without a limit nobody lacks what is not used yet.
    fn growth(&self) -> Growth {
        if self.ledger.ceiling_bytes() == usize::MAX { Growth::Ample } else { Growth::Careful }
    }

    fn first_rows<'a>(&self, stage: &SlabStage, run: &Run<'a>, most: usize) -> Take<'a> {
        let window = stage.windows.get(run.partition).copied().unwrap_or_default();
        let filled = window.rows + stage.slabs.rows(run.partition);
        let room = self.shape.batch_rows.saturating_sub(filled).max(1);
        let count = run.rows.len().min(room).min(most.max(1));
        Take { partition: run.partition, rows: run.rows.split_at(count).0 }
    }

    /// Takes fewer rows where their values alone fill an output batch.
    fn split_large(
        &self,
        stage: &mut SlabStage,
        source: &SlabSource<'_>,
        takes: &mut [Take<'_>],
    ) -> Result<()> {
        if source.most_value_bytes() <= self.shape.batch_bytes {
            return Ok(());
        }
        for take in takes {
            let mut bytes = source.value_bytes(take.rows);
            while bytes > self.shape.batch_bytes && take.rows.len() > 1 {
                take.rows = take.rows.split_at(take.rows.len() / 2).0;
                bytes = source.value_bytes(take.rows);
            }
            if stage.slabs.value_bytes(take.partition).saturating_add(bytes) > MOST_VALUE_BYTES {
                self.push_slab(stage, take.partition, true)?;
            }
        }
        Ok(())
    }

    fn is_full(&self, stage: &SlabStage, partition: usize) -> bool {
        let window = stage.windows.get(partition).copied().unwrap_or_default();
        window.rows + stage.slabs.rows(partition) >= self.shape.batch_rows
            || window.bytes + stage.slabs.arrow_bytes(partition) >= self.shape.batch_bytes
    }

    /// Moves the rows of `partition` to its lane.
    fn push_slab(&self, stage: &mut SlabStage, partition: usize, ends_window: bool) -> Result<()> {
        if stage.slabs.rows(partition) == 0 {
            return Ok(());
        }
        let (slab, bytes) = stage.slabs.finish(partition)?;
        let mut charged = self.ledger.empty();
        charged.move_from(&mut stage.permit, bytes);
        self.spillable_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut permit = self.ledger.empty();
        permit.move_from(&mut charged, slab.held_bytes());
        if let Some(window) = stage.windows.get_mut(partition) {
            (window.rows, window.bytes) = match ends_window {
                true => (0, 0),
                false => (window.rows + slab.rows(), window.bytes + slab.arrow_bytes()),
            };
        }
        let lane = stage.first + partition;
        self.with_lane(lane, |lane| lane.push_slab(slab, permit, ends_window));
        Ok(())
    }

    /// Bytes of staged rows.
    pub(super) fn staged_bytes(&self) -> usize {
        let stages = self.slabs.iter().flat_map(|stages| &stages.stages);
        stages.map(|stage| stage.lock().permit.bytes()).sum()
    }

    /// Moves all staged rows to their lanes, where they can be encoded.
    pub(super) fn flush_slabs(&self) -> Result<()> {
        for stage in self.slabs.iter().flat_map(|stages| &stages.stages) {
            let mut stage = stage.lock();
            for partition in 0..stage.windows.len() {
                self.push_slab(&mut stage, partition, false)?;
            }
        }
        Ok(())
    }

    /// No more rows will come: what is staged becomes the last windows.
    pub(super) fn end_slabs(&self) -> Result<()> {
        self.flush_slabs()?;
        for stage in self.slabs.iter().flat_map(|stages| &stages.stages) {
            drop(stage.lock().permit.take());
        }
        Ok(())
    }

    /// The consumer of `output` is gone.
    pub(super) fn close_slab(&self, output: usize) {
        let Some(stage) = self.slabs.as_ref().and_then(|stages| stages.of(output)) else { return };
        let mut stage = stage.lock();
        let partition = output - stage.first;
        if let Some(window) = stage.windows.get_mut(partition) {
            window.closed = true;
        }
        // What cannot be finished is released with the exchange.
        if let Ok((slab, bytes)) = stage.slabs.finish(partition) {
            drop(slab);
            let mut permit = self.ledger.empty();
            permit.move_from(&mut stage.permit, bytes);
            self.spillable_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        if stage.windows.iter().all(|window| window.closed) {
            drop(stage.permit.take());
        }
    }
}
