//! Dictionary arrays: keys renumbered over the values that are used.

use std::ops::Range;

use arrow::array::{Array, AsArray, DictionaryArray};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use super::leaf::within;
use super::{BlockError, BlockResult, Body};
use crate::block::sink::{Validity, is_valid};
use crate::block::word::Word;
use crate::block::{sizes, tags};

impl Body {
    pub(super) fn dictionary(
        &mut self,
        array: &dyn Array,
        key: &DataType,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        match key {
            DataType::Int8 => self.keyed(array.as_dictionary::<Int8Type>(), rows),
            DataType::Int16 => self.keyed(array.as_dictionary::<Int16Type>(), rows),
            DataType::Int32 => self.keyed(array.as_dictionary::<Int32Type>(), rows),
            DataType::Int64 => self.keyed(array.as_dictionary::<Int64Type>(), rows),
            DataType::UInt8 => self.keyed(array.as_dictionary::<UInt8Type>(), rows),
            DataType::UInt16 => self.keyed(array.as_dictionary::<UInt16Type>(), rows),
            DataType::UInt32 => self.keyed(array.as_dictionary::<UInt32Type>(), rows),
            DataType::UInt64 => self.keyed(array.as_dictionary::<UInt64Type>(), rows),
            other => Err(BlockError::Schema(format!("{other} is not a dictionary key"))),
        }
    }

    fn keyed<K: ArrowDictionaryKeyType<Native: Word>>(
        &mut self,
        array: &DictionaryArray<K>,
        rows: Range<usize>,
    ) -> BlockResult<()> {
        let keys = within(array.keys().values(), &rows)?;
        self.sink.charge(sizes::null_leaf_bytes(array.data_type(), rows.len()));
        let used = self.with_validity(array.keys().nulls(), &rows, |this, validity| {
            if rows.is_empty() || matches!(validity, Validity::AllNull) {
                this.sink.put_tag(tags::EMPTY, validity, rows.len());
                return Ok(None);
            }
            let mask = validity.mask();
            let (used, keys) = renumber(keys, mask, array.values().len())?;
            this.sink.put_tag(tags::DICTIONARY, validity, rows.len());
            this.sink.put_varint(used.iter().map(Range::len).sum::<usize>() as u64);
            this.sink.put_words(&keys, mask);
            Ok::<_, BlockError>(Some(used))
        })?;
        used.map_or(Ok(()), |used| self.gathered(array.values().as_ref(), &used))
    }
}

/// Ranges of the values that valid keys name, ascending, and the keys within those; null rows keep key 0.
fn renumber<K: Word>(
    keys: &[K],
    mask: Option<&[u64]>,
    values: usize,
) -> BlockResult<(Vec<Range<usize>>, Vec<K>)> {
    let valid = || keys.iter().enumerate().filter(|(i, _)| is_valid(mask, *i));
    let mut used: Vec<usize> = Vec::new();
    if values <= keys.len().saturating_mul(64) {
        let mut seen = vec![false; values];
        for (_, key) in valid() {
            *seen.get_mut(key.as_usize()).ok_or(BlockError::Invalid("dictionary key"))? = true;
        }
        used.extend(seen.iter().enumerate().filter(|(_, seen)| **seen).map(|(value, _)| value));
    } else {
        used.extend(valid().map(|(_, key)| key.as_usize()));
        used.sort_unstable();
        used.dedup();
    }
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for value in &used {
        match ranges.last_mut() {
            Some(last) if last.end == *value => last.end += 1,
            _ => ranges.push(*value..value + 1),
        }
    }
    let mut renumbered = vec![K::default(); keys.len()];
    match ranges.as_slice() {
        // One range: a key moves down by its start.
        [one] => {
            for (i, key) in valid() {
                if let Some(to) = renumbered.get_mut(i) {
                    *to = K::usize_as(key.as_usize() - one.start);
                }
            }
        }
        _ => {
            let mut new =
                vec![0usize; if values <= keys.len().saturating_mul(64) { values } else { 0 }];
            for (id, value) in used.iter().enumerate() {
                if let Some(to) = new.get_mut(*value) {
                    *to = id;
                }
            }
            for (i, key) in valid() {
                let key = key.as_usize();
                let id = new.get(key).copied().or_else(|| used.binary_search(&key).ok());
                if let (Some(to), Some(id)) = (renumbered.get_mut(i), id) {
                    *to = K::usize_as(id);
                }
            }
        }
    }
    Ok((ranges, renumbered))
}
