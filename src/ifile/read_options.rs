//! How segments are read, and what is known of them beforehand.

use super::header::{CHECKSUM_BYTES, Flag, HEADER_BYTES};
use super::index::IndexEntry;
use crate::codec::framing::DEFAULT_CODEC_BUFFER;
use crate::codec::{Codec, DEFAULT_WINDOW_LOG_MAX, to_u64};
use crate::error::{Fault, Place};
use std::sync::Arc;

/// Options of a segment reader.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    pub(super) codec: Codec,
    pub(super) codec_buffer: usize,
    pub(super) window_log_max: u32,
    pub(super) allow_raw: bool,
    pub(super) record_cap: u64,
    pub(super) buffer: usize,
    pub(super) spool_cap: u64,
    pub(super) place: Place,
}

impl ReadOptions {
    /// Segments whose compressed bodies are in `codec`.
    pub fn new(codec: Codec) -> Self {
        Self {
            codec,
            codec_buffer: DEFAULT_CODEC_BUFFER,
            window_log_max: DEFAULT_WINDOW_LOG_MAX,
            allow_raw: false,
            record_cap: u64::MAX,
            buffer: 64 * 1024,
            spool_cap: 64 * 1024 * 1024,
            place: Place::default(),
        }
    }

    /// Cap on the raw and the stored length of a chunk, and on a slice of decoded bytes.
    #[must_use]
    pub fn with_codec_buffer(self, bytes: usize) -> Self {
        Self { codec_buffer: bytes, ..self }
    }

    /// Cap on the window of Zstandard frames, as a power of two.
    #[must_use]
    pub fn with_window_log_max(self, window_log_max: u32) -> Self {
        Self { window_log_max, ..self }
    }

    /// Whether a raw body (FLAG 0) is accepted although there is a codec and no raw length that
    /// confirms it. The flag lies outside of the checksum: with this on, a flipped flag may go unseen.
    #[must_use]
    pub fn with_raw_allowed(self, allow_raw: bool) -> Self {
        Self { allow_raw, ..self }
    }

    /// Cap on key and value of a record together.
    #[must_use]
    pub fn with_record_cap(self, bytes: u64) -> Self {
        Self { record_cap: bytes, ..self }
    }

    /// Size that the buffer of stored bytes starts with.
    #[must_use]
    pub fn with_buffer(self, bytes: usize) -> Self {
        Self { buffer: bytes, ..self }
    }

    /// Cap on the stored bytes that are held in memory where a source cannot be read twice.
    #[must_use]
    pub fn with_spool_cap(self, bytes: u64) -> Self {
        Self { spool_cap: bytes, ..self }
    }

    /// Name of the file, for errors.
    #[must_use]
    pub fn with_file(mut self, name: impl Into<Arc<str>>) -> Self {
        self.place.file = Some(name.into());
        self
    }

    /// Partition of the segment, for errors.
    #[must_use]
    pub fn with_partition(mut self, partition: u32) -> Self {
        self.place.partition = Some(partition);
        self
    }

    /// Offset in the file of the first byte the reader gets, for errors.
    #[must_use]
    pub fn with_base_offset(mut self, offset: u64) -> Self {
        self.place.offset = offset;
        self
    }
}

/// What is known of a segment's lengths before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    pub(super) raw: Option<u64>,
    pub(super) part: Option<u64>,
}

impl Lengths {
    /// Nothing: the segment ends where its record stream does.
    pub const UNKNOWN: Self = Self { raw: None, part: None };

    /// The stored length, header and checksum included.
    pub fn part(part_length: u64) -> Self {
        Self { raw: None, part: Some(part_length) }
    }

    /// Both lengths, as an index has them.
    pub fn both(raw_length: u64, part_length: u64) -> Self {
        Self { raw: Some(raw_length), part: Some(part_length) }
    }
}

impl From<IndexEntry> for Lengths {
    fn from(entry: IndexEntry) -> Self {
        Self::both(entry.raw_length, entry.part_length)
    }
}

/// Holds the flag against what the caller said of the segment.
pub(super) fn check_flag(flag: Flag, lengths: Lengths, options: &ReadOptions) -> Result<(), Fault> {
    match (flag, options.codec, lengths.raw, lengths.part) {
        (Flag::Compressed, Codec::None, ..) => Err(Fault::CompressedWithoutCodec),
        (Flag::Compressed, ..) => Ok(()),
        // A raw body has the length of its record stream.
        (Flag::Raw, _, Some(raw), Some(part)) => {
            let found = part.saturating_sub(to_u64(CHECKSUM_BYTES));
            if raw == found {
                return Ok(());
            }
            let header = to_u64(HEADER_BYTES);
            let (expected, found) = (raw.saturating_sub(header), found.saturating_sub(header));
            Err(Fault::DecodedLength { expected, found })
        }
        (Flag::Raw, Codec::None, ..) => Ok(()),
        (Flag::Raw, codec, ..) if !options.allow_raw => {
            Err(Fault::RawWithCodec { codec: codec.name() })
        }
        (Flag::Raw, ..) => Ok(()),
    }
}
