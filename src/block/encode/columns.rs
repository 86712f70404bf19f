//! A block whose columns come one by one.

use std::ops::Range;

use arrow::array::Array;
use arrow::datatypes::DataType;

use super::parts::Part;
use super::{BlockEncoder, BlockInfo, BlockResult};
use crate::block::bits;
use crate::block::sink::Validity;
use crate::block::word::Word;

impl BlockEncoder {
    /// Begins a block. Its columns follow in the order of the schema, then [`finish`](Self::finish).
    pub(crate) fn begin(&mut self) {
        self.body.sink.clear();
    }

    /// A column of `rows` of `array`, which has the layout of `data_type`.
    pub(crate) fn put_array(
        &mut self,
        data_type: &DataType,
        array: &dyn Array,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        self.body.node(data_type, &[Part::new(array, rows)])
    }

    /// A column of words as offsets; `lift` gives the value of an offset and keeps their order, and
    /// arrays have `size` bytes for a value. `valid` has a bit for each slot, or none where all have a
    /// value; slots without a value are overwritten.
    pub(crate) fn put_offsets<N: Word, T: Word>(
        &mut self,
        slots: &mut [N],
        lift: impl Fn(N) -> T,
        valid: &[u64],
        size: usize,
        floats: bool,
    ) -> BlockResult<()> {
        let count = if valid.is_empty() { slots.len() } else { bits::count_ones(valid) };
        let validity = match count {
            count if count == slots.len() => Validity::AllValid,
            0 => Validity::AllNull,
            _ => Validity::Mask(valid),
        };
        self.body.slots(slots, lift, validity, size, floats);
        Ok(())
    }

    /// Ends the block of `rows` rows and appends it to `out`; on an error `out` is as it was.
    pub(crate) fn finish(&mut self, rows: usize, out: &mut Vec<u8>) -> BlockResult<BlockInfo> {
        let start = out.len();
        let sealed = self.seal(rows, out);
        if sealed.is_err() {
            out.truncate(start);
        }
        sealed
    }
}
