use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::usage::Quota;

/// What the names of our files in a scratch directory begin with.
const PREFIX: &str = "datafusion-ifile-";
const LOCK: &str = ".lock";
/// What the names of scratch files end with.
const SUFFIX: &str = ".scratch";

/// A scratch directory in use by this process.
///
/// A process has a home `datafusion-ifile-ID` in it and, beside that, a file `datafusion-ifile-ID.lock`
/// which it holds locked as long as it lives: the kernel gives the lock up with the process, however
/// that ends. Who opens a directory removes the homes whose lock it can take, so a home is removed when
/// its process is dead and never before.
#[derive(Debug)]
pub(super) struct Root {
    home: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    /// Bytes of this process in the directory.
    pub(super) quota: Quota,
    next: AtomicU64,
}

impl Root {
    /// The home in `directory`, which is made where it is missing. A process has one; the last limit
    /// that was set for it holds.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn open(directory: &Path, limit: Option<u64>) -> io::Result<Arc<Self>> {
        static ROOTS: Mutex<BTreeMap<PathBuf, Weak<Root>>> = Mutex::new(BTreeMap::new());
        std::fs::create_dir_all(directory)?;
        let directory = directory.canonicalize()?;
        let mut roots = ROOTS.lock();
        if let Some(root) = roots.get(&directory).and_then(Weak::upgrade) {
            root.quota.set_limit(limit);
            return Ok(root);
        }
        remove_leftovers(&directory);
        let root = Arc::new(Self::settle(&directory, limit)?);
        roots.retain(|_, root| root.strong_count() > 0);
        roots.insert(directory, Arc::downgrade(&root));
        Ok(root)
    }

    fn settle(directory: &Path, limit: Option<u64>) -> io::Result<Self> {
        loop {
            let home = directory.join(format!("{PREFIX}{}", unique()));
            let lock_path = lock_of(&home);
            let lock = OpenOptions::new().write(true).create_new(true).open(&lock_path)?;
            // Another process may have taken the file for a leftover before it was locked.
            let locked = match lock.try_lock() {
                Ok(()) => lock.metadata()?.nlink() > 0,
                Err(TryLockError::WouldBlock) => false,
                // Where files cannot be locked, no process takes another's for a leftover.
                Err(TryLockError::Error(error)) => {
                    log::debug!("{} is not locked: {error}", lock_path.display());
                    true
                }
            };
            if !locked {
                continue;
            }
            std::fs::create_dir(&home)?;
            let (quota, next) = (Quota::new(limit), AtomicU64::new(0));
            return Ok(Self { home, lock_path, _lock: lock, quota, next });
        }
    }

    /// Makes a file; its path and a handle.
    pub(super) fn create_file(&self) -> io::Result<(PathBuf, File)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.home.join(format!("{number}{SUFFIX}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok((path, file))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // The home goes first: without its lock file it would be a leftover.
        for outcome in [remove_home(&self.home), std::fs::remove_file(&self.lock_path)] {
            if let Err(error) = outcome {
                log::warn!("{} stays behind: {error}", self.home.display());
            }
        }
    }
}

fn lock_of(home: &Path) -> PathBuf {
    let mut path = home.as_os_str().to_owned();
    path.push(LOCK);
    path.into()
}

fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{:x}-{count}", std::process::id(), since.as_nanos())
}

/// Removes what dead processes left. What cannot be removed is somebody else's matter.
fn remove_leftovers(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let outcome = match name.strip_suffix(LOCK) {
            Some(home) => remove_if_dead(&directory.join(home), &path),
            // A home is made after its lock file and removed before it.
            None if !lock_of(&path).exists() => remove_home(&path),
            None => Ok(()),
        };
        match outcome {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("leftover {} stays: {error}", path.display());
            }
            _ => {}
        }
    }
}

fn remove_if_dead(home: &Path, lock_path: &Path) -> io::Result<()> {
    let lock = OpenOptions::new().write(true).open(lock_path)?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    log::info!("removing the scratch files of a dead process in {}", home.display());
    match remove_home(home) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => std::fs::remove_file(lock_path),
    }
}

/// Removes a home and the scratch files in it. A directory with anything else in it is not one of
/// ours, and stays.
fn remove_home(home: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(home)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            name.ends_with(SUFFIX) || name.starts_with(super::punch::PROBE_PREFIX)
        });
        if ours && entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    std::fs::remove_dir(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_process_has_one_home_and_takes_it_away() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path(), None).unwrap();
        let again = Root::open(&directory.path().join("."), Some(7)).unwrap();
        assert!(Arc::ptr_eq(&root, &again));
        assert!(root.quota.take(7) && !root.quota.take(1), "the limit that was set last");
        let (path, file) = root.create_file().unwrap();
        drop((again, root));
        assert!(!path.exists());
        assert_eq!(names(directory.path()), [""; 0]);
        drop(file);
    }

    #[test]
    fn leftovers_of_the_dead_are_removed_and_homes_of_the_living_stay() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for home in ["datafusion-ifile-1-dead-0", "datafusion-ifile-2-lives-0", "somebody-elses"] {
            std::fs::create_dir(at(home)).unwrap();
            std::fs::write(at(home).join("0.scratch"), "rows").unwrap();
        }
        std::fs::write(at("datafusion-ifile-1-dead-0.lock"), "").unwrap();
        std::fs::write(at("datafusion-ifile-3-died-early-0.lock"), "").unwrap();
        std::fs::create_dir(at("datafusion-ifile-4-without-a-lock")).unwrap();
        std::fs::create_dir(at("datafusion-ifile-checkout")).unwrap();
        std::fs::write(at("datafusion-ifile-checkout").join("work.rs"), "").unwrap();
        let living = File::create(at("datafusion-ifile-2-lives-0.lock")).unwrap();
        living.try_lock().unwrap();
        let root = Root::open(directory.path(), None).unwrap();
        drop(root);
        let mut left = names(directory.path());
        left.sort();
        let expected = [
            "datafusion-ifile-2-lives-0",
            "datafusion-ifile-2-lives-0.lock",
            "datafusion-ifile-checkout",
            "somebody-elses",
        ];
        assert_eq!(left, expected);
        assert!(at("datafusion-ifile-2-lives-0/0.scratch").exists());
        assert!(at("datafusion-ifile-checkout/work.rs").exists());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(Root::open(&file, None).is_err());
        assert!(Root::open(&file.join("below"), None).is_err());
    }
}
