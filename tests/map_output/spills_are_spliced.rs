use datafusion::physical_expr::Partitioning;
use datafusion_ifile::map_output::{
    IndexLayout, MapOutputOptions, ReadCounters, SegmentBatches, ShuffleRead,
};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_small_pool_gives_the_same_rows_in_several_segments() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = limited(3 << 20);
    let context = context(&runtime, 1000);
    for (map, parts) in [1, 3].into_iter().enumerate() {
        let write_to = write_to(directory.path(), map as u64, IndexLayout::IFile);
        let written = write(input(400_000, parts, 2000), hash(40), write_to, &context).await;
        assert!(written.number("spills") > 1, "{} spills", written.number("spills"));
        assert!(written.number("segments") > 40);
        let status = &written.status;
        let parts = read(status, reads(std::slice::from_ref(status)), &context).await.unwrap();
        assert_all_rows(&parts, 400_000);
        assert_eq!(runtime.memory_pool.reserved(), 0);
        assert_eq!(runtime.disk_manager.used_disk_space(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_blocks_are_joined_where_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&limited(3 << 20), 1000);
    let mut counts: Vec<usize> = vec![];
    for join_small_blocks in [false, true] {
        let mut write_to =
            write_to(directory.path(), u64::from(join_small_blocks), IndexLayout::Tez);
        write_to.output = MapOutputOptions { join_small_blocks, ..write_to.output };
        if !join_small_blocks {
            write_to.output.layout = IndexLayout::IFile;
        }
        let written = write(input(300_000, 1, 2000), hash(40), write_to, &context).await;
        assert!(written.number("spills") > 0);
        assert_eq!(written.number("segments") == 40, join_small_blocks);
        let status = &written.status;
        let parts = read(status, reads(std::slice::from_ref(status)), &context).await.unwrap();
        assert_all_rows(&parts, 300_000);
        let all = vec![ShuffleRead::new(as_source(source(status)), 0..40)];
        let counters = ReadCounters::default();
        let mut blocks =
            SegmentBatches::try_new(schema(), status.placement, all, 4096, counters).unwrap();
        counts.push(0);
        while blocks.next_batch().unwrap().is_some() {
            *counts.last_mut().unwrap() += 1;
        }
    }
    assert!(counts[1] < counts[0], "{counts:?} blocks");
}

#[tokio::test(flavor = "multi_thread")]
async fn tez_is_refused_where_a_partition_has_several_segments() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&limited(3 << 20), 1000);
    let write_to = write_to(directory.path(), 0, IndexLayout::Tez);
    let refused = try_write(input(300_000, 1, 2000), hash(40), write_to, &context).await;
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("tez") && message.contains("segments"), "{message}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skewed_input_goes_through() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = limited(4 << 20);
    let context = context(&runtime, 1000);
    let write_to = write_to(directory.path(), 0, IndexLayout::IFile);
    let one = Partitioning::Hash(vec![datafusion::physical_expr::expressions::lit(1)], 16);
    let written = write(input(300_000, 2, 2000), one, write_to, &context).await;
    let filled = written.status.sizes.to_vec().iter().filter(|size| **size > 0).count();
    assert_eq!(filled, 1);
    let reads = reads(std::slice::from_ref(&written.status));
    assert_all_rows(&read(&written.status, reads, &context).await.unwrap(), 300_000);
    assert_eq!(runtime.memory_pool.reserved(), 0);
}
