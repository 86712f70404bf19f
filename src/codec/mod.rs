//! Codecs: their names, their reusable states, and Hadoop's block framing.
//!
//! | codec | wire id | syntax | body of a Tez segment |
//! |---|---|---|---|
//! | none | 0 | `none` | the record stream itself |
//! | Snappy | 1 | `snappy` | Hadoop blocks of raw Snappy chunks |
//! | LZ4 | 2 | `lz4` | Hadoop blocks of raw LZ4 chunks |
//! | Zstandard | 3 | `zstd`, `zstd:LEVEL` | one frame |
//! | Deflate | 4 | `deflate`, `deflate:LEVEL` | one RFC 1950 stream (feature `deflate`) |
//!
//! [`Compressor`] and [`Decompressor`] turn one buffer into another, without any framing. They hold
//! every state a codec needs (hash tables, contexts), are built once per task and serve any number of
//! buffers; what they produce depends on the input alone, never on what they served before. The
//! [`framing`] module has the sizes and headers of Hadoop's blocks.
//!
//! - **C1** Equal input and codec give equal bytes, whatever the state did before.
//! - **C2** A decoder's output is bounded by the slice it is given. Nothing is allocated by a length
//!   that was read.
//! - **C3** States report the memory they hold, codec contexts outside of Rust's allocator included.

mod compressor;
mod decompressor;
#[cfg(feature = "deflate")]
mod deflate;
pub mod framing;
mod parse;
mod zstd_state;

pub use compressor::Compressor;
pub use decompressor::Decompressor;
pub use zstd_state::{DEFAULT_WINDOW_LOG_MAX, MAX_WINDOW_LOG, MIN_WINDOW_LOG};

#[cfg(feature = "deflate")]
pub(crate) use deflate::DeflateDecoder;
pub(crate) use zstd_state::{Step, ZstdDecoder};

use crate::error::{Fault, IFileError, Place, Result};

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// Snappy. Takes no level.
    Snappy,
    /// LZ4 blocks. Takes no level.
    Lz4,
    /// Zstandard.
    Zstd {
        /// Level in the library's range.
        level: i32,
    },
    /// RFC 1950 zlib streams, Hadoop's default codec. Needs the feature `deflate`.
    Deflate {
        /// Level, 0 to 9.
        level: u32,
    },
}

impl Codec {
    /// Zstandard at the library's own default level.
    pub const ZSTD: Self = Self::Zstd { level: zstd::DEFAULT_COMPRESSION_LEVEL };

    /// Deflate at zlib's own default level.
    pub const DEFLATE: Self = Self::Deflate { level: 6 };

    /// Name without the level.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd { .. } => "zstd",
            Self::Deflate { .. } => "deflate",
        }
    }

    /// The id under which files know this codec. Frozen. Levels are not part of it, since no decoder
    /// needs them.
    pub const fn wire_id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Snappy => 1,
            Self::Lz4 => 2,
            Self::Zstd { .. } => 3,
            Self::Deflate { .. } => 4,
        }
    }

    /// The codec of an id, with its default level.
    ///
    /// # Errors
    /// [`Fault::UnknownTag`] without a place (the caller knows it), for an id that is not in the
    /// table above.
    pub fn from_wire_id(id: u8) -> Result<Self> {
        match id {
            0 => Ok(Self::None),
            1 => Ok(Self::Snappy),
            2 => Ok(Self::Lz4),
            3 => Ok(Self::ZSTD),
            4 => Ok(Self::DEFLATE),
            other => {
                let fault = Fault::UnknownTag { what: "codec id", found: u64::from(other) };
                Err(IFileError::corrupt(fault, Place::default()))
            }
        }
    }

    /// Checks the level, and that this build has the codec.
    ///
    /// # Errors
    /// [`IFileError::Config`] for a level out of range, [`IFileError::Unsupported`] for Deflate in a
    /// build without it.
    pub fn validate(self) -> Result<()> {
        parse::validate(self)
    }
}

/// `usize` as `u64`; saturates on a machine whose `usize` is wider, where no buffer is that long.
pub(crate) fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// `u64` as `usize`, saturating: for limits, where more than everything is everything.
pub(crate) fn to_usize_limit(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
