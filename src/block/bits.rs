//! Bitmaps of any bit offset as 64-bit words, and back.

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::word::LANE;

/// Bytes of a bitmap over `len` rows.
pub(crate) fn bitmap_bytes(len: usize) -> usize {
    len.div_ceil(8)
}

/// Replaces `out` by the bits `[start, start + len)`, the last word padded with zeros, and counts the ones.
pub(crate) fn load(bits: &BooleanBuffer, start: usize, len: usize, out: &mut Vec<u64>) -> usize {
    out.clear();
    let chunks = bits.inner().bit_chunks(bits.offset() + start, len);
    out.extend(chunks.iter_padded());
    out.truncate(len.div_ceil(LANE));
    count_ones(out)
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
