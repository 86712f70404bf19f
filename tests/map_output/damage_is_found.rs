//! Bytes that are flipped or missing end in an error that names map task, partition and offset; never in other rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::map_output::{IndexLayout, ShuffleRead};
use datafusion_ifile::map_status::MapStatus;

use crate::support::*;

const MAP: u64 = 77;

async fn output(directory: &Path, layout: IndexLayout) -> (MapStatus, Arc<TaskContext>) {
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let write_to = write_to(directory, MAP, layout);
    (write(input(3000, 1, 333), hash(7), write_to, &context).await.status, context)
}

fn files(status: &MapStatus) -> [PathBuf; 2] {
    let data = PathBuf::from(&*status.location.path);
    let index = data.with_extension("index");
    [data, index]
}

/// Reads each partition. Rows that come are right; returns how many reads failed.
async fn check(status: &MapStatus, context: &Arc<TaskContext>, what: &str) -> usize {
    let mut failed = 0;
    for partition in 0..7 {
        let reads = ShuffleRead::new(Arc::new(source(status)), partition..partition + 1);
        match read(status, vec![vec![reads]], context).await {
            Ok(parts) => {
                let rows: u64 = parts.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
                let expected = status.columns.rows.as_ref().unwrap()[partition as usize];
                assert_eq!(rows, expected, "{what}, partition {partition}");
                for batch in parts.iter().flatten() {
                    for (row, n) in numbers(std::slice::from_ref(batch)).into_iter().enumerate() {
                        assert_eq!(batch.slice(row, 1), rows_of(n), "{what}");
                    }
                }
            }
            Err(error) => {
                failed += 1;
                let lost = lost(&error);
                assert_eq!(lost.map_id, MAP, "{what}: {error}");
                assert!(lost.place.file.is_some(), "{what}: {error}");
                assert_eq!(lost.place.partition, Some(partition), "{what}: {error}");
            }
        }
    }
    failed
}

fn rows_of(n: i64) -> arrow::array::RecordBatch {
    rows(n, n + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_97th_byte_flipped() {
    for layout in [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista] {
        let directory = tempfile::tempdir().unwrap();
        let (status, context) = output(directory.path(), layout).await;
        for file in files(&status) {
            let good = std::fs::read(&file).unwrap();
            let is_data = file.extension().unwrap() == "data";
            for at in (0..good.len()).step_by(97) {
                let mut bad = good.clone();
                bad[at] ^= 1 << (at % 8);
                std::fs::write(&file, &bad).unwrap();
                let what = format!("{layout}, byte {at} of {}", file.display());
                let failed = check(&status, &context, &what).await;
                // The offsets of Ballista are for Ballista, zeros fill up to 8.
                let unused = layout == IndexLayout::Ballista && !is_data;
                assert!(failed > 0 || unused, "{what} is not found");
            }
            std::fs::write(&file, &good).unwrap();
        }
        assert_eq!(check(&status, &context, "whole again").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_cut_anywhere() {
    for layout in [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista] {
        let directory = tempfile::tempdir().unwrap();
        let (status, context) = output(directory.path(), layout).await;
        for file in files(&status) {
            let good = std::fs::read(&file).unwrap();
            for len in (0..good.len()).step_by(good.len() / 40 + 1).chain([good.len() - 1]) {
                std::fs::write(&file, &good[..len]).unwrap();
                let what = format!("{layout}, {} cut to {len}", file.display());
                let failed = check(&status, &context, &what).await;
                let padding = layout == IndexLayout::Ballista && len + 8 > good.len();
                assert!(failed > 0 || padding, "{what} is not found");
            }
            std::fs::write(&file, &good).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_names_the_map_task() {
    let directory = tempfile::tempdir().unwrap();
    let (status, context) = output(directory.path(), IndexLayout::IFile).await;
    std::fs::remove_file(&files(&status)[0]).unwrap();
    let error = read(&status, reads(std::slice::from_ref(&status)), &context).await.unwrap_err();
    assert_eq!((lost(&error).map_id, lost(&error).place.partition), (MAP, Some(0)));
    assert!(error.to_string().contains("map task 77"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_schema_or_placement_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (status, context) = output(directory.path(), IndexLayout::IFile).await;
    let mut other = status.clone();
    other.placement.count = 8;
    let mut reads = reads(std::slice::from_ref(&status));
    let error = read(&other, reads.clone(), &context).await.unwrap_err();
    assert!(error.to_string().contains("partitions: expected 8, found 7"), "{error}");
    let wider = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
        "n",
        arrow::datatypes::DataType::Int64,
        false,
    )]);
    let reader = datafusion_ifile::IFileShuffleReaderExec::try_new(
        Arc::new(wider),
        status.placement,
        datafusion::physical_expr::Partitioning::UnknownPartitioning(1),
        vec![reads.swap_remove(0)],
        datafusion_ifile::IFileOptions::default(),
    );
    let plan = Arc::new(reader.unwrap());
    let error = datafusion::physical_plan::collect(plan, context).await.unwrap_err();
    assert!(lost(&error).cause.to_string().contains("fingerprint"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_two_attempts_are_no_pair() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for layout in [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista] {
        let (first, context) = output(directories[0].path(), layout).await;
        let (second, _) = output(directories[1].path(), layout).await;
        if layout != IndexLayout::Tez {
            std::fs::copy(&files(&second)[1], &files(&first)[1]).unwrap();
            let failed = check(&first, &context, "two attempts").await;
            assert_eq!(failed, 7, "{layout}");
        }
        for directory in &directories {
            store(directory.path())
                .remove(datafusion_ifile::map_output::OutputName { shuffle: 1, map_id: MAP })
                .unwrap();
        }
    }
}
