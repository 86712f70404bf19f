use arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err, internal_err};

use super::column::Column;
use super::retype::retype;

/// Bytes that memory gives at once.
const CACHE_LINE: usize = 64;

/// Rows of a batch, by number or as a range.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    Range { start: usize, len: usize },
    Index(&'a [u32]),
}

impl Rows<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Range { len, .. } => *len,
            Rows::Index(rows) => rows.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `count` of these rows, and the others. `count` is at most [`len`](Self::len).
    pub(crate) fn split_at(self, count: usize) -> (Self, Self) {
        match self {
            Rows::Range { start, len } => (
                Rows::Range { start, len: count },
                Rows::Range { start: start + count, len: len - count },
            ),
            Rows::Index(rows) => {
                let (head, tail) = rows.split_at(count);
                (Rows::Index(head), Rows::Index(tail))
            }
        }
    }

    /// The row numbers one by one.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        match self {
            Rows::Range { start, len } => (*start..start + len).for_each(visit),
            Rows::Index(rows) => rows.iter().for_each(|&row| visit(row as usize)),
        }
    }
}

/// The columns of a batch, prepared once for many gathers.
pub(crate) struct Source {
    schema: SchemaRef,
    pub(super) columns: Vec<SourceColumn>,
    rows: usize,
}

pub(super) struct SourceColumn {
    pub(super) array: ArrayRef,
    pub(super) data: ArrayData,
}

impl Source {
    /// Prepares the columns of `batch`. Their types become those of `schema`: a batch may differ
    /// from its plan in the names, metadata and nullability of fields.
    ///
    /// # Errors
    /// Nulls in a required column, and an internal error that names the column whose type is another one.
    pub(crate) fn try_new(schema: &SchemaRef, batch: &RecordBatch) -> Result<Self> {
        let fields = schema.fields();
        if fields.len() != batch.num_columns() {
            return internal_err!(
                "a batch of {} columns came from a plan of {}",
                batch.num_columns(),
                fields.len()
            );
        }
        let mut columns = Vec::with_capacity(fields.len());
        for (field, array) in fields.iter().zip(batch.columns()) {
            if !field.is_nullable() && array.null_count() > 0 {
                return exec_err!(
                    "column '{}' of a batch has nulls, the plan has none",
                    field.name()
                );
            }
            let same = field.data_type() == array.data_type();
            let Some(data) = retype(array.to_data(), field.data_type())? else {
                return internal_err!(
                    "column '{}' of a batch has type {}, the plan says {}",
                    field.name(),
                    array.data_type(),
                    field.data_type()
                );
            };
            let array = if same { ArrayRef::clone(array) } else { make_array(data.clone()) };
            columns.push(SourceColumn { array, data });
        }
        Ok(Self { schema: SchemaRef::clone(schema), columns, rows: batch.num_rows() })
    }

    /// `batch` with the plan's schema, without a copy.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new).
    pub(crate) fn conform(schema: &SchemaRef, batch: RecordBatch) -> Result<RecordBatch> {
        if schema == batch.schema_ref() {
            return Ok(batch);
        }
        let Self { schema, columns, rows } = Self::try_new(schema, &batch)?;
        let arrays = columns.into_iter().map(|column| column.array).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Reads column `index` once in order where its rows have a fixed width: gathers that follow
    /// jump from row to row, and the memory behind them is better fetched as a stream.
    pub(crate) fn fetch(&self, index: usize) {
        let Some(column) = self.columns.get(index) else { return };
        let Some(width) = column.data.data_type().primitive_width() else { return };
        let start = column.data.offset() * width;
        let values = column.data.buffers().first().map(Buffer::as_slice).unwrap_or_default();
        let values = values.get(start..start + self.rows * width).unwrap_or_default();
        std::hint::black_box(values.iter().step_by(CACHE_LINE).fold(0, |seen, byte| seen ^ byte));
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Nulls of column `index` where they are few, so that it is cheaper to go through them one by
    /// one than to gather the bits of all rows.
    pub(crate) fn few_nulls(&self, index: usize) -> Option<&NullBuffer> {
        let column = self.columns.get(index)?;
        if Column::new(column.array.data_type()).carries_validity() {
            return None;
        }
        let nulls = column.data.nulls()?;
        (1..=self.rows / 4).contains(&nulls.null_count()).then_some(nulls)
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn all_rows(&self) -> Rows<'static> {
        Rows::Range { start: 0, len: self.rows }
    }
}
