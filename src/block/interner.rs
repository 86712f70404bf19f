//! Byte strings of a column, numbered as they come and kept from batch to batch.

use std::ops::Range;

use arrow::array::OffsetSizeTrait;
use arrow::buffer::NullBuffer;

use super::table::{SHORT, fold, hash_long};

/// Slots that an interner starts with.
const FIRST_SLOTS: usize = 1024;

/// Slots that may be looked at in vain for each row, and before rows count: values made to collide
/// cost no more than they do without numbers.
const MISSES_OF_A_ROW: usize = 8;
const FREE_MISSES: usize = 1024;

/// Most values that are numbered, so that a number takes two bytes.
const MOST_VALUES: usize = 1 << 16;

/// Most bytes of values that are kept, and of one value.
const MOST_BYTES: usize = 1 << 20;
const LONGEST: usize = 4096;

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
        let (slots, ends, bytes) = Default::default();
        Self { slots, ends, bytes, longest: 0, misses_left: FREE_MISSES }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    low: u64,
    high: u64,
    len: u32,
    /// Number of the value plus one; 0 where the slot is empty.
    id: u32,
}

/// A value of up to 16 bytes, padded with zeros; of a longer one two hashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    low: u64,
    high: u64,
    len: u32,
}

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
    /// That of the first `len` of the bytes in `word`, which are at most 16.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word; at most 16")]
    fn short(word: u128, len: usize) -> Self {
        let word = word & KEPT.get(len).copied().unwrap_or(0);
        Self { low: word as u64, high: (word >> 64) as u64, len: len as u32 }
    }

    #[inline(never)]
    fn of(value: &[u8]) -> Self {
        if value.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            return Self::short(u128::from_le_bytes(bytes), value.len());
        }
        let (low, high) = hash_long(value);
        Self { low, high, len: u32::try_from(value.len()).unwrap_or(u32::MAX) }
    }

    /// Whether it says all of its value.
    #[inline(always)]
    fn is_whole(self) -> bool {
        self.len <= 16
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        fold(
            self.low ^ 0x9e37_79b9_7f4a_7c15,
            self.high ^ u64::from(self.len) ^ 0xc2b2_ae3d_27d4_eb4f,
        )
    }
}

impl Slot {
    #[inline(always)]
    fn has(&self, key: Key) -> bool {
        self.low == key.low && self.high == key.high && self.len == key.len
    }
}

/// Values of rows, and their keys.
pub(crate) trait Keyed {
    fn key(&self, row: usize) -> Key;
    fn value(&self, row: usize) -> &[u8];
}

/// Values that are ranges of one buffer.
pub(crate) struct OffsetValues<'a, O> {
    pub(crate) offsets: &'a [O],
    pub(crate) bytes: &'a [u8],
}

impl<O: OffsetSizeTrait> OffsetValues<'_, O> {
    #[inline(always)]
    fn range(&self, row: usize) -> Range<usize> {
        match self.offsets.get(row..row + 2) {
            Some([start, end]) => start.as_usize()..end.as_usize(),
            _ => 0..0,
        }
    }
}

impl<O: OffsetSizeTrait> Keyed for OffsetValues<'_, O> {
    #[inline(always)]
    fn key(&self, row: usize) -> Key {
        let Range { start, end } = self.range(row);
        let len = end.saturating_sub(start);
        // What follows a value in the buffer is read with it and then cut off.
        match self.bytes.get(start..).and_then(<[u8]>::first_chunk::<SHORT>) {
            Some(word) if len <= SHORT => Key::short(u128::from_le_bytes(*word), len),
            _ => Key::of(self.value(row)),
        }
    }

    fn value(&self, row: usize) -> &[u8] {
        self.bytes.get(self.range(row)).unwrap_or(&[])
    }
}

/// Values that are views.
pub(crate) struct ViewValues<'a, F> {
    pub(crate) views: &'a [u128],
    pub(crate) value: F,
}

/// Bytes that a view holds itself.
const INLINE: usize = 12;

impl<'a, F: Fn(usize) -> &'a [u8]> Keyed for ViewValues<'a, F> {
    #[inline(always)]
    fn key(&self, row: usize) -> Key {
        let view = self.views.get(row).copied().unwrap_or(0);
        let len = usize::try_from(view & u128::from(u32::MAX)).unwrap_or(usize::MAX);
        match len {
            ..=INLINE => Key::short(view >> 32, len),
            _ => Key::of(self.value(row)),
        }
    }

    fn value(&self, row: usize) -> &[u8] {
        (self.value)(row)
    }
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
        ids.reserve(rows.len());
        for row in rows {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                ids.push(0);
                continue;
            }
            let Some(id) = self.id_of(values.key(row), || values.value(row)) else { return false };
            ids.push(id);
        }
        true
    }

    #[inline(always)]
    fn id_of<'a>(&mut self, key: Key, value: impl Fn() -> &'a [u8]) -> Option<u16> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = to_index(key.hash()) & mask;
        while let Some(slot) = self.slots.get(at).filter(|slot| slot.id > 0) {
            let id = slot.id - 1;
            if slot.has(key) && (key.is_whole() || self.value(id as usize) == value()) {
                return u16::try_from(id).ok();
            }
            self.misses_left = self.misses_left.checked_sub(1)?;
            at = (at + 1) & mask;
        }
        self.insert(key, value())
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, key: Key, value: &[u8]) -> Option<u16> {
        let id = self.ends.len();
        if id >= MOST_VALUES || value.len() > LONGEST || self.bytes.len() + value.len() > MOST_BYTES
        {
            return None;
        }
        if (id + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.place(Slot {
            low: key.low,
            high: key.high,
            len: key.len,
            id: u32::try_from(id + 1).ok()?,
        });
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.longest = self.longest.max(value.len());
        u16::try_from(id).ok()
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 4).max(FIRST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); len]);
        old.into_iter().filter(|slot| slot.id > 0).for_each(|slot| self.place(slot));
    }

    /// Puts `new` into the next empty slot; at least half of them are.
    fn place(&mut self, new: Slot) {
        let mask = self.slots.len().wrapping_sub(1);
        let key = Key { low: new.low, high: new.high, len: new.len };
        let mut at = to_index(key.hash()) & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.id == 0 {
                *slot = new;
                break;
            }
            at = (at + 1) & mask;
        }
    }
}

#[inline(always)]
fn to_index(hash: u64) -> usize {
    usize::try_from(hash & 0xffff_ffff).unwrap_or(0)
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
