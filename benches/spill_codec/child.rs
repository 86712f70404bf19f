//! One side, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::catalog::MemTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::{IFileOptions, IFileRepartitionExec, SessionStateBuilderExt};
use futures::StreamExt;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

use super::Sample;

const POOL_BYTES: usize = 64 << 20;
const OUTPUTS: usize = 200;
const INPUTS: usize = 2;
const BATCH_ROWS: usize = 8192;

pub(crate) fn run(side: &str, scale: f64, query: bool) -> Sample {
    let generator = LineItemGenerator::new(scale, 1, 1);
    let batches = LineItemArrow::new(generator).with_batch_size(BATCH_ROWS);
    let mut parts = vec![Vec::new(); INPUTS];
    for (index, batch) in batches.enumerate() {
        parts[index % INPUTS].push(batch.unwrap());
    }
    let all = || parts.iter().flatten();
    let mut sample = Sample {
        rows: all().map(|batch| batch.num_rows() as u64).sum(),
        source_bytes: all().map(|batch| batch.get_array_memory_size() as u64).sum(),
        ..Sample::default()
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (before, peak, stop) =
        (resident(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let sampler = {
        let (peak, stop) = (Arc::clone(&peak), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                peak.fetch_max(resident(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    let begun = Instant::now();
    match query {
        true => tokio.block_on(count_distinct(side, parts, &mut sample)),
        false => tokio.block_on(exchange(side, &parts, &mut sample)),
    }
    sample.seconds = begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    sampler.join().unwrap();
    sample.resident_growth = peak.load(Ordering::Relaxed).saturating_sub(before);
    sample
}

async fn exchange(side: &str, parts: &[Vec<RecordBatch>], sample: &mut Sample) {
    let schema = parts[0][0].schema();
    let input = MemorySourceConfig::try_new_exec(parts, Arc::clone(&schema), None).unwrap();
    let keys = vec![col("l_orderkey", &schema).unwrap()];
    let partitioning = Partitioning::Hash(keys, OUTPUTS);
    let plan: Arc<dyn ExecutionPlan> = match side {
        "stock" => Arc::new(RepartitionExec::try_new(input, partitioning).unwrap()),
        codec => {
            let codec = codec.parse().unwrap();
            let options = IFileOptions { codec, ..IFileOptions::default() };
            Arc::new(IFileRepartitionExec::try_new(input, partitioning, options).unwrap())
        }
    };
    let pool = Arc::new(GreedyMemoryPool::new(POOL_BYTES));
    let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
    let context = TaskContext::default().with_session_config(config).with_runtime(runtime(pool));
    let context = Arc::new(context);
    let streams: Vec<_> =
        (0..OUTPUTS).map(|output| plan.execute(output, Arc::clone(&context)).unwrap()).collect();
    let mut rows = 0;
    for mut stream in streams {
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows() as u64;
        }
    }
    assert_eq!(rows, sample.rows);
    sample.pool_bytes = POOL_BYTES as u64;
    count_spills(&plan, sample);
}

async fn count_distinct(side: &str, parts: Vec<Vec<RecordBatch>>, sample: &mut Sample) {
    // Enough for the aggregates of both sides.
    let pool_bytes = 24 << 20;
    let config = SessionConfig::new().with_target_partitions(8);
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime(Arc::new(FairSpillPool::new(pool_bytes))))
        .with_default_features();
    let builder = if side == "stock" { builder } else { builder.with_ifile() };
    let context = SessionContext::new_with_state(builder.build());
    if side != "stock" {
        context.sql(&format!("SET ifile.codec = '{side}'")).await.unwrap().collect().await.unwrap();
        // Else the exchange holds all rows of this query in memory.
        context.sql("SET ifile.memory_share = 0.01").await.unwrap().collect().await.unwrap();
    }
    let table = MemTable::try_new(parts[0][0].schema(), parts).unwrap();
    context.register_table("lineitem", Arc::new(table)).unwrap();
    let sql = "select count(distinct l_partkey) from lineitem";
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    sample.pool_bytes = pool_bytes as u64;
    count_spills(&plan, sample);
}

/// Adds what the exchanges of a plan have spilled.
fn count_spills(plan: &Arc<dyn ExecutionPlan>, sample: &mut Sample) {
    if plan.name().contains("Repartition") {
        let metrics = plan.metrics().unwrap();
        let metric = |name: &str| {
            let sum = metrics.sum(|metric| metric.value().name() == name);
            sum.map_or(0, |value| value.as_usize() as u64)
        };
        sample.stored_bytes += metric("spilled_bytes");
        sample.raw_bytes += metric("spilled_raw_bytes").max(metric("spilled_bytes"));
    }
    plan.children().into_iter().for_each(|child| count_spills(child, sample));
}

fn runtime(pool: Arc<dyn MemoryPool>) -> Arc<RuntimeEnv> {
    Arc::new(RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap())
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
