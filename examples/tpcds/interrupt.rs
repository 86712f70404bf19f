//! Ctrl-C: the first one ends the job with what it has, the second one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Result;

/// What a shell reports for a command that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether somebody asked the job to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C and for the polite kill.
    ///
    /// # Errors
    ///
    /// Fails when the system refuses a handler.
    pub(crate) fn listen() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Registered first: it looks at the flag before the flag is set.
            let asked = Arc::clone(&interrupt.0);
            flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), asked)?;
            flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
