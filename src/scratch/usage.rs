use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::metrics::{Count, Gauge};

/// What an exchange shows of its scratch space. The gauges are those of the exchange's metrics.
#[derive(Debug, Clone)]
pub(crate) struct ScratchMetrics {
    /// Bytes that count against a quota now, and most of them at any time.
    pub(crate) charged: Gauge,
    pub(crate) charged_peak: Gauge,
    /// Bytes of segments that somebody may still read, and most of them at any time.
    pub(crate) live: Gauge,
    pub(crate) live_peak: Gauge,
    /// Bytes whose blocks went back to the file system while their file was in use.
    pub(crate) punched: Count,
    /// Bytes written where a consumed segment was.
    pub(crate) reused: Count,
    /// Devices that were given up.
    pub(crate) dropped_devices: Count,
}

impl ScratchMetrics {
    pub(super) fn charge(&self, bytes: u64) {
        self.charged.add(to_usize(bytes));
        self.charged_peak.set_max(self.charged.value());
    }

    pub(super) fn discharge(&self, bytes: u64) {
        self.charged.sub(to_usize(bytes));
    }

    pub(super) fn live(&self, bytes: u64) {
        self.live.add(to_usize(bytes));
        self.live_peak.set_max(self.live.value());
    }

    pub(super) fn dead(&self, bytes: u64) {
        self.live.sub(to_usize(bytes));
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes taken of a limit.
#[derive(Debug)]
pub(super) struct Quota {
    used: AtomicU64,
    limit: AtomicU64,
}

impl Quota {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { used: AtomicU64::new(0), limit: AtomicU64::new(limit.unwrap_or(u64::MAX)) }
    }

    /// The limit from now on. What is taken stays taken.
    pub(super) fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, unless that would be beyond the limit.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        bytes == 0 || self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, within).is_ok()
    }

    /// Gives back bytes that were taken.
    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}
