//! How the columns of all partitions are held: frames of offsets, and where they lie in a chunk.

use super::native::Native;

/// How the rows without a value are told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// By the greatest offset.
    Greatest,
    /// By a byte of each row, which is 0.
    Flag,
    /// There are none.
    Never,
}

/// What the offsets of a column are relative to, and how wide they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) base: i128,
    /// Bytes of an offset; 16 where values are held whole, 0 where nothing is held.
    pub(super) width: usize,
    pub(super) nulls: Nulls,
}

impl Frame {
    /// That of a column that is not held in chunks.
    pub(super) const NOTHING: Self = Self { base: 0, width: 0, nulls: Nulls::Never };

    /// The frame of least width for `min..=max`, with as much room below as above.
    fn around(native: Native, min: i128, max: i128, nulls: bool) -> Self {
        let needed = span(min, max);
        let Some(width) = least_width(needed).filter(|width| *width < native.bytes()) else {
            return Self::whole(native, nulls);
        };
        let slack = i128::try_from((most_delta(width) - needed) / 2).unwrap_or(0);
        let base = min.saturating_sub(slack).max(native.least());
        Self { base, width, nulls: Nulls::Greatest }
    }

    /// The frame that holds every value of `native`.
    fn whole(native: Native, nulls: bool) -> Self {
        let base = if native.bytes() < 16 { native.least() } else { 0 };
        let nulls = if nulls { Nulls::Flag } else { Nulls::Never };
        Self { base, width: native.bytes(), nulls }
    }

    /// Whether values of `min..=max` have offsets.
    pub(super) fn holds(self, min: i128, max: i128) -> bool {
        match self.nulls {
            Nulls::Greatest => min >= self.base && span(self.base, max) <= most_delta(self.width),
            Nulls::Flag | Nulls::Never => true,
        }
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(self) -> usize {
        self.width + usize::from(self.nulls == Nulls::Flag)
    }
}

pub(super) fn span(min: i128, max: i128) -> u128 {
    max.wrapping_sub(min).cast_unsigned()
}

/// Bytes of offsets up to `needed`, with one more that stands for no value.
pub(super) fn least_width(needed: u128) -> Option<usize> {
    [1, 2, 4, 8].into_iter().find(|width| needed <= most_delta(*width))
}

/// The greatest offset of a value.
fn most_delta(width: usize) -> u128 {
    (u128::MAX >> (128 - 8 * width.clamp(1, 16))) - 1
}

/// What is known of the rows of a batch in one column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Smallest and largest value; none where no row has one, and of floats.
    pub(super) range: Option<(i128, i128)>,
    /// Whether rows have no value.
    pub(super) nulls: bool,
}

impl Seen {
    fn with(self, other: Self) -> Self {
        let range = match (self.range, other.range) {
            (Some((low, high)), Some((min, max))) => Some((low.min(min), high.max(max))),
            (some, none) => some.or(none),
        };
        Self { range, nulls: self.nulls || other.nulls }
    }
}

/// A column of all partitions.
#[derive(Debug)]
pub(super) struct NarrowColumn {
    native: Native,
    frame: Frame,
    /// What came since the column was last empty.
    seen: Seen,
}

impl NarrowColumn {
    pub(super) fn new(native: Native) -> Self {
        Self { native, frame: Self::first_frame(native), seen: Seen::default() }
    }

    fn first_frame(native: Native) -> Frame {
        if native.is_float() || native.bytes() == 1 {
            return Frame::whole(native, false);
        }
        Frame { base: 0, width: 1, nulls: Nulls::Greatest }
    }

    pub(super) fn native(&self) -> Native {
        self.native
    }

    /// Whether rows came without a value.
    pub(super) fn has_nulls(&self) -> bool {
        self.seen.nulls
    }

    /// The frame that holds what is staged and `more`.
    pub(super) fn frame_with(&self, more: Seen) -> Frame {
        let all = self.seen.with(more);
        if self.frame.nulls != Nulls::Greatest {
            return Frame::whole(self.native, all.nulls);
        }
        match (more.range, all.range) {
            (Some((min, max)), Some((low, high))) => {
                match self.seen.range.is_some() && self.frame.holds(min, max) {
                    true => self.frame,
                    false => Frame::around(self.native, low, high, all.nulls),
                }
            }
            _ => self.frame,
        }
    }

    /// From now on the column is held as [`frame_with`](Self::frame_with) said.
    pub(super) fn fit(&mut self, more: Seen) {
        self.frame = self.frame_with(more);
        self.seen = self.seen.with(more);
    }

    /// No partition holds rows any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.native);
    }
}

/// Where the columns of a chunk lie: one after the other, of each first the offsets of all rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    slots: Vec<Slot>,
    row_bytes: usize,
}

/// A column of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) frame: Frame,
    /// Bytes that a row takes in the columns before.
    pub(super) before: usize,
}

impl Layout {
    pub(super) fn new(frames: impl Iterator<Item = Frame>) -> Self {
        let mut row_bytes = 0;
        let slot = |frame: Frame| {
            let slot = Slot { frame, before: row_bytes };
            row_bytes += frame.row_bytes();
            slot
        };
        let slots = frames.map(slot).collect();
        Self { slots, row_bytes }
    }

    pub(super) fn slot(&self, column: usize) -> Slot {
        self.slots.get(column).copied().unwrap_or(Slot { frame: Frame::NOTHING, before: 0 })
    }

    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Whether the columns have these frames.
    pub(super) fn is_of(&self, frames: impl Iterator<Item = Frame>) -> bool {
        self.slots.iter().map(|slot| slot.frame).eq(frames)
    }

    pub(super) fn columns(&self) -> usize {
        self.slots.len()
    }
}
