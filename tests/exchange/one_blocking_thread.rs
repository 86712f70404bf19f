//! One blocking thread is enough for writing and reading runs. (DataFusion 15323, Comet 1523)

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::IFileOptions;
use rstest::rstest;
use tokio::runtime::Builder;

use super::support::{
    Digest, assert_nothing_left, context, drain, drain_in_turn, exchange, feed, generated,
    greedy_runtime, hash, metric, noise,
};

const BATCHES: usize = 4200;

fn plan() -> Arc<dyn ExecutionPlan> {
    let input = |input: usize| {
        generated(move |number| {
            let number = input * BATCHES / 2 + number;
            (number < (input + 1) * BATCHES / 2).then(|| noise(number as u64 * 8192, 8192, 2))
        })
    };
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![input(0), input(1)]);
    let partitioning = hash(&input, "k", 3);
    exchange(input, partitioning, IFileOptions::default())
}

#[rstest]
fn hundreds_of_runs(#[values(0, 1, 2)] threads: usize) {
    let mut builder = match threads {
        0 => Builder::new_current_thread(),
        threads => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
    };
    let tokio = builder.max_blocking_threads(1).enable_all().build().unwrap();
    let runtime = greedy_runtime(1);
    let plan = plan();
    let parts = tokio.block_on(drain_in_turn(&plan, &context(&runtime, 8192))).unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, BATCHES * 8192);
    let runs = metric(&plan, "spill_count");
    assert!(runs >= 300, "{runs} runs");
    drop(tokio);
    assert_nothing_left(&runtime);
}

#[rstest]
fn all_outputs_read_together(#[values(0, 2)] threads: usize) {
    let mut builder = match threads {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let tokio = builder.max_blocking_threads(1).enable_all().build().unwrap();
    let runtime = greedy_runtime(1);
    let parts = tokio.block_on(drain(&plan(), &context(&runtime, 100_000))).unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, BATCHES * 8192);
    drop(tokio);
    assert_nothing_left(&runtime);
}
