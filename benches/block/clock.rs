//! CPU time of the thread that asks.

use std::fs::File;
use std::os::unix::fs::FileExt;

thread_local! {
    static STATISTICS: File = File::open("/proc/thread-self/schedstat").expect("schedstat");
}

/// Seconds that this thread worked so far. It gives way first: only then does the scheduler count up to now instead of
/// up to its last tick, some milliseconds ago.
fn cpu_seconds() -> f64 {
    std::thread::yield_now();
    let mut text = [0; 64];
    let len = STATISTICS.with(|file| file.read_at(&mut text, 0)).expect("schedstat");
    let text = std::str::from_utf8(&text[..len]).expect("text");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// The CPU time of `work`, and what it gives.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = cpu_seconds();
    let result = work();
    (cpu_seconds() - start, result)
}

/// CPU time between one reading and the next.
pub(crate) struct Laps(f64);

impl Laps {
    pub(crate) fn start() -> Self {
        Self(cpu_seconds())
    }

    pub(crate) fn lap(&mut self) -> f64 {
        let now = cpu_seconds();
        now - std::mem::replace(&mut self.0, now)
    }
}
