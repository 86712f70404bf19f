//! Unions: type ids, and per child its rows.

use arrow::array::AsArray;
use arrow::datatypes::{ArrowNativeType, UnionFields, UnionMode};

use super::parts::{self, Part, push_merged, within};
use super::{BlockError, BlockResult, Body};
use crate::block::sink::Validity;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn union(
        &mut self,
        fields: &UnionFields,
        mode: UnionMode,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        let ids = parts::values(parts, |array| array.as_union().type_ids())?;
        let dense = mode == UnionMode::Dense;
        self.sink.charge(sizes::union_bytes(ids.len(), dense));
        self.sink.put_tag(
            if dense { tags::DENSE } else { tags::SPARSE },
            Validity::AllValid,
            ids.len(),
        );
        self.sink.put_words(&ids, None);
        for (id, field) in fields.iter() {
            let children = if dense {
                dense_child(parts, id)?
            } else {
                let children = parts.iter().map(|part| {
                    let child = part.array.as_union().child(id);
                    Part::new(child.as_ref(), part.rows.clone())
                });
                children.collect()
            };
            self.node(field.data_type(), &children)?;
        }
        Ok(())
    }
}

/// The rows of the child `id` that the rows name, in their order.
fn dense_child<'a>(parts: &[Part<'a>], id: i8) -> BlockResult<Vec<Part<'a>>> {
    let mut children = Vec::new();
    for part in parts {
        let union = part.array.as_union();
        let offsets = union.offsets().ok_or(BlockError::Invalid("dense union without offsets"))?;
        let offsets = within(offsets, &part.rows)?;
        let ids = within(union.type_ids(), &part.rows)?;
        for (_, offset) in ids.iter().zip(offsets).filter(|(found, _)| **found == id) {
            let at = offset.as_usize();
            push_merged(&mut children, union.child(id).as_ref(), at..at + 1);
        }
    }
    Ok(children)
}
