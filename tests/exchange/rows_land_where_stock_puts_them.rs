//! Every output has the rows that it has with the stock node: joins and their dynamic filters
//! depend on it.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{Int32Type, SchemaRef};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::ExecutionPlan;
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, context, drain, drain_in_turn, greedy_runtime, memory_plan, mixed,
    multisets, range, stock_and_ours,
};

/// Rows with a key that repeats and is null at times, a text, and the text as a dictionary.
fn batch(start: u64, rows: u64) -> RecordBatch {
    let numbers = start..start + rows;
    let key =
        |row: u64| (!row.is_multiple_of(11)).then(|| (mixed(row) % 5000).cast_signed() - 2500);
    let text = |row: u64| format!("text {}", mixed(row / 3) % 700);
    let texts: Vec<_> = numbers.clone().map(text).collect();
    let dictionary: DictionaryArray<Int32Type> = texts.iter().map(String::as_str).collect();
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("k", Arc::new(numbers.clone().map(key).collect::<Int64Array>()), true),
        ("s", Arc::new(StringArray::from(texts)), false),
        ("d", Arc::new(dictionary), false),
        ("n", Arc::new(Int64Array::from_iter_values(numbers.map(u64::cast_signed))), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn input(inputs: u64) -> (Arc<dyn ExecutionPlan>, SchemaRef) {
    let lists: Vec<Vec<_>> = (0..inputs)
        .map(|input| {
            let batches = 0..10 + input;
            batches.map(|number| batch(input * 100_000 + number * 1000, 900 + number)).collect()
        })
        .collect();
    let schema = batch(0, 0).schema();
    (memory_plan(&lists, &schema), schema)
}

async fn same_as_stock(input: &Arc<dyn ExecutionPlan>, partitioning: &Partitioning) {
    for batch_rows in [50, 1000, 8192] {
        let (stock, ours) = stock_and_ours(input, partitioning, false);
        let expected = multisets(&drain(&(stock as _), &ample(batch_rows)).await.unwrap());
        let got = multisets(&drain(&(ours as _), &ample(batch_rows)).await.unwrap());
        assert!(got == expected, "other rows, with memory to spare");
        let (_, ours) = stock_and_ours(input, partitioning, false);
        let runtime = greedy_runtime(1);
        let parts = drain_in_turn(&(ours as _), &context(&runtime, batch_rows)).await.unwrap();
        assert!(multisets(&parts) == expected, "other rows, with no memory");
        assert_nothing_left(&runtime);
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hash(
    #[values(1, 3)] inputs: u64,
    #[values(1, 4, 17, 100)] outputs: usize,
    #[values("k", "s", "d", "s and k", "k % 7", "none")] keys: &str,
) {
    let (input, schema) = input(inputs);
    let column = |name: &str| col(name, &schema).unwrap();
    let keys = match keys {
        "s and k" => vec![column("s"), column("k")],
        "k % 7" => vec![binary(column("k"), Operator::Modulo, lit(7i64), &schema).unwrap()],
        "none" => vec![],
        name => vec![column(name)],
    };
    same_as_stock(&input, &Partitioning::Hash(keys, outputs)).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn round_robin(#[values(1, 2, 3, 8)] inputs: u64, #[values(1, 4, 17)] outputs: usize) {
    let (input, _) = input(inputs);
    same_as_stock(&input, &Partitioning::RoundRobinBatch(outputs)).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges(
    #[values(1, 3)] inputs: u64,
    #[values(false, true)] descending: bool,
    #[values(false, true)] nulls_first: bool,
    #[values(0, 1, 5)] points: usize,
) {
    let (input, _) = input(inputs);
    let mut splits = [-2400, -100, 0, 7, 2000][..points].to_vec();
    if descending {
        splits.reverse();
    }
    let partitioning = range(&input, "k", SortOptions { descending, nulls_first }, &splits);
    same_as_stock(&input, &partitioning).await;
}
