//! Stored bytes of a range, through one bounded buffer: positions, ends, checksum.

use super::header::CHECKSUM_BYTES;
use crate::codec::{to_u64, to_usize_limit};
use crate::error::{Fault, IFileError, Place, Result};
use std::io::{ErrorKind, Read};

/// A reader's buffer. Bytes `start..end` are read and not yet consumed.
///
/// All memory is initialized, so `buffer.len()` is its capacity; it grows only as bytes arrive, never
/// by a length that was read.
pub(super) struct Source<R> {
    pub(super) reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes before this one are in the checksum; at most `start`.
    summed: usize,
    crc: crc32fast::Hasher,
    /// Offset of `start` in the range.
    position: u64,
    /// Where the body ends in the range, if it is known.
    body_end: Option<u64>,
    /// The reader has reported its end.
    drained: bool,
    place: Place,
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R, capacity: usize, place: Place) -> Self {
        Self {
            reader,
            buffer: vec![0; capacity.max(16)],
            start: 0,
            end: 0,
            summed: 0,
            crc: crc32fast::Hasher::new(),
            position: 0,
            body_end: None,
            drained: false,
            place,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Offset in the range of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Offset in the range of the next byte the reader gives.
    pub(super) fn buffered_to(&self) -> u64 {
        self.position.saturating_add(to_u64(self.end - self.start))
    }

    /// Sets where the body ends, counted in the range.
    pub(super) fn set_body_end(&mut self, end: Option<u64>) {
        self.body_end = end;
    }

    /// Stored bytes of the body that are left, if its end is known.
    pub(super) fn body_left(&self) -> Option<u64> {
        self.body_end.map(|end| end.saturating_sub(self.position))
    }

    /// Forgets what is buffered: the reader stands at `position` of the range.
    pub(super) fn rewound(&mut self, position: u64) {
        (self.start, self.end, self.summed) = (0, 0, 0);
        self.position = position;
        self.drained = false;
    }

    /// The place `ahead` bytes from here.
    pub(super) fn place(&self, ahead: usize) -> Place {
        let offset = self.place.offset.saturating_add(self.position).saturating_add(to_u64(ahead));
        Place { offset, ..self.place.clone() }
    }

    pub(super) fn set_partition(&mut self, partition: Option<u32>) {
        self.place.partition = partition;
    }

    pub(super) fn fault(&self, ahead: usize, fault: Fault) -> IFileError {
        IFileError::corrupt(fault, self.place(ahead))
    }

    /// What is buffered of the body.
    #[inline]
    pub(super) fn body(&self) -> &[u8] {
        let buffered = self.buffer.get(self.start..self.end).unwrap_or_default();
        match self.body_left() {
            Some(left) => buffered.get(..to_usize_limit(left)).unwrap_or(buffered),
            None => buffered,
        }
    }

    /// Whether no byte of the body is left. If its end is not known, whether no byte at all is left.
    pub(super) fn at_body_end(&mut self) -> Result<bool> {
        match self.body_left() {
            Some(left) => Ok(left == 0),
            None => Ok(self.fill(1)? == 0),
        }
    }

    /// Reads until `wanted` bytes are buffered or there are no more, whatever they belong to, and
    /// returns how many are buffered.
    pub(super) fn fill(&mut self, wanted: usize) -> Result<usize> {
        while self.end - self.start < wanted && !self.drained {
            self.make_room(wanted);
            let spare = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.reader.read(spare) {
                Ok(0) => self.drained = true,
                Ok(len) => self.end = (self.end + len).min(self.buffer.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let place = self.place(self.end - self.start);
                    return Err(IFileError::Io { action: "read segment", place, source });
                }
            }
        }
        Ok(self.end - self.start)
    }

    /// Reads until `wanted` bytes of the body are buffered or it has no more, and returns how many
    /// are. Input that ends before a known end of the body is a fault.
    pub(super) fn fill_body(&mut self, wanted: usize) -> Result<usize> {
        let Some(left) = self.body_left() else {
            return self.fill(wanted);
        };
        let wanted = wanted.min(to_usize_limit(left));
        let found = self.fill(wanted)?;
        if found < wanted {
            let missing =
                Fault::UnexpectedEnd { what: "segment body", expected: left, found: to_u64(found) };
            return Err(self.fault(found, missing));
        }
        Ok(self.body().len())
    }

    fn make_room(&mut self, wanted: usize) {
        if self.end < self.buffer.len() && wanted <= self.buffer.len() - self.start {
            return;
        }
        self.sum();
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            (self.start, self.summed) = (0, 0);
        }
        if self.end == self.buffer.len() {
            let doubled = self.buffer.len().saturating_mul(2);
            self.buffer.resize(doubled.min(wanted).max(self.end + 1), 0);
        }
    }

    /// Adds what has been consumed to the checksum.
    fn sum(&mut self) {
        self.crc.update(self.buffer.get(self.summed..self.start).unwrap_or_default());
        self.summed = self.start;
    }

    /// Consumes `len` bytes of the body.
    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        self.position = self.position.saturating_add(to_u64(len));
    }

    /// Takes `N` bytes that no checksum covers, or says how many there are.
    pub(super) fn take<const N: usize>(&mut self) -> Result<Result<[u8; N], usize>> {
        self.sum();
        let found = self.fill(N)?;
        let buffered = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(bytes) = buffered.first_chunk::<N>().copied() else {
            return Ok(Err(found));
        };
        self.consume(N);
        self.summed = self.start;
        Ok(Ok(bytes))
    }

    /// Begins the checksum of a new body here.
    pub(super) fn begin_body(&mut self) {
        self.crc.reset();
        self.summed = self.start;
    }

    /// Ends the body here: reads the stored checksum behind it and compares.
    pub(super) fn end_body(&mut self) -> Result<u32> {
        self.sum();
        let expected = self.crc.clone().finalize();
        match self.take::<CHECKSUM_BYTES>()? {
            Ok(bytes) => {
                let found = u32::from_be_bytes(bytes);
                if found == expected {
                    return Ok(found);
                }
                let mut place = self.place(0);
                place.offset -= to_u64(CHECKSUM_BYTES);
                Err(IFileError::corrupt(Fault::Checksum { expected, found }, place))
            }
            Err(found) => {
                let missing = Fault::UnexpectedEnd {
                    what: "checksum",
                    expected: to_u64(CHECKSUM_BYTES),
                    found: to_u64(found),
                };
                Err(self.fault(found, missing))
            }
        }
    }

    /// Passes over the rest of the body and its checksum without looking inside.
    pub(super) fn skip_body(&mut self) -> Result<u32> {
        while self.body_left().unwrap_or(0) > 0 {
            let found = self.fill_body(1)?;
            self.consume(found);
        }
        self.end_body()
    }
}
