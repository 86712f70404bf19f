use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion_ifile::map_output::IndexLayout;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn readers_with_an_order_merge_segments() {
    let directory = tempfile::tempdir().unwrap();
    for (map, pool) in [None, Some(2 << 20)].into_iter().enumerate() {
        let runtime = pool.map_or_else(|| Arc::new(RuntimeEnv::default()), limited);
        let writing = context(&runtime, 1000);
        let write_to = write_to(directory.path(), map as u64, IndexLayout::IFile);
        let written = write(sorted_input(400_000, 3, 700), hash(6), write_to, &writing).await;
        assert!(written.status.sorted);
        assert_eq!(written.number("spills") > 0, pool.is_some());
        let reading = context(&Arc::new(RuntimeEnv::default()), 1000);
        let status = &written.status;
        let reader = reader(status, reads(std::slice::from_ref(status))).with_order(order());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(reader);
        let parts = collect_partitioned(plan, Arc::clone(&reading)).await.unwrap();
        assert_all_rows(&parts, 400_000);
        for part in &parts {
            assert!(numbers(part).is_sorted());
        }
    }
}
