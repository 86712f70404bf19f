//! Strings and binaries, as offsets or views.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, GenericByteArray, GenericByteViewArray, OffsetSizeTrait, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ByteArrayType, ByteViewType};

use super::leaf::Leaf;
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::{Source, unknown};
use crate::block::{sizes, tags};

/// Strings or binaries with offsets.
pub(super) fn byte_array<T: ByteArrayType>(node: &mut Leaf<'_, '_, '_>) -> BlockResult<ArrayRef> {
    match node.tag {
        tags::BYTES => {
            let (lens, total) = lengths(node.source, node.rows)?;
            node.source.charge(total)?;
            Ok(Arc::new(plain::<T>(node.source, &lens, total, node.nulls.take())?))
        }
        tags::BYTES_DICT => {
            let (ids, lens, total) = dictionary(node)?;
            Ok(Arc::new(spelled_out::<T>(node.source, &ids, &lens, total)?))
        }
        tag => Err(unknown(node.data_type, tag)),
    }
}

/// Strings or binaries with views; `B` is the same with offsets.
pub(super) fn view_array<T, B>(node: &mut Leaf<'_, '_, '_>) -> BlockResult<ArrayRef>
where
    T: ByteViewType,
    B: ByteArrayType<Offset = i32, Native = T::Native>,
{
    match node.tag {
        tags::BYTES => {
            let (lens, total) = lengths(node.source, node.rows)?;
            node.source.charge(total)?;
            let array = plain::<B>(node.source, &lens, total, node.nulls.take())?;
            Ok(Arc::new(viewed::<T, B>(&array, &lens, total)))
        }
        tags::BYTES_DICT => {
            let (ids, lens, total) = dictionary(node)?;
            let array = plain::<B>(node.source, &lens, total, None)?;
            Ok(take(&viewed::<T, B>(&array, &lens, total), &ids, None)?)
        }
        tag => Err(unknown(node.data_type, tag)),
    }
}

/// Views of the values of `array`, on a buffer without many bytes that no view needs.
fn viewed<T, B>(array: &GenericByteArray<B>, lens: &[u32], total: usize) -> GenericByteViewArray<T>
where
    T: ByteViewType,
    B: ByteArrayType<Offset = i32, Native = T::Native>,
{
    let views = GenericByteViewArray::<T>::from(array);
    let inline = lens
        .iter()
        .map(|len| usize::try_from(*len).unwrap_or(usize::MAX))
        .filter(|len| *len <= sizes::INLINE);
    if inline.sum::<usize>() * 8 > total { views.gc() } else { views }
}

fn plain<T: ByteArrayType>(
    source: &mut Source<'_>,
    lens: &[u32],
    total: usize,
    nulls: Option<NullBuffer>,
) -> BlockResult<GenericByteArray<T>> {
    let bytes = source.bytes(total)?;
    let offsets = offsets::<T::Offset>(lens, total)?;
    Ok(GenericByteArray::try_new(offsets, Buffer::from_slice_ref(bytes), nulls)?)
}

/// Ids with their validity, lengths of the values, and the sum of those.
fn dictionary(node: &mut Leaf<'_, '_, '_>) -> BlockResult<(UInt32Array, Vec<u32>, usize)> {
    let values = node.source.count()?;
    if values > node.rows {
        return Err(BlockError::Invalid("more distinct values than rows"));
    }
    node.source.charge(sizes::byte_dict_bytes(node.rows, values, 0))?;
    let ids = node.source.ids(node.rows, values)?;
    let (lens, total) = lengths(node.source, values)?;
    node.source.charge(total)?;
    Ok((UInt32Array::new(ScalarBuffer::from(ids), node.nulls.take()), lens, total))
}

/// `count` lengths and their sum.
pub(super) fn lengths(source: &mut Source<'_>, count: usize) -> BlockResult<(Vec<u32>, usize)> {
    let lens = source.words::<u32>(count)?;
    let total: u64 = lens.iter().map(|len| u64::from(*len)).sum();
    let total = usize::try_from(total).map_err(|_| BlockError::Invalid("sum of lengths"))?;
    Ok((lens, total))
}

/// Every row with a copy of its value.
fn spelled_out<T: ByteArrayType>(
    source: &mut Source<'_>,
    ids: &UInt32Array,
    lens: &[u32],
    dict_len: usize,
) -> BlockResult<GenericByteArray<T>> {
    let dict = source.bytes(dict_len)?;
    let value_len =
        |id: u32| usize::try_from(id).ok().and_then(|id| lens.get(id)).copied().unwrap_or(0);
    let row_lens: Vec<u32> = match ids.nulls() {
        None => ids.values().iter().map(|id| value_len(*id)).collect(),
        Some(nulls) => {
            let rows = ids.values().iter().zip(nulls.iter());
            rows.map(|(id, valid)| if valid { value_len(*id) } else { 0 }).collect()
        }
    };
    let total: u64 = row_lens.iter().map(|len| u64::from(*len)).sum();
    let total = usize::try_from(total).map_err(|_| BlockError::Invalid("sum of lengths"))?;
    source.charge(total)?;
    let offsets = offsets::<T::Offset>(&row_lens, total)?;
    let bytes = match lens.iter().max() {
        Some(..=8) => spell::<8>(ids.values(), &row_lens, lens, dict, total),
        Some(..=16) => spell::<16>(ids.values(), &row_lens, lens, dict, total),
        Some(..=32) => spell::<32>(ids.values(), &row_lens, lens, dict, total),
        _ => spell_long(ids.values(), &row_lens, lens, dict, total),
    };
    Ok(GenericByteArray::try_new(offsets, Buffer::from_vec(bytes), ids.nulls().cloned())?)
}

/// The bytes of all rows where no value is longer than `N`: each row writes `N` bytes, the next one goes over the excess.
fn spell<const N: usize>(
    ids: &[u32],
    row_lens: &[u32],
    lens: &[u32],
    dict: &[u8],
    total: usize,
) -> Vec<u8> {
    let mut values = vec![[0u8; N]; lens.len()];
    let mut rest = dict;
    for (value, len) in values.iter_mut().zip(lens) {
        let (head, tail) = rest.split_at_checked(to_len(*len)).unwrap_or((&[], &[]));
        if let Some(value) = value.get_mut(..head.len()) {
            value.copy_from_slice(head);
        }
        rest = tail;
    }
    let mut out = vec![0; total + N];
    let mut at = 0;
    for (id, len) in ids.iter().zip(row_lens) {
        let slot = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>);
        if let (Some(to), Some(value)) = (slot, values.get(to_len(*id))) {
            *to = *value;
        }
        at += to_len(*len);
    }
    out.truncate(total);
    out
}

/// The bytes of all rows, of any length.
fn spell_long(ids: &[u32], row_lens: &[u32], lens: &[u32], dict: &[u8], total: usize) -> Vec<u8> {
    let mut starts = Vec::with_capacity(lens.len());
    let mut at = 0;
    for len in lens {
        starts.push(at);
        at += to_len(*len);
    }
    let mut out = Vec::with_capacity(total);
    for (id, len) in ids.iter().zip(row_lens) {
        let start = starts.get(to_len(*id)).copied().unwrap_or(0);
        out.extend_from_slice(dict.get(start..start + to_len(*len)).unwrap_or(&[]));
    }
    out
}

fn to_len(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Offsets of values of these lengths, whose sum is `total`.
pub(super) fn offsets<O: OffsetSizeTrait>(
    lens: &[u32],
    total: usize,
) -> BlockResult<OffsetBuffer<O>> {
    if O::from_usize(total).is_none() {
        return Err(BlockError::Limit {
            what: "bytes under offsets",
            found: total as u64,
            limit: O::MAX_OFFSET as u64,
        });
    }
    let mut at = 0usize;
    let mut offsets = Vec::with_capacity(lens.len() + 1);
    offsets.push(O::zero());
    offsets.extend(lens.iter().map(|len| {
        at += usize::try_from(*len).unwrap_or(0);
        O::usize_as(at)
    }));
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}
