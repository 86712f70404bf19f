use crate::support::{
    Executor, context, engine, lines, read_all, reading, rows, session, stage, writing,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_in_little_memory_spills_and_writes_the_same_rows() {
    let executor = Executor::new().await;
    let inputs: Vec<_> = (0..3).map(|input| rows(input * 1_000_000, 150_000)).collect();
    for sorted in [false, true] {
        let stage = stage(&engine(), &executor, 0, writing(&inputs, sorted));
        let context = context(session(false), Some(3 << 20));
        let reported = stage.execute_query_stage(0, context.clone()).await.unwrap();
        let metrics = stage.collect_plan_metrics();
        assert!(metrics[0].spill_count().unwrap() > 0);
        assert_eq!(context.memory_pool().reserved(), 0);
        let disk = &context.runtime_env().disk_manager;
        assert_eq!(disk.used_disk_space(), 0);
        let locations = executor.locations(&reported);
        for force_remote in [false, true] {
            let context = crate::support::context(session(force_remote), Some(3 << 20));
            let found = read_all(&engine(), &executor, &reading(&locations), &context).await;
            let expected: Vec<_> = inputs.iter().flatten().cloned().collect();
            assert_eq!(lines(&found), lines(&expected));
        }
    }
}
