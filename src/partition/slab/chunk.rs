//! Rows of one partition in all narrowed columns, in one piece of memory.
//!
//! A partition has a list of chunks. More rows are one more chunk: what is staged is never copied to
//! make room. A chunk keeps the layout it was made with, so wider offsets are for the rows that
//! follow.
//!
//! ```text
//!   chunk, room for 4 rows, 3 there      offsets of 2 bytes      1 byte    floats and their flags
//!                                        [ 17   3  250  -  ]   [ 9 12 8 - ]  [ 1.5 0 2.5 - | 1 0 1 - ]
//! ```

use std::ops::Range;
use std::sync::Arc;

use super::frame::{Frame, Layout, Nulls, Slot};
use super::narrowed::{Narrowed, Offsets, bits};
use super::native::{Int, Native, Stored, for_native, for_width, widen};
use crate::block::{Word, vectorized};
use crate::partition::bits::Bits;
use crate::partition::source::{Rows, SourceColumn};

/// What a chunk takes beside its rows: itself, with room for one more in the list, and what the
/// allocator adds.
const CHUNK_BYTES: usize = 2 * size_of::<Chunk>() + 16;

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) layout: Arc<Layout>,
    pub(super) capacity: usize,
    pub(super) rows: usize,
    bytes: Vec<u8>,
}

impl Chunk {
    pub(super) fn new(layout: &Arc<Layout>, capacity: usize) -> Self {
        let bytes = vec![0; capacity * layout.row_bytes()];
        Self { layout: Arc::clone(layout), capacity, rows: 0, bytes }
    }

    /// Bytes of a chunk.
    pub(super) fn bytes_of(capacity: usize, layout_row_bytes: usize) -> usize {
        capacity * layout_row_bytes + CHUNK_BYTES
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        Self::bytes_of(self.capacity, self.layout.row_bytes())
    }

    /// Whether its rows can move to `layout`: that has all its columns.
    pub(super) fn fits(&self, layout: &Layout) -> bool {
        let width = |layout: &Layout, column| layout.slot(column).frame.width;
        let mut columns = 0..layout.columns();
        columns.all(|column| width(&self.layout, column) == 0 || width(layout, column) > 0)
    }

    /// The same rows in `layout`, which holds them, with room for `capacity` rows in all.
    pub(super) fn to(&self, layout: &Arc<Layout>, capacity: usize) -> Self {
        let mut to = Self::new(layout, capacity);
        to.rows = self.rows;
        for column in 0..layout.columns() {
            let (from_slot, to_slot) = (self.layout.slot(column), layout.slot(column));
            if from_slot.frame.width == 0 || to_slot.frame.width == 0 {
                continue;
            }
            for_width!(from_slot.frame.width, S => for_width!(to_slot.frame.width, N => {
                if S::BYTES <= N::BYTES {
                    self.copy_column::<S, N>(column, to_slot, &mut to);
                }
            }));
        }
        to
    }

    fn copy_column<S: Stored, N: Stored>(&self, column: usize, slot: Slot, to: &mut Self) {
        let frame = self.layout.slot(column).frame;
        let offsets = self.offsets::<S>(column);
        let shift = frame.base.wrapping_sub(slot.frame.base);
        let sentinel = frame.nulls == Nulls::Greatest;
        let keep = sentinel && slot.frame.nulls == Nulls::Greatest;
        let Some((out, flags)) = parts_mut::<N>(&mut to.bytes, to.capacity, slot, 0..self.rows)
        else {
            return;
        };
        for (out, &offset) in out.iter_mut().zip(offsets) {
            let offset = S::read(offset);
            *out = match keep && offset == S::NONE {
                true => N::NONE,
                false => N::shifted(shift, offset),
            }
            .write();
        }
        match frame.nulls {
            Nulls::Greatest => flags.iter_mut().zip(offsets).for_each(|(flag, &offset)| {
                *flag = u8::from(S::read(offset) != S::NONE);
            }),
            Nulls::Flag => {
                flags.iter_mut().zip(self.flags(column)).for_each(|(to, from)| *to = *from);
            }
            Nulls::Never => flags.fill(1),
        }
    }

    /// Offsets of column `column`.
    fn offsets<N: Stored>(&self, column: usize) -> &[N::Bytes] {
        let Slot { frame, before } = self.layout.slot(column);
        let start = self.capacity * before;
        let bytes = self.bytes.get(start..start + self.rows * frame.width).unwrap_or_default();
        N::read_all(bytes)
    }

    fn flags(&self, column: usize) -> &[u8] {
        let Slot { frame, before } = self.layout.slot(column);
        let start = self.capacity * (before + frame.width);
        self.bytes.get(start..start + self.rows).unwrap_or_default()
    }

    /// Appends the values of rows `rows` of column `column`.
    pub(super) fn values_into<T: Int>(&self, column: usize, out: &mut Vec<T>) {
        let frame = self.layout.slot(column).frame;
        let base = T::from_low_bits(frame.base);
        for_width!(frame.width, N => {
            let offsets = self.offsets::<N>(column);
            if N::BYTES == 16 {
                out.extend(offsets.iter().map(|o| T::from_low_bits(N::read(*o).to_i128())));
            } else {
                vectorized(|| {
                    out.extend(offsets.iter().map(|offset| base.add64(widen(N::read(*offset)))));
                });
            }
        });
    }

    /// Writes the offsets of rows from `start` on in column `column`, as those of `frame`, which holds
    /// them; rows without a value are anything where the greatest does not stand for it.
    pub(super) fn offsets_to<N: Stored>(
        &self,
        column: usize,
        start: usize,
        frame: Frame,
        out: &mut [N],
    ) {
        let own = self.layout.slot(column).frame;
        let shift = own.base.wrapping_sub(frame.base);
        let keep = frame.nulls == Nulls::Greatest;
        for_width!(own.width, S => {
            let offsets = self.offsets::<S>(column).get(start..).unwrap_or_default();
            if S::BYTES == N::BYTES && shift == 0 {
                vectorized(|| {
                    for (to, offset) in out.iter_mut().zip(offsets) {
                        *to = N::shifted(0, S::read(*offset));
                    }
                });
            } else if S::BYTES <= N::BYTES {
                for (to, offset) in out.iter_mut().zip(offsets) {
                    let offset = S::read(*offset);
                    *to = match keep && offset == S::NONE {
                        true => N::NONE,
                        false => N::shifted(shift, offset),
                    };
                }
            }
        });
    }

    /// Appends the validity of `rows` in column `column`.
    pub(super) fn validity_into(&self, column: usize, rows: Range<usize>, out: &mut Bits) {
        let frame = self.layout.slot(column).frame;
        match frame.nulls {
            Nulls::Never => out.append_ones(rows.len()),
            Nulls::Flag => {
                let flags = self.flags(column).get(rows).unwrap_or_default();
                push_bits(flags, |flag| *flag != 0, out);
            }
            Nulls::Greatest => for_width!(frame.width, N => {
                let offsets = self.offsets::<N>(column).get(rows).unwrap_or_default();
                push_bits(offsets, |offset| N::read(*offset) != N::NONE, out);
            }),
        }
    }
}

/// Appends a bit for each offset, set where it stands for a value.
pub(super) fn push_valid<N: Stored>(offsets: &[N], out: &mut Bits) {
    push_bits(offsets, |offset| *offset != N::NONE, out);
}

fn push_bits<T>(values: &[T], is_valid: impl Fn(&T) -> bool, out: &mut Bits) {
    let (whole, rest) = values.as_chunks::<64>();
    vectorized(|| {
        for values in whole {
            out.push(bits_of(values, &is_valid), 64);
        }
    });
    if !rest.is_empty() {
        out.push(bits_of(rest, is_valid), rest.len());
    }
}

/// A bit for each of up to 64 values.
#[inline(always)]
fn bits_of<T>(values: &[T], is_valid: impl Fn(&T) -> bool) -> u64 {
    /// Moves the lowest bit of each byte to the highest byte, in order.
    const COLLECT: u64 = 0x0102_0408_1020_4080;
    let mut flags = [0_u8; 64];
    for (flag, value) in flags.iter_mut().zip(values) {
        *flag = u8::from(is_valid(value));
    }
    let eights = flags.as_chunks::<8>().0.iter().rev();
    eights.fold(0, |word, eight| word << 8 | u64::from_le_bytes(*eight).wrapping_mul(COLLECT) >> 56)
}

/// Offsets and flags of `rows` in `slot` of a chunk with room for `capacity` rows.
#[inline(always)]
fn parts_mut<N: Stored>(
    bytes: &mut [u8],
    capacity: usize,
    slot: Slot,
    rows: Range<usize>,
) -> Option<(&mut [N::Bytes], &mut [u8])> {
    let Slot { frame, before } = slot;
    let column = bytes.get_mut(capacity * before..capacity * (before + frame.row_bytes()))?;
    let (offsets, flags) = column.split_at_mut_checked(capacity * frame.width)?;
    let offsets = offsets.get_mut(rows.start * frame.width..rows.end * frame.width)?;
    let flags = if flags.is_empty() { flags } else { flags.get_mut(rows)? };
    Some((N::slots(offsets), flags))
}

/// Rows on their way to a chunk, which lends its memory meanwhile.
pub(super) struct Segment<'a> {
    partition: usize,
    chunk: usize,
    bytes: Vec<u8>,
    capacity: usize,
    start: usize,
    rows: Rows<'a>,
}

impl<'a> Segment<'a> {
    /// `rows` for chunk `chunk` of `partition`, which has room for them. They are its from now on.
    pub(super) fn new(partition: usize, index: usize, chunk: &mut Chunk, rows: Rows<'a>) -> Self {
        let start = chunk.rows;
        chunk.rows += rows.len();
        let bytes = std::mem::take(&mut chunk.bytes);
        Self { partition, chunk: index, bytes, capacity: chunk.capacity, start, rows }
    }

    /// Where the rows belong.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.partition, self.chunk)
    }

    /// Gives the memory back to `chunk`.
    pub(super) fn end(self, chunk: &mut Chunk) {
        chunk.bytes = self.bytes;
    }
}

/// Writes the values of a column of a batch to `slot` of the chunks.
pub(super) fn scatter(
    narrowed: &Narrowed,
    native: Native,
    source: &SourceColumn,
    slot: Slot,
    segments: &mut [Segment<'_>],
) {
    match &narrowed.offsets {
        Offsets::D8(offsets) => scatter_offsets(offsets, narrowed, slot, segments),
        Offsets::D16(offsets) => scatter_offsets(offsets, narrowed, slot, segments),
        Offsets::D32(offsets) => scatter_offsets(offsets, narrowed, slot, segments),
        Offsets::D64(offsets) => scatter_offsets(offsets, narrowed, slot, segments),
        Offsets::Whole => {
            let base = slot.frame.base;
            for_native!(native, T => for_width!(slot.frame.width, N => {
                if N::BYTES == T::BYTES {
                    let base = T::from_low_bits(base);
                    write(bits::<T>(source), slot, segments, |value| N::apart(value, base));
                }
            }));
            if slot.frame.nulls == Nulls::Flag {
                flag(&narrowed.flags, slot, segments, |flag| *flag);
            }
        }
    }
}

fn scatter_offsets<S: Stored>(
    offsets: &[S],
    narrowed: &Narrowed,
    slot: Slot,
    segments: &mut [Segment<'_>],
) {
    let shift = narrowed.base.wrapping_sub(slot.frame.base);
    let keep = narrowed.seen.nulls && slot.frame.nulls == Nulls::Greatest;
    // Rows may have wider offsets than the slot, where slabs hold others by now.
    for_width!(slot.frame.width, N => {
        if S::BYTES == N::BYTES && shift == 0 {
            write(offsets, slot, segments, |offset: S| N::shifted(0, offset));
        } else if keep {
            write(offsets, slot, segments, |offset: S| match offset == S::NONE {
                true => N::NONE,
                false => N::shifted(shift, offset),
            });
        } else {
            write(offsets, slot, segments, |offset: S| N::shifted(shift, offset));
        }
    });
    if slot.frame.nulls == Nulls::Flag {
        let flags = if narrowed.seen.nulls { offsets } else { &[] };
        flag(flags, slot, segments, |offset| u8::from(*offset != S::NONE));
    }
}

#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
fn write<S: Copy, N: Stored>(
    values: &[S],
    slot: Slot,
    segments: &mut [Segment<'_>],
    map: impl Fn(S) -> N,
) {
    for segment in segments {
        let Segment { bytes, capacity, start, rows, .. } = segment;
        let at = *capacity * slot.before + *start * N::BYTES;
        let Some(out) = bytes.get_mut(at..at + rows.len() * N::BYTES) else { continue };
        let out = N::slots(out);
        match *rows {
            Rows::Range { start, len } => {
                for (out, value) in out.iter_mut().zip(&values[start..start + len]) {
                    *out = map(*value).write();
                }
            }
            Rows::Index(rows) => {
                let (fours, rest) = rows.as_chunks::<4>();
                let (out_fours, out) = out.as_chunks_mut::<4>();
                for (out, rows) in out_fours.iter_mut().zip(fours) {
                    *out = rows.map(|row| map(values[row as usize]).write());
                }
                for (out, &row) in out.iter_mut().zip(rest) {
                    *out = map(values[row as usize]).write();
                }
            }
        }
    }
}

/// Writes the flags of the rows, by their place in `values`; all have a value where that is empty.
#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
fn flag<S>(values: &[S], slot: Slot, segments: &mut [Segment<'_>], map: impl Fn(&S) -> u8) {
    for segment in segments {
        let Segment { bytes, capacity, start, rows, .. } = segment;
        let at = *capacity * (slot.before + slot.frame.width) + *start;
        let Some(out) = bytes.get_mut(at..at + rows.len()) else { continue };
        if values.is_empty() {
            out.fill(1);
            continue;
        }
        let mut out = out.iter_mut();
        rows.for_each(|row| out.next().into_iter().for_each(|flag| *flag = map(&values[row])));
    }
}
