//! Byte strings of a column, numbered as they come and kept from batch to batch.

use std::ops::Range;

use arrow::array::OffsetSizeTrait;
use arrow::buffer::NullBuffer;

use super::sizes::INLINE;
use super::table::{M, SHORT, fold, hash_long};

/// Slots that an interner starts with.
const FIRST_SLOTS: usize = 1024;

/// Slots that may be looked at in vain for each row, and before rows count: values made to collide
/// cost no more than they do without numbers.
const MISSES_OF_A_ROW: usize = 8;
const FREE_MISSES: usize = 1024;

/// Most values that are numbered; a number takes two bytes.
const MOST_VALUES: usize = 1 << 15;

/// Most bytes of values that are kept, and of one value.
const MOST_BYTES: usize = 1 << 20;
const LONGEST: usize = 4096;

/// Rows whose keys are made before they are looked up.
const KEYS: usize = 128;

/// Distinct byte strings with numbers in the order in which they came.
///
/// A slot holds the key of its value, so that finding a short value touches one line of memory.
#[derive(Debug)]
pub(crate) struct Interner {
    slots: Vec<Slot>,
    /// Where the bytes of each value end.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    longest: usize,
    misses_left: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
            longest: 0,
            misses_left: FREE_MISSES,
        }
    }
}

/// A key and the number of its value, without room between them.
#[derive(Debug, Clone, Copy)]
struct Slot {
    low: u64,
    high: u64,
    len: u32,
    id: u16,
}

impl Slot {
    const EMPTY: Self = Self::new(Key::UNKNOWN, 0);

    const fn new(Key { low, high, len }: Key, id: u16) -> Self {
        Self { low, high, len, id }
    }

    #[inline(always)]
    fn key(&self) -> Key {
        Key { low: self.low, high: self.high, len: self.len }
    }
}

/// A value of up to 16 bytes, padded with zeros; of a longer one two hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    low: u64,
    high: u64,
    len: u32,
}

/// Longest value that its key says all of.
const SHORT_LEN: u32 = 16;

/// What of the 16 bytes belongs to a value of so many.
#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const KEPT: [u128; SHORT + 1] = {
    let mut masks = [0; SHORT + 1];
    let mut len = 1;
    while len <= SHORT {
        masks[len] = u128::MAX >> (128 - 8 * len);
        len += 1;
    }
    masks
};

impl Key {
    /// That of no value: the value is to be looked at.
    const UNKNOWN: Self = Self { low: 0, high: 0, len: u32::MAX };

    /// That of the first `len` of the bytes in `word`; unknown where these are more than 16.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word; at most 16")]
    fn short(word: u128, len: usize) -> Self {
        let Some(kept) = KEPT.get(len) else { return Self::UNKNOWN };
        let word = word & kept;
        Self { low: word as u64, high: (word >> 64) as u64, len: len as u32 }
    }

    fn of(value: &[u8]) -> Self {
        if value.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            return Self::short(u128::from_le_bytes(bytes), value.len());
        }
        let (low, high) = hash_long(value);
        Self { low, high, len: u32::try_from(value.len()).unwrap_or(u32::MAX) }
    }

    /// Where in a table of any size to look first.
    #[inline(always)]
    fn slot(self) -> usize {
        let hash = fold(self.low ^ M[0], self.high ^ M[1] ^ u64::from(self.len));
        usize::try_from(hash & 0xffff_ffff).unwrap_or(0)
    }
}

/// Values of rows, and their keys.
pub(crate) trait Keyed {
    /// Sets the keys of the rows from `start` that are quickly made.
    fn short_keys(&self, start: usize, keys: &mut [Key]);

    fn value(&self, row: usize) -> &[u8];

    /// Bytes of the values of the first `rows` rows.
    fn bytes(&self, rows: usize) -> usize;
}

/// Values that are ranges of one buffer.
pub(crate) struct OffsetValues<'a, O> {
    pub(crate) offsets: &'a [O],
    pub(crate) bytes: &'a [u8],
}

impl<O: OffsetSizeTrait> Keyed for OffsetValues<'_, O> {
    fn short_keys(&self, start: usize, keys: &mut [Key]) {
        let offsets = self.offsets.get(start..).unwrap_or(&[]);
        for (key, ends) in keys.iter_mut().zip(offsets.windows(2)) {
            let [start, end] = ends else { continue };
            let (start, end) = (start.as_usize(), end.as_usize());
            // What follows a value in the buffer is read with it and then cut off.
            if let Some(word) = self.bytes.get(start..).and_then(<[u8]>::first_chunk::<SHORT>) {
                *key = Key::short(u128::from_le_bytes(*word), end.saturating_sub(start));
            }
        }
    }

    fn value(&self, row: usize) -> &[u8] {
        let range = match self.offsets.get(row..row + 2) {
            Some([start, end]) => start.as_usize()..end.as_usize(),
            _ => 0..0,
        };
        self.bytes.get(range).unwrap_or(&[])
    }

    fn bytes(&self, rows: usize) -> usize {
        let at = |row: usize| self.offsets.get(row).map_or(0, |offset| offset.as_usize());
        at(rows).saturating_sub(at(0))
    }
}

/// Values that are views.
pub(crate) struct ViewValues<'a, F> {
    pub(crate) views: &'a [u128],
    pub(crate) value: F,
}

impl<'a, F: Fn(usize) -> &'a [u8]> Keyed for ViewValues<'a, F> {
    fn short_keys(&self, start: usize, keys: &mut [Key]) {
        let views = self.views.get(start..).unwrap_or(&[]);
        for (key, view) in keys.iter_mut().zip(views) {
            let len = view_len(*view);
            if len <= INLINE {
                *key = Key::short(view >> 32, len);
            }
        }
    }

    fn value(&self, row: usize) -> &[u8] {
        (self.value)(row)
    }

    fn bytes(&self, rows: usize) -> usize {
        self.views.iter().take(rows).map(|view| view_len(*view)).sum()
    }
}

fn view_len(view: u128) -> usize {
    usize::try_from(view & u128::from(u32::MAX)).unwrap_or(usize::MAX)
}

impl Interner {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of the longest value.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.ends.capacity() * size_of::<usize>()
            + self.bytes.capacity()
    }

    /// Bytes by which it grows at most when it numbers `rows` values of `bytes` bytes.
    pub(crate) fn growth(&self, bytes: usize, rows: usize) -> usize {
        let values = (self.ends.len() + rows).min(MOST_VALUES);
        let slots = (2 * values).next_power_of_two().max(FIRST_SLOTS);
        // While a table grows there are two; other room doubles.
        let table = if slots > self.slots.len() { slots * size_of::<Slot>() } else { 0 };
        let bytes = bytes.min(MOST_BYTES.saturating_sub(self.bytes.len()));
        table + 2 * (bytes + rows * size_of::<usize>())
    }

    /// Value `id`; empty if there is none.
    #[inline]
    pub(crate) fn value(&self, id: usize) -> &[u8] {
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(id).copied().unwrap_or(0);
        self.bytes.get(start.unwrap_or(0)..end).unwrap_or(&[])
    }

    /// Appends the numbers of the values of `rows` to `ids`, any number where a row is null; `false`
    /// where a value is too long or there are too many: those before it have their numbers.
    pub(crate) fn number(
        &mut self,
        values: &impl Keyed,
        rows: Range<usize>,
        nulls: Option<&NullBuffer>,
        ids: &mut Vec<u16>,
    ) -> bool {
        self.misses_left = self.misses_left.saturating_add(MISSES_OF_A_ROW * rows.len());
        let mut all = [Key::UNKNOWN; KEYS];
        for start in rows.clone().step_by(KEYS) {
            let count = (rows.end - start).min(KEYS);
            let keys = all.get_mut(..count).unwrap_or_default();
            keys.fill(Key::UNKNOWN);
            values.short_keys(start, keys);
            let before = ids.len();
            ids.resize(before + count, 0);
            let to = ids.get_mut(before..).unwrap_or_default();
            for (row, (key, id)) in keys.iter().zip(to).enumerate() {
                let mask = self.slots.len().wrapping_sub(1);
                *id = match self.slots.get(key.slot() & mask) {
                    Some(slot) if slot.key() == *key && key.len <= SHORT_LEN => slot.id,
                    _ if nulls.is_some_and(|nulls| nulls.is_null(start + row)) => 0,
                    _ => match self.find(*key, values, start + row) {
                        Some(id) => id,
                        None => {
                            ids.truncate(before + row);
                            return false;
                        }
                    },
                };
            }
        }
        true
    }

    /// The number of a value that is not where it is looked for first, or long, or new.
    #[inline(never)]
    fn find(&mut self, key: Key, values: &impl Keyed, row: usize) -> Option<u16> {
        let key = if key == Key::UNKNOWN { Key::of(values.value(row)) } else { key };
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key.slot() & mask;
        while let Some(slot) = self.slots.get(at).filter(|slot| slot.key() != Key::UNKNOWN) {
            let is_long = key.len > SHORT_LEN;
            if slot.key() == key
                && !(is_long && self.value(usize::from(slot.id)) != values.value(row))
            {
                return Some(slot.id);
            }
            self.misses_left = self.misses_left.checked_sub(1)?;
            at = (at + 1) & mask;
        }
        self.insert(key, values.value(row))
    }

    fn insert(&mut self, key: Key, value: &[u8]) -> Option<u16> {
        let id = u16::try_from(self.ends.len()).ok()?;
        if self.ends.len() >= MOST_VALUES
            || value.len() > LONGEST
            || self.bytes.len() + value.len() > MOST_BYTES
        {
            return None;
        }
        if (self.ends.len() + 1) * 2 > self.slots.len() {
            let len = (self.slots.len() * 2).max(FIRST_SLOTS);
            let old = std::mem::replace(&mut self.slots, vec![Slot::EMPTY; len]);
            let old = old.into_iter().filter(|slot| slot.key() != Key::UNKNOWN);
            old.for_each(|slot| self.place(slot));
        }
        self.place(Slot::new(key, id));
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.longest = self.longest.max(value.len());
        Some(id)
    }

    /// Puts `new` into the next empty slot; at least half of them are.
    fn place(&mut self, new: Slot) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = new.key().slot() & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.key() == Key::UNKNOWN {
                *slot = new;
                break;
            }
            at = (at + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, StringArray, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    fn numbers(texts: &[String], views: bool) -> (Interner, Vec<u16>, bool) {
        let mut interner = Interner::default();
        let mut ids = Vec::new();
        let all = if views {
            let array = StringViewArray::from_iter_values(texts);
            let value = |row: usize| array.value(row).as_bytes();
            let values = ViewValues { views: array.views(), value };
            interner.number(&values, 0..texts.len(), None, &mut ids)
        } else {
            let array = StringArray::from_iter_values(texts);
            let values = OffsetValues { offsets: array.value_offsets(), bytes: array.value_data() };
            interner.number(&values, 0..array.len(), None, &mut ids)
        };
        (interner, ids, all)
    }

    proptest! {
        #[test]
        fn rows_have_the_numbers_of_their_values(
            texts in prop::collection::vec("[ab\0]{0,40}", 0..300),
            views: bool,
        ) {
            let (interner, ids, all) = numbers(&texts, views);
            prop_assert!(all);
            for (text, id) in texts.iter().zip(&ids) {
                prop_assert_eq!(interner.value(usize::from(*id)), text.as_bytes());
            }
            let distinct: std::collections::HashSet<_> = texts.iter().collect();
            prop_assert_eq!(distinct.len(), interner.len());
        }
    }

    #[test]
    fn too_many_values_end_the_numbers() {
        let texts: Vec<_> = (0..70_000).map(|i| format!("{i}")).collect();
        for views in [false, true] {
            let (interner, ids, all) = numbers(&texts, views);
            assert!(!all && ids.len() == MOST_VALUES && interner.len() == MOST_VALUES);
        }
        let (_, ids, all) = numbers(&["a".into(), "b".repeat(LONGEST + 1), "a".into()], false);
        assert_eq!((ids, all), (vec![0], false));
    }
}
