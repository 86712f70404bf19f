use crate::case::{Case, Intent};
use crate::check::{check, check_nothing_left};
use crate::drive::{Driver, one_thread, run_in_steps, settle};
use crate::pool::Refusals;
use crate::watchdog::watched;
use crate::world::World;

/// Nobody will ask for the rows of such an output: they are neither kept nor spilled.
#[test]
fn an_output_that_is_dropped_unpolled_holds_nothing() {
    for (preserve_order, dropped) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
        let mut intents = vec![Intent::Drain; 4];
        intents[dropped] = Intent::DropAfter(0);
        let case =
            Case { preserve_order, intents, refusals: Refusals::Always, ..Case::plain(1, 3, 4) };
        watched(&case.clone(), move || {
            let world = World::new(&case);
            let received = run_in_steps(&case, &world);
            check(&case, &world, &received, |_| false);
            check_nothing_left(&world);
        });
    }
}

#[test]
fn inputs_go_with_the_last_stream_when_none_was_polled() {
    watched(&"streams that are never polled", || {
        let case = Case::plain(2, 3, 4);
        let world = World::new(&case);
        one_thread().block_on(async {
            let driver = Driver::start(&case, &world);
            assert!(world.inputs.iter().all(|input| input.is_live()));
            driver.stop();
            settle(&world).await;
        });
        assert_eq!(world.pool.exchanges().1, 0, "a memory consumer that nobody needed");
    });
}
