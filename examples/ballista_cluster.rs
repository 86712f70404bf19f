//! TPC-DS on a cluster of Ballista: its own hash shuffles against those of this crate.
//!
//! A scheduler and executors run as processes on 127.0.0.1. Every query runs with each engine, planner and way to read, and
//! each answer is compared with that of DataFusion in one process. Then one executor is killed in the middle of a query.
//!
//! ```text
//! cargo run --release --features ballista --example ballista_cluster -- \
//!     [--scale 1] [--queries 4,11,23] [--engine stock,ifile] [--planner static,adaptive] [--remote off,on] \
//!     [--executors 3] [--memory-limit 512MB] [--kill 64] [--json FILE]
//! ```

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::field_reassign_with_default,
    reason = "an example that cannot go on has failed"
)]

#[path = "cluster/args.rs"]
mod args;
#[path = "cluster/client.rs"]
mod client;
#[path = "tpcds/compare.rs"]
#[allow(dead_code, reason = "shared with the tpcds example")]
mod compare;
#[path = "cluster/counters.rs"]
mod counters;
#[path = "tpcds/generate.rs"]
mod generate;
#[path = "cluster/lost.rs"]
mod lost;
#[path = "cluster/ports.rs"]
mod ports;
#[path = "cluster/processes.rs"]
mod processes;
#[path = "tpcds/queries.rs"]
#[allow(dead_code, reason = "shared with the tpcds example")]
mod queries;
#[path = "tpcds/register.rs"]
mod register;
#[path = "cluster/report.rs"]
mod report;
#[path = "cluster/roles.rs"]
mod roles;
#[path = "tpcds/suite.rs"]
#[allow(dead_code, reason = "shared with the tpcds example")]
mod suite;
#[path = "tpcds/tables.rs"]
mod tables;
#[path = "tpcds/tpch.rs"]
mod tpch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow::array::RecordBatch;
use clap::Parser;

use args::Args;
use client::Setting;
use compare::Texts;
use processes::{Cluster, Plan};
use queries::Query;
use report::{Record, Status};
use suite::Suite;

pub(crate) type Result<T> =
    std::result::Result<T, Box<dyn std::error::Error + Send + Sync + 'static>>;

/// The allocator of Ballista's executor.
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What a scheduler waits for a sign of life of an executor, in seconds.
const PATIENCE: u64 = 30;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(16 * 1024 * 1024)
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode> {
    match args.role {
        Some(role) => {
            roles::run(role).await?;
            Ok(ExitCode::SUCCESS)
        }
        None => Job::new(args).await?.run().await,
    }
}

/// The queries of these names, with their text.
fn texts(names: &[String]) -> Result<Vec<(Query, String)>> {
    let selected = queries::select(&Path::new(ROOT).join("sql"), names)?;
    let read = |query: Query| Ok((query.clone(), std::fs::read_to_string(&query.path)?));
    selected.into_iter().map(read).collect()
}

/// All runs.
struct Job {
    args: Args,
    work: PathBuf,
    tables: PathBuf,
    queries: Vec<(Query, String)>,
    /// The right answers by the name of their query.
    answers: BTreeMap<String, RecordBatch>,
    records: Vec<Record>,
}

impl Job {
    /// Makes the tables and runs every query in this process.
    async fn new(args: Args) -> Result<Self> {
        let work = Path::new(ROOT).join("target/tpcds");
        let tables = Suite::Tpcds.dir(&work, args.scale);
        let (dir, scale) = (tables.clone(), args.scale);
        let made = move || generate::generate(&dir, Suite::Tpcds, scale);
        tokio::task::spawn_blocking(made).await??;
        let queries = texts(&args.queries)?;
        let mut answers = BTreeMap::new();
        let context = client::in_process(args.partitions, &tables).await?;
        let killed: Vec<String> = args.kill().map(str::to_owned).into_iter().collect();
        for (query, sql) in queries.iter().chain(&texts(&killed)?) {
            if answers.contains_key(&query.name) {
                continue;
            }
            let (rows, time) = client::run(&context, sql).await?;
            let seconds = time.as_secs_f64();
            println!("{}: {} rows in one process in {seconds:.1} s", query.name, rows.num_rows());
            answers.insert(query.name.clone(), rows);
        }
        Ok(Self { args, work, tables, queries, answers, records: Vec::new() })
    }

    async fn run(mut self) -> Result<ExitCode> {
        println!("\n{}", report::header());
        for engine in self.args.engines() {
            for adaptive in self.args.planners() {
                for force_remote in self.args.remotes() {
                    self.run_all(engine, adaptive, force_remote).await?;
                }
            }
        }
        print!("\n{}", report::summary(&self.records));
        let mut bad = self.records.iter().any(Record::is_bad);
        if let Some(name) = self.args.kill() {
            bad |= !lost::show(&self, name).await?;
        }
        Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn plan(&self, engine: roles::Engine) -> Plan {
        Plan {
            engine,
            executors: self.args.executors,
            vcores: self.args.vcores,
            memory: self.args.memory_limit,
            patience: PATIENCE,
        }
    }

    async fn start(&self, plan: Plan) -> Result<Cluster> {
        let directory = self.work.join("clusters");
        tokio::task::spawn_blocking(move || Cluster::start(&plan, &directory)).await?
    }

    /// Runs every query on a cluster of its own setting.
    async fn run_all(
        &mut self,
        engine: roles::Engine,
        adaptive: bool,
        force_remote: bool,
    ) -> Result<()> {
        let cluster = self.start(self.plan(engine)).await?;
        let partitions = self.args.partitions;
        let setting = Setting { partitions, adaptive, force_remote, retries: None };
        let context = client::on_cluster(cluster.port, setting, &self.tables).await?;
        for (query, sql) in self.queries.clone() {
            let before = cluster.counts().await?;
            cluster.forget_peaks()?;
            let begun = std::time::Instant::now();
            let ended = client::run(&context, &sql).await;
            let seconds = begun.elapsed().as_secs_f64();
            let after = cluster.counts().await?;
            let mut record = Record {
                query: query.name.clone(),
                engine,
                adaptive,
                force_remote,
                status: Status::Ok,
                seconds,
                written: after.written - before.written,
                fetched: after.served - before.served,
                peak: cluster.peak_bytes()?,
                agrees: false,
                message: String::new(),
            };
            match ended {
                Ok((rows, _)) => record.judge(self.differences(&query.name, &rows)),
                Err(error) => record.fail(&error.to_string()),
            }
            println!("{}", report::line(&record));
            self.records.push(record);
            if let Some(path) = &self.args.json {
                report::write_json(path, &self.records)?;
            }
        }
        Ok(())
    }

    /// What differs between `rows` and the answer of `query`, in words; nothing if they agree.
    fn differences(&self, query: &str, rows: &RecordBatch) -> Option<String> {
        let answer = self.answers.get(query)?;
        match compare::compare(answer, rows, Texts::Exact) {
            Ok(difference) if difference.is_empty() => None,
            Ok(difference) => Some(format!(
                "{} rows are missing, {} are wrong: {:?} {:?}",
                difference.left_only.len(),
                difference.right_only.len(),
                difference.left_only.first(),
                difference.right_only.first()
            )),
            Err(error) => Some(error.to_string()),
        }
    }
}
