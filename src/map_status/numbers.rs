//! Numbers and strings in bytes, shared by statuses and tables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Result};
use crate::wire::{Cursor, put_vlong};

/// Most digits of the number in a string: all of them fit 64 bits.
const MAX_DIGITS: usize = 18;

/// Most bytes of the strings of a column: heads and tails are stored once for all strings that have them.
const MOST_TEXT_BYTES: usize = 1 << 30;

pub(super) fn put_vint(dst: &mut Vec<u8>, value: u64) {
    put_vlong(dst, value.cast_signed());
}

pub(super) fn put_string(dst: &mut Vec<u8>, text: &str) {
    put_vint(dst, to_u64(text.len()));
    dst.extend_from_slice(text.as_bytes());
}

pub(super) fn take_vint(cursor: &mut Cursor<'_>, what: &'static str) -> Result<u64> {
    cursor.vlong(what).map(i64::cast_unsigned)
}

/// A vint that fits another integer.
pub(super) fn take_int<T: TryFrom<u64>>(cursor: &mut Cursor<'_>, what: &'static str) -> Result<T> {
    let place = cursor.place().clone();
    let found = take_vint(cursor, what)?;
    T::try_from(found).map_err(|_| {
        let expected = (1_u64 << (8 * size_of::<T>()).min(63)) - 1;
        IFileError::corrupt(Fault::Invalid { what, expected, found }, place)
    })
}

pub(super) fn take_string(cursor: &mut Cursor<'_>, what: &'static str) -> Result<Arc<str>> {
    let len: usize = take_int(cursor, what)?;
    let place = cursor.place().clone();
    let bytes = cursor.take(len, what)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(error) => {
            let valid = to_u64(error.valid_up_to());
            let fault = Fault::Invalid { what: "UTF-8", expected: to_u64(len), found: valid };
            Err(IFileError::corrupt(fault, place))
        }
    }
}

/// Refuses bytes that follow.
pub(super) fn take_end(cursor: &Cursor<'_>, after: &'static str) -> Result<()> {
    match cursor.remaining() {
        0 => Ok(()),
        left => Err(cursor.error(Fault::TrailingBytes { after, found: to_u64(left) })),
    }
}

/// Appends a number column: minimum and byte planes.
pub(super) fn put_numbers(dst: &mut Vec<u8>, values: &[u64]) {
    let bounds = |(least, most): (u64, u64), &value: &u64| (least.min(value), most.max(value));
    let first = values.first().copied().unwrap_or(0);
    let (least, most) = values.iter().fold((first, first), bounds);
    let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8);
    dst.push(u8::try_from(width).unwrap_or(8));
    dst.extend_from_slice(&least.to_le_bytes());
    for plane in 0..width {
        let shift = 8 * plane;
        dst.extend(values.iter().map(|&value| low_byte((value - least) >> shift)));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is wanted")]
fn low_byte(value: u64) -> u8 {
    value as u8
}

/// A number column in its bytes: one of values that are all alike has none, and takes no memory either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers<'a> {
    least: u64,
    len: usize,
    /// One after another, `len` bytes each.
    planes: &'a [u8],
}

impl<'a> Numbers<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = u64> + 'a {
        (0..self.len).map(move |at| {
            let planes = self.planes.get(at..).unwrap_or_default().iter().step_by(self.len);
            let bits = (0_u32..).step_by(8).zip(planes);
            let offset = bits.fold(0, |offset, (shift, &byte)| offset | u64::from(byte) << shift);
            self.least.wrapping_add(offset)
        })
    }
}

/// Takes a number column of `len` values.
pub(super) fn take_numbers<'a>(
    cursor: &mut Cursor<'a>,
    len: usize,
    what: &'static str,
) -> Result<Numbers<'a>> {
    let width = cursor.u8(what)?;
    if width > 8 {
        return Err(cursor.error(Fault::Invalid { what, expected: 8, found: u64::from(width) }));
    }
    let least = cursor.u64_le(what)?;
    let planes = cursor.take(len.saturating_mul(usize::from(width)), what)?;
    Ok(Numbers { least, len, planes })
}

/// Cuts a string around its last number without leading zeros.
fn cut(text: &str) -> (&str, Option<u64>, &str) {
    let bytes = text.as_bytes();
    let Some(last) = bytes.iter().rposition(u8::is_ascii_digit) else {
        return (text, None, "");
    };
    let end = last + 1;
    let run = bytes.iter().take(end).rev().take_while(|byte| byte.is_ascii_digit()).count();
    let mut start = end - run.min(MAX_DIGITS);
    let zero = |at: usize| bytes.get(at) == Some(&b'0');
    while start + 1 < end && zero(start) {
        start += 1;
    }
    // Digits are single bytes, so both ends are boundaries.
    let head = text.get(..start).unwrap_or_default();
    let number = text.get(start..end).and_then(|digits| digits.parse().ok());
    (head, number, text.get(end..).unwrap_or_default())
}

/// Buffers of string columns.
#[derive(Debug, Default)]
pub(super) struct StringScratch {
    ids: Vec<u64>,
    numbers: Vec<u64>,
}

/// Whether two short strings are equal, without the call that `==` is.
fn alike(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(a, b)| a == b)
}

/// Appends a string column.
pub(super) fn put_strings<'a>(
    dst: &mut Vec<u8>,
    scratch: &mut StringScratch,
    texts: impl Iterator<Item = &'a str>,
) {
    type Shape<'s> = (&'s str, &'s str, bool);
    let mut known: HashMap<Shape<'_>, u64> = HashMap::new();
    let mut shapes: Vec<Shape<'_>> = Vec::new();
    let StringScratch { ids, numbers } = scratch;
    ids.clear();
    numbers.clear();
    let mut last: Option<(Shape<'_>, u64)> = None;
    for text in texts {
        let (head, number, tail) = cut(text);
        let shape = (head, tail, number.is_some());
        let id = match last {
            Some((same, id)) if same.2 == shape.2 && alike(same.0, head) && alike(same.1, tail) => {
                id
            }
            _ => *known.entry(shape).or_insert_with(|| {
                shapes.push(shape);
                to_u64(shapes.len() - 1)
            }),
        };
        last = Some((shape, id));
        ids.push(id);
        numbers.push(number.unwrap_or(0));
    }
    put_vint(dst, to_u64(shapes.len()));
    for (head, tail, number) in shapes {
        put_string(dst, head);
        put_string(dst, tail);
        dst.push(u8::from(number));
    }
    put_numbers(dst, ids);
    to_deltas(numbers);
    put_numbers(dst, numbers);
}

/// Takes a string column of `len` strings.
pub(super) fn take_strings(
    cursor: &mut Cursor<'_>,
    len: usize,
    what: &'static str,
) -> Result<Vec<Arc<str>>> {
    let count: usize = take_int(cursor, what)?;
    // A shape takes three bytes or more.
    if count > cursor.remaining() / 3 {
        let limit = to_u64(cursor.remaining() / 3);
        return Err(cursor.error(Fault::Invalid { what, expected: limit, found: to_u64(count) }));
    }
    let mut shapes = Vec::with_capacity(count);
    for _ in 0..count {
        let (head, tail) = (take_string(cursor, what)?, take_string(cursor, what)?);
        shapes.push((head, tail, cursor.u8(what)? != 0));
    }
    let place = cursor.place().clone();
    let ids = take_numbers(cursor, len, what)?;
    let numbers = take_numbers(cursor, len, what)?;
    let mut number = 0_u64;
    let mut left = MOST_TEXT_BYTES;
    let mut texts = Vec::with_capacity(len);
    for (id, delta) in ids.iter().zip(numbers.iter()) {
        number = number.wrapping_add(undo_zigzag(delta));
        let shape = usize::try_from(id).ok().and_then(|id| shapes.get(id));
        let Some((head, tail, numbered)) = shape else {
            let fault = Fault::Invalid { what, expected: to_u64(count), found: id };
            return Err(IFileError::corrupt(fault, place));
        };
        if !numbered {
            texts.push(Arc::clone(head));
            continue;
        }
        let bytes = head.len() + tail.len() + MAX_DIGITS + 2;
        let Some(rest) = left.checked_sub(bytes) else {
            let found = to_u64(MOST_TEXT_BYTES - left).saturating_add(to_u64(bytes));
            let fault = Fault::Invalid { what, expected: to_u64(MOST_TEXT_BYTES), found };
            return Err(IFileError::corrupt(fault, place));
        };
        left = rest;
        texts.push(format!("{head}{number}{tail}").into());
    }
    Ok(texts)
}

/// Puts differences from the value before in their place, small in both directions.
pub(super) fn to_deltas(values: &mut [u64]) {
    let mut before = 0_u64;
    for value in values {
        let delta = value.wrapping_sub(before).cast_signed();
        before = *value;
        *value = ((delta << 1) ^ (delta >> 63)).cast_unsigned();
    }
}

pub(super) fn undo_zigzag(delta: u64) -> u64 {
    (delta >> 1) ^ (delta & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;

    #[test]
    fn number_columns_come_back_at_every_width() {
        for width in 0..=8 {
            let most = u64::MAX.checked_shr(64 - 8 * width).unwrap_or(0);
            let values = [7, 7 + most / 2, 7_u64.saturating_add(most), 7];
            let mut bytes = Vec::new();
            put_numbers(&mut bytes, &values);
            let mut cursor = Cursor::new(&bytes, Place::default());
            let numbers = take_numbers(&mut cursor, values.len(), "numbers").unwrap();
            assert!(numbers.iter().eq(values), "width {width}");
            assert_eq!(cursor.remaining(), 0);
        }
    }

    #[test]
    fn m2_strings_that_share_a_long_head_have_a_cap() {
        let strings = |head: usize, count: usize| {
            let mut bytes = Vec::new();
            put_vint(&mut bytes, 1);
            put_string(&mut bytes, &"x".repeat(head));
            put_string(&mut bytes, "");
            bytes.push(1);
            // One shape, and the same number, for all.
            bytes.extend_from_slice(&[0; 18]);
            let mut cursor = Cursor::new(&bytes, Place::default());
            take_strings(&mut cursor, count, "paths")
        };
        assert_eq!(strings(1000, 10).unwrap().len(), 10);
        let error = strings(MOST_TEXT_BYTES / 8, 10).unwrap_err();
        let bytes = to_u64(MOST_TEXT_BYTES / 8 + MAX_DIGITS + 2);
        let (what, expected) = ("paths", to_u64(MOST_TEXT_BYTES));
        let fault = Fault::Invalid { what, expected, found: 8 * bytes };
        assert_eq!(error.fault(), Some(&fault));
    }
}
