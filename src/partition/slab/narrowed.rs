//! A column of a batch, narrowed while the batch is in cache and before any lock is taken.

use arrow::buffer::NullBuffer;
use arrow::datatypes::ArrowNativeType;

use super::frame::{Frame, Nulls, Seen, least_width, span};
use super::native::{Int, Native, Stored, cut, for_native};
use crate::block::{Word, high64, low64, vectorized};
use crate::partition::source::SourceColumn;

/// Offsets of the rows of a batch from their smallest value; the greatest that there is stands for no
/// value.
#[derive(Debug, Default)]
pub(super) enum Offsets {
    D8(Vec<u8>),
    D16(Vec<u16>),
    D32(Vec<u32>),
    D64(Vec<u64>),
    /// None: the values of the batch need all their bytes.
    #[default]
    Whole,
}

/// A column of a batch.
#[derive(Debug, Default)]
pub(super) struct Narrowed {
    pub(super) seen: Seen,
    pub(super) base: i128,
    pub(super) offsets: Offsets,
    /// Where there are no offsets: 0 for each row without a value, or nothing where all have one.
    pub(super) flags: Vec<u8>,
}

impl Narrowed {
    /// The first `rows` rows of `source`, in `frame` if that holds them: then they are copied as they are.
    /// Decimals pass through `lows`.
    pub(super) fn new(
        native: Native,
        source: &SourceColumn,
        rows: usize,
        frame: Frame,
        lows: &mut Vec<i64>,
    ) -> Self {
        let nulls = source.data.nulls().filter(|nulls| nulls.null_count() > 0);
        if native == Native::I128 {
            let values = bits::<i128>(source);
            if take_lows(values.get(..rows).unwrap_or(values), lows) {
                let range = put_first(lows, nulls).then(|| i64::range(lows, None)).flatten();
                let range = range.map(|(min, max)| (i128::from(min), i128::from(max)));
                return Self::in_range(native, lows, range, nulls, frame);
            }
        }
        for_native!(native, T => {
            let values = bits::<T>(source);
            Self::of(native, values.get(..rows).unwrap_or(values), nulls, frame)
        })
    }

    fn of<T: Int>(native: Native, values: &[T], nulls: Option<&NullBuffer>, frame: Frame) -> Self {
        let range = if native.is_float() { None } else { range_of(values, nulls) };
        Self::in_range(native, values, range, nulls, frame)
    }

    fn in_range<T: Int>(
        native: Native,
        values: &[T],
        range: Option<(i128, i128)>,
        nulls: Option<&NullBuffer>,
        frame: Frame,
    ) -> Self {
        let seen = Seen { range, nulls: nulls.is_some() };
        let fits = |(min, max)| frame.nulls == Nulls::Greatest && frame.holds(min, max);
        let (base, width) = match range {
            _ if native.is_float() => (0, None),
            Some(range) if fits(range) => (frame.base, Some(frame.width)),
            Some((min, max)) => (min, least_width(span(min, max))),
            None => (0, Some(1)),
        };
        let offsets = match width.filter(|width| *width < native.bytes()) {
            Some(1) => Offsets::D8(narrow(values, base, nulls)),
            Some(2) => Offsets::D16(narrow(values, base, nulls)),
            Some(4) => Offsets::D32(narrow(values, base, nulls)),
            Some(8) => Offsets::D64(narrow(values, base, nulls)),
            _ => Offsets::Whole,
        };
        let flags = match (&offsets, nulls) {
            (Offsets::Whole, Some(nulls)) => nulls.iter().map(u8::from).collect(),
            _ => Vec::new(),
        };
        Self { seen, base, offsets, flags }
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.flags.len()
            + match &self.offsets {
                Offsets::D8(offsets) => offsets.len(),
                Offsets::D16(offsets) => 2 * offsets.len(),
                Offsets::D32(offsets) => 4 * offsets.len(),
                Offsets::D64(offsets) => 8 * offsets.len(),
                Offsets::Whole => 0,
            }
    }

    /// Numbers from 0 of the first rows of a batch of `rows`, the greatest of them `last`.
    pub(super) fn numbers(
        mut ids: Vec<u16>,
        last: Option<usize>,
        rows: usize,
        nulls: Option<&NullBuffer>,
    ) -> Self {
        ids.resize(rows, 0);
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let range = last.and_then(|last| Some((0, i128::try_from(last).ok()?)));
        let offsets = match range.and_then(|(min, max)| least_width(span(min, max))) {
            None | Some(1) => Offsets::D8(narrow(&ids, 0, nulls)),
            Some(_) => {
                mark(&mut ids, nulls);
                Offsets::D16(ids)
            }
        };
        let seen = Seen { range, nulls: nulls.is_some() };
        Self { seen, base: 0, offsets, flags: Vec::new() }
    }
}

/// Values of a column, floats by their bits.
pub(super) fn bits<T: ArrowNativeType>(source: &SourceColumn) -> &[T] {
    source.data.buffers().first().map_or(&[], |buffer| {
        let values = buffer.typed_data::<T>();
        values.get(source.data.offset()..).unwrap_or(&[])
    })
}

/// Puts the low halves of `values` into `lows`; says whether those are all of them.
fn take_lows(values: &[i128], lows: &mut Vec<i64>) -> bool {
    lows.resize(values.len(), 0);
    let mut beyond = 0;
    vectorized(|| {
        for (to, &value) in lows.iter_mut().zip(values) {
            let low = low64(value).cast_signed();
            beyond |= high64(value) ^ (low >> 63);
            *to = low;
        }
    });
    beyond == 0
}

/// Puts the first value into all rows without one, so that their range is that of the values; says
/// whether there is any.
fn put_first(values: &mut [i64], nulls: Option<&NullBuffer>) -> bool {
    let Some(nulls) = nulls else { return true };
    let first = nulls.inner().set_indices().next().and_then(|row| values.get(row)).copied();
    first.inspect(|first| put(values, nulls, *first)).is_some()
}

/// Smallest and largest value.
fn range_of<T: Int>(values: &[T], nulls: Option<&NullBuffer>) -> Option<(i128, i128)> {
    let mask = nulls.map(|nulls| nulls.inner().bit_chunks().iter_padded().collect::<Vec<_>>());
    let (min, max) = T::range(values, mask.as_deref())?;
    Some((min.to_i128(), max.to_i128()))
}

fn narrow<T: Int, N: Stored>(values: &[T], base: i128, nulls: Option<&NullBuffer>) -> Vec<N> {
    let base = T::from_low_bits(base);
    let mut offsets = Vec::with_capacity(values.len());
    vectorized(|| offsets.extend(values.iter().map(|value| cut::<N>(value.delta64(base)))));
    mark(&mut offsets, nulls);
    offsets
}

/// Rows without a value get the greatest offset.
fn mark<N: Stored>(offsets: &mut [N], nulls: Option<&NullBuffer>) {
    nulls.into_iter().for_each(|nulls| put(offsets, nulls, N::NONE));
}

/// Puts `filler` into the rows without a value.
fn put<N: Copy>(rows: &mut [N], nulls: &NullBuffer, filler: N) {
    let valid = nulls.inner().bit_chunks();
    for (rows, valid) in rows.chunks_mut(64).zip(valid.iter_padded()) {
        let mut missing = !valid;
        while missing != 0 {
            let at = missing.trailing_zeros() as usize;
            let Some(row) = rows.get_mut(at) else { break };
            *row = filler;
            missing &= missing - 1;
        }
    }
}
