use crate::case::{Case, Ending, Intent, Scheme};
use crate::check::check_nothing_left;
use crate::disk::Disk;
use crate::drive::{Driver, one_thread, settle, two_threads};
use crate::pool::Refusals;
use crate::rng::Rng;
use crate::watchdog::watched;
use crate::world::World;

fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    Case {
        scheme: rng.pick(&[Scheme::Hash, Scheme::RoundRobin, Scheme::Range]),
        preserve_order: rng.chance(30),
        refusals: rng.pick(&[Refusals::Always, Refusals::Percent(50), Refusals::Beyond(5_000)]),
        block_bytes: rng.pick(&[64, 2_000]),
        file_bytes: rng.pick(&[1, 4096, 1 << 27]),
        codec: rng.pick(&["none", "snappy", "lz4", "zstd:1"]),
        ending: rng.pick(&[Ending::End, Ending::Never]),
        disk: rng.pick(&[Disk::Plain, Disk::Plain, Disk::Own]),
        ..Case::plain(seed, 1 + rng.below(4), rng.pick(&[1, 3, 8]))
    }
}

/// Inputs that never end stop with the last consumer.
#[test]
fn at_two_hundred_and_fifty_steps_on_one_thread() {
    for steps in 0..250 {
        let case = case(steps);
        watched(&(steps, case.clone()), move || {
            let world = World::new(&case);
            let runtime = one_thread();
            runtime.block_on(async {
                let mut driver = Driver::start(&case, &world);
                driver.steps(&world, 2 * usize::try_from(steps).unwrap()).await;
                driver.stop();
                settle(&world).await;
            });
            check_nothing_left(&world);
        });
    }
}

#[test]
fn at_two_hundred_and_fifty_steps_on_two_threads() {
    for steps in 0..250 {
        let case = case(1000 + steps);
        watched(&(steps, case.clone()), move || {
            let world = World::new(&case);
            let runtime = two_threads(1);
            runtime.block_on(async {
                let mut driver = Driver::start(&case, &world);
                driver.steps(&world, 2 * usize::try_from(steps).unwrap()).await;
                driver.stop();
                settle(&world).await;
            });
            check_nothing_left(&world);
        });
    }
}

/// `LIMIT`: every consumer takes a batch of inputs that never end, and goes. Each gets rows, as
/// batches go to them in turn.
#[test]
fn after_a_batch_of_inputs_that_never_end() {
    for (seed, preserve_order) in [(1, false), (2, false), (3, true)] {
        let case = Case {
            scheme: Scheme::RoundRobin,
            preserve_order,
            ending: Ending::Never,
            refusals: Refusals::Always,
            block_bytes: 500,
            intents: vec![Intent::DropAfter(1); 8],
            ..Case::plain(seed, 2, 8)
        };
        watched(&case.clone(), move || {
            let world = World::new(&case);
            one_thread().block_on(async {
                let mut driver = Driver::start(&case, &world);
                driver.finish(&world).await;
                settle(&world).await;
            });
            check_nothing_left(&world);
        });
    }
}
