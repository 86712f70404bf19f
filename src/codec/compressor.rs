//! One buffer in, one compressed buffer out.

use super::Codec;
#[cfg(feature = "deflate")]
use super::deflate::DeflateEncoder;
use super::zstd_state::ZstdEncoder;
use crate::error::{IFileError, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Chunks below this length are compressed with the small LZ4 table, the others with the large one. A
/// small table turns itself into a large one for good at this length, and the two give different
/// bytes; choosing here, by length alone, keeps C1.
const LZ4_LARGE_FROM: usize = 65_535;

/// 4,096 entries of 16 bits and of 32 bits.
const LZ4_TABLE_BYTES: usize = 4096 * (size_of::<u16>() + size_of::<u32>());

/// A Snappy encoder's table for inputs from 1 KiB: 16,384 entries of 16 bits.
const SNAP_TABLE_BYTES: usize = (1 << 14) * size_of::<u16>();

/// Reusable compression state of one codec. Built once per task.
pub struct Compressor {
    codec: Codec,
    state: State,
    /// Output of [`Compressor::compress`] before it is appended, since codecs write into initialized
    /// slices only and clearing the caller's spare capacity each time costs more than this copy.
    spare: Vec<u8>,
}

enum State {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Lz4 {
        small: CompressTable,
        large: CompressTable,
    },
    Zstd(ZstdEncoder),
    #[cfg(feature = "deflate")]
    Deflate(DeflateEncoder),
}

impl Compressor {
    /// Builds the state of `codec`.
    ///
    /// # Errors
    /// If the codec's level is out of range, the build lacks it, or its context cannot be made.
    pub fn new(codec: Codec) -> Result<Self> {
        codec.validate()?;
        let state = match codec {
            Codec::None => State::None,
            Codec::Snappy => State::Snappy(Box::new(snap::raw::Encoder::new())),
            Codec::Lz4 => {
                State::Lz4 { small: CompressTable::small(), large: CompressTable::large() }
            }
            Codec::Zstd { level } => State::Zstd(ZstdEncoder::new(level)?),
            #[cfg(feature = "deflate")]
            Codec::Deflate { level } => State::Deflate(DeflateEncoder::new(level)),
            #[cfg(not(feature = "deflate"))]
            Codec::Deflate { .. } => State::None,
        };
        Ok(Self { codec, state, spare: Vec::new() })
    }

    /// The codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The most bytes `len` bytes compress to, and the size of the slice that
    /// [`Compressor::compress_into`] asks for.
    pub fn bound(&self, len: usize) -> usize {
        match self.codec {
            Codec::None => len,
            // 0 stands for "too large for one buffer", which fails when compressing.
            Codec::Snappy => snap::raw::max_compress_len(len),
            Codec::Lz4 => get_maximum_output_size(len),
            Codec::Zstd { .. } => zstd::zstd_safe::compress_bound(len),
            // zlib's own bound for any settings, with room to spare for stored blocks.
            Codec::Deflate { .. } => len.saturating_add(len / 8).saturating_add(64),
        }
    }

    /// Bytes of memory held, codec contexts at their real size. Grows with the largest buffer that was
    /// compressed, see [`Compressor::prepare`].
    pub fn state_bytes(&self) -> usize {
        let state = match &self.state {
            State::None => 0,
            State::Snappy(encoder) => size_of_val(encoder.as_ref()) + SNAP_TABLE_BYTES,
            State::Lz4 { .. } => LZ4_TABLE_BYTES,
            State::Zstd(encoder) => encoder.state_bytes(),
            #[cfg(feature = "deflate")]
            State::Deflate(encoder) => encoder.state_bytes(),
        };
        state + self.spare.capacity()
    }

    /// Grows everything to what buffers of up to `max_len` bytes need, so that
    /// [`Compressor::state_bytes`] is final before the first of them.
    ///
    /// # Errors
    /// If the codec cannot be set up.
    pub fn prepare(&mut self, max_len: usize) -> Result<()> {
        let bound = self.bound(max_len);
        if !matches!(self.state, State::None) && self.spare.len() < bound {
            self.spare.resize(bound, 0);
        }
        match &mut self.state {
            State::Zstd(encoder) => encoder.prepare(max_len),
            _ => Ok(()),
        }
    }

    /// Compresses `src`, appends the bytes to `dst` without any framing and returns their number.
    ///
    /// # Errors
    /// If the codec refuses, which it does only for buffers beyond its own limits (4 GiB for Snappy).
    pub fn compress(&mut self, src: &[u8], dst: &mut Vec<u8>) -> Result<usize> {
        if matches!(self.state, State::None) {
            dst.extend_from_slice(src);
            return Ok(src.len());
        }
        let mut spare = std::mem::take(&mut self.spare);
        let bound = self.bound(src.len());
        if spare.len() < bound {
            spare.resize(bound, 0);
        }
        let written = self.compress_into(src, &mut spare);
        if let Ok(len) = written {
            dst.extend_from_slice(spare.get(..len).unwrap_or_default());
        }
        self.spare = spare;
        written
    }

    /// Compresses `src` into the front of `dst` and returns the number of bytes written. `dst` has to
    /// be at least [`Compressor::bound`] long.
    ///
    /// # Errors
    /// As [`Compressor::compress`], and if `dst` is too short.
    pub fn compress_into(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let codec = self.codec.name();
        let failed = |detail: String| IFileError::Compress { codec, detail };
        match &mut self.state {
            State::None => match dst.get_mut(..src.len()) {
                Some(slot) => {
                    slot.copy_from_slice(src);
                    Ok(src.len())
                }
                None => Err(failed(format!("{} bytes do not fit {}", src.len(), dst.len()))),
            },
            State::Snappy(encoder) => {
                encoder.compress(src, dst).map_err(|error| failed(error.to_string()))
            }
            State::Lz4 { small, large } => {
                let table = if src.len() < LZ4_LARGE_FROM { small } else { large };
                compress_into_with_table(src, dst, table).map_err(|error| failed(error.to_string()))
            }
            State::Zstd(encoder) => encoder.compress_block(src, dst),
            #[cfg(feature = "deflate")]
            State::Deflate(encoder) => encoder.compress_block(src, dst),
        }
    }

    /// The Zstandard state, where that is the codec.
    pub(crate) fn zstd(&mut self) -> Option<&mut ZstdEncoder> {
        match &mut self.state {
            State::Zstd(encoder) => Some(encoder),
            _ => None,
        }
    }

    /// The Deflate state, where that is the codec.
    #[cfg(feature = "deflate")]
    pub(crate) fn deflate(&mut self) -> Option<&mut DeflateEncoder> {
        match &mut self.state {
            State::Deflate(encoder) => Some(encoder),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor")
            .field("codec", &self.codec)
            .field("state_bytes", &self.state_bytes())
            .finish()
    }
}
