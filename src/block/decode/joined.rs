//! The rows of several blocks as one batch: words go straight to the arrays of that batch.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, NullBufferBuilder, PrimitiveArray, RecordBatch,
    RecordBatchOptions, new_empty_array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::concat;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal64Type, Decimal128Type, FieldRef, Int32Type,
    Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;

use super::leaf::Leaf;
use super::{BlockDecoder, node};
use crate::block::error::{BlockError, BlockResult};
use crate::block::source::Source;
use crate::block::word::Word;
use crate::block::{sizes, tags};

/// Blocks and batches whose rows become one batch.
pub(crate) struct Joined {
    schema: SchemaRef,
    columns: Vec<Box<dyn Column>>,
    /// Rows of each part.
    lens: Vec<usize>,
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("lens", &self.lens).finish_non_exhaustive()
    }
}

impl Joined {
    /// No rows yet; there will be `rows`.
    pub(crate) fn new(schema: &SchemaRef, rows: usize) -> Self {
        let columns = schema.fields().iter().map(|field| column(field.data_type(), rows));
        Self { columns: columns.collect(), schema: SchemaRef::clone(schema), lens: Vec::new() }
    }

    /// Bytes of a row in the columns that get their room at once, or a few more.
    pub(crate) fn row_bytes(schema: &Schema) -> usize {
        let bytes = |field: &FieldRef| field.data_type().primitive_width().unwrap_or(0);
        schema.fields().iter().map(bytes).sum()
    }

    /// Bytes held, with those of a copy that the end makes of columns in parts.
    pub(crate) fn held_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.held_bytes()).sum()
    }

    /// Adds the rows of `batch`, which has the same schema.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> BlockResult<()> {
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            column.push(array)?;
        }
        self.lens.push(batch.num_rows());
        Ok(())
    }

    /// All rows; several batches only where dictionary keys or offsets would overflow in one.
    ///
    /// # Errors
    /// Nulls where the schema has none.
    pub(crate) fn finish(self) -> BlockResult<Vec<RecordBatch>> {
        let mut whole = Vec::with_capacity(self.columns.len());
        let mut overflows = false;
        for column in self.columns {
            let parts = column.finish()?;
            let views: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            match (&parts[..], overflows) {
                ([_], _) | (_, true) => whole.push(parts),
                _ => match concat(&views) {
                    Ok(array) => whole.push(vec![array]),
                    Err(
                        ArrowError::DictionaryKeyOverflowError | ArrowError::OffsetOverflowError(_),
                    ) => {
                        overflows = true;
                        whole.push(parts);
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
        if !overflows {
            let rows = self.lens.iter().sum();
            return Ok(vec![to_batch(&self.schema, &whole, 0, 0, rows, &self.lens)?]);
        }
        let mut start = 0;
        let mut batches = Vec::with_capacity(self.lens.len());
        for (index, &len) in self.lens.iter().enumerate() {
            batches.push(to_batch(&self.schema, &whole, index, start, len, &self.lens)?);
            start += len;
        }
        Ok(batches)
    }
}

/// Part `index` of all columns, which is rows `start..start + len` of those in one piece.
fn to_batch(
    schema: &SchemaRef,
    columns: &[Vec<ArrayRef>],
    index: usize,
    start: usize,
    len: usize,
    lens: &[usize],
) -> BlockResult<RecordBatch> {
    let arrays = columns.iter().map(|parts| match parts.as_slice() {
        [whole] if lens.len() > 1 => Ok(whole.slice(start, len)),
        parts => parts.get(index).map(ArrayRef::clone).ok_or(BlockError::Invalid("no such part")),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(len));
    let arrays = arrays.collect::<BlockResult<Vec<_>>>()?;
    Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), arrays, &options)?)
}

impl BlockDecoder {
    /// Adds the rows of the block that is exactly `bytes` to `joined`, which is not to be used after
    /// an error.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub(crate) fn decode_into(&mut self, bytes: &[u8], joined: &mut Joined) -> BlockResult<()> {
        let Joined { columns, lens, .. } = joined;
        let rows = self.read(bytes, |source, rows| {
            for column in columns {
                column.decode(source, rows)?;
            }
            Ok(rows)
        })?;
        lens.push(rows);
        Ok(())
    }
}

/// A column of all parts.
trait Column: Send {
    fn decode(&mut self, source: &mut Source<'_>, rows: usize) -> BlockResult<()>;
    fn push(&mut self, array: &ArrayRef) -> BlockResult<()>;
    fn held_bytes(&self) -> usize;
    /// One array, or one for each part.
    fn finish(self: Box<Self>) -> BlockResult<Vec<ArrayRef>>;
}

fn column(data_type: &DataType, rows: usize) -> Box<dyn Column> {
    match data_type {
        DataType::Int32 => Words::<Int32Type>::boxed(data_type, rows),
        DataType::Int64 => Words::<Int64Type>::boxed(data_type, rows),
        DataType::UInt32 => Words::<UInt32Type>::boxed(data_type, rows),
        DataType::UInt64 => Words::<UInt64Type>::boxed(data_type, rows),
        DataType::Date32 => Words::<Date32Type>::boxed(data_type, rows),
        DataType::Date64 => Words::<Date64Type>::boxed(data_type, rows),
        DataType::Decimal64(_, _) => Words::<Decimal64Type>::boxed(data_type, rows),
        DataType::Decimal128(_, _) => Words::<Decimal128Type>::boxed(data_type, rows),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => Words::<TimestampSecondType>::boxed(data_type, rows),
            TimeUnit::Millisecond => Words::<TimestampMillisecondType>::boxed(data_type, rows),
            TimeUnit::Microsecond => Words::<TimestampMicrosecondType>::boxed(data_type, rows),
            TimeUnit::Nanosecond => Words::<TimestampNanosecondType>::boxed(data_type, rows),
        },
        _ => Box::new(Parts { data_type: data_type.clone(), parts: Vec::new(), bytes: 0 }),
    }
}

/// Words, in one array from the start.
struct Words<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType<Native: Word>> Words<T> {
    fn boxed(data_type: &DataType, rows: usize) -> Box<dyn Column> {
        let values = Vec::with_capacity(rows);
        Box::new(Self { data_type: data_type.clone(), values, nulls: NullBufferBuilder::new(rows) })
    }

    /// Notes the validity of `rows` more rows.
    fn note(&mut self, nulls: Option<&NullBuffer>, rows: usize) {
        match nulls {
            Some(nulls) => self.nulls.append_buffer(nulls),
            None => self.nulls.append_n_non_nulls(rows),
        }
    }
}

impl<T: ArrowPrimitiveType<Native: Word>> Column for Words<T> {
    fn decode(&mut self, source: &mut Source<'_>, rows: usize) -> BlockResult<()> {
        let (tag, nulls) = source.tag(rows)?;
        if tag == tags::EMPTY {
            let nulls = super::empty(source, &self.data_type, &nulls, rows)?;
            self.values.resize(self.values.len() + rows, T::Native::default());
            self.note(nulls.nulls(), rows);
            return Ok(());
        }
        source.charge(sizes::null_leaf_bytes(&self.data_type, rows))?;
        let nulls = nulls.buffer(rows);
        let data_type = &self.data_type;
        Leaf { source, data_type, tag, nulls: None, rows }.words_into(&mut self.values)?;
        self.note(nulls.as_ref(), rows);
        Ok(())
    }

    fn push(&mut self, array: &ArrayRef) -> BlockResult<()> {
        let Some(array) = array.as_any().downcast_ref::<PrimitiveArray<T>>() else {
            return Err(BlockError::Schema(format!("a column of {}", array.data_type())));
        };
        self.values.extend_from_slice(array.values());
        self.note(array.nulls(), array.len());
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.nulls.allocated_size()
    }

    fn finish(mut self: Box<Self>) -> BlockResult<Vec<ArrayRef>> {
        let nulls = self.nulls.finish();
        let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(self.values), nulls)?;
        Ok(vec![Arc::new(array.with_data_type(self.data_type))])
    }
}

/// One array for each part.
struct Parts {
    data_type: DataType,
    parts: Vec<ArrayRef>,
    bytes: usize,
}

impl Parts {
    fn add(&mut self, array: ArrayRef) {
        self.bytes += array.get_array_memory_size();
        self.parts.push(array);
    }
}

impl Column for Parts {
    fn decode(&mut self, source: &mut Source<'_>, rows: usize) -> BlockResult<()> {
        self.add(node(source, &self.data_type, rows)?);
        Ok(())
    }

    fn push(&mut self, array: &ArrayRef) -> BlockResult<()> {
        self.add(ArrayRef::clone(array));
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        2 * self.bytes
    }

    fn finish(self: Box<Self>) -> BlockResult<Vec<ArrayRef>> {
        match self.parts.is_empty() {
            true => Ok(vec![new_empty_array(&self.data_type)]),
            false => Ok(self.parts),
        }
    }
}
