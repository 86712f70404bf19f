//! A process that may open few files spills the rows of many outputs. (Comet 3859, Ballista 1436)

use std::process::Command;

use tokio::runtime::Builder;

use super::support::{
    Digest, assert_nothing_left, context, drain_in_turn, exchange, feed, generated, greedy_runtime,
    hash, metric, noise,
};

const OUTPUTS: usize = 2000;
const BATCHES: usize = 160;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
#[ignore = "run by sixty_four_descriptors_are_enough"]
fn a_process_with_few_descriptors() {
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let runtime = greedy_runtime(1);
    let before = descriptors();
    let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&most);
    let input = generated(move |number| {
        seen.fetch_max(descriptors(), std::sync::atomic::Ordering::Relaxed);
        (number < BATCHES).then(|| noise(number as u64 * 8192, 8192, 2))
    });
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![input]);
    let partitioning = hash(&input, "k", OUTPUTS);
    let plan = exchange(input, partitioning, datafusion_ifile::IFileOptions::default());
    let parts = tokio.block_on(drain_in_turn(&plan, &context(&runtime, 8192))).unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, BATCHES * 8192);
    let runs = metric(&plan, "spill_count");
    assert!(runs >= 30, "{runs} runs");
    let most = most.load(std::sync::atomic::Ordering::Relaxed);
    assert!(most <= before + 4, "{most} descriptors, {before} before");
    drop((plan, tokio));
    assert_nothing_left(&runtime);
}

#[test]
fn sixty_four_descriptors_are_enough() {
    let child = "few_descriptors::a_process_with_few_descriptors";
    let limited = format!("ulimit -n 64 && exec \"$0\" --ignored --exact {child}");
    let status = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
