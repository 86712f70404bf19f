//! The command line.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::session;

const AFTER_HELP: &str = "\
Queries: a number or name of sql/tpcds (64, q64), a path below sql without its ending
(shuffle/wide_group_by, tpch/q09), `all` for every file of sql/tpcds, or `shuffle` and `tpch` for every file
of those directories. The tables of TPC-H are made when a query needs them.

Every run is a process of its own with a fresh session. An engine that runs out of memory is reported with
the consumer that was refused, and the job goes on. In each query the engines take turns, and the one that
starts changes from run to run.

A sweep runs every query with every limit of its list, with both pools and both exchanges. Each result is
appended to a file named after the run (scale, partitions, codec, joins, timeout and this build), so that the
same command goes on where it was stopped, with Ctrl-C or otherwise. At scale 1 it checks the stored answers.

Exit code: 0 when every answer that was computed is right; memory failures and timeouts do not change that.
1 when an answer is wrong, when the two engines disagree, or when a run ends with any other error.
2 when the flags are wrong. 130 when Ctrl-C ended the job.";

/// Runs TPC-DS under a memory limit: the stock exchange of DataFusion against the IFile exchange.
///
/// The first run generates the tables as Parquet under target/tpcds. Without flags: scale 1, a memory limit
/// of 256 MB, 8 partitions, both engines, six TPC-DS queries with big shuffles and the four queries of sql/shuffle.
#[derive(Debug, Parser)]
#[command(name = "tpcds", after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Scale factor of the tables; 1 is about 1 GB of text
    #[arg(long, default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// Queries to run, separated by commas, or `all`
    #[arg(long, value_delimiter = ',', default_value = "64,72,75,78,95,97,shuffle")]
    pub(crate) queries: Vec<String>,

    /// Exchange to run with
    #[arg(long, value_enum, default_value_t = EngineChoice::Both)]
    pub(crate) engine: EngineChoice,

    /// Limit of the memory pool, as 256MB or 1.5GB (powers of 1024), or `none`
    #[arg(long, default_value = "256MB")]
    pub(crate) memory_limit: MemoryLimit,

    /// How the memory pool shares its limit; a sweep takes several [default: fair, for a sweep fair,greedy]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) pool: Vec<PoolKind>,

    /// Target partitions of the session
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) partitions: u32,

    /// Codec of the IFile exchange: none, snappy, lz4, or zstd with an optional level as zstd:3
    #[arg(long, default_value = "lz4", value_parser = session::parse_codec)]
    pub(crate) codec: String,

    /// Join algorithm that the planner prefers
    #[arg(long, value_enum, default_value_t = JoinKind::Hash)]
    pub(crate) join: JoinKind,

    /// An option of the sessions, such as datafusion.execution.batch_size=4096; one of ifile.* is for our
    /// exchange alone
    #[arg(long, value_name = "OPTION=VALUE", value_parser = parse_option)]
    pub(crate) set: Vec<String>,

    /// How often each query runs with each engine
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// Compare with the stored answers of scale 1 [default DIR: tests/golden/tpcds/answers-sf1]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = DEFAULT_ANSWERS)]
    pub(crate) verify: Option<PathBuf>,

    /// Seconds after which a run is stopped
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,

    /// Write one JSON object per run into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Run the queries with each of these memory limits, as 1GB,256MB,64MB,none
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["memory_limit", "json", "runs"])]
    pub(crate) sweep: Vec<MemoryLimit>,

    /// File that a sweep appends its results to [default: below target/tpcds/results]
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,

    /// Write a page with charts of the runs (with --runs, of those of median time); of those in --results alone, without --sweep
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,

    /// Query whose memory is followed over time for the report [default: 72, or the first]
    #[arg(long, value_name = "QUERY")]
    pub(crate) timeline: Option<String>,

    /// Write a list of the queries with their joins, exchanges and shuffled bytes, as Markdown
    #[arg(long, value_name = "FILE.md", conflicts_with_all = ["sweep", "report", "json", "runs"])]
    pub(crate) list: Option<PathBuf>,

    /// One run, described as JSON: what the job starts its child processes with
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// Checks the form of `OPTION=VALUE`.
fn parse_option(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("an option is given as OPTION=VALUE".to_owned()),
    }
}

const DEFAULT_ANSWERS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tpcds/answers-sf1");

impl Args {
    /// Checks what a single flag cannot know.
    ///
    /// # Errors
    ///
    /// Fails when `--verify` meets a scale that has no stored answers or a directory that does not exist, and
    /// when a flag has no meaning without another.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.sweep.is_empty() && self.pool.len() > 1 {
            return Err("--pool: several pools are for a --sweep".to_owned());
        }
        if self.sweep.is_empty() && self.results.is_some() && self.report.is_none() {
            return Err("--results: the file is for a --sweep or a --report".to_owned());
        }
        if self.timeline.is_some() && self.sweep.is_empty() && self.report.is_none() {
            return Err("--timeline: the query is drawn in a --report".to_owned());
        }
        let Some(answers) = &self.verify else { return Ok(()) };
        if self.scale != 1.0 {
            return Err(format!(
                "--verify: the stored answers are those of --scale 1, not of --scale {}",
                self.scale
            ));
        }
        if !answers.is_dir() {
            return Err(format!("--verify: {} is not a directory", answers.display()));
        }
        Ok(())
    }

    /// The limits and pools to run with.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let is_sweep = !self.sweep.is_empty();
        let pools: &[PoolKind] = match (self.pool.as_slice(), is_sweep) {
            ([], false) => &[PoolKind::Fair],
            ([], true) => &[PoolKind::Fair, PoolKind::Greedy],
            (pools, _) => pools,
        };
        let limits = if is_sweep { &self.sweep } else { std::slice::from_ref(&self.memory_limit) };
        let mut settings = Vec::new();
        for limit in limits.iter().copied() {
            // Without a limit there is nothing to share.
            let pools = if limit.0.is_none() { pools.get(..1).unwrap_or(pools) } else { pools };
            for setting in pools.iter().map(|pool| Setting { limit, pool: *pool }) {
                if !settings.contains(&setting) {
                    settings.push(setting);
                }
            }
        }
        settings
    }

    /// The pool of a job that has one.
    pub(crate) fn single_pool(&self) -> PoolKind {
        self.pool.first().copied().unwrap_or(PoolKind::Fair)
    }

    /// The directory of the answers that the runs have to meet.
    pub(crate) fn answers(&self) -> Option<&Path> {
        let stored = Path::new(DEFAULT_ANSWERS);
        let of_sweep = !self.sweep.is_empty() && self.scale == 1.0 && stored.is_dir();
        self.verify.as_deref().or_else(|| of_sweep.then_some(stored))
    }

    /// The engines in the order in which run `run` starts them.
    pub(crate) fn engines(&self, run: u32) -> Vec<Engine> {
        match self.engine {
            EngineChoice::Stock => vec![Engine::Stock],
            EngineChoice::Ifile => vec![Engine::Ifile],
            EngineChoice::Both if run.is_multiple_of(2) => vec![Engine::Stock, Engine::Ifile],
            EngineChoice::Both => vec![Engine::Ifile, Engine::Stock],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    /// DataFusion's RepartitionExec
    Stock,
    /// IFileRepartitionExec
    Ifile,
    /// Both, compared with each other
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    Stock,
    Ifile,
}

impl Display for Engine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stock => "stock",
            Self::Ifile => "ifile",
        })
    }
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PoolKind {
    /// Each spillable consumer gets an equal share
    Fair,
    /// First come, first served
    Greedy,
}

impl Display for PoolKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fair => "fair",
            Self::Greedy => "greedy",
        })
    }
}

/// The memory that a run has, and how it is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Setting {
    pub(crate) limit: MemoryLimit,
    pub(crate) pool: PoolKind,
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.limit.0 {
            None => f.pad("no limit"),
            Some(_) => f.pad(&format!("{} {}", self.limit, self.pool)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JoinKind {
    /// Hash joins
    Hash,
    /// Sort-merge joins
    SortMerge,
}

/// Bytes, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct MemoryLimit(pub(crate) Option<u64>);

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        if lower == "none" {
            return Ok(Self(None));
        }
        let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
        let (number, unit) = lower.split_at(end);
        let shift = match unit.trim() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            other => return Err(format!("unknown unit `{other}`: expected KB, MB, GB or none")),
        };
        let number: f64 =
            number.parse().map_err(|_| format!("`{text}` is not a size such as 256MB, or none"))?;
        let bytes = number * f64::from(1_u32 << shift);
        if !(1.0..=9.0e15).contains(&bytes) {
            return Err(format!("`{text}` is out of range: expected 1 byte up to 8 PB"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        Ok(Self(Some(bytes as u64)))
    }
}

impl Display for MemoryLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("no limit"),
            Some(bytes) => f.write_str(&crate::report::bytes(bytes)),
        }
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale > 0.0 && scale <= 100_000.0 => Ok(scale),
        _ => Err("expected a number above 0, at most 100000".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1.0e6 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds above 0, at most 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("tpcds").chain(args.iter().copied()))
    }

    #[test]
    fn no_flags_mean_256_mb_8_partitions_and_both_engines() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.memory_limit, MemoryLimit(Some(256 << 20)));
        assert_eq!((args.partitions, args.runs, args.scale), (8, 1, 1.0));
        assert_eq!(args.engines(0), [Engine::Stock, Engine::Ifile]);
        assert_eq!(args.engines(1), [Engine::Ifile, Engine::Stock]);
        assert!(args.verify.is_none() && args.json.is_none());
    }

    #[test]
    fn a_sweep_has_both_pools_for_each_limit() {
        let settings = |flags: &[&str]| -> Vec<String> {
            let settings = parse(flags).unwrap().settings();
            settings.iter().map(ToString::to_string).collect()
        };
        assert_eq!(settings(&[]), ["256 MB fair"]);
        assert_eq!(
            settings(&["--sweep", "1GB,64MB,none"]),
            ["1.00 GB fair", "1.00 GB greedy", "64 MB fair", "64 MB greedy", "no limit"]
        );
        assert_eq!(settings(&["--sweep", "64MB,64MB", "--pool", "greedy"]), ["64 MB greedy"]);
        assert_eq!(settings(&["--pool", "greedy"]), ["256 MB greedy"]);
    }

    #[test]
    fn flags_that_need_another_say_so() {
        for (flags, expected) in [
            (["--pool", "fair,greedy"], "several pools are for a --sweep"),
            (["--results", "x"], "for a --sweep or a --report"),
        ] {
            let error = parse(&flags).unwrap().check().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        parse(&["--sweep", "1GB", "--memory-limit", "1GB"]).unwrap_err();
    }

    #[test]
    fn verify_has_a_default_directory() {
        assert!(parse(&["--verify"]).unwrap().verify.unwrap().ends_with("tpcds/answers-sf1"));
        assert_eq!(parse(&["--verify", "x"]).unwrap().verify.unwrap(), PathBuf::from("x"));
    }

    #[test]
    fn verify_needs_scale_1() {
        let error = parse(&["--verify", "--scale", "10"]).unwrap().check().unwrap_err();
        assert!(error.contains("--scale 1, not of --scale 10"), "{error}");
    }

    #[test]
    fn sizes_have_units_in_powers_of_1024() {
        for (text, bytes) in [("1", 1), ("64k", 65_536), ("1.5MB", 1_572_864), ("2GiB", 2 << 30)] {
            assert_eq!(text.parse(), Ok(MemoryLimit(Some(bytes))), "{text}");
        }
        assert_eq!("none".parse(), Ok(MemoryLimit(None)));
    }

    #[test]
    fn bad_values_name_what_is_expected() {
        for (args, expected) in [
            (["--memory-limit", "12parsec"], "unknown unit `parsec`"),
            (["--memory-limit", "MB"], "is not a size such as 256MB"),
            (["--memory-limit", "0"], "is out of range"),
            (["--scale", "-1"], "expected a number above 0"),
            (["--partitions", "0"], "0 is not in 1..=100000"),
            (["--codec", "gzip"], "none, snappy, lz4, zstd"),
            (["--engine", "spark"], "[possible values: stock, ifile, both]"),
            (["--join", "loop"], "[possible values: hash, sort-merge]"),
            (["--timeout", "soon"], "expected a number of seconds"),
        ] {
            let error = parse(&[&args.join("=")]).unwrap_err().to_string();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }
}
