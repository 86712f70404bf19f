use std::path::Path;

use arrow::buffer::Buffer;
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

use super::*;
use crate::memory::{Held, Shares};

const KIB: usize = 1024;

struct Bench {
    plan: Arc<ScratchPlan>,
    writer: RunWriter,
    pool: Arc<dyn MemoryPool>,
}

impl Bench {
    fn new(dirs: &str, limit: Option<u64>, change: impl FnOnce(&mut ScratchPlan)) -> Self {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ledger = Ledger::new("exchange", &pool, Shares { most: 1.0, headroom: 0.0 });
        let mut plan = ScratchPlan::for_tests(&ledger, dirs, limit);
        change(&mut plan);
        let plan = Arc::new(plan);
        Self { writer: RunWriter::try_new(&plan).unwrap(), plan, pool }
    }

    /// Writes one block for each of `partitions`; the places of their blocks.
    fn write(&mut self, partitions: &[usize], block: usize) -> Result<Vec<Vec<StoredBlock>>> {
        let inputs = partitions.iter().map(|&partition| {
            let bytes = Buffer::from_vec(content(partition, block));
            let block = Block { bytes, rows: 1, raw_bytes: 3 * block };
            let block = Held::new(block, self.plan.ledger.empty());
            RunBlocks { partition, tag: (), blocks: vec![block] }
        });
        let run = self.writer.write(inputs.collect())?;
        assert_eq!(run.rows, partitions.len());
        Ok(run.stored.into_iter().map(|(_, blocks)| blocks).collect())
    }

    fn live(&self) -> usize {
        self.plan.metrics.live.value()
    }

    fn charged(&self) -> usize {
        self.plan.metrics.charged.value()
    }

    /// Nothing is left once everything is dropped.
    fn end(self) {
        let Self { plan, writer, pool } = self;
        drop(writer);
        assert_eq!((plan.metrics.live.value(), plan.metrics.charged.value()), (0, 0));
        assert_eq!((plan.disk.used_disk_space(), plan.query.quota.used()), (0, 0));
        assert_eq!(pool.reserved(), 0);
    }
}

fn content(partition: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (partition * 31 + at * 7 + at / 250).to_le_bytes()[0]).collect()
}

fn check(blocks: &[Vec<StoredBlock>], partitions: &[usize], block: usize) {
    for (stored, &partition) in blocks.iter().zip(partitions) {
        let read = StoredBlock::read_all(&stored.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(read.len(), 1);
        assert!(read[0].as_slice() == content(partition, block), "partition {partition}");
    }
}

fn blocks_on_disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blocks() * 512
}

fn files_in(directory: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

fn scratch_bytes(directory: &Path) -> u64 {
    let files = files_in(directory).into_iter();
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "scratch"));
    files.map(|path| path.metadata().unwrap().len()).sum()
}

const PARTITIONS: [usize; 6] = [0, 1, 2, 5, 7, 9];

#[test]
fn consumed_ranges_of_the_disk_manager_are_reused_and_charged_once() {
    for punch_holes in [false, true] {
        let mut bench = Bench::new("", None, |plan| plan.punch_holes = punch_holes);
        let mut first = bench.write(&PARTITIONS, 40 * KIB).unwrap();
        let charged = bench.charged();
        assert_eq!(bench.plan.disk.used_disk_space(), charged as u64);
        assert_eq!(bench.live(), charged);
        first.drain(1..4);
        assert_eq!((bench.charged(), bench.live()), (charged, charged / 2));
        let second = bench.write(&[3, 4, 6], 40 * KIB).unwrap();
        assert_eq!((bench.charged(), bench.live()), (charged, charged), "no byte was appended");
        assert_eq!(bench.plan.metrics.reused.value(), charged / 2);
        let third = bench.write(&[8], 40 * KIB).unwrap();
        assert_eq!(bench.charged(), charged / 6 * 7);
        check(&first, &[0, 7, 9], 40 * KIB);
        check(&second, &[3, 4, 6], 40 * KIB);
        check(&third, &[8], 40 * KIB);
        drop((first, second, third));
        assert_eq!(bench.live(), 0);
        bench.end();
    }
}

#[test]
fn holes_give_blocks_back_and_keep_the_rest() {
    let mut bench = Bench::new("", None, |plan| plan.max_file_bytes = 1 << 30);
    let mut first = bench.write(&PARTITIONS, 100 * KIB).unwrap();
    let file = Arc::clone(&first[0][0].extent.file);
    let path = file.path().unwrap();
    if !punch::can_punch(path.parent().unwrap()) {
        return;
    }
    let before = blocks_on_disk(path);
    assert!(before >= bench.charged() as u64);
    first.drain(1..5);
    check(&first, &[0, 9], 100 * KIB);
    let punched = bench.plan.metrics.punched.value();
    assert!((390 * KIB..=400 * KIB).contains(&punched), "{punched}");
    // A file in pieces may need a page of the file system for the list of them.
    let pages = before - blocks_on_disk(path).min(before);
    assert!(pages + 16 * 1024 >= punched as u64, "{pages} of {punched} came back");
    check(&first, &[0, 9], 100 * KIB);
    assert_eq!(bench.plan.metrics.punched.value(), punched, "counted once");
    // Holes are written to again.
    let second = bench.write(&[3], 250 * KIB).unwrap();
    check(&second, &[3], 250 * KIB);
    check(&first, &[0, 9], 100 * KIB);
    assert_eq!(bench.plan.metrics.reused.value() as u64, second[0][0].extent.len);
    drop((first, second, file));
    bench.end();
}

#[test]
fn files_rotate_and_go_with_their_last_block() {
    let mut bench = Bench::new("", None, |plan| plan.max_file_bytes = 4096);
    let mut blocks = bench.write(&PARTITIONS, 5000).unwrap();
    let disk = Arc::clone(&bench.plan.disk);
    let files = || disk.spilling_progress().active_files_count;
    assert_eq!(files(), 6);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    check(&blocks, &PARTITIONS, 5000);
    let (open, live) = (descriptors(), files());
    blocks.drain(..5);
    assert_eq!(files(), 1);
    // Other tests open files as well, so this is not exact.
    assert!(descriptors() < open + live);
    drop(blocks);
    bench.end();
}

/// What is known of small segments takes little memory, and they are given back together.
#[test]
fn small_segments_share_an_extent() {
    let mut bench = Bench::new("", None, |_| {});
    let mut blocks = bench.write(&(0..300).collect::<Vec<_>>(), 1000).unwrap();
    assert!(bench.pool.reserved() <= 11 * super::stored::StoredExtent::HELD_BYTES);
    check(&blocks, &(0..300).collect::<Vec<_>>(), 1000);
    let live = bench.live();
    blocks.drain(..20);
    assert_eq!(bench.live(), live);
    blocks.drain(..100);
    assert!(bench.live() < live);
    drop(blocks);
    bench.end();
}

#[test]
fn metadata_of_free_ranges_is_charged() {
    let mut bench = Bench::new("", None, |plan| {
        plan.punch_holes = false;
        plan.max_file_bytes = 1 << 30;
    });
    let blocks = bench.write(&(0..200).collect::<Vec<_>>(), 40 * KIB).unwrap();
    let extent = super::stored::StoredExtent::HELD_BYTES;
    assert_eq!(bench.pool.reserved(), 200 * extent);
    let (even, odd): (Vec<_>, Vec<_>) =
        blocks.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    drop(even);
    assert_eq!(bench.pool.reserved(), 198 * super::ranges::RANGE_BYTES + 100 * extent);
    drop(odd);
    assert_eq!(bench.pool.reserved(), 0, "they are one");
    bench.end();
}

#[test]
fn the_best_priority_is_filled_first_and_its_directories_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let dirs = ["a:150KB:1", "b:150KB:1", "c::2", "d:0:0"]
        .map(|dir| format!("{}/{dir}", directory.path().display()))
        .join(",");
    let mut bench = Bench::new(&dirs, None, |plan| plan.punch_holes = false);
    let sizes = || ["a", "b", "c", "d"].map(|name| scratch_bytes(&at(name)) / (60 * KIB) as u64);
    let mut blocks = bench.write(&[0], 60 * KIB).unwrap();
    blocks.extend(bench.write(&[1], 60 * KIB).unwrap());
    assert_eq!(sizes(), [1, 1, 0, 0]);
    for partition in 2..6 {
        blocks.extend(bench.write(&[partition], 60 * KIB).unwrap());
    }
    assert_eq!(sizes(), [2, 2, 2, 0], "beyond the limit the next priority serves");
    assert_eq!(bench.charged() as u64, scratch_bytes(directory.path()));
    check(&blocks, &[0, 1, 2, 3, 4, 5], 60 * KIB);
    blocks.drain(..2);
    blocks.extend(bench.write(&[6, 7], 60 * KIB).unwrap());
    assert_eq!(sizes(), [2, 2, 4, 0], "written together they are too much for a gap");
    drop(blocks);
    bench.end();
    assert_eq!(files_in(directory.path()), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_directory_and_a_query_have_their_limits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    for (dirs, limit) in [(format!("{path}:100KB"), None), (format!("{path}"), Some(100 << 10))] {
        let mut bench = Bench::new(&dirs, limit, |_| {});
        let first = bench.write(&[0], 80 * KIB).unwrap();
        let error = bench.write(&[1], 80 * KIB).unwrap_err().to_string();
        for part in ["ifile.scratch_dirs", "ifile.scratch_limit", "exchange", "partitions 1"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        check(&first, &[0], 80 * KIB);
        drop(first);
        let second = bench.write(&[1], 80 * KIB).unwrap();
        check(&second, &[1], 80 * KIB);
        drop(second);
        bench.end();
    }
}

#[test]
fn a_device_that_fails_is_dropped_and_its_write_goes_to_the_next() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let path = directory.path().display();
    let dirs = format!("{path}/file::0,{path}/good::1");
    let mut bench = Bench::new(&dirs, None, |_| {});
    let blocks = bench.write(&PARTITIONS, 60 * KIB).unwrap();
    check(&blocks, &PARTITIONS, 60 * KIB);
    assert_eq!(bench.plan.metrics.dropped_devices.value(), 1, "it is not tried again");
    drop(blocks);
    bench.end();

    let mut bench = Bench::new(&format!("{path}/file"), None, |_| {});
    let error = bench.write(&[0], 100).unwrap_err();
    assert!(matches!(error.find_root(), datafusion::common::DataFusionError::IoError(_)));
    let again = bench.write(&[0], 100).unwrap_err().to_string();
    assert!(again.contains("/file failed: "), "{again}");
    bench.end();
}

/// With holes, a directory of 1 MiB serves any number of bytes that are consumed in time.
#[test]
fn what_is_consumed_does_not_count_against_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let dirs = format!("{}:1MB", directory.path().display());
    for punch_holes in [false, true] {
        let mut bench = Bench::new(&dirs, None, |plan| plan.punch_holes = punch_holes);
        for round in 0..50 {
            let block = (20 + 7 * (round % 5)) * KIB;
            let blocks = bench.write(&PARTITIONS, block).unwrap();
            check(&blocks, &PARTITIONS, block);
            assert!(bench.charged() <= 1 << 20);
        }
        assert_eq!(bench.live(), 0);
        bench.end();
    }
}

/// A file system of 1 MiB in `directory`, and a disk manager there; `None` where that is not allowed.
fn small_disk(directory: &Path) -> Option<Arc<DiskManager>> {
    use datafusion::execution::disk_manager::DiskManagerMode;
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(directory)
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let mode = DiskManagerMode::Directories(vec![directory.to_path_buf()]);
    Some(Arc::new(DiskManager::builder().with_mode(mode).build().unwrap()))
}

fn unmount(directory: &Path) {
    let unmounted = std::process::Command::new("umount").arg(directory).status().unwrap();
    assert!(unmounted.success());
}

/// The error is that of a full disk, and names the place.
fn assert_full(error: &datafusion::common::DataFusionError) {
    let message = error.to_string();
    assert!(message.contains("offset") && message.contains("partitions"), "{message}");
    match error.find_root() {
        datafusion::common::DataFusionError::IoError(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
}

/// A full disk is met before DataFusion's writer has charged anything.
#[test]
fn a_full_disk_is_met_before_the_charged_write() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(directory.path()) else { return };
    let mut bench = Bench::new("", None, |plan| plan.disk = disk);
    let kept = bench.write(&PARTITIONS, 100 * KIB).unwrap();
    let charged = bench.charged();
    assert_full(&bench.write(&PARTITIONS, 100 * KIB).unwrap_err());
    // What the failed run had appended is charged until its file is gone, nothing else is.
    assert!(bench.plan.disk.used_disk_space() >= charged as u64);
    check(&kept, &PARTITIONS, 100 * KIB);
    drop(kept);
    bench.end();
    unmount(directory.path());
}

/// A hole needs blocks again when it is written to. Its bytes are charged already.
#[test]
fn a_full_disk_is_met_in_a_hole() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(directory.path()) else { return };
    let mut bench = Bench::new("", None, |plan| plan.disk = disk);
    let mut kept = bench.write(&PARTITIONS, 100 * KIB).unwrap();
    let charged = bench.charged();
    kept.drain(1..4);
    check(&kept, &[0, 7, 9], 100 * KIB);
    let punched = bench.plan.metrics.punched.value();
    assert!(punched > 290 * KIB, "a read gives blocks back: {punched}");
    let filler = directory.path().join("filler");
    let filled = std::fs::write(&filler, vec![7; 1 << 20]).unwrap_err();
    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
    assert_full(&bench.write(&[3], 100 * KIB).unwrap_err());
    assert_eq!(bench.plan.disk.used_disk_space(), charged as u64);
    check(&kept, &[0, 7, 9], 100 * KIB);
    std::fs::remove_file(filler).unwrap();
    drop(kept);
    bench.end();
    unmount(directory.path());
}
