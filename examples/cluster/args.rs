//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::roles::{Engine, Role};

/// Queries whose shuffles are large.
const QUERIES: &str = "4,11,23,64,67,72,74,75,78,95";

/// Runs TPC-DS on a cluster of Ballista, with its own shuffles and with those of this crate.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Scale factor of TPC-DS.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Queries of sql/tpcds, or `all`.
    #[arg(long, value_delimiter = ',', default_value = QUERIES)]
    pub(crate) queries: Vec<String>,
    /// Who runs the hash shuffles.
    #[arg(long, value_delimiter = ',', default_value = "stock,ifile")]
    engine: Vec<Engine>,
    /// How the scheduler plans.
    #[arg(long, value_delimiter = ',', default_value = "static,adaptive")]
    planner: Vec<Planner>,
    /// Whether outputs on the same machine are fetched like others.
    #[arg(long, value_delimiter = ',', default_value = "off,on")]
    remote: Vec<Switch>,
    /// Executors.
    #[arg(long, default_value_t = 3)]
    pub(crate) executors: usize,
    /// Memory pool of each executor, as `512MB`; none unless given.
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Writes one JSON object per run to this file, as an array.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Partitions of every exchange.
    #[arg(long, default_value_t = 8)]
    pub(crate) partitions: usize,
    /// Partitions that an executor works on at a time.
    #[arg(long, default_value_t = 2)]
    pub(crate) vcores: usize,
    /// At the end an executor is killed in the middle of this query; `none` for no such run.
    #[arg(long, default_value = "64")]
    kill: String,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Planner {
    Static,
    Adaptive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    Off,
    On,
}

impl Args {
    pub(crate) fn engines(&self) -> Vec<Engine> {
        self.engine.clone()
    }

    /// Whether the planner is adaptive, of each.
    pub(crate) fn planners(&self) -> Vec<bool> {
        self.planner.iter().map(|planner| *planner == Planner::Adaptive).collect()
    }

    /// The query in whose middle an executor is killed.
    pub(crate) fn kill(&self) -> Option<&str> {
        (self.kill != "none").then_some(&self.kill)
    }

    pub(crate) fn remotes(&self) -> Vec<bool> {
        self.remote.iter().map(|remote| *remote == Switch::On).collect()
    }
}

/// A number of bytes with one of the suffixes `KB`, `MB`, `GB`, powers of 1024.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let suffixes = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("", 1)];
    let parsed = suffixes.into_iter().find_map(|(suffix, unit)| {
        let number: u64 = text.strip_suffix(suffix)?.trim().parse().ok()?;
        number.checked_mul(unit)
    });
    parsed.ok_or_else(|| format!("expected bytes as 512MB, found {text}"))
}
