//! Bytes that are not a whole node of ours are an error and never a panic.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::SessionContext;
use datafusion_ifile::{IFileOptions, IFilePhysicalCodec, IFileRepartitionExec};
use datafusion_proto::physical_plan::{DefaultPhysicalProtoConverter, PhysicalExtensionCodec};

use super::support::{exchange, hash, memory_plan, numbered, range};

fn input() -> Arc<dyn ExecutionPlan> {
    memory_plan(&[vec![numbered(0, 10)]], &numbered(0, 0).schema())
}

fn encoded(plan: &Arc<dyn ExecutionPlan>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let codec = IFilePhysicalCodec::default();
    codec.try_encode(Arc::clone(plan), &mut bytes, &DefaultPhysicalProtoConverter {}).unwrap();
    bytes
}

fn decoded(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
    let context = SessionContext::new().task_ctx();
    let converter = DefaultPhysicalProtoConverter {};
    IFilePhysicalCodec::default().try_decode(bytes, inputs, &context, &converter)
}

fn plans() -> Vec<Arc<dyn ExecutionPlan>> {
    let partitionings = [
        hash(&input(), "k", 4),
        Partitioning::RoundRobinBatch(3),
        range(&input(), "k", SortOptions::default(), &[3, 7]),
    ];
    let plan = |partitioning| exchange(input(), partitioning, IFileOptions::default());
    partitionings.into_iter().map(plan).collect()
}

#[test]
fn whole_buffers_decode() {
    for plan in plans() {
        let decoded = decoded(&encoded(&plan), &[input()]).unwrap();
        let decoded = decoded.downcast_ref::<IFileRepartitionExec>().unwrap();
        let plan = plan.downcast_ref::<IFileRepartitionExec>().unwrap();
        assert_eq!(decoded.partitioning(), plan.partitioning());
        assert_eq!(decoded.options(), plan.options());
    }
}

/// A cut at any byte is an error.
#[test]
fn truncated_buffers() {
    for plan in plans() {
        let bytes = encoded(&plan);
        for len in 0..bytes.len() {
            let cut = decoded(&bytes[..len], &[input()]);
            assert!(cut.is_err(), "{len} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn longer_buffers() {
    for plan in plans() {
        let mut bytes = encoded(&plan);
        bytes.push(0xff);
        assert!(decoded(&bytes, &[input()]).is_err());
    }
}

#[test]
fn changed_bytes_never_panic() {
    for plan in plans() {
        let bytes = encoded(&plan);
        for place in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[place] ^= change;
                drop(decoded(&changed, &[input()]));
            }
        }
    }
}

#[test]
fn foreign_buffers() {
    for bytes in [&b""[..], b"IFR", b"IFR\x02", b"someone else's node", &[0xff; 64]] {
        assert!(decoded(bytes, &[input()]).is_err());
    }
}

#[test]
fn nodes_have_one_input() {
    let plan = exchange(input(), Partitioning::RoundRobinBatch(3), IFileOptions::default());
    let bytes = encoded(&plan);
    assert!(decoded(&bytes, &[]).is_err());
    assert!(decoded(&bytes, &[input(), input()]).is_err());
}

#[test]
fn other_nodes_go_to_the_inner_codec() {
    let other: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(numbered(0, 0).schema()));
    let codec = IFilePhysicalCodec::default();
    let converter = DefaultPhysicalProtoConverter {};
    assert!(codec.try_encode(other, &mut Vec::new(), &converter).is_err());
}
