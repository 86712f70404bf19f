//! The paged layout.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::ipc::convert::{IpcSchemaEncoder, fb_to_schema};
use arrow::ipc::root_as_schema;
use arrow::ipc::writer::DictionaryTracker;

use super::super::segment::StoredSegment;
use super::OutputHead;
use crate::block::schema_fingerprint;
use crate::codec::{Codec, to_u64};
use crate::error::{Fault, IFileError, Place, Result};
use crate::map_status::{AttemptId, PartitionFunction, Placement};
use crate::wire::Cursor;

const MAGIC: [u8; 4] = *b"IFMO";
const VERSION: u16 = 1;
const SORTED: u16 = 1;

const CRC_AT: usize = 124;
pub(super) const FIXED_BYTES: usize = CRC_AT + 4;
const DIRECTORY_ENTRY_BYTES: usize = 16;
const SEGMENT_BYTES: usize = 40;
/// Partitions of a page.
pub(super) const PAGE_PARTITIONS: usize = 64;
const _: () = assert!(FIXED_BYTES == 128 && SEGMENT_BYTES == 4 * 8 + 2 * 4);

/// Most bytes of a schema.
const MOST_SCHEMA: u32 = 16 << 20;

pub(super) fn put_ifile(
    head: &OutputHead,
    partitions: &[Vec<StoredSegment>],
    out: &mut Vec<u8>,
) -> Result<()> {
    let fits = |len: usize| {
        u32::try_from(len).map_err(|_| IFileError::Usage("index more than 2^32 of anything"))
    };
    let mut dictionaries = DictionaryTracker::new(false);
    let mut encoder = IpcSchemaEncoder::new().with_dictionary_tracker(&mut dictionaries);
    let schema = encoder.schema_to_fb(&head.schema);
    let schema = schema.finished_data();
    let pages: Vec<Vec<u8>> =
        partitions.chunks(PAGE_PARTITIONS).map(put_page).collect::<Result<_>>()?;
    let mut variable = schema.to_vec();
    let mut offset = to_u64(FIXED_BYTES + schema.len() + pages.len() * DIRECTORY_ENTRY_BYTES);
    for page in &pages {
        variable.extend_from_slice(&offset.to_le_bytes());
        variable.extend_from_slice(&fits(page.len())?.to_le_bytes());
        variable.extend_from_slice(&crc32fast::hash(page).to_le_bytes());
        offset += to_u64(page.len());
    }
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(if head.sorted { SORTED } else { 0 }).to_le_bytes());
    out.extend_from_slice(&head.attempt_id.0);
    out.extend_from_slice(&head.map_id.to_le_bytes());
    out.extend_from_slice(&head.epoch.to_le_bytes());
    out.extend_from_slice(&head.attempt.to_le_bytes());
    out.extend_from_slice(&fits(partitions.len())?.to_le_bytes());
    out.extend_from_slice(&head.schema_fingerprint.to_le_bytes());
    out.extend_from_slice(&[head.placement.function.wire_id(), head.codec.wire_id(), 0, 0]);
    out.extend_from_slice(&fits(pages.len())?.to_le_bytes());
    out.extend_from_slice(&head.placement.seed.to_le_bytes());
    out.extend_from_slice(&head.data_length.to_le_bytes());
    out.extend_from_slice(&head.data_crc.to_le_bytes());
    out.extend_from_slice(&fits(schema.len())?.to_le_bytes());
    let segments: usize = partitions.iter().map(Vec::len).sum();
    out.extend_from_slice(&to_u64(segments).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&variable).to_le_bytes());
    out.extend_from_slice(&[0; 24]);
    let crc = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
    out.append(&mut variable);
    pages.iter().for_each(|page| out.extend_from_slice(page));
    Ok(())
}

fn put_page(partitions: &[Vec<StoredSegment>]) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    for segments in partitions {
        let count = u32::try_from(segments.len())
            .map_err(|_| IFileError::Usage("index more than 2^32 segments of a partition"))?;
        page.extend_from_slice(&count.to_le_bytes());
    }
    for segment in partitions.iter().flatten() {
        for field in [segment.offset, segment.stored, segment.raw, segment.rows] {
            page.extend_from_slice(&field.to_le_bytes());
        }
        page.extend_from_slice(&segment.run.to_le_bytes());
        page.extend_from_slice(&segment.crc32.to_le_bytes());
    }
    Ok(page)
}

/// The fixed part of a head, its checksum compared.
pub(super) struct Fixed {
    flags: u16,
    attempt_id: AttemptId,
    map_id: u64,
    epoch: u64,
    attempt: u32,
    partitions: u32,
    schema_fingerprint: u64,
    function: PartitionFunction,
    codec: Codec,
    pages: u32,
    seed: u64,
    data_length: u64,
    data_crc: u32,
    schema_len: u32,
    variable_crc: u32,
}

pub(super) fn take_fixed(bytes: &[u8; FIXED_BYTES], place: Place) -> Result<Fixed> {
    let start = place.clone();
    let what = "head of a map output index";
    let mut cursor = Cursor::new(bytes, place);
    let unknown =
        |what, found: u64| IFileError::corrupt(Fault::UnknownTag { what, found }, start.clone());
    let magic = cursor.array::<4>(what)?;
    if magic != MAGIC {
        return Err(unknown("map output index", u64::from(u32::from_be_bytes(magic))));
    }
    let version = cursor.u16_le(what)?;
    let flags = cursor.u16_le(what)?;
    let attempt_id = AttemptId(cursor.array(what)?);
    let (map_id, epoch) = (cursor.u64_le(what)?, cursor.u64_le(what)?);
    let (attempt, partitions) = (cursor.u32_le(what)?, cursor.u32_le(what)?);
    let schema_fingerprint = cursor.u64_le(what)?;
    let (function, codec, reserved) = (cursor.u8(what)?, cursor.u8(what)?, cursor.u16_le(what)?);
    let pages = cursor.u32_le(what)?;
    let (seed, data_length) = (cursor.u64_le(what)?, cursor.u64_le(what)?);
    let (data_crc, schema_len) = (cursor.u32_le(what)?, cursor.u32_le(what)?);
    let _segments = cursor.u64_le(what)?;
    let variable_crc = cursor.u32_le(what)?;
    let zeros = cursor.take(24, what)?.iter().all(|byte| *byte == 0);
    let found = cursor.u32_le(what)?;
    let expected = crc32fast::hash(bytes.get(..CRC_AT).unwrap_or_default());
    if found != expected {
        return Err(IFileError::corrupt(Fault::Checksum { expected, found }, start));
    }
    if version != VERSION || flags & !SORTED != 0 || reserved != 0 || !zeros {
        return Err(unknown("version of a map output index", u64::from(version)));
    }
    let wanted = partitions.div_ceil(to_u32(PAGE_PARTITIONS));
    if pages != wanted || schema_len > MOST_SCHEMA {
        let (expected, found) = (u64::from(wanted), u64::from(pages));
        let fault = Fault::Invalid { what: "pages of a map output index", expected, found };
        return Err(IFileError::corrupt(fault, start));
    }
    let function =
        PartitionFunction::from_wire_id(function).map_err(|error| error.or_place(&start))?;
    let codec = Codec::from_wire_id(codec).map_err(|error| error.or_place(&start))?;
    Ok(Fixed {
        flags,
        attempt_id,
        map_id,
        epoch,
        attempt,
        partitions,
        schema_fingerprint,
        function,
        codec,
        pages,
        seed,
        data_length,
        data_crc,
        schema_len,
        variable_crc,
    })
}

fn to_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn to_usize(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// A page's place in the index file.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageEntry {
    pub(super) offset: u64,
    pub(super) length: usize,
    crc32: u32,
}

/// Where the pages are.
#[derive(Debug)]
pub(super) struct Directory {
    pages: Vec<PageEntry>,
}

impl Directory {
    pub(super) fn page(&self, number: usize) -> Option<PageEntry> {
        self.pages.get(number).copied()
    }
}

impl Fixed {
    /// Bytes of schema and page directory.
    pub(super) fn variable_bytes(&self) -> usize {
        to_usize(self.schema_len)
            .saturating_add(to_usize(self.pages).saturating_mul(DIRECTORY_ENTRY_BYTES))
    }

    /// Head and directory, from schema and directory as they are in an index of `len` bytes whose layout begins at
    /// `base`.
    pub(super) fn finish(
        self,
        bytes: &[u8],
        base: u64,
        len: u64,
        place: Place,
    ) -> Result<(OutputHead, Directory)> {
        let expected = crc32fast::hash(bytes);
        if expected != self.variable_crc {
            let fault = Fault::Checksum { expected, found: self.variable_crc };
            return Err(IFileError::corrupt(fault, place));
        }
        let mut cursor = Cursor::new(bytes, place.clone());
        let schema = take_schema(cursor.take(to_usize(self.schema_len), "schema")?, &place)?;
        let found = schema_fingerprint(&schema);
        if found != self.schema_fingerprint {
            let (what, expected) =
                ("fingerprint of a map output's schema", self.schema_fingerprint);
            let fault = Fault::Invalid { what, expected, found };
            return Err(IFileError::corrupt(fault, place));
        }
        let mut pages = Vec::with_capacity(cursor.remaining() / DIRECTORY_ENTRY_BYTES);
        while cursor.remaining() > 0 {
            let at = cursor.place().clone();
            let offset = cursor.u64_le("page offset")?.saturating_add(base);
            let length = cursor.u32_le("page length")?;
            let crc32 = cursor.u32_le("page checksum")?;
            let end = offset.saturating_add(u64::from(length));
            if end > len {
                let fault = Fault::RangeOutsideFile { limit: len, found: end };
                return Err(IFileError::corrupt(fault, at));
            }
            pages.push(PageEntry { offset, length: to_usize(length), crc32 });
        }
        let head = OutputHead {
            attempt_id: self.attempt_id,
            map_id: self.map_id,
            attempt: self.attempt,
            epoch: self.epoch,
            schema_fingerprint: self.schema_fingerprint,
            placement: Placement {
                function: self.function,
                seed: self.seed,
                count: self.partitions,
            },
            codec: self.codec,
            sorted: self.flags & SORTED != 0,
            data_length: self.data_length,
            data_crc: self.data_crc,
            schema: Arc::new(schema),
        };
        Ok((head, Directory { pages }))
    }
}

fn take_schema(bytes: &[u8], place: &Place) -> Result<Schema> {
    // Arrow verifies the buffer, but panics on enum values that it does not know.
    let parse = || root_as_schema(bytes).ok().map(fb_to_schema);
    let parsed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(parse));
    parsed.ok().flatten().ok_or_else(|| {
        let fault = Fault::Invalid { what: "schema of a map output", expected: 1, found: 0 };
        IFileError::corrupt(fault, place.clone())
    })
}

/// The segments of a page's partitions, held against the data's length and each other.
pub(super) fn take_page(
    bytes: &[u8],
    entry: &PageEntry,
    number: usize,
    head: &OutputHead,
    place: &Place,
) -> Result<Vec<Vec<StoredSegment>>> {
    let expected = crc32fast::hash(bytes);
    if expected != entry.crc32 {
        let fault = Fault::Checksum { expected, found: entry.crc32 };
        return Err(IFileError::corrupt(fault, place.clone()));
    }
    let first = number.saturating_mul(PAGE_PARTITIONS);
    let count = to_usize(head.placement.count).saturating_sub(first).min(PAGE_PARTITIONS);
    let mut counts = Cursor::new(bytes, place.clone());
    let mut entries = counts.clone();
    entries.take(count * 4, "counts of segments")?;
    let mut page = Vec::with_capacity(count);
    let mut end = None;
    for at in 0..count {
        let partition = u32::try_from(first + at).ok();
        let segments = to_usize(counts.u32_le("count of segments")?);
        if segments > entries.remaining() / SEGMENT_BYTES {
            let (limit, found) = (to_u64(entries.remaining() / SEGMENT_BYTES), to_u64(segments));
            let what = "segments of a page";
            return Err(entries.error(Fault::Invalid { what, expected: limit, found }));
        }
        let mut all = Vec::with_capacity(segments);
        for _ in 0..segments {
            let place = Place { partition, ..entries.place().clone() };
            let segment = take_segment(&mut entries)?;
            // Segments follow one another without gaps, in the page and in the file.
            let expected = end.unwrap_or(segment.offset);
            if segment.offset != expected {
                let fault = Fault::RangeGap { expected, found: segment.offset };
                return Err(IFileError::corrupt(fault, place));
            }
            if segment.end() > head.data_length {
                let fault =
                    Fault::RangeOutsideFile { limit: head.data_length, found: segment.end() };
                return Err(IFileError::corrupt(fault, place));
            }
            end = Some(segment.end());
            all.push(segment);
        }
        page.push(all);
    }
    if entries.remaining() > 0 {
        let fault = Fault::TrailingBytes { after: "page", found: to_u64(entries.remaining()) };
        return Err(entries.error(fault));
    }
    Ok(page)
}

fn take_segment(cursor: &mut Cursor<'_>) -> Result<StoredSegment> {
    Ok(StoredSegment {
        offset: cursor.u64_le("segment offset")?,
        stored: cursor.u64_le("stored length")?,
        raw: cursor.u64_le("raw length")?,
        rows: cursor.u64_le("rows")?,
        run: cursor.u32_le("run")?,
        crc32: cursor.u32_le("segment checksum")?,
    })
}
