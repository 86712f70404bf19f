//! `ifile.scratch_dirs`: exchanges spill to directories of their own, which are empty afterwards.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::IFileOptions;
use futures::StreamExt;

use super::support::{
    Digest, ample, assert_nothing_left, bytes_under, context, digests, drain, drain_in_turn,
    exchange, feed, generated, greedy_runtime, hash, metric, noise, nothing_left_soon, open_all,
    runtime_without_disk, within,
};

const BATCHES: usize = 200;

fn plan_of(
    batches: usize,
    dirs: &str,
    change: impl FnOnce(&mut IFileOptions),
) -> Arc<dyn ExecutionPlan> {
    let batch = move |number| (number < batches).then(|| noise(number as u64 * 4096, 4096, 2));
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
    let partitioning = hash(&input, "k", 4);
    let mut options =
        IFileOptions { scratch_dirs: dirs.parse().unwrap(), ..IFileOptions::default() };
    change(&mut options);
    exchange(input, partitioning, options)
}

fn plan(dirs: &str) -> Arc<dyn ExecutionPlan> {
    plan_of(BATCHES, dirs, |_| {})
}

async fn expected() -> Vec<Digest> {
    digests(&drain(&plan(""), &ample(1024)).await.unwrap())
}

fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_back_without_the_disk_manager() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime_without_disk(1);
    for punch in [false, true] {
        let dirs = format!("{0}/a:1MB:0,{0}/b:1MB:0,{0}/c", directory.path().display());
        let plan = plan_of(BATCHES, &dirs, |options| options.punch_holes = punch);
        let parts = drain_in_turn(&plan, &context(&runtime, 1024)).await.unwrap();
        assert_eq!(digests(&parts), expected().await);
        assert!(metric(&plan, "spill_count") > 0);
        assert_nothing_left(&runtime);
        for name in ["a", "b", "c"] {
            assert_eq!(
                entries(&directory.path().join(name)),
                [""; 0].map(std::path::PathBuf::from)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_ends_the_query_and_the_next_one_runs() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = greedy_runtime(1);
    let path = directory.path().display().to_string();
    for _ in 0..2 {
        for (dirs, limit) in [(format!("{path}:1MB"), 0), (path.clone(), 1 << 20)] {
            let plan = plan_of(BATCHES, &dirs, |options| options.scratch_limit = limit);
            let error = drain_in_turn(&plan, &context(&runtime, 1024)).await.unwrap_err();
            let message = error.to_string();
            for part in ["IFileRepartitionExec", "ifile.scratch_dirs", "ifile.scratch_limit"] {
                assert!(message.contains(part), "{message}");
            }
            nothing_left_soon(&runtime).await;
            drop(plan);
            within(20, async {
                while !entries(directory.path()).is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
    }
    let small = plan_of(10, &format!("{path}:1MB"), |_| {});
    let parts = drain_in_turn(&small, &context(&runtime, 1024)).await.unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, 10 * 4096);
}

/// The device is full after 4 MiB; the rest goes elsewhere, and what it holds is read from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_fails_is_dropped_for_the_query() {
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
        .arg(&small)
        .stderr(Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        return;
    }
    let runtime = greedy_runtime(1);
    let dirs = format!("{}::0,{}/good::1", small.display(), directory.path().display());
    let plan = plan_of(BATCHES, &dirs, |options| options.punch_holes = false);
    // Nothing is consumed before all is written.
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    let mut last = streams.pop().unwrap();
    let mut digest = Digest::default();
    while let Some(batch) = within(60, last.next()).await {
        digest.add(&batch.unwrap());
    }
    assert_eq!(metric(&plan, "dropped_devices"), 1);
    assert!(bytes_under(&small) > 2 << 20 && bytes_under(&directory.path().join("good")) > 0);
    let mut found = Vec::new();
    for mut stream in streams {
        let mut digest = Digest::default();
        while let Some(batch) = within(60, stream.next()).await {
            digest.add(&batch.unwrap());
        }
        found.push(digest);
    }
    found.push(digest);
    assert_eq!(found, expected().await);
    drop(plan);
    assert_nothing_left(&runtime);
    assert_eq!(entries(&small).len() + entries(&directory.path().join("good")).len(), 0);
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
}

/// Descriptors do not grow with what is spilled.
#[tokio::test]
async fn one_descriptor_for_each_directory() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = greedy_runtime(1);
    let dirs = format!("{0}/a,{0}/b", directory.path().display());
    let plan = plan(&dirs);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    while within(60, streams[0].next()).await.is_some() {}
    let home = directory.path().to_str().unwrap().to_owned();
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    let ours = targets.filter(|target| target.starts_with(&home)).count();
    assert_eq!(ours, 4, "a lock and a file for each");
}

/// Writes until it is killed.
#[tokio::test]
#[ignore = "run by leftovers_of_a_killed_process_are_removed"]
async fn a_process_that_spills_and_waits() {
    let dirs = std::env::var("SCRATCH_OF_THE_TEST").unwrap();
    let runtime = greedy_runtime(1);
    let plan = plan_of(usize::MAX, &dirs, |_| {});
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    while streams[0].next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_of_a_killed_process_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let dirs = directory.path().display().to_string();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "scratch_directories::a_process_that_spills_and_waits"])
            .env("SCRATCH_OF_THE_TEST", &dirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let spilled = |least: usize| {
        let since = Instant::now();
        let homes = || entries(directory.path()).into_iter().filter(|path| path.is_dir());
        while homes().filter(|home| bytes_under(home) > 1 << 20).count() < least {
            assert!(since.elapsed() < Duration::from_secs(60), "it does not spill");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut killed = start();
    spilled(1);
    let mut alive = start();
    // The second one starts beside a living one, whose files stay.
    spilled(2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(entries(directory.path()).len(), 4);

    let runtime = greedy_runtime(1);
    let plan = plan(&dirs);
    let parts = drain_in_turn(&plan, &context(&runtime, 1024)).await.unwrap();
    assert_eq!(digests(&parts), expected().await);
    let left = entries(directory.path());
    assert_eq!(left.len(), 2, "those of the living: {left:?}");
    alive.kill().unwrap();
    alive.wait().unwrap();
}
