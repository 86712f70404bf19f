//! Generates the tables as Parquet.
//!
//! A table is a directory of files `part-0000.parquet`, ... It is made under the name `<table>.partial`, each
//! file with a temporary name until it is whole, and renamed when all files are there: a directory with the
//! name of a table is always complete, and a run that was stopped goes on with the first file that is missing.

use std::fs::{self, File};
use std::io::BufWriter;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::Result;
use crate::suite::{Source, Suite};

const ROW_GROUP_ROWS: usize = 128 * 1024;

/// Makes every table of the suite that is not in `dir` yet.
///
/// # Errors
///
/// Fails when a file cannot be written, or when another process generates into `dir`.
pub(crate) fn generate(dir: &Path, suite: Suite, scale: f64) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut missing = suite.sources(scale)?;
    missing.retain(|source| !dir.join(source.name).is_dir());
    if missing.is_empty() {
        return Ok(());
    }
    let lock = File::create(dir.join(".lock"))?;
    lock.try_lock()
        .map_err(|e| format!("{}: another process generates here: {e}", dir.display()))?;

    let start = Instant::now();
    eprintln!("generating {} tables of scale {scale} in {}", missing.len(), dir.display());
    let bars = MultiProgress::new();
    let jobs: Vec<Job> = missing.into_iter().map(|source| Job::new(dir, source)).collect();
    run_all(&jobs, &bars)?;
    eprintln!("generated in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Works on the files of all jobs with one thread per core; the first error stops them.
fn run_all(jobs: &[Job], bars: &MultiProgress) -> Result<()> {
    let pieces: Vec<(&Job, u64)> =
        jobs.iter().flat_map(|job| (0..job.source.files).map(move |file| (job, file))).collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || -> Result<()> {
        while !failed.load(Ordering::Relaxed)
            && let Some((job, file)) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Err(error) = job.make(*file, bars, &failed) {
                failed.store(true, Ordering::Relaxed);
                return Err(format!("table {}: {error}", job.source.name).into());
            }
        }
        Ok(())
    };
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => Err("a generator panicked".into()),
        })
    })
}

struct Job {
    source: Source,
    dir: PathBuf,
    partial_dir: PathBuf,
    files_left: AtomicU64,
    bar: ProgressBar,
    bar_shown: AtomicBool,
}

impl Job {
    fn new(dir: &Path, source: Source) -> Self {
        Self {
            dir: dir.join(source.name),
            partial_dir: dir.join(format!("{}.partial", source.name)),
            files_left: AtomicU64::new(source.files),
            source,
            bar: ProgressBar::hidden(),
            bar_shown: AtomicBool::new(false),
        }
    }

    /// Makes file number `file`, and gives the table its name when it was the last one.
    fn make(&self, file: u64, bars: &MultiProgress, stop: &AtomicBool) -> Result<()> {
        self.show_bar(bars);
        fs::create_dir_all(&self.partial_dir)?;
        let Source { units, files, .. } = self.source;
        let (first, last) = (units * file / files + 1, units * (file + 1) / files);
        let path = self.partial_dir.join(format!("part-{file:04}.parquet"));
        if path.exists() {
            self.bar.inc(last + 1 - first);
        } else {
            let unfinished = path.with_extension("tmp");
            self.write(&unfinished, first, last, stop)?;
            fs::rename(&unfinished, &path)?;
        }
        if self.files_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            fs::rename(&self.partial_dir, &self.dir)?;
            self.bar.finish();
        }
        Ok(())
    }

    fn write(&self, path: &Path, first: u64, last: u64, stop: &AtomicBool) -> Result<()> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        let schema = Arc::clone(&self.source.schema);
        let sink = BufWriter::new(File::create(path)?);
        let mut writer = ArrowWriter::try_new(sink, schema, Some(properties))?;
        let mut step_first = first;
        while step_first <= last {
            if stop.load(Ordering::Relaxed) {
                return Err("stopped, another table failed".into());
            }
            let step_last = last.min(step_first + self.source.step - 1);
            for batch in self.source.batches(step_first, step_last) {
                writer.write(&batch?)?;
            }
            self.bar.inc(step_last + 1 - step_first);
            step_first = step_last + 1;
        }
        let sink = writer.into_inner()?;
        sink.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        Ok(())
    }

    /// Adds the bar when the table is begun, so that only tables in work take a line. Off a terminal there is none.
    fn show_bar(&self, bars: &MultiProgress) {
        if self.bar_shown.swap(true, Ordering::AcqRel) || !std::io::stderr().is_terminal() {
            return;
        }
        let style =
            ProgressStyle::with_template("{prefix:>22} {bar:32} {percent:>3}% {elapsed:>4}");
        self.bar.set_length(self.source.units);
        self.bar.set_prefix(self.source.name);
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bars.add(self.bar.clone());
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }
}
