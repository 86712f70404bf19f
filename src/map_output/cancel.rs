//! Stops a map task on its blocking thread once nobody waits for it: aborting does not reach a closure that runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a task was cancelled.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the task when the guard is dropped; one that has ended by then does not notice.
    pub(super) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// # Errors
    /// Once the task is cancelled.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the map task was cancelled")),
            false => Ok(()),
        }
    }
}

pub(super) struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
