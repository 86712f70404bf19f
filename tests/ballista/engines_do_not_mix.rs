use std::sync::Arc;

use ballista_core::error::BallistaError;
use ballista_core::execution_plans::ShuffleReaderExec;
use ballista_executor::execution_engine::DefaultExecutionEngine;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::common::collect;

use crate::support::{Executor, context, engine, read, reading, rows, session, write};

#[tokio::test(flavor = "multi_thread")]
async fn an_output_of_ballista_fails_the_query_by_name() {
    let executor = Executor::new().await;
    let stock = DefaultExecutionEngine::new();
    let reported = write(&stock, &executor, 0, &[rows(0, 900)], false).await;
    let plan = reading(&executor.locations(&reported));
    for force_remote in [false, true] {
        let context = context(session(force_remote), None);
        let error = read(&engine(), &executor, &plan, 1, context).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("written by an executor without this engine"), "{text}");
        // Running the map task again would not help.
        let error = BallistaError::from(error);
        assert!(!matches!(error, BallistaError::FetchFailed(..)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ballista_refuses_an_output_of_ours() {
    let executor = Executor::new().await;
    let reported = write(&engine(), &executor, 0, &[rows(0, 900)], false).await;
    let plan = reading(&executor.locations(&reported));
    let reader = plan.downcast_ref::<ShuffleReaderExec>().unwrap();
    for force_remote in [false, true] {
        for partition in 0..crate::support::PARTITIONS {
            let reader = reader.with_work_dir(executor.path().display().to_string());
            let stream = reader.execute(partition, context(session(force_remote), None)).unwrap();
            let ended = collect(stream).await;
            assert!(ended.is_err(), "partition {partition}: {ended:?}");
        }
    }
    assert_eq!(Arc::strong_count(&plan), 1);
}
