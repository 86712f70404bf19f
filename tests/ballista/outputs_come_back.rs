use std::sync::Arc;

use arrow::array::RecordBatch;
use ballista_core::execution_plans::ShuffleReaderExec;
use ballista_core::serde::scheduler::PartitionLocation;

use crate::support::{
    Executor, PARTITIONS, STAGE, by_partition, coalescing, context, engine, lines, metric,
    read_all, reading, released, rows, schema, session, stage, write, writing_of,
};

/// Two tasks with three inputs each, some of them empty; their rows, and where they are.
async fn written(executor: &Executor) -> (Vec<RecordBatch>, Vec<PartitionLocation>) {
    let engine = engine();
    let tasks =
        [[rows(0, 950), vec![], rows(10_000, 1)], [rows(20_000, 333), rows(30_000, 500), vec![]]];
    let mut locations = Vec::new();
    for (task, inputs) in tasks.iter().enumerate() {
        let reported = write(&engine, executor, task, inputs, false).await;
        locations.extend(executor.locations(&reported));
    }
    (tasks.into_iter().flatten().flatten().collect(), locations)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_back_from_files_and_through_the_flight_service() {
    let executor = Executor::new().await;
    let (expected, locations) = written(&executor).await;
    for force_remote in [false, true] {
        let engine = engine();
        let context = context(session(force_remote), None);
        for plan in [
            reading(&locations),
            coalescing(&locations, &[vec![0, 1, 2], vec![4], vec![3]]),
            Arc::new(
                ShuffleReaderExec::try_new_broadcast(
                    STAGE,
                    locations.clone(),
                    schema(),
                    PARTITIONS,
                )
                .unwrap(),
            ),
        ] {
            let found = read_all(&engine, &executor, &plan, &context).await;
            assert_eq!(lines(&found), lines(&expected));
        }
        released(&context).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_on_another_machine_fetches_what_its_partition_needs() {
    let executor = Executor::new().await;
    let (expected, locations) = written(&executor).await;
    let elsewhere = Executor::new().await;
    let (engine, context) = (engine(), context(session(false), None));
    let plan = engine.with_readers(reading(&locations), elsewhere.path()).unwrap();
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        let stream = plan.execute(partition, Arc::clone(&context)).unwrap();
        found.extend(datafusion::physical_plan::common::collect(stream).await.unwrap());
    }
    assert_eq!(lines(&found), lines(&expected));
    let index = |task| std::fs::metadata(executor.index(task)).unwrap().len() as usize;
    let indexes = index(0) + index(1);
    // The index of an output is fetched once by a node.
    assert_eq!(metric(&plan, "bytes_fetched"), metric(&plan, "bytes_read") + indexes);
    assert_eq!(metric(&plan, "remote_partitions"), locations.len());
    assert_eq!(metric(&plan, "local_partitions"), 0);
    assert_eq!(metric(&plan, "bytes_read"), metric(&plan, "bytes_verified"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_partitions_with_rows_are_reported() {
    let executor = Executor::new().await;
    let reported = write(&engine(), &executor, 0, &[rows(0, 1), vec![]], false).await;
    assert_eq!(reported.len(), 1);
    assert_eq!((reported[0].num_rows, reported[0].file_id), (1, Some(0)));
    assert!(reported[0].num_bytes >= 1 && reported[0].is_sort_shuffle);
    let none = write(&engine(), &executor, 1, &[vec![]], false).await;
    assert_eq!(none.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_those_of_the_rows_as_arrays() {
    let executor = Executor::new().await;
    let batches = rows(0, 2000);
    let reported = write(&engine(), &executor, 0, std::slice::from_ref(&batches), false).await;
    let bytes: u64 = reported.iter().map(|partition| partition.num_bytes).sum();
    // Eight bytes of the key, an offset and about twelve of the text.
    assert!((2000 * 20..2000 * 30).contains(&bytes), "{bytes}");
    assert_eq!(reported.iter().map(|partition| partition.num_rows).sum::<u64>(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_replaces_what_an_earlier_one_left() {
    let executor = Executor::new().await;
    let earlier = write(&engine(), &executor, 0, &[rows(0, 100)], false).await;
    // Another process: its engine knows nothing of the first.
    let later = write(&engine(), &executor, 0, &[rows(500, 200)], false).await;
    assert_eq!(earlier.iter().map(|partition| partition.num_rows).sum::<u64>(), 100);
    let locations = executor.locations(&later);
    let context = context(session(false), None);
    let found = read_all(&engine(), &executor, &reading(&locations), &context).await;
    assert_eq!(lines(&found), lines(&rows(500, 200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_gets_a_set_of_metrics_per_node_and_the_nulls_of_columns() {
    let executor = Executor::new().await;
    let (expected, locations) = written(&executor).await;
    let next = stage(&engine(), &executor, 7, writing_of(reading(&locations)));
    next.execute_query_stage(7, context(session(true), None)).await.unwrap();
    let metrics = next.collect_plan_metrics();
    assert_eq!(metrics.len(), 2);
    let rows: usize = expected.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(metrics[0].sum_by_name("input_rows").unwrap().as_usize(), rows);
    assert_eq!(metrics[1].output_rows(), Some(rows));
    let nulls: Vec<u64> =
        next.collect_column_stats().iter().map(|column| column.null_count).collect();
    assert_eq!(nulls[0], 0);
    assert!(nulls[1] > 0);
    assert_eq!(by_partition(&locations).len(), PARTITIONS);
}

/// As after a clock was set back.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_of_a_later_time_is_replaced() {
    const TRAILER_BYTES: usize = 64;
    let executor = Executor::new().await;
    write(&engine(), &executor, 0, &[rows(0, 300)], false).await;
    let mut data = std::fs::read(executor.data(0)).unwrap();
    let start = data.len() - TRAILER_BYTES;
    let (trailer, crc) = data[start..].split_at_mut(TRAILER_BYTES - 4);
    trailer[24..32].copy_from_slice(&(u64::MAX - 5).to_le_bytes());
    crc.copy_from_slice(&crc32fast::hash(trailer).to_le_bytes());
    std::fs::write(executor.data(0), data).unwrap();
    let reported = write(&engine(), &executor, 0, &[rows(500, 70)], false).await;
    let plan = reading(&executor.locations(&reported));
    let found = read_all(&engine(), &executor, &plan, &context(session(false), None)).await;
    assert_eq!(lines(&found), lines(&rows(500, 70)));
}
