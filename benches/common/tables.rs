//! The tables that benches share.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use tpcdsgen::config::SessionBuilder;
use tpcdsgen_arrow::{CustomerAddressArrow, StoreSalesArrow};

/// Rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8192;

/// Most rows of the table of strings, which repeats from row 50,000 on.
const MOST_STRINGS: usize = 1_000_000;

/// The first `rows` rows of TPC-DS store_sales, or of customer_address again and again.
pub(crate) fn table(name: &str, rows: usize) -> Option<Vec<RecordBatch>> {
    let session = SessionBuilder::new().with_scale_factor(1.0).build().expect("session");
    match name {
        "store_sales" => {
            let all = StoreSalesArrow::new(session).with_batch_size(BATCH_ROWS);
            Some(take_rows(all.map(|batch| batch.expect("batch")), rows))
        }
        "strings" => {
            let all = CustomerAddressArrow::new(session).with_batch_size(BATCH_ROWS);
            let all: Vec<_> = all.map(|batch| with_offsets(&batch.expect("batch"))).collect();
            Some(take_rows(all.iter().cycle().cloned(), rows.min(MOST_STRINGS)))
        }
        _ => None,
    }
}

fn take_rows(batches: impl Iterator<Item = RecordBatch>, rows: usize) -> Vec<RecordBatch> {
    let mut left = rows;
    let mut out = Vec::new();
    for batch in batches {
        let len = batch.num_rows().min(left);
        out.push(batch.slice(0, len));
        left -= len;
        if left == 0 {
            break;
        }
    }
    out
}

/// The batch with its string views as strings with offsets: with views, IPC writes whole shared
/// buffers again and again.
fn with_offsets(batch: &RecordBatch) -> RecordBatch {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column: ArrayRef = match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().iter().collect::<StringArray>()),
            _ => Arc::clone(column),
        };
        (field.name().clone(), column, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).expect("batch")
}
