//! Unions.

use std::sync::Arc;

use arrow::array::{ArrayRef, UnionArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, UnionFields, UnionMode};

use super::node;
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::{Nulls, Source, unknown};
use crate::block::{sizes, tags};

pub(super) fn union(
    source: &mut Source<'_>,
    data_type: &DataType,
    (fields, mode): (&UnionFields, UnionMode),
    tag: u8,
    nulls: &Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    let wanted = match mode {
        UnionMode::Sparse => tags::SPARSE,
        UnionMode::Dense => tags::DENSE,
    };
    if tag != wanted || !matches!(nulls, Nulls::None) {
        return Err(unknown(data_type, tag));
    }
    let dense = mode == UnionMode::Dense;
    source.charge(sizes::union_bytes(rows, dense))?;
    let ids = source.words::<i8>(rows)?;
    let (counts, offsets) = positions(fields, &ids)?;
    let mut children = Vec::with_capacity(fields.len());
    for (count, (_, field)) in counts.into_iter().zip(fields.iter()) {
        children.push(node(source, field.data_type(), if dense { count } else { rows })?);
    }
    let offsets = dense.then(|| ScalarBuffer::from(offsets));
    Ok(Arc::new(UnionArray::try_new(fields.clone(), ScalarBuffer::from(ids), offsets, children)?))
}

/// Rows per child, and the position of each row in its child.
fn positions(fields: &UnionFields, ids: &[i8]) -> BlockResult<(Vec<usize>, Vec<i32>)> {
    let mut child_of = [None; 256];
    for (child, (id, _)) in fields.iter().enumerate() {
        if let Some(slot) = child_of.get_mut(usize::from(id.cast_unsigned())) {
            *slot = Some(child);
        }
    }
    let mut counts = vec![0usize; fields.len()];
    let mut offsets = Vec::with_capacity(ids.len());
    for id in ids {
        let child = child_of.get(usize::from(id.cast_unsigned())).copied().flatten();
        let count = child
            .and_then(|child| counts.get_mut(child))
            .ok_or(BlockError::Invalid("type id of a union"))?;
        offsets.push(i32::try_from(*count).map_err(|_| BlockError::Invalid("rows of a union"))?);
        *count += 1;
    }
    Ok((counts, offsets))
}
