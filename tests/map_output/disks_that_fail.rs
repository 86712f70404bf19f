//! Scratch files and memory that fail a map task, at the n-th call of a kind.

use std::path::Path;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_ifile::map_output::IndexLayout;

use crate::disk::{FAULT, Factory, Fault, FaultyDisk};
use crate::pool::{Refusals, ScriptedPool};
use crate::support::*;

const ROWS: i64 = 120_000;

fn runtime(pool: Arc<dyn MemoryPool>, disk: DiskManagerBuilder) -> Arc<RuntimeEnv> {
    let builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
    builder.build_arc().unwrap()
}

/// A pool in which the rows do not fit.
fn small_pool() -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(1 << 20))
}

async fn attempt(directory: &Path, runtime: &Arc<RuntimeEnv>) -> Result<Written, DataFusionError> {
    let write_to = write_to(directory, 0, IndexLayout::IFile);
    try_write(input(ROWS, 2, 1000), hash(20), write_to, &context(runtime, 1000)).await
}

/// Waits for the tasks of the inputs that have not failed: they are stopped, and hold nothing then.
async fn nothing_is_left(runtime: &RuntimeEnv) {
    released(runtime).await;
    assert_eq!(runtime.disk_manager.used_disk_space(), 0);
}

async fn assert_right(written: &Written, runtime: &Arc<RuntimeEnv>) {
    let reads = reads(std::slice::from_ref(&written.status));
    let rows = read(&written.status, reads, &context(runtime, 1000)).await.unwrap();
    assert_all_rows(&rows, ROWS);
}

/// Writes an output over a disk with `fault`, of files with paths or of streams. Where `said` is given, it fails with that and
/// with what names the place, if the fault occurs; else it succeeds.
async fn over(local: bool, fault: Fault, said: Option<[&str; 2]>) {
    let (scratch, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = FaultyDisk::new(fault, local.then(|| scratch.path().to_owned()), false);
    let factory = Arc::new(Factory(Arc::clone(&disk)));
    let builder = DiskManagerBuilder::default().with_temp_file_factory(factory);
    let runtime = runtime(small_pool(), builder);
    let outcome = attempt(directory.path(), &runtime).await;
    match (outcome, said.filter(|_| disk.struck() > 0)) {
        (Ok(written), None) => {
            assert!(written.number("spills") > 1);
            assert_right(&written, &runtime).await;
        }
        (Err(error), Some(said)) => {
            let message = error.to_string();
            let all = said.into_iter().all(|part| message.contains(part));
            assert!(all, "{fault:?}, local {local}: {message}");
            assert_eq!(files(directory.path()).len(), 0);
        }
        (Ok(_), Some(_)) => panic!("{fault:?}, local {local}, is not noticed"),
        (Err(error), None) => panic!("{fault:?}, local {local}: {error}"),
    }
    // A task has one file with a path, and one without for each run.
    let once = local && !matches!(fault, Fault::Write(_) | Fault::NoProgress(_) | Fault::Flush(_));
    assert!(disk.struck() > 0 || once || said.is_none(), "{fault:?}, local {local}, is not met");
    nothing_is_left(&runtime).await;
    until(|| disk.live() == 0).await;
    assert_eq!(files(scratch.path()).len(), 0);
}

async fn with(fault: Fault, said: Option<[&str; 2]>) {
    over(false, fault, said).await;
    over(true, fault, said).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_made() {
    for n in 1..=3 {
        with(Fault::Create(n), Some([FAULT, "making a scratch file of IFileShuffleWriterExec"]))
            .await;
    }
}

#[tokio::test]
async fn a_write_that_fails() {
    for n in 1..=4 {
        with(Fault::Write(n), Some([FAULT, "offset"])).await;
    }
}

#[tokio::test]
async fn a_write_without_progress() {
    for n in 1..=2 {
        with(Fault::NoProgress(n), Some(["write", "offset"])).await;
    }
}

#[tokio::test]
async fn short_and_interrupted_writes() {
    with(Fault::ShortWrites, None).await;
}

#[tokio::test]
async fn a_flush_or_finish_that_fails() {
    for n in 1..=3 {
        with(Fault::Flush(n), Some([FAULT, "offset"])).await;
        with(Fault::Finish(n), Some([FAULT, "offset"])).await;
    }
}

/// A file that is spliced is read by position, one without a path as a stream.
#[tokio::test]
async fn a_read_that_fails_or_is_short() {
    for n in [1, 100, 400] {
        for (fault, said) in
            [(Fault::Read(n), FAULT), (Fault::ShortRead(n), "unexpected end of file")]
        {
            over(false, fault, Some([said, "offset"])).await;
        }
    }
    over(true, Fault::Truncated(1), Some(["failed to fill whole buffer", "offset"])).await;
    over(true, Fault::Removed(1), Some(["No such file", "opening"])).await;
}

/// Nothing can be written on the disk of `builder`; the error has all that is `said`.
async fn refused(builder: DiskManagerBuilder, said: [&str; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime(small_pool(), builder);
    let message = attempt(directory.path(), &runtime).await.err().unwrap().to_string();
    assert!(said.iter().all(|part| message.contains(part)), "{message}");
    nothing_is_left(&runtime).await;
    assert_eq!(files(directory.path()).len(), 0);
}

#[tokio::test]
async fn a_quota() {
    for bytes in [0, 1, 300_000] {
        let builder = DiskManagerBuilder::default().with_max_temp_directory_size(bytes);
        refused(builder, ["max_temp_directory_size", "offset"]).await;
    }
}

#[tokio::test]
async fn without_a_disk() {
    let builder = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    refused(builder, ["IFileShuffleWriterExec", "datafusion.runtime.temp_directory"]).await;
}

/// The directory of the outputs has 1 MiB, which is less than an output.
#[tokio::test]
async fn a_full_disk_of_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let mut mount = std::process::Command::new("mount");
    let mount = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(directory.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let runtime = runtime(small_pool(), DiskManagerBuilder::default());
    let error = attempt(directory.path(), &runtime).await.err().unwrap();
    let message = error.to_string();
    assert!(message.contains("No space left") && message.contains("offset"), "{message}");
    assert!(message.contains("shuffle_1_0"), "{message}");
    nothing_is_left(&runtime).await;
    assert_eq!(files(directory.path()).len(), 0);
    let unmounted = std::process::Command::new("umount").arg(directory.path()).status().unwrap();
    assert!(unmounted.success());
}

/// One refusal, whichever it is, fails nothing.
#[tokio::test]
async fn a_refused_reservation() {
    for n in 1..=40 {
        let directory = tempfile::tempdir().unwrap();
        let pool = Arc::new(ScriptedPool::new(Refusals::Only(n), n as u64));
        let runtime = runtime(pool, DiskManagerBuilder::default());
        let written = attempt(directory.path(), &runtime).await.unwrap();
        assert_right(&written, &runtime).await;
        nothing_is_left(&runtime).await;
    }
}
