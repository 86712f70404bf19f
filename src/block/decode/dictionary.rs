//! Dictionary arrays.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use super::node;
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::{Nulls, Source, unknown};
use crate::block::word::Word;
use crate::block::{sizes, tags};

pub(super) fn dictionary(
    source: &mut Source<'_>,
    data_type: &DataType,
    (key, value): (&DataType, &DataType),
    tag: u8,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    if tag != tags::DICTIONARY {
        return Err(unknown(data_type, tag));
    }
    source.charge(sizes::null_leaf_bytes(data_type, rows))?;
    match key {
        DataType::Int8 => keyed::<Int8Type>(source, value, nulls, rows),
        DataType::Int16 => keyed::<Int16Type>(source, value, nulls, rows),
        DataType::Int32 => keyed::<Int32Type>(source, value, nulls, rows),
        DataType::Int64 => keyed::<Int64Type>(source, value, nulls, rows),
        DataType::UInt8 => keyed::<UInt8Type>(source, value, nulls, rows),
        DataType::UInt16 => keyed::<UInt16Type>(source, value, nulls, rows),
        DataType::UInt32 => keyed::<UInt32Type>(source, value, nulls, rows),
        DataType::UInt64 => keyed::<UInt64Type>(source, value, nulls, rows),
        _ => Err(unknown(data_type, tag)),
    }
}

fn keyed<K: ArrowDictionaryKeyType<Native: Word>>(
    source: &mut Source<'_>,
    value: &DataType,
    nulls: Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    let used = source.count()?;
    if used > rows {
        return Err(BlockError::Invalid("more distinct values than rows"));
    }
    let keys = source.words::<K::Native>(rows)?;
    let values = node(source, value, used)?;
    let keys = PrimitiveArray::<K>::try_new(ScalarBuffer::from(keys), nulls.buffer(rows))?;
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}
