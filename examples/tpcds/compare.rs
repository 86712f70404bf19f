//! Compares two results, stored as Parquet, as multisets of rows.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::Result;

/// Numbers are equal within this part of the larger one, or within [`ABSOLUTE`].
const RELATIVE: f64 = 1e-6;

/// Half a cent twice, and a bit: engines round decimal divisions differently.
const ABSOLUTE: f64 = 0.011;

/// Rows of a group of equal keys that are paired by trying all pairs.
const PAIRING_ROWS: usize = 4_096;

/// How texts are compared; numbers that are not integers always have the tolerance above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// As they are, for two runs of the same plan.
    Exact,
    /// Trimmed, and null as the empty text, for answers of another engine.
    Lenient,
}

/// Rows that only one side has, none of them for equal results.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) left_only: Vec<String>,
    pub(crate) right_only: Vec<String>,
}

impl Difference {
    pub(crate) fn is_empty(&self) -> bool {
        self.left_only.is_empty() && self.right_only.is_empty()
    }
}

/// Compares the rows of two files.
///
/// # Errors
///
/// Fails when a file cannot be read, or as [`compare`] does.
pub(crate) fn compare_files(left: &Path, right: &Path, texts: Texts) -> Result<Difference> {
    compare(&read(left)?, &read(right)?, texts)
}

fn read(path: &Path) -> Result<RecordBatch> {
    let open = || -> Result<RecordBatch> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?;
        let schema = datafusion::arrow::record_batch::RecordBatchReader::schema(&reader);
        let batches = reader.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(concat_batches(&schema, &batches)?)
    };
    open().map_err(|e| format!("{}: {e}", path.display()).into())
}

/// Compares the rows of two results; columns count by position, not by name.
///
/// # Errors
///
/// Fails when the results differ in the number of columns.
pub(crate) fn compare(left: &RecordBatch, right: &RecordBatch, texts: Texts) -> Result<Difference> {
    if left.num_columns() != right.num_columns() {
        let (l, r) = (left.num_columns(), right.num_columns());
        return Err(format!("the results have {l} and {r} columns").into());
    }
    let kinds: Vec<Kind> = left
        .columns()
        .iter()
        .zip(right.columns())
        .map(|(l, r)| Kind::of(l.data_type()).max(Kind::of(r.data_type())))
        .collect();
    let mut groups: HashMap<Vec<Option<String>>, [Vec<Numbers>; 2]> = HashMap::new();
    for (side, batch) in [left, right].into_iter().enumerate() {
        for (key, numbers) in rows(batch, &kinds, texts)? {
            if let Some(rows) = groups.entry(key).or_default().get_mut(side) {
                rows.push(numbers);
            }
        }
    }
    let mut difference = Difference::default();
    // Ordered, so that the same difference always shows the same first rows.
    for (key, [left, right]) in groups.into_iter().collect::<BTreeMap<_, _>>() {
        let (left, right) = unmatched(left, right);
        difference.left_only.extend(left.iter().map(|numbers| show(&key, numbers)));
        difference.right_only.extend(right.iter().map(|numbers| show(&key, numbers)));
    }
    Ok(difference)
}

/// The values of a row that are compared with tolerance.
type Numbers = Vec<Option<f64>>;

/// How a column is compared: the wider kind of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Integer,
    Number,
    Text,
}

impl Kind {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Decimal32(_, 0)
            | DataType::Decimal64(_, 0)
            | DataType::Decimal128(_, 0)
            | DataType::Decimal256(_, 0) => Self::Integer,
            t if t.is_integer() => Self::Integer,
            t if t.is_numeric() => Self::Number,
            _ => Self::Text,
        }
    }
}

/// Splits each row into the values that must be equal and those with a tolerance.
fn rows(
    batch: &RecordBatch,
    kinds: &[Kind],
    texts: Texts,
) -> Result<Vec<(Vec<Option<String>>, Numbers)>> {
    let mut rows = vec![(Vec::new(), Vec::new()); batch.num_rows()];
    for (column, kind) in batch.columns().iter().zip(kinds) {
        match kind {
            Kind::Number => {
                let numbers = cast(column, &DataType::Float64)?;
                for (row, value) in rows.iter_mut().zip(numbers.as_primitive::<Float64Type>()) {
                    row.1.push(value);
                }
            }
            Kind::Integer => {
                let integers = cast(column, &DataType::Decimal128(38, 0))?;
                for (row, value) in rows.iter_mut().zip(integers.as_primitive::<Decimal128Type>()) {
                    row.0.push(value.map(|v| v.to_string()));
                }
            }
            Kind::Text => {
                for (row, value) in rows.iter_mut().zip(text_values(column, texts)?) {
                    row.0.push(value);
                }
            }
        }
    }
    Ok(rows)
}

fn text_values(column: &ArrayRef, texts: Texts) -> Result<Vec<Option<String>>> {
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let nulls = column.logical_nulls();
    let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let value = |row| match texts {
        Texts::Exact => (!is_null(row)).then(|| formatter.value(row).to_string()),
        Texts::Lenient if is_null(row) => Some(String::new()),
        Texts::Lenient => Some(formatter.value(row).to_string().trim().to_owned()),
    };
    Ok((0..column.len()).map(value).collect())
}

/// Pairs rows of one key that are equal within the tolerance; returns those that are left.
fn unmatched(mut left: Vec<Numbers>, mut right: Vec<Numbers>) -> (Vec<Numbers>, Vec<Numbers>) {
    left.sort_by(order);
    right.sort_by(order);
    if left.len() == right.len() && left.iter().zip(&right).all(|(l, r)| close(l, r)) {
        return (Vec::new(), Vec::new());
    }
    // Sorting pairs wrongly where a difference within the tolerance decides the order.
    if left.len().max(right.len()) <= PAIRING_ROWS {
        left.retain(|l| match right.iter().position(|r| close(l, r)) {
            Some(found) => {
                right.remove(found);
                false
            }
            None => true,
        });
    }
    (left, right)
}

fn order(a: &Numbers, b: &Numbers) -> std::cmp::Ordering {
    let number = |v: &Option<f64>| v.unwrap_or(f64::NEG_INFINITY);
    a.iter()
        .zip(b)
        .map(|(x, y)| number(x).total_cmp(&number(y)))
        .find(|o| o.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

fn close(a: &Numbers, b: &Numbers) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let distance = (a - b).abs();
            a.total_cmp(b).is_eq()
                || distance <= ABSOLUTE
                || distance <= RELATIVE * a.abs().max(b.abs()) && distance.is_finite()
        }
        _ => false,
    })
}

fn show(key: &[Option<String>], numbers: &Numbers) -> String {
    let null = || "NULL".to_owned();
    let key = key.iter().map(|v| v.as_ref().map_or_else(null, |text| format!("{text:?}")));
    let numbers = numbers.iter().map(|v| v.map_or_else(null, |number| number.to_string()));
    key.chain(numbers).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Decimal128Array, Float64Array, Int32Array, StringArray};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate().map(|(i, c)| (format!("c{i}"), c));
        RecordBatch::try_from_iter(named).unwrap()
    }

    fn texts(values: &[Option<&str>]) -> RecordBatch {
        batch(vec![Arc::new(StringArray::from(values.to_vec()))])
    }

    fn floats(values: &[f64]) -> RecordBatch {
        batch(vec![Arc::new(Float64Array::from(values.to_vec()))])
    }

    fn decimals(values: &[i128], scale: i8) -> RecordBatch {
        let array = Decimal128Array::from(values.to_vec());
        batch(vec![Arc::new(array.with_precision_and_scale(20, scale).unwrap())])
    }

    fn equal(left: &RecordBatch, right: &RecordBatch, texts: Texts) -> bool {
        compare(left, right, texts).unwrap().is_empty()
    }

    #[test]
    fn order_does_not_count_but_number_of_rows_does() {
        let two = texts(&[Some("a"), Some("b")]);
        assert!(equal(&two, &texts(&[Some("b"), Some("a")]), Texts::Exact));
        let difference = compare(&two, &texts(&[Some("b")]), Texts::Exact).unwrap();
        assert_eq!(difference.left_only, ["\"a\""]);
        assert!(difference.right_only.is_empty());
    }

    #[test]
    fn null_and_blanks_count_only_in_exact_texts() {
        let (left, right) = (texts(&[None, Some("a")]), texts(&[Some(""), Some(" a ")]));
        assert!(equal(&left, &right, Texts::Lenient));
        assert_eq!(compare(&left, &right, Texts::Exact).unwrap().left_only.len(), 2);
    }

    #[test]
    fn numbers_have_a_relative_and_an_absolute_tolerance() {
        assert!(equal(&floats(&[1.0e9]), &floats(&[1.0e9 + 900.0]), Texts::Exact));
        assert!(!equal(&floats(&[1.0e9]), &floats(&[1.0e9 + 1_100.0]), Texts::Exact));
        assert!(equal(&floats(&[0.01]), &floats(&[0.02]), Texts::Exact));
        assert!(!equal(&floats(&[0.01]), &floats(&[0.03]), Texts::Exact));
        assert!(equal(&floats(&[f64::NAN]), &floats(&[f64::NAN]), Texts::Exact));
        assert!(!equal(&floats(&[f64::INFINITY]), &floats(&[1.0]), Texts::Exact));
    }

    #[test]
    fn numeric_types_compare_by_value() {
        let integers = batch(vec![Arc::new(Int32Array::from(vec![3, 4]))]);
        assert!(equal(&integers, &decimals(&[3, 4], 0), Texts::Exact));
        assert!(equal(&integers, &decimals(&[300, 400], 2), Texts::Exact));
        assert!(!equal(&integers, &decimals(&[3, 5], 0), Texts::Exact));
    }

    #[test]
    fn pairs_are_found_where_sorting_misplaces_them() {
        let row = |a: [f64; 2], b: [f64; 2]| {
            batch(vec![
                Arc::new(Float64Array::from(a.to_vec())),
                Arc::new(Float64Array::from(b.to_vec())),
            ])
        };
        let (left, right) = (row([1.0, 1.001], [5.0, 9.0]), row([1.001, 1.0], [5.0, 9.0]));
        assert!(equal(&left, &right, Texts::Exact));
    }

    #[test]
    fn another_number_of_columns_is_an_error() {
        let one = texts(&[None]);
        let none = RecordBatch::new_empty(Arc::new(datafusion::arrow::datatypes::Schema::empty()));
        let error = compare(&one, &none, Texts::Exact).unwrap_err().to_string();
        assert_eq!(error, "the results have 1 and 0 columns");
    }
}
