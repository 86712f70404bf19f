//! Run-end encoded arrays.

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{ArrowNativeType, DataType};

use super::bytes::lengths;
use super::node;
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::{Nulls, Source, unknown};
use crate::block::{sizes, tags};

pub(super) fn runs(
    source: &mut Source<'_>,
    data_type: &DataType,
    (ends, values): (&DataType, &DataType),
    tag: u8,
    nulls: &Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    if tag != tags::RUNS || !matches!(nulls, Nulls::None) {
        return Err(unknown(data_type, tag));
    }
    let (count, buffer) = match ends {
        DataType::Int16 => run_ends::<i16>(source, rows)?,
        DataType::Int32 => run_ends::<i32>(source, rows)?,
        DataType::Int64 => run_ends::<i64>(source, rows)?,
        _ => return Err(unknown(data_type, tag)),
    };
    let ends = ArrayData::builder(ends.clone()).len(count).add_buffer(buffer).build()?;
    let values = node(source, values, count)?.to_data();
    let data =
        ArrayData::builder(data_type.clone()).len(rows).child_data(vec![ends, values]).build()?;
    Ok(make_array(data))
}

/// The number of runs, and their ends.
fn run_ends<R: ArrowNativeType>(
    source: &mut Source<'_>,
    rows: usize,
) -> BlockResult<(usize, Buffer)> {
    let count = source.count()?;
    if count > rows {
        return Err(BlockError::Invalid("more runs than rows"));
    }
    source.charge(sizes::run_end_bytes::<R>(count))?;
    let (lens, total) = lengths(source, count)?;
    if total != rows || lens.contains(&0) || R::from_usize(rows).is_none() {
        return Err(BlockError::Invalid("run lengths"));
    }
    let mut end = 0usize;
    let ends: Vec<R> = lens
        .iter()
        .map(|len| {
            end += usize::try_from(*len).unwrap_or(0);
            R::usize_as(end)
        })
        .collect();
    Ok((count, Buffer::from_vec(ends)))
}
