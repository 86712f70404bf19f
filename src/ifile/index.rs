//! The spill index: where each partition's segment lies in a data file.

use super::header::{EMPTY_RAW_LENGTH, MIN_PART_LENGTH, SegmentSummary};
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::wire::Cursor;
use std::sync::Arc;

/// Bytes of an entry.
pub const INDEX_ENTRY_BYTES: usize = 24;

/// Bytes behind the entries.
pub const INDEX_TRAILER_BYTES: usize = 8;

const _: () = assert!(INDEX_ENTRY_BYTES == 3 * size_of::<i64>());
const _: () = assert!(INDEX_TRAILER_BYTES == size_of::<i64>());

/// One partition's segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexEntry {
    /// Offset of its header in the data file.
    pub start_offset: u64,
    /// 4 and the bytes of its record stream; 0 if there is no segment.
    pub raw_length: u64,
    /// Its stored bytes, header and checksum included; 0 if there is no segment.
    pub part_length: u64,
}

impl IndexEntry {
    /// The entry of a partition without a segment.
    pub const EMPTY: Self = Self { start_offset: 0, raw_length: 0, part_length: 0 };

    /// The entry of a segment that begins at `start_offset`.
    pub fn of(start_offset: u64, summary: &SegmentSummary) -> Self {
        Self { start_offset, raw_length: summary.raw_length, part_length: summary.part_length }
    }

    /// Whether there is a segment to read. It may be one without records.
    pub fn has_segment(&self) -> bool {
        self.part_length > 0
    }

    /// Whether the partition has records.
    pub fn has_records(&self) -> bool {
        self.raw_length > EMPTY_RAW_LENGTH
    }

    /// End of the segment in the data file.
    pub fn end_offset(&self) -> u64 {
        self.start_offset.saturating_add(self.part_length)
    }
}

/// A spill index whose entries agree with its data file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpillIndex {
    entries: Vec<IndexEntry>,
}

impl SpillIndex {
    /// An index to write.
    pub fn new(entries: Vec<IndexEntry>) -> Self {
        Self { entries }
    }

    /// One entry per partition, in order.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Appends the index as a file's bytes.
    ///
    /// # Errors
    /// [`IFileError::Usage`] for an offset or length beyond 63 bits.
    pub fn encode(&self, dst: &mut Vec<u8>) -> Result<()> {
        let start = dst.len();
        for entry in &self.entries {
            for field in [entry.start_offset, entry.raw_length, entry.part_length] {
                let field = i64::try_from(field)
                    .map_err(|_| IFileError::Usage("index an offset beyond 63 bits"))?;
                dst.extend_from_slice(&field.to_be_bytes());
            }
        }
        let crc = crc32fast::hash(dst.get(start..).unwrap_or_default());
        dst.extend_from_slice(&i64::from(crc).to_be_bytes());
        Ok(())
    }
}

/// A spill index whose checksum is right, but whose entries have not been held against anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncheckedIndex {
    fields: Vec<[i64; 3]>,
    file: Option<Arc<str>>,
}

impl UncheckedIndex {
    /// Reads the bytes of an index file. `file` names it in errors.
    ///
    /// # Errors
    /// If the size is not that of an index, or the checksum does not agree.
    pub fn parse(bytes: &[u8], file: Option<&str>) -> Result<Self> {
        let file: Option<Arc<str>> = file.map(Into::into);
        let place = |offset| Place { file: file.clone(), partition: None, offset };
        let size = bytes.len();
        let spare = size.checked_sub(INDEX_TRAILER_BYTES).map(|all| all % INDEX_ENTRY_BYTES);
        if spare != Some(0) {
            let expected = to_u64(size.saturating_sub(spare.unwrap_or(0)).max(INDEX_TRAILER_BYTES));
            let fault = Fault::IndexLength { expected, found: to_u64(size) };
            return Err(IFileError::corrupt(fault, place(to_u64(size).min(expected))));
        }
        let mut cursor = Cursor::new(bytes, place(0));
        let covered = cursor.take(size - INDEX_TRAILER_BYTES, "index entries")?;
        let mut trailer = cursor.clone();
        let found = cursor.i64_be("index checksum")?;
        let expected = crc32fast::hash(covered);
        if found != i64::from(expected) {
            let high = trailer.u32_be("index checksum")?;
            let low = trailer.u32_be("index checksum")?;
            let fault = if high == 0 {
                Fault::Checksum { expected, found: low }
            } else {
                let what = "high word of the index checksum";
                Fault::Invalid { what, expected: 0, found: u64::from(high) }
            };
            return Err(IFileError::corrupt(fault, place(to_u64(covered.len()))));
        }
        let mut fields = Vec::with_capacity(covered.len() / INDEX_ENTRY_BYTES);
        let mut entries = Cursor::new(covered, place(0));
        while entries.remaining() > 0 {
            let start = entries.i64_be("start offset")?;
            let raw = entries.i64_be("raw length")?;
            let part = entries.i64_be("stored length")?;
            fields.push([start, raw, part]);
        }
        Ok(Self { fields, file })
    }

    /// Partitions.
    pub fn partitions(&self) -> usize {
        self.fields.len()
    }

    /// Holds every entry against the size of the data file, and against its neighbours: segments lie
    /// within the file, in the order of their partitions, and share no bytes.
    ///
    /// # Errors
    /// If an entry cannot describe a segment there. The place is that of the entry in the index.
    pub fn validate(self, data_len: u64) -> Result<SpillIndex> {
        let mut entries = Vec::with_capacity(self.fields.len());
        let mut end = 0;
        for (partition, &[start, raw, part]) in self.fields.iter().enumerate() {
            let entry = check_entry([start, raw, part], end, data_len).map_err(|fault| {
                let place = Place {
                    file: self.file.clone(),
                    partition: u32::try_from(partition).ok(),
                    offset: to_u64(partition).saturating_mul(to_u64(INDEX_ENTRY_BYTES)),
                };
                IFileError::corrupt(fault, place)
            })?;
            if entry.has_segment() {
                end = entry.end_offset();
            }
            entries.push(entry);
        }
        Ok(SpillIndex { entries })
    }
}

fn check_entry([start, raw, part]: [i64; 3], end: u64, data_len: u64) -> Result<IndexEntry, Fault> {
    let implausible = Fault::IndexEntry { start, raw, part };
    let (Ok(start_offset), Ok(raw_length), Ok(part_length)) =
        (u64::try_from(start), u64::try_from(raw), u64::try_from(part))
    else {
        return Err(implausible);
    };
    let entry = IndexEntry { start_offset, raw_length, part_length };
    if raw_length == 0 && part_length == 0 {
        return Ok(entry);
    }
    if raw_length < EMPTY_RAW_LENGTH || part_length <= MIN_PART_LENGTH {
        return Err(implausible);
    }
    if entry.end_offset() > data_len {
        return Err(Fault::RangeOutsideFile { limit: data_len, found: entry.end_offset() });
    }
    if start_offset < end {
        return Err(Fault::RangeOverlap { expected: end, found: start_offset });
    }
    Ok(entry)
}
