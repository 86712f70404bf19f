//! Integers of a column: offsets from a minimum, at exact byte widths.
//!
//! Everything of fixed width is a column of words: integers, dates, times, timestamps, durations
//! and decimals as they are; floats by their bits.

use arrow::datatypes::{ArrowNativeType, i256};

use super::simd::vectorized;

/// Byte widths of offsets; the index is the width code of the format.
pub(crate) const WIDTHS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32];
/// Byte lengths of a stored minimum; the index is its code in the format.
pub(crate) const MIN_LENS: [usize; 7] = [0, 1, 2, 4, 8, 16, 32];
/// Values below which vectors gain nothing over the call of their loop.
const FEW: usize = 16;
/// Rows that share one word of a validity mask.
pub(crate) const LANE: usize = 64;

/// A fixed-width value with wrapping offsets.
pub(crate) trait Word: ArrowNativeType + Ord {
    /// Bytes of one value.
    const BYTES: usize;
    /// `self - min` modulo 2^64; exact where the offset fits.
    fn delta64(self, min: Self) -> u64;
    /// `self - min` modulo 2^128; exact where the offset fits.
    fn delta128(self, min: Self) -> u128;
    /// `self - min`, as little-endian bytes.
    fn delta_bytes(self, min: Self) -> [u8; 32];
    /// `self + delta`, wrapping.
    fn add64(self, delta: u64) -> Self;
    /// `self + delta`, wrapping.
    fn add128(self, delta: u128) -> Self;
    /// `self + delta` with `delta` as little-endian bytes, wrapping.
    fn add_bytes(self, delta: [u8; 32]) -> Self;
    /// The value as a signed number of 64 bits, if its bytes are only the sign beyond those.
    fn narrow(self) -> Option<i64>;
    /// The value, sign-extended to 32 little-endian bytes.
    fn extended(self) -> [u8; 32];
    /// The value in the low bytes of `bytes`.
    fn truncated(bytes: [u8; 32]) -> Self;

    /// Smallest and largest of the valid values, `None` if there are none.
    fn range(values: &[Self], valid: Option<&[u64]>) -> Option<(Self, Self)> {
        match valid {
            None if values.len() == 1 => values.first().map(|only| (*only, *only)),
            None if values.len() < FEW => range_all(values),
            Some(mask) if values.len() < FEW => range_masked(values, mask),
            None => vectorized(|| range_all(values)),
            Some(mask) => vectorized(|| range_masked(values, mask)),
        }
    }
}

macro_rules! narrow_word {
    ($t:ty, $unsigned:ty, $to_unsigned:expr, $from_unsigned:expr, $to_signed:expr) => {
        impl Word for $t {
            const BYTES: usize = size_of::<$t>();

            #[inline(always)]
            fn delta64(self, min: Self) -> u64 {
                u64::from($to_unsigned(self.wrapping_sub(min)))
            }

            #[inline(always)]
            fn delta128(self, min: Self) -> u128 {
                u128::from(self.delta64(min))
            }

            fn delta_bytes(self, min: Self) -> [u8; 32] {
                u64::from($to_unsigned(self.wrapping_sub(min))).extended_unsigned()
            }

            #[inline(always)]
            fn add64(self, delta: u64) -> Self {
                let delta = <$unsigned>::from_le_bytes(head(delta.to_le_bytes()));
                self.wrapping_add($from_unsigned(delta))
            }

            #[inline(always)]
            fn add128(self, delta: u128) -> Self {
                self.wrapping_add(Self::from_le_bytes(head(delta.to_le_bytes())))
            }

            fn add_bytes(self, delta: [u8; 32]) -> Self {
                self.wrapping_add(Self::truncated(delta))
            }

            #[inline(always)]
            fn narrow(self) -> Option<i64> {
                Some(i64::from($to_signed(self)))
            }

            fn extended(self) -> [u8; 32] {
                extend(&self.to_le_bytes())
            }

            fn truncated(bytes: [u8; 32]) -> Self {
                Self::from_le_bytes(low(&bytes))
            }
        }
    };
}

fn same<T>(value: T) -> T {
    value
}

narrow_word!(u8, u8, same, same, u8::cast_signed);
narrow_word!(u16, u16, same, same, u16::cast_signed);
narrow_word!(u32, u32, same, same, u32::cast_signed);
narrow_word!(u64, u64, same, same, u64::cast_signed);
narrow_word!(i8, u8, i8::cast_unsigned, u8::cast_signed, same);
narrow_word!(i16, u16, i16::cast_unsigned, u16::cast_signed, same);
narrow_word!(i32, u32, i32::cast_unsigned, u32::cast_signed, same);
narrow_word!(i64, u64, i64::cast_unsigned, u64::cast_signed, same);

trait Unsigned {
    fn extended_unsigned(self) -> [u8; 32];
}

impl Unsigned for u64 {
    fn extended_unsigned(self) -> [u8; 32] {
        let mut out = [0; 32];
        if let Some(head) = out.first_chunk_mut() {
            *head = self.to_le_bytes();
        }
        out
    }
}

impl Word for i128 {
    const BYTES: usize = 16;

    #[inline(always)]
    fn delta64(self, min: Self) -> u64 {
        low64(self).wrapping_sub(low64(min))
    }

    #[inline(always)]
    fn delta128(self, min: Self) -> u128 {
        self.wrapping_sub(min).cast_unsigned()
    }

    fn delta_bytes(self, min: Self) -> [u8; 32] {
        let mut out = [0; 32];
        if let Some(head) = out.first_chunk_mut() {
            *head = self.wrapping_sub(min).to_le_bytes();
        }
        out
    }

    #[inline(always)]
    fn add64(self, delta: u64) -> Self {
        self.wrapping_add(i128::from(delta))
    }

    #[inline(always)]
    fn add128(self, delta: u128) -> Self {
        self.wrapping_add(delta.cast_signed())
    }

    fn add_bytes(self, delta: [u8; 32]) -> Self {
        self.wrapping_add(Self::truncated(delta))
    }

    fn narrow(self) -> Option<i64> {
        i64::try_from(self).ok()
    }

    fn extended(self) -> [u8; 32] {
        extend(&self.to_le_bytes())
    }

    fn truncated(bytes: [u8; 32]) -> Self {
        Self::from_le_bytes(low(&bytes))
    }

    /// Decimals rarely leave 64 bits, and comparing those costs a quarter.
    fn range(values: &[Self], valid: Option<&[u64]>) -> Option<(Self, Self)> {
        if vectorized(|| is_wide(values)) {
            return match valid {
                None => range_all(values),
                Some(mask) => range_masked(values, mask),
            };
        }
        let (min, max) = match valid {
            None => vectorized(|| range_iter(values.iter().map(|&v| low64(v).cast_signed())))?,
            Some(mask) => {
                vectorized(|| range_iter_masked(values, mask, |v| low64(v).cast_signed()))?
            }
        };
        Some((i128::from(min), i128::from(max)))
    }
}

/// Whether some value does not fit 64 bits.
#[inline(always)]
fn is_wide(values: &[i128]) -> bool {
    values.iter().fold(0, |acc, &v| acc | (high64(v) ^ (low64(v).cast_signed() >> 63))) != 0
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
pub(crate) fn low64(v: i128) -> u64 {
    v.cast_unsigned() as u64
}

#[inline(always)]
pub(crate) fn high64(v: i128) -> i64 {
    (v >> 64) as i64
}

impl Word for i256 {
    const BYTES: usize = 32;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "subtraction is modulo 2^64")]
    fn delta64(self, min: Self) -> u64 {
        self.delta128(min) as u64
    }

    #[inline(always)]
    fn delta128(self, min: Self) -> u128 {
        self.wrapping_sub(min).to_parts().0
    }

    fn delta_bytes(self, min: Self) -> [u8; 32] {
        self.wrapping_sub(min).to_le_bytes()
    }

    #[inline(always)]
    fn add64(self, delta: u64) -> Self {
        self.add128(u128::from(delta))
    }

    #[inline(always)]
    fn add128(self, delta: u128) -> Self {
        self.wrapping_add(i256::from_parts(delta, 0))
    }

    fn add_bytes(self, delta: [u8; 32]) -> Self {
        self.wrapping_add(i256::from_le_bytes(delta))
    }

    fn narrow(self) -> Option<i64> {
        self.to_i128().and_then(|value| i64::try_from(value).ok())
    }

    fn extended(self) -> [u8; 32] {
        self.to_le_bytes()
    }

    fn truncated(bytes: [u8; 32]) -> Self {
        i256::from_le_bytes(bytes)
    }
}

/// The first `W` of the bytes.
#[inline(always)]
pub(crate) fn head<const N: usize, const W: usize>(bytes: [u8; N]) -> [u8; W] {
    const { assert!(W <= N) };
    let mut out = [0; W];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = from;
    }
    out
}

/// The first `N` of the 32 bytes.
fn low<const N: usize>(bytes: &[u8; 32]) -> [u8; N] {
    const { assert!(N <= 32) };
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}

/// `bytes`, sign-extended.
pub(crate) fn extend(bytes: &[u8]) -> [u8; 32] {
    let sign = if bytes.last().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 };
    let mut out = [sign; 32];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}

#[inline(always)]
fn range_all<T: Word>(values: &[T]) -> Option<(T, T)> {
    range_iter(values.iter().copied())
}

#[inline(always)]
fn range_iter<T: Copy + Ord>(values: impl Iterator<Item = T> + Clone) -> Option<(T, T)> {
    let first = values.clone().next()?;
    Some(values.fold((first, first), |(min, max), v| (min.min(v), max.max(v))))
}

#[inline(always)]
fn range_masked<T: Word>(values: &[T], mask: &[u64]) -> Option<(T, T)> {
    range_iter_masked(values, mask, |v| v)
}

#[inline(always)]
fn range_iter_masked<T: Word, U: Copy + Ord>(
    values: &[T],
    mask: &[u64],
    map: impl Fn(T) -> U,
) -> Option<(U, U)> {
    let (lane, bits) = mask.iter().enumerate().find(|(_, bits)| **bits != 0)?;
    let at = lane * LANE + usize::try_from(bits.trailing_zeros()).ok()?;
    let first = map(*values.get(at)?);
    let (mut min, mut max) = (first, first);
    for (chunk, &bits) in values.chunks(LANE).zip(mask) {
        if bits == u64::MAX {
            for &v in chunk {
                min = min.min(map(v));
                max = max.max(map(v));
            }
        } else {
            for (i, &v) in chunk.iter().enumerate() {
                let v = if (bits >> i) & 1 == 1 { map(v) } else { first };
                min = min.min(v);
                max = max.max(v);
            }
        }
    }
    Some((min, max))
}

/// The code of the narrowest width that holds `max - min`.
pub(crate) fn width_code<T: Word>(min: T, max: T) -> u8 {
    if min == max {
        return 0;
    }
    if T::BYTES <= 8 {
        return code_of(max.delta64(min).leading_zeros().abs_diff(64).div_ceil(8));
    }
    let delta = max.delta_bytes(min);
    let needed = 32 - delta.iter().rev().take_while(|b| **b == 0).count();
    let code = WIDTHS.iter().take_while(|width| **width < needed).count();
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The code of the shortest stored form of `min`, and its bytes.
pub(crate) fn min_code<T: Word>(min: T) -> (u8, [u8; 32]) {
    let Some(narrow) = min.narrow() else {
        let bytes = min.extended();
        let fits = |len: usize| bytes.get(..len).is_some_and(|head| extend(head) == bytes);
        let code = MIN_LENS.iter().take_while(|len| !fits(**len)).count();
        return (code_of(u32::try_from(code).unwrap_or(u32::MAX)), bytes);
    };
    let mut bytes = [0; 32];
    if let Some(low) = bytes.first_chunk_mut() {
        *low = narrow.to_le_bytes();
    }
    // Bits that are not just copies of the sign, which takes one.
    let bits = 65 - (narrow ^ (narrow >> 63)).leading_zeros();
    let code = match (narrow, bits) {
        (0, _) => 0,
        (_, ..=8) => 1,
        (_, ..=16) => 2,
        (_, ..=32) => 3,
        _ => 4,
    };
    (code, bytes)
}

fn code_of(bytes: u32) -> u8 {
    u8::try_from(bytes).unwrap_or(u8::MAX)
}
