//! A column of all partitions as offsets from one base.

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::Result;

use super::Take;
use super::native::{Int, Native, cut, for_native, widen};
use crate::block::{BlockEncoder, BlockResult, Interner, Word, low64};
use crate::partition::bits::word_at;
use crate::partition::blocks::After;
use crate::partition::column::reserve_to;
use crate::partition::source::{Rows, SourceColumn};

/// Offsets of some rows, or values where they are too far apart for offsets.
#[derive(Debug)]
pub(super) enum Deltas {
    D8(Vec<u8>),
    D16(Vec<u16>),
    D32(Vec<u32>),
    D64(Vec<u64>),
    Whole(Vec<i128>),
}

/// The same of all partitions.
#[derive(Debug)]
enum AllDeltas {
    D8(Vec<Vec<u8>>),
    D16(Vec<Vec<u16>>),
    D32(Vec<Vec<u32>>),
    D64(Vec<Vec<u64>>),
    Whole(Vec<Vec<i128>>),
}

/// Runs `$body` on the vectors of offsets, `$whole` on those of values.
macro_rules! for_deltas {
    ($kind:ident, $deltas:expr, $values:ident => $body:expr, $wide:ident => $whole:expr) => {
        match $deltas {
            $kind::D8($values) => $body,
            $kind::D16($values) => $body,
            $kind::D32($values) => $body,
            $kind::D64($values) => $body,
            $kind::Whole($wide) => $whole,
        }
    };
}

/// What offsets are relative to, and how wide they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) base: i128,
    /// Bytes of an offset; 16 where values are held whole.
    pub(super) width: usize,
}

impl Frame {
    fn holds(self, min: i128, max: i128) -> bool {
        self.width == 16 || (min >= self.base && span(self.base, max) <= most_delta(self.width))
    }

    /// The frame of least width for `min..=max`, with as much room below as above.
    fn around(native: Native, min: i128, max: i128) -> Self {
        let needed = span(min, max);
        let width = [1, 2, 4, 8].into_iter().find(|width| needed <= most_delta(*width));
        let Some(width) = width else { return Self { base: 0, width: 16 } };
        if width >= native.bytes() {
            return Self { base: native.least(), width: native.bytes() };
        }
        let slack = i128::try_from((most_delta(width) - needed) / 2).unwrap_or(0);
        Self { base: min.saturating_sub(slack).max(native.least()), width }
    }
}

fn span(min: i128, max: i128) -> u128 {
    max.wrapping_sub(min).cast_unsigned()
}

fn most_delta(width: usize) -> u128 {
    u128::MAX >> (128 - 8 * width.min(16))
}

/// Rows without a value: bit `i` is set where row `i` has none. It ends after the last of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Missing {
    words: Vec<u64>,
}

impl Missing {
    #[inline]
    pub(super) fn set(&mut self, row: usize) {
        let word = row / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Validity of rows `start..start + len` of all, in words.
    pub(super) fn valid(&self, start: usize, len: usize, out: &mut Vec<u64>) {
        out.clear();
        for at in (start..start + len).step_by(64) {
            let left = (start + len - at).min(64);
            out.push(!word_at(&self.words, at) & (u64::MAX >> (64 - left)));
        }
    }
}

/// A column of all partitions.
#[derive(Debug)]
pub(super) struct NarrowColumn {
    native: Native,
    frame: Frame,
    /// Range of what came since the column was last empty.
    seen: Option<(i128, i128)>,
    deltas: AllDeltas,
    /// Per partition; none before the first null.
    missing: Vec<Missing>,
}

impl NarrowColumn {
    pub(super) fn new(native: Native, partitions: usize) -> Self {
        let width = if native.is_float() { native.bytes() } else { 1 };
        let mut column = Self {
            native,
            frame: Frame { base: 0, width },
            seen: None,
            deltas: AllDeltas::D8(Vec::new()),
            missing: Vec::new(),
        };
        column.deltas = empty(width, partitions);
        column
    }

    /// Bits of a row at `frame`.
    pub(super) fn row_bits(frame: Frame) -> usize {
        8 * frame.width + 1
    }

    /// The frame that holds what is staged and `range`.
    pub(super) fn frame_for(&self, range: Option<(i128, i128)>) -> Frame {
        let Some((min, max)) = range.filter(|_| !self.native.is_float()) else { return self.frame };
        match self.seen {
            Some(_) if self.frame.holds(min, max) => self.frame,
            Some((low, high)) => Frame::around(self.native, low.min(min), high.max(max)),
            None => Frame::around(self.native, min, max),
        }
    }

    /// Moves the staged rows to the frame that holds `range` as well.
    pub(super) fn fit(&mut self, range: Option<(i128, i128)>) {
        let frame = self.frame_for(range);
        if let Some((min, max)) = range {
            let (low, high) = self.seen.unwrap_or((min, max));
            self.seen = Some((low.min(min), high.max(max)));
        }
        if frame != self.frame {
            self.convert(frame);
        }
    }

    fn convert(&mut self, to: Frame) {
        let from = std::mem::replace(&mut self.frame, to);
        let shift = from.base.wrapping_sub(to.base);
        let old = std::mem::replace(&mut self.deltas, AllDeltas::D8(Vec::new()));
        let mut new = empty(to.width, for_deltas!(AllDeltas, &old, v => v.len(), v => v.len()));
        for_deltas!(AllDeltas, &mut new, new => for_deltas!(AllDeltas, old,
            old => move_all(&old, new, |delta| cut(low64(shift).wrapping_add(widen(delta)))),
            old => move_all(&old, new, |value| cut(low64(value.wrapping_sub(to.base))))),
        new => for_deltas!(AllDeltas, old,
            old => move_all(&old, new, |delta| from.base.wrapping_add(i128::from(widen(delta)))),
            old => *new = old));
        self.deltas = new;
    }

    /// The column holds no rows any more.
    pub(super) fn forget_range(&mut self) {
        self.seen = None;
    }

    /// Makes room for `capacity` rows of `partition` in all.
    pub(super) fn reserve(&mut self, partition: usize, capacity: usize) {
        for_deltas!(AllDeltas, &mut self.deltas,
            all => all.get_mut(partition).into_iter().for_each(|v| reserve_to(v, capacity)),
            all => all.get_mut(partition).into_iter().for_each(|v| reserve_to(v, capacity)));
    }

    /// Appends the values of `takes`.
    pub(super) fn append(&mut self, source: &SourceColumn, takes: &[Take<'_>]) {
        for_native!(self.native, T => self.append_values(bits::<T>(source), takes));
    }

    /// As [`append`](Self::append), of the rows that have `values`.
    pub(super) fn append_values<T: Int>(&mut self, values: &[T], takes: &[Take<'_>]) {
        let base = T::from_low_bits(self.frame.base);
        for_deltas!(AllDeltas, &mut self.deltas,
            all => extend(all, values, takes, |value| cut(value.delta64(base))),
            all => extend(all, values, takes, T::to_i128));
    }

    /// Rows of `partition`.
    pub(super) fn rows(&self, partition: usize) -> usize {
        for_deltas!(AllDeltas, &self.deltas,
            all => all.get(partition).map_or(0, Vec::len),
            all => all.get(partition).map_or(0, Vec::len))
    }

    /// Takes the rows of `partition` away.
    pub(super) fn clear(&mut self, partition: usize, after: After) {
        self.missing.get_mut(partition).into_iter().for_each(|m| after.empty(&mut m.words));
        for_deltas!(AllDeltas, &mut self.deltas,
            all => all.get_mut(partition).into_iter().for_each(|v| after.empty(v)),
            all => all.get_mut(partition).into_iter().for_each(|v| after.empty(v)));
    }

    /// The rows without a value, by partition.
    pub(super) fn missing(&mut self, partitions: usize) -> &mut [Missing] {
        if self.missing.is_empty() {
            self.missing.resize_with(partitions, Missing::default);
        }
        &mut self.missing
    }

    /// The rows of `partition`, which is empty after it.
    pub(super) fn take(&mut self, partition: usize) -> Narrow {
        let missing = self.missing.get_mut(partition).map(std::mem::take);
        Narrow {
            native: self.native,
            base: self.frame.base,
            deltas: take_of(&mut self.deltas, partition),
            missing: missing.filter(|missing| !missing.words.is_empty()),
        }
    }
}

impl NarrowColumn {
    /// Appends the rows of `partition` to the block that `encoder` has begun. The partition is empty
    /// after it.
    pub(super) fn encode(
        &mut self,
        partition: usize,
        encoder: &mut BlockEncoder,
        after: After,
    ) -> BlockResult<()> {
        let missing = self.missing.get_mut(partition).map(std::mem::take);
        let missing = missing.filter(|missing| !missing.words.is_empty());
        let (native, base) = (self.native, self.frame.base);
        for_deltas!(AllDeltas, &mut self.deltas, all => {
            let Some(deltas) = all.get_mut(partition) else { return Ok(()) };
            put(encoder, native, base, deltas, missing.as_ref(), 0)?;
            after.empty(deltas);
        }, all => {
            let Some(values) = all.get_mut(partition) else { return Ok(()) };
            put_whole(encoder, native, values, missing.as_ref(), 0)?;
            after.empty(values);
        });
        Ok(())
    }

    /// As [`encode`](Self::encode) where the rows are numbers of the values of `interner`, from 0; they
    /// are still there after it.
    pub(super) fn encode_numbers(
        &self,
        partition: usize,
        data_type: &DataType,
        interner: &Interner,
        encoder: &mut BlockEncoder,
    ) -> BlockResult<()> {
        let rows = self.rows(partition);
        let missing = self.missing.get(partition).filter(|missing| !missing.is_empty());
        let valid = valid_of(missing, 0, rows);
        for_deltas!(AllDeltas, &self.deltas, all => {
            let ids = all.get(partition).map_or(&[][..], Vec::as_slice);
            encoder.put_interned(data_type, ids, interner, &valid)?;
        }, _all => {});
        Ok(())
    }

    /// The rows of `partition` as numbers from 0, and those without one.
    pub(super) fn numbers(&self, partition: usize) -> (Vec<usize>, Missing) {
        let missing = self.missing.get(partition).cloned().unwrap_or_default();
        let ids = for_deltas!(AllDeltas, &self.deltas, all => {
            let ids = all.get(partition).map_or(&[][..], Vec::as_slice);
            ids.iter().map(|id| usize::try_from(widen(*id)).unwrap_or(usize::MAX)).collect()
        }, _all => Vec::new());
        (ids, missing)
    }
}

fn put<N: Word>(
    encoder: &mut BlockEncoder,
    native: Native,
    base: i128,
    deltas: &mut [N],
    missing: Option<&Missing>,
    start: usize,
) -> BlockResult<()> {
    let lift = |delta: N| native.signed(base.wrapping_add(i128::from(widen(delta))));
    let valid = valid_of(missing, start, deltas.len());
    encoder.put_offsets(deltas, lift, &valid, native.bytes(), native.is_float())
}

fn put_whole(
    encoder: &mut BlockEncoder,
    native: Native,
    values: &mut [i128],
    missing: Option<&Missing>,
    start: usize,
) -> BlockResult<()> {
    let valid = valid_of(missing, start, values.len());
    encoder.put_offsets(values, |value| value, &valid, native.bytes(), false)
}

fn valid_of(missing: Option<&Missing>, start: usize, len: usize) -> Vec<u64> {
    let mut valid = Vec::new();
    if let Some(missing) = missing {
        missing.valid(start, len, &mut valid);
    }
    valid
}

fn empty(width: usize, partitions: usize) -> AllDeltas {
    fn of<T: Clone>(partitions: usize) -> Vec<Vec<T>> {
        vec![Vec::new(); partitions]
    }
    match width {
        1 => AllDeltas::D8(of(partitions)),
        2 => AllDeltas::D16(of(partitions)),
        4 => AllDeltas::D32(of(partitions)),
        8 => AllDeltas::D64(of(partitions)),
        _ => AllDeltas::Whole(of(partitions)),
    }
}

fn take_of(all: &mut AllDeltas, partition: usize) -> Deltas {
    fn of<T>(all: &mut [Vec<T>], partition: usize) -> Vec<T> {
        all.get_mut(partition).map(std::mem::take).unwrap_or_default()
    }
    match all {
        AllDeltas::D8(all) => Deltas::D8(of(all, partition)),
        AllDeltas::D16(all) => Deltas::D16(of(all, partition)),
        AllDeltas::D32(all) => Deltas::D32(of(all, partition)),
        AllDeltas::D64(all) => Deltas::D64(of(all, partition)),
        AllDeltas::Whole(all) => Deltas::Whole(of(all, partition)),
    }
}

fn move_all<A: Copy, B>(old: &[Vec<A>], new: &mut [Vec<B>], convert: impl Fn(A) -> B) {
    for (old, new) in old.iter().zip(new) {
        new.reserve_exact(old.capacity());
        new.extend(old.iter().map(|value| convert(*value)));
    }
}

/// Values of a column, floats by their bits.
fn bits<T: ArrowNativeType>(source: &SourceColumn) -> &[T] {
    source.data.buffers().first().map_or(&[], |buffer| {
        let values = buffer.typed_data::<T>();
        values.get(source.data.offset()..).unwrap_or(&[])
    })
}

#[expect(clippy::indexing_slicing, reason = "row numbers come from the batch of the column")]
fn extend<T: Copy, N>(
    all: &mut [Vec<N>],
    values: &[T],
    takes: &[Take<'_>],
    map: impl Fn(T) -> N + Copy,
) {
    for take in takes {
        let Some(out) = all.get_mut(take.partition) else { continue };
        match take.rows {
            Rows::Range { start, len } => {
                out.extend(values[start..start + len].iter().map(|value| map(*value)));
            }
            Rows::Index(rows) => out.extend(rows.iter().map(|&row| map(values[row as usize]))),
        }
    }
}

/// A column of one partition.
#[derive(Debug)]
pub(super) struct Narrow {
    native: Native,
    base: i128,
    deltas: Deltas,
    missing: Option<Missing>,
}

impl Narrow {
    /// Gives back the room for more rows.
    pub(super) fn shrink(&mut self) {
        for_deltas!(Deltas, &mut self.deltas, v => v.shrink_to_fit(), v => v.shrink_to_fit());
    }

    /// Bytes of an Arrow value.
    pub(super) fn value_bytes(&self) -> usize {
        self.native.bytes()
    }

    /// Appends rows `start..start + len` to the block that `encoder` has begun.
    pub(super) fn encode(
        &self,
        encoder: &mut BlockEncoder,
        start: usize,
        len: usize,
    ) -> BlockResult<()> {
        let (native, missing) = (self.native, self.missing.as_ref());
        for_deltas!(Deltas, &self.deltas, all => {
            let mut deltas = part(all, start, len).to_vec();
            put(encoder, native, self.base, &mut deltas, missing, start)
        }, all => {
            let mut values = part(all, start, len).to_vec();
            put_whole(encoder, native, &mut values, missing, start)
        })
    }
}

fn part<T>(all: &[T], start: usize, len: usize) -> &[T] {
    all.get(start..start + len).unwrap_or(&[])
}

/// An array of `data_type` with the rows of all `parts`, `rows` together.
pub(super) fn to_array(parts: &[&Narrow], data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    let native = parts.first().map_or(Native::U8, |part| part.native);
    let values = for_native!(native, T => {
        let mut values: Vec<T> = Vec::with_capacity(rows);
        for part in parts {
            let base = T::from_low_bits(part.base);
            for_deltas!(Deltas, &part.deltas,
                deltas => crate::block::vectorized(|| {
                    values.extend(deltas.iter().map(|delta| base.add64(widen(*delta))));
                }),
                all => values.extend(all.iter().map(|value| T::from_low_bits(*value))));
        }
        Buffer::from_vec(values)
    });
    let data = ArrayData::builder(data_type.clone())
        .len(rows)
        .add_buffer(values)
        .nulls(nulls(parts, rows))
        .build()?;
    Ok(make_array(data))
}

fn nulls(parts: &[&Narrow], rows: usize) -> Option<NullBuffer> {
    if parts.iter().all(|part| part.missing.is_none()) {
        return None;
    }
    let none = Missing::default();
    let mut all = crate::partition::bits::Bits::default();
    all.reserve(rows);
    let mut words = Vec::new();
    for part in parts {
        let len = for_deltas!(Deltas, &part.deltas, v => v.len(), v => v.len());
        part.missing.as_ref().unwrap_or(&none).valid(0, len, &mut words);
        all.append_range(&words, 0, len);
    }
    let bits: BooleanBuffer = all.finish();
    Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
}

/// Smallest and largest valid value of a column that is narrowed.
pub(super) fn range_of(native: Native, source: &SourceColumn, rows: usize) -> Option<(i128, i128)> {
    if native.is_float() {
        return None;
    }
    let mut mask = Vec::new();
    let nulls = source.data.nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(nulls) = nulls {
        mask.extend(nulls.inner().bit_chunks().iter_padded());
    }
    for_native!(native, T => {
        let values = bits::<T>(source);
        let values = values.get(..rows).unwrap_or(values);
        let (min, max) = T::range(values, nulls.map(|_| mask.as_slice()))?;
        Some((min.to_i128(), max.to_i128()))
    })
}
