use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Backpressure: producers run while some consumer is starving, that is, has no whole batch
/// queued, and wait otherwise.
#[derive(Debug)]
pub(super) struct Gate {
    starving: AtomicUsize,
    open: AtomicUsize,
    changed: Notify,
}

impl Gate {
    /// A gate over `lanes` empty lanes.
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            starving: AtomicUsize::new(lanes),
            open: AtomicUsize::new(lanes),
            changed: Notify::new(),
        }
    }

    /// A lane starts or stops to starve.
    pub(super) fn set_starving(&self, starving: bool) {
        if starving {
            if self.starving.fetch_add(1, Ordering::AcqRel) == 0 {
                self.changed.notify_waiters();
            }
        } else {
            self.starving.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// A lane is closed by its consumer.
    pub(super) fn close_lane(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Whether a consumer is left.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// Waits until a consumer starves or none is left.
    pub(super) async fn pass(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.starving.load(Ordering::Acquire) > 0 || !self.is_open() {
                return;
            }
            changed.await;
        }
    }
}
