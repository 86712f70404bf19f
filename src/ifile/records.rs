//! The record stream's grammar, as a state machine over a window of bytes.

use super::header::{RUN_END_MARKER, RUN_MARKER};
use crate::codec::to_u64;
use crate::error::{Fault, LengthField};
use crate::wire::decode_vlong;
use std::ops::Range;

const EOF: i64 = -1;
const RUN: i64 = -2;
const RUN_END: i64 = -3;

const _: () = assert!(RUN_MARKER.cast_signed() == -2 && RUN_END_MARKER.cast_signed() == -3);

/// A key and a value. A run's later values come with the key they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The record is stored as part of a run: its key is that of the record before.
    pub in_run: bool,
}

/// What the front of the window holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A record with its own key; ranges of the window.
    Pair { key: Range<usize>, value: Range<usize> },
    /// One more value for the last key.
    Repeat { value: Range<usize> },
    /// The end-of-stream markers, and the end of them.
    End(usize),
    /// More bytes are needed; so many at least, from the start of the window.
    More(Wanted),
}

/// What is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Bytes of the window that the entry takes at least.
    pub(super) bytes: u64,
    /// The length that makes it so, and the bytes before what it counts; `None` while the lengths
    /// themselves are incomplete.
    pub(super) length: Option<(LengthField, u64, u64)>,
}

/// Where the stream is in its grammar.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordState {
    has_key: bool,
    run: Option<RunState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    Empty,
    Filled,
}

/// Limits that lengths are held against before any byte is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLimits {
    /// Raw bytes from the start of the window to the end of the stream, where known.
    pub(super) left: Option<u64>,
    /// The most bytes of a key and a value together.
    pub(super) record: u64,
}

impl RecordState {
    /// Reads the entry at the front of `window`. The state moves on only with a complete entry.
    ///
    /// A fault comes with its position in the window.
    #[inline]
    pub(super) fn next(
        &mut self,
        window: &[u8],
        limits: RecordLimits,
    ) -> Result<Entry, (usize, Fault)> {
        // By far most entries: no run is open, both lengths are single bytes, all is there.
        if let (None, [key_len @ 0..=0x7f, value_len @ 0..=0x7f, ..]) = (self.run, window) {
            let key = 2..2 + usize::from(*key_len);
            let value = key.end..key.end + usize::from(*value_len);
            if value.end <= window.len() && to_u64(value.end - 2) <= limits.record {
                self.has_key = true;
                return Ok(Entry::Pair { key, value });
            }
        }
        self.next_slow(window, limits)
    }

    fn next_slow(&mut self, window: &[u8], limits: RecordLimits) -> Result<Entry, (usize, Fault)> {
        let mut run = self.run;
        let mut at = 0;
        loop {
            let entry_at = at;
            let Some((first, after)) = read_length(window, at)? else {
                return Ok(more(window));
            };
            match (run, first) {
                (None, RUN) if !self.has_key => return Err((entry_at, Fault::RunWithoutKey)),
                (None, RUN) => run = Some(RunState::Empty),
                (None, RUN_END) => return Err((entry_at, Fault::RunEndOutsideRun)),
                (None, EOF) => return read_second_eof(window, after),
                (None, key_len) => {
                    let key_len = unsigned(LengthField::Key, entry_at, key_len)?;
                    return self.pair(window, after, key_len, limits);
                }
                (Some(RunState::Empty), RUN_END) => return Err((entry_at, Fault::EmptyRun)),
                (Some(RunState::Filled), RUN_END) => run = None,
                (Some(_), EOF) => return Err((entry_at, Fault::RunNotClosed)),
                (Some(_), value_len) => {
                    let value_len = unsigned(LengthField::Value, entry_at, value_len)?;
                    let span =
                        Span { field: LengthField::Value, start: to_u64(after), len: value_len };
                    limits.check(entry_at, span, value_len)?;
                    let Some(value) = span.within(window) else {
                        return Ok(span.more());
                    };
                    self.run = Some(RunState::Filled);
                    return Ok(Entry::Repeat { value });
                }
            }
            at = after;
        }
    }

    fn pair(
        &mut self,
        window: &[u8],
        at: usize,
        key_len: u64,
        limits: RecordLimits,
    ) -> Result<Entry, (usize, Fault)> {
        let Some((value_len, after)) = read_length(window, at)? else {
            return Ok(more(window));
        };
        let value_len = unsigned(LengthField::Value, at, value_len)?;
        let key = Span { field: LengthField::Key, start: to_u64(after), len: key_len };
        let value = Span { field: LengthField::Value, start: key.end(), len: value_len };
        limits.check(0, key, key_len)?;
        limits.check(at, value, key_len + value_len)?;
        let Some(key_range) = key.within(window) else {
            return Ok(key.more());
        };
        let Some(value_range) = value.within(window) else {
            return Ok(value.more());
        };
        self.run = None;
        self.has_key = true;
        Ok(Entry::Pair { key: key_range, value: value_range })
    }
}

/// Bytes that a length announces, in window coordinates that may lie beyond the window.
#[derive(Clone, Copy)]
struct Span {
    field: LengthField,
    start: u64,
    len: u64,
}

impl Span {
    fn end(self) -> u64 {
        self.start + self.len
    }

    fn within(self, window: &[u8]) -> Option<Range<usize>> {
        let range = usize::try_from(self.start).ok()?..usize::try_from(self.end()).ok()?;
        (range.end <= window.len()).then_some(range)
    }

    fn more(self) -> Entry {
        let length = Some((self.field, self.len, self.start));
        Entry::More(Wanted { bytes: self.end(), length })
    }
}

impl RecordLimits {
    fn check(self, at: usize, span: Span, record: u64) -> Result<(), (usize, Fault)> {
        if let Some(left) = self.left
            && span.end() > left
        {
            let limit = left.saturating_sub(span.start);
            let fault = Fault::LengthBeyondData { field: span.field, limit, found: span.len };
            return Err((at, fault));
        }
        if record > self.record {
            return Err((at, Fault::RecordTooLong { limit: self.record, found: record }));
        }
        Ok(())
    }
}

/// The length or marker at `at` and the position behind it, `None` if the window ends inside.
fn read_length(window: &[u8], at: usize) -> Result<Option<(i64, usize)>, (usize, Fault)> {
    let Some((value, len)) = window.get(at..).and_then(decode_vlong) else {
        return Ok(None);
    };
    if i32::try_from(value).is_err() {
        return Err((at, Fault::VintRange { found: value }));
    }
    Ok(Some((value, at + len)))
}

fn read_second_eof(window: &[u8], at: usize) -> Result<Entry, (usize, Fault)> {
    match read_length(window, at)? {
        None => Ok(more(window)),
        Some((EOF, after)) => Ok(Entry::End(after)),
        Some((other, _)) => Err((at, Fault::HalfEof { found: narrow(other) })),
    }
}

fn unsigned(field: LengthField, at: usize, len: i64) -> Result<u64, (usize, Fault)> {
    u64::try_from(len).map_err(|_| (at, Fault::NegativeLength { field, found: narrow(len) }))
}

/// A value that [`read_length`] has held against 32 bits.
fn narrow(len: i64) -> i32 {
    i32::try_from(len).unwrap_or(i32::MIN)
}

fn more(window: &[u8]) -> Entry {
    Entry::More(Wanted { bytes: to_u64(window.len()) + 1, length: None })
}
