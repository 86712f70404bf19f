//! A partitioned join of more partitions than `ifile.join_filter_partitions` has no dynamic filter; any
//! other join keeps its own.

use std::fs::File;

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use rstest::rstest;
use tempfile::TempDir;

use super::support::{answer, config, physical_plan, rows, run, sessions, text_of};

const JOIN: &str = "SELECT count(*), sum(big.k) FROM small JOIN big ON small.k = big.k";

/// Sessions of 4 partitions with the tables of the join, ours first.
async fn with_tables(directory: &TempDir, partitioned: bool) -> [SessionContext; 2] {
    let mut config = config();
    if partitioned {
        config = config
            .set_usize("datafusion.optimizer.hash_join_single_partition_threshold", 0)
            .set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
    }
    let sessions = sessions(config);
    for (name, count) in [("small", 50), ("big", 20_000)] {
        let path = directory.path().join(format!("{name}.parquet"));
        let rows = rows(0, count);
        let mut writer =
            ArrowWriter::try_new(File::create(&path).unwrap(), rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        for session in &sessions {
            let options = ParquetReadOptions::default();
            session.register_parquet(name, path.to_str().unwrap(), options).await.unwrap();
        }
    }
    sessions
}

#[rstest]
#[case::as_many_as_allowed(4, true, "[ empty ]")]
#[case::more_than_allowed(3, true, "[ true ]")]
#[case::none_allowed(0, true, "[ true ]")]
#[case::a_collected_build_side(0, false, "[ empty ]")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_the_option(#[case] most: usize, #[case] partitioned: bool, #[case] filter: &str) {
    let directory = tempfile::tempdir().unwrap();
    let [ours, stock] = with_tables(&directory, partitioned).await;
    run(&ours, &format!("SET ifile.join_filter_partitions = {most}")).await;
    let text = text_of(&physical_plan(&ours, JOIN).await);
    let mode = if partitioned { "mode=Partitioned" } else { "mode=CollectLeft" };
    assert!(text.contains(mode) && text.contains(&format!("DynamicFilter {filter}")), "{text}");
    assert_eq!(answer(&ours, JOIN).await, answer(&stock, JOIN).await);
}

#[tokio::test]
async fn not_while_the_exchange_is_off() {
    let directory = tempfile::tempdir().unwrap();
    let [ours, _] = with_tables(&directory, true).await;
    run(&ours, "SET ifile.join_filter_partitions = 0").await;
    run(&ours, "SET ifile.enabled = false").await;
    let text = text_of(&physical_plan(&ours, JOIN).await);
    assert!(text.contains("DynamicFilter [ empty ]"), "{text}");
}
