//! From stored bytes to raw bytes, a bounded slice at a time.

use super::source::Source;
use crate::codec::{Codec, Decompressor, ZstdDecoder, to_u64, to_usize_limit};
#[cfg(feature = "deflate")]
use crate::codec::{DeflateDecoder, Step};
use crate::error::{Fault, IFileError, Result};
use std::io::Read;

const BLOCK_LEN: usize = size_of::<i32>();

/// Decoded bytes `start..end` that no record has used yet. All memory is initialized.
#[derive(Default)]
pub(super) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// `len` bytes to decode into.
    fn spare(&mut self, len: usize) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let wanted = self.end.saturating_add(len);
        if wanted > self.buffer.len() {
            // Never more than what is decoded and one slice of it on top, twice.
            let capacity = wanted.max(self.buffer.len().saturating_mul(2).min(wanted * 2));
            self.buffer.resize(capacity, 0);
        }
        self.buffer.get_mut(self.end..wanted).unwrap_or_default()
    }

    fn advance(&mut self, len: usize) {
        self.end = (self.end + len).min(self.buffer.len());
    }
}

/// How bodies of one codec are decoded.
pub(super) struct BodyReader {
    codec: Codec,
    /// The most raw bytes of a slice, and the most raw or stored bytes of a chunk.
    cap: usize,
    decoder: Decoder,
    /// Raw bytes decoded of the present body.
    decoded: u64,
    /// Raw bytes of the present body, where given.
    expected: Option<u64>,
}

enum Decoder {
    /// Nothing to decode with; a compressed body is an error before it comes here.
    None,
    Chunks {
        state: Decompressor,
        block_left: usize,
    },
    Zstd {
        state: ZstdDecoder,
        done: bool,
    },
    #[cfg(feature = "deflate")]
    Deflate {
        state: DeflateDecoder,
        done: bool,
    },
}

/// What a call of [`BodyReader::decode`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    /// So many raw bytes more.
    Bytes(usize),
    /// The body is over.
    End,
}

impl BodyReader {
    pub(super) fn new(codec: Codec, cap: usize, window_log_max: u32) -> Result<Self> {
        codec.validate()?;
        let decoder = match codec {
            Codec::None => Decoder::None,
            Codec::Snappy | Codec::Lz4 => {
                Decoder::Chunks { state: Decompressor::new(), block_left: 0 }
            }
            Codec::Zstd { .. } => {
                Decoder::Zstd { state: ZstdDecoder::new(window_log_max)?, done: false }
            }
            #[cfg(feature = "deflate")]
            Codec::Deflate { .. } => Decoder::Deflate { state: DeflateDecoder::new(), done: false },
            #[cfg(not(feature = "deflate"))]
            Codec::Deflate { .. } => Decoder::None,
        };
        Ok(Self { codec, cap, decoder, decoded: 0, expected: None })
    }

    pub(super) fn state_bytes(&self) -> usize {
        match &self.decoder {
            Decoder::None => 0,
            Decoder::Chunks { state, .. } => state.state_bytes(),
            Decoder::Zstd { state, .. } => state.state_bytes(),
            #[cfg(feature = "deflate")]
            Decoder::Deflate { state, .. } => state.state_bytes(),
        }
    }

    /// Begins a body of `expected` raw bytes.
    pub(super) fn begin(&mut self, expected: Option<u64>) -> Result<()> {
        self.decoded = 0;
        self.expected = expected;
        match &mut self.decoder {
            Decoder::None => {}
            Decoder::Chunks { block_left, .. } => *block_left = 0,
            Decoder::Zstd { state, done } => {
                *done = false;
                state.start_stream()?;
            }
            #[cfg(feature = "deflate")]
            Decoder::Deflate { state, done } => {
                *done = false;
                state.start_stream();
            }
        }
        Ok(())
    }

    /// Raw bytes decoded so far.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Raw bytes that are still to be decoded, where it is known.
    pub(super) fn left(&self) -> Option<u64> {
        self.expected.map(|expected| expected.saturating_sub(self.decoded))
    }

    /// Decodes one slice more into `window`.
    pub(super) fn decode<R: Read>(
        &mut self,
        source: &mut Source<R>,
        window: &mut Window,
    ) -> Result<Decoded> {
        let slice = self.left().map_or(self.cap, |left| self.cap.min(to_usize_limit(left)));
        let before = self.decoded;
        let at = source.place(0);
        let decoded = match &mut self.decoder {
            Decoder::None => Ok(Decoded::End),
            Decoder::Chunks { state, block_left } => {
                let limits = ChunkLimits { codec: self.codec, cap: self.cap, slice };
                decode_chunk(state, block_left, limits, source, window)
            }
            Decoder::Zstd { state, done } => {
                stream(done, slice, "zstd frame", source, window, |src, dst| state.stream(src, dst))
            }
            #[cfg(feature = "deflate")]
            Decoder::Deflate { state, done } => {
                let step = |src: &[u8], dst: &mut [u8]| -> Result<Step> { state.stream(src, dst) };
                stream(done, slice, "deflate stream", source, window, step)
            }
        };
        let decoded = decoded.map_err(|error| error.or_place(&at))?;
        if let Decoded::Bytes(len) = decoded {
            self.decoded = before.saturating_add(to_u64(len));
        }
        match self.expected {
            Some(expected) if self.decoded > expected => {
                Err(IFileError::corrupt(Fault::DecodedLength { expected, found: self.decoded }, at))
            }
            _ => Ok(decoded),
        }
    }

    /// Whether the body can end where the source stands: no block, frame or stream is open.
    fn is_complete(&self) -> bool {
        match &self.decoder {
            Decoder::None => true,
            Decoder::Chunks { block_left, .. } => *block_left == 0,
            Decoder::Zstd { done, .. } => *done,
            #[cfg(feature = "deflate")]
            Decoder::Deflate { done, .. } => *done,
        }
    }

    /// Decodes what is left of a body whose records are complete: it may hold the end of a frame, but
    /// no more raw bytes.
    pub(super) fn end<R: Read>(
        &mut self,
        source: &mut Source<R>,
        window: &mut Window,
    ) -> Result<()> {
        let known_end = source.body_left().is_some();
        while window.bytes().is_empty() && !(self.is_complete() && !known_end) {
            if self.decode(source, window)? == Decoded::End {
                break;
            }
        }
        match window.bytes().len() {
            0 => Ok(()),
            found => {
                let found = to_u64(found);
                let fault = Fault::TrailingBytes { after: "end-of-stream markers", found };
                Err(source.fault(0, fault))
            }
        }
    }
}

#[derive(Clone, Copy)]
struct ChunkLimits {
    codec: Codec,
    cap: usize,
    slice: usize,
}

/// Decodes one chunk, after the header of its block if it is the first.
fn decode_chunk<R: Read>(
    state: &mut Decompressor,
    block_left: &mut usize,
    limits: ChunkLimits,
    source: &mut Source<R>,
    window: &mut Window,
) -> Result<Decoded> {
    if *block_left == 0 {
        if source.at_body_end()? {
            return Ok(Decoded::End);
        }
        let len = peek_len(source, 0, "block length")?;
        *block_left = match usize::try_from(len) {
            Ok(raw_len) if raw_len > 0 => raw_len,
            _ => {
                let limit = to_u64(i32::MAX.unsigned_abs().try_into().unwrap_or(usize::MAX));
                return Err(source.fault(0, Fault::BlockLength { limit, found: len }));
            }
        };
        source.consume(BLOCK_LEN);
    }
    let len = peek_len(source, 0, "chunk length")?;
    let chunk_len = match usize::try_from(len) {
        Ok(chunk_len) if (1..=limits.cap).contains(&chunk_len) => chunk_len,
        _ => {
            let limit = to_u64(limits.cap);
            return Err(source.fault(0, Fault::ChunkLength { limit, found: len }));
        }
    };
    let end = BLOCK_LEN + chunk_len;
    let found = source.fill_body(end)?;
    if found < end {
        return Err(short(source, "chunk", end, found));
    }
    let slice = limits.slice.min(*block_left).max(1);
    let spare = window.spare(slice);
    let chunk = source.body().get(BLOCK_LEN..end).unwrap_or_default();
    let decoded = state.decode(limits.codec, chunk, spare)?;
    if decoded == 0 || decoded > *block_left {
        let fault = Fault::ChunkRawLength { limit: to_u64(*block_left), found: to_u64(decoded) };
        return Err(source.fault(0, fault));
    }
    window.advance(decoded);
    source.consume(end);
    *block_left -= decoded;
    Ok(Decoded::Bytes(decoded))
}

fn peek_len<R: Read>(source: &mut Source<R>, at: usize, what: &'static str) -> Result<i32> {
    let found = source.fill_body(at + BLOCK_LEN)?;
    match source.body().get(at..).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => Ok(i32::from_be_bytes(*bytes)),
        None => Err(short(source, what, BLOCK_LEN, found)),
    }
}

fn short<R: Read>(
    source: &Source<R>,
    what: &'static str,
    expected: usize,
    found: usize,
) -> IFileError {
    let (expected, found) = (to_u64(expected), to_u64(found));
    source.fault(0, Fault::UnexpectedEnd { what, expected, found })
}

/// Decodes a slice of a stream that fills the body alone.
fn stream<R: Read>(
    done: &mut bool,
    slice: usize,
    name: &'static str,
    source: &mut Source<R>,
    window: &mut Window,
    mut step: impl FnMut(&[u8], &mut [u8]) -> Result<crate::codec::Step>,
) -> Result<Decoded> {
    loop {
        if *done {
            return match source.body_left() {
                None | Some(0) => Ok(Decoded::End),
                Some(found) => Err(source.fault(0, Fault::TrailingBytes { after: name, found })),
            };
        }
        let found = source.fill_body(1)?;
        // One byte of room even where none is expected, so that what is too much shows.
        let spare = window.spare(slice.max(1));
        let step = step(source.body(), spare)?;
        source.consume(step.consumed);
        window.advance(step.written);
        *done = step.done;
        if step.written > 0 {
            return Ok(Decoded::Bytes(step.written));
        }
        if !step.done && step.consumed == 0 && found == 0 {
            return Err(short(source, name, 1, 0));
        }
        if !step.done && step.consumed == 0 {
            let left = to_u64(found);
            return Err(source
                .fault(0, Fault::UnexpectedEnd { what: name, expected: left + 1, found: left }));
        }
    }
}
