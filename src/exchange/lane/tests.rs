use std::collections::HashMap;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::buffer::Buffer;
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use proptest::prelude::*;

use super::*;
use crate::memory::{Ledger, Shares};
use crate::scratch::{RunBlocks, RunWriter, ScratchPlan};

const BATCH_ROWS: usize = 10;

/// A lane with what it needs around it.
struct Bench {
    lane: Lane,
    shape: LaneShape,
    ledger: Arc<Ledger>,
    pool: Arc<dyn MemoryPool>,
    runs: RunWriter,
    /// Rows of the items that were encoded, by number.
    encoded_rows: HashMap<u64, usize>,
}

/// What a consumer finds, in numbers.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// The rows of the items.
    Items(Vec<usize>),
    /// The numbers of the items, and how many are needed.
    Fetch(Vec<u64>, usize),
    Wait,
    Done,
}

use Found::{Done, Fetch, Items, Wait};

fn rows(start: usize, count: usize) -> RecordBatch {
    let ids: ArrayRef =
        Arc::new(Int64Array::from_iter_values((start..start + count).map(|id| id as i64)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..count).map(|_| "ten bytes.")));
    RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap()
}

impl Bench {
    fn new() -> Self {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ledger = Ledger::new("lane", &pool, Shares { most: 1.0, headroom: 0.0 });
        let scratch = ScratchPlan::for_tests(&ledger, "", None);
        Self {
            lane: Lane::new(ledger.empty()),
            shape: LaneShape {
                schema: rows(0, 0).schema(),
                batch_rows: BATCH_ROWS,
                batch_bytes: 1 << 20,
                eager: false,
            },
            runs: RunWriter::try_new(&Arc::new(scratch)).unwrap(),
            ledger,
            pool,
            encoded_rows: HashMap::new(),
        }
    }

    fn eager() -> Self {
        let mut bench = Self::new();
        bench.shape.eager = true;
        bench
    }

    /// Appends `count` rows; how many each call took.
    fn append(&mut self, count: usize) -> Vec<usize> {
        let batch = rows(0, count);
        let source = Source::try_new(&self.shape.schema, &batch).unwrap();
        let mut rest = source.all_rows();
        let mut taken = Vec::new();
        let mut credit = self.ledger.empty();
        while !rest.is_empty() {
            match self.lane.append(&self.shape, &source, rest, Ask::ALL, &mut credit).unwrap() {
                Appended::Taken(count) => {
                    taken.push(count);
                    rest = rest.split_at(count).1;
                }
                Appended::Needs { bytes, .. } => {
                    assert!(bytes > credit.bytes(), "asked for what it was given");
                    credit.merge(self.ledger.force(bytes - credit.bytes()));
                }
                Appended::Closed => return taken,
            }
        }
        taken
    }

    fn push(&mut self, count: usize) {
        let permit = self.ledger.force(100 * count);
        self.lane.push(&self.shape, rows(0, count), permit);
    }

    /// The numbers of the items that may be encoded; they are.
    fn encode(&mut self) -> Vec<u64> {
        let batches = self.lane.batches(&self.shape).unwrap();
        for (number, rows) in &batches {
            let Unencoded::Batch(batch) = rows else { panic!("no slabs were pushed") };
            self.encoded_rows.insert(*number, batch.value.num_rows());
            self.lane.replace(*number, self.blocks(batch.value.num_rows()));
        }
        self.lane.end_encoding();
        batches.into_iter().map(|(number, _)| number).collect()
    }

    /// Two blocks of 30 bytes in place of a batch.
    fn blocks(&self, rows: usize) -> Body {
        let block = |rows| {
            let block = Block { bytes: Buffer::from_vec(vec![7_u8; 30]), rows, raw_bytes: 60 };
            Held::new(block, self.ledger.force(30))
        };
        Body::Blocks(vec![block(rows / 2), block(rows - rows / 2)])
    }

    /// Writes all blocks; the numbers of their items.
    fn store(&mut self) -> Vec<u64> {
        let run = self.lane.blocks().into_iter().map(|(tag, blocks)| RunBlocks {
            partition: 0,
            tag,
            blocks,
        });
        let run = self.runs.write(run.collect()).unwrap();
        let mut numbers = Vec::new();
        for (number, blocks) in run.stored {
            let permit = self.ledger.force(1);
            self.lane.replace(number, Body::stored(blocks, permit));
            numbers.push(number);
        }
        numbers
    }

    fn next(&mut self, read_ahead: usize) -> Found {
        match self.lane.next(&self.shape, read_ahead).unwrap() {
            Next::Items(items) => {
                let left = self.lane.queue.front().map(|item| item.number);
                let numbers = items.iter().skip(1).map(|item| item.number);
                let ends = numbers.chain([left.unwrap_or(self.lane.next_number)]);
                let rows = items.iter().zip(ends).map(|(item, end)| match &item.body {
                    Body::Batch(batch) => batch.value.num_rows(),
                    Body::Slab(slab) => slab.value.rows(),
                    Body::Blocks(blocks) => blocks.iter().map(|block| block.value.rows).sum(),
                    // An item stands for those that became one with it.
                    Body::Stored { .. } => {
                        let numbers = item.number..end;
                        numbers.filter_map(|number| self.encoded_rows.get(&number)).sum()
                    }
                });
                Items(rows.collect())
            }
            Next::Fetch(wanted) => {
                let numbers = wanted.items.iter().map(|(number, _)| *number).collect();
                Fetch(numbers, wanted.needed)
            }
            Next::Wait => Wait,
            Next::Done => Done,
        }
    }

    fn fetched(&mut self, numbers: &[u64]) {
        self.lane.fetching = false;
        for number in numbers {
            let blocks = match self.lane.item_mut(*number) {
                Some(Item { body: Body::Stored { blocks, .. }, .. }) => blocks.len(),
                _ => 2,
            };
            let buffer = Held::new(Buffer::from_vec(vec![7_u8; 30]), self.ledger.force(30));
            self.lane.set_fetched(*number, vec![buffer; blocks]);
        }
    }

    fn finish(&mut self) {
        self.lane.finish(&self.shape).unwrap();
    }

    /// The weight that the items and the stage add up to.
    fn weight(&self) -> Weight {
        let mut weight = Weight { arrow: self.lane.stage_permit.bytes(), blocks: 0 };
        self.lane.queue.iter().for_each(|item| weight.add(item.body.weight()));
        weight
    }
}

#[test]
fn a_window_ends_at_the_batch_size() {
    let mut bench = Bench::new();
    assert_eq!(bench.append(25), [10, 10, 5]);
    assert_eq!(bench.next(0), Items(vec![10]));
    assert_eq!(bench.next(0), Items(vec![10]));
    assert_eq!(bench.next(0), Wait);
    bench.finish();
    assert_eq!(bench.next(0), Items(vec![5]));
    assert_eq!(bench.next(0), Done);
}

#[test]
fn an_empty_lane_is_done_when_it_is_finished() {
    let mut bench = Bench::new();
    assert_eq!(bench.next(0), Wait);
    assert!(bench.lane.is_starving(&bench.shape) && !bench.lane.is_done());
    bench.finish();
    assert!(!bench.lane.is_starving(&bench.shape) && bench.lane.is_done());
    assert_eq!(bench.next(0), Done);
}

#[test]
fn a_stage_that_was_encoded_half_full_becomes_part_of_a_full_batch() {
    let mut bench = Bench::new();
    bench.append(4);
    assert_eq!(bench.encode(), [0]);
    assert_eq!(bench.next(0), Wait);
    assert_eq!(bench.append(3), [3]);
    assert_eq!(bench.encode(), [1]);
    assert_eq!(bench.append(7), [3, 4]);
    assert_eq!(bench.next(0), Items(vec![4, 3, 3]));
    bench.finish();
    assert_eq!(bench.next(0), Items(vec![4]));
}

#[test]
fn a_window_that_was_encoded_open_ends_with_the_lane() {
    let mut bench = Bench::new();
    bench.append(4);
    bench.encode();
    bench.store();
    bench.finish();
    assert_eq!(bench.next(0), Fetch(vec![0], 1));
    bench.fetched(&[0]);
    assert_eq!(bench.next(0), Items(vec![4]));
    assert_eq!(bench.next(0), Done);
}

#[test]
fn a_new_form_of_an_item_that_was_taken_changes_nothing() {
    let mut bench = Bench::new();
    bench.append(20);
    let batches = bench.lane.batches(&bench.shape).unwrap();
    assert_eq!(batches.len(), 2);
    assert_eq!(bench.next(0), Items(vec![10]));
    let before = bench.lane.weight();
    bench.lane.replace(0, bench.blocks(10));
    assert_eq!(bench.lane.weight(), before);
    bench.lane.replace(1, bench.blocks(10));
    assert_eq!(bench.lane.weight(), Weight { arrow: 0, blocks: 60 });
    assert_eq!(bench.next(0), Items(vec![10]));
    bench.lane.replace(1, bench.blocks(10));
    assert_eq!(bench.lane.weight(), Weight::default());
}

#[test]
fn the_batch_that_a_consumer_was_woken_for_is_not_encoded() {
    let mut bench = Bench::new();
    bench.lane.wanted = true;
    bench.append(25);
    assert_eq!(bench.encode(), [1, 2]);
    bench.lane.wanted = false;
    assert_eq!(bench.encode(), [0]);
}

#[test]
fn several_windows_are_fetched_as_far_as_read_ahead_goes() {
    let mut bench = Bench::new();
    bench.append(4);
    bench.encode();
    bench.append(26);
    bench.encode();
    assert_eq!(bench.store(), [0, 1, 2, 3]);
    // Items 0 and 1 are the first window, of two blocks of 30 bytes each, and have become one.
    for (read_ahead, numbers) in
        [(0, vec![0]), (179, vec![0]), (180, vec![0, 2]), (1000, vec![0, 2, 3])]
    {
        assert_eq!(bench.next(read_ahead), Fetch(numbers, 1));
        assert_eq!(bench.next(read_ahead), Wait, "it is being fetched");
        bench.lane.fetching = false;
    }
    bench.fetched(&[0, 1, 2]);
    assert_eq!(bench.next(1000), Items(vec![10]));
    assert_eq!(bench.next(1000), Items(vec![10]));
    assert_eq!(bench.next(1000), Fetch(vec![3], 1));
    // What comes for an item that is gone is dropped.
    bench.fetched(&[0, 3, 9]);
    assert_eq!(bench.next(1000), Items(vec![10]));
    assert_eq!(bench.next(1000), Wait);
}

#[test]
fn nothing_is_fetched_ahead_of_a_window_that_is_there() {
    let mut bench = Bench::new();
    bench.lane.wanted = true;
    bench.append(20);
    bench.encode();
    bench.store();
    assert_eq!(bench.next(1000), Items(vec![10]));
    assert_eq!(bench.next(1000), Fetch(vec![1], 1));
}

/// A reader that stays away loses fetched blocks at the second time that memory is short, and not again
/// once it has come back for them.
#[test]
fn fetched_blocks_are_given_up_once() {
    let mut bench = Bench::new();
    bench.append(10);
    bench.encode();
    bench.store();
    assert_eq!(bench.next(0), Fetch(vec![0], 1));
    let stored = bench.pool.reserved();
    bench.fetched(&[0]);
    let fetched = bench.pool.reserved();
    assert!(fetched > stored);
    assert!(!bench.lane.age_unread());
    assert_eq!(bench.pool.reserved(), fetched, "the first time it is kept");
    assert!(bench.lane.age_unread());
    assert_eq!(bench.pool.reserved(), stored);
    assert!(!bench.lane.age_unread(), "there is nothing to give up");
    assert_eq!(bench.next(0), Fetch(vec![0], 1));
    bench.fetched(&[0]);
    for _ in 0..3 {
        bench.lane.age_unread();
    }
    assert_eq!(bench.pool.reserved(), fetched, "it came back, so they stay");
    assert_eq!(bench.next(0), Items(vec![10]));
}

/// The batch that a reader was woken for may be encoded the second time that memory is short.
#[test]
fn a_batch_that_nobody_comes_for_is_encoded() {
    let mut bench = Bench::new();
    bench.lane.wanted = true;
    bench.append(20);
    assert_eq!(bench.encode(), [1]);
    bench.lane.age_unread();
    assert_eq!(bench.encode(), [0; 0]);
    bench.lane.age_unread();
    assert_eq!(bench.encode(), [0]);
    (0..2).for_each(|_| assert_eq!(bench.next(0), Items(vec![10])));
    bench.lane.wanted = true;
    bench.append(10);
    bench.lane.age_unread();
    assert_eq!(bench.encode(), [0; 0], "it came, so its next batch stays again");
}

#[test]
fn every_flush_of_an_eager_lane_is_a_window() {
    let mut bench = Bench::eager();
    bench.append(3);
    assert!(!bench.lane.is_starving(&bench.shape));
    assert_eq!(bench.next(0), Items(vec![3]));
    bench.append(2);
    bench.encode();
    bench.append(2);
    assert_eq!(bench.next(0), Items(vec![2]));
    bench.lane.wanted = true;
    bench.append(1);
    assert_eq!(bench.next(0), Items(vec![3]));
    bench.finish();
    assert_eq!(bench.next(0), Done);
}

#[test]
fn a_batch_passes_as_it_is_only_within_the_window_and_after_all_staged_rows() {
    let mut bench = Bench::new();
    assert_eq!(bench.lane.passes(&bench.shape, 4), None, "a small part is copied");
    assert_eq!(bench.lane.passes(&bench.shape, 5), Some(5));
    bench.push(7);
    assert_eq!(bench.lane.passes(&bench.shape, 30), Some(3));
    assert_eq!(bench.lane.passes(&bench.shape, 2), None);
    bench.append(1);
    assert_eq!(bench.lane.passes(&bench.shape, 30), None, "staged rows go first");
    bench.append(2);
    assert_eq!(bench.next(0), Items(vec![7, 3]));
}

#[test]
fn a_window_ends_early_at_its_bytes() {
    let mut bench = Bench::new();
    bench.shape.batch_bytes = 64;
    // A number, an offset and ten bytes of text in each row: three rows are beyond the cap.
    (0..20).for_each(|_| drop(bench.append(1)));
    bench.finish();
    (0..6).for_each(|_| assert_eq!(bench.next(0), Items(vec![3])));
    assert_eq!(bench.next(0), Items(vec![2]));
    assert_eq!(bench.next(0), Done);
}

#[test]
fn a_closed_lane_takes_nothing_and_holds_nothing() {
    let mut bench = Bench::new();
    bench.append(25);
    bench.encode();
    bench.store();
    bench.append(12);
    bench.push(10);
    assert!(bench.pool.reserved() > 0);
    assert!(bench.lane.close());
    assert_eq!(bench.pool.reserved(), 0);
    assert_eq!(bench.append(5), [] as [usize; 0]);
    bench.push(10);
    bench.lane.replace(3, bench.blocks(2));
    bench.fetched(&[0, 1]);
    assert!(bench.encode().is_empty() && bench.lane.blocks().is_empty());
    bench.finish();
    assert_eq!(bench.lane.weight(), Weight::default());
    assert_eq!(bench.pool.reserved(), 0);
    assert!(bench.lane.is_done() && !bench.lane.is_starving(&bench.shape));
    assert!(!bench.lane.close(), "it was closed before");
}

proptest! {
    /// Whatever forms items take meanwhile, rows come in windows of the batch size, the weight is
    /// that of the items, and nothing stays reserved.
    #[test]
    fn windows_survive_any_order_of_steps(steps in prop::collection::vec((0_u8..7, 1_usize..25), 0..60)) {
        let mut bench = Bench::new();
        let (mut put, mut got) = (0, 0);
        for (step, count) in steps {
            match step {
                0 | 1 => {
                    bench.append(count);
                    put += count;
                }
                2 => {
                    if let Some(fits) = bench.lane.passes(&bench.shape, count) {
                        bench.push(fits);
                        put += fits;
                    }
                }
                3 => drop(bench.encode()),
                4 => drop(bench.store()),
                5 => bench.lane.wanted = count % 2 == 0,
                _ => match bench.next(40 * count) {
                    Items(items) => {
                        prop_assert_eq!(items.iter().sum::<usize>(), BATCH_ROWS);
                        got += BATCH_ROWS;
                    }
                    Fetch(numbers, _) => bench.fetched(&numbers),
                    Wait => prop_assert!(put - got < BATCH_ROWS),
                    Done => prop_assert!(false, "done before its end"),
                },
            }
            prop_assert_eq!(bench.lane.weight(), bench.weight());
        }
        bench.finish();
        loop {
            match bench.next(0) {
                Items(items) => got += items.iter().sum::<usize>(),
                Fetch(numbers, needed) => {
                    prop_assert_eq!(numbers.len(), needed);
                    bench.fetched(&numbers);
                }
                Wait => prop_assert!(false, "it waits after its end"),
                Done => break,
            }
        }
        prop_assert_eq!(put, got);
        prop_assert_eq!(bench.lane.weight(), Weight::default());
        prop_assert_eq!(bench.pool.reserved(), 0);
    }
}
