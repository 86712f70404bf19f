//! Every query with every memory limit, pool and exchange; goes on where it was stopped.

use std::path::Path;
use std::process::ExitCode;

use crate::Result;
use crate::args::{Args, Setting};
use crate::goals;
use crate::interrupt;
use crate::job::Job;
use crate::queries::Query;
use crate::report;
use crate::results::{Cell, Results, Run};
use crate::tally::Tally;

/// Runs what the file of results does not have yet.
///
/// # Errors
///
/// Fails when the results cannot be kept.
pub(crate) fn sweep(args: &Args, work: &Path, queries: &[Query]) -> Result<ExitCode> {
    let mut job = Job::new(args, work, queries)?;
    let run = Run::new(args)?;
    let path = match &args.results {
        Some(path) => path.clone(),
        None => run.path(&work.join("results"))?,
    };
    let mut results = Results::open(&path, run)?;
    println!("results in {}\n", path.display());
    let settings = args.settings();
    let missing = missing(args, &results, queries, &settings)?;
    job.expect_runs(missing * args.engines(0).len())?;
    let width = settings.iter().map(|s| s.to_string().len()).max().unwrap_or(0);
    for setting in settings {
        run_setting(&job, &mut results, queries, setting)?;
        if job.interrupt.is_set() {
            break;
        }
        let cells = results.cells.iter().filter(|cell| cell.setting() == setting);
        let line = format!("{:<width$}  {}", setting.to_string(), Tally::new(cells).line());
        job.bar.suspend(|| println!("{line}"));
    }
    job.bar.finish_and_clear();
    print!("\n{}", goals::text(&results.cells));
    print!("{}", report::failures(&results.cells));
    if let Some(page) = args.report.as_ref().filter(|_| !results.cells.is_empty()) {
        crate::html::write(page, &results.run, &results.cells)?;
    }
    if job.interrupt.is_set() {
        println!("\ninterrupted: the same command goes on from here");
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    let bad = results.cells.iter().any(report::is_bad_cell);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn missing(
    args: &Args,
    results: &Results,
    queries: &[Query],
    settings: &[Setting],
) -> Result<usize> {
    let engines = args.engines(0);
    let mut missing = 0;
    for setting in settings {
        for query in queries {
            missing += usize::from(!results.has(query, *setting, &engines)?);
        }
    }
    Ok(missing)
}

fn run_setting(
    job: &Job<'_>,
    results: &mut Results,
    queries: &[Query],
    setting: Setting,
) -> Result<()> {
    for (query, number) in queries.iter().zip(0_u32..) {
        if results.has(query, setting, &job.args.engines(0))? {
            continue;
        }
        // The engine that starts changes from query to query.
        let Some(judged) = job.run(query, setting, number)? else { return Ok(()) };
        for run in judged.iter().filter(|run| report::is_bad_run(run)) {
            job.bar.suspend(|| println!("{}", report::line(query, run)));
        }
        let cells = judged.iter().map(|run| Cell::new(query, setting, run));
        results.append(cells.collect::<Result<_>>()?)?;
    }
    Ok(())
}
