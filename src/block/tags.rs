//! Encoding tags of a node; frozen numbers. The layouts are in the module doc of `block`.

/// Nothing follows: a null column, no rows, or only null rows of a leaf type.
pub(crate) const EMPTY: u8 = 0;
/// One stream of words.
pub(crate) const WORDS: u8 = 1;
/// Words whose bytes are split into planes.
pub(crate) const SPLIT: u8 = 2;
/// Distinct words and one id per row.
pub(crate) const WORD_DICT: u8 = 3;
/// One stream of words per component.
pub(crate) const PARTS: u8 = 4;
/// A bitmap of values.
pub(crate) const BITS: u8 = 5;
/// Lengths, then bytes.
pub(crate) const BYTES: u8 = 6;
/// Distinct byte strings and one id per row.
pub(crate) const BYTES_DICT: u8 = 7;
/// Values of one length.
pub(crate) const FIXED: u8 = 8;
/// Children with as many rows.
pub(crate) const STRUCT: u8 = 9;
/// Lengths, then the child.
pub(crate) const LIST: u8 = 10;
/// Offsets and sizes, then the child.
pub(crate) const LIST_VIEW: u8 = 11;
/// The child, of a fixed number of rows per row.
pub(crate) const FIXED_LIST: u8 = 12;
/// Ids, then the distinct values.
pub(crate) const DICTIONARY: u8 = 13;
/// Run lengths, then one value per run.
pub(crate) const RUNS: u8 = 14;
/// Type ids, then children with as many rows.
pub(crate) const SPARSE: u8 = 15;
/// Type ids, then per child its rows.
pub(crate) const DENSE: u8 = 16;

/// Bits of a tag byte that hold the encoding.
pub(crate) const ENCODING: u8 = 0x3f;
/// Every row is valid.
pub(crate) const NO_NULLS: u8 = 0x00;
/// Every row is null.
pub(crate) const ALL_NULL: u8 = 0x40;
/// A bitmap follows in the packed part.
pub(crate) const NULLS_PACKED: u8 = 0x80;
/// A bitmap follows in the plain part.
pub(crate) const NULLS_PLAIN: u8 = 0xc0;

/// In a control byte: the data are in the plain part.
pub(crate) const PLAIN: u8 = 0x10;
/// In a control byte of bits, fixed values and planes: one value for all rows.
pub(crate) const CONSTANT: u8 = 0x20;
