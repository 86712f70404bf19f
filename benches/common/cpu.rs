//! The time that processors worked for a process.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// A runtime of two workers whose blocking threads live on: the time of a thread that has ended is lost.
pub(crate) fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let hour = Duration::from_secs(3600);
    builder.worker_threads(2).thread_keep_alive(hour).enable_all().build().expect("a runtime")
}

/// Time of all threads that live, so far, from the scheduler's statistics in nanoseconds.
pub(crate) fn cpu_seconds() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads");
    let nanoseconds = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}
