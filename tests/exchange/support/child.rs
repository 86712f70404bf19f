//! Tests that run in a process of their own.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManager;

/// Runs `test` in a process of its own, where [`argument`] gives it `argument`. It is a part of the test that runs it, and
/// marked so that no other run takes it for one.
fn command(program: &mut Command, test: &str, argument: &str) -> Output {
    program
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(ARGUMENT, argument)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

const ARGUMENT: &str = "ARGUMENT_OF_THE_TEST";

/// What the test that runs a child tells it.
pub(crate) fn argument() -> String {
    std::env::var(ARGUMENT).unwrap()
}

/// Runs a test.
pub(crate) fn run(test: &str, argument: &str) -> Output {
    command(&mut Command::new(std::env::current_exe().unwrap()), test, argument)
}

/// Runs a test in a process that cannot make a file longer than a MiB or two: a write beyond that fails, though the disk
/// has promised the blocks.
pub(crate) fn run_with_short_files(test: &str, argument: &str) {
    let script = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"";
    let exe = std::env::current_exe().unwrap();
    let output = command(Command::new("sh").args(["-c", script]).arg(exe), test, argument);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The used bytes that DataFusion's own spill file leaves in its disk manager when a write of `len` bytes fails, in a process
/// with short files.
pub(crate) fn left_by_stock(len: usize) -> u64 {
    let disk = Arc::new(DiskManager::builder().build().unwrap());
    let file = disk.create_tmp_file("stock").unwrap();
    let mut writer = file.open_writer().unwrap();
    while writer.write_all(&vec![7; len]).is_ok() {}
    drop((writer, file));
    disk.used_disk_space()
}

/// Ends this process as `kill -9` does.
pub(crate) fn kill_me() -> ! {
    let killed = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    killed.unwrap();
    // The signal is on its way.
    loop {
        std::thread::park();
    }
}
