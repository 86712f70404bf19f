//! Deflate states, both ways: whole buffers and streams of RFC 1950.

use super::decompressor::refused;
use super::zstd_state::Step;
use super::{Codec, to_u64};
use crate::error::{Fault, IFileError, Place, Result};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Memory of a compression state: window, hash chains, code buffers. The library does not tell; a test
/// holds this against what it allocates.
pub(crate) const DEFLATE_STATE_BYTES: usize = 376 * 1024;

/// Memory of a decompression state: its window and code tables.
pub(crate) const INFLATE_STATE_BYTES: usize = 48 * 1024;

/// A compression state.
pub(crate) struct DeflateEncoder {
    state: Compress,
}

impl DeflateEncoder {
    pub(crate) fn new(level: u32) -> Self {
        Self { state: Compress::new(Compression::new(level), true) }
    }

    pub(crate) fn state_bytes(&self) -> usize {
        DEFLATE_STATE_BYTES
    }

    /// Compresses `src` to one stream at the front of `dst`.
    pub(crate) fn compress_block(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.start_stream();
        let room = dst.len();
        let step = self.stream(src, dst, true)?;
        if step.done {
            return Ok(step.written);
        }
        Err(failed(format!("{} bytes do not fit {room}", src.len())))
    }

    /// Begins a stream.
    pub(crate) fn start_stream(&mut self) {
        self.state.reset();
    }

    /// Takes as much of `src` and fills as much of `dst` as it can. With `end` the stream is closed;
    /// call again until it is done.
    pub(crate) fn stream(&mut self, src: &[u8], dst: &mut [u8], end: bool) -> Result<Step> {
        let flush = if end { FlushCompress::Finish } else { FlushCompress::None };
        let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
        let status = self.state.compress(src, dst, flush).map_err(|e| failed(e.to_string()))?;
        Ok(Step {
            consumed: moved(before_in, self.state.total_in()),
            written: moved(before_out, self.state.total_out()),
            done: status == Status::StreamEnd,
        })
    }
}

/// A decompression state.
pub(crate) struct DeflateDecoder {
    state: Decompress,
}

impl DeflateDecoder {
    pub(crate) fn new() -> Self {
        Self { state: Decompress::new(true) }
    }

    pub(crate) fn state_bytes(&self) -> usize {
        INFLATE_STATE_BYTES
    }

    /// Decodes the stream in `src` to the front of `dst`, which bounds the output.
    pub(crate) fn decompress_block(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.start_stream();
        let step = self.stream(src, dst)?;
        if step.done && step.consumed == src.len() {
            return Ok(step.written);
        }
        if step.done {
            let found = to_u64(src.len() - step.consumed);
            let fault = Fault::TrailingBytes { after: "deflate stream", found };
            return Err(IFileError::corrupt(fault, Place::default()));
        }
        if step.written == dst.len() {
            let limit = to_u64(dst.len());
            let fault = Fault::ChunkRawLength { limit, found: limit + 1 };
            return Err(IFileError::corrupt(fault, Place::default()));
        }
        Err(refused(Codec::DEFLATE, "the stream is not complete".into()))
    }

    /// Begins a stream.
    pub(crate) fn start_stream(&mut self) {
        self.state.reset(true);
    }

    /// Takes as much of `src` and fills as much of `dst` as it can.
    pub(crate) fn stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Step> {
        let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
        let status = self
            .state
            .decompress(src, dst, FlushDecompress::None)
            .map_err(|error| refused(Codec::DEFLATE, error.to_string()))?;
        Ok(Step {
            consumed: moved(before_in, self.state.total_in()),
            written: moved(before_out, self.state.total_out()),
            done: status == Status::StreamEnd,
        })
    }
}

/// Distance between two totals of a state, which lies within one slice.
fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}

fn failed(detail: String) -> IFileError {
    IFileError::Compress { codec: Codec::DEFLATE.name(), detail }
}
