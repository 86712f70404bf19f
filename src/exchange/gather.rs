//! The rows of a batch to the stages of their lanes, column by column.
//!
//! A batch of wide rows is larger than the caches near a core, one column of it is not. So several
//! lanes are locked together, and each column is gathered to all of them before the next one.

use datafusion::common::Result;

use super::lane::{Appended, Ask};
use super::producer::Credit;
use super::{Exchange, LockedLane};
use crate::partition::{Grouped, GroupedValidity, Rows, Source};

/// Most lanes that are locked together.
const MOST_LANES: usize = 64;

/// A lane that takes the first rows of a run.
struct Target<'a> {
    lane: LockedLane<'a>,
    rows: Rows<'a>,
    /// Where the run starts in the grouped order.
    start: usize,
}

impl Exchange {
    /// Gathers the rows of all runs into the stages of their lanes, which begin at `first`.
    pub(super) async fn deliver_grouped(
        &self,
        first: usize,
        input: usize,
        source: &Source,
        grouped: &Grouped<'_>,
        credit: &mut Credit<'_>,
    ) -> Result<()> {
        let runs = &grouped.by_partition();
        let groups = self.producers_at_once.max(runs.len().div_ceil(MOST_LANES));
        let size = runs.len().div_ceil(groups).max(1);
        let groups = runs.len().div_ceil(size);
        // Producers start at different groups, to meet at few locks.
        let start = input * groups / self.inputs.max(1);
        let mut taken = Vec::with_capacity(size);
        for group in (start..groups).chain(0..start) {
            let runs = runs.get(group * size..).unwrap_or(&[]);
            let runs = runs.get(..size).unwrap_or(runs);
            taken.clear();
            self.append_group(first, source, grouped, runs, credit, &mut taken)?;
            for (nth, &run) in runs.iter().enumerate() {
                let (partition, rows) = grouped.run(run);
                let rest = rows.get(taken.get(nth).copied().unwrap_or(0)..).unwrap_or(&[]);
                if !rest.is_empty() {
                    self.append(first + partition, source, Rows::Index(rest), credit).await?;
                }
            }
        }
        Ok(())
    }

    /// Gathers the first rows of each run, as many as its lane takes at once and memory allows.
    /// `taken` gets their numbers, as far as it came.
    fn append_group(
        &self,
        first: usize,
        source: &Source,
        grouped: &Grouped<'_>,
        runs: &[usize],
        credit: &mut Credit<'_>,
        taken: &mut Vec<usize>,
    ) -> Result<()> {
        let mut targets = Vec::with_capacity(runs.len());
        for &run in runs {
            let (partition, rows) = grouped.run(run);
            let Some(mut lane) = self.lock_lane(first + partition) else { break };
            let rows = Rows::Index(rows);
            let mut prepared =
                lane.prepare(&self.shape, source, rows, Ask::ALL, &mut credit.permit)?;
            if let Appended::Needs { bytes, .. } = prepared
                && self.try_extend(credit, bytes)
            {
                prepared = lane.prepare(&self.shape, source, rows, Ask::ALL, &mut credit.permit)?;
            }
            match prepared {
                Appended::Needs { .. } => break,
                Appended::Closed => taken.push(rows.len()),
                Appended::Taken(count) => {
                    taken.push(count);
                    let rows = rows.split_at(count).0;
                    targets.push(Target { lane, rows, start: grouped.start(run) });
                }
            }
        }
        append_columns(&mut targets, source, grouped)?;
        for target in &mut targets {
            target.lane.appended(&self.shape, target.rows.len())?;
        }
        Ok(())
    }
}

fn append_columns(
    targets: &mut [Target<'_>],
    source: &Source,
    grouped: &Grouped<'_>,
) -> Result<()> {
    let mut validity = GroupedValidity::default();
    for index in 0..source.columns() {
        source.fetch(index);
        let valid = validity.load(source, index, grouped.places());
        for target in &mut *targets {
            let valid = valid.map(|valid| (valid, target.start));
            target.lane.append_column(index, source, target.rows, valid)?;
        }
    }
    Ok(())
}
