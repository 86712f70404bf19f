//! A plan keeps its exchanges, their options and its rows through protobuf. (Ballista 2090)

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion::prelude::SessionContext;
use datafusion_ifile::{Codec, IFileOptions, IFilePhysicalCodec, IFileRepartitionExec};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use rstest::rstest;

use super::support::{
    ample, drain, exchange, hash, keys, memory_plan, multisets, numbered, range, sorted_memory_plan,
};

fn lists() -> Vec<Vec<RecordBatch>> {
    let list = |input: i64| (0..6).map(|batch| numbered(batch * 200 + input, 100)).collect();
    (0..3).map(list).collect()
}

fn unsorted() -> Arc<dyn ExecutionPlan> {
    memory_plan(&lists(), &numbered(0, 0).schema())
}

fn sorted() -> Arc<dyn ExecutionPlan> {
    sorted_memory_plan(&lists(), &numbered(0, 0).schema())
}

fn round_trip(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let codec = IFilePhysicalCodec::default();
    let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &codec).unwrap();
    let context = SessionContext::new().task_ctx();
    physical_plan_from_bytes_with_extension_codec(&bytes, &context, &codec).unwrap()
}

fn ours(plan: &Arc<dyn ExecutionPlan>) -> &IFileRepartitionExec {
    plan.downcast_ref::<IFileRepartitionExec>().expect("an exchange")
}

/// The decoded plan looks like the first and gives the same rows.
async fn same_plan(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let decoded = round_trip(plan);
    let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    assert_eq!(text(&decoded), text(plan));
    assert_eq!(decoded.output_partitioning(), plan.output_partitioning());
    assert_eq!(decoded.output_ordering(), plan.output_ordering());
    let expected = multisets(&drain(plan, &ample(128)).await.unwrap());
    assert!(multisets(&drain(&decoded, &ample(128)).await.unwrap()) == expected, "other rows");
    decoded
}

#[rstest]
#[case(IFileOptions::default())]
#[case(IFileOptions { enabled: false, ..IFileOptions::default() })]
#[case(IFileOptions { codec: Codec::None, ..IFileOptions::default() })]
#[case(IFileOptions { codec: Codec::Snappy, ..IFileOptions::default() })]
#[case(IFileOptions { codec: Codec::Zstd { level: 9 }, ..IFileOptions::default() })]
#[case(IFileOptions { codec: Codec::Zstd { level: -3 }, ..IFileOptions::default() })]
#[case(IFileOptions { memory_share: 0.123_456_789, ..IFileOptions::default() })]
#[case(IFileOptions { memory_headroom: 0.0, ..IFileOptions::default() })]
#[case(IFileOptions { block_bytes: 64, ..IFileOptions::default() })]
#[case(IFileOptions { batch_bytes: 1 << 30, ..IFileOptions::default() })]
#[case(IFileOptions { read_ahead_bytes: 0, ..IFileOptions::default() })]
#[case(IFileOptions { narrow_outputs: 7, ..IFileOptions::default() })]
#[case(IFileOptions { scratch_dirs: "/a:1MB:2,/b,/c::1".parse().unwrap(), ..IFileOptions::default() })]
#[case(IFileOptions { scratch_limit: u64::MAX, ..IFileOptions::default() })]
#[case(IFileOptions { punch_holes: false, ..IFileOptions::default() })]
#[tokio::test]
async fn every_option(#[case] options: IFileOptions) {
    let input = unsorted();
    let partitioning = hash(&input, "k", 4);
    let plan = exchange(input, partitioning, options.clone());
    assert_eq!(ours(&round_trip(&plan)).options(), &options);
}

/// An option that is new shows up here: all of them differ from their defaults.
#[test]
fn all_options_together() {
    let options = IFileOptions {
        enabled: false,
        codec: Codec::Zstd { level: 2 },
        memory_share: 0.75,
        memory_headroom: 0.125,
        block_bytes: 1000,
        batch_bytes: 2000,
        read_ahead_bytes: 3000,
        narrow_outputs: 3,
        max_active_inputs: 5,
        join_filter_partitions: 6,
        scratch_dirs: "/scratch".parse().unwrap(),
        scratch_limit: 1,
        punch_holes: false,
    };
    let defaults = IFileOptions::default().to_pairs();
    for (pair, default) in options.to_pairs().iter().zip(&defaults) {
        assert_ne!(pair, default);
    }
    let input = unsorted();
    let partitioning = hash(&input, "k", 4);
    let plan = exchange(input, partitioning, options.clone());
    assert_eq!(ours(&round_trip(&plan)).options(), &options);
}

fn partitionings(input: &Arc<dyn ExecutionPlan>) -> Vec<Partitioning> {
    let schema = input.schema();
    let key = |name| col(name, &schema).unwrap();
    let seventh = binary(key("k"), Operator::Modulo, lit(7i64), &schema).unwrap();
    vec![
        hash(input, "k", 4),
        Partitioning::Hash(vec![seventh, key("s")], 3),
        Partitioning::Hash(vec![key("k")], 1),
        Partitioning::RoundRobinBatch(5),
        range(input, "k", SortOptions::default(), &[100, 500]),
        range(input, "k", SortOptions { descending: true, nulls_first: false }, &[500, 100]),
    ]
}

#[tokio::test]
async fn partitionings_of_all_kinds() {
    for partitioning in partitionings(&unsorted()) {
        let plan = exchange(unsorted(), partitioning, IFileOptions::default());
        let decoded = same_plan(&plan).await;
        assert!(!ours(&decoded).preserve_order());
    }
}

#[tokio::test]
async fn preserved_order() {
    for partitioning in partitionings(&sorted()) {
        let node =
            IFileRepartitionExec::try_new(sorted(), partitioning, IFileOptions::default()).unwrap();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(node.with_preserve_order());
        assert!(ours(&plan).preserve_order());
        let decoded = same_plan(&plan).await;
        assert!(ours(&decoded).preserve_order());
        let decoded = round_trip(&plan);
        for part in drain(&decoded, &ample(64)).await.unwrap() {
            assert!(keys(&part).is_sorted());
        }
    }
}

#[tokio::test]
async fn nested_exchanges() {
    let fine = IFileOptions { codec: Codec::Snappy, ..IFileOptions::default() };
    let coarse = IFileOptions { block_bytes: 4096, ..IFileOptions::default() };
    let inner = exchange(unsorted(), Partitioning::RoundRobinBatch(5), fine.clone());
    let partitioning = hash(&inner, "k", 3);
    let outer = exchange(inner, partitioning, coarse.clone());
    let decoded = same_plan(&outer).await;
    assert_eq!(ours(&decoded).options(), &coarse);
    assert_eq!(ours(decoded.children()[0]).options(), &fine);

    let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(decoded));
    let plan = plan.children()[0].to_owned();
    assert_eq!(ours(&round_trip(&plan)).options(), &coarse);
}

#[tokio::test]
async fn below_and_above_other_nodes() {
    let exchanged = exchange(unsorted(), Partitioning::RoundRobinBatch(5), IFileOptions::default());
    let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(exchanged));
    let decoded = round_trip(&plan);
    assert_eq!(decoded.name(), "CoalescePartitionsExec");
    assert_eq!(ours(decoded.children()[0]).options(), &IFileOptions::default());
    let expected = multisets(&drain(&plan, &ample(128)).await.unwrap());
    assert!(multisets(&drain(&decoded, &ample(128)).await.unwrap()) == expected, "other rows");
}
