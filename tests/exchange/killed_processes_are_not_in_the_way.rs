//! A process that is killed while rows of it lie in scratch files; then another one uses the same directories.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    Digest, argument, assert_nothing_left, bytes_under, context, drain_in_turn, exchange, feed,
    generated, hash, kill_me, metric, noise, run, runtime_in, runtime_without_disk,
};

const BATCHES: usize = 200;

/// A query that calls `at_batch` with the number of each batch.
fn query(
    directory: &Path,
    own: bool,
    at_batch: impl Fn(usize) + Clone + Send + Sync + 'static,
) -> (Arc<RuntimeEnv>, Arc<dyn ExecutionPlan>) {
    let batch = move |number: usize| {
        at_batch(number);
        (number < BATCHES).then(|| noise(number as u64 * 4096, 4096, 2))
    };
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
    let partitioning = hash(&input, "k", 4);
    let mut options = IFileOptions::default();
    if own {
        options.scratch_dirs = directory.to_str().unwrap().parse().unwrap();
    }
    let runtime = if own { runtime_without_disk(1) } else { runtime_in(1, directory) };
    (runtime, exchange(input, partitioning, options))
}

#[tokio::test]
#[ignore = "run by the_next_process_starts_clean"]
async fn a_process_that_is_killed() {
    let argument = argument();
    let (own, directory) = argument.split_once(' ').unwrap();
    let directory = Path::new(directory).to_owned();
    let scratch = directory.clone();
    // Not before there is something to leave.
    let kill_in_time = move |number: usize| {
        if number >= BATCHES / 2 && bytes_under(&scratch) > 1 << 20 {
            kill_me();
        }
    };
    let (runtime, plan) = query(&directory, own == "true", kill_in_time);
    drain_in_turn(&plan, &context(&runtime, 1024)).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn the_next_process_starts_clean(#[values(false, true)] own: bool) {
    let directory = tempfile::tempdir().unwrap();
    let test = "killed_processes_are_not_in_the_way::a_process_that_is_killed";
    let status = run(test, &format!("{own} {}", directory.path().display())).status;
    assert_eq!(status.signal(), Some(9), "{status}");
    let left = bytes_under(directory.path());
    assert!(left > 1 << 20, "{left} bytes");

    let (runtime, plan) = query(directory.path(), own, |_| {});
    let parts = drain_in_turn(&plan, &context(&runtime, 1024)).await.unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, BATCHES * 4096);
    assert!(metric(&plan, "spill_count") > 0);
    drop(plan);
    assert_nothing_left(&runtime);
    drop(runtime);
    // Files of DataFusion's disk manager are its own matter: those of the dead stay as they are.
    let expected = if own { 0 } else { left };
    assert_eq!(bytes_under(directory.path()), expected);
}
