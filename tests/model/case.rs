//! What a case is made from.

use datafusion_ifile::IFileOptions;
use proptest::prelude::*;

use crate::disk::Disk;
use crate::pool::Refusals;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Hash,
    RoundRobin,
    Range,
}

/// How an input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    End,
    Error,
    Panic,
    /// It does not: its last batch comes again and again.
    Never,
}

/// What a consumer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    Drain,
    /// Drops its stream after so many batches; with 0 it never polls.
    DropAfter(usize),
    /// Stops polling after so many batches, until all others are done.
    HoldAfter(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Of the rows and of the order of steps.
    pub(crate) seed: u64,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) scheme: Scheme,
    pub(crate) preserve_order: bool,
    pub(crate) batch_rows: usize,
    pub(crate) codec: &'static str,
    pub(crate) block_bytes: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) read_ahead_bytes: usize,
    /// Bytes after which a scratch file is closed.
    pub(crate) file_bytes: usize,
    pub(crate) refusals: Refusals,
    pub(crate) disk: Disk,
    /// Most batches of an input, and most rows of a batch.
    pub(crate) batches: usize,
    pub(crate) rows: usize,
    /// Every input but the first ends by `End`.
    pub(crate) ending: Ending,
    /// Of outputs 0, 1, ..., the others drain.
    pub(crate) intents: Vec<Intent>,
    /// Steps before everything runs to its end.
    pub(crate) steps: usize,
}

impl Case {
    /// A case with much memory, all consumers draining.
    pub(crate) fn plain(seed: u64, inputs: usize, outputs: usize) -> Self {
        Self {
            seed,
            inputs,
            outputs,
            scheme: Scheme::Hash,
            preserve_order: false,
            batch_rows: 16,
            codec: "lz4",
            block_bytes: 1 << 20,
            batch_bytes: 1 << 27,
            read_ahead_bytes: 1 << 18,
            file_bytes: 1 << 27,
            refusals: Refusals::Never,
            disk: Disk::Plain,
            batches: 10,
            rows: 40,
            ending: Ending::End,
            intents: vec![],
            steps: 100,
        }
    }

    pub(crate) fn intent(&self, output: usize) -> Intent {
        self.intents.get(output).copied().unwrap_or(Intent::Drain)
    }

    pub(crate) fn options(&self) -> IFileOptions {
        IFileOptions {
            codec: self.codec.parse().unwrap(),
            memory_share: 1.0,
            memory_headroom: 0.0,
            block_bytes: self.block_bytes,
            batch_bytes: self.batch_bytes,
            read_ahead_bytes: self.read_ahead_bytes,
            // Half of the cases stage rows in slabs.
            narrow_outputs: if self.seed.is_multiple_of(2) { 1 } else { 256 },
            ..IFileOptions::default()
        }
    }

    /// Whether `batch_bytes` is beyond what these cases make of a batch.
    pub(crate) fn fills_batches(&self) -> bool {
        self.batch_bytes >= 1 << 27
    }
}

fn intent() -> impl Strategy<Value = Intent> {
    prop_oneof![
        4 => Just(Intent::Drain),
        1 => (0usize..4).prop_map(Intent::DropAfter),
        1 => (0usize..4).prop_map(Intent::HoldAfter),
    ]
}

fn refusals() -> impl Strategy<Value = Refusals> {
    prop_oneof![
        1 => Just(Refusals::Never),
        2 => Just(Refusals::Always),
        2 => prop::sample::select(vec![5u64, 50, 95]).prop_map(Refusals::Percent),
        1 => (2usize..6).prop_map(Refusals::AllButOneOf),
        2 => prop::sample::select(vec![1usize, 2_000, 20_000, 200_000]).prop_map(Refusals::Beyond),
    ]
}

fn disk() -> impl Strategy<Value = Disk> {
    use crate::disk::Fault;
    prop_oneof![
        4 => Just(Disk::Plain),
        2 => Just(Disk::Own),
        1 => Just(Disk::Local(Fault::ShortWrites)),
        1 => any::<bool>().prop_map(|blocking| Disk::Remote { fault: Fault::None, blocking }),
    ]
}

/// Cases whose disks work.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let shape = (
        any::<u64>(),
        1usize..=8,
        prop::sample::select(vec![1usize, 2, 3, 5, 8, 17, 64]),
        prop::sample::select(vec![Scheme::Hash, Scheme::RoundRobin, Scheme::Range]),
        prop::bool::weighted(0.4),
        prop::sample::select(vec![1usize, 3, 16, 50, 1000]),
    );
    let options = (
        prop::sample::select(vec!["none", "snappy", "lz4", "zstd:1"]),
        prop::sample::select(vec![64usize, 500, 1 << 20]),
        prop::sample::select(vec![64usize, 800, 1 << 27, 1 << 27, 1 << 27]),
        prop::sample::select(vec![0usize, 300, 1 << 18]),
        prop::sample::select(vec![1usize, 4096, 1 << 27]),
    );
    let run = (
        refusals(),
        disk(),
        1usize..25,
        prop::sample::select(vec![1usize, 8, 60, 300]),
        prop_oneof![8 => Just(Ending::End), 1 => Just(Ending::Error), 1 => Just(Ending::Panic)],
        prop::collection::vec(intent(), 0..20),
        0usize..400,
    );
    (shape, options, run).prop_map(|(shape, options, run)| {
        let (seed, inputs, outputs, scheme, preserve_order, batch_rows) = shape;
        let (codec, block_bytes, batch_bytes, read_ahead_bytes, file_bytes) = options;
        let (refusals, disk, batches, rows, ending, intents, steps) = run;
        Case {
            seed,
            inputs,
            outputs,
            scheme,
            preserve_order,
            batch_rows,
            codec,
            block_bytes,
            batch_bytes,
            read_ahead_bytes,
            file_bytes,
            refusals,
            disk,
            batches,
            rows,
            ending,
            intents,
            steps,
        }
    })
}
