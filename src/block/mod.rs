//! Rows of a batch as block bytes, and back. This text is the format's specification.
//!
//! A block holds some rows of one partition: a header, a *packed* part that may be compressed, and a *plain* part that
//! never is. It carries no schema; the schema travels with the file or the run, as a [`schema_fingerprint`]. All numbers
//! are little-endian and unaligned.
//!
//! # Block, version 1
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 2 | magic `49 42` ("IB") |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | codec of the packed part, as [`Codec::wire_id`](crate::codec::Codec::wire_id); 0 if it is stored as it is |
//! | 4 | 4 | rows |
//! | 8 | 4 | decoded bytes: an upper bound of what the reader allocates for arrays |
//! | 12 | 4 | raw length of the packed part, below 2^31 |
//! | 16 | 4 | stored length of the packed part, below 2^31 |
//! | 20 | 4 | length of the plain part, below 2^31 |
//! | 24 | 4 | CRC-32 (IEEE) of bytes 0..24 and of everything after byte 28 |
//! | 28 | stored length | packed part |
//! | then | length | plain part |
//!
//! The packed part is one *node* per column of the schema, in order, depth first; every node knows its number of rows
//! from outside. Reading starts at the front of both parts; *plain bytes* are the next ones of the plain part.
//!
//! # Node
//!
//! One tag byte. Bits 0..6 are the encoding; bits 6..8 the validity: 0 no nulls, 1 all rows are null, 2 a bitmap of
//! `ceil(rows / 8)` bytes follows, 3 that bitmap is in the plain part. Bit `i` of a bitmap is bit `i % 8` of byte `i / 8`,
//! 1 where row `i` is valid. Then, by encoding:
//!
//! | tag | encoding | what follows |
//! |---|---|---|
//! | 0 | empty | nothing: no rows, a column of type `Null`, or only null rows |
//! | 1 | words | *words*, one per row |
//! | 2 | split words | control and minimum as in words, not plain; then per byte of the width *bytes* of `rows`, or the byte `20` and a byte that all rows have |
//! | 3 | word dictionary | *count* of distinct values, words of ids (32 bits), words of the values |
//! | 4 | parts | words per component: days, milliseconds; or months, days, nanoseconds |
//! | 5 | bits | control: `20` all false, `21` all true, `00` a bitmap follows, `10` it is in the plain part |
//! | 6 | bytes | words of lengths (32 bits), *bytes* of all values |
//! | 7 | byte dictionary | *count* of distinct values, words of ids (32 bits), words of their lengths (32 bits), *bytes* of the values |
//! | 8 | fixed | *bytes* of all values, or the byte `20` and one value; nothing if the width is 0 |
//! | 9 | struct | a node per field, of as many rows |
//! | 10 | list | words of lengths (32 bits), the child's node |
//! | 11 | list view | *count* of the child's rows, words of offsets, words of sizes, the child's node |
//! | 12 | fixed-size list | the child's node, of `rows` times the size rows |
//! | 13 | dictionary | *count* of values, words of keys, the node of the values |
//! | 14 | runs | *count* of runs, words of their lengths (32 bits), the node of the values |
//! | 15 | sparse union | words of type ids, a node per child, of as many rows |
//! | 16 | dense union | words of type ids, a node per child, of as many rows as have its id, in their order |
//!
//! *Words* are a control byte, a minimum and offsets from it. Bits 0..4 of the control byte are the code of the offsets'
//! width: 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16 or 32 bytes for the codes 0..12; bit 4 is set if the offsets are in the plain
//! part; bits 5..8 are the code of the length of the minimum: 0, 1, 2, 4, 8, 16 or 32 bytes, to be sign-extended. A value
//! is minimum plus offset, modulo the size of its type. Floats are words of their bits.
//!
//! *Bytes* of a known length are a control byte, `00` if they follow and `10` if they are in the plain part; nothing at
//! all if the length is 0. A *count* has seven bits per byte, the low ones first, the top bit set in all but the last.
//!
//! # Types
//!
//! | type | encodings |
//! |---|---|
//! | `Null` | empty |
//! | `Boolean` | empty, bits |
//! | `Int8` `Int16` `Int32` `Int64` `UInt8` `UInt16` `UInt32` `UInt64` | empty, words, word dictionary |
//! | `Date32` `Date64` `Time32` `Time64` `Timestamp` `Duration` | empty, words, word dictionary |
//! | `Decimal32` `Decimal64` `Decimal128` `Decimal256` | empty, words, word dictionary |
//! | `Float16` `Float32` `Float64` | empty, words, split words, word dictionary |
//! | `Interval` | empty, words (year-month), parts (the others) |
//! | `Utf8` `LargeUtf8` `Utf8View` `Binary` `LargeBinary` `BinaryView` | empty, bytes, byte dictionary |
//! | `FixedSizeBinary` | empty, fixed |
//! | `List` `LargeList` `Map` | empty, list (of a map: of its entries) |
//! | `ListView` `LargeListView` | empty, list view |
//! | `FixedSizeList` | fixed-size list |
//! | `Struct` | struct |
//! | `Dictionary` | empty, dictionary |
//! | `RunEndEncoded` | runs |
//! | `Union` | sparse union, dense union |
//!
//! [`why_not`] refuses what is no valid Arrow type (negative sizes, keys that are no integers, maps without pairs) and
//! nesting beyond 64 levels.
//!
//! # Invariants
//!
//! - **B1** A reader believes nothing before magic, version, lengths and checksum hold, and allocates nothing before rows,
//!   decoded and raw length are within its limits. Every array is charged to the decoded bytes before it is
//!   allocated. No bytes make a reader panic.
//! - **B2** Both parts are read to their last byte; unknown versions, codecs, tags and control bytes are errors.
//! - **B3** Decoded rows equal the encoded ones by Arrow's logical equality, floats by their bits, and have exactly the
//!   schema given to the reader: names, nullability, metadata, zones.
//! - **B4** Null rows have the minimum as word, no bytes, no child rows in lists, and the first valid value if fixed. They
//!   are never added, and children of null structs and fixed-size lists keep their rows and validity.
//! - **B5** Words have the narrowest width that holds the largest minus the smallest valid value of the block.
//! - **B6** Of dictionaries, runs, lists, list views, dense unions and views only what the rows use is stored. Values that
//!   rows share in a dictionary, a list view or a buffer of views are stored once where they repeat
//!   often enough.
//! - **B7** Ids and keys are below the number of values, and no distinct value is counted that no row uses.
//! - **B8** Decoded arrays own their memory and little more than their logical bytes: no buffer of a view array has more
//!   than an eighth of bytes that no view needs.
//! - **B9** A packed part that is short, or that the codec does not shrink, is stored as it is.
//! - **B10** What a block holds depends on its rows, its schema and its codec alone, never on earlier blocks.
//! - **B11** UTF-8 is checked in every block: Arrow has no safe way around it.

mod bits;
mod decode;
mod encode;
mod error;
mod external;
mod header;
mod interner;
mod sample;
mod simd;
mod sink;
mod sizes;
mod source;
mod table;
mod tags;
mod types;
mod word;

pub(crate) use decode::Joined;
pub use decode::{BlockDecoder, DecodeLimits};
pub use encode::{BlockEncoder, BlockInfo, BlockSlice, CodecUse};
pub use error::{BlockError, BlockResult};
pub use header::{BlockHeader, HEADER_LEN};
pub use sizes::logical_bytes;
pub use types::{schema_fingerprint, why_not};

pub(crate) use interner::{Interner, Keyed, OffsetValues, ViewValues};
pub(crate) use simd::vectorized;
pub(crate) use word::{Word, high64, low64};

#[cfg(test)]
pub(crate) mod tests;
