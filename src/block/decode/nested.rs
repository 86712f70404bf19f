//! Structs, lists, list views and maps.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, StructArray,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, FieldRef, Fields};

use super::bytes::{lengths, offsets};
use super::node;
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::{Nulls, Source, unknown};
use crate::block::word::Word;
use crate::block::{sizes, tags};

fn expect(data_type: &DataType, tag: u8, wanted: u8) -> BlockResult<()> {
    if tag == wanted { Ok(()) } else { Err(unknown(data_type, tag)) }
}

pub(super) fn structs(
    source: &mut Source<'_>,
    data_type: &DataType,
    fields: &Fields,
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    expect(data_type, tag, tags::STRUCT)?;
    let children = fields.iter().map(|field| node(source, field.data_type(), rows));
    let children = children.collect::<BlockResult<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.clone(),
        children,
        nulls.buffer(rows),
        rows,
    )?))
}

pub(super) fn fixed_list(
    source: &mut Source<'_>,
    data_type: &DataType,
    (field, size): (&FieldRef, i32),
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    expect(data_type, tag, tags::FIXED_LIST)?;
    let children = usize::try_from(size).ok().and_then(|size| size.checked_mul(rows));
    let children = children.ok_or(BlockError::Invalid("rows of fixed-size lists"))?;
    let values = node(source, field.data_type(), children)?;
    let nulls = nulls.buffer(rows);
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(
        Arc::clone(field),
        size,
        values,
        nulls,
        rows,
    )?))
}

pub(super) fn list<O: OffsetSizeTrait>(
    source: &mut Source<'_>,
    data_type: &DataType,
    field: &FieldRef,
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    expect(data_type, tag, tags::LIST)?;
    source.charge(sizes::null_leaf_bytes(data_type, rows))?;
    let (lens, total) = lengths(source, rows)?;
    let offsets = offsets::<O>(&lens, total)?;
    let values = node(source, field.data_type(), total)?;
    Ok(Arc::new(GenericListArray::<O>::try_new(
        Arc::clone(field),
        offsets,
        values,
        nulls.buffer(rows),
    )?))
}

pub(super) fn map(
    source: &mut Source<'_>,
    data_type: &DataType,
    (field, sorted): (&FieldRef, bool),
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    expect(data_type, tag, tags::LIST)?;
    source.charge(sizes::null_leaf_bytes(data_type, rows))?;
    let (lens, total) = lengths(source, rows)?;
    let offsets = offsets::<i32>(&lens, total)?;
    let entries = node(source, field.data_type(), total)?;
    let Some(entries) = entries.as_struct_opt() else {
        return Err(BlockError::Invalid("entries of a map"));
    };
    let (field, entries, nulls) = (Arc::clone(field), entries.clone(), nulls.buffer(rows));
    Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, sorted)?))
}

pub(super) fn list_view<O: OffsetSizeTrait + Word>(
    source: &mut Source<'_>,
    data_type: &DataType,
    field: &FieldRef,
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    expect(data_type, tag, tags::LIST_VIEW)?;
    source.charge(sizes::null_leaf_bytes(data_type, rows))?;
    let total = source.count()?;
    let offsets = source.words::<O>(rows)?;
    let sizes = source.words::<O>(rows)?;
    for (offset, size) in offsets.iter().zip(&sizes) {
        let end = offset
            .to_usize()
            .zip(size.to_usize())
            .and_then(|(offset, size)| offset.checked_add(size));
        if end.is_none_or(|end| end > total) {
            return Err(BlockError::Invalid("list view beyond its values"));
        }
    }
    let values = node(source, field.data_type(), total)?;
    let (offsets, sizes) = (ScalarBuffer::from(offsets), ScalarBuffer::from(sizes));
    let nulls = nulls.buffer(rows);
    Ok(Arc::new(GenericListViewArray::<O>::try_new(
        Arc::clone(field),
        offsets,
        sizes,
        values,
        nulls,
    )?))
}
