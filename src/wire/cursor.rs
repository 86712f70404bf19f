//! A reader over a slice that knows its place in the file.

use super::decode_vlong;
use crate::error::{Fault, IFileError, Place, Result};

/// Reads fields from the front of a slice.
///
/// Every method fails with a typed error instead of reading past the end, and leaves the cursor where
/// it was.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    place: Place,
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes`, whose first byte lies at `place`.
    pub fn new(bytes: &'a [u8], place: Place) -> Self {
        Self { rest: bytes, place }
    }

    /// Bytes that are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// What is left, without taking it.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Place of the next byte.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// An error for `fault` at the next byte.
    pub fn error(&self, fault: Fault) -> IFileError {
        IFileError::corrupt(fault, self.place.clone())
    }

    /// Takes `len` bytes. `what` names them in the error.
    #[inline]
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((head, tail)) => {
                self.advance(tail, len);
                Ok(head)
            }
            None => Err(self.short(len, what)),
        }
    }

    /// Takes `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.advance(tail, N);
                Ok(*head)
            }
            None => Err(self.short(N, what)),
        }
    }

    /// Takes one byte.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// Takes a big-endian `i32`.
    #[inline]
    pub fn i32_be(&mut self, what: &'static str) -> Result<i32> {
        self.array(what).map(i32::from_be_bytes)
    }

    /// Takes a big-endian `u32`.
    #[inline]
    pub fn u32_be(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// Takes a big-endian `i64`.
    #[inline]
    pub fn i64_be(&mut self, what: &'static str) -> Result<i64> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// Takes a little-endian `u16`.
    #[inline]
    pub fn u16_le(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Takes a little-endian `u32`.
    #[inline]
    pub fn u32_le(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Takes a little-endian `u64`.
    #[inline]
    pub fn u64_le(&mut self, what: &'static str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Takes a variable-length integer of 64 bits.
    #[inline]
    pub fn vlong(&mut self, what: &'static str) -> Result<i64> {
        match decode_vlong(self.rest) {
            Some((value, len)) => {
                self.advance(self.rest.get(len..).unwrap_or_default(), len);
                Ok(value)
            }
            None => Err(self.short(self.rest.len() + 1, what)),
        }
    }

    /// Takes a variable-length integer that must fit 32 bits.
    #[inline]
    pub fn vint(&mut self, what: &'static str) -> Result<i32> {
        let Some((value, len)) = decode_vlong(self.rest) else {
            return Err(self.short(self.rest.len() + 1, what));
        };
        let Ok(value) = i32::try_from(value) else {
            return Err(self.error(Fault::VintRange { found: value }));
        };
        self.advance(self.rest.get(len..).unwrap_or_default(), len);
        Ok(value)
    }

    #[inline]
    fn advance(&mut self, tail: &'a [u8], len: usize) {
        self.rest = tail;
        self.place.offset = self.place.offset.saturating_add(to_u64(len));
    }

    #[cold]
    fn short(&self, len: usize, what: &'static str) -> IFileError {
        self.error(Fault::UnexpectedEnd {
            what,
            expected: to_u64(len),
            found: to_u64(self.rest.len()),
        })
    }
}

/// `usize` as `u64`; saturates on a machine whose `usize` is wider, where no slice is that long.
fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_in_order_and_the_place_moves_along() {
        let bytes = [1, 0, 0, 0, 2, 3, 0, 0x8f, 0x80, 9];
        let mut cursor = Cursor::new(&bytes, Place::at(100));
        assert_eq!(cursor.u8("tag").unwrap(), 1);
        assert_eq!(cursor.i32_be("length").unwrap(), 2);
        assert_eq!(cursor.u16_le("width").unwrap(), 3);
        assert_eq!(cursor.vint("count").unwrap(), 128);
        assert_eq!(cursor.place().offset, 109);
        assert_eq!(cursor.rest(), [9]);
    }

    #[test]
    fn a_short_slice_says_what_was_wanted_and_where() {
        let mut cursor = Cursor::new(&[1, 2, 3], Place::at(7));
        let error = cursor.i64_be("start offset").unwrap_err();
        assert_eq!(
            error.fault(),
            Some(&Fault::UnexpectedEnd { what: "start offset", expected: 8, found: 3 })
        );
        assert_eq!(error.place(), Some(&Place::at(7)));
        assert_eq!(cursor.remaining(), 3);
    }

    #[test]
    fn v3_an_int_beyond_32_bits_is_refused_in_place() {
        let bytes = [0x8b, 2, 0, 0, 0, 0];
        let mut cursor = Cursor::new(&bytes, Place::at(0));
        let error = cursor.vint("key length").unwrap_err();
        assert_eq!(error.fault(), Some(&Fault::VintRange { found: 1 << 33 }));
        assert_eq!(cursor.remaining(), bytes.len());
    }
}
