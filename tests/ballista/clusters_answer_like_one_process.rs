use datafusion::prelude::{ParquetReadOptions, SessionContext, col};

use crate::cluster::{self, Cluster, answer, assert_same, run, sql};

/// Joins, aggregates over aggregates, windows, semi joins; each shuffles several times.
const QUERIES: [&str; 8] = ["q04", "q23", "q64", "q67", "q72", "q75", "q78", "q95"];

async fn agree(memory: &str, queries: &[&str]) {
    let cluster = Cluster::new(0).await.with_executors(3, memory).await;
    for name in queries {
        let sql = sql(name);
        let expected = answer(&sql).await;
        for adaptive in [false, true] {
            for force_remote in [false, true] {
                let what = format!("{name}, adaptive {adaptive}, remote {force_remote}");
                let context = cluster.session(adaptive, force_remote).await;
                match run(&context, &sql).await {
                    Ok(rows) => assert_same(&expected, &rows, &what),
                    Err(error) => panic!("{what}: {error}\n{}", cluster.logs()),
                }
            }
        }
    }
    assert!(cluster.executors.iter().all(|executor| executor.work_dir.exists()));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_memory_to_spare() {
    agree("0", &QUERIES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_little_memory() {
    agree("64MB", &["q04", "q67"]).await;
}

/// The order of the files goes through the partial aggregate into the exchange. The adaptive planner lets its reader merge,
/// which Ballista 55.0.0 does with inputs that its own writer has mixed, and then counts groups twice.
#[tokio::test(flavor = "multi_thread")]
async fn sorted_inputs_under_both_planners() {
    let cluster = Cluster::new(0).await.with_executors(2, "0").await;
    let sql = "select ss_ticket_number, count(*) n, sum(ss_quantity) q from sales \
               group by ss_ticket_number";
    let in_process = SessionContext::new();
    let path = format!("{}/", cluster::tables().join("store_sales").display());
    in_process.register_parquet("sales", &path, ParquetReadOptions::default()).await.unwrap();
    let expected = run(&in_process, sql).await.unwrap();
    let by_ticket = vec![vec![col("ss_ticket_number").sort(true, false)]];
    for adaptive in [false, true] {
        for force_remote in [false, true] {
            let context = cluster.session(adaptive, force_remote).await;
            let options = ParquetReadOptions::default().file_sort_order(by_ticket.clone());
            context.register_parquet("sales", &path, options).await.unwrap();
            let rows = run(&context, sql).await.unwrap();
            assert_same(&expected, &rows, &format!("adaptive {adaptive}, remote {force_remote}"));
        }
    }
}
