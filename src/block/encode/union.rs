//! Unions: type ids, and per child its rows.

use std::ops::Range;

use arrow::array::UnionArray;
use arrow::datatypes::{ArrowNativeType, UnionFields};

use super::leaf::within;
use super::{BlockResult, Body};
use crate::block::sink::Validity;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn union(
        &mut self,
        array: &UnionArray,
        fields: &UnionFields,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let ids = within(array.type_ids(), &rows)?;
        let Some(offsets) = array.offsets() else {
            self.sink.charge(sizes::union_bytes(rows.len(), false));
            self.sink.put_tag(tags::SPARSE, Validity::AllValid, rows.len());
            self.sink.put_words(ids, None);
            return fields
                .iter()
                .try_for_each(|(id, _)| self.node(array.child(id).as_ref(), rows.clone()));
        };
        let offsets = within(offsets, &rows)?;
        self.sink.charge(sizes::union_bytes(rows.len(), true));
        self.sink.put_tag(tags::DENSE, Validity::AllValid, rows.len());
        self.sink.put_words(ids, None);
        for (id, _) in fields.iter() {
            let mut ranges: Vec<Range<usize>> = Vec::new();
            for (_, offset) in ids.iter().zip(offsets).filter(|(found, _)| **found == id) {
                let at = offset.as_usize();
                match ranges.last_mut() {
                    Some(last) if last.end == at => last.end += 1,
                    _ => ranges.push(at..at + 1),
                }
            }
            self.gathered(array.child(id).as_ref(), &ranges)?;
        }
        Ok(())
    }
}
