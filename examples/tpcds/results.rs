//! The file of a sweep: a line that says what was run, then a line per result, appended as they come.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::args::{Args, Engine, JoinKind, MemoryLimit, PoolKind, Setting};
use crate::judge::Judged;
use crate::protocol::{Outcome, Status};
use crate::queries::Query;

/// What makes results comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) scale: f64,
    pub(crate) partitions: u32,
    pub(crate) codec: String,
    pub(crate) join: JoinKind,
    /// Options of the sessions, as `name=value`.
    pub(crate) set: Vec<String>,
    pub(crate) timeout_seconds: f64,
    /// Whether answers were compared with the stored ones.
    pub(crate) verified: bool,
    /// Digest of the program.
    pub(crate) build: String,
}

/// The first line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) settings: Settings,
    /// Seconds since 1970.
    pub(crate) started: u64,
    pub(crate) cores: usize,
}

impl Run {
    /// # Errors
    ///
    /// Fails when the program cannot be read.
    pub(crate) fn new(args: &Args) -> Result<Self> {
        let mut program = Sha256::new();
        io::copy(&mut File::open(std::env::current_exe()?)?, &mut HashWriter(&mut program))?;
        let settings = Settings {
            scale: args.scale,
            partitions: args.partitions,
            codec: args.codec.clone(),
            join: args.join,
            set: args.set.clone(),
            timeout_seconds: args.timeout.as_secs_f64(),
            verified: args.answers().is_some(),
            build: short(program),
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { settings, started, cores })
    }

    /// The file of this run below `dir`.
    ///
    /// # Errors
    ///
    /// Fails when the settings cannot be written as JSON.
    pub(crate) fn path(&self, dir: &Path) -> Result<PathBuf> {
        let key = short(Sha256::new().chain_update(serde_json::to_vec(&self.settings)?));
        let Settings { scale, partitions, .. } = self.settings;
        Ok(dir.join(format!("sf{scale}-{partitions}p-{key}.jsonl")))
    }
}

/// Feeds a digest.
struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Enough of a digest to tell files apart.
fn short(digest: Sha256) -> String {
    digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// One run of one query.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) query: String,
    /// Digest of the text of the query.
    sql: String,
    limit: MemoryLimit,
    pool: PoolKind,
    pub(crate) engine: Engine,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    pub(crate) agrees: Option<bool>,
    pub(crate) verified: Option<bool>,
}

impl Cell {
    /// # Errors
    ///
    /// Fails when the query cannot be read.
    pub(crate) fn new(query: &Query, setting: Setting, run: &Judged) -> Result<Self> {
        Ok(Self {
            query: query.name.clone(),
            sql: sql_digest(query)?,
            limit: setting.limit,
            pool: setting.pool,
            engine: run.engine,
            outcome: run.outcome.clone(),
            agrees: run.agrees,
            verified: run.verified,
        })
    }

    pub(crate) fn setting(&self) -> Setting {
        Setting { limit: self.limit, pool: self.pool }
    }

    /// What is there once in a run.
    fn key(&self) -> (String, Setting, Engine) {
        (self.query.clone(), self.setting(), self.engine)
    }
}

fn sql_digest(query: &Query) -> Result<String> {
    let text = fs::read(&query.path).map_err(|e| format!("{}: {e}", query.path.display()))?;
    Ok(short(Sha256::new().chain_update(text)))
}

/// An open file of results.
pub(crate) struct Results {
    path: PathBuf,
    file: File,
    pub(crate) run: Run,
    pub(crate) cells: Vec<Cell>,
}

impl Results {
    /// Opens the file to go on with what it has, or makes it.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be used, or holds another run.
    pub(crate) fn open(path: &Path, run: Run) -> Result<Self> {
        let failed = |e: io::Error| format!("{}: {e}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        // A run that was killed may have left a part of a line.
        let bytes = fs::read(path).map_err(failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let is_new = whole == 0 && could_be_run(&bytes);
        let (run, cells) = if is_new { (run, Vec::new()) } else { Self::resume(path, &run)? };
        file.set_len(u64::try_from(whole)?).map_err(failed)?;
        let mut results = Self { path: path.to_owned(), file, run, cells };
        if is_new {
            let line = serde_json::to_string(&results.run)? + "\n";
            results.write(&line)?;
        }
        Ok(results)
    }

    fn resume(path: &Path, run: &Run) -> Result<(Run, Vec<Cell>)> {
        let (found, cells) = read(path)?;
        if found.settings != run.settings {
            let error = "holds a run of other settings or of another build; name another file";
            return Err(format!("{}: {error}", path.display()).into());
        }
        Ok((found, cells))
    }

    /// Whether the query, as it is written now, has been run with this setting by `engines`.
    ///
    /// # Errors
    ///
    /// Fails when the query cannot be read.
    pub(crate) fn has(&self, query: &Query, setting: Setting, engines: &[Engine]) -> Result<bool> {
        let sql = sql_digest(query)?;
        Ok(engines.iter().all(|engine| {
            self.cells.iter().any(|cell| {
                cell.engine == *engine
                    && cell.setting() == setting
                    && cell.query == query.name
                    && cell.sql == sql
            })
        }))
    }

    /// Adds results that belong together.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub(crate) fn append(&mut self, cells: Vec<Cell>) -> Result<()> {
        let mut lines = String::new();
        for cell in &cells {
            lines.push_str(&serde_json::to_string(cell)?);
            lines.push('\n');
        }
        self.write(&lines)?;
        self.cells = last_of_equal(self.cells.drain(..).chain(cells));
        Ok(())
    }

    fn write(&mut self, lines: &str) -> Result<()> {
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|e| format!("{}: {e}", self.path.display()).into())
    }
}

/// Reads a file of results; the last of equal runs counts.
///
/// # Errors
///
/// Fails when the file cannot be read or is no such file.
pub(crate) fn read(path: &Path) -> Result<(Run, Vec<Cell>)> {
    let place = |line: usize, error: String| format!("{}: line {line}: {error}", path.display());
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    let first = lines.next().map_or(&[][..], |(_, line)| line);
    let run = serde_json::from_slice(first).map_err(|e| place(1, e.to_string()))?;
    let cells = lines.filter(|(_, line)| line.ends_with(b"\n")).map(|(number, line)| {
        serde_json::from_slice(line).map_err(|e| place(number + 1, e.to_string()))
    });
    Ok((run, last_of_equal(cells.collect::<std::result::Result<Vec<_>, _>>()?)))
}

/// Whether these are the first bytes of a run's line, or none.
fn could_be_run(bytes: &[u8]) -> bool {
    let start = b"{\"settings\":";
    let len = bytes.len().min(start.len());
    bytes.get(..len) == start.get(..len)
}

/// The cells that count, in the order in which their first ones came.
fn last_of_equal(all: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut places = HashMap::new();
    for cell in all {
        let index = *places.entry(cell.key()).or_insert(cells.len());
        match cells.get_mut(index) {
            Some(older) => *older = cell,
            None => cells.push(cell),
        }
    }
    cells
}

/// One cell for each query, setting and engine: one that did not end well, or the one of median time.
pub(crate) fn medians(cells: Vec<Cell>) -> Vec<Cell> {
    let mut groups: Vec<Vec<Cell>> = Vec::new();
    let mut places = HashMap::new();
    for cell in cells {
        let index = *places.entry(cell.key()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    let median = |mut group: Vec<Cell>| {
        group.sort_by(|one, other| one.outcome.seconds.total_cmp(&other.outcome.seconds));
        let bad = group.iter().position(|cell| cell.outcome.status != Status::Ok);
        group.swap_remove(bad.unwrap_or(group.len() / 2))
    };
    groups.into_iter().map(median).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;
    use crate::suite::Suite;

    fn cell(query: &Query, engine: Engine, seconds: f64) -> Cell {
        let outcome = Outcome::new(Status::Ok, None, seconds);
        let setting = Setting { limit: MemoryLimit(Some(64 << 20)), pool: PoolKind::Fair };
        Cell::new(query, setting, &Judged::new(engine, outcome, PathBuf::new())).unwrap()
    }

    struct Bench {
        dir: tempfile::TempDir,
        query: Query,
        run: Run,
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("q01.sql");
            fs::write(&path, "select 1").unwrap();
            let query = Query { name: "q01".to_owned(), path, suite: Suite::Tpcds, answer: None };
            let run = Run::new(&Args::parse_from(["tpcds"])).unwrap();
            Self { dir, query, run }
        }

        fn path(&self) -> PathBuf {
            self.run.path(&self.dir.path().join("results")).unwrap()
        }

        fn open(&self) -> Result<Results> {
            Results::open(&self.path(), self.run.clone())
        }

        fn has(&self, results: &Results) -> bool {
            let setting = Setting { limit: MemoryLimit(Some(64 << 20)), pool: PoolKind::Fair };
            results.has(&self.query, setting, &[Engine::Stock, Engine::Ifile]).unwrap()
        }
    }

    #[test]
    fn a_run_goes_on_after_its_last_whole_line() {
        let bench = Bench::new();
        let mut results = bench.open().unwrap();
        results.append(vec![cell(&bench.query, Engine::Stock, 1.0)]).unwrap();
        assert!(!bench.has(&results));
        results.append(vec![cell(&bench.query, Engine::Ifile, 2.0)]).unwrap();
        results.write("{\"query\": \"q0").unwrap();
        drop(results);

        let mut results = bench.open().unwrap();
        assert!(bench.has(&results) && results.cells.len() == 2);
        results.append(vec![cell(&bench.query, Engine::Ifile, 3.0)]).unwrap();
        let (_, cells) = read(&bench.path()).unwrap();
        for cells in [&cells, &results.cells] {
            let seconds: Vec<f64> = cells.iter().map(|cell| cell.outcome.seconds).collect();
            assert_eq!(seconds, [1.0, 3.0]);
        }
    }

    #[test]
    fn a_run_that_was_killed_in_its_first_line_begins_again() {
        let bench = Bench::new();
        bench.open().unwrap();
        let path = bench.path();
        let line = fs::read(&path).unwrap();
        for len in [0, 5, line.len() - 1] {
            fs::write(&path, &line[..len]).unwrap();
            assert_eq!(bench.open().unwrap().cells.len(), 0);
            assert_eq!(read(&path).unwrap().0.settings, bench.run.settings, "{len} bytes");
        }
        // In the middle of a letter of more than one byte.
        let mut results = bench.open().unwrap();
        results.append(vec![cell(&bench.query, Engine::Stock, 1.0)]).unwrap();
        results.file.write_all(b"{\"query\":\"\xc3").unwrap();
        assert_eq!(bench.open().unwrap().cells.len(), 1);
    }

    #[test]
    fn of_several_runs_a_bad_one_counts_or_that_of_median_time() {
        let bench = Bench::new();
        let times = |times: &[f64]| -> Vec<Cell> {
            times.iter().map(|time| cell(&bench.query, Engine::Stock, *time)).collect()
        };
        assert_eq!(medians(times(&[5.0, 1.0, 3.0]))[0].outcome.seconds, 3.0);
        let mut cells = times(&[5.0, 1.0, 3.0]);
        cells[0].outcome.status = Status::Wrong;
        let found = medians(cells);
        assert_eq!((found.len(), found[0].outcome.status), (1, Status::Wrong));
    }

    #[test]
    fn a_query_that_was_rewritten_runs_again() {
        let bench = Bench::new();
        let mut results = bench.open().unwrap();
        let both = [Engine::Stock, Engine::Ifile].map(|engine| cell(&bench.query, engine, 1.0));
        results.append(both.into()).unwrap();
        fs::write(&bench.query.path, "select 2").unwrap();
        assert!(!bench.has(&results));
    }

    #[test]
    fn another_run_is_not_mixed_in() {
        let mut bench = Bench::new();
        let path = bench.path();
        bench.open().unwrap();
        bench.run.settings.partitions = 3;
        assert_ne!(bench.path(), path);
        let error = Results::open(&path, bench.run).err().unwrap().to_string();
        assert!(error.contains("holds a run of other settings"), "{error}");
    }

    #[test]
    fn a_file_of_something_else_names_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        fs::write(&path, "hello\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("x.jsonl: line 1: expected value"), "{error}");
    }
}
