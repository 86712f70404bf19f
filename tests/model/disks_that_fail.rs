use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Case, Intent};
use crate::check::{check, check_nothing_left};
use crate::disk::{Disk, FAULT, Fault};
use crate::drive::{End, Received, run_in_steps};
use crate::pool::Refusals;
use crate::watchdog::watched;
use crate::world::World;

/// A case that spills all the time. One consumer holds, so that the others wait while it spills.
fn pressed(seed: u64, disk: Disk, preserve_order: bool) -> Case {
    Case {
        preserve_order,
        disk,
        refusals: Refusals::Always,
        block_bytes: 300,
        read_ahead_bytes: 1000,
        intents: vec![Intent::Drain, Intent::HoldAfter(0)],
        ..Case::plain(seed, 3, 4)
    }
}

/// Runs `case`: rows are right as far as they come; every output that fails does so once, with
/// `error`, and with one of `places`.
fn run(case: Case, error: &'static str, places: &'static [&'static str], expect: Outcome) {
    watched(&case.clone(), move || {
        let world = World::new(&case);
        let received = run_in_steps(&case, &world);
        check(&case, &world, &received, |message| {
            message.contains(error)
                && (places.is_empty() || places.iter().any(|place| message.contains(place)))
        });
        check_nothing_left(&world);
        expect(&case, &world, &received);
    });
}

type Outcome = fn(&Case, &World, &[Received]);

fn failed(received: &[Received]) -> usize {
    received.iter().filter(|received| matches!(received.end, End::Failed(_))).count()
}

/// The error of a spill ends every output.
fn all_fail(_case: &Case, world: &World, received: &[Received]) {
    if let Some(disk) = &world.faulty {
        assert!(disk.struck() > 0, "nothing went wrong");
    }
    // The one that holds may be dropped instead.
    let expected = received.iter().filter(|received| received.end != End::Dropped).count();
    assert_eq!(failed(received), expected);
}

fn none_fails(_case: &Case, world: &World, received: &[Received]) {
    assert_eq!(failed(received), 0);
    let (spills, encoded) = (world.metric("spill_count"), world.metric("encoded_rows"));
    assert!(
        spills > 0,
        "it never spilled; {encoded} rows were encoded of {}",
        world.expected.rows.len()
    );
}

fn some_fail(_case: &Case, _world: &World, received: &[Received]) {
    assert!(failed(received) > 0, "nobody met the fault");
}

fn anything(_case: &Case, _world: &World, _received: &[Received]) {}

fn both(fault: Fault) -> [Disk; 2] {
    [Disk::Local(fault), Disk::Remote { fault, blocking: false }]
}

#[test]
fn the_disks_of_these_tests_are_written_often() {
    for disk in both(Fault::None) {
        let case = pressed(1, disk, false);
        watched(&case.clone(), move || {
            let world = World::new(&case);
            let received = run_in_steps(&case, &world);
            none_fails(&case, &world, &received);
            let writes = world.faulty.as_ref().unwrap().writes();
            assert!(writes >= 20, "{writes} writes");
        });
    }
}

#[test]
fn a_write_that_fails_ends_every_output_with_its_error() {
    for n in 1..=20 {
        for disk in both(Fault::Write(n)) {
            for preserve_order in [false, true] {
                run(pressed(n as u64, disk, preserve_order), FAULT, &["offset"], all_fail);
            }
        }
    }
}

#[test]
fn a_write_without_progress_ends_every_output() {
    for n in 1..=5 {
        for disk in both(Fault::NoProgress(n)) {
            run(pressed(n as u64, disk, false), "write", &["offset"], all_fail);
        }
    }
}

#[test]
fn a_write_that_panics_ends_every_output() {
    for n in 1..=5 {
        for disk in both(Fault::WritePanic(n)) {
            run(pressed(n as u64, disk, false), FAULT, &[], all_fail);
        }
    }
}

#[test]
fn a_file_that_cannot_be_made_ends_every_output() {
    for n in 1..=3 {
        for disk in both(Fault::Create(n)) {
            let case = Case { file_bytes: 1, ..pressed(n as u64, disk, false) };
            run(case, FAULT, &["writing the rows of partitions"], all_fail);
        }
    }
}

#[test]
fn a_flush_or_finish_that_fails_ends_every_output() {
    for n in 1..=10 {
        for fault in [Fault::Flush(n), Fault::Finish(n)] {
            for disk in both(fault) {
                let case = Case { file_bytes: 1, ..pressed(n as u64, disk, false) };
                run(case, FAULT, &["offset"], all_fail);
            }
        }
    }
}

#[test]
fn short_and_interrupted_writes_lose_nothing() {
    for seed in 0..10 {
        for disk in both(Fault::ShortWrites) {
            run(pressed(seed, disk, seed % 2 == 0), "", &[], none_fails);
        }
    }
}

#[test]
fn a_read_that_fails_ends_the_output_that_reads() {
    for n in 1..=20 {
        let disk = Disk::Remote { fault: Fault::Read(n), blocking: n % 2 == 0 };
        run(pressed(n as u64, disk, false), FAULT, &["offset"], some_fail);
    }
}

#[test]
fn a_stream_that_ends_early_ends_the_output_that_reads() {
    for n in 1..=20 {
        let disk = Disk::Remote { fault: Fault::ShortRead(n), blocking: n % 2 == 0 };
        run(pressed(n as u64, disk, false), "unexpected end of file", &["offset"], some_fail);
    }
}

/// Files that are not written to any more are opened for each read. What was read before that meets no fault.
#[test]
fn a_local_read_that_fails_or_is_short_ends_the_output_that_reads() {
    static MET: AtomicUsize = AtomicUsize::new(0);
    fn count(_case: &Case, _world: &World, received: &[Received]) {
        MET.fetch_add(failed(received), Ordering::SeqCst);
    }
    for n in 1..=10 {
        for (fault, error) in [
            (Fault::Truncated(n), "failed to fill whole buffer"),
            (Fault::Removed(n), "No such file"),
        ] {
            let disk = Disk::Local(fault);
            let case = Case { file_bytes: 1, ..pressed(n as u64, disk, n % 2 == 0) };
            run(case, error, &["offset"], count);
        }
    }
    assert!(MET.load(Ordering::SeqCst) > 0, "nobody met a fault");
}

/// What was not written as it was handed over is noticed when it is read, or was no row's.
#[test]
fn lost_and_changed_bytes_never_give_wrong_rows() {
    for n in 1..=20 {
        for fault in [Fault::LostByte(n), Fault::ChangedByte(n)] {
            for disk in both(fault) {
                run(pressed(n as u64, disk, n % 2 == 0), "", &["offset"], anything);
            }
        }
    }
}

#[test]
fn a_quota_ends_every_output_and_is_given_back() {
    for bytes in [0, 1, 1000, 5000] {
        let case = pressed(bytes, Disk::Quota(bytes), false);
        run(case, "max_temp_directory_size", &["offset"], all_fail);
    }
}

#[test]
fn without_a_disk_the_error_names_the_operator_and_the_setting() {
    let case = pressed(1, Disk::Disabled, false);
    run(case, "IFileRepartitionExec", &["datafusion.runtime.temp_directory"], all_fail);
}

/// Directories of our own need no disk manager.
#[test]
fn own_directories_spill_without_a_disk_manager() {
    for seed in 0..10 {
        run(pressed(seed, Disk::Own, seed % 2 == 0), "", &[], none_fails);
    }
}

/// One refusal, whichever it is, changes nothing but the form of some rows.
#[test]
fn a_single_refusal_fails_nothing() {
    for n in 1..=40 {
        for disk in [Disk::Plain, Disk::Own] {
            let case = Case { refusals: Refusals::Only(n), ..pressed(n as u64, disk, n % 3 == 0) };
            run(case, "", &[], nobody_fails);
        }
    }
}

fn nobody_fails(_case: &Case, _world: &World, received: &[Received]) {
    assert_eq!(failed(received), 0);
}
