use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::map_output::{IndexLayout, ShuffleRead};
use datafusion_ifile::map_status::{coalesce, split};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn maps_segments_and_groups_of_partitions_cover_every_row_once() {
    let directory = tempfile::tempdir().unwrap();
    let writing = context(&limited(3 << 20), 1000);
    let write_to = write_to(directory.path(), 0, IndexLayout::IFile);
    let status = write(input(300_000, 1, 2000), hash(5), write_to, &writing).await.status;
    let reading = context(&Arc::new(RuntimeEnv::default()), 1000);
    let output = as_source(source(&status));
    let segments = status.columns.segments.as_ref().unwrap();
    let shared: Vec<Vec<ShuffleRead>> = (0..5)
        .flat_map(|partition: u32| {
            let count = segments[partition as usize] as usize;
            let read = |range| {
                ShuffleRead::new(Arc::clone(&output), partition..partition + 1).with_segments(range)
            };
            [vec![read(0..1)], vec![read(1..count)]]
        })
        .collect();
    assert_all_rows(&read(&status, shared, &reading).await.unwrap(), 300_000);
    let groups = coalesce(&status.sizes.to_vec(), status.sizes.total() / 3);
    let grouped = groups.iter().map(|group| {
        let partitions = group.start as u32..group.end as u32;
        vec![ShuffleRead::new(Arc::clone(&output), partitions)]
    });
    let parts = read(&status, grouped.collect(), &reading).await.unwrap();
    assert!((3..=5).contains(&parts.len()));
    assert_all_rows(&parts, 300_000);
    let sizes: Vec<u64> = vec![10, 10, 10, 100, 1, 9];
    let ranges = split(&sizes, 30);
    let maps: Vec<_> = ranges.iter().map(|range| range.maps.clone()).collect();
    assert_eq!(maps, [0..3, 3..4, 4..6]);
}
