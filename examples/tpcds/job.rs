//! Runs queries in child processes, pair by pair: one run per exchange, judged together.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Args, Engine, Setting};
use crate::interrupt::Interrupt;
use crate::judge::{self, Judged};
use crate::protocol::Request;
use crate::queries::Query;
use crate::scratch::Scratch;
use crate::{Result, generate, runner};

/// Query that is followed over time where nothing else is asked for: its exchanges spill most.
const TIMELINE_QUERY: &str = "q72";

pub(crate) struct Job<'a> {
    pub(crate) args: &'a Args,
    pub(crate) interrupt: Interrupt,
    pub(crate) bar: ProgressBar,
    work: PathBuf,
    scratch: Scratch,
    /// Name of the query to follow over time.
    timeline: Option<String>,
}

impl<'a> Job<'a> {
    /// Makes the tables that the queries read, and all that the runs share.
    ///
    /// # Errors
    ///
    /// Fails when something cannot be written.
    pub(crate) fn new(args: &'a Args, work: &Path, queries: &[Query]) -> Result<Self> {
        let wanted = !args.sweep.is_empty() || args.report.is_some();
        let timeline = if wanted { timeline_query(args, queries)? } else { None };
        for (number, query) in queries.iter().enumerate() {
            if !queries.iter().take(number).any(|other| other.suite == query.suite) {
                generate::generate(&query.suite.dir(work, args.scale), query.suite, args.scale)?;
            }
        }
        Ok(Self {
            args,
            interrupt: Interrupt::listen()?,
            bar: ProgressBar::hidden(),
            work: work.to_owned(),
            scratch: Scratch::new(work)?,
            timeline,
        })
    }

    /// Shows how many of `runs` are done, and about how long the rest takes.
    ///
    /// # Errors
    ///
    /// Fails when there are too many.
    pub(crate) fn expect_runs(&mut self, runs: usize) -> Result<()> {
        let template =
            "{spinner} {wide_bar:.cyan/dim} {pos}/{len}  {msg}  {elapsed} gone, {eta} left";
        self.bar = ProgressBar::new(u64::try_from(runs)?);
        self.bar.set_style(ProgressStyle::with_template(template)?);
        self.bar.enable_steady_tick(Duration::from_millis(200));
        Ok(())
    }

    /// Runs `query` with each engine and judges the answers; `None` when the job was interrupted.
    ///
    /// # Errors
    ///
    /// Fails when a process cannot be started, or a file cannot be kept.
    pub(crate) fn run(
        &self,
        query: &Query,
        setting: Setting,
        run: u32,
    ) -> Result<Option<Vec<Judged>>> {
        let mut judged = Vec::new();
        for engine in self.args.engines(run) {
            self.bar.set_message(format!("{} {engine}, {setting}", query.name));
            let request = self.request(query, setting, engine, run);
            let outcome = runner::run(&request, self.args.timeout, &self.interrupt)?;
            let Some(outcome) = outcome else { return Ok(None) };
            self.bar.inc(1);
            judged.push(Judged::new(engine, outcome, request.result));
        }
        judge::judge(&mut judged, query, self.args.answers(), &self.work.join("wrong"))?;
        Ok(Some(judged))
    }

    fn request(&self, query: &Query, setting: Setting, engine: Engine, run: u32) -> Request {
        let setting_name = setting.to_string().replace(' ', "-");
        let name = format!("{}-{engine}-{setting_name}-{run}", query.file_name());
        Request {
            sql: query.path.clone(),
            tables: query.suite.dir(&self.work, self.args.scale),
            spill_dir: self.scratch.path().join(format!("spill-{name}")),
            result: self.scratch.path().join(format!("{name}.parquet")),
            engine,
            limit: setting.limit,
            pool: setting.pool,
            partitions: self.args.partitions,
            codec: self.args.codec.clone(),
            join: self.args.join,
            set: self.args.set.clone(),
            timeline: self.timeline.as_ref() == Some(&query.name),
        }
    }
}

fn timeline_query(args: &Args, queries: &[Query]) -> Result<Option<String>> {
    let named = |name: &str| queries.iter().find(|query| query.name == name);
    let query = match &args.timeline {
        Some(asked) => {
            let query = named(&crate::queries::full_name(asked));
            Some(query.ok_or_else(|| format!("--timeline: {asked} is none of the queries"))?)
        }
        None => named(TIMELINE_QUERY).or_else(|| queries.first()),
    };
    Ok(query.map(|query| query.name.clone()))
}
