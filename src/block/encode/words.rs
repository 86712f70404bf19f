//! Which of its encodings a column of words takes, by counting in a sample.

use arrow::array::AsArray;
use arrow::datatypes::{ArrowPrimitiveType, ToByteSlice};

use super::parts::{self, Part, within};
use super::{BlockResult, Body};
use crate::block::sink::{Validity, is_valid};
use crate::block::table::ByteRows;
use crate::block::word::{self, LANE, Word};
use crate::block::{sizes, tags};

/// Rows below which words are always plain.
const MIN_ROWS: usize = 128;
/// Rows that a sample looks at.
const SAMPLE: usize = 64;
/// Distinct values in a sample above which a dictionary is not tried.
const FEW: usize = SAMPLE / 2;
/// Narrowest offsets that a dictionary is tried for.
const DICT_WIDTH: u8 = 3;

/// Words as byte strings.
struct WordRows<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl ByteRows for WordRows<'_> {
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        let start = i.saturating_mul(self.width);
        self.bytes.get(start..start.saturating_add(self.width)).unwrap_or(&[])
    }
}

impl Body {
    /// Decimals: those that fit 64 bits, nearly all, are narrowed while they are gathered.
    pub(super) fn wide_words<T: ArrowPrimitiveType<Native = i128>>(
        &mut self,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        let mut lows = std::mem::take(&mut self.lows);
        lows.clear();
        let mut wide = 0;
        for part in parts {
            let values = within(part.array.as_primitive::<T>().values(), &part.rows)?;
            lows.extend(values.iter().map(|value| {
                wide |= word::high64(*value) ^ (word::low64(*value).cast_signed() >> 63);
                word::low64(*value).cast_signed()
            }));
        }
        if wide == 0 {
            self.words(&lows, i128::BYTES, parts, false);
        } else {
            let values = parts::values(parts, |array| array.as_primitive::<T>().values())?;
            self.words(&values, i128::BYTES, parts, false);
        }
        self.lows = lows;
        Ok(())
    }

    /// A column of words that have `size` bytes in arrays. `floats` are bits of floats, whose bytes are worth separating.
    pub(super) fn words<T: Word>(
        &mut self,
        values: &[T],
        size: usize,
        parts: &[Part<'_>],
        floats: bool,
    ) {
        self.with_validity(parts, |this, validity| {
            if matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, values.len());
                return;
            }
            let mask = validity.mask();
            let zero = T::truncated([0; 32]);
            let (min, max) = T::range(values, mask).unwrap_or((zero, zero));
            let width = word::width_code(min, max);
            if values.len() >= MIN_ROWS && width >= DICT_WIDTH {
                if few_values(values) && this.word_dict(values, size, validity, usize::from(width))
                {
                    return;
                }
                if floats && this.sink.sampler().separates(planes(values, min)) {
                    this.sink.charge(values.len().saturating_mul(8));
                    this.sink.put_tag(tags::SPLIT, validity, values.len());
                    this.sink.put_planes(values, mask, min, max);
                    return;
                }
            }
            this.sink.put_tag(tags::WORDS, validity, values.len());
            this.sink.put_words_in(values, mask, min, max);
        });
    }

    /// Distinct words and ids, if that is shorter than offsets of `width` bytes; says so.
    fn word_dict<T: Word>(
        &mut self,
        values: &[T],
        size: usize,
        validity: Validity<'_>,
        width: usize,
    ) -> bool {
        let rows = WordRows { bytes: values.to_byte_slice(), width: T::BYTES };
        let mask = validity.mask();
        if !self.table.number(&rows, values.len(), values.len() / 8, |i| !is_valid(mask, i)) {
            return false;
        }
        let distinct: Vec<T> =
            self.table.first_rows().filter_map(|row| values.get(row)).copied().collect();
        let top = u32::try_from(distinct.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let id_width = usize::from(word::width_code(0, top));
        let plain = values.len().saturating_mul(width);
        if distinct.len() * T::BYTES + values.len() * id_width > plain / 4 * 3 {
            return false;
        }
        self.sink.charge(sizes::word_dict_bytes(size, values.len(), distinct.len()));
        self.sink.put_tag(tags::WORD_DICT, validity, values.len());
        self.sink.put_varint(distinct.len() as u64);
        self.sink.put_words_in(self.table.ids(), None, 0, top);
        self.sink.put_words(&distinct, None);
        true
    }
}

fn sample<T: Word>(values: &[T]) -> impl Iterator<Item = T> {
    values.iter().step_by((values.len() / SAMPLE).max(1)).take(SAMPLE).copied()
}

/// Whether a sample of the values has few distinct ones.
fn few_values<T: Word>(values: &[T]) -> bool {
    let zero = T::truncated([0; 32]);
    let mut seen = [zero; SAMPLE];
    let mut len = 0;
    for (to, value) in seen.iter_mut().zip(sample(values)) {
        *to = value;
        len += 1;
    }
    let Some(seen) = seen.get_mut(..len) else { return false };
    seen.sort_unstable();
    let distinct = 1 + seen.windows(2).filter(|pair| matches!(pair, [a, b] if a != b)).count();
    distinct <= FEW
}

/// Little-endian offsets of a sample of the values.
fn planes<T: Word>(values: &[T], min: T) -> [[u8; 8]; LANE] {
    let mut out = [[0; 8]; LANE];
    for (to, value) in out.iter_mut().zip(sample(values)) {
        *to = value.delta64(min).to_le_bytes();
    }
    out
}
