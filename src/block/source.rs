//! The two parts of a block's body while it is read, and what is left of its memory budget.

use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::bits;
use super::error::{BlockError, BlockResult};

use super::simd::vectorized;
use super::tags;
use super::word::{self, MIN_LENS, WIDTHS, Word};

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    name: &'static str,
    left: &'a [u8],
}

impl<'a> Part<'a> {
    fn take(&mut self, len: usize) -> BlockResult<&'a [u8]> {
        let Some((head, tail)) = self.left.split_at_checked(len) else {
            return Err(BlockError::Truncated {
                part: self.name,
                wanted: len as u64,
                left: self.left.len() as u64,
            });
        };
        self.left = tail;
        Ok(head)
    }

    fn end(&self) -> BlockResult<()> {
        match self.left.len() {
            0 => Ok(()),
            left => Err(BlockError::Trailing { part: self.name, left: left as u64 }),
        }
    }
}

/// The body of a block that is being read.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    packed: Part<'a>,
    plain: Part<'a>,
    budget: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(packed: &'a [u8], plain: &'a [u8], budget: u64) -> Self {
        Self {
            packed: Part { name: "packed part", left: packed },
            plain: Part { name: "plain part", left: plain },
            budget,
        }
    }

    /// Fails unless everything was read.
    pub(crate) fn end(&self) -> BlockResult<()> {
        self.packed.end()?;
        self.plain.end()
    }

    /// Takes bytes that are about to be allocated from what the header promised.
    pub(crate) fn charge(&mut self, bytes: usize) -> BlockResult<()> {
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
        match self.budget.checked_sub(wanted) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                Err(BlockError::Limit { what: "decoded bytes", found: wanted, limit: self.budget })
            }
        }
    }

    pub(crate) fn u8(&mut self) -> BlockResult<u8> {
        self.packed.take(1)?.first().copied().ok_or(BlockError::Invalid("empty read"))
    }

    pub(crate) fn varint(&mut self) -> BlockResult<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(BlockError::Invalid("number of more than 64 bits"))
    }

    /// A count of things.
    pub(crate) fn count(&mut self) -> BlockResult<usize> {
        usize::try_from(self.varint()?)
            .map_err(|_| BlockError::Invalid("count of more than the address space"))
    }

    /// The tag of a node of `rows` rows, and the validity of those.
    pub(crate) fn tag(&mut self, rows: usize) -> BlockResult<(u8, Nulls)> {
        let tag = self.u8()?;
        let part = match tag & !tags::ENCODING {
            tags::NO_NULLS => return Ok((tag, Nulls::None)),
            tags::ALL_NULL => {
                self.charge(bits::bitmap_bytes(rows))?;
                return Ok((tag & tags::ENCODING, Nulls::All));
            }
            tags::NULLS_PACKED => &mut self.packed,
            _ => &mut self.plain,
        };
        let bytes = part.take(bits::bitmap_bytes(rows))?;
        self.charge(bytes.len())?;
        Ok((tag & tags::ENCODING, Nulls::Some(bits::nulls_from_bytes(bytes, rows))))
    }

    /// Bytes of a known length, after the control byte that says where they are.
    pub(crate) fn bytes(&mut self, len: usize) -> BlockResult<&'a [u8]> {
        if len == 0 {
            return Ok(&[]);
        }
        let control = self.u8()?;
        self.placed(control, len)
    }

    /// Bytes in the part that `control` names.
    pub(crate) fn placed(&mut self, control: u8, len: usize) -> BlockResult<&'a [u8]> {
        match control {
            0 => self.packed.take(len),
            tags::PLAIN => self.plain.take(len),
            _ => Err(BlockError::Invalid("control byte")),
        }
    }

    /// The next bytes of the packed part.
    pub(crate) fn packed(&mut self, len: usize) -> BlockResult<&'a [u8]> {
        self.packed.take(len)
    }

    /// `rows` ids, each below `values`.
    pub(crate) fn ids(&mut self, rows: usize, values: usize) -> BlockResult<Vec<u32>> {
        let ids = self.words::<u32>(rows)?;
        let top = ids.iter().copied().max().unwrap_or(0);
        if usize::try_from(top).is_ok_and(|top| top < values) {
            return Ok(ids);
        }
        Err(BlockError::Invalid("id of no value"))
    }

    /// `rows` words whose bytes are in planes. The caller has charged for them.
    pub(crate) fn planes<T: Word>(&mut self, rows: usize) -> BlockResult<Vec<T>> {
        let control = self.u8()?;
        let (width, min) = self.width_and_min::<T>(control)?;
        if width > 8 || control & tags::PLAIN != 0 {
            return Err(BlockError::Invalid("width of planes"));
        }
        self.charge(rows.saturating_mul(8))?;
        let mut deltas = vec![0u64; rows];
        for shift in (0..width).map(|plane| 8 * plane) {
            match self.u8()? {
                tags::CONSTANT => {
                    let byte = u64::from(self.u8()?) << shift;
                    deltas.iter_mut().for_each(|delta| *delta |= byte);
                }
                control => {
                    let plane = self.placed(control, rows)?;
                    deltas
                        .iter_mut()
                        .zip(plane)
                        .for_each(|(delta, byte)| *delta |= u64::from(*byte) << shift);
                }
            }
        }
        Ok(deltas.into_iter().map(|delta| min.add64(delta)).collect())
    }

    /// `rows` words. The caller has charged for them.
    pub(crate) fn words<T: Word>(&mut self, rows: usize) -> BlockResult<Vec<T>> {
        let mut words = Vec::new();
        self.words_into(rows, &mut words)?;
        Ok(words)
    }

    /// Appends `rows` words to `out`. The caller has charged for them.
    pub(crate) fn words_into<T: Word>(&mut self, rows: usize, out: &mut Vec<T>) -> BlockResult<()> {
        let control = self.u8()?;
        let (width, min) = self.width_and_min::<T>(control)?;
        let len = rows.checked_mul(width).ok_or(BlockError::Invalid("length of words"))?;
        let bytes = self.placed(control & tags::PLAIN, len)?;
        out.reserve_exact(rows);
        vectorized(|| add_words(bytes, width, min, rows, out));
        Ok(())
    }

    fn width_and_min<T: Word>(&mut self, control: u8) -> BlockResult<(usize, T)> {
        let width = WIDTHS.get(usize::from(control & 0x0f)).copied();
        let min_len = MIN_LENS.get(usize::from(control >> 5)).copied();
        let (Some(width), Some(min_len)) = (width, min_len) else {
            return Err(BlockError::Invalid("width of words"));
        };
        if width > T::BYTES || min_len > T::BYTES {
            return Err(BlockError::Invalid("words wider than their type"));
        }
        Ok((width, T::truncated(word::extend(self.packed.take(min_len)?))))
    }
}

/// Validity of the rows of a node, as a block holds it.
#[derive(Debug)]
pub(crate) enum Nulls {
    None,
    All,
    Some(Option<NullBuffer>),
}

impl Nulls {
    /// The buffer for `rows` rows.
    pub(crate) fn buffer(self, rows: usize) -> Option<NullBuffer> {
        match self {
            Self::None => None,
            Self::All => Some(NullBuffer::new_null(rows)),
            Self::Some(nulls) => nulls,
        }
    }
}

pub(crate) fn unknown(data_type: &DataType, tag: u8) -> BlockError {
    BlockError::Encoding { data_type: data_type.clone(), tag }
}

#[inline(always)]
fn add_words<T: Word>(bytes: &[u8], width: usize, min: T, rows: usize, out: &mut Vec<T>) {
    match width {
        0 => out.extend(std::iter::repeat_n(min, rows)),
        1 => add64::<T, 1>(bytes, min, out),
        2 => add64::<T, 2>(bytes, min, out),
        3 => add64::<T, 3>(bytes, min, out),
        4 => add64::<T, 4>(bytes, min, out),
        5 => add64::<T, 5>(bytes, min, out),
        6 => add64::<T, 6>(bytes, min, out),
        7 => add64::<T, 7>(bytes, min, out),
        8 => add64::<T, 8>(bytes, min, out),
        12 => add128::<T, 12>(bytes, min, out),
        16 => add128::<T, 16>(bytes, min, out),
        _ => out.extend(bytes.as_chunks::<32>().0.iter().map(|delta| min.add_bytes(*delta))),
    }
}

#[inline(always)]
fn add64<T: Word, const W: usize>(bytes: &[u8], min: T, out: &mut Vec<T>) {
    let (deltas, _) = bytes.as_chunks::<W>();
    out.extend(deltas.iter().map(move |delta| min.add64(u64::from_le_bytes(padded(delta)))));
}

#[inline(always)]
fn add128<T: Word, const W: usize>(bytes: &[u8], min: T, out: &mut Vec<T>) {
    let (deltas, _) = bytes.as_chunks::<W>();
    out.extend(deltas.iter().map(move |delta| min.add128(u128::from_le_bytes(padded(delta)))));
}

#[inline(always)]
fn padded<const W: usize, const N: usize>(bytes: &[u8; W]) -> [u8; N] {
    const { assert!(W <= N) };
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}
