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
use crate::kernels::bytes_of_valid;

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
    // The text of each value is checked here, so that of the rows is valid.
    let dict = plain::<T>(source, lens, dict_len, None)?;
    let of = |id: u32| to_len(lens.get(to_len(id)).copied().unwrap_or(0));
    let total: usize = match ids.nulls() {
        None => ids.values().iter().map(|id| of(*id)).sum(),
        Some(nulls) => {
            let rows = ids.values().iter().zip(nulls.iter());
            rows.map(|(id, valid)| if valid { of(*id) } else { 0 }).sum()
        }
    };
    source.charge(total)?;
    check_offsets::<T::Offset>(total)?;
    let (offsets, bytes) = match lens.iter().max() {
        Some(..=8) => spell::<T, 8>(ids, &dict, total),
        Some(..=16) => spell::<T, 16>(ids, &dict, total),
        Some(..=32) => spell::<T, 32>(ids, &dict, total),
        _ => spell_long(ids, &dict, total),
    };
    Ok(bytes_of_valid(offsets, Buffer::from_vec(bytes), ids.nulls().cloned())?)
}

/// The offsets and bytes of all rows where no value is longer than `N`: each row writes `N` bytes, the
/// next one goes over the excess.
fn spell<T: ByteArrayType, const N: usize>(
    ids: &UInt32Array,
    dict: &GenericByteArray<T>,
    total: usize,
) -> (OffsetBuffer<T::Offset>, Vec<u8>) {
    let padded = |id: usize| {
        let value: &[u8] = dict.value(id).as_ref();
        let mut bytes = [0_u8; N];
        if let Some(to) = bytes.get_mut(..value.len()) {
            to.copy_from_slice(value);
        }
        (bytes, value.len())
    };
    let values: Vec<_> = (0..dict.len()).map(padded).collect();
    let mut out = vec![0; total + N];
    let offsets = offsets_of(ids, |id, at| {
        let Some((value, len)) = values.get(id) else { return 0 };
        if let Some(to) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>) {
            *to = *value;
        }
        *len
    });
    out.truncate(total);
    (offsets, out)
}

/// The offsets and bytes of all rows, of any length.
fn spell_long<T: ByteArrayType>(
    ids: &UInt32Array,
    dict: &GenericByteArray<T>,
    total: usize,
) -> (OffsetBuffer<T::Offset>, Vec<u8>) {
    let mut out = Vec::with_capacity(total);
    let offsets = offsets_of(ids, |id, _| {
        let value: &[u8] = dict.value(id).as_ref();
        out.extend_from_slice(value);
        value.len()
    });
    (offsets, out)
}

/// Calls `put` with the value of each row that has one and the place where it begins, for its length.
fn offsets_of<O: OffsetSizeTrait>(
    ids: &UInt32Array,
    mut put: impl FnMut(usize, usize) -> usize,
) -> OffsetBuffer<O> {
    let mut at = 0;
    let mut offsets = Vec::with_capacity(ids.len() + 1);
    offsets.push(O::zero());
    let mut next = |id: u32, valid: bool| {
        at += if valid { put(to_len(id), at) } else { 0 };
        O::usize_as(at)
    };
    match ids.nulls() {
        None => offsets.extend(ids.values().iter().map(|id| next(*id, true))),
        Some(nulls) => {
            let rows = ids.values().iter().zip(nulls.iter());
            offsets.extend(rows.map(|(id, valid)| next(*id, valid)));
        }
    }
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

fn to_len(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Offsets of values of these lengths, whose sum is `total`.
pub(super) fn offsets<O: OffsetSizeTrait>(
    lens: &[u32],
    total: usize,
) -> BlockResult<OffsetBuffer<O>> {
    check_offsets::<O>(total)?;
    let mut at = 0usize;
    let mut offsets = Vec::with_capacity(lens.len() + 1);
    offsets.push(O::zero());
    offsets.extend(lens.iter().map(|len| {
        at += usize::try_from(*len).unwrap_or(0);
        O::usize_as(at)
    }));
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

fn check_offsets<O: OffsetSizeTrait>(total: usize) -> BlockResult<()> {
    match O::from_usize(total) {
        Some(_) => Ok(()),
        None => Err(BlockError::Limit {
            what: "bytes under offsets",
            found: total as u64,
            limit: O::MAX_OFFSET as u64,
        }),
    }
}
