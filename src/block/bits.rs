//! Bitmaps of any bit offset as 64-bit words, and back.

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::word::{LANE, head};

/// Bytes of a bitmap over `len` rows.
pub(crate) fn bitmap_bytes(len: usize) -> usize {
    len.div_ceil(8)
}

/// Replaces `out` by the bits `[start, start + len)`, the last word padded with zeros, and counts the ones.
pub(crate) fn load(bits: &BooleanBuffer, start: usize, len: usize, out: &mut Vec<u64>) -> usize {
    out.clear();
    if len <= LANE {
        let word = read_word(bits.values(), bits.offset() + start) & low_bits(len);
        out.extend((len > 0).then_some(word));
        return count_ones(out);
    }
    let chunks = bits.inner().bit_chunks(bits.offset() + start, len);
    out.extend(chunks.iter_padded());
    out.truncate(len.div_ceil(LANE));
    count_ones(out)
}

/// Appends the bits `[start, start + len)` to the `filled` bits that `out` holds; the bits beyond those are zeros.
pub(crate) fn push_range(
    out: &mut Vec<u64>,
    filled: usize,
    bits: &BooleanBuffer,
    start: usize,
    len: usize,
) {
    let bytes = bits.values();
    let mut from = bits.offset() + start;
    let mut at = filled;
    let end = filled + len;
    while at < end {
        let count = (end - at).min(LANE);
        let word = read_word(bytes, from) & low_bits(count);
        push_word(out, at, word, count);
        from += count;
        at += count;
    }
}

/// Appends `len` ones to the `filled` bits that `out` holds.
pub(crate) fn push_ones(out: &mut Vec<u64>, filled: usize, len: usize) {
    let end = filled + len;
    let mut at = filled;
    while at < end {
        let count = (end - at).min(LANE);
        let word = low_bits(count);
        push_word(out, at, word, count);
        at += count;
    }
}

/// A word whose `count` low bits are set.
fn low_bits(count: usize) -> u64 {
    if count < LANE { (1 << count) - 1 } else { u64::MAX }
}

/// Puts the `count` low bits of `word` at the bit `at`, the end of what `out` holds.
#[inline]
fn push_word(out: &mut Vec<u64>, at: usize, word: u64, count: usize) {
    let shift = at % LANE;
    if shift == 0 {
        out.push(word);
        return;
    }
    if let Some(last) = out.last_mut() {
        *last |= word << shift;
    }
    if shift + count > LANE {
        out.push(word >> (LANE - shift));
    }
}

/// 64 bits from the bit `from`; zeros beyond the end.
#[inline]
fn read_word(bytes: &[u8], from: usize) -> u64 {
    let (byte, shift) = (from / 8, from % 8);
    let tail = bytes.get(byte..).unwrap_or_default();
    if let Some(nine) = tail.first_chunk::<9>() {
        let [low @ .., high] = nine;
        let word = u64::from_le_bytes(*low) >> shift;
        return if shift == 0 { word } else { word | u64::from(*high) << (LANE - shift) };
    }
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(tail) {
        *to = *from;
    }
    let word = u128::from_le_bytes(padded) >> shift;
    u64::from_le_bytes(head(word.to_le_bytes()))
}

/// Ones in all of `words`.
pub(crate) fn count_ones(words: &[u64]) -> usize {
    words.iter().map(|word| usize::try_from(word.count_ones()).unwrap_or(0)).sum()
}

/// Appends the bitmap of `len` bits that `words` hold.
pub(crate) fn append(words: &[u64], len: usize, out: &mut Vec<u8>) {
    let end = out.len() + bitmap_bytes(len);
    out.reserve(words.len() * 8);
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(end);
}

/// A bitmap of `len` bits from its bytes.
pub(crate) fn from_bytes(bytes: &[u8], len: usize) -> BooleanBuffer {
    BooleanBuffer::new(Buffer::from_slice_ref(bytes), 0, len)
}

/// The validity that `bytes` hold, `None` if no row is null.
pub(crate) fn nulls_from_bytes(bytes: &[u8], len: usize) -> Option<NullBuffer> {
    Some(NullBuffer::new(from_bytes(bytes, len))).filter(|nulls| nulls.null_count() > 0)
}
