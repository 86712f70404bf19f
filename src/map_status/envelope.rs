//! Tables on their way: as they are, or by reference.

use std::borrow::Cow;
use std::sync::Arc;

use super::table::StatusTable;
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::wire::Cursor;

const MAGIC: [u8; 4] = *b"IFSE";
const VERSION: u8 = 1;
const DIRECT: u8 = 1;
const BY_REFERENCE: u8 = 2;

const SHUFFLE_AT: usize = MAGIC.len() + 4;
const EPOCH_AT: usize = SHUFFLE_AT + 8;
const LENGTH_AT: usize = EPOCH_AT + 8;
const TABLE_CRC_AT: usize = LENGTH_AT + 8;
const CRC_AT: usize = TABLE_CRC_AT + 4;
const HEADER_BYTES: usize = CRC_AT + 4;
const _: () = assert!(HEADER_BYTES == 40);

/// Where the table of an envelope can be fetched, and what it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReference {
    /// The shuffle.
    pub shuffle: u64,
    /// The epoch of its statuses.
    pub epoch: u64,
    /// Length of the table.
    pub length: u64,
    /// CRC-32 of the table.
    pub crc32: u32,
    /// A name for whoever has the table.
    pub name: Arc<str>,
}

/// A parsed envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope<'a> {
    /// The table's bytes.
    Direct {
        /// The shuffle.
        shuffle: u64,
        /// The epoch of its statuses.
        epoch: u64,
        /// The table.
        table: &'a [u8],
    },
    /// Where the table is.
    ByReference(TableReference),
}

impl<'a> Envelope<'a> {
    /// An envelope that holds `table`.
    #[must_use]
    pub fn direct(shuffle: u64, epoch: u64, table: &[u8]) -> Vec<u8> {
        let mut out = header(DIRECT, shuffle, epoch, to_u64(table.len()), crc32fast::hash(table));
        out.extend_from_slice(table);
        out
    }

    /// An envelope that refers to a table.
    ///
    /// # Errors
    /// [`IFileError::Usage`] for a name of more than 64 KiB.
    pub fn by_reference(reference: &TableReference) -> Result<Vec<u8>> {
        let TableReference { shuffle, epoch, length, crc32, name } = reference;
        let mut out = header(BY_REFERENCE, *shuffle, *epoch, *length, *crc32);
        let start = out.len();
        let name_len = u16::try_from(name.len())
            .map_err(|_| IFileError::Usage("refer to a table by a name of more than 64 KiB"))?;
        out.extend_from_slice(&name_len.to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        let crc = crc32fast::hash(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(out)
    }

    /// Parses an envelope.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for bytes that are none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let place = Place { file: Some("status envelope".into()), ..Place::default() };
        let mut cursor = Cursor::new(bytes, place);
        let head = bytes.get(..CRC_AT).unwrap_or_default();
        let unknown = |cursor: &Cursor<'_>, what, found: u64| {
            Err(cursor.error(Fault::UnknownTag { what, found }))
        };
        let magic = cursor.array::<4>("envelope magic")?;
        if magic != MAGIC {
            return unknown(&cursor, "envelope magic", u64::from(u32::from_be_bytes(magic)));
        }
        let version = cursor.u8("envelope version")?;
        if version != VERSION {
            return unknown(&cursor, "envelope version", u64::from(version));
        }
        let kind = cursor.u8("envelope kind")?;
        let reserved = cursor.u16_le("envelope")?;
        let shuffle = cursor.u64_le("shuffle")?;
        let epoch = cursor.u64_le("epoch")?;
        let length = cursor.u64_le("table length")?;
        let crc32 = cursor.u32_le("table checksum")?;
        let found = cursor.u32_le("envelope checksum")?;
        check_crc(&cursor, crc32fast::hash(head), found)?;
        if reserved != 0 {
            return unknown(&cursor, "envelope flag", u64::from(reserved));
        }
        match kind {
            DIRECT => {
                check_table(cursor.rest(), length, crc32)?;
                Ok(Self::Direct { shuffle, epoch, table: cursor.rest() })
            }
            BY_REFERENCE => {
                let name = take_name(&mut cursor)?;
                Ok(Self::ByReference(TableReference { shuffle, epoch, length, crc32, name }))
            }
            other => unknown(&cursor, "envelope kind", u64::from(other)),
        }
    }

    /// The table: that of a direct envelope, or what `fetch` gives for the reference.
    ///
    /// # Errors
    /// Those of `fetch`, and [`IFileError::Corrupt`] if it gives other bytes than the reference says.
    pub fn resolve(
        self,
        fetch: impl FnOnce(&TableReference) -> Result<Cow<'a, [u8]>>,
    ) -> Result<Cow<'a, [u8]>> {
        match self {
            Self::Direct { table, .. } => Ok(Cow::Borrowed(table)),
            Self::ByReference(reference) => {
                let table = fetch(&reference)?;
                check_table(&table, reference.length, reference.crc32)?;
                Ok(table)
            }
        }
    }

    /// The epoch of the statuses.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        match self {
            Self::Direct { epoch, .. } => *epoch,
            Self::ByReference(reference) => reference.epoch,
        }
    }
}

impl TableReference {
    /// Parses what a reference gave, once it is held against the reference.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for other bytes.
    pub fn open<'t>(&self, table: &'t [u8]) -> Result<StatusTable<'t>> {
        check_table(table, self.length, self.crc32)?;
        StatusTable::open(table)
    }
}

fn header(kind: u8, shuffle: u64, epoch: u64, length: u64, crc32: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind, 0, 0]);
    out.extend_from_slice(&shuffle.to_le_bytes());
    out.extend_from_slice(&epoch.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32.to_le_bytes());
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn take_name(cursor: &mut Cursor<'_>) -> Result<Arc<str>> {
    let all = cursor.rest();
    let len = usize::from(cursor.u16_le("name length")?);
    let name = cursor.take(len, "name")?;
    let covered = all.get(..2 + len).unwrap_or_default();
    let found = cursor.u32_le("name checksum")?;
    check_crc(cursor, crc32fast::hash(covered), found)?;
    super::numbers::take_end(cursor, "status envelope")?;
    match std::str::from_utf8(name) {
        Ok(name) => Ok(name.into()),
        Err(error) => {
            let (expected, found) = (to_u64(len), to_u64(error.valid_up_to()));
            Err(cursor.error(Fault::Invalid { what: "name in UTF-8", expected, found }))
        }
    }
}

fn check_crc(cursor: &Cursor<'_>, expected: u32, found: u32) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(cursor.error(Fault::Checksum { expected, found }))
}

fn check_table(table: &[u8], length: u64, crc32: u32) -> Result<()> {
    let place = Place { file: Some("status table".into()), ..Place::default() };
    let found = to_u64(table.len());
    if found != length {
        let fault = Fault::UnexpectedEnd { what: "status table", expected: length, found };
        return Err(IFileError::corrupt(fault, place));
    }
    let expected = crc32fast::hash(table);
    if expected != crc32 {
        let fault = Fault::Checksum { expected, found: crc32 };
        return Err(IFileError::corrupt(fault, place));
    }
    Ok(())
}
