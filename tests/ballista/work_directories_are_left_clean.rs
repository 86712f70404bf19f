use crate::cluster::{Cluster, answer, assert_same, run, sql};
use crate::support::until;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_job() {
    let cluster = Cluster::new(1).await.with_executors(2, "64MB").await;
    for adaptive in [false, true] {
        let context = cluster.session(adaptive, true).await;
        run(&context, &sql("q67")).await.unwrap();
    }
    until("files are left", || {
        cluster.executors.iter().all(|executor| executor.files().is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_on_with_executors_that_were_started_again() {
    let sql = sql("q75");
    let expected = answer(&sql).await;
    let mut cluster = Cluster::new(0).await.with_executors(2, "0").await;
    let context = cluster.session(false, false).await;
    assert_same(&expected, &run(&context, &sql).await.unwrap(), "before");
    for mut executor in cluster.executors.drain(..) {
        executor.kill();
    }
    let cluster = cluster.with_executors_again(2).await;
    let context = cluster.session(false, false).await;
    assert_same(&expected, &run(&context, &sql).await.unwrap(), "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_both_engines_fails_instead_of_giving_wrong_rows() {
    let sql = sql("q64");
    let expected = answer(&sql).await;
    let cluster = Cluster::new(0).await.with_executors(1, "0").await.with_stock_executor().await;
    let context = cluster.session(false, false).await;
    let ended = run(&context, &sql).await;
    match ended {
        Err(error) => assert!(!error.to_string().is_empty()),
        // All tasks were on executors of one engine.
        Ok(rows) => assert_same(&expected, &rows, "q64"),
    }
}
