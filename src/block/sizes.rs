//! Bytes of arrays: what a block decodes to, and what rows of a batch hold.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use arrow::datatypes::{
    ArrowNativeType, BinaryViewType, ByteViewType, DataType, Int16Type, Int32Type, Int64Type,
    StringViewType,
};

use super::bits::bitmap_bytes;

/// Values up to this length lie in their view.
pub(crate) const INLINE: usize = 12;
const VIEW: usize = 16;

/// Bytes of `rows` values of a type, without validity, children and what offsets or views point to.
pub(crate) fn null_leaf_bytes(data_type: &DataType, rows: usize) -> usize {
    match data_type {
        DataType::Boolean => bitmap_bytes(rows),
        DataType::FixedSizeBinary(width) => {
            rows.saturating_mul(usize::try_from(*width).unwrap_or(0))
        }
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(_, _) => {
            rows.saturating_add(1).saturating_mul(4)
        }
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => {
            rows.saturating_add(1).saturating_mul(8)
        }
        DataType::ListView(_) => rows.saturating_mul(8),
        DataType::LargeListView(_) => rows.saturating_mul(16),
        DataType::Utf8View | DataType::BinaryView => rows.saturating_mul(VIEW),
        DataType::Dictionary(key, _) => null_leaf_bytes(key, rows),
        DataType::RunEndEncoded(_, _) | DataType::Union(_, _) => 0,
        other => rows.saturating_mul(other.primitive_width().unwrap_or(0)),
    }
}

/// Bytes to decode a dictionary of byte strings: ids, offsets or views of the values, and the values.
pub(crate) fn byte_dict_bytes(rows: usize, values: usize, value_bytes: usize) -> usize {
    rows.saturating_mul(4)
        .saturating_add(values.saturating_mul(VIEW + 8))
        .saturating_add(value_bytes)
}

/// Bytes to decode a dictionary of words besides the rows: ids and values.
pub(crate) fn word_dict_bytes(size: usize, rows: usize, values: usize) -> usize {
    rows.saturating_mul(4).saturating_add(values.saturating_mul(size))
}

/// Bytes of the ends of `runs` runs.
pub(crate) fn run_end_bytes<R: ArrowNativeType>(runs: usize) -> usize {
    runs.saturating_mul(size_of::<R>())
}

/// Bytes of type ids, and of offsets where a union has those.
pub(crate) fn union_bytes(rows: usize, dense: bool) -> usize {
    rows.saturating_mul(if dense { 5 } else { 1 })
}

/// Logical bytes of the rows `[offset, offset + len)`: of each buffer the part that they use.
///
/// A value that several views or dictionary keys share counts about once. Used to account for rows and to split them
/// into blocks; no block of them is decoded to much more.
#[must_use]
pub fn logical_bytes(batch: &RecordBatch, offset: usize, len: usize) -> usize {
    let end = offset.saturating_add(len).min(batch.num_rows());
    let rows = offset.min(end)..end;
    batch.columns().iter().map(|column| column_bytes(column, rows.clone())).sum()
}

fn column_bytes(array: &ArrayRef, rows: Range<usize>) -> usize {
    array_bytes(array.as_ref(), rows)
}

fn array_bytes(array: &dyn Array, rows: Range<usize>) -> usize {
    let own = null_leaf_bytes(array.data_type(), rows.len());
    let nulls = array.nulls().map_or(0, |_| bitmap_bytes(rows.len()));
    own + nulls + referenced_bytes(array, rows)
}

/// Bytes of children, and of what offsets and views point to.
fn referenced_bytes(array: &dyn Array, rows: Range<usize>) -> usize {
    match array.data_type() {
        DataType::Utf8 => span(array.as_string::<i32>().value_offsets(), &rows).len(),
        DataType::LargeUtf8 => span(array.as_string::<i64>().value_offsets(), &rows).len(),
        DataType::Binary => span(array.as_binary::<i32>().value_offsets(), &rows).len(),
        DataType::LargeBinary => span(array.as_binary::<i64>().value_offsets(), &rows).len(),
        DataType::Utf8View => view_bytes::<StringViewType>(array.as_byte_view(), &rows),
        DataType::BinaryView => view_bytes::<BinaryViewType>(array.as_byte_view(), &rows),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            array_bytes(list.values().as_ref(), span(list.value_offsets(), &rows))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            array_bytes(list.values().as_ref(), span(list.value_offsets(), &rows))
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            array_bytes(map.entries(), span(map.value_offsets(), &rows))
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            array_bytes(
                list.values().as_ref(),
                cover(list.value_offsets(), list.value_sizes(), &rows),
            )
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            array_bytes(
                list.values().as_ref(),
                cover(list.value_offsets(), list.value_sizes(), &rows),
            )
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            array_bytes(
                array.as_fixed_size_list().values().as_ref(),
                rows.start * size..rows.end * size,
            )
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|child| column_bytes(child, rows.clone())).sum()
        }
        DataType::Dictionary(_, _) => {
            let values = array.as_any_dictionary().values();
            shared_bytes(values.as_ref(), rows.len())
        }
        DataType::RunEndEncoded(_, _) => run_bytes(array, &rows),
        DataType::Union(fields, _) => {
            let union = array.as_union();
            let dense = union.offsets().is_some();
            let children = fields.iter().map(|(id, _)| {
                let child = union.child(id);
                if dense {
                    shared_bytes(child.as_ref(), rows.len())
                } else {
                    column_bytes(child, rows.clone())
                }
            });
            union_bytes(rows.len(), dense) + children.sum::<usize>()
        }
        _ => 0,
    }
}

/// About the bytes of the at most `rows` values that some rows use.
fn shared_bytes(values: &dyn Array, rows: usize) -> usize {
    let all = array_bytes(values, 0..values.len());
    if values.len() <= rows { all } else { (all / values.len()).saturating_mul(rows) + rows }
}

fn span<O: ArrowNativeType>(offsets: &[O], rows: &Range<usize>) -> Range<usize> {
    match (offsets.get(rows.start), offsets.get(rows.end)) {
        (Some(start), Some(end)) if !rows.is_empty() => start.as_usize()..end.as_usize(),
        _ => 0..0,
    }
}

fn cover<O: ArrowNativeType>(offsets: &[O], sizes: &[O], rows: &Range<usize>) -> Range<usize> {
    let pairs = offsets.iter().zip(sizes).skip(rows.start).take(rows.len());
    let used = pairs.map(|(at, size)| (at.as_usize(), at.as_usize() + size.as_usize()));
    used.filter(|(start, end)| start < end)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        .map_or(0..0, |(start, end)| start..end)
}

/// Long values, but of each buffer no more than the part between the first and the last of them.
fn view_bytes<T: ByteViewType>(array: &GenericByteViewArray<T>, rows: &Range<usize>) -> usize {
    let mut used = vec![(usize::MAX, 0usize, 0usize); array.data_buffers().len()];
    for view in array.views().iter().skip(rows.start).take(rows.len()) {
        let view = arrow::array::ByteView::from(*view);
        let len = view.length.as_usize();
        if len > INLINE
            && let Some((start, end, sum)) = used.get_mut(view.buffer_index.as_usize())
        {
            let at = view.offset.as_usize();
            *start = (*start).min(at);
            *end = (*end).max(at + len);
            *sum += len;
        }
    }
    used.iter().map(|(start, end, sum)| (*sum).min(end.saturating_sub(*start))).sum()
}

fn run_bytes(array: &dyn Array, rows: &Range<usize>) -> usize {
    if rows.is_empty() {
        return 0;
    }
    macro_rules! run_bytes {
        ($t:ty) => {
            array.as_run_opt::<$t>().map(|runs| {
                let ends = runs.run_ends();
                let used =
                    ends.get_physical_index(rows.start)..ends.get_physical_index(rows.end - 1) + 1;
                let own = run_end_bytes::<<$t as arrow::datatypes::ArrowPrimitiveType>::Native>(
                    used.len(),
                );
                own + array_bytes(runs.values().as_ref(), used)
            })
        };
    }
    run_bytes!(Int16Type)
        .or_else(|| run_bytes!(Int32Type))
        .or_else(|| run_bytes!(Int64Type))
        .unwrap_or(0)
}
