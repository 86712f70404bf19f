use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;

/// Far beyond what any case takes, on any machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether a case has hung: smaller ones are not tried then, each would take as long.
static HUNG: AtomicBool = AtomicBool::new(false);

thread_local! {
    static NOTE: RefCell<Arc<Mutex<String>>> = RefCell::default();
}

/// Says what this thread waits for, should it hang.
pub(crate) fn note(waits_for: String) {
    NOTE.with_borrow(|note| *note.lock() = waits_for);
}

/// Runs `work` on a thread of its own; panics as it does, or when it hangs.
pub(crate) fn watched(what: &dyn Debug, work: impl FnOnce() + Send + 'static) {
    if HUNG.load(Ordering::SeqCst) {
        return;
    }
    let note = Arc::new(Mutex::new(String::new()));
    let notes = Arc::clone(&note);
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        NOTE.set(notes);
        work();
        // The receiver is gone only when this took too long.
        done.send(()).ok();
    });
    match wait.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            HUNG.store(true, Ordering::SeqCst);
            panic!("a hang, waiting for {}: {what:#?}", note.lock());
        }
        // The sender is gone without a message when the work panicked.
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
