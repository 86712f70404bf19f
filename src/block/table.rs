//! Distinct byte strings of some rows, found by hashing; reused from block to block.

/// Values that rows of a column refer to.
pub(crate) trait ByteRows {
    /// The bytes of row `i`; empty beyond the end.
    fn get(&self, i: usize) -> &[u8];
}

/// Numbers rows by their value, in the order of first occurrence.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Id plus one of the value that hashes here; 0 if none does.
    slots: Vec<u32>,
    /// Per id its value and first row.
    firsts: Vec<First>,
    /// Per row its id.
    ids: Vec<u32>,
    /// Slots that were looked at in vain.
    misses: usize,
}

/// A distinct value: its key, and the first row that has it.
#[derive(Debug, Clone, Copy)]
struct First {
    key: Key,
    row: u32,
}

/// A value of up to 16 bytes as numbers; of a longer one two hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    low: u64,
    high: u64,
    len: u32,
}

/// Values up to this length are equal if their keys are.
pub(crate) const SHORT: usize = 16;

/// Puts the ids of `keys` into empty `slots`.
fn place_all(slots: &mut [u32], keys: impl Iterator<Item = Key>) {
    let mask = slots.len() - 1;
    for (id, key) in keys.enumerate() {
        let mut at = key.slot() & mask;
        while let Some(slot) = slots.get_mut(at) {
            if *slot == 0 {
                *slot = u32::try_from(id + 1).unwrap_or(u32::MAX);
                break;
            }
            at = (at + 1) & mask;
        }
    }
}

/// Rows after which the number of distinct values is judged, or a quarter of all rows if that is more: values may come
/// in long cycles.
const PROBE: usize = 256;

impl Table {
    /// First row of each distinct value, by id.
    pub(crate) fn first_rows(&self) -> impl ExactSizeIterator<Item = usize> {
        self.firsts.iter().map(|first| index(first.row))
    }

    /// Id of every row.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The ids, until [`set_ids`](Self::set_ids) gives their memory back.
    pub(crate) fn take_ids(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ids)
    }

    pub(crate) fn set_ids(&mut self, ids: Vec<u32>) {
        self.ids = ids;
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.slots.capacity() * 4
            + self.firsts.capacity() * size_of::<First>()
            + self.ids.capacity() * 4
    }

    /// Numbers `rows` rows; `false`, early, if too few of them share values to gain from it.
    ///
    /// `skip` says which rows do not matter; they get id 0. More than `most` distinct values are too many.
    pub(crate) fn number(
        &mut self,
        values: &impl ByteRows,
        rows: usize,
        most: usize,
        skip: impl Fn(usize) -> bool,
    ) -> bool {
        self.firsts.clear();
        self.ids.clear();
        self.misses = 0;
        self.slots.clear();
        self.slots.resize(first_slots(rows), 0);
        let probe = (rows / 4).max(PROBE);
        for row in 0..rows {
            if row == probe && !self.promising(row, rows) {
                return false;
            }
            if skip(row) {
                self.ids.push(0);
                continue;
            }
            let id = self.id_of(values, row);
            self.ids.push(id);
            // Values made to collide cost no more than they do without a dictionary.
            if self.firsts.len() > most || self.misses > rows.saturating_mul(8) {
                return false;
            }
        }
        true
    }

    /// Whether values repeat enough, judged after `seen` of `rows` rows.
    fn promising(&self, seen: usize, rows: usize) -> bool {
        let distinct = self.firsts.len().max(1);
        let repeats = seen.saturating_sub(distinct);
        // Of N values, k draws repeat about k^2 / 2N times; so a dictionary of N values ends
        // well below the rows if N is below them.
        let estimate = seen.saturating_mul(seen) / (2 * repeats.max(1));
        estimate < rows || repeats * 4 > seen
    }

    fn id_of(&mut self, values: &impl ByteRows, row: usize) -> u32 {
        let value = values.get(row);
        let key = Key::of(value);
        let mask = self.slots.len() - 1;
        let mut at = key.slot() & mask;
        loop {
            let Some(slot) = self.slots.get_mut(at) else { return 0 };
            let Some(id) = slot.checked_sub(1) else {
                let id = u32::try_from(self.firsts.len()).unwrap_or(u32::MAX - 1);
                *slot = id + 1;
                self.firsts.push(First { key, row: u32::try_from(row).unwrap_or(u32::MAX) });
                if self.firsts.len() * 2 > self.slots.len() {
                    self.grow();
                }
                return id;
            };
            if let Some(first) = self.firsts.get(index(id))
                && first.key == key
                && (value.len() <= SHORT || values.get(index(first.row)) == value)
            {
                return id;
            }
            self.misses += 1;
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let len = self.slots.len() * 4;
        self.slots.clear();
        self.slots.resize(len, 0);
        place_all(&mut self.slots, self.firsts.iter().map(|first| first.key));
    }
}

fn first_slots(rows: usize) -> usize {
    rows.min(512).next_power_of_two().max(8) * 2
}

fn index(id: u32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

pub(crate) const M: [u64; 3] =
    [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9];

impl Key {
    #[inline]
    fn of(value: &[u8]) -> Self {
        let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let (low, high) = match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
            _ if value.len() > SHORT => hash_long(value),
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => match (value.first_chunk::<4>(), value.last_chunk::<4>()) {
                (Some(first), Some(last)) => {
                    (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
                }
                _ => (value.iter().fold(0, |acc, byte| acc << 8 | u64::from(*byte)), 0),
            },
        };
        Self { low, high, len }
    }

    /// Where in a table of any size to look first.
    #[inline]
    fn slot(self) -> usize {
        let hash = fold(self.low ^ M[0], self.high ^ M[1] ^ u64::from(self.len));
        usize::try_from(hash & 0xffff_ffff).unwrap_or(0)
    }
}

/// Two hashes of a value of more than eight bytes; only compared with themselves, never stored.
pub(crate) fn hash_long(value: &[u8]) -> (u64, u64) {
    let (words, _) = value.as_chunks::<8>();
    let last = value.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
    let mut low = M[2];
    let mut high = last ^ M[0];
    for word in words {
        let word = u64::from_le_bytes(*word);
        low = fold(low ^ word, M[0]);
        high = fold(high ^ word, M[1]);
    }
    (fold(low ^ last, M[1]), high)
}

/// Both halves of the product, folded into one.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
