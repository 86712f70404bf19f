//! Which of its encodings a column of words takes, by counting in a sample.

use arrow::array::AsArray;
use arrow::datatypes::{ArrowPrimitiveType, ToByteSlice};

use super::parts::{self, Part, within};
use super::{BlockResult, Body};
use crate::block::simd::vectorized;
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
            self.with_validity(parts, |this, validity| {
                this.slots((&mut lows, None), |low| low, validity, i128::BYTES, false);
            });
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
            let mask = validity.mask();
            let zero = T::truncated([0; 32]);
            let (min, max) = T::range(values, mask).unwrap_or((zero, zero));
            let lift = |word| word;
            this.offsets(&Offsets { values, mask, min, max, lift, size, floats }, validity);
        });
    }

    /// A column of offsets from somewhere. The slots without a value are overwritten; they hold `missing`,
    /// which is greater than all others, or anything if that is none.
    pub(super) fn slots<N: Word, T: Word>(
        &mut self,
        (slots, missing): (&mut [N], Option<N>),
        lift: impl Fn(N) -> T,
        validity: Validity<'_>,
        size: usize,
        floats: bool,
    ) {
        self.sink.charge(slots.len().saturating_mul(size));
        // With a value of the column in every slot, neither the range nor the bytes need a mask.
        let (min, max) = match (validity, missing) {
            (Validity::Mask(_), Some(missing)) => vectorized(|| replace(slots, missing)),
            _ => fill_missing(slots, validity.mask()),
        };
        let values = &*slots;
        self.offsets(&Offsets { values, mask: None, min, max, lift, size, floats }, validity);
    }

    fn offsets<N: Word, T: Word, F: Fn(N) -> T>(
        &mut self,
        column: &Offsets<'_, N, F>,
        validity: Validity<'_>,
    ) {
        let Offsets { values, mask, min, max, .. } = *column;
        if matches!(validity, Validity::AllNull) {
            self.sink.put_tag(tags::EMPTY, validity, values.len());
            return;
        }
        let width = word::width_code(min, max);
        let low = word::min_code((column.lift)(min));
        if values.len() >= MIN_ROWS && width >= DICT_WIDTH {
            if few_values(values) && self.word_dict(column, validity, usize::from(width)) {
                return;
            }
            if column.floats && self.sink.sampler().separates(planes(values, min)) {
                self.sink.charge(values.len().saturating_mul(8));
                self.sink.put_tag(tags::SPLIT, validity, values.len());
                self.sink.put_planes(values, mask, (min, max), low);
                return;
            }
        }
        self.sink.put_tag(tags::WORDS, validity, values.len());
        self.sink.put_offsets(values, mask, (min, max), low);
    }

    /// Distinct words and ids, if that is shorter than offsets of `width` bytes; says so.
    fn word_dict<N: Word, T: Word, F: Fn(N) -> T>(
        &mut self,
        column: &Offsets<'_, N, F>,
        validity: Validity<'_>,
        width: usize,
    ) -> bool {
        let Offsets { values, mask, size, .. } = *column;
        let rows = WordRows { bytes: values.to_byte_slice(), width: N::BYTES };
        let most = most_words(values.len(), width, size).min(values.len() / 8);
        if !self.table.number(&rows, values.len(), most, |i| !is_valid(mask, i)) {
            return false;
        }
        let distinct = self.table.first_rows().filter_map(|row| values.get(row));
        let distinct: Vec<T> = distinct.map(|value| (column.lift)(*value)).collect();
        let top = u32::try_from(distinct.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let id_width = usize::from(word::width_code(0, top));
        if distinct.len() > most_words_of(id_width, values.len(), width, size) {
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

/// Most distinct words of `size` bytes that a dictionary of `rows` rows may have to be shorter than
/// offsets of `width` bytes, with ids of `id_width` bytes.
fn most_words_of(id_width: usize, rows: usize, width: usize, size: usize) -> usize {
    let plain = rows.saturating_mul(width) / 4 * 3;
    plain.saturating_sub(rows.saturating_mul(id_width)) / size.max(1)
}

/// The same with ids of whichever width they need.
fn most_words(rows: usize, width: usize, size: usize) -> usize {
    let most = |id_width, ids: usize| most_words_of(id_width, rows, width, size).min(ids);
    most(1, 1 << 8).max(most(2, 1 << 16)).max(most(3, usize::MAX))
}

/// Values, or their offsets from somewhere; `lift` gives the value of an offset.
struct Offsets<'a, N, F> {
    values: &'a [N],
    /// Which of them count, where not all do.
    mask: Option<&'a [u64]>,
    min: N,
    max: N,
    lift: F,
    /// Bytes of a value in an array.
    size: usize,
    floats: bool,
}

/// Puts the smallest value into each slot that has `missing`, the greatest. Returns the range of values,
/// of which there are some.
#[inline(always)]
fn replace<N: Word>(slots: &mut [N], missing: N) -> (N, N) {
    let zero = N::truncated([0; 32]);
    let (mut min, mut max) = (missing, zero);
    for slot in &*slots {
        min = min.min(*slot);
        max = max.max(if *slot == missing { zero } else { *slot });
    }
    for slot in slots {
        *slot = if *slot == missing { min } else { *slot };
    }
    (min, max)
}

/// Puts the smallest valid value into each slot that has none. Returns the range of values.
fn fill_missing<N: Word>(slots: &mut [N], mask: Option<&[u64]>) -> (N, N) {
    let first = (0..slots.len()).find(|row| is_valid(mask, *row));
    let zero = N::truncated([0; 32]);
    put_missing(slots, mask, first.and_then(|row| slots.get(row)).copied().unwrap_or(zero));
    let (min, max) = N::range(slots, None).unwrap_or((zero, zero));
    put_missing(slots, mask, min);
    (min, max)
}

fn put_missing<N: Copy>(slots: &mut [N], mask: Option<&[u64]>, filler: N) {
    let Some(mask) = mask else { return };
    for (slots, &valid) in slots.chunks_mut(LANE).zip(mask) {
        let mut missing = !valid;
        while missing != 0 {
            let at = usize::try_from(missing.trailing_zeros()).unwrap_or(usize::MAX);
            let Some(slot) = slots.get_mut(at) else { break };
            *slot = filler;
            missing &= missing - 1;
        }
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
