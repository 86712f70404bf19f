//! Rows that lie in several places, and what columns need of them: values and validity in one piece.

use std::borrow::Cow;
use std::ops::Range;

use arrow::array::Array;
use arrow::buffer::BooleanBuffer;

use super::{BlockError, BlockResult};
use crate::block::bits;

/// Some rows of an array.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    pub(super) array: &'a dyn Array,
    pub(super) rows: Range<usize>,
}

impl<'a> Part<'a> {
    pub(super) fn new(array: &'a dyn Array, rows: Range<usize>) -> Self {
        Self { array, rows }
    }
}

/// Rows of all parts.
pub(super) fn row_count(parts: &[Part<'_>]) -> usize {
    parts.iter().map(|part| part.rows.len()).sum()
}

/// `values` of `rows`.
pub(super) fn within<'a, T>(values: &'a [T], rows: &Range<usize>) -> BlockResult<&'a [T]> {
    values.get(rows.clone()).ok_or(BlockError::Invalid("rows beyond the array"))
}

/// The values of all parts; copied only where there is more than one part.
pub(super) fn values<'a, T: Copy>(
    parts: &[Part<'a>],
    of: impl Fn(&'a dyn Array) -> &'a [T],
) -> BlockResult<Cow<'a, [T]>> {
    if let [part] = parts {
        return within(of(part.array), &part.rows).map(Cow::Borrowed);
    }
    let mut all = Vec::with_capacity(row_count(parts));
    for part in parts {
        all.extend_from_slice(within(of(part.array), &part.rows)?);
    }
    Ok(Cow::Owned(all))
}

/// Loads the bits of all parts and counts the ones.
pub(super) fn load_bits<'a>(
    parts: &[Part<'a>],
    of: impl Fn(&'a dyn Array) -> Option<&'a BooleanBuffer>,
    out: &mut Vec<u64>,
) -> usize {
    if let [part] = parts
        && let Some(buffer) = of(part.array)
    {
        return bits::load(buffer, part.rows.start, part.rows.len(), out);
    }
    let mut filled = 0;
    out.clear();
    for part in parts {
        let len = part.rows.len();
        match of(part.array) {
            Some(buffer) => bits::push_range(out, filled, buffer, part.rows.start, len),
            None => bits::push_ones(out, filled, len),
        }
        filled += len;
    }
    bits::count_ones(out)
}

/// Adds `rows` of `array`; a range that goes on where the last one ends becomes one with it.
pub(super) fn push_merged<'a>(parts: &mut Vec<Part<'a>>, array: &'a dyn Array, rows: Range<usize>) {
    if rows.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(last) if last.rows.end == rows.start && std::ptr::addr_eq(last.array, array) => {
            last.rows.end = rows.end;
        }
        _ => parts.push(Part::new(array, rows)),
    }
}
