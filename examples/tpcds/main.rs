//! TPC-DS under a memory limit, with the stock exchange of DataFusion and with the IFile exchange.
//!
//! ```text
//! suite      tables of TPC-DS and of TPC-H, as Parquet, once  suite.rs, tables.rs, tpch.rs, generate.rs,
//!                                                             register.rs
//! queries    which files of sql/ to run                       queries.rs
//! job        pairs of runs, one per exchange                  job.rs, sweep.rs, interrupt.rs
//! runner     one child process per query, engine and run      runner.rs, protocol.rs, scratch.rs
//!   child    session, pool, meters; runs the query            child.rs, session.rs, pool.rs, measure.rs,
//!                                                             timeline.rs, digest.rs
//! judge      stock against ours, and both against answers     judge.rs, compare.rs
//! results    file of a sweep, sums and goals                  results.rs, tally.rs, goals.rs
//! report     table, totals, JSON; list of queries; page       report.rs, list.rs, html/
//! ```

mod args;
mod child;
mod compare;
mod digest;
mod generate;
mod goals;
mod html;
mod interrupt;
mod job;
mod judge;
mod list;
mod measure;
mod pool;
mod protocol;
mod queries;
mod register;
mod report;
mod results;
mod runner;
mod scratch;
mod session;
mod suite;
mod sweep;
mod tables;
mod tally;
mod timeline;
mod tpch;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

use crate::args::{Args, Setting};
use crate::job::Job;
use crate::queries::Query;
use crate::report::Record;
use crate::results::{Cell, Run};

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
    let is_sweep = !args.sweep.is_empty();
    if let (Some(page), Some(path), false) = (&args.report, &args.results, is_sweep) {
        let (run, cells) = results::read(path)?;
        html::write(page, &run, &cells)?;
        return Ok(ExitCode::SUCCESS);
    }
    let queries = queries::select(&Path::new(ROOT).join("sql"), &args.queries)
        .unwrap_or_else(|error| refuse(error));
    check_files(args).unwrap_or_else(|error| refuse(error));
    let work = Path::new(ROOT).join("target/tpcds");
    println!("{}\n", describe(args, &queries));
    if is_sweep {
        return sweep::sweep(args, &work, &queries);
    }
    if let Some(path) = &args.list {
        return list::write(args, &work, &queries, path);
    }
    table(args, &work, &queries)
}

/// Tries the files that are written at the end: before hours of work, not after.
fn check_files(args: &Args) -> Result<()> {
    if let Some(path) = &args.json {
        report::write_json(path, &[])?;
    }
    for path in [&args.report, &args.list].into_iter().flatten() {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Runs every query and prints a line for each run.
fn table(args: &Args, work: &Path, queries: &[Query]) -> Result<ExitCode> {
    println!("{}", report::header());
    let mut job = Job::new(args, work, queries)?;
    job.expect_runs(queries.len() * args.engines(0).len() * usize::try_from(args.runs)?)?;
    let (mut records, mut cells) = (Vec::new(), Vec::new());
    let setting = Setting { limit: args.memory_limit, pool: args.single_pool() };
    'queries: for query in queries {
        for run in 0..args.runs {
            let Some(judged) = job.run(query, setting, run)? else { break 'queries };
            for judged in judged {
                job.bar.suspend(|| println!("{}", report::line(query, &judged)));
                records.push(Record::new(args, query, &judged));
                cells.push(Cell::new(query, setting, &judged)?);
            }
            if let Some(path) = &args.json {
                report::write_json(path, &records)?;
            }
        }
    }
    job.bar.finish_and_clear();
    print!("\n{}", report::summary(&records));
    if let Some(page) = args.report.as_ref().filter(|_| !cells.is_empty()) {
        html::write(page, &Run::new(args)?, &results::medians(cells))?;
    }
    if job.interrupt.is_set() {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(if report::is_bad(&records) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn describe(args: &Args, queries: &[Query]) -> String {
    let names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
    let settings: Vec<String> = args.settings().iter().map(ToString::to_string).collect();
    format!(
        "Scale {}: {} memory, {} partitions, {} joins, exchange {}, codec {}, runs {}{}.\n{} queries: {}.",
        args.scale,
        settings.join(", "),
        args.partitions,
        flag_value(&args.join),
        flag_value(&args.engine),
        args.codec,
        args.runs,
        args.set.iter().fold(String::new(), |all, option| all + ", " + option),
        names.len(),
        names.join(", "),
    )
}

/// The value as it is written in the flag.
pub(crate) fn flag_value(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
