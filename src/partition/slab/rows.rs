//! The rows of a batch on their way to slabs.

use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::Part;
use super::narrow::range_of;
use super::native::Native;
use super::texts::Numbers;
use crate::partition::column::Column;
use crate::partition::grouping::Grouped;
use crate::partition::source::{Rows, Source, SourceColumn};

/// Rows of a batch that one partition takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Take<'a> {
    pub(crate) partition: usize,
    pub(crate) rows: Rows<'a>,
    /// Place of the first of the rows in the grouped order.
    pub(crate) place: usize,
}

/// A batch with what is known of its columns before any lock is taken.
pub(crate) struct SlabSource<'a> {
    pub(crate) source: &'a Source,
    /// The partition of every row and its place in the grouped order; none where all rows go to one
    /// partition.
    pub(super) grouped: Option<&'a Grouped<'a>>,
    /// Partitions of each of the slabs that take the rows.
    group: usize,
    pub(super) ranges: Vec<Option<(i128, i128)>>,
    /// Rows that are null, by column and by group of partitions, of columns that are narrowed.
    pub(super) nulls: Vec<Vec<Vec<u32>>>,
    /// By column; none where values are not numbered.
    pub(super) numbers: Vec<Numbers>,
    most_value_bytes: usize,
}

impl<'a> SlabSource<'a> {
    /// `group` is how many partitions each of the slabs that take the rows has.
    pub(crate) fn new(source: &'a Source, grouped: Option<&'a Grouped<'a>>, group: usize) -> Self {
        let columns = || source.columns.iter();
        let range = |column: &SourceColumn| {
            let native = Native::of(column.array.data_type())?;
            range_of(native, column, source.rows())
        };
        let value_bytes = |column: &SourceColumn| match column.data.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                Column::new(column.data.data_type()).growth(column, source.all_rows())
            }
            other if Column::new(other).carries_validity() => {
                column.data.get_slice_memory_size().unwrap_or(usize::MAX)
            }
            _ => column.data.buffers().get(1).map_or(0, Buffer::len),
        };
        let mut this = Self {
            source,
            grouped,
            group,
            ranges: columns().map(range).collect(),
            nulls: Vec::new(),
            numbers: Vec::new(),
            most_value_bytes: columns().map(value_bytes).fold(0, usize::saturating_add),
        };
        let nulls = |column: &SourceColumn| match Native::of(column.array.data_type()) {
            Some(_) => this.null_rows(column),
            None => Vec::new(),
        };
        this.nulls = columns().map(nulls).collect();
        this
    }

    /// Rows of `column` that are null, by group of partitions.
    pub(super) fn null_rows(&self, column: &SourceColumn) -> Vec<Vec<u32>> {
        match column.data.nulls() {
            Some(nulls) if nulls.null_count() > 0 => null_rows(nulls, self.grouped, self.group),
            _ => Vec::new(),
        }
    }

    /// Bytes of values of variable length in all rows, or more where a batch is part of a larger one.
    pub(crate) fn most_value_bytes(&self) -> usize {
        self.most_value_bytes
    }

    /// Bytes of values of variable length in `rows`.
    pub(crate) fn value_bytes(&self, rows: Rows<'_>) -> usize {
        let bytes =
            |column: &SourceColumn| Column::new(column.data.data_type()).growth(column, rows);
        self.source.columns.iter().map(bytes).sum()
    }
}

/// Where in the slabs the rows of a batch go.
pub(super) struct Targets<'a> {
    grouped: Option<&'a Grouped<'a>>,
    first: usize,
    /// By partition.
    taken: Vec<Taken>,
    whole: Option<Take<'a>>,
}

/// The places in the grouped order that a partition takes now, and the rows that it has.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    start: u32,
    end: u32,
    before: u32,
}

impl<'a> Targets<'a> {
    pub(super) fn new(
        grouped: Option<&'a Grouped<'a>>,
        takes: &[Take<'a>],
        parts: &[Part],
        first: usize,
    ) -> Self {
        let mut taken = vec![Taken::default(); parts.len()];
        for take in takes {
            let before = to_u32(parts.get(take.partition).map_or(0, |part| part.rows));
            if let Some(to) = taken.get_mut(take.partition) {
                let start = to_u32(take.place);
                *to = Taken { start, end: start + to_u32(take.rows.len()), before };
            }
        }
        Self { grouped, first, taken, whole: takes.first().copied() }
    }

    /// Partition and row in its slab of row `row` of the batch, if it is taken now.
    #[inline]
    pub(super) fn of(&self, row: usize) -> Option<(usize, usize)> {
        let (partition, place) = match (self.grouped, self.whole) {
            (Some(grouped), _) => {
                let partition = *grouped.ids().get(row)? as usize;
                (partition.checked_sub(self.first)?, *grouped.places().get(row)?)
            }

            (None, Some(take)) => (take.partition, to_u32(row)),
            (None, None) => return None,
        };
        let taken = self.taken.get(partition)?;
        let at = place.checked_sub(taken.start).filter(|_| place < taken.end)?;
        Some((partition, (taken.before + at) as usize))
    }
}

/// The rows that are null, by group of `group` partitions; in one group where all rows go to one
/// partition.
fn null_rows(nulls: &NullBuffer, grouped: Option<&Grouped<'_>>, group: usize) -> Vec<Vec<u32>> {
    let ids = grouped.map_or(&[][..], Grouped::ids);
    let mut groups = vec![Vec::new()];
    let mut first = 0;
    for bits in nulls.inner().bit_chunks().iter_padded() {
        let mut missing = !bits;
        while missing != 0 {
            let row = first + missing.trailing_zeros() as usize;
            missing &= missing - 1;
            if row >= nulls.len() {
                break;
            }
            let id = ids.get(row).copied().unwrap_or(0) as usize;
            let at = id.checked_div(group).unwrap_or(0);
            if at >= groups.len() {
                groups.resize_with(at + 1, Vec::new);
            }
            if let Some(rows) = groups.get_mut(at) {
                rows.push(to_u32(row));
            }
        }
        first += 64;
    }
    groups
}

#[expect(clippy::cast_possible_truncation, reason = "a batch has fewer than 2^32 rows")]
fn to_u32(row: usize) -> u32 {
    row as u32
}
