//! The end of a data file.

use super::index::IndexLayout;
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::map_status::AttemptId;
use crate::wire::Cursor;

const MAGIC: [u8; 4] = *b"IFDT";
const VERSION: u16 = 1;

const CRC_AT: usize = 60;
pub(super) const TRAILER_BYTES: usize = CRC_AT + 4;
const _: () = assert!(TRAILER_BYTES == 4 + 2 + 2 + 16 + 8 + 8 + 4 + 4 + 8 + 4 + 4);

/// What the end of a data file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) layout: u8,
    pub(super) attempt_id: AttemptId,
    pub(super) epoch: u64,
    /// Bytes of the segments.
    pub(super) length: u64,
    pub(super) data_crc: u32,
    pub(super) index_crc: u32,
    pub(super) map_id: u64,
    pub(super) attempt: u32,
}

impl Trailer {
    /// The layout of the index.
    pub(super) fn layout(&self) -> Result<IndexLayout> {
        IndexLayout::from_wire_id(self.layout)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.layout, 0]);
        out.extend_from_slice(&self.attempt_id.0);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.data_crc.to_le_bytes());
        out.extend_from_slice(&self.index_crc.to_le_bytes());
        out.extend_from_slice(&self.map_id.to_le_bytes());
        out.extend_from_slice(&self.attempt.to_le_bytes());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses the trailer of a data file of `data_len` bytes; `place` is that of its first byte.
    pub(super) fn parse(bytes: &[u8], data_len: u64, place: Place) -> Result<Self> {
        let start = place.clone();
        let mut cursor = Cursor::new(bytes, place);
        let magic = cursor.array::<4>("data trailer")?;
        let version = cursor.u16_le("data trailer")?;
        let layout = cursor.u8("data trailer")?;
        let reserved = cursor.u8("data trailer")?;
        let attempt_id = AttemptId(cursor.array("data trailer")?);
        let epoch = cursor.u64_le("data trailer")?;
        let length = cursor.u64_le("data trailer")?;
        let data_crc = cursor.u32_le("data trailer")?;
        let index_crc = cursor.u32_le("data trailer")?;
        let map_id = cursor.u64_le("data trailer")?;
        let attempt = cursor.u32_le("data trailer")?;
        let found = cursor.u32_le("data trailer")?;
        let unknown = |what, found| {
            Err(IFileError::corrupt(Fault::UnknownTag { what, found }, start.clone()))
        };
        if magic != MAGIC {
            return unknown("data trailer", u64::from(u32::from_be_bytes(magic)));
        }
        let expected = crc32fast::hash(bytes.get(..CRC_AT).unwrap_or_default());
        if found != expected {
            return Err(IFileError::corrupt(Fault::Checksum { expected, found }, start.clone()));
        }
        if version != VERSION || reserved != 0 {
            return unknown("version of a data trailer", u64::from(version));
        }
        let found = data_len.saturating_sub(to_u64(TRAILER_BYTES));
        if length != found {
            let what = "segments before a data trailer";
            let fault = Fault::UnexpectedEnd { what, expected: length, found };
            return Err(IFileError::corrupt(fault, start.clone()));
        }
        Ok(Self { layout, attempt_id, epoch, length, data_crc, index_crc, map_id, attempt })
    }
}
