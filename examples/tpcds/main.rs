//! TPC-DS under a memory limit, with the stock exchange of DataFusion and with the IFile exchange.
//!
//! ```text
//! generate   tables of the scale as Parquet, once             tables.rs, generate.rs
//! queries    which files of sql/ to run                       queries.rs
//! runner     one child process per query, engine and run      runner.rs, protocol.rs, scratch.rs
//!   child    session, pool, meters; runs the query            child.rs, session.rs, pool.rs, measure.rs, digest.rs
//! judge      stock against ours, and both against answers     judge.rs, compare.rs
//! report     table, totals, JSON                              report.rs
//! ```

mod args;
mod child;
mod compare;
mod digest;
mod generate;
mod judge;
mod measure;
mod pool;
mod protocol;
mod queries;
mod report;
mod runner;
mod scratch;
mod session;
mod tables;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Args, Engine};
use crate::judge::Judged;
use crate::protocol::Request;
use crate::queries::Query;
use crate::report::Record;
use crate::scratch::Scratch;

pub(crate) type Result<T> =
    std::result::Result<T, Box<dyn std::error::Error + Send + Sync + 'static>>;

/// The folder of the crate, whose `sql` is read and whose `target` is written.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.child {
        Some(request) => child::main(request),
        None => job(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Ends the process as for any other flag that is wrong.
fn refuse(error: impl Display) -> ! {
    Args::command().error(ErrorKind::ValueValidation, error).exit()
}

fn job(args: &Args) -> Result<ExitCode> {
    args.check().unwrap_or_else(|error| refuse(error));
    let queries = queries::select(&Path::new(ROOT).join("sql"), &args.queries)
        .unwrap_or_else(|error| refuse(error));
    if let Some(path) = &args.json {
        // Before hours of work, not after.
        report::write_json(path, &[]).unwrap_or_else(|error| refuse(error));
    }
    let work = Path::new(ROOT).join("target/tpcds");
    let tables = work.join(format!("sf{}", args.scale));
    generate::generate(&tables, args.scale)?;
    println!("{}\n\n{}", describe(args, &queries), report::header());

    let job = Job {
        args,
        tables,
        scratch: Scratch::new(&work)?,
        wrong_dir: work.join("wrong"),
        bar: progress_bar(args, &queries)?,
    };
    let mut records = Vec::new();
    for query in &queries {
        for run in 0..args.runs {
            for judged in job.run(query, run)? {
                job.bar.suspend(|| println!("{}", report::line(query, &judged)));
                records.push(Record::new(args, query, &judged));
            }
            if let Some(path) = &args.json {
                report::write_json(path, &records)?;
            }
        }
    }
    job.bar.finish_and_clear();
    print!("\n{}", report::summary(&records));
    Ok(if report::is_bad(&records) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn describe(args: &Args, queries: &[Query]) -> String {
    let names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
    format!(
        "TPC-DS at scale {}: {} memory, {} pool, {} partitions, {} joins, exchange {}, codec {}, runs {}.\n\
         {} queries: {}.",
        args.scale,
        args.memory_limit,
        flag_value(&args.pool),
        args.partitions,
        flag_value(&args.join),
        flag_value(&args.engine),
        args.codec,
        args.runs,
        names.len(),
        names.join(", "),
    )
}

/// The value as it is written in the flag.
fn flag_value(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn progress_bar(args: &Args, queries: &[Query]) -> Result<ProgressBar> {
    let runs = queries.len() * args.engines(0).len();
    let bar = ProgressBar::new(u64::try_from(runs)? * u64::from(args.runs));
    bar.set_style(ProgressStyle::with_template("{spinner} {pos}/{len} {msg} {elapsed}")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

struct Job<'a> {
    args: &'a Args,
    tables: PathBuf,
    scratch: Scratch,
    wrong_dir: PathBuf,
    bar: ProgressBar,
}

impl Job<'_> {
    /// Runs `query` with each engine and judges the answers.
    fn run(&self, query: &Query, run: u32) -> Result<Vec<Judged>> {
        let mut judged = Vec::new();
        for engine in self.args.engines(run) {
            self.bar.set_message(format!("{} {engine}", query.name));
            let request = self.request(query, engine, run);
            let outcome = runner::run(&request, self.args.timeout)?;
            self.bar.inc(1);
            judged.push(Judged::new(engine, outcome, request.result));
        }
        judge::judge(&mut judged, query, self.args.verify.as_deref(), &self.wrong_dir)?;
        Ok(judged)
    }

    fn request(&self, query: &Query, engine: Engine, run: u32) -> Request {
        let name = format!("{}-{engine}-{run}", query.file_name());
        Request {
            sql: query.path.clone(),
            tables: self.tables.clone(),
            spill_dir: self.scratch.path().join(format!("spill-{name}")),
            result: self.scratch.path().join(format!("{name}.parquet")),
            engine,
            limit: self.args.memory_limit,
            pool: self.args.pool,
            partitions: self.args.partitions,
            codec: self.args.codec.clone(),
            join: self.args.join,
        }
    }
}
