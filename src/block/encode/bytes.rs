//! Strings and binaries, as offsets or views.

use arrow::array::{AsArray, GenericByteViewArray, OffsetSizeTrait};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};

use super::parts::{Part, within};
use super::{BlockError, BlockResult, Body};
use crate::block::interner::Interner;
use crate::block::sink::{Validity, is_valid};
use crate::block::table::ByteRows;
use crate::block::word::Word;
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
            this.byte_values(values, all, inline, validity, rows)
        })
    }

    /// As [`byte_rows`](Self::byte_rows), where the validity is known.
    pub(super) fn byte_values(
        &mut self,
        values: &impl ByteRows,
        all: Option<&[u8]>,
        inline: usize,
        validity: Validity<'_>,
        rows: usize,
    ) -> BlockResult<()> {
        if matches!(validity, Validity::AllNull) {
            self.sink.put_tag(tags::EMPTY, validity, rows);
            return Ok(());
        }
        let mut lens = std::mem::take(&mut self.lens);
        let result = self.measured_values(values, all, inline, validity, rows, &mut lens);
        self.lens = lens;
        result
    }

    fn measured_values(
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
            && !self.no_repeats
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
        let firsts: Vec<usize> = self.table.first_rows().collect();
        let dict_lens: Vec<u32> = firsts.iter().filter_map(|row| lens.get(*row)).copied().collect();
        let ids = self.table.take_ids();
        let dictionary = Dictionary { ids: &ids, lens: &dict_lens, inline, total };
        let taken = self.dictionary_of_bytes(&dictionary, validity, |out| {
            for row in &firsts {
                out.extend_from_slice(values.get(*row));
            }
        });
        self.table.set_ids(ids);
        taken
    }

    /// Distinct values and ids, if that is shorter than the values of all rows; says so.
    fn dictionary_of_bytes(
        &mut self,
        dictionary: &Dictionary<'_>,
        validity: Validity<'_>,
        values: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Dictionary { ids, lens, inline, total } = *dictionary;
        let rows = ids.len();
        let dict_bytes: usize =
            lens.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)).sum();
        let top = u32::try_from(lens.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let ids_len = rows * usize::from(word::width_code(0, top));
        if dict_bytes + lens.len() + ids_len > (total + rows) / 8 * 7 {
            return false;
        }
        self.sink.charge(sizes::byte_dict_bytes(rows, lens.len(), dict_bytes));
        // Offsets have every value spelled out; views share it.
        self.sink.charge(if inline == 0 { total } else { 0 });
        self.sink.put_tag(tags::BYTES_DICT, validity, rows);
        self.sink.put_varint(lens.len() as u64);
        self.sink.put_words_in(ids, None, 0, top);
        self.sink.put_words(lens, None);
        self.sink.put_bytes(dict_bytes, values);
        true
    }

    /// A column of values that are numbered already: row `i` has value `ids[i]` of `interner`.
    pub(super) fn interned<N: Word>(
        &mut self,
        ids: &[N],
        interner: &Interner,
        inline: usize,
        validity: Validity<'_>,
    ) -> BlockResult<()> {
        let rows = ids.len();
        if matches!(validity, Validity::AllNull) {
            self.sink.put_tag(tags::EMPTY, validity, rows);
            return Ok(());
        }
        let mask = validity.mask();
        let mut used = std::mem::take(&mut self.used);
        used.number(ids, interner, mask);
        let Used { ids, values, lens, total, .. } = &used;
        let value = |id: &u32| interner.value(usize::try_from(*id).unwrap_or(usize::MAX));
        let dictionary = Dictionary { ids, lens, inline, total: *total };
        let taken = rows >= MIN_DICT_ROWS
            && self.dictionary_of_bytes(&dictionary, validity, |out| {
                values.iter().for_each(|id| out.extend_from_slice(value(id)));
            });
        if !taken {
            let number = |row: usize| ids.get(row).and_then(|id| usize::try_from(*id).ok());
            let valid = |row: &usize| is_valid(mask, *row);
            let len_of = |row| number(row).filter(|_| valid(&row)).and_then(|id| lens.get(id));
            let mut row_lens = std::mem::take(&mut self.lens);
            row_lens.clear();
            row_lens.extend((0..rows).map(|row| len_of(row).copied().unwrap_or(0)));
            self.sink.charge(*total);
            self.sink.put_tag(tags::BYTES, validity, rows);
            self.sink.put_words(&row_lens, None);
            self.sink.put_bytes(*total, |out| {
                let ids = (0..rows).filter(valid).filter_map(|row| values.get(number(row)?));
                ids.for_each(|id| out.extend_from_slice(value(id)));
            });
            self.lens = row_lens;
        }
        self.used = used;
        Ok(())
    }
}

/// Ids of all rows and lengths of the values that they name.
struct Dictionary<'a> {
    ids: &'a [u32],
    lens: &'a [u32],
    inline: usize,
    /// Bytes of the values of all rows.
    total: usize,
}

/// The values of a block out of many, in the order of their first row.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// Number in the block plus one, by number of the value; 0 where it is not used.
    numbers: Vec<u32>,
    /// Numbers of the values that are used, and their lengths.
    values: Vec<u32>,
    lens: Vec<u32>,
    /// Per row its number in the block; 0 where it has no value.
    ids: Vec<u32>,
    /// Bytes of the values of all rows.
    total: usize,
}

impl Used {
    pub(super) fn held_bytes(&self) -> usize {
        let words = self.numbers.capacity() + self.values.capacity() + self.lens.capacity();
        (words + self.ids.capacity()) * 4
    }

    fn number<N: Word>(&mut self, ids: &[N], interner: &Interner, mask: Option<&[u64]>) {
        let Self { numbers, values, lens, ids: out, total } = self;
        for id in values.drain(..) {
            let number = usize::try_from(id).ok().and_then(|id| numbers.get_mut(id));
            number.into_iter().for_each(|number| *number = 0);
        }
        numbers.resize(interner.len().max(numbers.len()), 0);
        lens.clear();
        out.clear();
        out.reserve(ids.len());
        *total = 0;
        let first = N::truncated([0; 32]);
        for (row, &id) in ids.iter().enumerate() {
            let id = usize::try_from(id.delta64(first)).unwrap_or(usize::MAX);
            let Some(number) = numbers.get_mut(id).filter(|_| is_valid(mask, row)) else {
                out.push(0);
                continue;
            };
            if *number == 0 {
                values.push(u32::try_from(id).unwrap_or(u32::MAX));
                lens.push(u32::try_from(interner.value(id).len()).unwrap_or(u32::MAX));
                *number = u32::try_from(values.len()).unwrap_or(u32::MAX);
            }
            let number = *number - 1;
            out.push(number);
            let len = usize::try_from(number).ok().and_then(|number| lens.get(number));
            *total += len.map_or(0, |len| usize::try_from(*len).unwrap_or(usize::MAX));
        }
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
