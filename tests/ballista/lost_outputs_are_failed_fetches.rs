use std::fs::{self, OpenOptions};
use std::path::Path;

use ballista_core::error::BallistaError;
use ballista_core::serde::protobuf::FailedTask;
use ballista_core::serde::protobuf::failed_task::FailedReason;
use ballista_core::serde::scheduler::PartitionLocation;

use crate::support::{
    Executor, STAGE, context, engine, failed_fetch, read, reading, released, rows, session, write,
};

async fn output() -> (Executor, Vec<PartitionLocation>) {
    let executor = Executor::new().await;
    let reported = write(&engine(), &executor, 4, &[rows(0, 3000)], false).await;
    let locations = executor.locations(&reported);
    (executor, locations)
}

fn truncate(path: &Path, len: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// What is said of partition 0 after `damage`, read as a file and through the Flight service.
async fn failures(damage: impl Fn(&Executor)) -> Vec<String> {
    let mut messages = Vec::new();
    for force_remote in [false, true] {
        let (executor, locations) = output().await;
        damage(&executor);
        let context = context(session(force_remote), None);
        let plan = reading(&locations);
        let error = read(&engine(), &executor, &plan, 0, context.clone()).await.unwrap_err();
        let (id, stage, message) = failed_fetch(error);
        assert_eq!((id.as_str(), stage), ("executor-a", STAGE));
        assert!(message.contains("output 4 of stage 3 of job job"), "{message}");
        released(&context).await;
        messages.push(message);
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_output() {
    failures(|executor| fs::remove_dir_all(executor.data(4).parent().unwrap()).unwrap()).await;
    failures(|executor| fs::remove_file(executor.index(4)).unwrap()).await;
    failures(|executor| fs::remove_file(executor.data(4)).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_output() {
    failures(|executor| truncate(&executor.data(4), 100)).await;
    failures(|executor| truncate(&executor.data(4), 0)).await;
    for len in [20, 300] {
        let messages = failures(|executor| truncate(&executor.index(4), len)).await;
        assert!(messages.iter().all(|message| message.contains("bytes of")), "{messages:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_output() {
    let messages = failures(|executor| flip(&executor.data(4), 60)).await;
    assert!(messages.iter().all(|message| message.contains("partition 0")), "{messages:?}");
    let messages = failures(|executor| flip(&executor.index(4), 8 * 6 + 20)).await;
    assert!(messages.iter().all(|message| message.contains("expected checksum")), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_longer_than_any() {
    const LIMIT: u64 = 256 << 20;
    let messages = failures(|executor| truncate(&executor.index(4), LIMIT + 8)).await;
    let limit = format!("at most: expected {LIMIT}, found");
    assert!(messages.iter().all(|message| message.contains(&limit)), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_gone() {
    let (executor, locations) = output().await;
    let elsewhere = Executor::new().await;
    drop(executor);
    let context = context(session(false), None);
    let plan = reading(&locations);
    let error = read(&engine(), &elsewhere, &plan, 0, context).await.unwrap_err();
    let failed = FailedTask::from(BallistaError::from(error));
    let Some(FailedReason::FetchPartitionError(reason)) = failed.failed_reason else {
        panic!("{failed:?}");
    };
    assert_eq!((reason.executor_id.as_str(), reason.map_stage_id as usize), ("executor-a", STAGE));
}
