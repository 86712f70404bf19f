use crate::cluster::{Cluster, answer, assert_same, run, sql};

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

/// Both sides of the join are sorted files, whose order the adaptive planner keeps across the exchange.
#[tokio::test(flavor = "multi_thread")]
async fn sorted_inputs_under_both_planners() {
    let cluster = Cluster::new(0).await.with_executors(2, "0").await;
    let sql = "select customer, item, n, row_number() over (partition by customer order by item) \
               from (select ss_customer_sk customer, ss_item_sk item, count(*) n from store_sales \
               group by ss_customer_sk, ss_item_sk order by customer, item) s";
    let expected = answer(sql).await;
    for adaptive in [false, true] {
        for force_remote in [false, true] {
            let context = cluster.session(adaptive, force_remote).await;
            let rows = run(&context, sql).await.unwrap();
            assert_same(&expected, &rows, &format!("adaptive {adaptive}, remote {force_remote}"));
        }
    }
}
