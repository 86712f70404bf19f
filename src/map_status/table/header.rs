//! The fixed head of a table, and its directory.

use super::super::status_bytes::{CHECKSUMS, EXACT, MEMORY, ROWS, SEGMENTS, SHARED};
use crate::codec::{Codec, Decompressor, to_u64};
use crate::error::{Fault, IFileError, Place, Result};
use crate::wire::Cursor;

pub(super) const MAGIC: [u8; 4] = *b"IFST";
pub(super) const VERSION: u16 = 1;

const DIRECTORY_CRC_AT: usize = 56;
const CRC_AT: usize = DIRECTORY_CRC_AT + 4;
pub(super) const HEADER_BYTES: usize = CRC_AT + 4;
pub(super) const ENTRY_BYTES: usize = 24;
const _: () = assert!(HEADER_BYTES == 64 && ENTRY_BYTES == 8 + 8 + 4 + 4);

/// The most bytes that one stored byte of a Zstandard frame stands for: 128 KiB blocks of 4 bytes.
const MOST_RATIO: u64 = 32 * 1024;

/// Where a section is and what it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Section {
    /// Offset in the table.
    pub(super) offset: u64,
    pub(super) stored: u64,
    pub(super) raw: u64,
    pub(super) crc32: u32,
    pub(super) codec: u32,
}

impl Section {
    pub(super) fn put(&self, dst: &mut Vec<u8>) {
        dst.extend_from_slice(&self.stored.to_le_bytes());
        dst.extend_from_slice(&self.raw.to_le_bytes());
        dst.extend_from_slice(&self.crc32.to_le_bytes());
        dst.extend_from_slice(&self.codec.to_le_bytes());
    }

    /// Takes an entry whose section begins at `offset`.
    pub(super) fn take(cursor: &mut Cursor<'_>, offset: u64) -> Result<Self> {
        let section = Self {
            offset,
            stored: cursor.u64_le("stored length")?,
            raw: cursor.u64_le("raw length")?,
            crc32: cursor.u32_le("section checksum")?,
            codec: cursor.u32_le("section codec")?,
        };
        let most = match section.codec {
            0 => section.stored,
            _ => section.stored.saturating_mul(MOST_RATIO),
        };
        if section.raw > most || (section.codec == 0 && section.raw != section.stored) {
            let what = "raw length of a section";
            return Err(cursor.error(Fault::Invalid { what, expected: most, found: section.raw }));
        }
        Ok(section)
    }

    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.stored)
    }

    /// Fills `dst`, which has the raw length, with the section of `table`.
    pub(super) fn inflate(
        &self,
        table: &[u8],
        decompressor: &mut Decompressor,
        dst: &mut [u8],
    ) -> Result<()> {
        let place =
            Place { file: Some("status table".into()), partition: None, offset: self.offset };
        let range = usize::try_from(self.offset).ok().zip(usize::try_from(self.end()).ok());
        let Some(bytes) = range.and_then(|(start, end)| table.get(start..end)) else {
            let found = to_u64(table.len()).saturating_sub(self.offset);
            let what = "section of a status table";
            let fault = Fault::UnexpectedEnd { what, expected: self.stored, found };
            return Err(IFileError::corrupt(fault, place));
        };
        let expected = crc32fast::hash(bytes);
        if expected != self.crc32 {
            let fault = Fault::Checksum { expected, found: self.crc32 };
            return Err(IFileError::corrupt(fault, place));
        }
        let codec = match self.codec {
            0 => Codec::None,
            3 => Codec::ZSTD,
            found => {
                let fault = Fault::UnknownTag { what: "section codec", found: u64::from(found) };
                return Err(IFileError::corrupt(fault, place));
            }
        };
        if bytes.is_empty() && dst.is_empty() {
            return Ok(());
        }
        decompressor.decompress_into(codec, bytes, dst).map_err(|error| error.or_place(&place))
    }
}

/// The shape of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) flags: u16,
    pub(super) maps: u32,
    pub(super) partitions: u32,
    pub(super) per_page: u32,
    pub(super) epoch: u64,
}

/// The sections of a page, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sizes,
    Entries,
    Rows,
    Memory,
    Segments,
    Checksums,
}

impl Shape {
    /// The kinds of sections that each page has.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let flags = self.flags;
        [
            (Kind::Sizes, true),
            (Kind::Entries, flags & EXACT == 0),
            (Kind::Rows, flags & ROWS != 0),
            (Kind::Memory, flags & MEMORY != 0),
            (Kind::Segments, flags & SEGMENTS != 0),
            (Kind::Checksums, flags & CHECKSUMS != 0),
        ]
        .into_iter()
        .filter_map(|(kind, has)| has.then_some(kind))
    }

    pub(super) fn pages(&self) -> u32 {
        self.partitions.div_ceil(self.per_page.max(1))
    }

    /// The head, once the directory is known.
    pub(super) fn put(&self, maps: &Section, directory: &[u8], dst: &mut Vec<u8>) {
        let start = dst.len();
        dst.extend_from_slice(&MAGIC);
        dst.extend_from_slice(&VERSION.to_le_bytes());
        dst.extend_from_slice(&self.flags.to_le_bytes());
        for field in [self.maps, self.partitions, self.per_page, 0] {
            dst.extend_from_slice(&field.to_le_bytes());
        }
        dst.extend_from_slice(&self.epoch.to_le_bytes());
        maps.put(dst);
        dst.extend_from_slice(&crc32fast::hash(directory).to_le_bytes());
        let crc = crc32fast::hash(dst.get(start..).unwrap_or_default());
        dst.extend_from_slice(&crc.to_le_bytes());
    }
}

/// Head and directory of a table, held against its length.
pub(super) struct Head {
    pub(super) shape: Shape,
    pub(super) maps: Section,
    /// By page, then by kind.
    pub(super) sections: Vec<Section>,
}

impl Head {
    pub(super) fn take(table: &[u8]) -> Result<Self> {
        let place = Place { file: Some("status table".into()), ..Place::default() };
        let mut cursor = Cursor::new(table, place);
        let (shape, directory_crc, maps_at) = take_fixed(&mut cursor)?;
        let mut entry = maps_at;
        let kinds = shape.kinds().count();
        let count = u64::from(shape.pages()).saturating_mul(to_u64(kinds));
        let what = "directory of a status table";
        let bytes =
            usize::try_from(count.saturating_mul(to_u64(ENTRY_BYTES))).unwrap_or(usize::MAX);
        let place = cursor.place().clone();
        let directory = cursor.take(bytes, what)?;
        let expected = crc32fast::hash(directory);
        if expected != directory_crc {
            let fault = Fault::Checksum { expected, found: directory_crc };
            return Err(IFileError::corrupt(fault, place));
        }
        let maps = Section::take(&mut entry, cursor.place().offset)?;
        let mut end = maps.end();
        let mut sections = Vec::with_capacity(directory.len() / ENTRY_BYTES);
        let mut entries = Cursor::new(directory, place.clone());
        while entries.remaining() > 0 {
            let section = Section::take(&mut entries, end)?;
            end = section.end();
            sections.push(section);
        }
        let found = to_u64(table.len());
        if end != found {
            let fault = Fault::UnexpectedEnd { what: "status table", expected: end, found };
            return Err(IFileError::corrupt(fault, place));
        }
        Ok(Self { shape, maps, sections })
    }
}

/// The fixed part, its checksum compared; also the directory's checksum, and a cursor at the map columns' entry.
fn take_fixed<'a>(cursor: &mut Cursor<'a>) -> Result<(Shape, u32, Cursor<'a>)> {
    let unknown = |cursor: &Cursor<'_>, what, found: u64| {
        Err(cursor.error(Fault::UnknownTag { what, found }))
    };
    let all = cursor.rest();
    let magic = cursor.array::<4>("status table magic")?;
    if magic != MAGIC {
        return unknown(cursor, "status table magic", u64::from(u32::from_be_bytes(magic)));
    }
    let version = cursor.u16_le("status table version")?;
    if version != VERSION {
        return unknown(cursor, "status table version", u64::from(version));
    }
    let flags = cursor.u16_le("status table flags")?;
    let maps = cursor.u32_le("maps")?;
    let partitions = cursor.u32_le("partitions")?;
    let per_page = cursor.u32_le("partitions per page")?;
    let reserved = cursor.u32_le("status table head")?;
    let epoch = cursor.u64_le("epoch")?;
    let entry = cursor.clone();
    cursor.take(ENTRY_BYTES, "entry of the map columns")?;
    let directory_crc = cursor.u32_le("directory checksum")?;
    let found = cursor.u32_le("status table checksum")?;
    let expected = crc32fast::hash(all.get(..CRC_AT).unwrap_or_default());
    if found != expected {
        return Err(cursor.error(Fault::Checksum { expected, found }));
    }
    if flags & !SHARED != 0 || reserved != 0 || (per_page == 0 && partitions > 0) {
        return unknown(cursor, "status table flag", u64::from(flags));
    }
    Ok((Shape { flags, maps, partitions, per_page, epoch }, directory_crc, entry))
}
