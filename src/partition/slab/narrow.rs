//! A narrowed column of a partition on its way out: to a block, or to an Arrow array.

use std::ops::Range;

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::chunk::{Chunk, push_valid};
use super::frame::{Frame, Nulls};
use super::native::{Int, Native, Stored, for_native, for_width, widen};
use crate::block::{BlockEncoder, BlockResult, Interner, Word};
use crate::partition::bits::Bits;

/// Column `column` of the rows in some chunks of one partition.
#[derive(Clone, Copy)]
pub(super) struct Narrow<'a> {
    pub(super) chunks: &'a [Chunk],
    pub(super) column: usize,
    pub(super) native: Native,
    /// Whether rows may have no value.
    pub(super) nulls: bool,
}

/// Offsets and validity of a column in one piece, in memory that columns share.
#[derive(Debug, Default)]
pub(crate) struct SlabScratch {
    d8: Vec<u8>,
    d16: Vec<u16>,
    d32: Vec<u32>,
    d64: Vec<u64>,
    whole: Vec<i128>,
    valid: Bits,
}

impl SlabScratch {
    /// Bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        let Self { d8, d16, d32, d64, whole, valid } = self;
        d8.capacity()
            + 2 * d16.capacity()
            + 4 * d32.capacity()
            + 8 * d64.capacity()
            + 16 * whole.capacity()
            + valid.held_bytes()
    }

    /// What it holds at most for blocks of `rows` rows.
    pub(crate) fn most_bytes(rows: usize) -> usize {
        rows * (1 + 2 + 4 + 8 + 16) + rows.div_ceil(64) * 8
    }
}

/// Offsets that share a scratch.
trait Shared: Stored {
    fn of(scratch: &mut SlabScratch) -> (&mut Vec<Self>, &mut Bits);
}

macro_rules! shared {
    ($($t:ty: $field:ident),*) => {$(
        impl Shared for $t {
            fn of(scratch: &mut SlabScratch) -> (&mut Vec<Self>, &mut Bits) {
                (&mut scratch.$field, &mut scratch.valid)
            }
        }
    )*};
}

shared!(u8: d8, u16: d16, u32: d32, u64: d64, i128: whole);

/// A column in one piece.
struct Gathered<'a, N> {
    offsets: &'a mut [N],
    missing: Option<N>,
    valid: &'a [u64],
}

impl<'a> Narrow<'a> {
    fn pieces(self, rows: Range<usize>) -> impl Iterator<Item = (&'a Chunk, Range<usize>)> {
        let mut first = 0;
        self.chunks.iter().filter_map(move |chunk| {
            let start = rows.start.max(first) - first;
            let end = rows.end.min(first + chunk.rows).saturating_sub(first);
            first += chunk.rows;
            (start < end).then_some((chunk, start..end))
        })
    }

    /// The frame that holds the rows of all chunks that have the column.
    fn frame(self) -> Frame {
        let frame = |chunk: &Chunk| chunk.layout.slot(self.column).frame;
        let mut frames = self.chunks.iter().rev().map(frame);
        frames.find(|frame| frame.width > 0).unwrap_or(Frame::NOTHING)
    }

    /// The offsets of `rows` from the base of [`frame`](Self::frame), what the rows without a value hold
    /// if that is the greatest, and the words of validity; none where all have a value.
    fn gather<N: Shared>(self, rows: Range<usize>, to: &mut SlabScratch) -> Gathered<'_, N> {
        let frame = self.frame();
        let greatest = self.nulls && frame.nulls == Nulls::Greatest;
        let (offsets, valid) = N::of(to);
        valid.clear();
        offsets.resize(rows.len(), N::default());
        let mut left = offsets.as_mut_slice();
        for (chunk, rows) in self.pieces(rows) {
            let (out, rest) = left.split_at_mut(rows.len().min(left.len()));
            left = rest;
            chunk.offsets_to(self.column, rows.start, frame, out);
            if self.nulls && !greatest {
                chunk.validity_into(self.column, rows, valid);
            }
        }
        if greatest {
            push_valid(offsets, valid);
        }
        Gathered { offsets, missing: greatest.then_some(N::NONE), valid: valid.words() }
    }

    /// Appends `rows` to the block that `encoder` has begun.
    pub(super) fn encode(
        self,
        rows: Range<usize>,
        encoder: &mut BlockEncoder,
        scratch: &mut SlabScratch,
    ) -> BlockResult<()> {
        let Frame { base, width, .. } = self.frame();
        let native = self.native;
        for_width!(width, N => {
            let Gathered { offsets, missing, valid } = self.gather::<N>(rows, scratch);
            let lift = |offset: N| match N::BYTES {
                16 => offset.to_i128(),
                _ => native.signed(base.wrapping_add(i128::from(widen(offset)))),
            };
            let slots = (offsets, missing);
            encoder.put_offsets(slots, lift, valid, native.bytes(), native.is_float())
        })
    }

    /// As [`encode`](Self::encode) where the rows are numbers of the values of `interner`, from 0.
    pub(super) fn encode_numbers(
        self,
        rows: Range<usize>,
        data_type: &DataType,
        interner: &Interner,
        encoder: &mut BlockEncoder,
        scratch: &mut SlabScratch,
    ) -> BlockResult<()> {
        for_width!(self.frame().width, N => {
            let Gathered { offsets, valid, .. } = self.gather::<N>(rows, scratch);
            encoder.put_interned(data_type, offsets, interner, valid)
        })
    }

    /// Rows as numbers from 0, and the words of their validity; none where all have a value.
    pub(super) fn numbers(self, rows: Range<usize>) -> (Vec<usize>, Bits) {
        let mut scratch = SlabScratch::default();
        let number = |id| usize::try_from(id).unwrap_or(usize::MAX);
        let numbers = for_width!(self.frame().width, N => {
            let ids = self.gather::<N>(rows, &mut scratch).offsets;
            ids.iter().map(|id| number(widen(*id))).collect()
        });
        (numbers, scratch.valid)
    }
}

/// An array of `data_type` with the rows of all `parts`, `rows` together.
pub(super) fn to_array(
    parts: &[Narrow<'_>],
    data_type: &DataType,
    rows: usize,
) -> Result<ArrayRef> {
    let chunks = || parts.iter().flat_map(|part| part.chunks.iter().map(|c| (c, part.column)));
    let native = parts.first().map_or(Native::U8, |part| part.native);
    let values = for_native!(native, T => {
        let mut values: Vec<T> = Vec::with_capacity(rows);
        chunks().for_each(|(chunk, column)| chunk.values_into(column, &mut values));
        Buffer::from_vec(values)
    });
    let nulls = parts.iter().any(|part| part.nulls).then(|| {
        let mut valid = Bits::default();
        valid.reserve(rows);
        chunks().for_each(|(chunk, column)| chunk.validity_into(column, 0..chunk.rows, &mut valid));
        NullBuffer::new(valid.finish())
    });
    let data = ArrayData::builder(data_type.clone())
        .len(rows)
        .add_buffer(values)
        .nulls(nulls.filter(|nulls| nulls.null_count() > 0))
        .build()?;
    Ok(make_array(data))
}
