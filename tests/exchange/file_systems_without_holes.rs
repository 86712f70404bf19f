//! Where consumed bytes cannot be given back to the file system, they are written to again.

use std::process::Command;

use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    Digest, assert_nothing_left, bytes_under, context, drain_in_turn, exchange, feed, generated,
    hash, metric, noise, runtime_in, runtime_without_disk,
};

/// A `ramfs` neither punches holes nor promises blocks.
#[rstest]
#[tokio::test]
async fn rows_come_back(#[values(false, true)] own: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mounted = Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(path).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return;
    }
    let batch = |number: usize| (number < 100).then(|| noise(number as u64 * 4096, 4096, 2));
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
    let partitioning = hash(&input, "k", 4);
    let mut options = IFileOptions { punch_holes: true, ..IFileOptions::default() };
    if own {
        options.scratch_dirs = path.to_str().unwrap().parse().unwrap();
    }
    let runtime = if own { runtime_without_disk(1) } else { runtime_in(1, path) };
    let plan = exchange(input, partitioning, options);
    let parts = drain_in_turn(&plan, &context(&runtime, 1024)).await.unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, 100 * 4096);
    assert!(metric(&plan, "spill_count") > 0);
    assert_eq!(metric(&plan, "punched_bytes"), 0);
    drop(plan);
    assert_nothing_left(&runtime);
    drop(runtime);
    assert_eq!(bytes_under(path), 0);
    assert!(Command::new("umount").arg(path).status().unwrap().success());
}
