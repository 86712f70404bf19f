//! Reads segments from a stream, within a bounded buffer.

use super::body_reader::{BodyReader, Decoded, Window};
use super::header::{
    CHECKSUM_BYTES, Flag, HEADER_BYTES, MIN_PART_LENGTH, SegmentSummary, parse_header,
};
use super::read_options::{Lengths, ReadOptions};
use super::records::{Entry, Record, RecordLimits, RecordState, Wanted};
use super::source::Source;
use crate::codec::{Codec, to_u64, to_usize_limit};
use crate::error::{Fault, IFileError, Result};
use std::io::{Read, Seek, SeekFrom};

/// Reads the records of one or several segments that follow one another in a range.
///
/// Memory is bounded by the read buffer, the codec buffer and the largest record, which is capped; a
/// length that was read never allocates by itself.
pub struct SegmentReader<R> {
    source: Source<R>,
    options: ReadOptions,
    body: BodyReader,
    window: Window,
    verify: Option<Verify<R>>,
    segment: Segment,
    failed: bool,
}

const HEADER: u64 = 4;

const _: () = assert!(HEADER_BYTES == 4);

type Verify<R> = fn(&mut SegmentReader<R>) -> Result<()>;

/// State of the present segment.
#[derive(Default)]
struct Segment {
    lengths: Lengths,
    start: u64,
    flag: Option<Flag>,
    state: RecordState,
    /// Bytes of the present record, to be consumed before the next.
    used: usize,
    /// Key of the last record within them, until it is consumed.
    last_key: Option<std::ops::Range<usize>>,
    /// Key of the last record, once its bytes are consumed.
    kept_key: Vec<u8>,
    raw: u64,
    records: u64,
    summary: Option<SegmentSummary>,
}

impl<R: Read> SegmentReader<R> {
    /// A reader that hands out records before it has seen the segment's checksum. For records that
    /// carry a checksum of their own. Ends in an error if the segment's checksum fails.
    ///
    /// # Errors
    /// If the options are invalid, or the header of the first segment.
    pub fn self_checked(source: R, lengths: Lengths, options: ReadOptions) -> Result<Self> {
        Self::open(source, lengths, options, None)
    }

    fn open(
        source: R,
        lengths: Lengths,
        options: ReadOptions,
        verify: Option<Verify<R>>,
    ) -> Result<Self> {
        let body = BodyReader::new(options.codec, options.codec_buffer, options.window_log_max)?;
        let capacity =
            lengths.part.map_or(options.buffer, |part| options.buffer.min(to_usize_limit(part)));
        let mut reader = Self {
            source: Source::new(source, capacity, options.place.clone()),
            options,
            body,
            window: Window::default(),
            verify,
            segment: Segment::default(),
            failed: false,
        };
        reader.begin(lengths)?;
        Ok(reader)
    }

    /// Bytes of memory held: buffers, and the codec's state at its real size.
    pub fn held_bytes(&self) -> usize {
        self.source.capacity()
            + self.window.capacity()
            + self.segment.kept_key.capacity()
            + self.body.state_bytes()
    }

    /// What is known of the present segment once its last record is out.
    pub fn summary(&self) -> Option<SegmentSummary> {
        self.segment.summary
    }

    /// Offset in the range of the next byte that no record or segment has used.
    pub fn position(&self) -> u64 {
        self.source.position()
    }

    /// Gives the source back. What has been buffered is lost.
    pub fn into_inner(self) -> R {
        self.source.reader
    }

    /// Begins the next segment of the range, for a partition of its own. The one before has to be
    /// read to its end. `false` if its lengths are not known and the range is over.
    ///
    /// # Errors
    /// If the next header or, for a verifying reader, the next segment is broken.
    pub fn next_segment(&mut self, lengths: Lengths, partition: Option<u32>) -> Result<bool> {
        self.check()?;
        if self.segment.summary.is_none() {
            return Err(IFileError::Usage("begin a segment before the end of the one before"));
        }
        if lengths.part.is_none() && self.source.fill(1)? == 0 {
            return Ok(false);
        }
        if partition.is_some() {
            self.source.set_partition(partition);
        }
        let result = self.begin(lengths);
        self.failed |= result.is_err();
        result.map(|()| true)
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(IFileError::Usage("read on after an error"));
        }
        Ok(())
    }

    fn begin(&mut self, lengths: Lengths) -> Result<()> {
        let kept_key = std::mem::take(&mut self.segment.kept_key);
        let start = self.source.position();
        self.segment = Segment { lengths, start, kept_key, ..Segment::default() };
        self.segment.kept_key.clear();
        self.open_body()?;
        match self.verify {
            Some(verify) => verify(self),
            None => Ok(()),
        }
    }

    /// Reads the header and prepares for the body.
    fn open_body(&mut self) -> Result<()> {
        self.source.set_body_end(None);
        let start = self.segment.start;
        let part = self.segment.lengths.part;
        if let Some(found @ ..HEADER) = part {
            return Err(self.source.fault(0, Fault::HeaderTruncated { found }));
        }
        let header = match self.source.take::<HEADER_BYTES>()? {
            Ok(header) => header,
            Err(found) => {
                let fault = Fault::HeaderTruncated { found: to_u64(found) };
                return Err(self.source.fault(0, fault));
            }
        };
        let flag = parse_header(header)
            .and_then(|flag| check_flag(flag, self.segment.lengths, &self.options).map(|()| flag));
        let flag = flag.map_err(|fault| {
            let mut place = self.source.place(0);
            place.offset -= to_u64(HEADER_BYTES);
            IFileError::corrupt(fault, place)
        })?;
        self.segment.flag = Some(flag);
        if let Some(found @ ..MIN_PART_LENGTH) = part {
            let fault = Fault::PartLength { expected: MIN_PART_LENGTH, found };
            return Err(self.source.fault(0, fault));
        }
        let end = part.map(|part| start.saturating_add(part) - to_u64(CHECKSUM_BYTES));
        self.source.set_body_end(end);
        self.source.begin_body();
        self.window.clear();
        let raw_body = self.segment.lengths.raw.map(|raw| raw.saturating_sub(to_u64(HEADER_BYTES)));
        self.body.begin(raw_body)
    }

    /// The next record, `None` after the last: by then the checksum has been compared.
    ///
    /// # Errors
    /// Any fault of the segment. The reader is of no use after that.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        self.check()?;
        match self.advance() {
            Ok(Some(found)) => Ok(Some(self.record(found))),
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    fn record(&self, found: Found) -> Record<'_> {
        let window = self.raw();
        let value = window.get(found.value).unwrap_or_default();
        match (&self.segment.last_key, found.in_run) {
            (Some(key), false) => {
                Record { key: window.get(key.clone()).unwrap_or_default(), value, in_run: false }
            }
            (_, in_run) => Record { key: &self.segment.kept_key, value, in_run },
        }
    }

    /// The raw bytes at hand.
    #[inline]
    fn raw(&self) -> &[u8] {
        match self.segment.flag {
            Some(Flag::Compressed) => self.window.bytes(),
            _ => self.source.body(),
        }
    }

    /// Moves to the next record.
    fn advance(&mut self) -> Result<Option<Found>> {
        if self.segment.summary.is_some() {
            return Ok(None);
        }
        loop {
            let used = self.segment.used;
            let window = match self.segment.flag {
                Some(Flag::Compressed) => self.window.bytes(),
                _ => self.source.body(),
            };
            let limits =
                RecordLimits { left: self.left_from(used), record: self.options.record_cap };
            let rest = window.get(used..).unwrap_or_default();
            let entry = match self.segment.state.next(rest, limits) {
                Ok(entry) => entry,
                Err((at, fault)) => return Err(self.fault_at(used + at, fault)),
            };
            match entry {
                Entry::Pair { key, value } => {
                    self.consume(used);
                    self.segment.used = value.end;
                    self.segment.last_key = Some(key);
                    self.segment.records += 1;
                    return Ok(Some(Found { value, in_run: false }));
                }
                Entry::Repeat { value } => {
                    self.keep_key();
                    self.consume(used);
                    self.segment.used = value.end;
                    self.segment.records += 1;
                    return Ok(Some(Found { value, in_run: true }));
                }
                Entry::More(wanted) => {
                    self.keep_key();
                    self.consume(used);
                    self.segment.used = 0;
                    self.more(wanted)?;
                }
                Entry::End(len) => {
                    self.consume(used + len);
                    self.segment.used = 0;
                    self.end()?;
                    return Ok(None);
                }
            }
        }
    }

    /// Raw bytes from `used` on to the end of the stream, where known.
    fn left_from(&self, used: usize) -> Option<u64> {
        let left = match self.segment.flag {
            Some(Flag::Compressed) => {
                self.body.left().map(|left| left.saturating_add(to_u64(self.window.bytes().len())))
            }
            _ => self.source.body_left(),
        };
        left.map(|left| left.saturating_sub(to_u64(used)))
    }

    fn keep_key(&mut self) {
        if let Some(key) = self.segment.last_key.take() {
            let mut kept = std::mem::take(&mut self.segment.kept_key);
            kept.clear();
            kept.extend_from_slice(self.raw().get(key).unwrap_or_default());
            self.segment.kept_key = kept;
        }
    }

    fn consume(&mut self, len: usize) {
        match self.segment.flag {
            Some(Flag::Compressed) => self.window.consume(len),
            _ => self.source.consume(len),
        }
        self.segment.raw = self.segment.raw.saturating_add(to_u64(len));
    }

    fn fault_at(&self, at: usize, fault: Fault) -> IFileError {
        match self.segment.flag {
            Some(Flag::Compressed) => self.source.fault(0, fault),
            _ => self.source.fault(at, fault),
        }
    }

    /// Gets more raw bytes, towards `wanted`.
    fn more(&mut self, wanted: Wanted) -> Result<()> {
        let had = self.raw().len();
        if self.segment.flag == Some(Flag::Compressed) {
            // An entry of several slices gets them all before it is looked at again.
            while to_u64(self.raw().len()) < wanted.bytes {
                if self.body.decode(&mut self.source, &mut self.window)? == Decoded::End {
                    break;
                }
            }
        } else {
            self.source.fill_body(to_usize_limit(wanted.bytes))?;
        }
        let has = self.raw().len();
        if has > had && (to_u64(has) >= wanted.bytes || wanted.length.is_none()) {
            return Ok(());
        }
        let fault = match wanted.length {
            Some((field, found, before)) => {
                let limit = to_u64(has).saturating_sub(before);
                Fault::LengthBeyondData { field, limit, found }
            }
            None => Fault::MissingEof,
        };
        Err(self.fault_at(has, fault))
    }

    /// Ends the segment after its end-of-stream markers.
    fn end(&mut self) -> Result<()> {
        let compressed = self.segment.flag == Some(Flag::Compressed);
        if compressed {
            self.body.end(&mut self.source, &mut self.window)?;
        }
        match self.source.body_left() {
            None | Some(0) => {}
            Some(found) => {
                let fault = Fault::TrailingBytes { after: "end-of-stream markers", found };
                return Err(self.source.fault(0, fault));
            }
        }
        let crc32 = self.source.end_body()?;
        let header = to_u64(HEADER_BYTES);
        let raw_length = self.segment.raw + header;
        if let Some(expected) = self.segment.lengths.raw
            && expected != raw_length
        {
            let (expected, found) = (expected.saturating_sub(header), self.segment.raw);
            return Err(self.source.fault(0, Fault::DecodedLength { expected, found }));
        }
        self.segment.summary = Some(SegmentSummary {
            raw_length,
            part_length: self.source.position() - self.segment.start,
            crc32,
            records: self.segment.records,
            compressed,
        });
        Ok(())
    }
}

impl<R: Read + Seek> SegmentReader<R> {
    /// A reader that compares a segment's checksum before it hands out the first record, in a pass of
    /// its own over the range. The source stands at the first byte of the range.
    ///
    /// # Errors
    /// If the options are invalid, or the first segment. Where its lengths are not known, all of its
    /// records are parsed beforehand.
    pub fn verified(source: R, lengths: Lengths, options: ReadOptions) -> Result<Self> {
        Self::open(source, lengths, options, Some(Self::verify_ahead))
    }

    fn verify_ahead(&mut self) -> Result<()> {
        let body_start = self.source.position();
        if self.segment.lengths.part.is_some() {
            self.source.skip_body()?;
        } else {
            while self.advance()?.is_some() {}
        }
        let passed = self.source.buffered_to();
        let back = i64::try_from(passed - self.segment.start)
            .map_err(|_| IFileError::Usage("rewind by more than a file can have"))?;
        self.source.reader.seek(SeekFrom::Current(-back)).map_err(|source| IFileError::Io {
            action: "rewind segment",
            place: self.source.place(0),
            source,
        })?;
        self.source.rewound(self.segment.start);
        debug_assert!(body_start >= self.segment.start);
        let Segment { lengths, start, .. } = self.segment;
        self.segment = Segment { lengths, start, ..Segment::default() };
        self.open_body()
    }
}

/// Where the next record lies.
struct Found {
    value: std::ops::Range<usize>,
    in_run: bool,
}

/// Holds the flag against what the caller said of the segment.
pub(super) fn check_flag(flag: Flag, lengths: Lengths, options: &ReadOptions) -> Result<(), Fault> {
    match (flag, options.codec, lengths.raw, lengths.part) {
        (Flag::Compressed, Codec::None, ..) => Err(Fault::CompressedWithoutCodec),
        (Flag::Compressed, ..) => Ok(()),
        // A raw body has the length of its record stream.
        (Flag::Raw, _, Some(raw), Some(part)) => {
            let found = part.saturating_sub(to_u64(CHECKSUM_BYTES));
            if raw == found {
                return Ok(());
            }
            let header = to_u64(HEADER_BYTES);
            let (expected, found) = (raw.saturating_sub(header), found.saturating_sub(header));
            Err(Fault::DecodedLength { expected, found })
        }
        (Flag::Raw, Codec::None, ..) => Ok(()),
        (Flag::Raw, codec, ..) if !options.allow_raw => {
            Err(Fault::RawWithCodec { codec: codec.name() })
        }
        (Flag::Raw, ..) => Ok(()),
    }
}
