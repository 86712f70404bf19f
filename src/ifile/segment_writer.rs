//! Writes one segment.

use super::body_writer::{BodyWriter, Downstream};
use super::bound::RawBound;
use super::header::{EOF_MARKERS, HEADER_BYTES, RUN_END_MARKER, RUN_MARKER, SegmentSummary};
use super::options::WriteMode;
use super::scratch::WriteScratch;
use crate::codec::to_u64;
use crate::error::{IFileError, Place, Result};
use crate::wire::{MAX_VINT_BYTES, vlong_bytes};
use std::io::Write;

/// Two lengths.
const MAX_RECORD_HEAD: usize = 2 * MAX_VINT_BYTES;

/// Writes one segment to a sink: records in, a complete segment out at [`SegmentWriter::finish`].
///
/// A writer that is dropped without that leaves a part of a segment behind that no reader accepts.
/// After an error the segment cannot be completed.
pub struct SegmentWriter<'s, W: Write> {
    body: BodyWriter<'s, W>,
    raw_length: u64,
    records: u64,
    run_open: bool,
    failed: bool,
}

impl<'s, W: Write> SegmentWriter<'s, W> {
    /// Begins a segment with the options of `scratch`. `bound` sizes the buffers, nothing else.
    ///
    /// # Errors
    /// Those of the sink, in unbuffered mode.
    pub fn new(sink: W, scratch: &'s mut WriteScratch, bound: RawBound) -> Result<Self> {
        Self::at(sink, scratch, bound, Place::default())
    }

    /// As [`SegmentWriter::new`], with the place of the segment for errors.
    ///
    /// # Errors
    /// Those of the sink, in unbuffered mode.
    pub fn at(
        sink: W,
        scratch: &'s mut WriteScratch,
        bound: RawBound,
        place: Place,
    ) -> Result<Self> {
        scratch.open(bound);
        Ok(Self {
            body: BodyWriter::new(scratch, Downstream::new(sink, place))?,
            raw_length: to_u64(HEADER_BYTES),
            records: 0,
            run_open: false,
            failed: false,
        })
    }

    /// Appends a record. With the option for runs, a key equal to the one before it (and not empty)
    /// is not repeated.
    ///
    /// # Errors
    /// Those of the sink and the codec, and [`IFileError::Usage`] for a key or value beyond the
    /// format's 2 GiB.
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.body.scratch.options.runs {
            return self.append_record(key, value);
        }
        if self.records > 0 && !key.is_empty() && self.body.scratch.previous_key == key {
            return self.append_repeat(value);
        }
        if self.run_open {
            self.put(&[RUN_END_MARKER])?;
            self.run_open = false;
        }
        self.append_record(key, value)?;
        self.body.scratch.previous_key.clear();
        self.body.scratch.previous_key.extend_from_slice(key);
        Ok(())
    }

    fn append_record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check()?;
        let (key_len, key_head) = length(key)?;
        let (value_len, value_head) = length(value)?;
        let mut head = [0; MAX_RECORD_HEAD];
        let (first, rest) = head.split_at_mut(key_head);
        copy_head(first, &key_len);
        copy_head(rest, &value_len);
        let head_len = key_head + value_head;
        let head = head.get(..head_len).unwrap_or_default();
        let total = head_len.saturating_add(key.len()).saturating_add(value.len());
        if let Some(block) = self.body.room(total) {
            block.extend_from_slice(head);
            block.extend_from_slice(key);
            block.extend_from_slice(value);
        } else {
            self.put_pieces(head, key, value)?;
        }
        self.raw_length = self.raw_length.saturating_add(to_u64(total));
        self.records += 1;
        Ok(())
    }

    /// One more value for the key of the record before.
    fn append_repeat(&mut self, value: &[u8]) -> Result<()> {
        if !self.run_open {
            self.put(&[RUN_MARKER])?;
            self.run_open = true;
        }
        let (bytes, len) = length(value)?;
        let head = bytes.get(..len).unwrap_or_default();
        self.check()?;
        self.put_pieces(head, value, &[])?;
        self.raw_length += to_u64(head.len()) + to_u64(value.len());
        self.records += 1;
        Ok(())
    }

    /// Writes what does not fit the block as a whole, or must not be taken as one.
    #[cold]
    fn put_pieces(&mut self, head: &[u8], first: &[u8], second: &[u8]) -> Result<()> {
        let mut write_all = || {
            if self.body.scratch.options.mode == WriteMode::Unbuffered {
                head.chunks(1).try_for_each(|byte| self.body.put(byte))?;
            } else {
                self.body.put(head)?;
            }
            self.body.put(first)?;
            self.body.put(second)
        };
        let result = write_all();
        self.failed |= result.is_err();
        result
    }

    /// Writes marker bytes, each on its own.
    fn put(&mut self, markers: &[u8]) -> Result<()> {
        self.check()?;
        let result = markers.chunks(1).try_for_each(|marker| self.body.put(marker));
        self.failed |= result.is_err();
        self.raw_length += to_u64(markers.len());
        result
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(IFileError::Usage("append to a segment whose write has failed"));
        }
        Ok(())
    }

    /// Raw length so far, without what [`SegmentWriter::finish`] adds.
    pub fn raw_length(&self) -> u64 {
        self.raw_length
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Completes the segment. The sink is not flushed.
    ///
    /// # Errors
    /// Those of the sink and the codec.
    pub fn finish(mut self) -> Result<SegmentSummary> {
        if self.run_open {
            self.put(&[RUN_END_MARKER])?;
        }
        self.put(&EOF_MARKERS)?;
        let (crc32, compressed) = self.body.finish()?;
        Ok(SegmentSummary {
            raw_length: self.raw_length,
            part_length: self.body.down.written,
            crc32,
            records: self.records,
            compressed,
        })
    }
}

impl<W: Write> std::fmt::Debug for SegmentWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentWriter")
            .field("records", &self.records)
            .field("raw_length", &self.raw_length)
            .finish_non_exhaustive()
    }
}

/// A length's encoding.
#[inline]
fn length(bytes: &[u8]) -> Result<([u8; 9], usize)> {
    match i32::try_from(bytes.len()) {
        Ok(len) => Ok(vlong_bytes(i64::from(len))),
        Err(_) => Err(IFileError::Usage("append a key or value of more than 2 GiB")),
    }
}

fn copy_head(slot: &mut [u8], bytes: &[u8]) {
    slot.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
}
