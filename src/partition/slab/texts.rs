//! A column of strings or binaries of all partitions, numbered as they come.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    BinaryType, BinaryViewType, DataType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use datafusion::common::Result;

use super::narrow::Missing;
use super::{Part, Take};
use crate::block::{BlockEncoder, Interner};
use crate::partition::blocks::After;
use crate::partition::source::{Rows, SourceColumn};
use crate::partition::stage::StageColumn;

/// Most values that are numbered, so that a number takes two bytes.
const MOST_VALUES: usize = 1 << 16;

/// Most bytes of values that are kept.
const MOST_BYTES: usize = 1 << 20;

/// Slots that may be looked at in vain before that counts against the rows.
const MOST_MISSES: usize = 1024;

/// Rows after which the number of values is judged.
const JUDGED_ROWS: usize = 1024;

/// While values repeat, a row is the number of its value; what comes after they stopped to is staged
/// as it is.
pub(super) struct Texts {
    data_type: DataType,
    interner: Interner,
    rows: usize,
    open: bool,
    /// Bytes of the values that are numbered, by partition as the next three.
    bytes: Vec<usize>,
    ids: Vec<Vec<u16>>,
    missing: Vec<Missing>,
    plain: Vec<StageColumn>,
    /// Bytes of the values that are not numbered.
    plain_bytes: usize,
}

impl Texts {
    /// A column of `data_type`, if that is one of strings or binaries.
    pub(super) fn try_new(data_type: &DataType, partitions: usize) -> Option<Self> {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        let known =
            matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
        known.then(|| Self {
            data_type: data_type.clone(),
            interner: Interner::default(),
            rows: 0,
            open: true,
            bytes: vec![0; partitions],
            ids: vec![Vec::new(); partitions],
            missing: vec![Missing::default(); partitions],
            plain: (0..partitions).map(|_| StageColumn::new(data_type)).collect(),
            plain_bytes: 0,
        })
    }

    pub(super) fn held_bytes(&self) -> usize {
        let plain = |column: &StageColumn| column.column.variable_bytes();
        self.interner.held_bytes()
            + self.ids.iter().map(|ids| 2 * ids.capacity()).sum::<usize>()
            + self.missing.iter().map(Missing::held_bytes).sum::<usize>()
            + self.plain.iter().map(plain).sum::<usize>()
    }

    /// Bytes that `rows` rows of all partitions take, without room that they do not use.
    pub(super) fn used_bytes(&self, rows: usize) -> usize {
        let row = if self.open { size_of::<u16>() } else { size_of::<i32>() };
        self.interner.bytes() + self.plain_bytes + row * rows
    }

    /// Bytes of the values of `partition`.
    pub(super) fn value_bytes(&self, partition: usize) -> usize {
        let plain = self.plain.get(partition).map_or(0, |column| column.column.value_bytes());
        plain + self.bytes.get(partition).copied().unwrap_or(0)
    }

    /// Appends the values of `takes`. `parts` says what their partitions have so far.
    pub(super) fn append(
        &mut self,
        source: &SourceColumn,
        takes: &[Take<'_>],
        parts: &[Part],
    ) -> Result<()> {
        let array = source.array.as_ref();
        for take in takes {
            let before = parts.get(take.partition).map_or(0, |part| part.rows);
            match self.data_type {
                DataType::Utf8 => {
                    let array = array.as_bytes::<Utf8Type>();
                    self.take(source, take, before, |row| array.value(row).as_bytes())?;
                }
                DataType::LargeUtf8 => {
                    let array = array.as_bytes::<LargeUtf8Type>();
                    self.take(source, take, before, |row| array.value(row).as_bytes())?;
                }
                DataType::Utf8View => {
                    let array = array.as_byte_view::<StringViewType>();
                    self.take(source, take, before, |row| array.value(row).as_bytes())?;
                }
                DataType::Binary => {
                    let array = array.as_bytes::<BinaryType>();
                    self.take(source, take, before, |row| array.value(row))?;
                }
                DataType::LargeBinary => {
                    let array = array.as_bytes::<LargeBinaryType>();
                    self.take(source, take, before, |row| array.value(row))?;
                }
                _ => {
                    let array = array.as_byte_view::<BinaryViewType>();
                    self.take(source, take, before, |row| array.value(row))?;
                }
            }
        }
        Ok(())
    }

    fn take<'a>(
        &mut self,
        source: &SourceColumn,
        take: &Take<'_>,
        before: usize,
        value: impl Fn(usize) -> &'a [u8],
    ) -> Result<()> {
        let count = take.rows.len();
        let mut numbered = 0;
        if self.open {
            numbered = match take.rows {
                Rows::Range { start, len } => {
                    self.number(source, take.partition, start..start + len, value)
                }
                Rows::Index(rows) => {
                    let rows = rows.iter().map(|row| *row as usize);
                    self.number(source, take.partition, rows, value)
                }
            };
        }
        let Some(plain) = self.plain.get_mut(take.partition).filter(|_| numbered < count) else {
            return Ok(());
        };
        let ids = self.ids.get(take.partition).map_or(0, Vec::len);
        let staged = (before + numbered).saturating_sub(ids);
        let bytes = plain.column.value_bytes();
        let rest = take.rows.split_at(numbered).1;
        plain.append(source, rest, staged, staged + count - numbered)?;
        self.plain_bytes += plain.column.value_bytes() - bytes;
        Ok(())
    }

    /// Numbers the values of `rows` until they are too many. Returns for how many rows it did.
    #[inline]
    fn number<'a>(
        &mut self,
        source: &SourceColumn,
        partition: usize,
        rows: impl Iterator<Item = usize>,
        value: impl Fn(usize) -> &'a [u8],
    ) -> usize {
        let (Some(ids), Some(missing)) =
            (self.ids.get_mut(partition), self.missing.get_mut(partition))
        else {
            return 0;
        };
        let nulls = source.data.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut numbered = 0;
        let mut bytes = 0;
        for row in rows {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                missing.set(ids.len());
                ids.push(0);
            } else {
                let value = value(row);
                // Values made to collide cost no more than they do without numbers.
                let collide = self.interner.misses() > 8 * (self.rows + numbered) + MOST_MISSES;
                if collide || self.interner.bytes() + value.len() > MOST_BYTES {
                    self.open = false;
                    break;
                }
                let Ok(id) = u16::try_from(self.interner.id_of(value)) else {
                    self.open = false;
                    break;
                };
                bytes += value.len();
                ids.push(id);
            }
            numbered += 1;
        }
        self.bytes.get_mut(partition).into_iter().for_each(|sum| *sum += bytes);
        self.rows += numbered;
        let repeats = self.interner.len() <= self.rows / 2 || self.rows < JUDGED_ROWS;
        self.open &= repeats && self.interner.len() < MOST_VALUES;
        numbered
    }

    /// Appends the `rows` rows of `partition` to the block that `encoder` has begun; none are left.
    pub(super) fn encode(
        &mut self,
        partition: usize,
        rows: usize,
        encoder: &mut BlockEncoder,
        after: After,
    ) -> Result<()> {
        let (Some(ids), Some(plain)) = (self.ids.get_mut(partition), self.plain.get_mut(partition))
        else {
            return Ok(());
        };
        let missing = self.missing.get_mut(partition).map(std::mem::take).unwrap_or_default();
        let mut valid = Vec::new();
        if !missing.is_empty() {
            missing.valid(0, ids.len(), &mut valid);
        }
        let numbered = ids.len();
        self.plain_bytes -= plain.column.value_bytes();
        if numbered == rows {
            encoder.put_interned(&self.data_type, ids, &self.interner, &valid)?;
        } else {
            let rest = plain.finish(&self.data_type, rows - numbered)?;
            if numbered == 0 {
                encoder.put_distinct(&self.data_type, rest.as_ref())?;
            } else {
                self.encode_mixed(partition, &rest, &missing, encoder)?;
            }
        }
        self.ids.get_mut(partition).into_iter().for_each(|ids| after.empty(ids));
        self.bytes.get_mut(partition).into_iter().for_each(|sum| *sum = 0);
        Ok(())
    }

    /// Rows that are numbered, followed by those of `rest`.
    fn encode_mixed<'a>(
        &'a self,
        partition: usize,
        rest: &'a ArrayRef,
        missing: &Missing,
        encoder: &mut BlockEncoder,
    ) -> Result<()> {
        let ids = self.ids.get(partition).map_or(&[][..], Vec::as_slice);
        let mut missing = missing.clone();
        let mut values: Vec<&'a [u8]> = Vec::with_capacity(ids.len() + rest.len());
        values.extend(ids.iter().map(|id| self.interner.value(usize::from(*id))));
        let count = rest.len();
        let rest_of: Box<dyn Fn(usize) -> &'a [u8] + 'a> = match self.data_type {
            DataType::Utf8 => Box::new(|row| rest.as_string::<i32>().value(row).as_bytes()),
            DataType::LargeUtf8 => Box::new(|row| rest.as_string::<i64>().value(row).as_bytes()),
            DataType::Utf8View => Box::new(|row| rest.as_string_view().value(row).as_bytes()),
            DataType::Binary => Box::new(|row| rest.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Box::new(|row| rest.as_binary::<i64>().value(row)),
            _ => Box::new(|row| rest.as_binary_view().value(row)),
        };
        values.extend((0..count).map(rest_of));
        for row in (0..rest.len()).filter(|row| rest.is_null(*row)) {
            missing.set(ids.len() + row);
        }
        let mut valid = Vec::new();
        if !missing.is_empty() {
            missing.valid(0, values.len(), &mut valid);
        }
        Ok(encoder.put_scattered(&self.data_type, &values, &valid)?)
    }
}
