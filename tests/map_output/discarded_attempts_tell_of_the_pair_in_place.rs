use std::path::Path;
use std::sync::Arc;

use arrow::array::Array;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::map_output::IndexLayout;
use datafusion_ifile::map_status::{StatusRegistry, StatusTable, TableScratch};
use datafusion_ifile::{Codec, IFileOptions, IFileShuffleWriterExec};

use crate::support::*;

/// An attempt whose output differs from those of others in all that an attempt may choose.
async fn attempt(directory: &Path, attempt: u32, epoch: u64, layout: IndexLayout) -> Written {
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let mut write_to = write_to(directory, 3, layout);
    (write_to.attempt, write_to.epoch) = (attempt, epoch);
    let codec = if attempt == 0 { Codec::Snappy } else { Codec::Zstd { level: 1 } };
    let options = IFileOptions { codec, ..IFileOptions::default() };
    let input = if attempt == 0 { sorted_input(2000, 2, 100) } else { input(2000, 2, 77) };
    let writer = IFileShuffleWriterExec::try_new(input, hash(9), write_to, options).unwrap();
    let summary = datafusion::physical_plan::collect(Arc::new(writer), context).await.unwrap();
    Written::of(&summary[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_summary_are_those_of_its_files() {
    for layout in [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista] {
        if layout == IndexLayout::Tez {
            // Two sorted inputs make two segments, which `tez` refuses.
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let first = attempt(directory.path(), 0, 8, layout).await;
        for other in [IndexLayout::IFile, IndexLayout::Ballista] {
            let second = attempt(directory.path(), 1, 7, other).await;
            assert!(first.committed() && !second.committed());
            let mut expected = first.status.clone();
            expected.columns.memory_bytes = None;
            assert_eq!(second.status, expected, "{layout}, then {other}");
            for column in ["attempt", "attempt_id", "rows", "data_bytes", "segments", "data_path"] {
                let of =
                    |written: &Written| written.summary.column_by_name(column).unwrap().clone();
                assert_eq!(&of(&first), &of(&second), "{column}");
            }
            for column in ["spills", "spilled_bytes"] {
                assert!(second.summary.column_by_name(column).unwrap().is_null(0));
            }
            let context = context(&Arc::new(RuntimeEnv::default()), 100);
            let reads = reads(std::slice::from_ref(&second.status));
            assert_all_rows(&read(&second.status, reads, &context).await.unwrap(), 2000);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tez_does_not_say_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let mut write_to = write_to(directory.path(), 3, IndexLayout::Tez);
    (write_to.attempt, write_to.epoch) = (4, 8);
    let first = write(input(2000, 2, 100), hash(9), write_to.clone(), &context).await;
    (write_to.attempt, write_to.epoch) = (5, 6);
    write_to.output.layout = IndexLayout::IFile;
    let second = write(input(2000, 2, 100), hash(9), write_to, &context).await;
    assert!(first.committed() && !second.committed());
    let mut expected = first.status;
    expected.columns.memory_bytes = None;
    expected.columns.rows = None;
    expected.columns.checksums = None;
    assert_eq!(second.status, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_with_fewer_columns_do_not_stop_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let registry = StatusRegistry::default();
    registry.register(1);
    for map in 0..3 {
        let write_to = write_to(directory.path(), map, IndexLayout::IFile);
        let mut written = write(input(500, 1, 10), hash(3), write_to.clone(), &context).await;
        if map == 1 {
            written = write(input(500, 1, 10), hash(3), write_to, &context).await;
            assert!(written.status.columns.memory_bytes.is_none());
        }
        registry.add(1, written.status).unwrap();
    }
    let reply = registry.reply(1).unwrap();
    let parsed = datafusion_ifile::map_status::Envelope::parse(&reply.envelope).unwrap();
    let datafusion_ifile::map_status::Envelope::Direct { table, .. } = parsed else {
        panic!("direct")
    };
    let table = StatusTable::open(table).unwrap();
    let mut expected: Vec<_> =
        registry.statuses(1).unwrap().iter().map(|status| (**status).clone()).collect();
    expected.iter_mut().for_each(|status| status.columns.memory_bytes = None);
    assert_eq!(table.statuses(&mut TableScratch::default()).unwrap(), expected);
}
