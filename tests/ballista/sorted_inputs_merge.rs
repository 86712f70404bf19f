use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

use crate::support::{
    Executor, PARTITIONS, context, engine, failed_fetch, keys, merging, read, released, rows,
    session, write,
};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_several_sorted_inputs_per_task_are_in_order() {
    let executor = Executor::new().await;
    let engine = engine();
    let mut locations = Vec::new();
    // The inputs overlap, so that their rows one after another would not be in order.
    for task in 0..2 {
        let inputs = [rows(task * 10, 900), rows(300, 700), rows(-50, 120)];
        let reported = write(&engine, &executor, task as usize, &inputs, true).await;
        locations.extend(executor.locations(&reported));
    }
    for force_remote in [false, true] {
        let context = context(session(force_remote), None);
        let mut all = Vec::new();
        for partition in 0..PARTITIONS {
            let plan = merging(&locations);
            let batches = read(&engine, &executor, &plan, partition, context.clone()).await;
            let keys = keys(&batches.unwrap());
            assert!(keys.is_sorted(), "partition {partition}, remote {force_remote}: {keys:?}");
            all.extend(keys);
        }
        assert_eq!(all.len(), 2 * (900 + 700 + 120));
        released(&context).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_in_pieces_of_little_memory_is_in_order() {
    let executor = Executor::new().await;
    let engine = engine();
    let inputs: Vec<_> = (0..6).map(|input| rows(input * 3, 20_000)).collect();
    let reported = write(&engine, &executor, 0, &inputs, true).await;
    let locations = executor.locations(&reported);
    let mut config = session(true);
    config.options_mut().set("ballista.shuffle.reader.max_bytes_in_flight", "20000").unwrap();
    let context = context(config, Some(16 << 20));
    let plan = merging(&locations);
    let batches = read(&engine, &executor, &plan, 2, context).await.unwrap();
    let rows: u64 = reported.iter().filter(|p| p.partition_id == 2).map(|p| p.num_rows).sum();
    let keys = keys(&batches);
    assert!(keys.is_sorted());
    assert_eq!(keys.len() as u64, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_output_of_a_merge_is_a_failed_fetch() {
    let executor = Executor::new().await;
    let engine = engine();
    let reported = write(&engine, &executor, 0, &[rows(0, 900), rows(5, 900)], true).await;
    let plan = merging(&executor.locations(&reported));
    std::fs::remove_file(executor.data(0)).unwrap();
    for force_remote in [false, true] {
        let context = context(session(force_remote), None);
        let error = read(&engine, &executor, &plan, 0, context).await.unwrap_err();
        assert_eq!(failed_fetch(error).0, "executor-a");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_of_unknown_order_are_not_merged() {
    let executor = Executor::new().await;
    let engine = engine();
    let reported = write(&engine, &executor, 0, &[rows(0, 900)], false).await;
    let plan = merging(&executor.locations(&reported));
    let context = context(session(false), None);
    let error = read(&engine, &executor, &plan, 0, context).await.unwrap_err().to_string();
    assert!(error.contains("knew of no order"), "{error}");
}

/// A pool that remembers who asked.
#[derive(Debug, Default)]
struct Asked {
    inner: UnboundedMemoryPool,
    names: Mutex<Vec<String>>,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Asked {
    fn name(&self) -> &'static str {
        "Asked"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.names.lock().unwrap().push(consumer.name().to_owned());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_merge_is_asked_for_by_the_node_that_merges() {
    let executor = Executor::new().await;
    let reported = write(&engine(), &executor, 0, &[rows(0, 900), rows(5, 900)], true).await;
    let pool = Arc::new(Asked::default());
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as _);
    let context = TaskContext::default().with_session_config(session(false));
    let context = Arc::new(context.with_runtime(runtime.build_arc().unwrap()));
    let plan = merging(&executor.locations(&reported));
    read(&engine(), &executor, &plan, 0, context).await.unwrap();
    let names = pool.names.lock().unwrap().clone();
    assert!(names.contains(&"IFileFetchExec[Merge]".to_owned()), "{names:?}");
}
