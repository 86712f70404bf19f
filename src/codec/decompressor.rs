//! One compressed buffer in, one buffer of a known length out.

#[cfg(feature = "deflate")]
use super::deflate::DeflateDecoder;
use super::zstd_state::{DEFAULT_WINDOW_LOG_MAX, ZstdDecoder};
use super::{Codec, to_u64};
use crate::error::{Fault, IFileError, Place, Result};

/// Reusable decompression state of all codecs; each is built at its first use.
#[derive(Default)]
pub struct Decompressor {
    snappy: snap::raw::Decoder,
    zstd: Option<ZstdDecoder>,
    #[cfg(feature = "deflate")]
    deflate: Option<DeflateDecoder>,
}

impl Decompressor {
    /// A state that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory held, codec contexts at their real size.
    pub fn state_bytes(&self) -> usize {
        let zstd = self.zstd.as_ref().map_or(0, ZstdDecoder::state_bytes);
        #[cfg(feature = "deflate")]
        let zstd = zstd + self.deflate.as_ref().map_or(0, DeflateDecoder::state_bytes);
        zstd
    }

    /// Decodes `src` and appends exactly `raw_len` bytes to `dst`. The caller caps `raw_len`: so much
    /// is allocated before anything is decoded.
    ///
    /// # Errors
    /// [`Fault::Decompress`], [`Fault::ChunkRawLength`] or [`Fault::DecodedLength`] without a place,
    /// which the caller knows. `dst` then is as it was.
    pub fn decompress(
        &mut self,
        codec: Codec,
        src: &[u8],
        raw_len: usize,
        dst: &mut Vec<u8>,
    ) -> Result<()> {
        let start = dst.len();
        let end = start.saturating_add(raw_len);
        dst.resize(end, 0);
        let result = self.decompress_into(codec, src, dst.get_mut(start..).unwrap_or_default());
        if result.is_err() {
            dst.truncate(start);
        }
        result
    }

    /// Decodes `src` into all of `dst`, for callers that keep an initialized buffer.
    ///
    /// # Errors
    /// As [`Decompressor::decompress`]. The contents of `dst` are then undefined.
    pub fn decompress_into(&mut self, codec: Codec, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let expected = dst.len();
        let found = self.decode(codec, src, dst)?;
        if found == expected {
            return Ok(());
        }
        Err(corrupt(Fault::DecodedLength { expected: to_u64(expected), found: to_u64(found) }))
    }

    /// Decodes `src` into the front of `dst` and returns how much it was.
    ///
    /// # Errors
    /// As [`Decompressor::decompress`], data longer than `dst` included.
    pub(crate) fn decode(&mut self, codec: Codec, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        match codec {
            Codec::None => match dst.get_mut(..src.len()) {
                Some(slot) => {
                    slot.copy_from_slice(src);
                    Ok(src.len())
                }
                None => Err(too_long(dst.len(), src.len())),
            },
            Codec::Snappy => self.decode_snappy(src, dst),
            Codec::Lz4 => lz4_flex::block::decompress_into(src, dst)
                .map_err(|error| refused(codec, error.to_string())),
            Codec::Zstd { .. } => {
                if self.zstd.is_none() {
                    self.zstd = Some(ZstdDecoder::new(DEFAULT_WINDOW_LOG_MAX)?);
                }
                match &mut self.zstd {
                    Some(decoder) => decoder.decompress_block(src, dst),
                    None => Ok(0),
                }
            }
            #[cfg(feature = "deflate")]
            Codec::Deflate { .. } => {
                self.deflate.get_or_insert_with(DeflateDecoder::new).decompress_block(src, dst)
            }
            #[cfg(not(feature = "deflate"))]
            Codec::Deflate { .. } => codec.validate().map(|()| 0),
        }
    }

    fn decode_snappy(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let refuse = |error: snap::Error| refused(Codec::Snappy, error.to_string());
        let len = snap::raw::decompress_len(src).map_err(refuse)?;
        if len > dst.len() {
            return Err(too_long(dst.len(), len));
        }
        self.snappy.decompress(src, dst).map_err(refuse)
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").field("state_bytes", &self.state_bytes()).finish()
    }
}

fn corrupt(fault: Fault) -> IFileError {
    IFileError::corrupt(fault, Place::default())
}

fn too_long(limit: usize, found: usize) -> IFileError {
    corrupt(Fault::ChunkRawLength { limit: to_u64(limit), found: to_u64(found) })
}

pub(super) fn refused(codec: Codec, detail: String) -> IFileError {
    corrupt(Fault::Decompress { codec: codec.name(), detail })
}
