//! Columns of types without an append kernel, and what columns finish to.

use std::sync::Arc;

use arrow::array::{AnyDictionaryArray, Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::{Result, exec_datafusion_err};

use super::source::{Rows, SourceColumn};

/// What an array costs beside its buffers.
const PIECE_BYTES: usize = 128;

/// A column of a type without a kernel of its own: what Arrow's `take` made, joined at the end.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: Vec<ArrayRef>,
    bytes: usize,
    /// Values of the last dictionary taken, which pieces share.
    dictionary: Option<ArrayRef>,
}

impl Pieces {
    /// Bytes taken so far, as far as they are known.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn growth(&self, source: &SourceColumn, rows: Rows<'_>) -> usize {
        let values = source.array.as_any_dictionary_opt().map(AnyDictionaryArray::values);
        let shared = values.map_or(0, Array::get_array_memory_size);
        let known = match (values, &self.dictionary) {
            (Some(values), Some(known)) => Arc::ptr_eq(values, known),
            _ => false,
        };
        let own = source.data.get_slice_memory_size().unwrap_or(0).saturating_sub(shared);
        let part = (own * rows.len()).div_ceil(source.data.len().max(1));
        PIECE_BYTES + part + if known { 0 } else { shared }
    }

    pub(super) fn append(&mut self, source: &SourceColumn, rows: Rows<'_>) -> Result<()> {
        let index = match rows {
            Rows::Range { start, len } => (start..start + len)
                .map(|row| u32::try_from(row).map_err(|_| exec_datafusion_err!("row {row}")))
                .collect::<Result<Vec<_>>>()?,
            Rows::Index(rows) => rows.to_vec(),
        };
        self.bytes += self.growth(source, rows);
        let taken = take(&source.array, &UInt32Array::from(index), None)?;
        self.dictionary =
            taken.as_any_dictionary_opt().map(|dictionary| ArrayRef::clone(dictionary.values()));
        self.pieces.push(taken);
        Ok(())
    }

    pub(super) fn finish(&mut self, data_type: &DataType) -> Finished {
        let mut done = std::mem::take(self).pieces;
        match done.pop() {
            None => Finished::Array(new_empty_array(data_type)),
            Some(only) if done.is_empty() => Finished::Array(only),
            Some(last) => {
                done.push(last);
                Finished::Pieces(done)
            }
        }
    }
}

/// The rows of a column once no more are taken.
pub(super) enum Finished {
    Array(ArrayRef),
    Pieces(Vec<ArrayRef>),
}

impl Finished {
    /// One array of all rows; `None` when the dictionaries of the pieces overflow the key type.
    pub(super) fn joined(&self) -> Result<Option<ArrayRef>> {
        match self {
            Finished::Array(array) => Ok(Some(ArrayRef::clone(array))),
            Finished::Pieces(pieces) => {
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                match concat(&pieces) {
                    Ok(array) => Ok(Some(array)),
                    Err(ArrowError::DictionaryKeyOverflowError) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    pub(super) fn pieces(&self) -> Option<&[ArrayRef]> {
        match self {
            Finished::Array(_) => None,
            Finished::Pieces(pieces) => Some(pieces),
        }
    }

    /// Piece `index`, or rows `start..start + len` where the column is one array.
    #[expect(clippy::indexing_slicing, reason = "every column of pieces has one for every append")]
    pub(super) fn piece(&self, index: usize, start: usize, len: usize) -> ArrayRef {
        match self {
            Finished::Array(array) => array.slice(start, len),
            Finished::Pieces(pieces) => ArrayRef::clone(&pieces[index]),
        }
    }
}
