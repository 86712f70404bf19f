//! Shuffle writers and readers keep what they do through protobuf.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_ifile::map_output::{
    IndexLayout, LocalOutput, MapOutputOptions, OutputName, ShuffleRead,
};
use datafusion_ifile::map_status::{Location, MapStatus};
use datafusion_ifile::{
    Codec, IFileOptions, IFilePhysicalCodec, IFileShuffleReaderExec, IFileShuffleWriterExec,
    ShuffleWrite,
};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};

use super::support::{ample, hash, multisets, numbered, sorted_memory_plan};

fn to_bytes(plan: &Arc<dyn ExecutionPlan>) -> Vec<u8> {
    let codec = IFilePhysicalCodec::default();
    physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &codec).unwrap().to_vec()
}

fn from_bytes(bytes: &[u8]) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
    let codec = IFilePhysicalCodec::default();
    let context = SessionContext::new().task_ctx();
    physical_plan_from_bytes_with_extension_codec(bytes, &context, &codec)
}

fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

fn input() -> (Vec<RecordBatch>, Arc<dyn ExecutionPlan>) {
    let batches: Vec<RecordBatch> = (0..6).map(|at| numbered(at * 100, 100)).collect();
    let plan = sorted_memory_plan(std::slice::from_ref(&batches), &batches[0].schema());
    (batches, plan)
}

#[tokio::test]
async fn writers_and_readers_give_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (batches, input) = input();
    let order = input.properties().output_ordering().cloned().unwrap();
    let write = ShuffleWrite {
        directory: directory.path().to_owned(),
        name: OutputName { shuffle: 7, map_id: u64::MAX },
        attempt: 3,
        epoch: 9,
        location: Location { executor: "e".into(), host: "h".into(), port: 77, path: "".into() },
        output: MapOutputOptions {
            layout: IndexLayout::Ballista,
            fsync: true,
            staged_bytes: 12_345,
            join_small_blocks: true,
        },
    };
    let options = IFileOptions { codec: Codec::Snappy, ..IFileOptions::default() };
    let writer =
        IFileShuffleWriterExec::try_new(Arc::clone(&input), hash(&input, "k", 4), write, options);
    let writer: Arc<dyn ExecutionPlan> = Arc::new(writer.unwrap());
    let decoded = from_bytes(&to_bytes(&writer)).unwrap();
    assert_eq!(text(&decoded), text(&writer));
    let (before, after) = (
        writer.downcast_ref::<IFileShuffleWriterExec>().unwrap(),
        decoded.downcast_ref::<IFileShuffleWriterExec>().unwrap(),
    );
    let shown = |exec: &IFileShuffleWriterExec| format!("{:?}", exec.shuffle_write());
    assert_eq!(shown(after), shown(before));
    assert_eq!(after.options(), before.options());
    assert_eq!(after.partitioning(), before.partitioning());

    let summary = collect(decoded, ample(128)).await.unwrap();
    let status = summary[0].column_by_name("status").unwrap().as_binary::<i32>().value(0);
    let status = MapStatus::decode(status).unwrap();
    assert_eq!((status.location.port, status.attempt, status.epoch), (77, 3, 9));
    let data = std::path::Path::new(&*status.location.path);
    let source =
        LocalOutput::new(u64::MAX, data, data.with_extension("index"), IndexLayout::Ballista);
    let source: Arc<dyn datafusion_ifile::map_output::SegmentSource> = Arc::new(source);
    let read = |partition: u32| {
        let read = ShuffleRead::new(Arc::clone(&source), partition..partition + 1);
        let read = read.with_attempt_id(status.attempt_id);
        vec![if partition == 2 { read.with_segments(0..1) } else { read }]
    };
    let reader = || {
        IFileShuffleReaderExec::try_new(
            input.schema(),
            status.placement,
            Partitioning::UnknownPartitioning(4),
            (0..4).map(read).collect(),
            IFileOptions { read_ahead_bytes: 1 << 16, ..IFileOptions::default() },
        )
        .unwrap()
    };
    for order in [None, Some(order)] {
        let reader = reader();
        let reader = match order {
            Some(order) => reader.with_order(order),
            None => reader,
        };
        let reader: Arc<dyn ExecutionPlan> = Arc::new(reader);
        let bytes = to_bytes(&reader);
        let decoded = from_bytes(&bytes).unwrap();
        assert_eq!(text(&decoded), text(&reader));
        let after = decoded.downcast_ref::<IFileShuffleReaderExec>().unwrap();
        let before = reader.downcast_ref::<IFileShuffleReaderExec>().unwrap();
        assert_eq!(format!("{:?}", after.reads()), format!("{:?}", before.reads()));
        assert_eq!(after.options(), before.options());
        assert_eq!((after.placement(), after.order()), (before.placement(), before.order()));
        let mut rows = vec![];
        for partition in 0..4 {
            let stream = decoded.execute(partition, ample(128)).unwrap();
            rows.extend(datafusion::physical_plan::common::collect(stream).await.unwrap());
        }
        assert!(multisets(&[rows]) == multisets(std::slice::from_ref(&batches)), "other rows");
        for len in 0..bytes.len() {
            assert!(from_bytes(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
    }
}
