//! Rows without columns are still rows. (Comet 3846, 4445)

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::physical_expr::Partitioning;
use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, batches, context, drain, drain_in_turn, exchange, feed,
    greedy_runtime, stock_and_ours,
};

fn rows(count: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}

fn counts(parts: &[Vec<RecordBatch>]) -> Vec<usize> {
    parts.iter().map(|part| part.iter().map(RecordBatch::num_rows).sum()).collect()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_are_counted(
    #[values(1 << 30, 1)] pool_bytes: usize,
    #[values(8192, 100)] batch_rows: usize,
    #[values(1, 8)] outputs: usize,
    #[values(1, 2)] inputs: usize,
) {
    let runtime = greedy_runtime(pool_bytes);
    let make = batches(vec![Ok(rows(8192)), Ok(rows(0)), Ok(rows(8192)), Ok(rows(8192))]);
    let (input, _) = feed(&Arc::new(Schema::empty()), vec![make; inputs]);
    let plan = exchange(input, Partitioning::RoundRobinBatch(outputs), IFileOptions::default());
    let parts = drain_in_turn(&plan, &context(&runtime, batch_rows)).await.unwrap();
    assert_eq!(counts(&parts).iter().sum::<usize>(), inputs * 24_576);
    for part in &parts {
        for batch in part {
            assert_eq!(batch.schema(), plan.schema());
            assert!(batch.num_rows() <= batch_rows);
        }
    }
    drop(plan);
    assert_nothing_left(&runtime);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_have_as_many_rows_as_with_the_stock_node() {
    let make = batches(vec![Ok(rows(10)), Ok(rows(200)), Ok(rows(3000))]);
    let (input, _) = feed(&Arc::new(Schema::empty()), vec![make.clone(), make]);
    let (stock, ours) = stock_and_ours(&input, &Partitioning::RoundRobinBatch(4), false);
    let stock = drain(&(stock as _), &ample(8192)).await.unwrap();
    let ours = drain(&(ours as _), &ample(8192)).await.unwrap();
    assert_eq!(counts(&ours), counts(&stock));
}
