//! Reads a segment that lies in memory as a whole.

use super::header::{
    CHECKSUM_BYTES, Flag, HEADER_BYTES, MIN_PART_LENGTH, SegmentSummary, parse_header,
};
use super::read_options::{Lengths, ReadOptions};
use super::records::{Entry, Record, RecordLimits, RecordState, Wanted};
use super::segment_reader::{SegmentReader, check_flag};
use crate::codec::{to_u64, to_usize_limit};
use crate::error::{Fault, IFileError, Place, Result};
use crate::wire::Cursor;
use std::ops::Range;

/// The records of a segment in memory. Its checksum is compared before the first record; raw bodies
/// are not copied.
pub struct SegmentSlice<'a> {
    inner: Inner<'a>,
}

enum Inner<'a> {
    Raw(RawSlice<'a>),
    Compressed(Box<SegmentReader<&'a [u8]>>),
}

struct RawSlice<'a> {
    body: &'a [u8],
    at: usize,
    key: Range<usize>,
    state: RecordState,
    record_cap: u64,
    place: Place,
    summary: SegmentSummary,
    over: bool,
}

impl<'a> SegmentSlice<'a> {
    /// Opens the segment at the front of `bytes`. Its stored length is that of `bytes` unless
    /// `lengths` has another; what lies behind it is ignored.
    ///
    /// # Errors
    /// If the header, a length or the checksum is wrong, or the options are invalid.
    pub fn open(bytes: &'a [u8], lengths: Lengths, options: ReadOptions) -> Result<Self> {
        let part = lengths.part.unwrap_or(to_u64(bytes.len()));
        let lengths = Lengths { part: Some(part), ..lengths };
        let fault = |offset: u64, fault| {
            let mut place = options.place.clone();
            place.offset = place.offset.saturating_add(offset);
            Err(IFileError::corrupt(fault, place))
        };
        let header_bytes = to_u64(HEADER_BYTES);
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>().filter(|_| part >= header_bytes)
        else {
            return fault(0, Fault::HeaderTruncated { found: to_u64(bytes.len()).min(part) });
        };
        let checked = parse_header(*header)
            .and_then(|flag| check_flag(flag, lengths, &options).map(|()| flag));
        let flag = match checked {
            Ok(flag) => flag,
            Err(wrong) => return fault(0, wrong),
        };
        if part < MIN_PART_LENGTH {
            let wrong = Fault::PartLength { expected: MIN_PART_LENGTH, found: part };
            return fault(header_bytes, wrong);
        }
        let whole = usize::try_from(part).ok().and_then(|part| bytes.get(..part));
        let Some(segment) = whole else {
            let found = to_u64(bytes.len()) - header_bytes;
            let expected = part - header_bytes;
            let wrong = Fault::UnexpectedEnd { what: "segment body and checksum", expected, found };
            return fault(to_u64(bytes.len()), wrong);
        };
        let mut cursor = Cursor::new(segment, options.place.clone());
        cursor.take(HEADER_BYTES, "header")?;
        let body = cursor.take(segment.len() - HEADER_BYTES - CHECKSUM_BYTES, "segment body")?;
        let place = cursor.place().clone();
        let found = cursor.u32_be("checksum")?;
        let expected = crc32fast::hash(body);
        if found != expected {
            return Err(IFileError::corrupt(Fault::Checksum { expected, found }, place));
        }
        if flag == Flag::Compressed {
            let reader = SegmentReader::self_checked(segment, lengths, options)?;
            return Ok(Self { inner: Inner::Compressed(Box::new(reader)) });
        }
        let summary = SegmentSummary {
            raw_length: part - to_u64(CHECKSUM_BYTES),
            part_length: part,
            crc32: found,
            records: 0,
            compressed: false,
        };
        Ok(Self {
            inner: Inner::Raw(RawSlice {
                body,
                at: 0,
                key: 0..0,
                state: RecordState::default(),
                record_cap: options.record_cap,
                place: Place { offset: options.place.offset + header_bytes, ..options.place },
                summary,
                over: false,
            }),
        })
    }

    /// The next record, `None` after the last.
    ///
    /// # Errors
    /// Any fault of the record stream. The reader is of no use after that.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        match &mut self.inner {
            Inner::Raw(raw) => raw.next_record(),
            Inner::Compressed(reader) => reader.next_record(),
        }
    }

    /// What is known of the segment once its last record is out.
    pub fn summary(&self) -> Option<SegmentSummary> {
        match &self.inner {
            Inner::Raw(raw) => raw.over.then_some(raw.summary),
            Inner::Compressed(reader) => reader.summary(),
        }
    }
}

impl<'a> RawSlice<'a> {
    fn next_record(&mut self) -> Result<Option<Record<'a>>> {
        if self.over {
            return Ok(None);
        }
        let rest = self.body.get(self.at..).unwrap_or_default();
        let limits = RecordLimits { left: Some(to_u64(rest.len())), record: self.record_cap };
        let at = self.at;
        let slice = |range: Range<usize>| self.body.get(range).unwrap_or_default();
        match self.state.next(rest, limits).map_err(|(ahead, fault)| self.fault(ahead, fault))? {
            Entry::Pair { key, value } => {
                let key = at + key.start..at + key.end;
                let value = at + value.start..at + value.end;
                let record =
                    Record { key: slice(key.clone()), value: slice(value.clone()), in_run: false };
                (self.at, self.key) = (value.end, key);
                self.summary.records += 1;
                Ok(Some(record))
            }
            Entry::Repeat { value } => {
                let value = at + value.start..at + value.end;
                let record = Record {
                    key: slice(self.key.clone()),
                    value: slice(value.clone()),
                    in_run: true,
                };
                self.at = value.end;
                self.summary.records += 1;
                Ok(Some(record))
            }
            Entry::End(len) if len < rest.len() => {
                let found = to_u64(rest.len() - len);
                let after = "end-of-stream markers";
                Err(self.fault(len, Fault::TrailingBytes { after, found }))
            }
            Entry::End(_) => {
                self.over = true;
                Ok(None)
            }
            Entry::More(Wanted { length: Some((field, found, before)), .. }) => {
                let limit = to_u64(rest.len()).saturating_sub(before);
                let ahead = to_usize_limit(before).min(rest.len());
                Err(self.fault(ahead, Fault::LengthBeyondData { field, limit, found }))
            }
            Entry::More(_) => Err(self.fault(rest.len(), Fault::MissingEof)),
        }
    }

    fn fault(&self, ahead: usize, fault: Fault) -> IFileError {
        let offset = self.place.offset.saturating_add(to_u64(self.at + ahead));
        IFileError::corrupt(fault, Place { offset, ..self.place.clone() })
    }
}
