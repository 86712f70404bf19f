//! Structs, lists, list views and maps.

use arrow::array::{Array, AsArray, OffsetSizeTrait};
use arrow::datatypes::{DataType, Fields};

use super::parts::{Part, push_merged, row_count, within};
use super::{BlockError, BlockResult, Body, fit};
use crate::block::sink::is_valid;
use crate::block::tags;
use crate::block::word::Word;

impl Body {
    pub(super) fn structs(&mut self, fields: &Fields, parts: &[Part<'_>]) -> BlockResult<()> {
        self.with_validity(parts, |this, validity| {
            this.sink.put_tag(tags::STRUCT, validity, row_count(parts));
        });
        for (i, field) in fields.iter().enumerate() {
            let children = parts.iter().filter_map(|part| {
                let child = part.array.as_struct().columns().get(i)?;
                Some(Part::new(child.as_ref(), part.rows.clone()))
            });
            self.node(field.data_type(), &children.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    pub(super) fn fixed_list(&mut self, child: &DataType, parts: &[Part<'_>]) -> BlockResult<()> {
        self.with_validity(parts, |this, validity| {
            this.sink.put_tag(tags::FIXED_LIST, validity, row_count(parts));
        });
        let children = parts.iter().map(|part| {
            let list = part.array.as_fixed_size_list();
            let size = usize::try_from(list.value_length()).unwrap_or(0);
            Part::new(list.values().as_ref(), part.rows.start * size..part.rows.end * size)
        });
        self.node(child, &children.collect::<Vec<_>>())
    }

    pub(super) fn list<O: OffsetSizeTrait>(
        &mut self,
        child: &DataType,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        self.offsets_and_child(child, parts, |array| {
            let list = array.as_list::<O>();
            (list.value_offsets(), list.values().as_ref())
        })
    }

    pub(super) fn map(&mut self, child: &DataType, parts: &[Part<'_>]) -> BlockResult<()> {
        self.offsets_and_child(child, parts, |array| {
            let map = array.as_map();
            (map.value_offsets(), map.entries())
        })
    }

    fn offsets_and_child<'a, O: OffsetSizeTrait>(
        &mut self,
        child: &DataType,
        parts: &[Part<'a>],
        of: impl Fn(&'a dyn Array) -> (&'a [O], &'a dyn Array),
    ) -> BlockResult<()> {
        let rows = row_count(parts);
        self.sink.charge(rows.saturating_add(1).saturating_mul(size_of::<O>()));
        let children = self.with_validity(parts, |this, validity| {
            if !this.open(tags::LIST, validity, rows) {
                return Ok(None);
            }
            let mut lens = std::mem::take(&mut this.lens);
            let children = list_children(parts, of, validity.mask(), &mut lens);
            this.sink.put_words(&lens, None);
            this.lens = lens;
            children.map(Some)
        })?;
        children.map_or(Ok(()), |children| self.node(child, &children))
    }

    pub(super) fn list_view<O: OffsetSizeTrait + Word>(
        &mut self,
        child: &DataType,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        let rows = row_count(parts);
        self.sink.charge(rows.saturating_mul(2 * size_of::<O>()));
        let children = self.with_validity(parts, |this, validity| {
            if !this.open(tags::LIST_VIEW, validity, rows) {
                return Ok(None);
            }
            let views = view_children::<O>(parts, validity.mask(), rows)?;
            this.sink.put_varint(row_count(&views.children) as u64);
            this.sink.put_words(&views.offsets, None);
            this.sink.put_words(&views.sizes, None);
            Ok::<_, BlockError>(Some(views.children))
        })?;
        children.map_or(Ok(()), |children| self.node(child, &children))
    }
}

/// What valid rows cover of the children, merged where it touches; `lens` gets the lengths per row.
fn list_children<'a, O: OffsetSizeTrait>(
    parts: &[Part<'a>],
    of: impl Fn(&'a dyn Array) -> (&'a [O], &'a dyn Array),
    mask: Option<&[u64]>,
    lens: &mut Vec<u32>,
) -> BlockResult<Vec<Part<'a>>> {
    lens.clear();
    let mut children = Vec::new();
    for part in parts {
        let (offsets, child) = of(part.array);
        let offsets = within(offsets, &(part.rows.start..part.rows.end + 1))?;
        for pair in offsets.windows(2) {
            let &[start, end] = pair else { continue };
            let range = start.as_usize()..end.as_usize();
            if range.is_empty() || !is_valid(mask, lens.len()) {
                lens.push(0);
                continue;
            }
            lens.push(fit(range.len(), u32::MAX as usize, "rows of a list")?);
            push_merged(&mut children, child, range);
        }
    }
    Ok(children)
}

struct Views<'a, O> {
    children: Vec<Part<'a>>,
    offsets: Vec<O>,
    sizes: Vec<O>,
}

/// The union of what the views of each part cover, and offsets and sizes within that.
fn view_children<'a, O: OffsetSizeTrait>(
    parts: &[Part<'a>],
    mask: Option<&[u64]>,
    rows: usize,
) -> BlockResult<Views<'a, O>> {
    let mut views = Views {
        children: Vec::new(),
        offsets: vec![O::zero(); rows],
        sizes: vec![O::zero(); rows],
    };
    let mut first_row = 0;
    // Rows of all children before the range in hand.
    let mut base = 0;
    for part in parts {
        let list = part.array.as_list_view::<O>();
        let offsets = within(list.value_offsets(), &part.rows)?;
        let sizes = within(list.value_sizes(), &part.rows)?;
        let used = offsets.iter().zip(sizes).zip(first_row..);
        let used = used.filter(|((_, size), row)| size.as_usize() > 0 && is_valid(mask, *row));
        let mut used: Vec<_> =
            used.map(|((at, size), row)| (at.as_usize(), size.as_usize(), row)).collect();
        used.sort_unstable();
        let mut covered = 0..0;
        for (at, size, row) in used {
            if at > covered.end || covered.is_empty() {
                base += covered.len();
                push_merged(&mut views.children, list.values().as_ref(), covered);
                covered = at..at + size;
            }
            covered.end = covered.end.max(at + size);
            let new = O::from_usize(base + at - covered.start);
            if let (Some(to), Some(len)) = (views.offsets.get_mut(row), views.sizes.get_mut(row)) {
                *to = new.ok_or(BlockError::Invalid("offset of a list view"))?;
                *len = O::usize_as(size);
            }
        }
        base += covered.len();
        push_merged(&mut views.children, list.values().as_ref(), covered);
        first_row += part.rows.len();
    }
    Ok(views)
}
