//! Everything a segment writer needs that is worth keeping from one segment to the next.

use super::bound::RawBound;
use super::header::{CHECKSUM_BYTES, HEADER_BYTES};
use super::options::{SegmentOptions, WriteMode};
use super::write_buffer::WriteBuffer;
use crate::codec::framing::{BLOCK_HEADER, DEFAULT_CODEC_BUFFER};
use crate::codec::{Codec, Compressor, to_usize_limit};
use crate::error::Result;

/// Buffers and codec states of one task. Its segment writers borrow it one after another; a task that
/// writes many small segments allocates for the first and hardly again.
#[derive(Debug)]
pub struct WriteScratch {
    pub(super) options: SegmentOptions,
    pub(super) max_input: usize,
    pub(super) compressor: Compressor,
    /// A raw header, then raw bytes that wait for the codec (or, without one, for the sink).
    pub(super) block: WriteBuffer,
    /// Stored bytes that wait for the sink.
    pub(super) stored: Outbox,
    pub(super) previous_key: Vec<u8>,
}

impl WriteScratch {
    /// Checks the options and builds the codec's states. Buffers hold no memory until a segment is
    /// written.
    ///
    /// # Errors
    /// If the options are invalid, or the codec cannot be set up.
    pub fn new(options: SegmentOptions) -> Result<Self> {
        let max_input = options.max_input()?;
        let block_limit = match options.codec {
            Codec::None => WriteBuffer::MAX,
            _ => HEADER_BYTES + max_input,
        };
        Ok(Self {
            options,
            max_input,
            compressor: Compressor::new(options.codec)?,
            block: WriteBuffer::new(block_limit)?,
            stored: Outbox::default(),
            previous_key: Vec::new(),
        })
    }

    /// The options all segments of this scratch are written with.
    pub fn options(&self) -> &SegmentOptions {
        &self.options
    }

    /// Bytes of memory held: buffers, and codec states at their real size.
    pub fn held_bytes(&self) -> usize {
        self.block_bytes()
            + self.stored_bytes()
            + self.previous_key.capacity()
            + self.compressor.state_bytes()
    }

    /// Bytes held for raw data.
    pub fn block_bytes(&self) -> usize {
        self.block.capacity()
    }

    /// Bytes held for stored data.
    pub fn stored_bytes(&self) -> usize {
        self.stored.bytes.capacity()
    }

    /// How often a buffer that was sized to a bound had to grow all the same. Stays 0 while bounds
    /// hold.
    pub fn growths(&self) -> u64 {
        self.block.growths() + self.stored.growths
    }

    /// Makes room for segments of up to `bound` raw bytes, so that [`WriteScratch::held_bytes`] is
    /// final before the first of them.
    ///
    /// # Errors
    /// If the codec cannot be set up.
    pub fn prepare(&mut self, bound: RawBound) -> Result<()> {
        let raw = match bound {
            RawBound::UNKNOWN => DEFAULT_CODEC_BUFFER.max(self.max_input),
            known => to_usize_limit(known.raw_length()),
        };
        self.size_to(raw);
        let body = raw.saturating_sub(HEADER_BYTES);
        if let Some(encoder) = self.compressor.zstd() {
            encoder.prepare(body.min(self.max_input))?;
            if body > self.max_input {
                encoder.prepare_stream(stream_window_log(self.max_input))?;
            }
        }
        Ok(())
    }

    /// Sizes the buffers for a segment of at most `bound` raw bytes.
    pub(super) fn open(&mut self, bound: RawBound) {
        self.block.clear();
        self.stored.clear();
        self.previous_key.clear();
        if bound != RawBound::UNKNOWN {
            self.size_to(to_usize_limit(bound.raw_length()));
        }
    }

    fn size_to(&mut self, raw: usize) {
        // A body that is stored raw has its checksum behind it in the same buffer.
        if self.options.mode == WriteMode::Buffered || self.options.codec != Codec::None {
            self.block.size_for(raw.saturating_add(CHECKSUM_BYTES));
        }
        if self.options.codec != Codec::None {
            let body = raw.saturating_sub(HEADER_BYTES).min(self.max_input);
            self.stored.size_for(self.stored_bound(body));
        }
    }

    /// The most stored bytes that a block of `raw` bytes leaves pending: the segment's header, the
    /// block's, the chunk, the checksum.
    pub(super) fn stored_bound(&self, raw: usize) -> usize {
        HEADER_BYTES + BLOCK_HEADER + self.compressor.bound(raw) + CHECKSUM_BYTES
    }
}

/// The window of a stream whose blocks have up to `max_input` bytes: the largest power of two within.
pub(super) fn stream_window_log(max_input: usize) -> u32 {
    max_input
        .max(1)
        .ilog2()
        .clamp(crate::codec::MIN_WINDOW_LOG, crate::codec::DEFAULT_WINDOW_LOG_MAX)
}

/// A byte buffer all of whose memory is initialized, since codecs write into slices.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    len: usize,
    growths: u64,
}

impl Outbox {
    fn size_for(&mut self, capacity: usize) {
        if self.bytes.len() >= capacity {
            return;
        }
        if self.len == 0 {
            self.bytes = vec![0; capacity];
        } else {
            self.bytes.reserve_exact(capacity - self.bytes.len());
            self.bytes.resize(capacity, 0);
        }
    }

    /// Sees to it that `len` more bytes fit.
    pub(super) fn ensure(&mut self, len: usize) {
        let end = self.len.saturating_add(len);
        if end > self.bytes.len() {
            self.growths += u64::from(!self.bytes.is_empty());
            self.size_for(end);
        }
    }

    /// The free part.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.len..).unwrap_or_default()
    }

    /// Counts `len` bytes of the free part as pending.
    pub(super) fn advance(&mut self, len: usize) {
        self.len = self.len.saturating_add(len).min(self.bytes.len());
    }

    /// Appends.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.ensure(data.len());
        if let Some(slot) = self.spare().get_mut(..data.len()) {
            slot.copy_from_slice(data);
            self.len += data.len();
        }
    }

    /// Overwrites the pending bytes from `at` on.
    pub(super) fn patch(&mut self, at: usize, data: &[u8]) {
        if let Some(slot) = self.bytes.get_mut(at..at.saturating_add(data.len())) {
            slot.copy_from_slice(data);
        }
    }

    /// The pending part.
    pub(super) fn pending(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}
