//! Rows to ranges, as `RepartitionExec` places them.
//!
//! A row goes to the range whose number is that of the split points that are not after it. Keys are compared as
//! numbers of 64 bits where there is one column of them, in Arrow's row format for most other types, and
//! for the rest one value after another by DataFusion's [`RangeExpr`]; all three give the same order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::physical_expr::RangePartitioning;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::repartition::RangeExpr;

/// Gives rows the numbers of their ranges.
pub(super) struct Ranges {
    /// Types of the split points: keys of other types are compared as values.
    types: Vec<DataType>,
    order: Order,
    values: RangeExpr,
}

enum Order {
    Numbers {
        points: Vec<i64>,
        options: SortOptions,
        /// Scratch.
        keys: Vec<i64>,
    },
    Rows {
        converter: RowConverter,
        points: Rows,
    },
    Values,
}

impl Ranges {
    /// # Errors
    /// Split points that are not in order.
    pub(super) fn try_new(range: &RangePartitioning) -> Result<Self> {
        let keys: Vec<_> = range.ordering().iter().map(|key| Arc::clone(&key.expr)).collect();
        let values = RangeExpr::try_new(keys, range)?;
        let columns = (0..values.on_columns().len())
            .map(|column| column_of(range, column))
            .collect::<Result<Vec<_>>>()?;
        let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
        let order = Order::try_new(&columns, values.sort_options())?;
        Ok(Self { types, order, values })
    }

    /// Sets `ids` to the range of every row.
    ///
    /// # Errors
    /// Those of evaluating the keys, and keys that cannot be compared with the split points.
    pub(super) fn place(&mut self, batch: &RecordBatch, ids: &mut Vec<u32>) -> Result<()> {
        ids.clear();
        let arrays = evaluate_expressions_to_arrays(self.values.on_columns(), batch)?;
        if !arrays.iter().map(Array::data_type).eq(&self.types) {
            return self.place_values(batch, ids);
        }
        match &mut self.order {
            Order::Numbers { points, options, keys } => {
                let Some(array) = arrays.first() else { return Ok(()) };
                keys.clear();
                numbers(array, options.descending, keys);
                ids.extend(keys.iter().map(|key| to_id(upper_bound(points, *key))));
                if let Some(nulls) = array.nulls() {
                    let id = if options.nulls_first { 0 } else { to_id(points.len()) };
                    set_nulls(nulls, id, ids);
                }
                Ok(())
            }
            Order::Rows { converter, points } => {
                let rows = converter.convert_columns(&arrays)?;
                ids.extend(rows.iter().map(|row| {
                    let (mut low, mut high) = (0, points.num_rows());
                    while low < high {
                        let middle = low.midpoint(high);
                        if points.row(middle) <= row { low = middle + 1 } else { high = middle }
                    }
                    to_id(low)
                }));
                Ok(())
            }
            Order::Values => self.place_values(batch, ids),
        }
    }

    fn place_values(&self, batch: &RecordBatch, ids: &mut Vec<u32>) -> Result<()> {
        let array = self.values.evaluate(batch)?.into_array(batch.num_rows())?;
        let array = array
            .as_any()
            .downcast_ref::<UInt64Array>()
            .ok_or_else(|| internal_datafusion_err!("range placement is not UInt64"))?;
        for &id in array.values() {
            let id = u32::try_from(id).map_err(|_| internal_datafusion_err!("partition {id}"))?;
            ids.push(id);
        }
        Ok(())
    }
}

impl Order {
    fn try_new(columns: &[ArrayRef], options: &[SortOptions]) -> Result<Self> {
        if let ([column], [options]) = (columns, options) {
            let mut points = Vec::new();
            if column.null_count() == 0 && numbers(column, options.descending, &mut points) {
                return Ok(Self::Numbers { points, options: *options, keys: Vec::new() });
            }
        }
        if !columns.iter().all(|column| has_rows(column.data_type())) {
            return Ok(Self::Values);
        }
        let field = |(column, options): (&ArrayRef, &SortOptions)| {
            SortField::new_with_options(column.data_type().clone(), *options)
        };
        let converter = RowConverter::new(columns.iter().zip(options).map(field).collect())?;
        let points = converter.convert_columns(columns)?;
        Ok(Self::Rows { converter, points })
    }
}

/// Values number `column` of all split points.
fn column_of(range: &RangePartitioning, column: usize) -> Result<ArrayRef> {
    let points = range.split_points().iter().map(|point| point.values().get(column).cloned());
    let points = points.collect::<Option<Vec<_>>>();
    ScalarValue::iter_to_array(points.unwrap_or_default())
}

/// Whether the row format has the order of DataFusion's values.
fn has_rows(data_type: &DataType) -> bool {
    data_type.is_primitive() && !matches!(data_type, DataType::Interval(_))
        || data_type.is_string()
        || data_type.is_binary()
        || *data_type == DataType::Boolean
}

/// Appends a number for each value, whose order is that of the values; `false` for types that have none.
fn numbers(array: &ArrayRef, descending: bool, numbers: &mut Vec<i64>) -> bool {
    match array.data_type() {
        DataType::Int8 => extend::<i8>(array, descending, numbers),
        DataType::Int16 => extend::<i16>(array, descending, numbers),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            extend::<i32>(array, descending, numbers);
        }
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => extend::<i64>(array, descending, numbers),
        DataType::UInt8 => extend::<u8>(array, descending, numbers),
        DataType::UInt16 => extend::<u16>(array, descending, numbers),
        DataType::UInt32 => extend::<u32>(array, descending, numbers),
        _ => return false,
    }
    true
}

fn extend<T: ArrowNativeType + Into<i64>>(
    array: &ArrayRef,
    descending: bool,
    numbers: &mut Vec<i64>,
) {
    let data = array.to_data();
    let values = data.buffer::<T>(0).iter().take(array.len()).map(|value| (*value).into());
    match descending {
        true => numbers.extend(values.map(|value: i64| !value)),
        false => numbers.extend(values),
    }
}

/// How many of the ascending `points` are not above `key`, without a branch that depends on it.
#[inline]
fn upper_bound(points: &[i64], key: i64) -> usize {
    let mut low = 0;
    let mut len = points.len();
    while len > 1 {
        let half = len / 2;
        let middle = points.get(low + half - 1).copied().unwrap_or(i64::MAX);
        low += if middle <= key { half } else { 0 };
        len -= half;
    }
    low + usize::from(points.get(low).is_some_and(|point| *point <= key))
}

fn set_nulls(nulls: &NullBuffer, id: u32, ids: &mut [u32]) {
    if nulls.null_count() > 0 {
        for (to, valid) in ids.iter_mut().zip(nulls) {
            *to = if valid { *to } else { id };
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "partition counts lie below 2^32")]
fn to_id(range: usize) -> u32 {
    range as u32
}
