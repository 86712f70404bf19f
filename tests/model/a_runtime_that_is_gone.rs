use crate::case::Case;
use crate::check::check_nothing_left;
use crate::drive::{Driver, End, one_thread};
use crate::pool::Refusals;
use crate::watchdog::watched;
use crate::world::World;

/// Producers run where the first output was polled. A consumer elsewhere must not wait for ever.
#[test]
fn consumers_of_other_runtimes_get_an_error() {
    watched(&"a runtime that is gone", || {
        let case = Case::plain(3, 2, 4);
        let world = World::new(&case);
        let runtime = one_thread();
        let mut driver = runtime.block_on(async {
            let mut driver = Driver::start(&case, &world);
            driver.poll_all();
            driver
        });
        drop(runtime);
        one_thread().block_on(driver.finish(&world));
        for received in driver.stop() {
            let End::Failed(message) = received.end else { panic!("{:?}", received.end) };
            assert!(message.contains("was cancelled"), "{message}");
        }
        check_nothing_left(&world);
    });
}

#[test]
fn a_runtime_dropped_at_any_step_leaves_nothing() {
    for steps in (0..200).step_by(7) {
        let case = Case {
            refusals: if steps % 2 == 0 { Refusals::Always } else { Refusals::Percent(50) },
            block_bytes: 64,
            preserve_order: steps % 3 == 0,
            ..Case::plain(steps as u64, 3, 5)
        };
        watched(&(steps, case.clone()), move || {
            let world = World::new(&case);
            let runtime = one_thread();
            let driver = runtime.block_on(async {
                let mut driver = Driver::start(&case, &world);
                driver.steps(&world, steps).await;
                driver
            });
            drop(runtime);
            if world.pool.exchanges().1 > 0 {
                assert!(!world.inputs.iter().any(|input| input.is_live()), "inputs outlive it");
            }
            driver.stop();
            check_nothing_left(&world);
        });
    }
}
