//! Strings and binaries, as offsets or views.

use std::ops::Range;

use arrow::array::{Array, GenericByteArray, GenericByteViewArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};

use super::leaf::within;
use super::{BlockError, BlockResult, Body};
use crate::block::sink::{Validity, is_valid};
use crate::block::table::ByteRows;
use crate::block::{sizes, tags};

/// Rows below which a dictionary is not looked for.
const MIN_DICT_ROWS: usize = 4;

/// Values that are ranges of one buffer.
struct OffsetRows<'a, O> {
    offsets: &'a [O],
    bytes: &'a [u8],
}

impl<O: OffsetSizeTrait> ByteRows for OffsetRows<'_, O> {
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        match self.offsets.get(i..i.saturating_add(2)) {
            Some([start, end]) => self.bytes.get(start.as_usize()..end.as_usize()).unwrap_or(&[]),
            _ => &[],
        }
    }
}

/// Values that are views, from row `start`.
struct ViewRows<'a, T: ByteViewType> {
    array: &'a GenericByteViewArray<T>,
    start: usize,
}

impl<T: ByteViewType> ByteRows for ViewRows<'_, T> {
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        self.array.value(self.start + i).as_ref()
    }
}

impl Body {
    pub(super) fn strings<T: ByteArrayType>(
        &mut self,
        array: &GenericByteArray<T>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let offsets = within(array.value_offsets(), &(rows.start..rows.end + 1))?;
        let values = OffsetRows { offsets, bytes: array.value_data() };
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return Err(BlockError::Invalid("no offsets"));
        };
        let all = within(array.value_data(), &(first.as_usize()..last.as_usize()))?;
        self.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
        self.byte_rows(&values, Some(all), 0, array.nulls(), rows)
    }

    pub(super) fn views<T: ByteViewType>(
        &mut self,
        array: &GenericByteViewArray<T>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let values = ViewRows { array, start: rows.start };
        self.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
        self.byte_rows(&values, None, sizes::INLINE, array.nulls(), rows)
    }

    /// `all` is the bytes of all rows in a row, if there is such a range. Values of up to `inline` bytes
    /// need no memory of their own once decoded.
    fn byte_rows(
        &mut self,
        values: &impl ByteRows,
        all: Option<&[u8]>,
        inline: usize,
        nulls: Option<&NullBuffer>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        self.with_validity(nulls, &rows, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, rows.len());
                return Ok(());
            }
            let mut lens = std::mem::take(&mut this.lens);
            let result = this.byte_values(values, all, inline, validity, rows.len(), &mut lens);
            this.lens = lens;
            result
        })
    }

    fn byte_values(
        &mut self,
        values: &impl ByteRows,
        all: Option<&[u8]>,
        inline: usize,
        validity: Validity<'_>,
        rows: usize,
        lens: &mut Vec<u32>,
    ) -> BlockResult<()> {
        let mask = validity.mask();
        let total = measure(values, mask, rows, lens)?;
        if rows >= MIN_DICT_ROWS && self.table.number(values, rows, |i| !is_valid(mask, i)) {
            return self.byte_dict(values, inline, validity, rows, lens, total);
        }
        self.sink.charge(total);
        self.sink.put_tag(tags::BYTES, validity, rows);
        self.sink.put_words(lens, None);
        self.sink.put_bytes(total, |out| match all.filter(|all| all.len() == total) {
            Some(all) => out.extend_from_slice(all),
            None => (0..rows)
                .filter(|i| is_valid(mask, *i))
                .for_each(|i| out.extend_from_slice(values.get(i))),
        });
        Ok(())
    }

    /// Distinct values and ids, as `self.table` holds them.
    fn byte_dict(
        &mut self,
        values: &impl ByteRows,
        inline: usize,
        validity: Validity<'_>,
        rows: usize,
        lens: &[u32],
        total: usize,
    ) -> BlockResult<()> {
        let firsts: Vec<usize> = self.table.first_rows().collect();
        let dict_lens: Vec<u32> = firsts.iter().filter_map(|row| lens.get(*row)).copied().collect();
        let dict_bytes: usize = firsts.iter().map(|row| values.get(*row).len()).sum();
        self.sink.charge(sizes::byte_dict_bytes(rows, firsts.len(), dict_bytes));
        // Offsets have every value spelled out; views share it.
        self.sink.charge(if inline == 0 { total } else { 0 });
        self.sink.put_tag(tags::BYTES_DICT, validity, rows);
        self.sink.put_varint(firsts.len() as u64);
        let top = u32::try_from(firsts.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.sink.put_words_in(self.table.ids(), None, 0, top);
        self.sink.put_words(&dict_lens, None);
        self.sink.put_bytes(dict_bytes, |out| {
            for row in &firsts {
                out.extend_from_slice(values.get(*row));
            }
        });
        Ok(())
    }
}

/// Lengths of all rows, 0 where a row is null, and their sum.
fn measure(
    values: &impl ByteRows,
    mask: Option<&[u64]>,
    rows: usize,
    lens: &mut Vec<u32>,
) -> BlockResult<usize> {
    lens.clear();
    lens.reserve(rows);
    let mut total = 0usize;
    for i in 0..rows {
        let len = if is_valid(mask, i) { values.get(i).len() } else { 0 };
        lens.push(super::fit(len, u32::MAX as usize, "bytes of a value")?);
        total += len;
    }
    Ok(total)
}
