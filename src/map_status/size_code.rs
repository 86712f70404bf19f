//! Sizes as one byte.

use crate::codec::to_u64;

/// Bins per power of two: a bin spans less than 10 %, so it holds one threshold at most.
const BINS: usize = 16;

/// Bins of 0, and of each power of two.
const ALL_BINS: usize = 65 * BINS;

/// Bits of an `f64` above those of its bin: exponent and 4 bits of the mantissa stay.
const BIN_SHIFT: u32 = 48;

/// What the bin of 1 has there, less a power of two.
const BIN_BIAS: u64 = 1022 << 4;

/// For values below 2^36.
#[allow(clippy::cast_possible_truncation, reason = "callers have smaller values")]
const fn low_u64(value: u128) -> u64 {
    value as u64
}

/// The largest size of each code: `floor(1.1^code)`, in fixed point with 80 fractional bits, whose error after 255
/// steps is far below the distance of any power to the next integer.
pub(super) const LARGEST: [u64; 256] = largest();

/// The same, but the last code has no end.
const THRESHOLD: [u64; 256] = {
    let mut table = LARGEST;
    table[255] = u64::MAX;
    table
};

/// The code of the smallest size of every bin.
const FIRST_CODE: [u8; ALL_BINS] = first_codes();

#[expect(clippy::indexing_slicing, reason = "evaluated when compiled")]
const fn largest() -> [u64; 256] {
    let mut table = [0; 256];
    let mut power: u128 = 1 << 80;
    let mut code = 1;
    table[1] = 1;
    power = power * 11 / 10;
    while code < 255 {
        code += 1;
        power = power * 11 / 10;
        table[code] = low_u64(power >> 80);
    }
    table
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "evaluated when compiled: codes are below 256"
)]
const fn slow_code(size: u64) -> u8 {
    if size < 2 {
        return size as u8;
    }
    let mut code = 1;
    while code < 255 && LARGEST[code] < size {
        code += 1;
    }
    code as u8
}

#[expect(clippy::indexing_slicing, reason = "evaluated when compiled")]
const fn first_codes() -> [u8; ALL_BINS] {
    let mut table = [0; ALL_BINS];
    let mut bin = BINS;
    while bin < ALL_BINS {
        let (exponent, mantissa) = (bin / BINS - 1, bin % BINS);
        let smallest = (((BINS + mantissa) as u128) << exponent) >> 4;
        // Past the last code all bins are alike; the walk over the codes is spared.
        table[bin] = if exponent > 36 { 255 } else { slow_code(low_u64(smallest)) };
        bin += 1;
    }
    table
}

/// The code of `size`.
#[inline]
#[must_use]
#[expect(clippy::indexing_slicing, reason = "the bin is capped, and a code is below 256")]
pub fn encode_size(size: u64) -> u8 {
    // Rounding to an `f64` changes sizes from 2^53 only, whose code is 255 in any bin; from 2^63 they are negative.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let bits = (size.cast_signed() as f64).to_bits();
    let bin = usize::try_from((bits >> BIN_SHIFT).saturating_sub(BIN_BIAS)).unwrap_or(ALL_BINS);
    let code = FIRST_CODE[bin.min(ALL_BINS - 1)];
    code.wrapping_add(u8::from(THRESHOLD[usize::from(code)] < size))
}

/// The largest size that has `code`. Sizes of code 255 may be larger.
#[inline]
#[must_use]
#[expect(clippy::indexing_slicing, reason = "there is an entry for every byte")]
pub fn decode_size(code: u8) -> u64 {
    LARGEST[usize::from(code)]
}

/// Whether a code says all about the size but for its 10 %.
pub(super) fn is_bounded(size: u64) -> bool {
    encode_size(size) < u8::MAX
}

/// Sum of what `codes` stand for.
pub(super) fn decode_sum(codes: &[u8]) -> u64 {
    let mut counts = [0_usize; 256];
    for &code in codes {
        if let Some(count) = counts.get_mut(usize::from(code)) {
            *count += 1;
        }
    }
    let sum = |sum: u64, (count, size): (&usize, &u64)| {
        sum.saturating_add(to_u64(*count).saturating_mul(*size))
    };
    counts.iter().zip(&LARGEST).fold(0, sum)
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the values are small")]
mod tests {
    use super::*;

    /// `floor(11^code / 10^code)` by decimal digits: exact.
    fn exact_power(code: u32) -> u64 {
        let mut digits = vec![1_u32];
        for _ in 0..code {
            let mut carry = 0;
            for digit in &mut digits {
                carry += *digit * 11;
                *digit = carry % 10;
                carry /= 10;
            }
            while carry > 0 {
                digits.push(carry % 10);
                carry /= 10;
            }
        }
        digits.iter().skip(code as usize).rev().fold(0, |sum, d| sum * 10 + u64::from(*d))
    }

    #[test]
    fn m1_thresholds_are_the_exact_powers() {
        assert_eq!((LARGEST[0], LARGEST[1]), (0, 1));
        for code in 2..256 {
            assert_eq!(LARGEST[code as usize], exact_power(code), "code {code}");
        }
        assert_eq!(LARGEST[255] >> 30, 33);
    }

    #[test]
    fn m1_codes_agree_with_the_walk_over_the_thresholds() {
        let near =
            |size: u64| (size.saturating_sub(2)..=size.saturating_add(2)).collect::<Vec<_>>();
        let mut sizes: Vec<u64> = (0..5000).collect();
        sizes.extend(LARGEST.iter().flat_map(|&size| near(size)));
        sizes.extend((0..64).flat_map(|shift| near(1 << shift)));
        sizes.push(u64::MAX);
        for size in sizes {
            let slow = match size {
                0 => 0,
                1 => 1,
                _ => (2..255).find(|&code| LARGEST[code] >= size).unwrap_or(255) as u8,
            };
            assert_eq!(encode_size(size), slow, "size {size}");
            if slow < 255 {
                let decoded = decode_size(slow);
                assert!(decoded >= size && (decoded - size) as f64 <= 0.1 * size as f64);
            }
        }
    }

    #[test]
    fn the_sum_of_codes_is_that_of_their_sizes() {
        assert_eq!(decode_sum(&[0, 1, 1, 255]), 2 + LARGEST[255]);
    }
}
