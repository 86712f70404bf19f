use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int8Type};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_ifile::map_output::IndexLayout;
use datafusion_ifile::{IFileOptions, IFileShuffleReaderExec};

use crate::support::*;

/// Rows `from..to`: their number, and that number as text in a dictionary whose keys count to 127.
fn keyed(from: i64, to: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let values = StringArray::from_iter_values((from..to).map(|n| n.to_string()));
    let keys = Int8Array::from_iter_values((0..to - from).map(|n| n as i8));
    let texts = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
    RecordBatch::try_from_iter([("n", numbers), ("t", Arc::new(texts) as ArrayRef)]).unwrap()
}

fn assert_rows(batches: &[RecordBatch], total: i64) {
    let mut seen = numbers(batches);
    for batch in batches {
        let texts = cast(batch.column(1), &DataType::Utf8).unwrap();
        let expected = numbers(std::slice::from_ref(batch)).into_iter().map(|n| n.to_string());
        let expected: ArrayRef = Arc::new(StringArray::from_iter_values(expected));
        assert_eq!(&texts, &expected);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..total).collect::<Vec<_>>());
}

/// Blocks of 100 values each: no two fit one array. The reader, and the writer where it joins blocks, make smaller ones.
#[tokio::test(flavor = "multi_thread")]
async fn batches_and_blocks_are_smaller_where_they_have_to_be() {
    let directory = tempfile::tempdir().unwrap();
    for (map, join_small_blocks) in [false, true].into_iter().enumerate() {
        let writing = context(&limited(2 << 20), 4096);
        let batches: Vec<RecordBatch> =
            (0..3000).map(|at| keyed(at * 100, at * 100 + 100)).collect();
        let schema = batches[0].schema();
        let input =
            MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap();
        let mut write_to = write_to(directory.path(), map as u64, IndexLayout::IFile);
        write_to.output.join_small_blocks = join_small_blocks;
        let written = write(input, Partitioning::RoundRobinBatch(1), write_to, &writing).await;
        assert!(written.number("spills") > 0, "{} spills", written.number("spills"));
        let status = &written.status;
        let reader = IFileShuffleReaderExec::try_new(
            Arc::clone(&schema),
            status.placement,
            Partitioning::UnknownPartitioning(1),
            reads(std::slice::from_ref(status)),
            IFileOptions::default(),
        );
        let reader: Arc<dyn ExecutionPlan> = Arc::new(reader.unwrap());
        let reading = context(&Arc::new(RuntimeEnv::default()), 4096);
        let batches = collect(reader, reading).await.unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() <= 128));
        assert_rows(&batches, 300_000);
    }
}
