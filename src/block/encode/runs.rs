//! Run-end encoded arrays: only the runs that the rows touch.

use arrow::array::ArrowNativeTypeOp;
use arrow::array::AsArray;
use arrow::datatypes::{
    ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type, RunEndIndexType,
};

use super::parts::{Part, push_merged, row_count};
use super::{BlockError, BlockResult, Body, fit};
use crate::block::sink::Validity;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn runs(
        &mut self,
        ends: &DataType,
        values: &DataType,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        match ends {
            DataType::Int16 => self.run_array::<Int16Type>(values, parts),
            DataType::Int32 => self.run_array::<Int32Type>(values, parts),
            DataType::Int64 => self.run_array::<Int64Type>(values, parts),
            other => Err(BlockError::Schema(format!("{other} is not a run end"))),
        }
    }

    fn run_array<R: RunEndIndexType>(
        &mut self,
        values: &DataType,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        let rows = row_count(parts);
        if R::Native::from_usize(rows).is_none() {
            let limit = R::Native::MAX_TOTAL_ORDER.as_usize() as u64;
            return Err(BlockError::Limit {
                what: "rows under run ends",
                found: rows as u64,
                limit,
            });
        }
        let mut lens = std::mem::take(&mut self.lens);
        let children = run_children::<R>(parts, &mut lens);
        self.sink.charge(sizes::run_end_bytes::<R::Native>(lens.len()));
        self.sink.put_tag(tags::RUNS, Validity::AllValid, rows);
        self.sink.put_varint(lens.len() as u64);
        self.sink.put_words(&lens, None);
        self.lens = lens;
        self.node(values, &children?)
    }
}

/// The values of the runs that the rows touch; `lens` gets the rows of each.
fn run_children<'a, R: RunEndIndexType>(
    parts: &[Part<'a>],
    lens: &mut Vec<u32>,
) -> BlockResult<Vec<Part<'a>>> {
    lens.clear();
    let mut children = Vec::new();
    for part in parts.iter().filter(|part| !part.rows.is_empty()) {
        let not_runs =
            || BlockError::Schema(format!("{} is not run-end encoded", part.array.data_type()));
        let runs = part.array.as_run_opt::<R>().ok_or_else(not_runs)?;
        let ends = runs.run_ends();
        let first = ends.get_physical_index(part.rows.start);
        let last = ends.get_physical_index(part.rows.end - 1);
        let mut start = ends.offset() + part.rows.start;
        for run in first..=last {
            let end = ends.values().get(run).ok_or(BlockError::Invalid("run ends"))?.as_usize();
            let end = end.min(ends.offset() + part.rows.end);
            lens.push(fit(end.saturating_sub(start), u32::MAX as usize, "rows of a run")?);
            start = end;
        }
        push_merged(&mut children, runs.values().as_ref(), first..last + 1);
    }
    Ok(children)
}
