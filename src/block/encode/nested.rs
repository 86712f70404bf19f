//! Structs, lists, list views and maps.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, StructArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::take;

use super::leaf::within;
use super::{BlockError, BlockResult, Body};
use crate::block::sink::{Validity, is_valid};
use crate::block::word::Word;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn structs(&mut self, array: &StructArray, rows: Range<usize>) -> BlockResult<()> {
        self.with_validity(array.nulls(), &rows, |this, validity| {
            this.sink.put_tag(tags::STRUCT, validity, rows.len());
        });
        array.columns().iter().try_for_each(|child| self.node(child.as_ref(), rows.clone()))
    }

    pub(super) fn fixed_list(
        &mut self,
        array: &FixedSizeListArray,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let size = usize::try_from(array.value_length()).unwrap_or(0);
        self.with_validity(array.nulls(), &rows, |this, validity| {
            this.sink.put_tag(tags::FIXED_LIST, validity, rows.len());
        });
        self.node(array.values().as_ref(), rows.start * size..rows.end * size)
    }

    pub(super) fn list<O: OffsetSizeTrait>(
        &mut self,
        array: &GenericListArray<O>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        self.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
        self.offsets_and_child(array.value_offsets(), array.nulls(), array.values().as_ref(), rows)
    }

    pub(super) fn map(&mut self, array: &MapArray, rows: Range<usize>) -> BlockResult<()> {
        self.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
        self.offsets_and_child(array.value_offsets(), array.nulls(), array.entries(), rows)
    }

    fn offsets_and_child<O: OffsetSizeTrait>(
        &mut self,
        offsets: &[O],
        nulls: Option<&NullBuffer>,
        child: &dyn Array,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let offsets = within(offsets, &(rows.start..rows.end + 1))?;
        let ranges = self.with_validity(nulls, &rows, |this, validity| {
            if rows.is_empty() || matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, rows.len());
                return Ok(None);
            }
            this.sink.put_tag(tags::LIST, validity, rows.len());
            let mut lens = std::mem::take(&mut this.lens);
            let ranges = list_ranges(offsets, validity.mask(), &mut lens);
            this.sink.put_words(&lens, None);
            this.lens = lens;
            ranges.map(Some)
        })?;
        ranges.map_or(Ok(()), |ranges| self.gathered(child, &ranges))
    }

    pub(super) fn list_view<O: OffsetSizeTrait + Word>(
        &mut self,
        array: &GenericListViewArray<O>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        self.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
        let offsets = within(array.value_offsets(), &rows)?;
        let sizes = within(array.value_sizes(), &rows)?;
        let ranges = self.with_validity(array.nulls(), &rows, |this, validity| {
            if rows.is_empty() || matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, rows.len());
                return Ok(None);
            }
            this.sink.put_tag(tags::LIST_VIEW, validity, rows.len());
            let (ranges, offsets, sizes) = view_ranges(offsets, sizes, validity.mask())?;
            let total: usize = ranges.iter().map(Range::len).sum();
            this.sink.put_varint(total as u64);
            this.sink.put_words(&offsets, None);
            this.sink.put_words(&sizes, None);
            Ok::<_, BlockError>(Some(ranges))
        })?;
        ranges.map_or(Ok(()), |ranges| self.gathered(array.values().as_ref(), &ranges))
    }

    /// The node of the rows of `child` that lie in `ranges`, in this order.
    pub(super) fn gathered(
        &mut self,
        child: &dyn Array,
        ranges: &[Range<usize>],
    ) -> BlockResult<()> {
        match ranges {
            [] => self.node(child, 0..0),
            [one] => self.node(child, one.clone()),
            many => {
                let indices: UInt64Array =
                    many.iter().flat_map(Clone::clone).map(|i| Some(i as u64)).collect();
                let rows = indices.len();
                let gathered: ArrayRef = take(child, &indices, None)?;
                self.node(gathered.as_ref(), 0..rows)
            }
        }
    }
}

/// The ranges of the child that valid rows cover, merged where they touch; `lens` gets their lengths per row.
fn list_ranges<O: OffsetSizeTrait>(
    offsets: &[O],
    mask: Option<&[u64]>,
    lens: &mut Vec<u32>,
) -> BlockResult<Vec<Range<usize>>> {
    lens.clear();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (i, pair) in offsets.windows(2).enumerate() {
        let &[start, end] = pair else { continue };
        if !is_valid(mask, i) || start == end {
            lens.push(0);
            continue;
        }
        let (start, end) = (start.as_usize(), end.as_usize());
        lens.push(super::fit(end - start, u32::MAX as usize, "rows of a list")?);
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    Ok(ranges)
}

type ViewParts<O> = (Vec<Range<usize>>, Vec<O>, Vec<O>);

/// The union of what the views cover as disjoint ranges, and offsets and sizes within that.
fn view_ranges<O: OffsetSizeTrait>(
    offsets: &[O],
    sizes: &[O],
    mask: Option<&[u64]>,
) -> BlockResult<ViewParts<O>> {
    let views = || {
        let all = offsets.iter().zip(sizes).enumerate();
        all.filter(|(i, (_, size))| is_valid(mask, *i) && size.as_usize() > 0)
            .map(|(i, (offset, size))| (offset.as_usize(), size.as_usize(), i))
    };
    let mut sorted: Vec<(usize, usize, usize)> = views().collect();
    sorted.sort_unstable();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut new_offsets = vec![O::zero(); offsets.len()];
    let mut new_sizes = vec![O::zero(); offsets.len()];
    // Rows of the child before the last range.
    let mut base = 0;
    for (offset, size, i) in sorted {
        let end = offset + size;
        match ranges.last_mut() {
            Some(last) if offset <= last.end => last.end = last.end.max(end),
            last => {
                base += last.map_or(0, |last| last.len());
                ranges.push(offset..end);
            }
        }
        let within = offset - ranges.last().map_or(offset, |last| last.start);
        let new = O::from_usize(base + within).ok_or(BlockError::Invalid("list view offset"))?;
        if let (Some(to), Some(len)) = (new_offsets.get_mut(i), new_sizes.get_mut(i)) {
            *to = new;
            *len = O::usize_as(size);
        }
    }
    Ok((ranges, new_offsets, new_sizes))
}

pub(super) fn to_len(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
