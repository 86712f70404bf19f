//! The fixed head of a block: parsed and checked before anything else is believed.

use super::error::{BlockError, BlockResult};
use crate::codec::Codec;

/// The first two bytes of a block.
pub(crate) const MAGIC: [u8; 2] = *b"IB";
/// The version this code writes, and the only one it reads.
pub(crate) const VERSION: u8 = 1;
/// Length of the header.
pub const HEADER_LEN: usize = 28;
/// Neither part of a block's body is longer than this.
pub(crate) const MAX_BODY: usize = 0x7fff_ffff;

const CODEC_AT: usize = 3;
const ROWS_AT: usize = CODEC_AT + 1;
const DECODED_AT: usize = ROWS_AT + 4;
const RAW_AT: usize = DECODED_AT + 4;
const STORED_AT: usize = RAW_AT + 4;
const PLAIN_AT: usize = STORED_AT + 4;
const CRC_AT: usize = PLAIN_AT + 4;
const _: () = assert!(CRC_AT + 4 == HEADER_LEN);

/// What the header of a block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Codec of the packed part; 0 if it is stored as it is.
    pub(crate) codec: u8,
    /// Rows in the block.
    pub rows: u32,
    /// Upper bound of the bytes of the decoded arrays.
    pub decoded_bytes: u32,
    /// Length of the packed part before compression.
    pub raw_bytes: u32,
    /// Length of the packed part as it is stored.
    pub stored_bytes: u32,
    /// Length of the plain part, which no codec touches.
    pub plain_bytes: u32,
    pub(crate) crc: u32,
}

impl BlockHeader {
    /// Reads the header at the start of `bytes`, without looking at what follows it.
    ///
    /// # Errors
    /// If the bytes are too short or not a header of a known version.
    pub fn parse(bytes: &[u8]) -> BlockResult<Self> {
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(BlockError::Truncated {
                part: "header",
                wanted: HEADER_LEN as u64,
                left: bytes.len() as u64,
            });
        };
        let [m0, m1, version, codec, fields @ ..] = head;
        if [*m0, *m1] != MAGIC {
            return Err(BlockError::Magic([*m0, *m1]));
        }
        if *version != VERSION {
            return Err(BlockError::Version(*version));
        }
        let (words, _) = fields.as_chunks::<4>();
        let &[rows, decoded, raw, stored, plain, crc] = words else {
            return Err(BlockError::Invalid("header length"));
        };
        Ok(Self {
            codec: *codec,
            rows: u32::from_le_bytes(rows),
            decoded_bytes: u32::from_le_bytes(decoded),
            raw_bytes: u32::from_le_bytes(raw),
            stored_bytes: u32::from_le_bytes(stored),
            plain_bytes: u32::from_le_bytes(plain),
            crc: u32::from_le_bytes(crc),
        })
    }

    /// Length of the whole block.
    #[must_use]
    pub fn block_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.stored_bytes) + u64::from(self.plain_bytes)
    }

    /// Bytes that decoding this block holds at most: the arrays, and the packed part while it is read.
    #[must_use]
    pub fn decode_reserve_bytes(&self) -> u64 {
        u64::from(self.decoded_bytes) + u64::from(self.raw_bytes)
    }

    /// The header's bytes, the checksum included.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let (head, fields) = out.split_at_mut(ROWS_AT);
        head.copy_from_slice(&[MAGIC[0], MAGIC[1], VERSION, self.codec]);
        let words = [
            self.rows,
            self.decoded_bytes,
            self.raw_bytes,
            self.stored_bytes,
            self.plain_bytes,
            self.crc,
        ];
        for (to, from) in fields.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        out
    }

    /// The checksum over the header (without the checksum itself) and the body.
    pub(crate) fn checksum(header: &[u8; HEADER_LEN], body: &[u8]) -> u32 {
        let (covered, _) = header.split_at(CRC_AT);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(covered);
        hasher.update(body);
        hasher.finalize()
    }
}

/// The codec of `id`, or `None` if the bytes are stored as they are.
pub(crate) fn codec_of(id: u8) -> BlockResult<Option<Codec>> {
    match Codec::from_wire_id(id) {
        Ok(Codec::None) => Ok(None),
        Ok(codec) => Ok(Some(codec)),
        Err(_) => Err(BlockError::Codec(id)),
    }
}
