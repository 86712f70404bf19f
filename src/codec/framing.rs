//! Hadoop's block framing, as Snappy and LZ4 segments use it.
//!
//! ```text
//! body  := block*
//! block := i32be raw_len, (i32be chunk_len, chunk)+        chunks decode to raw_len bytes together
//! ```
//!
//! A codec buffer of `b` bytes takes `b - overhead` raw bytes per chunk, so that the chunk fits the
//! same buffer even if its bytes do not compress. The overhead is `b / 6 + 32` for Snappy and
//! `b / 255 + 16` for LZ4. Stream codecs have no chunks; a writer hands them `b` bytes at a time.

use super::Codec;
use crate::error::{IFileError, Result};

/// Size of the codec buffer unless configured otherwise.
pub const DEFAULT_CODEC_BUFFER: usize = 256 * 1024;

/// The largest codec buffer: lengths on disk are `i32`, and the bound of a chunk must be one too.
pub const MAX_CODEC_BUFFER: usize = 1 << 30;

/// Bytes in front of the only chunk of a block: the block's raw length and the chunk's stored length.
pub const BLOCK_HEADER: usize = 8;

const _: () = assert!(BLOCK_HEADER == 2 * size_of::<i32>());

/// The most raw bytes that go into one chunk (Snappy, LZ4) or into one call of a stream codec.
///
/// # Errors
/// [`IFileError::Config`] for a buffer that leaves no room for a single byte, or beyond
/// [`MAX_CODEC_BUFFER`].
pub fn max_input(codec: Codec, codec_buffer: usize) -> Result<usize> {
    let overhead = match codec {
        Codec::Snappy => codec_buffer / 6 + 32,
        Codec::Lz4 => codec_buffer / 255 + 16,
        Codec::None | Codec::Zstd { .. } | Codec::Deflate { .. } => 0,
    };
    match codec_buffer.checked_sub(overhead) {
        Some(max_input) if max_input > 0 && codec_buffer <= MAX_CODEC_BUFFER => Ok(max_input),
        _ => Err(IFileError::Config {
            setting: "codec buffer",
            expected: format!(
                "{} to {MAX_CODEC_BUFFER} bytes for {}",
                smallest_buffer(codec),
                codec.name()
            ),
            found: format!("{codec_buffer}"),
        }),
    }
}

/// The smallest codec buffer with room for one byte.
fn smallest_buffer(codec: Codec) -> usize {
    match codec {
        // 40 - 40/6 - 32 = 2, 39 - 39/6 - 32 = 1, 38 - 38/6 - 32 = 0
        Codec::Snappy => 39,
        Codec::Lz4 => 17,
        Codec::None | Codec::Zstd { .. } | Codec::Deflate { .. } => 1,
    }
}

/// The header of a block that holds one chunk.
///
/// # Panics
/// Never for lengths within [`MAX_CODEC_BUFFER`], which every writer keeps to.
pub(crate) fn block_header(raw_len: usize, chunk_len: usize) -> Option<[u8; BLOCK_HEADER]> {
    let raw = i32::try_from(raw_len).ok()?.to_be_bytes();
    let chunk = i32::try_from(chunk_len).ok()?.to_be_bytes();
    let mut header = [0; BLOCK_HEADER];
    let (left, right) = header.split_at_mut(size_of::<i32>());
    left.copy_from_slice(&raw);
    right.copy_from_slice(&chunk);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sizes() {
        assert_eq!(max_input(Codec::Snappy, DEFAULT_CODEC_BUFFER).unwrap(), 218_422);
        assert_eq!(max_input(Codec::Lz4, DEFAULT_CODEC_BUFFER).unwrap(), 261_100);
        assert_eq!(max_input(Codec::Snappy, 1024).unwrap(), 822);
        assert_eq!(max_input(Codec::Lz4, 1024).unwrap(), 1004);
    }

    #[test]
    fn a_buffer_without_room_is_a_configuration_error() {
        for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::ZSTD] {
            let smallest = smallest_buffer(codec);
            assert_eq!(max_input(codec, smallest).unwrap(), 1, "{codec}");
            for bad in [0, smallest - 1, MAX_CODEC_BUFFER + 1] {
                let error = max_input(codec, bad).unwrap_err();
                assert!(matches!(error, IFileError::Config { setting: "codec buffer", .. }));
            }
        }
    }
}
