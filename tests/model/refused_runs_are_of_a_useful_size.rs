use crate::case::{Case, Scheme};
use crate::drive::run_in_tasks;
use crate::pool::Refusals;
use crate::watchdog::watched;
use crate::world::World;

/// What the encoder and the file buffers take beside the rows must not shrink the runs.
#[test]
fn with_every_codec() {
    for codec in ["none", "lz4", "zstd:1", "zstd:9", "zstd:19"] {
        let case = Case {
            codec,
            scheme: Scheme::Hash,
            refusals: Refusals::Always,
            batch_rows: 8192,
            batches: 60,
            rows: 8000,
            ..Case::plain(5, 2, 40)
        };
        watched(&case.clone(), move || {
            let world = World::new(&case);
            run_in_tasks(&case, &world, 8);
            let (runs, bytes) = (world.metric("spill_count"), world.metric("spilled_raw_bytes"));
            assert!(bytes > 100_000 * runs, "{runs} runs of {bytes} bytes with {codec}");
        });
    }
}
