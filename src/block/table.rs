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
    /// Per id: the high half of the hash, and the first row.
    firsts: Vec<(u32, u32)>,
    /// Per row its id.
    ids: Vec<u32>,
}

/// Rows after which the number of distinct values is judged, or a quarter of all rows if that is more: values may come
/// in long cycles.
const PROBE: usize = 256;

impl Table {
    /// First row of each distinct value, by id.
    pub(crate) fn first_rows(&self) -> impl ExactSizeIterator<Item = usize> {
        self.firsts.iter().map(|(_, row)| usize::try_from(*row).unwrap_or(usize::MAX))
    }

    /// Id of every row.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.slots.capacity() * 4 + self.firsts.capacity() * 8 + self.ids.capacity() * 4
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
            if self.firsts.len() > most {
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
        let hash = hash_bytes(value);
        let tag = high_half(hash);
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & mask;
        loop {
            let Some(slot) = self.slots.get_mut(at) else { return 0 };
            let Some(id) = slot.checked_sub(1) else {
                let id = u32::try_from(self.firsts.len()).unwrap_or(u32::MAX - 1);
                *slot = id + 1;
                self.firsts.push((tag, u32::try_from(row).unwrap_or(u32::MAX)));
                if self.firsts.len() * 2 > self.slots.len() {
                    self.grow(values);
                }
                return id;
            };
            if let Some((seen, first)) = self.firsts.get(index(id))
                && *seen == tag
                && values.get(index(*first)) == value
            {
                return id;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self, values: &impl ByteRows) {
        let len = self.slots.len() * 4;
        self.slots.clear();
        self.slots.resize(len, 0);
        for (id, (_, row)) in self.firsts.iter().enumerate() {
            let hash = hash_bytes(values.get(index(*row)));
            let mut at = usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & (len - 1);
            while let Some(slot) = self.slots.get_mut(at) {
                if *slot == 0 {
                    *slot = u32::try_from(id + 1).unwrap_or(u32::MAX);
                    break;
                }
                at = (at + 1) & (len - 1);
            }
        }
    }
}

fn first_slots(rows: usize) -> usize {
    rows.min(512).next_power_of_two().max(8) * 2
}

fn index(id: u32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

fn high_half(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(0)
}

const M: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9];

/// A hash of `bytes`; only compared with itself, never stored.
fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = (bytes.len() as u64).wrapping_mul(M[2]) ^ M[0];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), M[0]);
    }
    // The last up to seven bytes, overlapping what was read where that is simpler.
    let tail = match (rest, bytes.last_chunk::<8>(), bytes) {
        ([], ..) => 0,
        (_, Some(last), _) => u64::from_le_bytes(*last),
        (_, None, [a, b, c, d, ..]) => {
            let last = bytes.last_chunk::<4>().copied().unwrap_or_default();
            u64::from(u32::from_le_bytes([*a, *b, *c, *d])) << 32
                | u64::from(u32::from_le_bytes(last))
        }
        (_, None, short) => short.iter().fold(0, |acc, b| acc << 8 | u64::from(*b)),
    };
    fold(state ^ tail, M[1])
}

/// Both halves of the product, folded into one.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
