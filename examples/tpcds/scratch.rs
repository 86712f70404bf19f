//! The directory of one job: spill files, and results until they are judged.

use std::fs::{self, File};
use std::path::Path;

use crate::Result;

const PREFIX: &str = "run-";
const LOCK: &str = ".lock";

/// Lives as long as the job; the lock tells other jobs that it does.
pub(crate) struct Scratch {
    dir: tempfile::TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes a directory below `parent`, and removes what jobs that were killed have left there.
    ///
    /// # Errors
    ///
    /// Fails when a directory cannot be made or removed.
    pub(crate) fn new(parent: &Path) -> Result<Self> {
        remove_abandoned(parent)?;
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create(dir.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { dir, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn remove_abandoned(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let ours = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
        // Without a lock file the directory is just being made.
        if ours && File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join("run-killed");
        let other = parent.path().join("sf1");
        for dir in [&abandoned, &other] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join(LOCK), "").unwrap();
        }
        let first = Scratch::new(parent.path()).unwrap();
        assert!(!abandoned.exists() && other.exists());
        let second = Scratch::new(parent.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        drop(first);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }
}
