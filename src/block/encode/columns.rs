//! A block whose columns come one by one.

use std::ops::Range;

use arrow::array::Array;
use arrow::datatypes::DataType;

use super::parts::Part;
use super::{BlockEncoder, BlockInfo, BlockResult};
use crate::block::interner::Interner;
use crate::block::sink::Validity;
use crate::block::word::Word;
use crate::block::{bits, sizes};

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

    /// As [`put_array`](Self::put_array) for strings or binaries whose values are known not to repeat.
    pub(crate) fn put_distinct(
        &mut self,
        data_type: &DataType,
        array: &dyn Array,
    ) -> BlockResult<()> {
        self.body.no_repeats = true;
        let put = self.put_array(data_type, array, 0..array.len());
        self.body.no_repeats = false;
        put
    }

    /// A column of words as offsets; `lift` gives the value of an offset and keeps their order, and
    /// arrays have `size` bytes for a value. `valid` has a bit for each slot, or none where all have a
    /// value; slots without a value are overwritten. Those hold the second of `slots`, which is greater
    /// than all others, or anything if that is none.
    pub(crate) fn put_offsets<N: Word, T: Word>(
        &mut self,
        slots: (&mut [N], Option<N>),
        lift: impl Fn(N) -> T,
        valid: &[u64],
        size: usize,
        floats: bool,
    ) -> BlockResult<()> {
        let validity = validity_of(valid, slots.0.len());
        self.body.slots(slots, lift, validity, size, floats);
        Ok(())
    }

    /// A column of strings or binaries that are numbered already: row `i` has value `ids[i]` of
    /// `interner`, where `valid` says that it has one.
    pub(crate) fn put_interned<N: Word>(
        &mut self,
        data_type: &DataType,
        ids: &[N],
        interner: &Interner,
        valid: &[u64],
    ) -> BlockResult<()> {
        self.body.sink.charge(sizes::null_leaf_bytes(data_type, ids.len()));
        let validity = validity_of(valid, ids.len());
        self.body.interned(ids, interner, inline_bytes(data_type), validity)
    }

    /// A column of strings or binaries that lie anywhere, empty where `valid` has no value.
    pub(crate) fn put_scattered(
        &mut self,
        data_type: &DataType,
        values: &Vec<&[u8]>,
        valid: &[u64],
    ) -> BlockResult<()> {
        self.body.sink.charge(sizes::null_leaf_bytes(data_type, values.len()));
        let validity = validity_of(valid, values.len());
        self.body.byte_values(values, None, inline_bytes(data_type), validity, values.len())
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

/// `valid` has a bit for each row, or none where all have a value.
fn validity_of(valid: &[u64], rows: usize) -> Validity<'_> {
    match if valid.is_empty() { rows } else { bits::count_ones(valid) } {
        count if count == rows => Validity::AllValid,
        0 => Validity::AllNull,
        _ => Validity::Mask(valid),
    }
}

/// Values up to this length need no memory of their own in an array of `data_type`.
fn inline_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => sizes::INLINE,
        _ => 0,
    }
}
