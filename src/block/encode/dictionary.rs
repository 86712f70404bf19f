//! Dictionary arrays: keys renumbered over the values that are used.

use std::ops::Range;

use arrow::array::{Array, ArrowNativeTypeOp, AsArray};
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::parts::{Part, push_merged, row_count, within};
use super::{BlockError, BlockResult, Body};
use crate::block::sink::is_valid;
use crate::block::tags;
use crate::block::word::Word;

impl Body {
    pub(super) fn dictionary(
        &mut self,
        key: &DataType,
        value: &DataType,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        match key {
            DataType::Int8 => self.keyed::<Int8Type>(value, parts),
            DataType::Int16 => self.keyed::<Int16Type>(value, parts),
            DataType::Int32 => self.keyed::<Int32Type>(value, parts),
            DataType::Int64 => self.keyed::<Int64Type>(value, parts),
            DataType::UInt8 => self.keyed::<UInt8Type>(value, parts),
            DataType::UInt16 => self.keyed::<UInt16Type>(value, parts),
            DataType::UInt32 => self.keyed::<UInt32Type>(value, parts),
            DataType::UInt64 => self.keyed::<UInt64Type>(value, parts),
            other => Err(BlockError::Schema(format!("{other} is not a dictionary key"))),
        }
    }

    fn keyed<K: ArrowDictionaryKeyType<Native: Word>>(
        &mut self,
        value: &DataType,
        parts: &[Part<'_>],
    ) -> BlockResult<()> {
        let rows = row_count(parts);
        self.sink.charge(rows.saturating_mul(size_of::<K::Native>()));
        let used = self.with_validity(parts, |this, validity| {
            if !this.open(tags::DICTIONARY, validity, rows) {
                return Ok(None);
            }
            let mask = validity.mask();
            let (used, keys) = renumber::<K>(parts, mask, rows)?;
            this.sink.put_varint(row_count(&used) as u64);
            this.sink.put_words(&keys, mask);
            Ok::<_, BlockError>(Some(used))
        })?;
        used.map_or(Ok(()), |used| self.node(value, &used))
    }
}

/// The values that valid keys name, and keys of those; null rows have key 0.
fn renumber<'a, K: ArrowDictionaryKeyType>(
    parts: &[Part<'a>],
    mask: Option<&[u64]>,
    rows: usize,
) -> BlockResult<(Vec<Part<'a>>, Vec<K::Native>)> {
    let mut values = Vec::new();
    let mut keys = vec![K::Native::default(); rows];
    // Parts that share their values are numbered together.
    let mut start = 0;
    let mut first_row = 0;
    let mut base = 0;
    while let Some(first) = parts.get(start) {
        let dictionary = first.array.as_dictionary::<K>().values();
        let same = |part: &&Part<'_>| {
            let other = part.array.as_dictionary::<K>().values();
            std::ptr::addr_eq(dictionary.as_ref(), other.as_ref())
        };
        let group: Vec<&Part<'a>> = parts.iter().skip(start).take_while(same).collect();
        let group_rows = group.iter().map(|part| part.rows.len()).sum();
        let mut old = Vec::with_capacity(group_rows);
        for part in &group {
            old.extend_from_slice(within(
                part.array.as_dictionary::<K>().keys().values(),
                &part.rows,
            )?);
        }
        let valid = |i: &usize| is_valid(mask, first_row + i);
        let numbers = Numbers::new(&old, valid, dictionary.len())?;
        if let Some(out) = keys.get_mut(first_row..first_row + group_rows) {
            for (_, (to, key)) in out.iter_mut().zip(&old).enumerate().filter(|(i, _)| valid(i)) {
                let new = K::Native::from_usize(base + numbers.of(key.as_usize()));
                *to = new.ok_or(BlockError::Limit {
                    what: "dictionary values",
                    found: (base + numbers.used.len()) as u64,
                    limit: K::Native::MAX_TOTAL_ORDER.as_usize() as u64,
                })?;
            }
        }
        base += numbers.used.len();
        numbers.ranges().for_each(|range| push_merged(&mut values, dictionary.as_ref(), range));
        start += group.len();
        first_row += group_rows;
    }
    Ok((values, keys))
}

/// New numbers of the values that some keys use.
struct Numbers {
    /// Used values, ascending; the position is the new number.
    used: Vec<usize>,
    /// New number per value, where the dictionary is not much larger than the rows.
    direct: Vec<u32>,
}

impl Numbers {
    fn new<K: ArrowNativeType>(
        keys: &[K],
        valid: impl Fn(&usize) -> bool,
        values: usize,
    ) -> BlockResult<Self> {
        let keys = keys.iter().enumerate().filter(|(i, _)| valid(i)).map(|(_, key)| key.as_usize());
        if values > keys.size_hint().1.unwrap_or(0).saturating_mul(64) {
            let mut used: Vec<usize> = keys.collect();
            used.sort_unstable();
            used.dedup();
            return Ok(Self { used, direct: Vec::new() });
        }
        let mut direct = vec![0u32; values];
        for key in keys {
            *direct.get_mut(key).ok_or(BlockError::Invalid("dictionary key"))? = 1;
        }
        let mut used = Vec::new();
        for (value, slot) in direct.iter_mut().enumerate().filter(|(_, slot)| **slot == 1) {
            *slot =
                u32::try_from(used.len()).map_err(|_| BlockError::Invalid("dictionary values"))?;
            used.push(value);
        }
        Ok(Self { used, direct })
    }

    fn of(&self, value: usize) -> usize {
        match self.direct.get(value) {
            Some(new) => usize::try_from(*new).unwrap_or(usize::MAX),
            None => self.used.binary_search(&value).unwrap_or(usize::MAX),
        }
    }

    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.used.iter().map(|value| *value..*value + 1)
    }
}
