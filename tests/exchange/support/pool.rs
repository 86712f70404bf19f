//! Memory pools and scratch spaces.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

/// A greedy pool that remembers the most it ever gave out.
#[derive(Debug)]
pub(crate) struct PeakPool {
    inner: GreedyMemoryPool,
    peak: AtomicUsize,
}

impl PeakPool {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { inner: GreedyMemoryPool::new(bytes), peak: AtomicUsize::new(0) })
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    fn note(&self) {
        self.peak.fetch_max(self.inner.reserved(), Ordering::SeqCst);
    }
}

impl fmt::Display for PeakPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeakPool")
    }
}

impl MemoryPool for PeakPool {
    fn name(&self) -> &'static str {
        "PeakPool"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
        self.note();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

/// A runtime on `pool`.
pub(crate) fn runtime_on(pool: Arc<dyn MemoryPool>) -> Arc<RuntimeEnv> {
    Arc::new(RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap())
}

/// A runtime whose pool holds `bytes`, first come, first served.
pub(crate) fn greedy_runtime(bytes: usize) -> Arc<RuntimeEnv> {
    runtime_on(Arc::new(GreedyMemoryPool::new(bytes)))
}

/// A runtime whose pool gives every spilling consumer the same share of `bytes`.
pub(crate) fn fair_runtime(bytes: usize) -> Arc<RuntimeEnv> {
    runtime_on(Arc::new(FairSpillPool::new(bytes)))
}

fn with_disk(bytes: usize, disk: DiskManagerBuilder) -> Arc<RuntimeEnv> {
    let builder = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)))
        .with_disk_manager_builder(disk);
    Arc::new(builder.build().unwrap())
}

/// A runtime that cannot spill.
pub(crate) fn runtime_without_disk(bytes: usize) -> Arc<RuntimeEnv> {
    with_disk(bytes, DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
}

/// A runtime with a quota of `disk_bytes` for scratch files.
pub(crate) fn runtime_with_quota(bytes: usize, disk_bytes: u64) -> Arc<RuntimeEnv> {
    with_disk(bytes, DiskManagerBuilder::default().with_max_temp_directory_size(disk_bytes))
}

/// A runtime whose scratch files lie under `directory`.
pub(crate) fn runtime_in(bytes: usize, directory: &Path) -> Arc<RuntimeEnv> {
    let mode = DiskManagerMode::Directories(vec![directory.to_path_buf()]);
    with_disk(bytes, DiskManagerBuilder::default().with_mode(mode))
}

/// Bytes of all files under `directory`.
pub(crate) fn bytes_under(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => bytes_under(&entry.path()),
            false => entry.metadata().unwrap().len(),
        })
        .sum()
}
