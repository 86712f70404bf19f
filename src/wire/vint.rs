//! Hadoop's variable-length integers.

/// The most bytes a value of 32 bits takes.
pub const MAX_VINT_BYTES: usize = 5;

/// The most bytes a value of 64 bits takes.
pub const MAX_VLONG_BYTES: usize = 9;

const _: () = assert!(MAX_VINT_BYTES == 1 + size_of::<i32>());
const _: () = assert!(MAX_VLONG_BYTES == 1 + size_of::<i64>());

/// Splits `value` into whether it takes a single byte, its sign's prefix base and its magnitude.
fn magnitude(value: i64) -> (u8, u64) {
    if value < 0 { (0x88, (!value).cast_unsigned()) } else { (0x90, value.cast_unsigned()) }
}

fn magnitude_len(magnitude: u64) -> u8 {
    [0xff, 0xffff, 0xff_ffff, 0xffff_ffff, 0xff_ffff_ffff, 0xffff_ffff_ffff, 0xff_ffff_ffff_ffff]
        .iter()
        .fold(1, |len, &limit| len + u8::from(magnitude > limit))
}

/// Bytes that `value` takes.
#[inline]
pub fn vlong_len(value: i64) -> usize {
    if (-112..=127).contains(&value) {
        return 1;
    }
    1 + usize::from(magnitude_len(magnitude(value).1))
}

/// The encoding of `value`, as an array and the number of its bytes that count.
#[inline]
pub fn vlong_bytes(value: i64) -> ([u8; MAX_VLONG_BYTES], usize) {
    let mut bytes = [0; MAX_VLONG_BYTES];
    let [first, rest @ ..] = &mut bytes;
    if (-112..=127).contains(&value) {
        let [.., low] = value.to_be_bytes();
        *first = low;
        return (bytes, 1);
    }
    let (base, magnitude) = magnitude(value);
    let len = magnitude_len(magnitude);
    *first = base - len;
    // The magnitude's leading zero bytes are shifted out, so that its first byte comes first.
    *rest = (magnitude << (64 - 8 * u32::from(len))).to_be_bytes();
    (bytes, 1 + usize::from(len))
}

/// Appends the encoding of `value`.
#[inline]
pub fn put_vlong(dst: &mut Vec<u8>, value: i64) {
    if let Ok(byte) = i8::try_from(value)
        && byte >= -112
    {
        dst.push(byte.cast_unsigned());
        return;
    }
    let (bytes, len) = vlong_bytes(value);
    dst.extend(bytes.into_iter().take(len));
}

/// Decodes the value at the start of `bytes` and the number of bytes it took, or `None` if `bytes`
/// ends inside it.
#[inline]
pub fn decode_vlong(bytes: &[u8]) -> Option<(i64, usize)> {
    let (&first, rest) = bytes.split_first()?;
    let byte = first.cast_signed();
    if byte >= -112 {
        return Some((i64::from(byte), 1));
    }
    let (negative, len) = if first >= 0x88 { (false, 0x90 - first) } else { (true, 0x88 - first) };
    let len = usize::from(len);
    let magnitude = rest.get(..len)?.iter().fold(0_u64, |sum, &b| sum << 8 | u64::from(b));
    let value = magnitude.cast_signed();
    Some((if negative { !value } else { value }, 1 + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_known_encodings_round_trip() {
        let vectors: [(i64, &[u8]); 12] = [
            (0, &[0]),
            (-1, &[0xff]),
            (-112, &[0x90]),
            (-113, &[0x87, 0x70]),
            (127, &[0x7f]),
            (128, &[0x8f, 0x80]),
            (-256, &[0x87, 0xff]),
            (-257, &[0x86, 1, 0]),
            (65_536, &[0x8d, 1, 0, 0]),
            (i64::from(i32::MAX), &[0x8c, 0x7f, 0xff, 0xff, 0xff]),
            (i64::MAX, &[0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (i64::MIN, &[0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ];
        for (value, bytes) in vectors {
            let mut out = vec![];
            put_vlong(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(vlong_len(value), bytes.len(), "{value}");
            assert_eq!(decode_vlong(bytes), Some((value, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(decode_vlong(&bytes[..cut]), None, "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn v1_every_width_round_trips() {
        for shift in 0..63 {
            for near in [-2_i64, -1, 0, 1, 2] {
                for value in [(1_i64 << shift) + near, -(1_i64 << shift) + near] {
                    let (bytes, len) = vlong_bytes(value);
                    assert_eq!(decode_vlong(&bytes[..len]), Some((value, len)));
                    assert_eq!(vlong_len(value), len);
                }
            }
        }
    }

    #[test]
    fn v2_longer_forms_are_accepted() {
        assert_eq!(decode_vlong(&[0x8e, 0, 5]), Some((5, 3)));
        assert_eq!(decode_vlong(&[0x86, 0, 0]), Some((-1, 3)));
    }
}
