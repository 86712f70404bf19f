//! An executor is lost in the middle of a query.

use std::time::{Duration, Instant};

use crate::client::{self, Setting};
use crate::roles::Engine;
use crate::{Job, Result};

/// Tries of a fetch from an executor that may be gone.
const RETRIES: (u8, Duration) = (1, Duration::from_millis(200));

/// How long the victim may take to write something.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `name` on a whole cluster, and again on one that loses an executor once that has written map outputs. Returns
/// whether both answers are right.
///
/// The planner is the static one: Ballista 55.0.0 hangs on a failed fetch with the adaptive one.
pub(crate) async fn show(job: &Job, name: &str) -> Result<bool> {
    let found = crate::texts(&[name.to_owned()])?.into_iter().next();
    let (query, sql) = &found.ok_or(format!("--kill: no query {name}"))?;
    let setting = Setting {
        partitions: job.args.partitions,
        adaptive: false,
        force_remote: false,
        retries: Some(RETRIES),
    };
    let mut plan = job.plan(Engine::Ifile);
    plan.patience = 10;

    let cluster = job.start(plan.clone()).await?;
    let context = client::on_cluster(cluster.port, setting, &job.tables).await?;
    let (rows, whole) = client::run(&context, sql).await?;
    let mut right = job.differences(&query.name, &rows).is_none();
    drop(cluster);

    let mut cluster = job.start(plan).await?;
    let context = client::on_cluster(cluster.port, setting, &job.tables).await?;
    let running = {
        let (context, sql) = (context.clone(), sql.clone());
        tokio::spawn(async move { client::run(&context, &sql).await })
    };
    let mut victim = cluster.executors.pop().ok_or("no executor")?;
    let begun = Instant::now();
    let lost = loop {
        let counts = victim.counts().await?;
        if counts.written > 0 {
            break counts;
        }
        if begun.elapsed() > PATIENCE || running.is_finished() {
            return Err(format!("{name}: the executor that is to be lost wrote nothing").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    victim.kill()?;
    let (rows, time) = running.await??;
    let failed = cluster.counts().await?.failed_fetches;
    let differences = job.differences(&query.name, &rows);
    right &= differences.is_none();
    println!(
        "\n{}: an executor is lost with {} bytes of map outputs; {failed} tasks cannot fetch, and map tasks run again",
        query.name, lost.written
    );
    println!(
        "  {:.1} s with all executors, {:.1} s where one was lost",
        whole.as_secs_f64(),
        time.as_secs_f64()
    );
    println!(
        "  the answer {}",
        differences.map_or("is right".to_owned(), |d| format!("is wrong: {d}"))
    );
    Ok(right)
}
