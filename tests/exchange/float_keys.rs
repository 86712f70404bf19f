//! Zeros with either sign and every NaN go where the stock node sends them. (texera 8251)

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StructArray};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, context, drain, drain_in_turn, greedy_runtime, memory_plan, mixed,
    multisets, stock_and_ours,
};

fn doubles(rows: usize) -> Float64Array {
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::from_bits(0xfff8_dead_beef_0000),
        f64::from_bits(0x7fff_ffff_ffff_ffff),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE / 2.0,
    ];
    let value = |row: usize| match row % 12 {
        10 => None,
        11 => Some(f64::from_bits(mixed(row as u64))),
        index => Some(special[index]),
    };
    (0..rows).map(value).collect()
}

fn floats(rows: usize) -> Float32Array {
    let special = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::from_bits(0x7f80_0001),
        f32::from_bits(0xffc0_beef),
        f32::INFINITY,
    ];
    (0..rows).map(|row| special.get(row % 8).copied()).collect()
}

fn batch(rows: usize) -> RecordBatch {
    let (d, f): (ArrayRef, ArrayRef) = (Arc::new(doubles(rows)), Arc::new(floats(rows)));
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let members = [("d", Arc::clone(&d)), ("f", Arc::clone(&f))].map(|(name, array)| {
        let field = arrow::datatypes::Field::new(name, array.data_type().clone(), true);
        (Arc::new(field), array)
    });
    let both: ArrayRef = Arc::new(StructArray::from(members.to_vec()));
    let columns = [("id", id, false), ("d", d, true), ("f", f, true), ("both", both, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_to_the_stock_nodes_partition(
    #[values(&["d"], &["f"], &["f", "d"], &["both"])] keys: &[&str],
    #[values(2, 7, 64)] outputs: usize,
) {
    let whole = batch(60_000);
    let batches: Vec<_> = (0..12).map(|part| whole.slice(part * 5000, 5000)).collect();
    let schema = whole.schema();
    let input = memory_plan(&[batches], &schema);
    let keys = keys.iter().map(|key| col(key, &schema).unwrap()).collect();
    let partitioning = Partitioning::Hash(keys, outputs);
    let (stock, ours) = stock_and_ours(&input, &partitioning, false);
    let expected = multisets(&drain(&(stock as _), &ample(8192)).await.unwrap());
    // The row format orders floats totally, so equal rows have equal bits.
    assert_eq!(multisets(&drain(&(ours as _), &ample(8192)).await.unwrap()), expected);
    let (_, spilling) = stock_and_ours(&input, &partitioning, false);
    let runtime = greedy_runtime(1);
    let parts = drain_in_turn(&(spilling as _), &context(&runtime, 8192)).await.unwrap();
    assert_eq!(multisets(&parts), expected);
    assert_nothing_left(&runtime);
}
