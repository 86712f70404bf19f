use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion_ifile::map_output::{
    IndexLayout, LocalOutput, OpenSegments, SegmentSource, ShuffleRead,
};
use datafusion_ifile::map_status::MapStatus;
use futures::{StreamExt, TryStreamExt};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn readers_with_an_order_merge_segments() {
    let directory = tempfile::tempdir().unwrap();
    for (map, pool) in [None, Some(2 << 20)].into_iter().enumerate() {
        let runtime = pool.map_or_else(|| Arc::new(RuntimeEnv::default()), limited);
        let writing = context(&runtime, 1000);
        let write_to = write_to(directory.path(), map as u64, IndexLayout::IFile);
        let written = write(sorted_input(400_000, 3, 700), hash(6), write_to, &writing).await;
        assert!(written.status.sorted);
        assert_eq!(written.number("spills") > 0, pool.is_some());
        let reading = context(&Arc::new(RuntimeEnv::default()), 1000);
        let status = &written.status;
        let reader = reader(status, reads(std::slice::from_ref(status))).with_order(order());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(reader);
        let parts = collect_partitioned(plan, Arc::clone(&reading)).await.unwrap();
        assert_all_rows(&parts, 400_000);
        for part in &parts {
            assert!(numbers(part).is_sorted());
        }
    }
}

/// An output that is replaced once it has been opened.
#[derive(Debug)]
struct Replaced {
    opened: AtomicUsize,
    outputs: [LocalOutput; 2],
}

impl SegmentSource for Replaced {
    fn map_id(&self) -> u64 {
        self.outputs[0].map_id()
    }

    fn name(&self) -> Arc<str> {
        self.outputs[0].name()
    }

    fn layout(&self) -> IndexLayout {
        self.outputs[0].layout()
    }

    fn open(&self) -> datafusion_ifile::Result<Box<dyn OpenSegments>> {
        let opened = self.opened.fetch_add(1, Ordering::Relaxed);
        self.outputs[opened.min(1)].open()
    }
}

async fn merged(status: &MapStatus, read: ShuffleRead) -> Result<usize, String> {
    let context = context(&Arc::new(RuntimeEnv::default()), 1000);
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(reader(status, vec![vec![read]]).with_order(order()));
    let parts = collect_partitioned(plan, context).await;
    match parts {
        Ok(parts) => Ok(parts.iter().flatten().map(arrow::array::RecordBatch::num_rows).sum()),
        Err(error) => Err(lost(&error).cause.to_string()),
    }
}

/// Positions of segments are those of the attempt whose index was read.
#[tokio::test(flavor = "multi_thread")]
async fn segments_of_two_attempts_are_not_mixed() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let context = context(&Arc::new(RuntimeEnv::default()), 1000);
    let mut statuses = vec![];
    for (directory, inputs) in directories.iter().zip([3, 1]) {
        let write_to = write_to(directory.path(), 0, IndexLayout::IFile);
        let input = sorted_input(9000, inputs, 700);
        statuses.push(write(input, hash(1), write_to, &context).await.status);
    }
    let outputs = [source(&statuses[0]), source(&statuses[1])];
    let replaced = Replaced { opened: AtomicUsize::new(0), outputs };
    let read = ShuffleRead::new(Arc::new(replaced), 0..1);
    assert!(read.attempt_id.is_none());
    let error = merged(&statuses[0], read).await.unwrap_err();
    assert!(error.contains("attempt id of the output"), "{error}");
    for status in &statuses {
        let read = ShuffleRead::new(Arc::new(source(status)), 0..1);
        assert_eq!(merged(status, read).await, Ok(9000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_do_not_fit_are_refused_before_a_merge() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 1000);
    let to = |map| write_to(directory.path(), map, IndexLayout::IFile);
    let sorted = write(sorted_input(0, 2, 700), hash(5), to(0), &context).await.status;
    let unsorted = write(input(9000, 2, 700), hash(5), to(1), &context).await.status;
    // Without rows there is no segment that would be checked later.
    let read = |status: &MapStatus| ShuffleRead::new(Arc::new(source(status)), 0..1);
    assert_eq!(merged(&sorted, read(&sorted)).await, Ok(0));
    let other = read(&sorted).with_attempt_id(unsorted.attempt_id);
    let error = merged(&sorted, other).await.unwrap_err();
    assert!(error.contains("attempt id of the output"), "{error}");
    let error = merged(&unsorted, read(&unsorted)).await.unwrap_err();
    assert!(error.contains("sorted"), "{error}");
}

/// Descriptors of this process for the file at `path`.
fn descriptors(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target == path).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_of_an_output_share_its_files() {
    const INPUTS: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 1000);
    let write_to = write_to(directory.path(), 0, IndexLayout::IFile);
    let written = write(sorted_input(1_200_000, INPUTS, 1000), hash(1), write_to, &context).await;
    let status = &written.status;
    assert_eq!(status.columns.segments, Some(vec![INPUTS as u32]));
    let reader = reader(status, reads(std::slice::from_ref(status))).with_order(order());
    let mut stream = reader.execute(0, context).unwrap();
    // All segments are read once the first row is known.
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(numbers(std::slice::from_ref(&first))[0], 0);
    let output = source(status);
    let open = [output.data(), output.index()].map(descriptors);
    assert!(open.iter().all(|count| (1..=2).contains(count)), "{open:?}");
    let rest: Vec<_> = stream.try_collect().await.unwrap();
    assert_all_rows(&[vec![first], rest], 1_200_000);
}
