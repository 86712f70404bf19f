//! A map task: drains its inputs, writes its output, tells its status.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};
use parking_lot::Mutex;

use super::cancel::Cancel;
use super::collect::{Collector, Shared};
use super::commit::{Committed, OutputName, OutputStore};
use super::encoded::Counted;
use super::index::OutputHead;
use super::join::Joiner;
use super::open::OpenOutput;
use super::options::MapOutputOptions;
use super::segment::{StoredSegment, composed_crc};
use super::spill::Spills;
use super::writer::OutputWriter;
use crate::block::{DecodeLimits, schema_fingerprint};
use crate::codec::to_u64;
use crate::config::IFileOptions;
use crate::map_status::{
    AttemptId, BlockSizes, Location, MapStatus, PartitionColumns, PartitionFunction, Placement,
};
use crate::memory::{Ledger, Shares};
use crate::partition::Router;

/// Metrics of a map task.
///
/// | name | meaning |
/// |---|---|
/// | `input_rows` | rows of the inputs |
/// | `fetch_time` | waiting for the inputs |
/// | `repartition_time` | placing and gathering rows |
/// | `encode_time` | encoding and compressing blocks |
/// | `spill_count`, `spilled_bytes` | runs in scratch files, and bytes of their blocks |
/// | `write_time` | writing runs and the output, on blocking threads |
/// | `output_bytes` | bytes of the data file |
/// | `peak_reserved` | most bytes held of the memory pool |
#[derive(Debug, Clone)]
pub(crate) struct MapTaskMetrics {
    pub(super) input_rows: Count,
    pub(super) fetch_time: Time,
    pub(super) repartition_time: Time,
    pub(super) encode_time: Time,
    pub(super) spill_count: Count,
    pub(super) spilled_bytes: Count,
    pub(super) write_time: Time,
    output_bytes: Count,
    peak_reserved: Gauge,
}

impl MapTaskMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let build = || MetricBuilder::new(set);
        Self {
            input_rows: build().counter("input_rows", 0),
            fetch_time: build().subset_time("fetch_time", 0),
            repartition_time: build().subset_time("repartition_time", 0),
            encode_time: build().subset_time("encode_time", 0),
            spill_count: build().spill_count(0),
            spilled_bytes: build().counter("spilled_bytes", 0),
            write_time: build().subset_time("write_time", 0),
            output_bytes: build().counter("output_bytes", 0),
            peak_reserved: build().gauge("peak_reserved", 0),
        }
    }
}

/// What a map task is asked to do.
pub(crate) struct MapTask {
    pub(crate) owner: Arc<str>,
    pub(crate) schema: SchemaRef,
    pub(crate) partitioning: Partitioning,
    /// Whether each input is sorted: its segments then stay apart from those of others.
    pub(crate) sorted: bool,
    pub(crate) options: IFileOptions,
    pub(crate) output: MapOutputOptions,
    pub(crate) store: OutputStore,
    pub(crate) name: OutputName,
    pub(crate) attempt: u32,
    pub(crate) epoch: u64,
    pub(crate) location: Location,
    pub(crate) metrics: MapTaskMetrics,
}

/// What a map task did.
pub(crate) struct WrittenOutput {
    /// The status of the pair in place.
    pub(crate) status: MapStatus,
    pub(crate) committed: Committed,
    /// `None` where another attempt wrote the pair.
    pub(crate) spilled: Option<Spilled>,
}

/// What went through scratch files.
pub(crate) struct Spilled {
    pub(crate) runs: u64,
    pub(crate) bytes: u64,
}

/// The placement that a writer by `partitioning` states.
#[must_use]
pub fn placement_of(partitioning: &Partitioning) -> Placement {
    let count = u32::try_from(partitioning.partition_count()).unwrap_or(u32::MAX);
    let (function, seed) = match partitioning {
        Partitioning::Hash(..) => (PartitionFunction::Hash, 0),
        Partitioning::Range(_) => {
            let text = partitioning.to_string();
            let hash =
                |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            (PartitionFunction::Range, text.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
        }
        _ => (PartitionFunction::RoundRobin, 0),
    };
    let function = if count == 1 { PartitionFunction::Single } else { function };
    Placement { function, seed, count }
}

impl MapTask {
    /// Drains `inputs`, side by side, and commits the output.
    pub(crate) async fn run(
        self,
        inputs: Vec<SendableRecordBatchStream>,
        context: &TaskContext,
    ) -> Result<WrittenOutput> {
        let partitions = self.partitioning.partition_count();
        let shares =
            Shares { most: self.options.memory_share, headroom: self.options.memory_headroom };
        let disk = Arc::clone(&context.runtime_env().disk_manager);
        let ledger = Ledger::new(&self.owner, context.memory_pool(), shares);
        let shared = Arc::new(Shared {
            schema: Arc::clone(&self.schema),
            options: self.options.clone(),
            staged_bytes: self.output.staged_bytes / inputs.len().max(1),
            block_rows: context
                .session_config()
                .batch_size()
                .clamp(1, DecodeLimits::default().max_rows),
            spills: Mutex::new(Spills::new(disk, Arc::clone(&self.owner), &ledger)),
            ledger,
            parked: Mutex::default(),
            squeeze: AtomicUsize::new(0),
            metrics: self.metrics.clone(),
        });
        let count = inputs.len();
        let mut tasks = Vec::with_capacity(count);
        for (input, stream) in inputs.into_iter().enumerate() {
            let router = match &self.partitioning {
                // By ordinal, so that another attempt places every row alike, however batches are cut.
                Partitioning::RoundRobinBatch(_) => {
                    Router::by_ordinal(partitions, input * partitions / count.max(1))?
                }
                other => Router::try_new(other, input, count)?,
            };
            let collector = Collector::try_new(Arc::clone(&shared), input, partitions)?;
            tasks.push(SpawnedTask::spawn(collector.run(router, stream)));
        }
        // The first error drops, and so aborts, the others.
        let joined = tasks.into_iter().map(|task| async move {
            let ended = task.join_unwind().await;
            ended.map_err(|_| internal_datafusion_err!("a map task was cancelled"))?
        });
        let counted = futures::future::try_join_all(joined).await?;
        let metrics = self.metrics.clone();
        let ledger = Arc::clone(&shared.ledger);
        let cancel = Cancel::default();
        let _dropped_with_this = cancel.on_drop();
        let written = SpawnedTask::spawn_blocking(move || {
            let time = self.metrics.write_time.clone();
            let timer = time.timer();
            let written = self.write(&shared, &counted, cancel);
            timer.done();
            written
        });
        let written = written.join_unwind().await.map_err(|_| {
            internal_datafusion_err!("the task that writes a map output was cancelled")
        })??;
        metrics.peak_reserved.set_max(ledger.peak_bytes());
        let length = written.status.data_length.unwrap_or(0);
        metrics.output_bytes.add(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(written)
    }

    /// Writes and commits what was collected. Blocks the thread.
    fn write(self, shared: &Shared, counted: &[Counted], cancel: Cancel) -> Result<WrittenOutput> {
        let partitions = self.partitioning.partition_count();
        let attempt_id = fresh_attempt_id(self.name, self.attempt);
        let (disk, owner) = {
            let spills = shared.spills.lock();
            (spills.disk(), Arc::clone(&self.owner))
        };
        let empty = Spills::new(disk, owner, &shared.ledger);
        let spills = std::mem::replace(&mut *shared.spills.lock(), empty);
        let spilled = Spilled { runs: to_u64(spills.runs.len()), bytes: spills.bytes };
        let (mut readers, held) = spills.into_readers()?;
        let mut parked = std::mem::take(&mut *shared.parked.lock());
        parked.sort_unstable_by_key(|parked| parked.input);
        let pending = self.store.begin(self.name, attempt_id)?;
        let mut writer = OutputWriter::new(pending, partitions, cancel, &shared.ledger)?;
        let mut joiner = Joiner::try_new(&self, shared)?;
        let first_run = u32::try_from(readers.len()).unwrap_or(u32::MAX);
        for partition in 0..partitions {
            writer.check(partition)?;
            if let Some(joiner) = &mut joiner {
                joiner.join(partition, &mut readers, &parked, &mut writer)?;
                continue;
            }
            for reader in &mut readers {
                if let Some(segment) = reader.next_of(partition) {
                    reader.splice(partition, &segment, &mut writer)?;
                }
            }
            if self.sorted {
                for (run, input) in (first_run..).zip(&parked) {
                    let blocks: Vec<_> = input.blocks.of(partition).collect();
                    writer.blocks(partition, run, &blocks)?;
                }
            } else {
                let blocks: Vec<_> =
                    parked.iter().flat_map(|input| input.blocks.of(partition)).collect();
                writer.blocks(partition, first_run, &blocks)?;
            }
        }
        drop((readers, held, parked));
        let placement = placement_of(&self.partitioning);
        let head = OutputHead {
            attempt_id,
            map_id: self.name.map_id,
            attempt: self.attempt,
            epoch: self.epoch,
            schema_fingerprint: schema_fingerprint(&self.schema),
            placement,
            codec: self.options.codec,
            sorted: self.sorted,
            data_length: 0,
            data_crc: 0,
            schema: Arc::clone(&self.schema),
        };
        let (mut committed, segments) = writer.finish(self.output.layout, head)?;
        if committed.ours {
            let rows = sums(counted, partitions, |input| &input.rows);
            let memory = sums(counted, partitions, |input| &input.memory_bytes);
            let status = self.status(attempt_id, &segments, Some(rows), Some(memory));
            return Ok(WrittenOutput { status, committed, spilled: Some(spilled) });
        }
        let status = self.status_in_place(committed.attempt_id)?;
        // A later epoch may have replaced the pair since.
        committed.attempt_id = status.attempt_id.unwrap_or(committed.attempt_id);
        Ok(WrittenOutput { status, committed, spilled: None })
    }

    fn status(
        &self,
        attempt_id: AttemptId,
        segments: &[Vec<StoredSegment>],
        rows: Option<Vec<u64>>,
        memory_bytes: Option<Vec<u64>>,
    ) -> MapStatus {
        let stored = |segments: &Vec<StoredSegment>| segments.iter().map(|one| one.stored).sum();
        let sizes: Vec<u64> = segments.iter().map(stored).collect();
        let count =
            |segments: &Vec<StoredSegment>| u32::try_from(segments.len()).unwrap_or(u32::MAX);
        MapStatus {
            map_id: self.name.map_id,
            attempt: self.attempt,
            attempt_id: Some(attempt_id),
            epoch: self.epoch,
            location: self.location.clone(),
            layout: self.output.layout.wire_id(),
            codec: self.options.codec,
            schema_fingerprint: schema_fingerprint(&self.schema),
            placement: placement_of(&self.partitioning),
            data_length: Some(sizes.iter().sum()),
            sorted: self.sorted,
            sizes: BlockSizes::coded(&sizes),
            columns: PartitionColumns {
                rows,
                memory_bytes,
                segments: Some(segments.iter().map(count).collect()),
                checksums: Some(segments.iter().map(composed_crc).collect()),
            },
        }
    }

    /// The status of the pair that was there before, by what its files say. A `tez` index says neither rows nor checksums,
    /// and nothing of schema, codec and placement: those of a map task are the same in every attempt.
    fn status_in_place(&self, attempt_id: AttemptId) -> Result<MapStatus> {
        let count = placement_of(&self.partitioning).count;
        let mut open = OpenOutput::in_place(&self.store, self.name, count)?;
        let segments = (0..open.index.partitions())
            .map(|partition| open.index.segments(open.source.as_mut(), partition))
            .collect::<Result<Vec<_>, _>>()?;
        let rows = open.index.head().is_some().then(|| {
            segments
                .iter()
                .map(|all: &Vec<StoredSegment>| all.iter().map(|one| one.rows).sum())
                .collect()
        });
        let attempt_id = open.attempt_id.unwrap_or(attempt_id);
        let mut status = self.status(attempt_id, &segments, rows, None);
        status.layout = open.index.layout().wire_id();
        if let Some(trailer) = &open.trailer {
            (status.attempt, status.epoch) = (trailer.attempt, trailer.epoch);
        }
        match open.index.head() {
            Some(head) => {
                (status.codec, status.sorted) = (head.codec, head.sorted);
                status.schema_fingerprint = head.schema_fingerprint;
                status.placement = head.placement;
            }
            None => status.columns.checksums = None,
        }
        Ok(status)
    }
}

fn sums(counted: &[Counted], partitions: usize, of: impl Fn(&Counted) -> &Vec<u64>) -> Vec<u64> {
    let mut sums = vec![0; partitions];
    for input in counted {
        sums.iter_mut().zip(of(input)).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// An id that no other attempt has: the random keys of two hashers of the standard library, and what is known of the
/// attempt.
fn fresh_attempt_id(name: OutputName, attempt: u32) -> AttemptId {
    use std::hash::{BuildHasher, RandomState};
    let now = std::time::SystemTime::now();
    let half = || RandomState::new().hash_one((name, attempt, now, std::process::id()));
    let (high, low) = (half().to_be_bytes(), half().to_be_bytes());
    let mut id = [0; 16];
    id.iter_mut().zip(high.into_iter().chain(low)).for_each(|(slot, byte)| *slot = byte);
    AttemptId(id)
}
