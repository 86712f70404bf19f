//! Recursive queries run their exchanges once per iteration.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::catalog::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;

use super::support::{answer, config, exchanges, ifile_state, physical_plan, stock_state};

/// Edges `n -> 2n + 1, 2n + 2` of a tree of 2,000 nodes.
fn with_edges(context: &SessionContext) {
    let (parents, children): (Vec<i64>, Vec<i64>) =
        (1..2000).map(|child| ((child - 1) / 2, child)).unzip();
    let columns: [(&str, ArrayRef); 2] = [
        ("parent", Arc::new(Int64Array::from(parents))),
        ("child", Arc::new(Int64Array::from(children))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let parts = (0..4).map(|part| vec![batch.slice(part * 499, 499 + usize::from(part == 3) * 3)]);
    let table = MemTable::try_new(batch.schema(), parts.collect()).unwrap();
    context.register_table("edges", Arc::new(table)).unwrap();
}

const JOIN: &str = "WITH RECURSIVE tree AS ( \
     SELECT 0 AS node, 0 AS depth \
     UNION ALL \
     SELECT e.child, t.depth + 1 FROM tree t JOIN edges e ON e.parent = t.node) \
     SELECT depth, count(*), sum(node) FROM tree GROUP BY depth";

const GROUP_BY: &str = "WITH RECURSIVE steps AS ( \
     SELECT 1 AS n, CAST(1 AS BIGINT) AS total \
     UNION ALL \
     SELECT s.n + 1, sum(e.child) FROM steps s JOIN edges e ON e.parent = s.n \
     WHERE s.n < 20 GROUP BY s.n) \
     SELECT n, total FROM steps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_and_groups_inside() {
    let config = config()
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold", 0)
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
    let stock = SessionContext::new_with_state(stock_state(config.clone()));
    with_edges(&stock);
    for pool_bytes in [1 << 30, 16 << 20] {
        let pool = Arc::new(GreedyMemoryPool::new(pool_bytes));
        let runtime = Arc::new(RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap());
        let state = ifile_state(config.clone(), Arc::clone(&runtime));
        let ours = SessionContext::new_with_state(state);
        with_edges(&ours);
        for sql in [JOIN, GROUP_BY] {
            let plan = physical_plan(&ours, sql).await;
            assert!(matches!(exchanges(&plan), (2.., 0)), "{}", super::support::text_of(&plan));
            drop(plan);
            assert_eq!(answer(&ours, sql).await, answer(&stock, sql).await, "{sql}");
            assert_eq!(runtime.memory_pool.reserved(), 0);
        }
    }
    let depths = answer(&stock, JOIN).await;
    assert!(depths.iter().any(|line| line.contains("| 9     | 512")), "{depths:?}");
}
