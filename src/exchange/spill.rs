//! Blocks of lanes to a run in scratch files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};

use super::Exchange;
use super::lane::Body;
use crate::memory::{Cause, Permit};
use crate::scratch::{RunBlocks, RunWriter, ScratchPlan};

/// What writes runs, between two of them.
pub(super) struct Runs {
    pub(super) plan: Arc<ScratchPlan>,
    pub(super) writer: Option<RunWriter>,
    pub(super) permit: Permit,
}

/// The number of a lane, and of an item in it.
type Tag = (usize, u64);

impl Exchange {
    /// Writes all blocks as one run, because of `cause`. Returns whether there were any.
    pub(super) async fn write_run(&self, cause: Cause) -> Result<bool> {
        let run = self.blocks_to_write();
        if run.is_empty() {
            return Ok(false);
        }
        let blocks = || run.iter().flat_map(|input| &input.blocks);
        let largest = blocks().map(|block| block.value.bytes.len()).max().unwrap_or(0);
        log::debug!("{}: a run of {} blocks ({cause:?})", self.plan.name, blocks().count());
        let mut writer = self.take_writer(largest)?;
        let write_time = self.plan.metrics.write_time.clone();
        let (writer, outcome) = SpawnedTask::spawn_blocking(move || {
            let timer = write_time.timer();
            let outcome = writer.write(run);
            timer.done();
            (writer, outcome)
        })
        .join_unwind()
        .await
        .map_err(|_| internal_datafusion_err!("the task that writes a run was cancelled"))?;
        self.put_writer(writer);
        let run = outcome?;
        self.plan.metrics.count_run(cause, &run);
        for ((lane, number), blocks) in run.stored {
            let body = Body::stored(blocks, self.ledger.empty());
            self.with_lane(lane, |lane| lane.replace(number, body));
        }
        Ok(true)
    }

    fn blocks_to_write(&self) -> Vec<RunBlocks<Tag>> {
        let mut run = Vec::new();
        for output in 0..self.outputs {
            for group in 0..self.gates.len() {
                let lane = group * self.outputs + output;
                let held =
                    self.lanes.get(lane).map(|cell| cell.block_bytes.load(Ordering::Relaxed));
                if held == Some(0) {
                    continue;
                }
                let blocks = self.with_lane(lane, |lane| lane.blocks()).unwrap_or_default();
                run.extend(blocks.into_iter().map(|(number, blocks)| RunBlocks {
                    partition: output,
                    tag: (lane, number),
                    blocks,
                }));
            }
        }
        run
    }

    fn take_writer(&self, largest: usize) -> Result<RunWriter> {
        let mut runs = self.pressure.runs.lock();
        let mut writer = match runs.writer.take() {
            Some(writer) => writer,
            None => RunWriter::try_new(&runs.plan)?,
        };
        let working = writer.working_bytes(largest);
        runs.permit.resize(working);
        writer.prepare(largest);
        Ok(writer)
    }

    fn put_writer(&self, writer: RunWriter) {
        let mut runs = self.pressure.runs.lock();
        runs.permit.resize(writer.held_bytes());
        // Nobody writes once the lanes are closed.
        if self.open_lanes.load(Ordering::Acquire) > 0 {
            runs.writer = Some(writer);
        } else {
            runs.permit.resize(0);
        }
    }
}
