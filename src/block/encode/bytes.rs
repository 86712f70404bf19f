//! Strings and binaries, as offsets or views.

use arrow::array::{AsArray, GenericByteViewArray, OffsetSizeTrait};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};

use super::parts::{Part, within};
use super::{BlockError, BlockResult, Body};
use crate::block::sink::{Validity, is_valid};
use crate::block::table::ByteRows;
use crate::block::{sizes, tags, word};

/// Rows below which a dictionary is not looked for.
const MIN_DICT_ROWS: usize = 4;

/// Values that are ranges of one buffer.
struct OffsetRows<'a, O> {
    offsets: &'a [O],
    bytes: &'a [u8],
}

impl<'a, O: OffsetSizeTrait> OffsetRows<'a, O> {
    #[inline]
    fn value(&self, i: usize) -> &'a [u8] {
        match self.offsets.get(i..i.saturating_add(2)) {
            Some([start, end]) => self.bytes.get(start.as_usize()..end.as_usize()).unwrap_or(&[]),
            _ => &[],
        }
    }
}

impl<O: OffsetSizeTrait> ByteRows for OffsetRows<'_, O> {
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        self.value(i)
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

/// Values anywhere.
impl ByteRows for Vec<&[u8]> {
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        self.as_slice().get(i).copied().unwrap_or(&[])
    }
}

impl Body {
    pub(super) fn strings<T: ByteArrayType>(
        &mut self,
        parts: &[Part<'_>],
        rows: usize,
    ) -> BlockResult<()> {
        let [part] = parts else {
            let mut values: Vec<&[u8]> = Vec::with_capacity(rows);
            for part in parts {
                let array = part.array.as_bytes::<T>();
                let offsets = within(array.value_offsets(), &(part.rows.start..part.rows.end + 1))?;
                let rows = OffsetRows { offsets, bytes: array.value_data() };
                values.extend((0..part.rows.len()).map(|i| rows.value(i)));
            }
            return self.byte_rows(&values, None, 0, parts, rows);
        };
        let array = part.array.as_bytes::<T>();
        let offsets = within(array.value_offsets(), &(part.rows.start..part.rows.end + 1))?;
        let values = OffsetRows { offsets, bytes: array.value_data() };
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return Err(BlockError::Invalid("no offsets"));
        };
        let all = within(array.value_data(), &(first.as_usize()..last.as_usize()))?;
        self.byte_rows(&values, Some(all), 0, parts, rows)
    }

    pub(super) fn views<T: ByteViewType>(
        &mut self,
        parts: &[Part<'_>],
        rows: usize,
    ) -> BlockResult<()> {
        let [part] = parts else {
            let mut values: Vec<&[u8]> = Vec::with_capacity(rows);
            for part in parts {
                let array = part.array.as_byte_view::<T>();
                values.extend(part.rows.clone().map(|i| -> &[u8] { array.value(i).as_ref() }));
            }
            return self.byte_rows(&values, None, sizes::INLINE, parts, rows);
        };
        let values = ViewRows { array: part.array.as_byte_view::<T>(), start: part.rows.start };
        self.byte_rows(&values, None, sizes::INLINE, parts, rows)
    }

    /// `all` is the bytes of all rows in a row, if there is such a range. Values of up to `inline` bytes
    /// need no memory of their own once decoded.
    fn byte_rows(
        &mut self,
        values: &impl ByteRows,
        all: Option<&[u8]>,
        inline: usize,
        parts: &[Part<'_>],
        rows: usize,
    ) -> BlockResult<()> {
        self.with_validity(parts, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, rows);
                return Ok(());
            }
            let mut lens = std::mem::take(&mut this.lens);
            let result = this.byte_values(values, all, inline, validity, rows, &mut lens);
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
        if rows >= MIN_DICT_ROWS
            && self.table.number(values, rows, rows, |i| !is_valid(mask, i))
            && self.byte_dict(values, inline, validity, lens, total)
        {
            return Ok(());
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

    /// Distinct values and ids, as `self.table` holds them, if that is shorter; says so.
    fn byte_dict(
        &mut self,
        values: &impl ByteRows,
        inline: usize,
        validity: Validity<'_>,
        lens: &[u32],
        total: usize,
    ) -> bool {
        let rows = lens.len();
        let firsts: Vec<usize> = self.table.first_rows().collect();
        let dict_bytes: usize = firsts.iter().map(|row| values.get(*row).len()).sum();
        let top = u32::try_from(firsts.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let ids_len = rows * usize::from(word::width_code(0, top));
        if dict_bytes + firsts.len() + ids_len > (total + rows) / 8 * 7 {
            return false;
        }
        let dict_lens: Vec<u32> = firsts.iter().filter_map(|row| lens.get(*row)).copied().collect();
        self.sink.charge(sizes::byte_dict_bytes(rows, firsts.len(), dict_bytes));
        // Offsets have every value spelled out; views share it.
        self.sink.charge(if inline == 0 { total } else { 0 });
        self.sink.put_tag(tags::BYTES_DICT, validity, rows);
        self.sink.put_varint(firsts.len() as u64);
        self.sink.put_words_in(self.table.ids(), None, 0, top);
        self.sink.put_words(&dict_lens, None);
        self.sink.put_bytes(dict_bytes, |out| {
            for row in &firsts {
                out.extend_from_slice(values.get(*row));
            }
        });
        true
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
