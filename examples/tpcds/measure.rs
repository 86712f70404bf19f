//! Measures this process from outside of the query: resident memory and open spill files.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::timeline::{Point, Watch};

const TICK: Duration = Duration::from_millis(5);

/// The unit in which the system counts the size of a file on disk.
const BLOCK_BYTES: u64 = 512;

/// The unit of times in `/proc`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// What happened between [`Meter::start`] and [`Meter::stop`].
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Processor time of all threads.
    pub(crate) cpu_seconds: f64,
    /// How far the resident set rose above its size at the start, at most.
    pub(crate) resident_growth_bytes: u64,
    /// Most files in the spill directory at a time, those that are only open (already unlinked) included.
    pub(crate) files_peak: usize,
    /// Most descriptors of such files at a time.
    pub(crate) descriptors_peak: usize,
    /// Empty when nobody asked for it.
    pub(crate) points: Vec<Point>,
}

/// Follows the process. The kernel's own peak is exact where the process may reset it; where it may not, and
/// for the files, a thread looks every few milliseconds, so that a shorter peak is missed.
pub(crate) struct Meter {
    start_cpu_seconds: f64,
    start_bytes: u64,
    kernel_peak: bool,
    stop: Arc<AtomicBool>,
    sampler: JoinHandle<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    resident_bytes: u64,
    files: SpillFiles,
    points: Vec<Point>,
}

/// The files of the spill directory at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SpillFiles {
    files: usize,
    descriptors: usize,
    /// Bytes of their blocks; zero unless asked for.
    bytes: u64,
}

impl Meter {
    /// Starts to measure; with a `watch` it also follows the run over time.
    pub(crate) fn start(spill_dir: &Path, watch: Option<Watch>) -> Self {
        let kernel_peak = fs::write("/proc/self/clear_refs", "5").is_ok();
        let start_bytes = status_bytes("VmRSS:").unwrap_or(0);
        let stop = Arc::new(AtomicBool::new(false));
        let sampler = {
            let stop = Arc::clone(&stop);
            let spill_dir = spill_dir.to_path_buf();
            thread::spawn(move || sample(&stop, &spill_dir, watch.as_ref()))
        };
        Self { start_cpu_seconds: cpu_seconds(), start_bytes, kernel_peak, stop, sampler }
    }

    pub(crate) fn stop(self) -> Measured {
        let cpu_seconds = cpu_seconds() - self.start_cpu_seconds;
        let kernel_peak = if self.kernel_peak { status_bytes("VmHWM:") } else { None };
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.sampler.join().unwrap_or_default();
        let peak_bytes = kernel_peak.unwrap_or(samples.resident_bytes);
        Measured {
            cpu_seconds,
            resident_growth_bytes: peak_bytes.saturating_sub(self.start_bytes),
            files_peak: samples.files.files,
            descriptors_peak: samples.files.descriptors,
            points: samples.points,
        }
    }
}

fn sample(stop: &AtomicBool, spill_dir: &Path, watch: Option<&Watch>) -> Samples {
    let mut peak = Samples::default();
    let start = Instant::now();
    loop {
        // Reads before it looks at the flag: even the shortest run has one sample.
        peak.resident_bytes = peak.resident_bytes.max(status_bytes("VmRSS:").unwrap_or(0));
        let now = spill_files(spill_dir, watch.is_some());
        peak.files.files = peak.files.files.max(now.files);
        peak.files.descriptors = peak.files.descriptors.max(now.descriptors);
        if let Some(watch) = watch {
            peak.points.push(watch.look(start.elapsed().as_secs_f64(), now.bytes));
        }
        if stop.load(Ordering::Relaxed) {
            return peak;
        }
        thread::sleep(TICK);
    }
}

fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse_cpu_seconds(&stat).unwrap_or(0.0)
}

/// User and system time are the fields 14 and 15; field 2 is the name in parentheses, which may hold anything.
fn parse_cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(f64::from(user + system) / TICKS_PER_SECOND)
}

/// A line of `/proc/self/status` such as `VmRSS:   1234 kB`.
fn status_bytes(key: &str) -> Option<u64> {
    parse_status(&fs::read_to_string("/proc/self/status").ok()?, key)
}

fn parse_status(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn spill_files(dir: &Path, with_bytes: bool) -> SpillFiles {
    let mut files = HashSet::new();
    collect_files(dir, &mut files);
    let blocks = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.blocks() * BLOCK_BYTES);
    let mut bytes = if with_bytes { files.iter().map(|path| blocks(path)).sum() } else { 0 };
    let mut descriptors = 0;
    for descriptor in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        if let Ok(target) = fs::read_link(descriptor.path())
            && target.starts_with(dir)
            && !target.is_dir()
        {
            descriptors += 1;
            // What is not in the directory any more is reached through its descriptor.
            if files.insert(target) && with_bytes {
                bytes += blocks(&descriptor.path());
            }
        }
    }
    SpillFiles { files: files.len(), descriptors, bytes }
}

fn collect_files(dir: &Path, files: &mut HashSet<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&entry.path(), files),
            Ok(_) => {
                files.insert(entry.path());
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_follows_touched_memory() {
        let dir = tempfile::tempdir().unwrap();
        let meter = Meter::start(dir.path(), None);
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        drop(touched);
        let measured = meter.stop();
        assert!(measured.resident_growth_bytes >= 60 << 20, "{measured:?}");
    }

    #[test]
    fn linked_and_unlinked_files_count_once_each() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("nested");
        fs::create_dir(&nested).unwrap();
        let open_twice = fs::File::create(nested.join("linked")).unwrap();
        let clone = open_twice.try_clone().unwrap();
        let unlinked = fs::File::create(dir.path().join("unlinked")).unwrap();
        fs::remove_file(dir.path().join("unlinked")).unwrap();
        fs::write(dir.path().join("closed"), "x").unwrap();
        fs::write(dir.path().join("large"), vec![1; 64 << 10]).unwrap();
        let open = spill_files(dir.path(), true);
        assert_eq!((open.files, open.descriptors), (4, 3));
        assert!(open.bytes >= 64 << 10, "{open:?}");
        drop((open_twice, clone, unlinked));
        let closed = spill_files(dir.path(), false);
        assert_eq!(closed, SpillFiles { files: 3, descriptors: 0, bytes: 0 });
    }

    #[test]
    fn cpu_time_is_user_and_system_time() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 3 0";
        assert_eq!(parse_cpu_seconds(stat), Some(1.75));
        assert_eq!(parse_cpu_seconds("7 (x) S 1 2"), None);
    }

    #[test]
    fn status_lines_are_in_kilobytes() {
        assert_eq!(parse_status("VmHWM:\t   12 kB\nVmRSS:\t  7 kB\n", "VmRSS:"), Some(7 * 1024));
        assert_eq!(parse_status("VmHWM:\t   12 kB\n", "VmRSS:"), None);
    }
}
