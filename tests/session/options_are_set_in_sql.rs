//! `SET ifile.*` checks what it is given, and `SHOW` tells what is set.

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::prelude::SessionContext;
use datafusion_ifile::{Codec, IFileOptions, IFileRepartitionExec};
use rstest::rstest;

use super::support::{
    answer, config, exchanges, physical_plan, run, session, sessions, with_table,
};

const GROUPS: &str = "SELECT g, count(*), min(s) FROM t GROUP BY g";

fn options(context: &SessionContext) -> IFileOptions {
    IFileOptions::from_config(context.state().config_options())
}

async fn refusal(context: &SessionContext, sql: &str) -> String {
    let frame = match context.sql(sql).await {
        Err(error) => return error.to_string(),
        Ok(frame) => frame,
    };
    frame.collect().await.unwrap_err().to_string()
}

#[tokio::test]
async fn every_option() {
    let context = session();
    for sql in [
        "SET ifile.codec = 'zstd:7'",
        "SET ifile.memory_share = 0.25",
        "SET ifile.memory_headroom = 0",
        "SET ifile.block_bytes = '128KB'",
        "SET ifile.batch_bytes = 65536",
        "SET ifile.read_ahead_bytes = 0",
        "SET ifile.narrow_outputs = 200",
        "SET ifile.max_active_inputs = 16",
        "SET ifile.join_filter_partitions = 0",
        "SET ifile.scratch_dirs = '/scratch/a:1MB:0, /scratch/b'",
        "SET ifile.scratch_limit = '2GB'",
        "SET ifile.punch_holes = false",
        "SET ifile.enabled = false",
    ] {
        run(&context, sql).await;
    }
    let expected = IFileOptions {
        enabled: false,
        codec: Codec::Zstd { level: 7 },
        memory_share: 0.25,
        memory_headroom: 0.0,
        block_bytes: 128 << 10,
        batch_bytes: 65_536,
        read_ahead_bytes: 0,
        narrow_outputs: 200,
        max_active_inputs: 16,
        join_filter_partitions: 0,
        scratch_dirs: "/scratch/a:1048576:0,/scratch/b".parse().unwrap(),
        scratch_limit: 2 << 30,
        punch_holes: false,
    };
    assert_eq!(options(&context), expected);
}

#[rstest]
#[case("codec", "'gzip'", "none, snappy, lz4, zstd[:level]")]
#[case("codec", "''", "none, snappy, lz4, zstd[:level]")]
#[case("codec", "'zstd:99'", "none, snappy, lz4, zstd[:level]")]
#[case("enabled", "'maybe'", "true, false")]
#[case("memory_share", "0", "0.01 to 1.0")]
#[case("memory_share", "1.5", "0.01 to 1.0")]
#[case("memory_headroom", "-0.1", "0.0 to 0.9")]
#[case("memory_headroom", "0.95", "0.0 to 0.9")]
#[case("block_bytes", "'1 byte'", "64 to 64MB")]
#[case("block_bytes", "'65MB'", "64 to 64MB")]
#[case("batch_bytes", "-1", "64 to 1GB")]
#[case("read_ahead_bytes", "'1TB'", "0 to 64MB")]
#[case("max_active_inputs", "'many'", "0 to 1000000")]
#[case("join_filter_partitions", "-1", "0 to 1000000")]
#[case("scratch_dirs", "'/a:1MB:0:0'", "path[:limit[:priority]]")]
#[case("scratch_dirs", "'/a,/a'", "path[:limit[:priority]]")]
#[case("scratch_limit", "'-1'", "a number of bytes")]
#[case("punch_holes", "2", "true, false")]
#[tokio::test]
async fn refused_values_list_what_is_allowed(
    #[case] key: &str,
    #[case] value: &str,
    #[case] allowed: &str,
) {
    let context = session();
    let message = refusal(&context, &format!("SET ifile.{key} = {value}")).await;
    assert!(message.contains(&format!("ifile.{key}")), "{message}");
    assert!(message.contains(allowed), "{message}");
    assert_eq!(options(&context), IFileOptions::default());
}

#[tokio::test]
async fn unknown_options_list_the_known_ones() {
    let context = session();
    let message = refusal(&context, "SET ifile.codecs = 'lz4'").await;
    for (key, _) in IFileOptions::default().to_pairs() {
        assert!(message.contains(&format!("ifile.{key}")), "{message}");
    }
}

#[tokio::test]
async fn they_are_shown() {
    let context = session();
    let all = answer(&context, "SHOW ALL").await.join("\n");
    for (key, value) in IFileOptions::default().to_pairs() {
        let line = all.lines().find(|line| line.contains(&format!(" ifile.{key} ")));
        assert!(line.is_some_and(|line| line.contains(&value)), "ifile.{key}: {line:?}");
    }
    run(&context, "SET ifile.codec = 'zstd:3'").await;
    let shown = answer(&context, "SHOW ifile.codec").await.join("\n");
    assert!(shown.contains("zstd:3"), "{shown}");
    let described = "SELECT name, description FROM information_schema.df_settings \
                     WHERE name LIKE 'ifile.%' AND description IS NOT NULL";
    let rows: usize = run(&context, described).await.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, IFileOptions::default().to_pairs().len());
}

#[tokio::test]
async fn the_node_has_the_options_of_the_session() {
    let context = session();
    with_table(&context);
    run(&context, "SET ifile.codec = 'snappy'").await;
    run(&context, "SET ifile.block_bytes = '64KB'").await;
    let plan = physical_plan(&context, GROUPS).await;
    let mut seen = 0;
    plan.apply(|node| {
        if let Some(node) = node.downcast_ref::<IFileRepartitionExec>() {
            assert_eq!(node.options(), &options(&context));
            assert_eq!(node.options().codec, Codec::Snappy);
            assert_eq!(node.options().block_bytes, 64 << 10);
            seen += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    assert!(seen > 0);
}

#[tokio::test]
async fn disabled_leaves_the_stock_node() {
    let [ours, stock] = sessions(config());
    with_table(&ours);
    with_table(&stock);
    run(&ours, "SET ifile.enabled = false").await;
    let (left, right) = (physical_plan(&ours, GROUPS).await, physical_plan(&stock, GROUPS).await);
    assert_eq!(super::support::text_of(&left), super::support::text_of(&right));
    assert!(matches!(exchanges(&left), (0, 1..)));
    run(&ours, "SET ifile.enabled = true").await;
    assert!(matches!(exchanges(&physical_plan(&ours, GROUPS).await), (1.., 0)));
}
