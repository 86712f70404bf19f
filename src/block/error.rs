//! What can be wrong with a block, or with rows that are to become one.

use std::fmt;

use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Result of block operations.
pub type BlockResult<T> = Result<T, BlockError>;

/// Why bytes are not a block of this schema, or rows cannot become a block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// The bytes end before a part of the block does.
    Truncated {
        /// The part that was read.
        part: &'static str,
        /// Bytes that it needs.
        wanted: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// The block ended, but its bytes did not.
    Trailing {
        /// The part that is too long.
        part: &'static str,
        /// Bytes that nothing claims.
        left: u64,
    },
    /// The first two bytes are not those of a block.
    Magic([u8; 2]),
    /// A version that this reader does not know.
    Version(u8),
    /// A codec that this reader does not know.
    Codec(u8),
    /// Header and stored bytes do not have the checksum that the header names.
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// The codec refused its bytes, or gave another length than the header names.
    Decompress(String),
    /// The codec could not compress.
    Compress(String),
    /// An encoding that this reader does not know, or not for this type.
    Encoding {
        /// The type of the column.
        data_type: DataType,
        /// The encoding tag that was found.
        tag: u8,
    },
    /// A number or a combination that the format forbids.
    Invalid(&'static str),
    /// More than the reader's limits, or the limits of the format, allow.
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The rows are not of the schema that the encoder was built for.
    Schema(String),
    /// The blocks of a run or file were made for another schema.
    Fingerprint {
        /// [`schema_fingerprint`](super::schema_fingerprint) of the reader's schema.
        expected: u64,
        /// The one that came with the blocks.
        found: u64,
    },
    /// Arrow refused the arrays: invalid UTF-8, or nulls where the schema forbids them.
    Arrow(String),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { part, wanted, left } => {
                write!(f, "block is cut short: {part} needs {wanted} bytes, {left} are left")
            }
            Self::Trailing { part, left } => {
                write!(f, "block is too long: {left} bytes follow the {part}")
            }
            Self::Magic([a, b]) => {
                write!(f, "not a block: it starts with {a:#04x} {b:#04x}")
            }
            Self::Version(found) => write!(f, "block version {found} is unknown"),
            Self::Codec(found) => write!(f, "block codec {found} is unknown"),
            Self::Checksum { expected, found } => {
                write!(f, "block checksum is {found:#010x}, its header says {expected:#010x}")
            }
            Self::Decompress(reason) => write!(f, "block does not decompress: {reason}"),
            Self::Compress(reason) => write!(f, "block does not compress: {reason}"),
            Self::Encoding { data_type, tag } => {
                write!(f, "block holds a {data_type} column with the unknown encoding {tag}")
            }
            Self::Invalid(what) => write!(f, "block is invalid: {what}"),
            Self::Limit { what, found, limit } => {
                write!(f, "block exceeds a limit: {found} {what}, {limit} are allowed")
            }
            Self::Schema(reason) => write!(f, "rows do not fit the schema of the block: {reason}"),
            Self::Fingerprint { expected, found } => write!(
                f,
                "blocks of another schema: its fingerprint is {found:#018x}, that of the reader's is \
                 {expected:#018x}"
            ),
            Self::Arrow(reason) => write!(f, "block does not make valid arrays: {reason}"),
        }
    }
}

impl std::error::Error for BlockError {}

impl From<ArrowError> for BlockError {
    fn from(e: ArrowError) -> Self {
        Self::Arrow(e.to_string())
    }
}
