//! What holds of every run.

use arrow::array::RecordBatch;

use crate::case::{Case, Intent};
use crate::drive::{End, Received};
use crate::world::{Expected, World};

/// The rows of every output are those of the reference, in the order that is promised, and in
/// batches of the batch size. `failure` says whether an error message may end an output.
pub(crate) fn check(
    case: &Case,
    world: &World,
    received: &[Received],
    failure: impl Fn(&str) -> bool,
) {
    assert_eq!(received.len(), case.outputs);
    for (output, received) in received.iter().enumerate() {
        check_rows(case, &world.expected, output, received);
        check_sizes(case, &world.expected, received);
        match (&received.end, case.intent(output)) {
            (End::Failed(message), _) => {
                assert!(failure(message), "output {output} failed with {message}");
            }
            (End::Dropped, Intent::Drain) => panic!("output {output} has no end"),
            _ => {}
        }
    }
}

/// Nothing is left once the streams are dropped and the runtime is.
pub(crate) fn check_nothing_left(world: &World) {
    assert_eq!(world.left(), None, "left behind");
    let (_, ever) = world.pool.exchanges();
    assert!(ever <= 1, "{ever} memory consumers");
}

fn check_rows(case: &Case, expected: &Expected, output: usize, received: &Received) {
    let mut by_input = vec![vec![]; case.inputs];
    let mut last = None;
    for batch in &received.batches {
        assert_eq!(batch.schema(), expected.schema, "schema of output {output}");
        for (id, values) in Expected::ids_of(batch).into_iter().zip(expected.values_of(batch)) {
            let Some((input, known)) = expected.rows.get(&id) else {
                panic!("output {output} has a row {id} that no input has");
            };
            assert!(*known == values, "row {id} of output {output} has changed");
            by_input[*input].push(id);
            if case.preserve_order {
                assert!(last < Some(id), "output {output}: row {id} after {last:?}");
                last = Some(id);
            }
        }
    }
    for (input, (ids, all)) in by_input.iter().zip(&expected.ids[output]).enumerate() {
        let whole = received.end == End::Ended;
        let right = if whole { ids == all } else { all.starts_with(ids) };
        assert!(
            right,
            "output {output} got of input {input} {ids:?}\ninstead of {}{all:?}",
            if whole { "" } else { "a start of " }
        );
    }
}

fn check_sizes(case: &Case, expected: &Expected, received: &Received) {
    let rows: Vec<_> = received.batches.iter().map(RecordBatch::num_rows).collect();
    assert!(rows.iter().all(|rows| (1..=case.batch_rows).contains(rows)), "{rows:?}");
    let Some((_, full)) = rows.split_last() else { return };
    if case.fills_batches() && !expected.cuts {
        assert!(full.iter().all(|rows| *rows == case.batch_rows), "{rows:?}");
    }
}
