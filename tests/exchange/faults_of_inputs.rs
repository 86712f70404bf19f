//! An input that fails or panics: every output gets the error once, after rows that came before it,
//! and ends.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::StreamExt;
use futures::future::join_all;
use rstest::rstest;

use super::support::{
    Make, batches, context, exchange, feed, generated, greedy_runtime, hash, noise,
    nothing_left_soon, numbered, open_all, order_by, ordered_feed, silent, within,
};

const FAULT: &str = "the disk of the input is on fire";

fn good(number: usize) -> RecordBatch {
    noise(number as u64 * 1024, 1024, 2)
}

/// Fails after `batches` batches.
fn failing(count: usize) -> Make {
    batches((0..count).map(good).map(Ok).chain([Err(FAULT)]).collect())
}

/// Panics after `batches` batches.
fn panicking(count: usize) -> Make {
    generated(move |number| match number < count {
        true => Some(good(number)),
        false => panic!("{FAULT}"),
    })
}

fn endless() -> Make {
    generated(|number| Some(good(number)))
}

/// Reads to the end; returns the rows before the one error, and that error.
async fn rows_and_error(mut stream: SendableRecordBatchStream) -> (usize, DataFusionError) {
    let mut rows = 0;
    let mut error = None;
    while let Some(item) = stream.next().await {
        match item {
            Ok(batch) => {
                assert!(error.is_none(), "rows after the error");
                rows += batch.num_rows();
            }
            Err(again) => assert!(error.replace(again).is_none(), "two errors"),
        }
    }
    assert!(stream.next().await.is_none());
    (rows, error.expect("an error"))
}

async fn outcomes(
    streams: Vec<SendableRecordBatchStream>,
    together: bool,
) -> Vec<(usize, DataFusionError)> {
    if together {
        return within(30, join_all(streams.into_iter().map(rows_and_error))).await;
    }
    let mut outcomes = Vec::new();
    for stream in streams {
        outcomes.push(within(30, rows_and_error(stream)).await);
    }
    outcomes
}

#[rstest]
#[case::at_once(vec![failing(0)], false)]
#[case::after_batches(vec![failing(40)], false)]
#[case::beside_an_endless_input(vec![endless(), failing(200)], false)]
#[case::beside_an_input_that_never_answers(vec![silent(), failing(3)], false)]
#[case::two_fail(vec![failing(10), failing(10), failing(10)], false)]
#[case::a_panic_at_once(vec![panicking(0)], true)]
#[case::a_panic_after_batches(vec![panicking(40), endless()], true)]
#[case::a_panic_beside_an_input_that_never_answers(vec![silent(), panicking(3)], true)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_output_gets_it_once(
    #[case] inputs: Vec<Make>,
    #[case] panics: bool,
    #[values(1, 4)] outputs: usize,
    #[values(1 << 30, 1)] pool_bytes: usize,
    #[values(true, false)] together: bool,
) {
    let (input, watch) = feed(&good(0).schema(), inputs);
    let partitioning = hash(&input, "k", outputs);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let runtime = greedy_runtime(pool_bytes);
    let outcomes = outcomes(open_all(&plan, &context(&runtime, 512)), together).await;
    assert_eq!(outcomes.len(), outputs);
    for (_, error) in &outcomes {
        let message = error.to_string();
        assert!(message.contains(FAULT), "{message}");
        if panics {
            assert!(message.contains("panicked"), "{message}");
        } else {
            assert!(matches!(error.find_root(), DataFusionError::Execution(_)), "{error:?}");
        }
    }
    watch.all_dropped().await;
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_batches_before_it_arrive(#[values(1 << 30, 1)] pool_bytes: usize) {
    let (input, _) = feed(&good(0).schema(), vec![failing(100)]);
    let partitioning = hash(&input, "k", 1);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let runtime = greedy_runtime(pool_bytes);
    let outcomes = outcomes(open_all(&plan, &context(&runtime, 512)), true).await;
    assert_eq!(outcomes[0].0, 100 * 1024);
    nothing_left_soon(&runtime).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_passes_it_on(#[values(1 << 30, 256 << 10)] pool_bytes: usize) {
    let sorted = |count: i64, fault: bool| {
        let rows = (0..count).map(|batch| Ok(numbered(batch * 1000, 1000)));
        batches(rows.chain(fault.then_some(Err(FAULT))).collect())
    };
    let schema = numbered(0, 0).schema();
    let order = order_by("k", &schema, SortOptions::default());
    let (input, _) = ordered_feed(&schema, vec![sorted(30, false), sorted(20, true)], order);
    let partitioning = hash(&input, "k", 4);
    let node = IFileRepartitionExec::try_new(input, partitioning, IFileOptions::default()).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(node.with_preserve_order());
    let runtime = greedy_runtime(pool_bytes);
    let outcomes = outcomes(open_all(&plan, &context(&runtime, 512)), true).await;
    for (_, error) in &outcomes {
        assert!(error.to_string().contains(FAULT), "{error}");
    }
    drop(plan);
    nothing_left_soon(&runtime).await;
}

#[tokio::test]
async fn an_input_that_cannot_be_executed() -> Result<()> {
    use datafusion::physical_plan::empty::EmptyExec;
    // An exchange that is spent cannot be executed again, so neither can one over it.
    let inner = exchange(
        Arc::new(EmptyExec::new(good(0).schema())),
        datafusion::physical_expr::Partitioning::RoundRobinBatch(2),
        IFileOptions::default(),
    );
    let runtime = greedy_runtime(1 << 20);
    let context = context(&runtime, 512);
    drop(open_all(&inner, &context));
    let partitioning = hash(&inner, "k", 3);
    let outer = exchange(inner, partitioning, IFileOptions::default());
    for output in 0..3 {
        assert!(outer.execute(output, Arc::clone(&context)).is_err());
    }
    Ok(())
}
