//! The fixed parts of a segment, and its two lengths.

use crate::error::Fault;

/// The first three bytes of every segment.
pub(crate) const MAGIC: [u8; 3] = *b"TIF";

/// Bytes of the header: magic and flag.
pub const HEADER_BYTES: usize = 4;

/// Bytes of the checksum behind the body.
pub const CHECKSUM_BYTES: usize = 4;

/// The end-of-stream markers: twice the vint -1.
pub(crate) const EOF_MARKERS: [u8; 2] = [0xff, 0xff];

/// The vint -2 that opens a run.
pub(crate) const RUN_MARKER: u8 = 0xfe;

/// The vint -3 that closes a run.
pub(crate) const RUN_END_MARKER: u8 = 0xfd;

/// The smallest stored length a segment can claim: header and checksum.
pub(crate) const MIN_PART_LENGTH: u64 = 8;

/// The raw length of a segment without records.
pub(crate) const EMPTY_RAW_LENGTH: u64 = 6;

const _: () = assert!(HEADER_BYTES == MAGIC.len() + 1);
const _: () = assert!(MIN_PART_LENGTH == 8 && HEADER_BYTES + CHECKSUM_BYTES == 8);

/// Whether a body is stored as it is, or through a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    Raw,
    Compressed,
}

pub(crate) const RAW_HEADER: [u8; HEADER_BYTES] = *b"TIF\x00";
pub(crate) const COMPRESSED_HEADER: [u8; HEADER_BYTES] = *b"TIF\x01";

pub(crate) fn parse_header([a, b, c, flag]: [u8; HEADER_BYTES]) -> Result<Flag, Fault> {
    let magic = [a, b, c];
    if magic != MAGIC {
        return Err(Fault::Magic { found: magic });
    }
    match flag {
        0 => Ok(Flag::Raw),
        1 => Ok(Flag::Compressed),
        found => Err(Fault::Flag { found }),
    }
}

/// What a writer knows of a segment once it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSummary {
    /// 4 and the bytes of the record stream.
    pub raw_length: u64,
    /// Bytes of the segment as stored: 4, the stored body, 4.
    pub part_length: u64,
    /// Checksum of the stored body.
    pub crc32: u32,
    /// Records.
    pub records: u64,
    /// Whether the body went through the codec (FLAG 1).
    pub compressed: bool,
}
