//! Columns of strings and binaries.

use std::sync::Arc;

use arrow::array::OffsetSizeTrait;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ByteArrayType, ByteViewType};
use datafusion::common::Result;

use super::column::{next_capacity, reserve_to};
use super::pieces::Finished;
use super::source::{Rows, SourceColumn};
use crate::kernels::{bytes_of_valid, views_of_valid};

/// Strings up to this length live in their view.
const INLINE_VIEW_BYTES: u32 = 12;

/// Bytes of values from which on a column grows by a quarter instead of to the double.
const MANY_VALUE_BYTES: usize = 16 * 1024;

/// Offsets and bytes of a string or binary column.
#[derive(Default)]
pub(super) struct Strings<O> {
    offsets: Vec<O>,
    values: Vec<u8>,
}

#[expect(clippy::indexing_slicing, reason = "row numbers and offsets come from a valid array")]
impl<O: OffsetSizeTrait> Strings<O> {
    pub(super) fn value_bytes(&self) -> usize {
        self.values.len()
    }

    pub(super) fn value_capacity(&self) -> usize {
        self.values.capacity()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.values.capacity() + self.offsets.capacity() * size_of::<O>()
    }

    pub(super) fn reserve_rows(&mut self, capacity: usize) {
        reserve_to(&mut self.offsets, capacity + 1);
    }

    pub(super) fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        let offsets = source.data.buffer::<O>(0);
        let mut bytes = 0;
        match rows {
            Rows::Range { start, len } if !offsets.is_empty() => {
                bytes = offsets[start + len].as_usize() - offsets[start].as_usize();
            }
            Rows::Range { .. } => {}
            Rows::Index(rows) => {
                for &row in rows {
                    let row = row as usize;
                    bytes += offsets[row + 1].as_usize() - offsets[row].as_usize();
                }
            }
        }
        next_value_capacity(&self.values, bytes) - self.values.capacity()
    }

    pub(super) fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) {
        if rows.is_empty() {
            return;
        }
        let growth = self.growth(source, rows);
        let capacity = self.values.capacity() + growth;
        reserve_to(&mut self.values, capacity);
        if self.offsets.is_empty() {
            self.offsets.push(O::default());
        }
        let offsets = source.data.buffer::<O>(0);
        let bytes = source.data.buffers()[1].as_slice();
        let Self { offsets: ends, values } = self;
        rows.for_each(|row| {
            push_value::<16>(values, bytes, offsets[row].as_usize(), offsets[row + 1].as_usize());
            ends.push(O::usize_as(values.len()));
        });
    }

    pub(super) fn finish<T: ByteArrayType<Offset = O>>(
        &mut self,
        nulls: Option<NullBuffer>,
    ) -> Result<Finished> {
        if self.offsets.is_empty() {
            self.offsets.push(O::default());
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let values = Buffer::from_vec(std::mem::take(&mut self.values));
        let array = bytes_of_valid::<T>(offsets, values, nulls)?;
        Ok(Finished::Array(Arc::new(array)))
    }
}

/// Appends `from[start..end]`, for which there is room. A value of up to `SHORT` bytes is copied at that
/// fixed length, which is cheaper than a call, and the excess cut off.
#[inline]
#[expect(clippy::indexing_slicing, reason = "offsets come from a valid array")]
fn push_value<const SHORT: usize>(values: &mut Vec<u8>, from: &[u8], start: usize, end: usize) {
    let (len, room) = (end - start, values.capacity() - values.len());
    match from[start..].first_chunk::<SHORT>() {
        Some(chunk) if len <= SHORT && room >= SHORT => {
            values.extend_from_slice(chunk);
            values.truncate(values.len() - (SHORT - len));
        }
        _ => values.extend_from_slice(&from[start..end]),
    }
}

/// Views whose long strings are copied to one buffer of this column, so that a partition neither
/// pins nor shares the buffers of its input.
#[derive(Default)]
pub(super) struct Views {
    views: Vec<u128>,
    values: Vec<u8>,
}

#[derive(Clone, Copy)]
struct View(u128);

impl View {
    #[expect(clippy::cast_possible_truncation, reason = "takes the low 32 bits")]
    fn len(self) -> u32 {
        self.0 as u32
    }

    fn is_inline(self) -> bool {
        self.len() <= INLINE_VIEW_BYTES
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes 32 bits each")]
    fn location(self) -> (usize, usize) {
        ((self.0 >> 64) as u32 as usize, (self.0 >> 96) as u32 as usize)
    }

    /// The same string at `offset` of buffer 0.
    fn at(self, offset: u32) -> u128 {
        (self.0 & u128::from(u64::MAX)) | (u128::from(offset) << 96)
    }
}

#[expect(clippy::indexing_slicing, reason = "row numbers and views come from a valid array")]
impl Views {
    pub(super) fn value_bytes(&self) -> usize {
        self.values.len()
    }

    pub(super) fn value_capacity(&self) -> usize {
        self.values.capacity()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.values.capacity() + self.views.capacity() * size_of::<u128>()
    }

    pub(super) fn reserve_rows(&mut self, capacity: usize) {
        reserve_to(&mut self.views, capacity);
    }

    pub(super) fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        if source.data.buffers().len() < 2 {
            return 0;
        }
        let views = source.data.buffer::<u128>(0);
        let mut bytes = 0;
        let mut add = |row: usize| {
            let view = View(views[row]);
            bytes += if view.is_inline() { 0 } else { view.len() as usize };
        };
        match source.data.nulls() {
            None => rows.for_each(add),
            Some(nulls) => rows.for_each(|row| {
                if nulls.is_valid(row) {
                    add(row);
                }
            }),
        }
        next_value_capacity(&self.values, bytes) - self.values.capacity()
    }

    pub(super) fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) {
        let growth = self.growth(source, rows);
        let capacity = self.values.capacity() + growth;
        reserve_to(&mut self.values, capacity);
        let views = source.data.buffer::<u128>(0);
        let buffers = &source.data.buffers()[1..];
        let Self { views: out, values } = self;
        let mut last = (0_u128, 0_u128);
        let mut moved = |row: usize| {
            let view = View(views[row]);
            if view.is_inline() {
                return view.0;
            }
            if view.0 != last.0 {
                let (buffer, start) = view.location();
                let offset = offset_u32(values.len());
                let end = start + view.len() as usize;
                // Those that are not inline have more than 12 bytes, and seldom many more.
                push_value::<32>(values, &buffers[buffer], start, end);
                last = (view.0, view.at(offset));
            }
            last.1
        };
        match source.data.nulls() {
            None => rows.for_each(|row| out.push(moved(row))),
            Some(nulls) => {
                rows.for_each(|row| out.push(if nulls.is_null(row) { 0 } else { moved(row) }));
            }
        }
    }

    pub(super) fn finish<T: ByteViewType>(
        &mut self,
        nulls: Option<NullBuffer>,
    ) -> Result<Finished> {
        let views = ScalarBuffer::from(std::mem::take(&mut self.views));
        let values = std::mem::take(&mut self.values);
        let buffers = if values.is_empty() { vec![] } else { vec![Buffer::from_vec(values)] };
        let array = views_of_valid::<T>(views, buffers, nulls)?;
        Ok(Finished::Array(Arc::new(array)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the stage's byte cap lies below 2^31")]
fn offset_u32(offset: usize) -> u32 {
    offset as u32
}

/// As [`next_capacity`], for bytes of values: once there are many, little room is left unused.
fn next_value_capacity(values: &Vec<u8>, more: usize) -> usize {
    let (needed, capacity) = (values.len() + more, values.capacity());
    if capacity < MANY_VALUE_BYTES || needed <= capacity {
        return next_capacity(values.len(), capacity, more);
    }
    needed.max(capacity + capacity / 4)
}
