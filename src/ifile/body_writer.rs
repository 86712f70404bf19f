//! From raw bytes to stored bytes: where blocks end, what is compressed, what goes downstream.

use super::header::{CHECKSUM_BYTES, COMPRESSED_HEADER, HEADER_BYTES, RAW_HEADER};
use super::options::WriteMode;
use super::scratch::{WriteScratch, stream_window_log};
use crate::codec::framing::{BLOCK_HEADER, block_header};
use crate::codec::{Codec, to_u64};
use crate::error::{IFileError, Place, Result};
use std::io::Write;

/// The sink, and what a writer knows of the bytes it got.
pub(super) struct Downstream<W> {
    pub(super) sink: W,
    pub(super) place: Place,
    pub(super) written: u64,
    crc: crc32fast::Hasher,
}

impl<W: Write> Downstream<W> {
    pub(super) fn new(sink: W, place: Place) -> Self {
        Self { sink, place, written: 0, crc: crc32fast::Hasher::new() }
    }

    /// Writes bytes whose body starts at `skip` (what is before is the segment's header).
    fn send(&mut self, bytes: &[u8], skip: usize) -> Result<()> {
        self.crc.update(bytes.get(skip..).unwrap_or_default());
        self.send_unchecked(bytes)
    }

    /// Writes bytes that the checksum has seen, or does not cover.
    fn send_unchecked(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|source| IFileError::Io {
            action: "write segment",
            place: Place {
                offset: self.place.offset.saturating_add(self.written),
                ..self.place.clone()
            },
            source,
        })?;
        self.written += to_u64(bytes.len());
        Ok(())
    }
}

/// The body of one segment in the making.
pub(super) struct BodyWriter<'s, W> {
    pub(super) scratch: &'s mut WriteScratch,
    pub(super) down: Downstream<W>,
    kind: Kind,
    mode: WriteMode,
    /// The body has left the scratch in part, so that its flag can no longer change.
    begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Raw,
    Chunks,
    Stream,
}

impl<'s, W: Write> BodyWriter<'s, W> {
    pub(super) fn new(scratch: &'s mut WriteScratch, down: Downstream<W>) -> Result<Self> {
        let kind = match scratch.options.codec {
            Codec::None => Kind::Raw,
            Codec::Snappy | Codec::Lz4 => Kind::Chunks,
            Codec::Zstd { .. } | Codec::Deflate { .. } => Kind::Stream,
        };
        let mode = scratch.options.mode;
        let mut body = Self { scratch, down, kind, mode, begun: false };
        if kind == Kind::Raw && mode == WriteMode::Unbuffered {
            body.begun = true;
            body.down.send_unchecked(&RAW_HEADER)?;
        } else if let Some(bytes) = body.scratch.block.room(HEADER_BYTES) {
            bytes.extend_from_slice(&RAW_HEADER);
        }
        Ok(body)
    }

    /// Whether a record may go to the block as a whole, if the block has room for it.
    pub(super) fn takes_whole_records(&self) -> bool {
        self.mode == WriteMode::Buffered || self.kind == Kind::Stream
    }

    /// The block with room for `len` more bytes, if they can go there in one piece.
    #[inline]
    pub(super) fn room(&mut self, len: usize) -> Option<&mut Vec<u8>> {
        if !self.takes_whole_records() {
            return None;
        }
        self.scratch.block.room(len)
    }

    /// One write of the record stream.
    pub(super) fn put(&mut self, piece: &[u8]) -> Result<()> {
        match (self.kind, self.mode) {
            (Kind::Raw, WriteMode::Buffered) => self.put_raw(piece),
            (Kind::Raw, WriteMode::Unbuffered) if piece.is_empty() => Ok(()),
            (Kind::Raw, WriteMode::Unbuffered) => self.down.send(piece, 0),
            (Kind::Chunks, WriteMode::Unbuffered) => self.put_by_write(piece),
            (Kind::Chunks, WriteMode::Buffered) | (Kind::Stream, _) => self.put_by_position(piece),
        }
    }

    fn put_raw(&mut self, piece: &[u8]) -> Result<()> {
        let Self { scratch, down, begun, .. } = self;
        scratch.block.write(piece, &mut |bytes| {
            let skip = if *begun { 0 } else { HEADER_BYTES };
            *begun = true;
            down.send(bytes, skip)
        })
    }

    /// Fills the block to the brim, and empties it only when more follows.
    fn put_by_position(&mut self, mut piece: &[u8]) -> Result<()> {
        loop {
            let pending = self.scratch.block.pending() - HEADER_BYTES;
            let free = self.scratch.max_input - pending;
            if piece.len() <= free {
                if let Some(bytes) = self.scratch.block.room(piece.len()) {
                    bytes.extend_from_slice(piece);
                }
                return Ok(());
            }
            let (head, tail) = piece.split_at(free);
            piece = tail;
            if pending == 0 {
                self.emit(Some(head))?;
                continue;
            }
            if let Some(bytes) = self.scratch.block.room(head.len()) {
                bytes.extend_from_slice(head);
            }
            self.emit(None)?;
        }
    }

    /// Tez's rules: a write never spans two blocks, unless it has a block of its own.
    fn put_by_write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        let pending = self.scratch.block.pending() - HEADER_BYTES;
        if pending > 0 && pending + piece.len() > self.scratch.max_input {
            self.emit(None)?;
        }
        if piece.len() > self.scratch.max_input {
            return self.emit_chunks(piece);
        }
        if let Some(bytes) = self.scratch.block.room(piece.len()) {
            bytes.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Sends one full block: `direct`, or what is pending.
    fn emit(&mut self, direct: Option<&[u8]>) -> Result<()> {
        let skip = self.begin()?;
        match self.kind {
            Kind::Stream => self.feed(direct, false)?,
            Kind::Raw | Kind::Chunks => self.compress_block(direct)?,
        }
        if direct.is_none() {
            self.clear_block();
        }
        self.flush(skip)
    }

    /// Sends one block of several chunks.
    fn emit_chunks(&mut self, piece: &[u8]) -> Result<()> {
        let mut skip = self.begin()?;
        let raw_len = i32::try_from(piece.len()).map_err(|_| too_long(piece.len()))?;
        self.scratch.stored.push(&raw_len.to_be_bytes());
        for chunk in piece.chunks(self.scratch.max_input) {
            let WriteScratch { compressor, stored, options, .. } = &mut *self.scratch;
            let at = stored.pending().len();
            stored.ensure(size_of::<i32>() + compressor.bound(chunk.len()));
            stored.advance(size_of::<i32>());
            let len = compressor.compress_into(chunk, stored.spare())?;
            check_chunk(len, options.codec_buffer)?;
            stored.advance(len);
            let len = i32::try_from(len).map_err(|_| too_long(len))?;
            stored.patch(at, &len.to_be_bytes());
            self.flush(skip)?;
            skip = 0;
        }
        Ok(())
    }

    /// Sees to it that the segment's header has gone ahead of its first stored bytes, and returns the
    /// number of bytes that the checksum leaves out of the next flush.
    fn begin(&mut self) -> Result<usize> {
        if self.begun {
            return Ok(0);
        }
        self.begun = true;
        self.scratch.stored.push(&COMPRESSED_HEADER);
        if self.kind == Kind::Stream {
            self.start_stream()?;
        }
        Ok(HEADER_BYTES)
    }

    fn start_stream(&mut self) -> Result<()> {
        let window_log = stream_window_log(self.scratch.max_input);
        if let Some(encoder) = self.scratch.compressor.zstd() {
            encoder.start_stream(window_log)?;
        }
        #[cfg(feature = "deflate")]
        if let Some(encoder) = self.scratch.compressor.deflate() {
            encoder.start_stream();
        }
        Ok(())
    }

    /// Appends one block of one chunk to the stored bytes.
    fn compress_block(&mut self, direct: Option<&[u8]>) -> Result<()> {
        let WriteScratch { compressor, stored, block, options, .. } = &mut *self.scratch;
        let raw = direct.unwrap_or_else(|| block.body(HEADER_BYTES));
        let at = stored.pending().len();
        stored.ensure(BLOCK_HEADER + compressor.bound(raw.len()));
        stored.advance(BLOCK_HEADER);
        let len = compressor.compress_into(raw, stored.spare())?;
        check_chunk(len, options.codec_buffer)?;
        stored.advance(len);
        let header = block_header(raw.len(), len).ok_or_else(|| too_long(len))?;
        stored.patch(at, &header);
        Ok(())
    }

    /// Hands raw bytes to a stream codec; with `end`, closes its stream.
    fn feed(&mut self, direct: Option<&[u8]>, end: bool) -> Result<()> {
        let WriteScratch { compressor, stored, block, .. } = &mut *self.scratch;
        let raw = direct.unwrap_or_else(|| block.body(HEADER_BYTES));
        stored.ensure(compressor.bound(raw.len()));
        feed_stream(compressor, stored, raw, false)?;
        if end {
            feed_stream(compressor, stored, &[], true)?;
        }
        Ok(())
    }

    fn flush(&mut self, skip: usize) -> Result<()> {
        let stored = &mut self.scratch.stored;
        let result = match stored.pending() {
            [] => Ok(()),
            pending => self.down.send(pending, skip),
        };
        stored.clear();
        result
    }

    fn clear_block(&mut self) {
        self.scratch.block.truncate(HEADER_BYTES);
    }

    /// Ends the body and returns its checksum, and whether it is compressed.
    pub(super) fn finish(&mut self) -> Result<(u32, bool)> {
        if self.kind == Kind::Raw {
            return self.finish_raw().map(|crc| (crc, false));
        }
        let pending = self.scratch.block.pending() - HEADER_BYTES;
        if !self.begun {
            self.scratch.stored.push(&COMPRESSED_HEADER);
            self.compress_whole()?;
            let stored = self.scratch.stored.pending().len() - HEADER_BYTES;
            if self.scratch.options.store_incompressible_raw && stored >= pending {
                self.scratch.stored.clear();
                return self.finish_raw().map(|crc| (crc, false));
            }
            return self.finish_stored(HEADER_BYTES).map(|crc| (crc, true));
        }
        match self.kind {
            Kind::Stream => self.feed(None, true)?,
            _ if pending > 0 => self.compress_block(None)?,
            _ => {}
        }
        self.finish_stored(0).map(|crc| (crc, true))
    }

    /// Compresses a body that is pending as a whole.
    fn compress_whole(&mut self) -> Result<()> {
        if self.kind == Kind::Chunks {
            return self.compress_block(None);
        }
        let WriteScratch { compressor, stored, block, .. } = &mut *self.scratch;
        let raw = block.body(HEADER_BYTES);
        stored.ensure(compressor.bound(raw.len()));
        let len = compressor.compress_into(raw, stored.spare())?;
        stored.advance(len);
        Ok(())
    }

    /// Sends what is stored and pending, and the checksum with it.
    fn finish_stored(&mut self, skip: usize) -> Result<u32> {
        let Self { scratch, down, .. } = self;
        down.crc.update(scratch.stored.pending().get(skip..).unwrap_or_default());
        let crc = down.crc.clone().finalize();
        scratch.stored.push(&crc.to_be_bytes());
        let result = down.send_unchecked(scratch.stored.pending());
        scratch.stored.clear();
        result.map(|()| crc)
    }

    /// Sends what is raw and pending, and the checksum with it if it fits.
    fn finish_raw(&mut self) -> Result<u32> {
        let Self { scratch, down, begun, .. } = self;
        let skip = if *begun { 0 } else { HEADER_BYTES };
        down.crc.update(scratch.block.body(skip));
        let crc = down.crc.clone().finalize();
        let trailer = crc.to_be_bytes();
        const _: () = assert!(CHECKSUM_BYTES == size_of::<u32>());
        let together = scratch.block.push_past_max(&trailer);
        scratch.block.drain(&mut |bytes| down.send_unchecked(bytes))?;
        if !together {
            down.send_unchecked(&trailer)?;
        }
        Ok(crc)
    }
}

fn feed_stream(
    compressor: &mut crate::codec::Compressor,
    stored: &mut super::scratch::Outbox,
    mut raw: &[u8],
    end: bool,
) -> Result<()> {
    loop {
        let room = stored.spare();
        let step = if let Some(encoder) = compressor.zstd() {
            encoder.stream(raw, room, end)?
        } else {
            stream_deflate(compressor, raw, room, end)?
        };
        stored.advance(step.written);
        raw = raw.get(step.consumed..).unwrap_or_default();
        if step.done || (!end && raw.is_empty()) {
            return Ok(());
        }
        // Only a stream that holds back more than one block's worth comes here.
        stored.ensure(BLOCK_HEADER * 1024);
    }
}

#[cfg(feature = "deflate")]
fn stream_deflate(
    compressor: &mut crate::codec::Compressor,
    raw: &[u8],
    room: &mut [u8],
    end: bool,
) -> Result<crate::codec::Step> {
    match compressor.deflate() {
        Some(encoder) => encoder.stream(raw, room, end),
        None => Err(IFileError::Usage("a codec without streams was asked for one")),
    }
}

#[cfg(not(feature = "deflate"))]
fn stream_deflate(
    _: &mut crate::codec::Compressor,
    _: &[u8],
    _: &mut [u8],
    _: bool,
) -> Result<crate::codec::Step> {
    Err(IFileError::Usage("a codec without streams was asked for one"))
}

/// A chunk has to fit the codec buffer of whoever reads it. The raw length of a block is such that it
/// always does.
fn check_chunk(len: usize, codec_buffer: usize) -> Result<()> {
    if len <= codec_buffer { Ok(()) } else { Err(too_long(len)) }
}

fn too_long(len: usize) -> IFileError {
    IFileError::Compress { codec: "block", detail: format!("{len} bytes exceed a block") }
}
