//! Attempts that are killed at any step of their commit, and attempts that race.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::map_output::{CommitStep, IndexLayout, OutputName};
use futures::stream::{self, StreamExt};

use crate::child::{argument, kill_me, run};
use crate::support::*;

const STEPS: [CommitStep; 9] = [
    CommitStep::DataWritten,
    CommitStep::DataSynced,
    CommitStep::IndexWritten,
    CommitStep::IndexSynced,
    CommitStep::Locked,
    CommitStep::OldIndexUnlinked,
    CommitStep::DataRenamed,
    CommitStep::IndexRenamed,
    CommitStep::DirectorySynced,
];

const NAME: OutputName = OutputName { shuffle: 1, map_id: 3 };

/// An attempt of this process, with an epoch of its own.
async fn attempt(directory: &Path, epoch: u64, killed_at: Option<CommitStep>) -> Written {
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let mut write_to = write_to(directory, NAME.map_id, IndexLayout::IFile);
    write_to.epoch = epoch;
    write_to.output.fsync = true;
    let writer = datafusion_ifile::IFileShuffleWriterExec::try_new(
        input(2000, 2, 100),
        hash(9),
        write_to,
        datafusion_ifile::IFileOptions::default(),
    )
    .unwrap()
    .with_commit_observer(move |step| {
        if killed_at == Some(step) {
            kill_me();
        }
        Ok(())
    });
    let summary = datafusion::physical_plan::collect(Arc::new(writer), context).await.unwrap();
    Written::of(&summary[0])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by a_killed_attempt_leaves_a_valid_pair_or_none"]
async fn child_that_is_killed() {
    let argument = argument();
    let (step, directory) = argument.split_once(' ').unwrap();
    let step = STEPS[step.parse::<usize>().unwrap()];
    attempt(Path::new(directory), 2, Some(step)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_attempt_leaves_a_valid_pair_or_none() {
    for (step, killed_after) in STEPS.into_iter().enumerate() {
        for before in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            if before {
                attempt(path, 1, None).await;
            }
            let test = "attempts_leave_a_valid_pair_or_none::child_that_is_killed";
            let status = run(test, &format!("{step} {}", path.display())).status;
            assert_eq!(status.signal(), Some(9), "{status}");
            let there = store(path).exists(NAME).unwrap();
            let at = |step| STEPS.iter().position(|other| *other == step).unwrap();
            let old_stays = before && step < at(CommitStep::OldIndexUnlinked);
            let done = step >= at(CommitStep::IndexRenamed);
            assert_eq!(there, old_stays || done, "after {killed_after:?}, before: {before}");
            // The next attempt is not in the way of what is left, and takes it away.
            let next = attempt(path, 2, None).await;
            assert_eq!(next.committed(), !done);
            let context = context(&Arc::new(RuntimeEnv::default()), 100);
            let reads = reads(std::slice::from_ref(&next.status));
            assert_all_rows(&read(&next.status, reads, &context).await.unwrap(), 2000);
            let left: Vec<_> =
                std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
            assert_eq!(left.len(), 2, "{left:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_writers_one_wins_and_both_tell_the_same() {
    for round in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (first, second) = tokio::join!(
            tokio::spawn({
                let path = path.to_owned();
                async move { attempt(&path, 1, None).await }
            }),
            tokio::spawn({
                let path = path.to_owned();
                async move { attempt(&path, 1, None).await }
            }),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(first.committed() != second.committed(), "round {round}");
        assert_eq!(first.status.attempt_id, second.status.attempt_id);
        assert_eq!(first.status.columns.checksums, second.status.columns.checksums);
        let context = context(&Arc::new(RuntimeEnv::default()), 100);
        let reads = reads(std::slice::from_ref(&second.status));
        assert_all_rows(&read(&second.status, reads, &context).await.unwrap(), 2000);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 2);
    }
}

/// Dropped with every batch that its inputs give, and some polls later.
#[test]
fn an_attempt_dropped_at_any_step_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = limited(1 << 20);
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for last in 0..=120 {
        tokio.block_on(drop_after(last, directory.path(), &runtime));
    }
    // Blocking work that has begun goes on to its end.
    drop(tokio);
    assert_eq!(runtime.memory_pool.reserved(), 0);
    let progress = runtime.disk_manager.spilling_progress();
    assert_eq!((progress.current_bytes, progress.active_files_count), (0, 0));
    // A task that is past its last await commits all the same: a valid pair, and no file else.
    store(directory.path()).remove(OutputName { shuffle: 1, map_id: 0 }).unwrap();
    assert_eq!(files(directory.path()).len(), 0);
}

/// Drops an attempt when its inputs have given `last` batches.
async fn drop_after(last: usize, directory: &Path, runtime: &Arc<RuntimeEnv>) {
    let given = Arc::new(AtomicUsize::new(0));
    let stream = |from: i64| {
        let given = Arc::clone(&given);
        let batches = (from..from + 60_000).step_by(1000).map(|n| rows(n, n + 1000));
        let steps = stream::iter(batches).then(move |batch| {
            given.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::task::yield_now().await;
                Ok(batch)
            }
        });
        steps.boxed()
    };
    let input = streamed(vec![stream(0), stream(60_000)]);
    let write_to = write_to(directory, 0, IndexLayout::IFile);
    let context = context(runtime, 100);
    let mut write = std::pin::pin!(try_write(input, hash(50), write_to, &context));
    let mut polls_left = last % 7;
    while polls_left > 0 || given.load(Ordering::SeqCst) < last {
        polls_left -= usize::from(given.load(Ordering::SeqCst) >= last);
        if futures::poll!(write.as_mut()).is_ready() {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_attempt_does_not_commit() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let (reached, steps) = std::sync::mpsc::channel();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let resumed = std::sync::Mutex::new(resumed);
    let writer = datafusion_ifile::IFileShuffleWriterExec::try_new(
        input(2000, 2, 100),
        hash(9),
        write_to(directory.path(), NAME.map_id, IndexLayout::IFile),
        datafusion_ifile::IFileOptions::default(),
    );
    let writer = writer.unwrap().with_commit_observer(move |step| {
        reached.send(step).unwrap();
        if step == CommitStep::DataWritten {
            resumed.lock().unwrap().recv().unwrap();
        }
        Ok(())
    });
    let task = tokio::spawn(datafusion::physical_plan::collect(Arc::new(writer), context));
    let (first, steps) =
        tokio::task::spawn_blocking(move || (steps.recv().unwrap(), steps)).await.unwrap();
    assert_eq!(first, CommitStep::DataWritten);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    resume.send(()).unwrap();
    // The steps end when the last one who could commit is gone.
    let rest: Vec<CommitStep> =
        tokio::task::spawn_blocking(move || steps.iter().collect()).await.unwrap();
    assert!(!rest.contains(&CommitStep::DataRenamed), "{rest:?}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// As when descriptors are used up: what cannot be opened is not known to be dead.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_cannot_be_asked_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let file = |attempt: &str, kind: &str| path.join(format!(".shuffle_1_3.{attempt}.{kind}.tmp"));
    std::os::unix::fs::symlink(file("aa", "data"), file("aa", "data")).unwrap();
    std::fs::write(file("aa", "index"), b"of a live attempt").unwrap();
    let locked = std::fs::File::create(file("bb", "data")).unwrap();
    locked.lock().unwrap();
    std::fs::write(file("cc", "data"), b"of a dead one").unwrap();
    std::fs::write(file("dd", "index"), b"of one whose data is gone").unwrap();
    assert!(attempt(path, 1, None).await.committed());
    let there = |attempt: &str, kind: &str| file(attempt, kind).symlink_metadata().is_ok();
    assert!(there("aa", "data") && there("aa", "index") && there("bb", "data"));
    assert!(!there("cc", "data") && !there("dd", "index"));
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 5);
}
