//! Run-end encoded arrays: only the runs that the rows touch.

use std::ops::Range;

use arrow::array::{Array, AsArray, RunArray};
use arrow::datatypes::{
    ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type, RunEndIndexType,
};

use super::{BlockError, BlockResult, Body};
use crate::block::sink::Validity;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn runs(
        &mut self,
        array: &dyn Array,
        ends: &DataType,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let run_array =
            || BlockError::Schema(format!("{} is not run-end encoded", array.data_type()));
        match ends {
            DataType::Int16 => {
                self.run_array::<Int16Type>(array.as_run_opt().ok_or_else(run_array)?, rows)
            }
            DataType::Int32 => {
                self.run_array::<Int32Type>(array.as_run_opt().ok_or_else(run_array)?, rows)
            }
            DataType::Int64 => {
                self.run_array::<Int64Type>(array.as_run_opt().ok_or_else(run_array)?, rows)
            }
            other => Err(BlockError::Schema(format!("{other} is not a run end"))),
        }
    }

    fn run_array<R: RunEndIndexType>(
        &mut self,
        array: &RunArray<R>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        if rows.is_empty() {
            self.sink.put_tag(tags::EMPTY, Validity::AllValid, 0);
            return Ok(());
        }
        let ends = array.run_ends();
        let base = ends.offset();
        let first = ends.get_physical_index(rows.start);
        let last = ends.get_physical_index(rows.end - 1);
        let mut lens = std::mem::take(&mut self.lens);
        lens.clear();
        let mut start = base + rows.start;
        for run in first..=last {
            let end = ends.values().get(run).ok_or(BlockError::Invalid("run ends"))?.as_usize();
            let end = end.min(base + rows.end);
            lens.push(super::fit(end.saturating_sub(start), u32::MAX as usize, "rows of a run")?);
            start = end;
        }
        self.sink.charge(sizes::run_end_bytes::<R::Native>(lens.len()));
        self.sink.put_tag(tags::RUNS, Validity::AllValid, rows.len());
        self.sink.put_varint(lens.len() as u64);
        self.sink.put_words(&lens, None);
        self.lens = lens;
        self.node(array.values().as_ref(), first..last + 1)
    }
}
