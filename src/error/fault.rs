//! The rules of the formats, one variant each, with the numbers that did not agree.

use std::fmt;

/// Which of a record's two lengths is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthField {
    /// Length of the key.
    Key,
    /// Length of the value.
    Value,
}

impl fmt::Display for LengthField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Value => "value",
        })
    }
}

/// A broken rule. `found` is what the bytes say, `expected` (or `limit`) what the rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Fewer than 4 bytes where a segment header belongs.
    HeaderTruncated {
        /// Bytes there are.
        found: u64,
    },
    /// The header does not begin with `TIF`.
    Magic {
        /// The three bytes.
        found: [u8; 3],
    },
    /// The header's flag is neither 0 nor 1.
    Flag {
        /// The flag.
        found: u8,
    },
    /// FLAG 1, but the caller named no codec.
    CompressedWithoutCodec,
    /// FLAG 0, though the caller named a codec and neither allows raw bodies nor gives a length that
    /// would confirm it.
    RawWithCodec {
        /// The codec named by the caller.
        codec: &'static str,
    },
    /// A checksum over stored bytes does not agree with them.
    Checksum {
        /// The checksum of the bytes as read.
        expected: u32,
        /// The stored checksum.
        found: u32,
    },
    /// Input ends before its time.
    UnexpectedEnd {
        /// What was being read.
        what: &'static str,
        /// Bytes it needs.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A given length cannot hold a segment.
    PartLength {
        /// The least a segment takes.
        expected: u64,
        /// The length given.
        found: u64,
    },
    /// A record length is negative and not a marker that may stand here.
    NegativeLength {
        /// Which length.
        field: LengthField,
        /// Its value.
        found: i32,
    },
    /// A record length is more than what is left of the segment.
    LengthBeyondData {
        /// Which length.
        field: LengthField,
        /// Bytes left.
        limit: u64,
        /// The length.
        found: u64,
    },
    /// A record is longer than the caller accepts.
    RecordTooLong {
        /// The caller's cap on key and value together.
        limit: u64,
        /// Key and value together.
        found: u64,
    },
    /// A variable-length integer does not fit 32 bits.
    VintRange {
        /// Its value.
        found: i64,
    },
    /// The first end-of-stream marker is not followed by the second.
    HalfEof {
        /// What follows.
        found: i32,
    },
    /// A run before any key.
    RunWithoutKey,
    /// The end of a run where none is open.
    RunEndOutsideRun,
    /// An end-of-stream marker inside a run.
    RunNotClosed,
    /// A run without a value.
    EmptyRun,
    /// The record stream ends without its end-of-stream markers.
    MissingEof,
    /// Bytes follow where the stream has ended.
    TrailingBytes {
        /// What has ended.
        after: &'static str,
        /// At least so many bytes follow.
        found: u64,
    },
    /// A codec block's raw length is outside `1..=limit`.
    BlockLength {
        /// The largest length allowed.
        limit: u64,
        /// The length.
        found: i32,
    },
    /// A codec chunk's stored length is outside `1..=limit`.
    ChunkLength {
        /// The largest length allowed.
        limit: u64,
        /// The length.
        found: i32,
    },
    /// A codec chunk decodes to more than is allowed here.
    ChunkRawLength {
        /// The largest length allowed: what is left of its block, or the codec buffer.
        limit: u64,
        /// The length the chunk claims.
        found: u64,
    },
    /// The codec refuses its input.
    Decompress {
        /// Name of the codec.
        codec: &'static str,
        /// What the codec says.
        detail: String,
    },
    /// Decoded data has another length than stated elsewhere.
    DecodedLength {
        /// The length stated.
        expected: u64,
        /// The length found. When decoding stopped early, the least it can be.
        found: u64,
    },
    /// A spill index's size is not 24 bytes per partition and 8 more.
    IndexLength {
        /// The nearest size below that a spill index can have.
        expected: u64,
        /// The size.
        found: u64,
    },
    /// An entry of a spill index cannot describe a segment.
    IndexEntry {
        /// Start offset as stored.
        start: i64,
        /// Raw length as stored.
        raw: i64,
        /// Stored length as stored.
        part: i64,
    },
    /// An entry of a spill index lies outside its data file.
    RangeOutsideFile {
        /// Size of the data file.
        limit: u64,
        /// End of the range.
        found: u64,
    },
    /// A segment of a spill index starts before the end of the one in front of it.
    RangeOverlap {
        /// The least its start can be.
        expected: u64,
        /// Where it starts.
        found: u64,
    },
    /// Bytes of a data file that belong to no segment of its index.
    RangeGap {
        /// Where the next segment, or the end of the file, has to be.
        expected: u64,
        /// Where it is.
        found: u64,
    },
    /// A tag, version or id that this crate does not know.
    UnknownTag {
        /// What it is a tag of.
        what: &'static str,
        /// The tag.
        found: u64,
    },
    /// A value breaks a rule of its own format; for formats built on this one.
    Invalid {
        /// Which rule.
        what: &'static str,
        /// What the rule asks for.
        expected: u64,
        /// What there is.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderTruncated { .. }
            | Self::Magic { .. }
            | Self::Flag { .. }
            | Self::CompressedWithoutCodec
            | Self::RawWithCodec { .. }
            | Self::Checksum { .. }
            | Self::UnexpectedEnd { .. }
            | Self::PartLength { .. } => self.fmt_segment(f),
            Self::NegativeLength { .. }
            | Self::LengthBeyondData { .. }
            | Self::RecordTooLong { .. }
            | Self::VintRange { .. }
            | Self::HalfEof { .. }
            | Self::RunWithoutKey
            | Self::RunEndOutsideRun
            | Self::RunNotClosed
            | Self::EmptyRun
            | Self::MissingEof
            | Self::TrailingBytes { .. } => self.fmt_record(f),
            Self::BlockLength { .. }
            | Self::ChunkLength { .. }
            | Self::ChunkRawLength { .. }
            | Self::Decompress { .. }
            | Self::DecodedLength { .. } => self.fmt_codec(f),
            Self::IndexLength { .. }
            | Self::IndexEntry { .. }
            | Self::RangeOutsideFile { .. }
            | Self::RangeOverlap { .. }
            | Self::RangeGap { .. }
            | Self::UnknownTag { .. }
            | Self::Invalid { .. } => self.fmt_other(f),
        }
    }
}

impl Fault {
    fn fmt_segment(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderTruncated { found } => {
                write!(f, "expected a segment header of 4 bytes, found {found} bytes")
            }
            Self::Magic { found: [a, b, c] } => {
                write!(f, "expected magic 54 49 46, found {a:02x} {b:02x} {c:02x}")
            }
            Self::Flag { found } => write!(f, "expected flag 0 or 1, found {found}"),
            Self::CompressedWithoutCodec => {
                f.write_str("expected a raw body since no codec was given, found a compressed one")
            }
            Self::RawWithCodec { codec } => {
                write!(f, "expected a {codec} body, found a raw one (flag 0)")
            }
            Self::Checksum { expected, found } => {
                write!(f, "expected checksum {expected:08x}, found {found:08x}")
            }
            Self::UnexpectedEnd { what, expected, found } => {
                write!(f, "expected {expected} bytes of {what}, found {found}")
            }
            Self::PartLength { expected, found } => {
                write!(f, "expected a segment of at least {expected} bytes, found {found}")
            }
            _ => Ok(()),
        }
    }

    fn fmt_record(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeLength { field, found } => {
                write!(f, "expected a {field} length, found {found}")
            }
            Self::LengthBeyondData { field, limit, found } => {
                write!(f, "expected a {field} length within the {limit} bytes left, found {found}")
            }
            Self::RecordTooLong { limit, found } => {
                write!(f, "expected a record of at most {limit} bytes, found {found}")
            }
            Self::VintRange { found } => {
                write!(f, "expected an integer of 32 bits, found {found}")
            }
            Self::HalfEof { found } => {
                write!(f, "expected the second end-of-stream marker (-1), found {found}")
            }
            Self::RunWithoutKey => f.write_str("expected a record, found a run before any key"),
            Self::RunEndOutsideRun => {
                f.write_str("expected a record, found the end of a run that never began")
            }
            Self::RunNotClosed => {
                f.write_str("expected the end of a run, found an end-of-stream marker")
            }
            Self::EmptyRun => f.write_str("expected a value in a run, found its end"),
            Self::MissingEof => {
                f.write_str("expected end-of-stream markers, found the end of the data")
            }
            Self::TrailingBytes { after, found } => {
                write!(f, "expected nothing after the {after}, found {found} bytes or more")
            }
            _ => Ok(()),
        }
    }

    fn fmt_codec(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockLength { limit, found } => {
                write!(f, "expected a block of 1 to {limit} raw bytes, found {found}")
            }
            Self::ChunkLength { limit, found } => {
                write!(f, "expected a chunk of 1 to {limit} stored bytes, found {found}")
            }
            Self::ChunkRawLength { limit, found } => {
                write!(f, "expected a chunk of at most {limit} raw bytes, found {found}")
            }
            Self::Decompress { codec, detail } => {
                write!(f, "expected {codec} data, found bytes it refuses: {detail}")
            }
            Self::DecodedLength { expected, found } => {
                write!(f, "expected {expected} decoded bytes, found {found}")
            }
            _ => Ok(()),
        }
    }

    fn fmt_other(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IndexLength { expected, found } => {
                write!(f, "expected a spill index of {expected} bytes, found {found}")
            }
            Self::IndexEntry { start, raw, part } => write!(
                f,
                "expected an index entry that fits a segment, found start {start}, raw length \
                 {raw}, stored length {part}"
            ),
            Self::RangeOutsideFile { limit, found } => {
                write!(f, "expected a range within {limit} bytes of data, found its end at {found}")
            }
            Self::RangeOverlap { expected, found } => {
                write!(f, "expected the next segment at {expected} or later, found it at {found}")
            }
            Self::RangeGap { expected, found } => {
                write!(
                    f,
                    "expected the next segment or the end of the file at {expected}, found {found}"
                )
            }
            Self::UnknownTag { what, found } => write!(f, "expected a known {what}, found {found}"),
            Self::Invalid { what, expected, found } => {
                write!(f, "{what}: expected {expected}, found {found}")
            }
            _ => Ok(()),
        }
    }
}
