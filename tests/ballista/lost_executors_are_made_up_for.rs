use crate::cluster::{Cluster, answer, assert_same, run, sql};
use crate::support::until;

/// The planner is the static one: with the other, Ballista 55.0.0 does not come back from a failed fetch.
#[tokio::test(flavor = "multi_thread")]
async fn an_executor_is_killed_in_the_middle_of_a_query() {
    let sql = sql("q64");
    let expected = answer(&sql).await;
    let mut cluster = Cluster::new(0).await.with_executors(3, "0").await;
    let context = cluster.session(false, false).await;
    let running = tokio::spawn(async move { run(&context, &sql).await });
    let mut victim = cluster.executors.pop().unwrap();
    until("no output of the executor", || victim.has_outputs() || running.is_finished()).await;
    assert!(!running.is_finished());
    victim.kill();
    let rows = running.await.unwrap();
    assert_same(
        &expected,
        &rows.unwrap_or_else(|error| panic!("{error}\n{}", cluster.logs())),
        "q64",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_lost_between_two_stages() {
    let sql = sql("q64");
    let expected = answer(&sql).await;
    let cluster = Cluster::new(0).await.with_executors(2, "0").await;
    let context = cluster.session(false, false).await;
    let running = tokio::spawn(async move { run(&context, &sql).await });
    let victim = &cluster.executors[0];
    let mut damaged = 0;
    until("nothing to damage", || {
        for (path, _) in victim.files() {
            if damaged < 2 && path.ends_with("data.arrow.index") {
                // It may be gone by now.
                damaged += usize::from(std::fs::remove_file(path.with_extension("")).is_ok());
            }
        }
        damaged == 2 || running.is_finished()
    })
    .await;
    let rows = running.await.unwrap();
    assert_same(
        &expected,
        &rows.unwrap_or_else(|error| panic!("{error}\n{}", cluster.logs())),
        "q64",
    );
    assert_eq!(damaged, 2);
}
