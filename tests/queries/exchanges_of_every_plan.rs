//! The exchanges in the plan of every query, with the stock exchange and with ours.
//!
//! The tables are a hundredth of scale 1, and so are the sizes below which a join does without an exchange: the
//! plans are close to those of scale 1.

use std::fmt::Write;

use datafusion::common::Result;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::support::{Exchange, context, plan, queries};

const GROUPS: [&str; 3] = ["tpcds", "shuffle", "tpch"];

/// The exchanges of a plan, from the top, indented by the exchanges above them.
fn add_exchanges(plan: &dyn ExecutionPlan, depth: usize, text: &mut String) {
    let is_exchange = plan.name().ends_with("RepartitionExec");
    if is_exchange {
        let line = displayable(plan).one_line().to_string();
        let outputs = plan.output_partitioning().partition_count();
        writeln!(text, "{:depth$}{} -> {outputs}", "", line.trim()).unwrap();
    }
    for child in plan.children() {
        add_exchanges(child.as_ref(), depth + 2 * usize::from(is_exchange), text);
    }
}

async fn exchanges(group: &str, exchange: Exchange) -> Result<String> {
    let mut text = String::new();
    for (name, sql) in queries(group) {
        let plan = plan(group, &sql, exchange).await.map_err(|e| context(e, &name))?;
        writeln!(text, "{name}").unwrap();
        add_exchanges(plan.as_ref(), 2, &mut text);
    }
    Ok(text)
}

/// How rows are placed, and how deep: the same in both plans.
fn placements(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.replace("IFileRepartitionExec", "RepartitionExec"));
    lines
        .map(|line| line.split(", input_partitions").next().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_exchange_is_replaced_in_its_place() {
    for group in GROUPS {
        let stock = exchanges(group, Exchange::Stock).await.unwrap();
        let ours = Exchange::Ours { codec: "lz4", bytes: 1 << 30 };
        let ours = exchanges(group, ours).await.unwrap();
        insta::assert_snapshot!(format!("{group}_stock"), stock);
        insta::assert_snapshot!(format!("{group}_ifile"), ours);
        assert!(!ours.contains(" RepartitionExec"), "{group}: an exchange is left");
        assert_eq!(placements(&stock), placements(&ours), "{group}");
    }
}
