//! What a run came to, as lines, sums and JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::Result;
use crate::roles::Engine;

const MB: f64 = 1_000_000.0;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Wrong,
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Failed => "failed",
        }
    }
}

/// A run of a query.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) query: String,
    pub(crate) engine: Engine,
    pub(crate) adaptive: bool,
    pub(crate) force_remote: bool,
    pub(crate) status: Status,
    pub(crate) seconds: f64,
    /// Bytes of hash shuffles in files.
    pub(crate) written: u64,
    /// Bytes of hash shuffles that came through the Flight services.
    pub(crate) fetched: u64,
    /// Most memory of an executor.
    pub(crate) peak: u64,
    /// Whether the rows are those of DataFusion in one process.
    pub(crate) agrees: bool,
    pub(crate) message: String,
}

impl Record {
    /// Notes what differs from the right answer.
    pub(crate) fn judge(&mut self, differences: Option<String>) {
        self.agrees = differences.is_none();
        if let Some(differences) = differences {
            self.status = Status::Wrong;
            self.message = differences;
        }
    }

    /// Notes why there is no answer.
    pub(crate) fn fail(&mut self, message: &str) {
        self.status = Status::Failed;
        self.message = message.lines().next().unwrap_or_default().chars().take(300).collect();
    }

    /// Whether a run of this crate's engine did not give the right answer.
    pub(crate) fn is_bad(&self) -> bool {
        self.engine == Engine::Ifile && self.status != Status::Ok
    }

    fn setting(&self) -> (&'static str, &'static str) {
        let planner = if self.adaptive { "adaptive" } else { "static" };
        (planner, if self.force_remote { "on" } else { "off" })
    }
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Stock => "stock",
        Engine::Ifile => "ifile",
    }
}

pub(crate) fn header() -> String {
    format!(
        "{:<10} {:<6} {:<9} {:<6} {:<7} {:>8} {:>11} {:>11} {:>9}",
        "query",
        "engine",
        "planner",
        "remote",
        "status",
        "seconds",
        "written MB",
        "fetched MB",
        "peak MB"
    )
}

pub(crate) fn line(record: &Record) -> String {
    let (planner, remote) = record.setting();
    format!(
        "{:<10} {:<6} {planner:<9} {remote:<6} {:<7} {:>8.2} {:>11.2} {:>11.2} {:>9.0}  {}",
        record.query,
        engine_name(record.engine),
        record.status.name(),
        record.seconds,
        record.written as f64 / MB,
        record.fetched as f64 / MB,
        record.peak as f64 / MB,
        record.message
    )
}

/// The sums of each setting, and what this crate's are of stock's over the queries that both answered.
pub(crate) fn summary(records: &[Record]) -> String {
    let mut settings: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for record in records {
        settings.entry((record.adaptive, record.force_remote)).or_default().push(record);
    }
    let mut text = String::new();
    for records in settings.values() {
        let right = |engine, query: &str| {
            records
                .iter()
                .copied()
                .find(|r| r.engine == engine && r.query == query && r.status == Status::Ok)
        };
        let stock: Vec<&Record> = records
            .iter()
            .copied()
            .filter(|r| r.engine == Engine::Stock && right(Engine::Ifile, &r.query).is_some())
            .filter(|r| r.status == Status::Ok)
            .collect();
        let ours: Vec<&Record> =
            stock.iter().filter_map(|stock| right(Engine::Ifile, &stock.query)).collect();
        let Some(first) = records.first() else { continue };
        let (planner, remote) = first.setting();
        let wrong = |engine| {
            records.iter().filter(|r| r.engine == engine && r.status != Status::Ok).count()
        };
        let _ = writeln!(
            text,
            "{planner}, remote {remote}: not right {} stock, {} ifile; over {} queries of both:",
            wrong(Engine::Stock),
            wrong(Engine::Ifile),
            stock.len()
        );
        if stock.is_empty() {
            continue;
        }
        let sum =
            |of: &[&Record], value: fn(&Record) -> f64| of.iter().map(|r| value(r)).sum::<f64>();
        let most = |of: &[&Record]| of.iter().map(|r| r.peak as f64 / MB).fold(0.0, f64::max);
        let mut compare = |name: &str, stock: f64, ours: f64| {
            let ratio = if stock > 0.0 { ours / stock } else { f64::NAN };
            let _ = writeln!(text, "  {name:<22} {stock:>10.2} {ours:>10.2}  x {ratio:.3}");
        };
        compare("seconds", sum(&stock, |r| r.seconds), sum(&ours, |r| r.seconds));
        let written = |r: &Record| r.written as f64 / MB;
        compare("MB written", sum(&stock, written), sum(&ours, written));
        let fetched = |r: &Record| r.fetched as f64 / MB;
        compare("MB fetched", sum(&stock, fetched), sum(&ours, fetched));
        compare("MB of an executor", most(&stock), most(&ours));
    }
    text
}

/// Writes all runs so far.
pub(crate) fn write_json(path: &Path, records: &[Record]) -> Result<()> {
    let objects: Vec<_> = records
        .iter()
        .map(|record| {
            let (planner, remote) = record.setting();
            json!({
                "query": record.query,
                "engine": engine_name(record.engine),
                "planner": planner,
                "remote": remote,
                "status": record.status.name(),
                "seconds": record.seconds,
                "shuffle_bytes_written": record.written,
                "shuffle_bytes_fetched": record.fetched,
                "executor_peak_bytes": record.peak,
                "agrees": record.agrees,
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&objects)?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}
