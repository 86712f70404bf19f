//! What a file system can do beyond reading and writing: give back the blocks of a range, and promise
//! those of one that is to be written.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Holes begin and end at multiples of this.
const PAGE: u64 = 4096;

/// What the names of files that a probe makes begin with.
pub(super) const PROBE_PREFIX: &str = ".datafusion-ifile-probe-";

/// Bytes of the file that a probe writes and punches.
const PROBE_BYTES: u64 = 16 * PAGE;

/// The whole pages in `range`.
pub(super) fn pages(range: &Range<u64>) -> Range<u64> {
    let start = range.start.next_multiple_of(PAGE);
    start..(range.end / PAGE * PAGE).max(start)
}

/// Frees the blocks of `range`, which reads as zeros from then on.
#[cfg(target_os = "linux")]
pub(super) fn punch(file: &File, range: &Range<u64>) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, range.start, range.end - range.start)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn punch(_file: &File, _range: &Range<u64>) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Makes sure that there are blocks for `range`, so that a full disk is met before a write. Where the
/// file system cannot promise that, the write has to tell.
///
/// # Errors
/// If the disk is full.
#[cfg(target_os = "linux")]
pub(super) fn preallocate(file: &File, range: &Range<u64>) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    let len = range.end - range.start;
    match fallocate(file, FallocateFlags::KEEP_SIZE, range.start, len) {
        Err(full @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => Err(full.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn preallocate(_file: &File, _range: &Range<u64>) -> io::Result<()> {
    Ok(())
}

/// Whether the file system of `directory` frees the blocks of a hole. Asked once per device.
pub(super) fn can_punch(directory: &Path) -> bool {
    static KNOWN: Mutex<Vec<(u64, bool)>> = Mutex::new(Vec::new());
    let Ok(device) = device(directory) else { return false };
    if let Some((_, can)) = KNOWN.lock().iter().find(|(known, _)| *known == device) {
        return *can;
    }
    let can = probe(directory).unwrap_or_else(|error| {
        log::debug!("no holes under {}: {error}", directory.display());
        false
    });
    KNOWN.lock().push((device, can));
    can
}

fn device(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(directory)?.dev())
}

/// Punches a file that has no name any more when its bytes are written.
fn probe(directory: &Path) -> io::Result<bool> {
    use std::os::unix::fs::{FileExt, MetadataExt};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PROBE_PREFIX}{}-{number}", std::process::id());
    let path = directory.join(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let bytes = usize::try_from(PROBE_BYTES).unwrap_or(0);
    file.write_all_at(&vec![0xa5; bytes], 0)?;
    let before = file.metadata()?.blocks();
    punch(&file, &(0..PROBE_BYTES))?;
    Ok(file.metadata()?.blocks() < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_whole_pages() {
        assert_eq!(pages(&(0..PAGE)), 0..PAGE);
        assert_eq!(pages(&(1..3 * PAGE + 1)), PAGE..3 * PAGE);
        assert!(pages(&(1..PAGE)).is_empty() && pages(&(1..2 * PAGE - 1)).is_empty());
        assert!(pages(&(0..0)).is_empty());
    }

    #[test]
    fn a_probe_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let can = can_punch(directory.path());
        assert_eq!(can, can_punch(directory.path()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(!can_punch(&directory.path().join("missing")));
    }
}
