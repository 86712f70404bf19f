use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use datafusion::common::{ScalarValue, SplitPoint};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::{Partitioning, RangePartitioning};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, collect, collect_partitioned};
use datafusion_ifile::map_output::{
    FetchedOutput, IndexLayout, ReadCounters, SegmentBatches, SegmentSource, ShuffleRead,
};
use datafusion_ifile::{IFileOptions, IFileShuffleWriterExec};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_layout_and_source_gives_every_row_where_the_stock_node_puts_it() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    for (map, layout) in
        [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista].into_iter().enumerate()
    {
        let (total, parts) = (20_000, 1 + map);
        let write_to = write_to(directory.path(), map as u64, layout);
        let written = write(input(total, parts, 333), hash(70), write_to, &context).await;
        assert_eq!(written.number("rows"), total as u64);
        let status = &written.status;
        let parts = read(status, reads(std::slice::from_ref(status)), &context).await.unwrap();
        assert_all_rows(&parts, total);
        let stock = RepartitionExec::try_new(input(total, 1, 333), hash(70)).unwrap();
        let stock = collect_partitioned(Arc::new(stock), Arc::clone(&context)).await.unwrap();
        for (partition, (ours, stock)) in parts.iter().zip(&stock).enumerate() {
            let sorted = |batches: &[RecordBatch]| {
                let mut numbers = numbers(batches);
                numbers.sort_unstable();
                numbers
            };
            assert_eq!(sorted(ours), sorted(stock));
            let rows: usize = ours.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(status.columns.rows.as_ref().unwrap()[partition], rows as u64);
            assert_eq!(status.sizes.get(partition) == Some(0), rows == 0);
        }
        let [data, index] = ["data", "index"].map(|extension| {
            let path = std::path::Path::new(&*status.location.path).with_extension(extension);
            Buffer::from_vec(std::fs::read(path).unwrap())
        });
        let whole = FetchedOutput::try_new(map as u64, "memory", layout, index.clone(), vec![])
            .unwrap()
            .with_whole_data(data.clone());
        let whole: Arc<dyn SegmentSource> = Arc::new(whole);
        let all = vec![ShuffleRead::new(whole, 0..70)];
        assert_all_rows(&read(status, vec![all], &context).await.unwrap(), total);
        if layout != IndexLayout::Tez {
            let parts = vec![(0, data.slice(0))];
            let fetched =
                FetchedOutput::try_new(map as u64, "memory", layout, index, parts).unwrap();
            let reads = vec![vec![ShuffleRead::new(Arc::new(fetched), 3..9)]];
            let some = read(status, reads, &context).await.unwrap();
            let expected: u64 = status.columns.rows.as_ref().unwrap()[3..9].iter().sum();
            assert_eq!(numbers(&some[0]).len() as u64, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn round_robin_places_rows_by_ordinal_and_ranges_by_split_points() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 64);
    let mut outputs = vec![];
    for (map, step) in [17, 400].into_iter().enumerate() {
        let write_to = write_to(directory.path(), map as u64, IndexLayout::IFile);
        let round_robin = Partitioning::RoundRobinBatch(7);
        let written = write(input(1000, 1, step), round_robin, write_to, &context).await;
        let parts = read(&written.status, reads(std::slice::from_ref(&written.status)), &context)
            .await
            .unwrap();
        let parts: Vec<Vec<i64>> = parts.iter().map(|part| numbers(part)).collect();
        for (partition, part) in parts.iter().enumerate() {
            assert!(part.iter().all(|n| *n as usize % 7 == partition));
        }
        outputs.push(parts);
    }
    assert_eq!(outputs[0], outputs[1]);
    let points = [250, 600].map(|p| SplitPoint::new(vec![ScalarValue::Int64(Some(p))]));
    let range = RangePartitioning::try_new(order(), points.to_vec()).unwrap();
    let write_to = write_to(directory.path(), 9, IndexLayout::IFile);
    let written = write(input(1000, 1, 50), Partitioning::Range(range), write_to, &context).await;
    let parts = read(&written.status, reads(std::slice::from_ref(&written.status)), &context)
        .await
        .unwrap();
    assert_eq!(numbers(&parts[1]), (250..600).collect::<Vec<_>>());
    assert_all_rows(&parts, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_columns_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 8192);
    let empty = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(8192));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&empty), vec![], &options).unwrap();
    let input =
        MemorySourceConfig::try_new_exec(&[vec![batch; 3]], Arc::clone(&empty), None).unwrap();
    let write_to = write_to(directory.path(), 0, IndexLayout::IFile);
    let written = write(input, Partitioning::RoundRobinBatch(8), write_to, &context).await;
    let status = &written.status;
    let reads = reads(std::slice::from_ref(status));
    let reader = datafusion_ifile::IFileShuffleReaderExec::try_new(
        empty,
        status.placement,
        Partitioning::UnknownPartitioning(8),
        reads,
        datafusion_ifile::IFileOptions::default(),
    );
    let reader: Arc<dyn ExecutionPlan> = Arc::new(reader.unwrap());
    let parts = collect_partitioned(reader, context).await.unwrap();
    let rows: usize = parts.iter().flatten().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 24_576);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_without_rows_is_an_output_without_segments() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    for (map, layout) in
        [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista].into_iter().enumerate()
    {
        let write_to = write_to(directory.path(), map as u64, layout);
        let written = write(input(0, 2, 10), hash(5), write_to, &context).await;
        assert_eq!((written.number("data_bytes"), written.number("segments")), (0, 0));
        let parts = read(&written.status, reads(std::slice::from_ref(&written.status)), &context)
            .await
            .unwrap();
        assert_all_rows(&parts, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_of_a_useful_size_and_within_the_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let wide = context(&Arc::new(RuntimeEnv::default()), 512);
    let mut statuses = vec![];
    for map in 0..20 {
        let write_to = write_to(directory.path(), map, IndexLayout::IFile);
        statuses.push(write(input(300, 1, 30), hash(3), write_to, &wide).await.status);
    }
    let narrow = context(&Arc::new(RuntimeEnv::default()), 64);
    for (context, size) in [(&wide, 512), (&narrow, 64)] {
        for part in read(&statuses[0], reads(&statuses), context).await.unwrap() {
            let rows: Vec<usize> = part.iter().map(RecordBatch::num_rows).collect();
            assert!(rows.iter().all(|rows| *rows <= size), "{rows:?}");
            let whole = &rows[..rows.len() - 1];
            assert!(
                whole.iter().filter(|rows| 2 * **rows < size).count() <= rows.len() / 2,
                "{rows:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fetched_parts_are_found_by_their_offsets_and_do_not_overlap() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let write_to = write_to(directory.path(), 0, IndexLayout::Ballista);
    let status = write(input(20_000, 1, 333), hash(70), write_to, &context).await.status;
    let [data, index] = ["data", "index"].map(|extension| {
        let path = std::path::Path::new(&*status.location.path).with_extension(extension);
        Buffer::from_vec(std::fs::read(path).unwrap())
    });
    let offset =
        |at: usize| u64::from_le_bytes(index[8 * at..8 * at + 8].try_into().unwrap()) as usize;
    let part = |from: usize, to: usize| {
        (offset(from) as u64, data.slice_with_length(offset(from), offset(to) - offset(from)))
    };
    let fetch = |parts: Vec<(u64, Buffer)>| {
        FetchedOutput::try_new(0, "memory", IndexLayout::Ballista, index.clone(), parts)
    };
    let parts = (0..70).filter(|at| at % 3 != 1).map(|at| part(at, at + 1)).collect();
    let fetched: Arc<dyn SegmentSource> = Arc::new(fetch(parts).unwrap());
    let of = |at: u32| vec![vec![ShuffleRead::new(Arc::clone(&fetched), at..at + 1)]];
    for at in [0, 2, 36, 69] {
        let rows = numbers(&read(&status, of(at), &context).await.unwrap()[0]).len() as u64;
        assert_eq!(rows, status.columns.rows.as_ref().unwrap()[at as usize]);
    }
    let error = read(&status, of(37), &context).await.unwrap_err();
    let place = &lost(&error).place;
    assert_eq!((place.partition, place.offset), (Some(37), offset(37) as u64), "{error}");
    for parts in [vec![part(3, 5), part(4, 6)], vec![part(4, 5), part(2, 3)]] {
        let (end, found) = (parts[0].0 + parts[0].1.len() as u64, parts[1].0);
        let error = fetch(parts).unwrap_err();
        let what = "offset of fetched bytes";
        let fault = datafusion_ifile::error::Fault::Invalid { what, expected: end, found };
        assert_eq!(error.fault(), Some(&fault));
        assert_eq!(error.place().unwrap().offset, found);
    }
}

/// A reader takes of the pool what it decodes before it does, and gives smaller batches where the pool is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_makes_batches_smaller() {
    let directory = tempfile::tempdir().unwrap();
    let wide = context(&Arc::new(RuntimeEnv::default()), 4096);
    let mut statuses = vec![];
    for map in 0..20 {
        let write_to = write_to(directory.path(), map, IndexLayout::IFile);
        statuses.push(write(input(300, 1, 30), hash(1), write_to, &wide).await.status);
    }
    let mut most_rows = vec![];
    for pool in [1 << 30, 32 << 10] {
        let runtime = limited(pool);
        let context = context(&runtime, 4096);
        let parts = read(&statuses[0], reads(&statuses), &context).await.unwrap();
        let mut seen = numbers(&parts[0]);
        seen.sort_unstable();
        assert_eq!(seen, (0..300).flat_map(|n| [n; 20]).collect::<Vec<_>>());
        most_rows.push(parts[0].iter().map(RecordBatch::num_rows).max().unwrap());
        assert_eq!(runtime.memory_pool.reserved(), 0);
    }
    assert!(most_rows[0] > 3000 && most_rows[1] <= 600, "{most_rows:?}");
}

/// A session may have batches of more rows than readers take in one block.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_have_no_more_rows_than_readers_take() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 4 << 20);
    let rows = 3 << 19;
    let flags: arrow::array::ArrayRef =
        Arc::new((0..rows).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>());
    let batch = RecordBatch::try_from_iter_with_nullable([("flag", flags, true)]).unwrap();
    let input = MemorySourceConfig::try_new_exec(&[vec![batch.clone()]], batch.schema(), None);
    let writer = IFileShuffleWriterExec::try_new(
        input.unwrap(),
        Partitioning::RoundRobinBatch(1),
        write_to(directory.path(), 0, IndexLayout::IFile),
        IFileOptions { block_bytes: 64 << 20, ..IFileOptions::default() },
    );
    let summary = collect(Arc::new(writer.unwrap()), Arc::clone(&context)).await.unwrap();
    let status = Written::of(&summary[0]).status;
    let read = ShuffleRead::new(Arc::new(source(&status)), 0..1);
    let mut batches = SegmentBatches::try_new(
        batch.schema(),
        status.placement,
        vec![read],
        1 << 20,
        ReadCounters::default(),
    )
    .unwrap();
    let mut found = Vec::new();
    while let Some(batch) = batches.next_batch().unwrap() {
        found.push(batch);
    }
    assert_eq!(arrow::compute::concat_batches(&batch.schema(), &found).unwrap(), batch);
}
