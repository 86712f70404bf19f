//! The two parts of a block's body while it is written, and the bound of what it decodes to.

use super::bits;
use super::sample::Sampler;
use super::simd::vectorized;
use super::tags;
use super::word::{self, LANE, MIN_LENS, WIDTHS, Word, head};

/// The body of a block: `packed` goes through the codec, `plain` does not.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) packed: Vec<u8>,
    pub(crate) plain: Vec<u8>,
    decoded_bytes: u64,
    sampler: Sampler,
}

impl Sink {
    pub(crate) fn new(sampler: Sampler) -> Self {
        Self { sampler, ..Self::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.packed.clear();
        self.plain.clear();
        self.decoded_bytes = 0;
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.packed.capacity() + self.plain.capacity()
    }

    /// Adds to what the reader will allocate for arrays; it counts the same.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.decoded_bytes =
            self.decoded_bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    pub(crate) fn decoded_bytes(&self) -> u64 {
        self.decoded_bytes
    }

    pub(crate) fn put_u8(&mut self, byte: u8) {
        self.packed.push(byte);
    }

    /// A number in as few bytes of seven bits as it needs, the low ones first.
    pub(crate) fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.packed.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.packed.push((value & 0x7f) as u8);
    }

    /// The tag of a node, with the validity of its rows.
    pub(crate) fn put_tag(&mut self, encoding: u8, validity: Validity<'_>, rows: usize) {
        match validity {
            Validity::AllValid => self.packed.push(encoding | tags::NO_NULLS),
            Validity::AllNull => {
                self.charge(bits::bitmap_bytes(rows));
                self.packed.push(encoding | tags::ALL_NULL);
            }
            Validity::Mask(mask) => {
                self.charge(bits::bitmap_bytes(rows));
                let at = self.packed.len();
                self.packed.push(encoding | tags::NULLS_PACKED);
                bits::append(mask, rows, &mut self.packed);
                if self.settle(at + 1) {
                    self.patch(at, tags::NULLS_PLAIN);
                }
            }
        }
    }

    /// Bits of `rows` values: one control byte, and a bitmap unless they are all the same.
    pub(crate) fn put_bits(&mut self, words: &[u64], ones: usize, rows: usize) {
        self.charge(bits::bitmap_bytes(rows));
        if ones == 0 || ones == rows {
            self.packed.push(tags::CONSTANT | u8::from(ones != 0));
            return;
        }
        let at = self.packed.len();
        self.packed.push(0);
        bits::append(words, rows, &mut self.packed);
        if self.settle(at + 1) {
            self.patch(at, tags::PLAIN);
        }
    }

    /// Bytes whose length the reader knows, after a control byte; none if there are no bytes.
    pub(crate) fn put_bytes(&mut self, size_hint: usize, fill: impl FnOnce(&mut Vec<u8>)) {
        let at = self.packed.len();
        self.packed.reserve(size_hint + 1);
        self.packed.push(0);
        fill(&mut self.packed);
        if self.packed.len() == at + 1 {
            self.packed.truncate(at);
        } else if self.settle(at + 1) {
            self.patch(at, tags::PLAIN);
        }
    }

    /// Words of the valid rows; the other rows take the minimum.
    pub(crate) fn put_words<T: Word>(&mut self, values: &[T], valid: Option<&[u64]>) {
        let zero = T::truncated([0; 32]);
        let (min, max) = T::range(values, valid).unwrap_or((zero, zero));
        self.put_words_in(values, valid, min, max);
    }

    /// [`Self::put_words`] where the range of the valid rows is known.
    pub(crate) fn put_words_in<T: Word>(
        &mut self,
        values: &[T],
        valid: Option<&[u64]>,
        min: T,
        max: T,
    ) {
        self.put_offsets(values, valid, (min, max), word::min_code(min));
    }

    /// Offsets of the valid rows, from their smallest; the other rows take that one. `low` is what
    /// the smallest stands for.
    pub(crate) fn put_offsets<N: Word>(
        &mut self,
        values: &[N],
        valid: Option<&[u64]>,
        (min, max): (N, N),
        (min_code, min_bytes): (u8, [u8; 32]),
    ) {
        let code = word::width_code(min, max);
        let at = self.packed.len();
        self.packed.push(code | min_code << 5);
        let min_len = MIN_LENS.get(usize::from(min_code)).copied().unwrap_or(0);
        self.packed.extend_from_slice(min_bytes.get(..min_len).unwrap_or(&min_bytes));
        let width = WIDTHS.get(usize::from(code)).copied().unwrap_or(0);
        if width == 0 {
            return;
        }
        let pays = self.sampler.pays_by_sample(values.len() * width, |sample| {
            let rows = sample.len() / width;
            let lane = (values.len() - rows.min(values.len())) / 2 / LANE;
            let values = values.get(lane * LANE..).unwrap_or_default();
            let valid = valid.map(|mask| mask.get(lane..).unwrap_or_default());
            fill_words(values, valid, min, width, sample);
        });
        if !pays {
            self.patch(at, tags::PLAIN);
        }
        let part = if pays { &mut self.packed } else { &mut self.plain };
        let start = part.len();
        part.resize(start + values.len() * width, 0);
        if let Some(out) = part.get_mut(start..) {
            vectorized(|| fill_words(values, valid, min, width, out));
        }
    }

    /// Words of the valid rows with their bytes in planes: all first bytes, all second bytes, and so on.
    pub(crate) fn put_planes<T: Word>(
        &mut self,
        values: &[T],
        valid: Option<&[u64]>,
        (min, max): (T, T),
        (min_code, min_bytes): (u8, [u8; 32]),
    ) {
        let code = word::width_code(min, max);
        self.packed.push(code | min_code << 5);
        let min_len = MIN_LENS.get(usize::from(min_code)).copied().unwrap_or(0);
        self.packed.extend_from_slice(min_bytes.get(..min_len).unwrap_or(&min_bytes));
        let width = WIDTHS.get(usize::from(code)).copied().unwrap_or(0);
        let mut deltas = vec![0; values.len() * width];
        vectorized(|| fill_words(values, valid, min, width, &mut deltas));
        for plane in 0..width {
            let bytes = || deltas.iter().skip(plane).step_by(width.max(1));
            let first = bytes().next().copied().unwrap_or(0);
            if bytes().all(|byte| *byte == first) {
                self.packed.extend_from_slice(&[tags::CONSTANT, first]);
                continue;
            }
            self.put_bytes(values.len(), |out| out.extend(bytes()));
        }
    }

    pub(crate) fn sampler(&self) -> Sampler {
        self.sampler
    }

    fn patch(&mut self, at: usize, bits: u8) {
        if let Some(byte) = self.packed.get_mut(at) {
            *byte |= bits;
        }
    }

    /// Moves what follows `start` to the plain part if the codec would not shrink it; says if it did.
    fn settle(&mut self, start: usize) -> bool {
        let Some(tail) = self.packed.get(start..) else { return false };
        if self.sampler.pays(tail) {
            return false;
        }
        self.plain.extend_from_slice(tail);
        self.packed.truncate(start);
        true
    }
}

/// Which rows of a node are valid.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Validity<'a> {
    AllValid,
    AllNull,
    Mask(&'a [u64]),
}

impl<'a> Validity<'a> {
    /// The mask, if some rows are null and some are not.
    pub(crate) fn mask(self) -> Option<&'a [u64]> {
        match self {
            Self::Mask(mask) => Some(mask),
            Self::AllValid | Self::AllNull => None,
        }
    }
}

#[inline(always)]
fn fill_words<T: Word>(values: &[T], valid: Option<&[u64]>, min: T, width: usize, out: &mut [u8]) {
    match width {
        1 => fill64::<T, 1>(values, valid, min, out),
        2 => fill64::<T, 2>(values, valid, min, out),
        3 => fill64::<T, 3>(values, valid, min, out),
        4 => fill64::<T, 4>(values, valid, min, out),
        5 => fill64::<T, 5>(values, valid, min, out),
        6 => fill64::<T, 6>(values, valid, min, out),
        7 => fill64::<T, 7>(values, valid, min, out),
        8 => fill64::<T, 8>(values, valid, min, out),
        12 => fill128::<T, 12>(values, valid, min, out),
        16 => fill128::<T, 16>(values, valid, min, out),
        _ => fill256(values, valid, min, out),
    }
}

#[inline(always)]
fn fill64<T: Word, const W: usize>(values: &[T], valid: Option<&[u64]>, min: T, out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<W>();
    let Some(mask) = valid else {
        for (to, v) in out.iter_mut().zip(values) {
            *to = head(v.delta64(min).to_le_bytes());
        }
        return;
    };
    for ((out, values), &bits) in out.chunks_mut(LANE).zip(values.chunks(LANE)).zip(mask) {
        if bits == u64::MAX {
            for (to, v) in out.iter_mut().zip(values) {
                *to = head(v.delta64(min).to_le_bytes());
            }
        } else {
            for (i, (to, v)) in out.iter_mut().zip(values).enumerate() {
                let keep = 0u64.wrapping_sub((bits >> i) & 1);
                *to = head((v.delta64(min) & keep).to_le_bytes());
            }
        }
    }
}

#[inline(always)]
fn fill128<T: Word, const W: usize>(values: &[T], valid: Option<&[u64]>, min: T, out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<W>();
    for (i, (to, v)) in out.iter_mut().zip(values).enumerate() {
        let delta = if is_valid(valid, i) { v.delta128(min) } else { 0 };
        *to = head(delta.to_le_bytes());
    }
}

fn fill256<T: Word>(values: &[T], valid: Option<&[u64]>, min: T, out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<32>();
    for (i, (to, v)) in out.iter_mut().zip(values).enumerate() {
        *to = if is_valid(valid, i) { v.delta_bytes(min) } else { [0; 32] };
    }
}

/// Whether row `i` is valid under `mask`.
#[inline(always)]
pub(crate) fn is_valid(mask: Option<&[u64]>, i: usize) -> bool {
    mask.is_none_or(|mask| mask.get(i / LANE).is_some_and(|bits| (bits >> (i % LANE)) & 1 == 1))
}
