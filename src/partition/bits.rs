//! Bits of a column, appended by the word.

use arrow::buffer::{BooleanBuffer, Buffer};

use super::source::Rows;

/// Bits in words of 64, least significant first; those beyond `len` are zero.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Makes room for `capacity` bits in all.
    pub(super) fn reserve(&mut self, capacity: usize) {
        let words = capacity.div_ceil(64);
        self.words.reserve_exact(words.saturating_sub(self.words.len()));
    }

    /// Appends the lowest `count` bits of `word`, at most 64; the others are zero.
    #[inline]
    pub(super) fn push(&mut self, word: u64, count: usize) {
        let used = self.len % 64;
        match self.words.last_mut().filter(|_| used > 0) {
            None => self.words.push(word),
            Some(last) => {
                *last |= word << used;
                if used + count > 64 {
                    self.words.push(word >> (64 - used));
                }
            }
        }
        self.len += count;
    }

    /// Appends `count` ones.
    pub(super) fn append_ones(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let some = left.min(64);
            self.push(u64::MAX >> (64 - some), some);
            left -= some;
        }
    }

    /// Appends bits `start..start + len` of `words`.
    pub(super) fn append_range(&mut self, words: &[u64], start: usize, len: usize) {
        let (mut at, end) = (start, start + len);
        while at < end {
            let some = (end - at).min(64);
            self.push(word_at(words, at) & (u64::MAX >> (64 - some)), some);
            at += some;
        }
    }

    /// Appends the bits of `rows`.
    #[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
    pub(super) fn gather(&mut self, from: &BooleanBuffer, rows: Rows<'_>) {
        match rows {
            Rows::Range { start, len } => {
                let part = from.slice(start, len);
                let chunks = part.bit_chunks();
                chunks.iter().for_each(|word| self.push(word, 64));
                if chunks.remainder_len() > 0 {
                    self.push(chunks.remainder_bits(), chunks.remainder_len());
                }
            }
            Rows::Index(rows) => {
                let (bytes, offset) = (from.values(), from.offset());
                for rows in rows.chunks(64) {
                    let mut word = 0;
                    for (at, &row) in rows.iter().enumerate() {
                        let bit = offset + row as usize;
                        word |= u64::from(bytes[bit / 8] >> (bit % 8) & 1) << at;
                    }
                    self.push(word, rows.len());
                }
            }
        }
    }

    /// The words of the bits so far.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Removes all bits and keeps their room.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The bits appended so far; none are left.
    pub(super) fn finish(&mut self) -> BooleanBuffer {
        let len = std::mem::take(&mut self.len);
        BooleanBuffer::new(Buffer::from_vec(std::mem::take(&mut self.words)), 0, len)
    }
}

/// 64 bits of `words` from bit `at`; zeros beyond the end.
#[inline]
pub(super) fn word_at(words: &[u64], at: usize) -> u64 {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let low = word(at / 64) >> (at % 64);
    if at.is_multiple_of(64) { low } else { low | word(at / 64 + 1) << (64 - at % 64) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_arrive_in_order(
            parts in prop::collection::vec(
                (prop::collection::vec(any::<bool>(), 1..300), 0_usize..70, 0_u8..4),
                0..12,
            ),
        ) {
            let mut bits = Bits::default();
            let mut expected = Vec::new();
            for (values, skip, how) in parts {
                let start = skip.min(values.len() - 1);
                let from = BooleanBuffer::from(values.as_slice()).slice(start, values.len() - start);
                let values = &values[start..];
                match how {
                    0 => {
                        bits.reserve(expected.len() + values.len());
                        bits.append_ones(values.len());
                        expected.extend(values.iter().map(|_| true));
                    }
                    3 => {
                        let mut words = vec![0; values.len().div_ceil(64) + 1];
                        for at in from.set_indices().map(|at| at + start % 64) {
                            if at / 64 >= words.len() {
                                words.push(0);
                            }
                            words[at / 64] |= 1 << (at % 64);
                        }
                        bits.append_range(&words, start % 64, values.len());
                        expected.extend(values);
                    }
                    1 => {
                        bits.gather(&from, Rows::Range { start: 0, len: values.len() });
                        expected.extend(values);
                    }
                    _ => {
                        let count = u32::try_from(values.len()).unwrap();
                        let rows: Vec<u32> = (0..count).rev().collect();
                        bits.gather(&from, Rows::Index(&rows));
                        expected.extend(values.iter().rev());
                    }
                }
            }
            let found = bits.finish();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            prop_assert!(bits.finish().is_empty());
        }
    }
}
