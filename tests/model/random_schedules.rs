use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::case::{Case, Ending, cases};
use crate::check::{check, check_nothing_left};
use crate::drive::{End, run_in_steps, run_in_tasks};
use crate::watchdog::watched;
use crate::world::{SCRIPTED, World};

/// `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more, and for others.
fn config(cases: u32, seed: u64) -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(seed);
    }
    config
}

/// What a merge says when its batches do not fit what it may take of a full pool.
const TIGHT_MERGE: &str = "for the batches it merges, beyond the";

/// Least bytes of the batches that are merged, by the module's policy; with a smaller option a merge
/// holds many batches of few rows, and may need more than a full pool lets it take.
const LEAST_MERGE_BATCH_BYTES: usize = 8 * 1024;

fn too_tight(case: &Case) -> bool {
    case.preserve_order && case.batch_bytes.min(case.block_bytes) < LEAST_MERGE_BATCH_BYTES
}

fn run(case: &Case, drive: impl FnOnce(&Case, &World) -> Vec<crate::drive::Received>) {
    let world = World::new(case);
    let received = drive(case, &world);
    let fails = matches!(case.ending, Ending::Error | Ending::Panic);
    check(case, &world, &received, |message| {
        (fails && message.contains(SCRIPTED)) || (too_tight(case) && message.contains(TIGHT_MERGE))
    });
    if fails {
        let ended = received.iter().position(|received| received.end == End::Ended);
        assert_eq!(ended, None, "an output that has no error");
    }
    check_nothing_left(&world);
}

proptest! {
    #![proptest_config(config(400, 1))]

    #[test]
    fn step_by_step_on_one_thread(case in cases()) {
        let shown = case.clone();
        watched(&shown, move || run(&case, run_in_steps));
    }
}

proptest! {
    #![proptest_config(config(300, 2))]

    #[test]
    fn with_tasks_on_two_threads(case in cases(), one_blocking in any::<bool>()) {
        let shown = case.clone();
        let blocking = if one_blocking { 1 } else { 8 };
        watched(&shown, move || run(&case, |case, world| run_in_tasks(case, world, blocking)));
    }
}
