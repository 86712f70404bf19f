//! The rows of a batch on their way to slabs.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use super::frame::{Frame, Layout, Seen};
use super::narrowed::Narrowed;
use super::native::Native;
use crate::partition::column::Column;
use crate::partition::source::{Rows, Source, SourceColumn};

/// Rows of a batch that one partition takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Take<'a> {
    pub(crate) partition: usize,
    pub(crate) rows: Rows<'a>,
}

/// How slabs held the rows that came last.
#[derive(Debug, Clone)]
pub(crate) struct SlabLayout(pub(super) Arc<Layout>);

/// A batch with its columns narrowed before any lock is taken.
pub(crate) struct SlabSource<'a> {
    pub(super) source: &'a Source,
    /// By column; none of those that are not narrowed.
    pub(super) narrowed: Vec<Option<Narrowed>>,
    /// How many rows have numbers, by column; nothing before strings and binaries are numbered.
    pub(super) numbered: Vec<usize>,
    most_value_bytes: usize,
}

impl<'a> SlabSource<'a> {
    /// `source` for slabs. `layout` is that of the rows which some of them took last.
    pub(crate) fn new(source: &'a Source, layout: Option<&SlabLayout>) -> Self {
        let mut lows = Vec::new();
        let narrowed = |(index, column): (usize, &SourceColumn)| {
            let native = Native::of(column.array.data_type())?;
            let frame = layout.map_or(Frame::NOTHING, |layout| layout.0.slot(index).frame);
            Some(Narrowed::new(native, column, source.rows(), frame, &mut lows))
        };
        let narrowed = source.columns.iter().enumerate().map(narrowed).collect();
        Self { narrowed, ..Self::as_it_is(source) }
    }

    /// `source` for what does not narrow rows.
    pub(crate) fn as_it_is(source: &'a Source) -> Self {
        let columns = || source.columns.iter();
        let value_bytes = |column: &SourceColumn| match column.data.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                Column::new(column.data.data_type()).growth(column, source.all_rows())
            }
            other if Column::new(other).carries_validity() => {
                column.data.get_slice_memory_size().unwrap_or(usize::MAX)
            }
            _ => column.data.buffers().get(1).map_or(0, Buffer::len),
        };
        Self {
            source,
            narrowed: Vec::new(),
            numbered: Vec::new(),
            most_value_bytes: columns().map(value_bytes).fold(0, usize::saturating_add),
        }
    }

    /// Bytes of what is narrowed.
    pub(crate) fn held_bytes(&self) -> usize {
        self.narrowed.iter().flatten().map(Narrowed::held_bytes).sum()
    }

    pub(crate) fn batch(&self) -> &'a Source {
        self.source
    }

    pub(super) fn narrowed(&self, column: usize) -> Option<&Narrowed> {
        self.narrowed.get(column)?.as_ref()
    }

    /// What is known of the rows in column `column`.
    pub(super) fn seen(&self, column: usize) -> Seen {
        self.narrowed(column).map_or(Seen::default(), |narrowed| narrowed.seen)
    }

    /// All rows of the batch.
    pub(crate) fn all_rows(&self) -> Rows<'static> {
        self.source.all_rows()
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
