use std::fs;

use ballista_core::error::BallistaError;
use ballista_core::serde::protobuf::FailedTask;
use ballista_core::serde::protobuf::failed_task::FailedReason;

use crate::support::{Executor, context, engine, rows, session, stage, writing};

/// What the scheduler is told of a task that `obstacle` keeps from writing.
async fn failed(obstacle: impl Fn(&Executor)) -> FailedTask {
    let executor = Executor::new().await;
    obstacle(&executor);
    let stage = stage(&engine(), &executor, 2, writing(&[rows(0, 300)], false));
    let written = stage.execute_query_stage(2, context(session(false), None)).await;
    FailedTask::from(BallistaError::from(written.unwrap_err()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_files_cannot_be_written() {
    let no_directory = failed(|executor| fs::write(executor.path().join("job"), "").unwrap());
    let no_file = failed(|executor| fs::create_dir_all(executor.data(2).join("taken")).unwrap());
    for (failed, action) in [
        (no_directory.await, "cannot create the directory of a map output"),
        (no_file.await, "cannot rename the data of a map output"),
    ] {
        assert!(matches!(failed.failed_reason, Some(FailedReason::IoError(_))), "{failed:?}");
        assert!(failed.retryable && failed.count_to_failures);
        assert!(failed.error.contains(action) && failed.error.contains("job"), "{failed:?}");
    }
}
