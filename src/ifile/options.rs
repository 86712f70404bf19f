//! How segments are written.

use crate::codec::Codec;
use crate::codec::framing::{DEFAULT_CODEC_BUFFER, max_input};
use crate::error::Result;

/// How a writer cuts its record stream into blocks and downstream writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Cut by position: every block but the last is full.
    #[default]
    Buffered,
    /// One write into the codec or checksum per vint byte, key and value, and Tez's rules on where a
    /// block ends. For comparison with files that Tez wrote; slow.
    Unbuffered,
}

/// Options of a segment writer. The bytes of a segment depend on these and on its records, nothing
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentOptions {
    pub(crate) codec: Codec,
    pub(crate) codec_buffer: usize,
    pub(crate) mode: WriteMode,
    pub(crate) runs: bool,
    pub(crate) store_incompressible_raw: bool,
}

impl SegmentOptions {
    /// Segments for this crate: buffered, without runs, bodies that do not shrink stored raw.
    pub fn new(codec: Codec) -> Self {
        Self {
            codec,
            codec_buffer: DEFAULT_CODEC_BUFFER,
            mode: WriteMode::Buffered,
            runs: false,
            store_incompressible_raw: true,
        }
    }

    /// Segments for Tez, which expects FLAG 1 wherever a codec is configured.
    pub fn tez(codec: Codec) -> Self {
        Self { store_incompressible_raw: false, ..Self::new(codec) }
    }

    /// Size of the codec buffer. It bounds blocks and chunks, and the window of Zstandard streams.
    #[must_use]
    pub fn with_codec_buffer(self, bytes: usize) -> Self {
        Self { codec_buffer: bytes, ..self }
    }

    /// How the record stream is cut.
    #[must_use]
    pub fn with_mode(self, mode: WriteMode) -> Self {
        Self { mode, ..self }
    }

    /// Whether a record whose key equals the one before it is written as part of a run. Empty keys
    /// never are.
    #[must_use]
    pub fn with_runs(self, runs: bool) -> Self {
        Self { runs, ..self }
    }

    /// Whether a body that fits one block and does not shrink is stored raw, with FLAG 0.
    #[must_use]
    pub fn with_store_incompressible_raw(self, on: bool) -> Self {
        Self { store_incompressible_raw: on, ..self }
    }

    /// The codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Checks everything, and returns the most raw bytes of a block.
    pub(crate) fn max_input(&self) -> Result<usize> {
        self.codec.validate()?;
        max_input(self.codec, self.codec_buffer)
    }
}
