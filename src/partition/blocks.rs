use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};

use super::grouping::{Grouped, Grouping};
use super::slab::{Growth, SlabSource, Slabs, Take};
use super::source::{Rows, Source};
use super::stage::{Room, Stage};
use crate::block::{BlockEncoder, BlockInfo};
use crate::codec::Codec;

/// Bytes of values of variable length beyond which a block has fewer rows.
const MOST_VALUE_BYTES: usize = 128 * 1024 * 1024;

/// Splits batches into blocks of their output partitions.
///
/// Rows are gathered once, narrowed while their batch is in cache, and held until their partition
/// has a full block, by rows or by 128 MiB of strings, or [`finish`](Self::finish) is called. Rows of a partition keep their order.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// # use datafusion_ifile::{BlockPartitioner, Codec};
/// # fn main() -> datafusion::common::Result<()> {
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![10, 11, 12]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
/// let mut partitioner = BlockPartitioner::try_new(batch.schema(), 4, Codec::Lz4, 8192)?;
/// let mut rows = [0; 4];
/// partitioner.push(&batch, &[2, 0, 2], |_, _, _| Ok(()))?;
/// partitioner.finish(|partition, _bytes, info| {
///     rows[partition] += info.rows;
///     Ok(())
/// })?;
/// assert_eq!(rows, [1, 0, 2, 0]);
/// # Ok(())
/// # }
/// ```
pub struct BlockPartitioner {
    grouping: Grouping,
    stage: BlockStage,
}

/// Rows of all partitions on their way to blocks.
pub(crate) struct BlockStage {
    schema: SchemaRef,
    partitions: usize,
    block_rows: usize,
    most_value_bytes: usize,
    staged: Staged,
    encoder: BlockEncoder,
    out: Vec<u8>,
}

/// What becomes of the room of rows that have left as blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It is for the rows that follow.
    Keep,
    /// It is given back.
    Release,
}

enum Staged {
    Slabs(Box<Slabs>),
    /// One per partition, for the types that slabs do not hold.
    Stages(Vec<Stage>),
}

impl Staged {
    fn new(schema: &SchemaRef, partitions: usize, block_rows: usize) -> Self {
        if Slabs::can_hold(schema) {
            return Staged::Slabs(Box::new(Slabs::with_numbered_values(
                schema, partitions, block_rows,
            )));
        }
        Staged::Stages((0..partitions).map(|_| Stage::new(schema, block_rows)).collect())
    }

    fn rows(&self, partition: usize) -> usize {
        match self {
            Staged::Slabs(slabs) => slabs.rows(partition),
            Staged::Stages(stages) => stages.get(partition).map_or(0, Stage::rows),
        }
    }

    /// Bytes of values of variable length, or more.
    fn value_bytes(&self, partition: usize) -> usize {
        match self {
            Staged::Slabs(slabs) => slabs.value_bytes(partition),
            Staged::Stages(stages) => stages.get(partition).map_or(0, Stage::row_bytes),
        }
    }

    fn append(&mut self, source: &SlabSource<'_>, takes: &[Take<'_>]) -> Result<()> {
        match self {
            Staged::Slabs(slabs) => slabs.append(source, takes, Growth::Careful),
            Staged::Stages(stages) => takes.iter().try_for_each(|take| {
                let stage = stages.get_mut(take.partition);
                stage.map_or(Ok(()), |stage| stage.append(source.batch(), take.rows, Room::Full))
            }),
        }
    }
}

impl std::fmt::Debug for BlockPartitioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockPartitioner")
            .field("partitions", &self.stage.partitions)
            .field("block_rows", &self.stage.block_rows)
            .finish_non_exhaustive()
    }
}

impl BlockPartitioner {
    /// Blocks of `block_rows` rows of `schema` for `partitions` partitions.
    ///
    /// # Errors
    /// A schema that blocks cannot carry, no partitions, or no rows per block.
    pub fn try_new(
        schema: SchemaRef,
        partitions: usize,
        codec: Codec,
        block_rows: usize,
    ) -> Result<Self> {
        let stage = BlockStage::try_new(schema, partitions, codec, block_rows)?;
        Ok(Self { grouping: Grouping::new(partitions), stage })
    }

    /// Takes the rows of `batch`; row `i` belongs to partition `ids[i]`. `emit` gets each block that
    /// becomes full, with its partition.
    ///
    /// # Errors
    /// A batch of another schema, not one id for each row, an id that is no partition, and those of
    /// `emit`. The partitioner is not to be used after an error.
    pub fn push(
        &mut self,
        batch: &RecordBatch,
        ids: &[u32],
        mut emit: impl FnMut(usize, &[u8], BlockInfo) -> Result<()>,
    ) -> Result<()> {
        if ids.len() != batch.num_rows() {
            return exec_err!("{} partition ids for {} rows", ids.len(), batch.num_rows());
        }
        let stage = &mut self.stage;
        if let Some(id) = ids.iter().find(|id| **id as usize >= stage.partitions) {
            return exec_err!("partition id {id} of {} partitions", stage.partitions);
        }
        let source = Source::try_new(&stage.schema, batch)?;
        let grouped = self.grouping.group(ids);
        let mut source = stage.source(&source);
        stage.push(&mut source, takes_of(&grouped), &mut emit)
    }

    /// Gives the rows that are left to `emit`, partition by partition. More may be pushed after it.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn finish(
        &mut self,
        mut emit: impl FnMut(usize, &[u8], BlockInfo) -> Result<()>,
    ) -> Result<()> {
        self.stage.finish(After::Release, &mut emit)
    }

    #[cfg(test)]
    pub(super) fn set_most_value_bytes(&mut self, bytes: usize) {
        self.stage.most_value_bytes = bytes;
    }

    /// Bytes of staged rows, scratch and codec state.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.stage.held_bytes()
    }

    /// Bytes of scratch and codec state.
    #[cfg(test)]
    pub(super) fn scratch_bytes(&self) -> usize {
        self.stage.scratch_bytes()
    }
}

/// The rows that each partition takes of a batch.
pub(crate) fn takes_of<'a>(grouped: &Grouped<'a>) -> Vec<Take<'a>> {
    let take = |index: usize| {
        let (partition, rows) = grouped.run(index);
        Take { partition, rows: Rows::Index(rows) }
    };
    (0..grouped.len()).map(take).collect()
}

impl BlockStage {
    /// As [`BlockPartitioner::try_new`].
    pub(crate) fn try_new(
        schema: SchemaRef,
        partitions: usize,
        codec: Codec,
        block_rows: usize,
    ) -> Result<Self> {
        if partitions == 0 || u32::try_from(partitions).is_err() || block_rows == 0 {
            return exec_err!(
                "blocks of {block_rows} rows of {partitions} partitions cannot be made"
            );
        }
        let encoder = BlockEncoder::try_new(Arc::clone(&schema), codec)?;
        Ok(Self {
            staged: Staged::new(&schema, partitions, block_rows),
            schema,
            partitions,
            block_rows,
            most_value_bytes: MOST_VALUE_BYTES,
            encoder,
            out: Vec::new(),
        })
    }

    /// The same, with blocks of at most so many bytes of values of variable length, or one row.
    pub(crate) fn with_most_value_bytes(self, bytes: usize) -> Self {
        Self { most_value_bytes: bytes.clamp(1, MOST_VALUE_BYTES), ..self }
    }

    /// `source` as [`push`](Self::push) takes it.
    pub(crate) fn source<'a>(&self, source: &'a Source) -> SlabSource<'a> {
        match &self.staged {
            Staged::Slabs(slabs) => SlabSource::new(source, Some(&slabs.layout())),
            Staged::Stages(_) => SlabSource::as_it_is(source),
        }
    }

    /// Bytes by which it grows at most when it takes `takes`.
    pub(crate) fn growth(&self, source: &SlabSource<'_>, takes: &[Take<'_>]) -> usize {
        match &self.staged {
            Staged::Slabs(slabs) => {
                slabs.growth(source, takes, Growth::Careful) + slabs.numbered_growth(source)
            }
            Staged::Stages(stages) => {
                let growth = |take: &Take<'_>| {
                    let stage = stages.get(take.partition);
                    stage.map_or(0, |stage| stage.growth(source.batch(), take.rows, Room::Full))
                };
                takes.iter().map(growth).sum()
            }
        }
    }

    /// Takes rows of a batch, at most one run for each partition. `emit` gets each block that becomes full.
    ///
    /// # Errors
    /// Those of `emit`. The stage is not to be used after an error.
    pub(crate) fn push(
        &mut self,
        source: &mut SlabSource<'_>,
        mut left: Vec<Take<'_>>,
        emit: &mut impl FnMut(usize, &[u8], BlockInfo) -> Result<()>,
    ) -> Result<()> {
        let Self { staged, encoder, out, block_rows, most_value_bytes, .. } = self;
        if let Staged::Slabs(slabs) = staged {
            slabs.number(source);
        }
        let mut writer = Writer { encoder, out, emit };
        let mut takes = Vec::with_capacity(left.len());
        while !left.is_empty() {
            takes.clear();
            for take in &mut left {
                let room = *block_rows - staged.rows(take.partition);
                let count = take.rows.len().min(room);
                let now = writer.fitting(staged, source, take, count, *most_value_bytes)?;
                takes.push(Take { rows: now, ..*take });
                take.rows = take.rows.split_at(now.len()).1;
            }
            staged.append(source, &takes)?;
            for take in &takes {
                let full = staged.rows(take.partition) == *block_rows;
                if full || staged.value_bytes(take.partition) >= *most_value_bytes {
                    writer.write(staged, take.partition)?;
                }
            }
            left.retain(|take| !take.rows.is_empty());
        }
        Ok(())
    }

    /// Gives the rows that are left to `emit`, partition by partition.
    ///
    /// # Errors
    /// Those of `emit`.
    pub(crate) fn finish(
        &mut self,
        after: After,
        emit: &mut impl FnMut(usize, &[u8], BlockInfo) -> Result<()>,
    ) -> Result<()> {
        let mut writer = Writer { encoder: &mut self.encoder, out: &mut self.out, emit };
        for partition in 0..self.partitions {
            if self.staged.rows(partition) > 0 {
                writer.write(&mut self.staged, partition)?;
            }
        }
        if after == After::Release {
            self.staged = Staged::new(&self.schema, self.partitions, self.block_rows);
        }
        Ok(())
    }

    /// Bytes of staged rows, without room that they do not use.
    pub(crate) fn used_bytes(&self) -> usize {
        match &self.staged {
            Staged::Slabs(slabs) => slabs.used_bytes(),
            Staged::Stages(stages) => stages.iter().map(Stage::held_bytes).sum(),
        }
    }

    /// Bytes of staged rows, scratch and codec state.
    pub(crate) fn held_bytes(&self) -> usize {
        let staged = match &self.staged {
            Staged::Slabs(slabs) => slabs.held_bytes(),
            Staged::Stages(stages) => stages.iter().map(Stage::held_bytes).sum(),
        };
        staged + self.scratch_bytes()
    }

    /// Bytes of scratch and codec state.
    fn scratch_bytes(&self) -> usize {
        let staged = match &self.staged {
            Staged::Slabs(slabs) => slabs.scratch_bytes(),
            Staged::Stages(_) => 0,
        };
        staged + self.encoder.held_bytes() + self.out.capacity()
    }
}

/// Encodes what is staged and gives it away.
struct Writer<'a, E> {
    encoder: &'a mut BlockEncoder,
    out: &'a mut Vec<u8>,
    emit: &'a mut E,
}

impl<E: FnMut(usize, &[u8], BlockInfo) -> Result<()>> Writer<'_, E> {
    /// The first of the rows of `take`, at most `count` of them and no more than their values allow
    /// in one block. What is staged goes first where both together are too much.
    fn fitting<'a>(
        &mut self,
        staged: &mut Staged,
        source: &SlabSource<'_>,
        take: &Take<'a>,
        count: usize,
        most_bytes: usize,
    ) -> Result<Rows<'a>> {
        let mut rows = take.rows.split_at(count).0;
        if source.most_value_bytes() <= most_bytes {
            return Ok(rows);
        }
        let mut bytes = source.value_bytes(rows);
        while bytes > most_bytes && rows.len() > 1 {
            rows = rows.split_at(rows.len() / 2).0;
            bytes = source.value_bytes(rows);
        }
        let staged_bytes = staged.value_bytes(take.partition);
        if staged_bytes > 0 && staged_bytes.saturating_add(bytes) > 2 * most_bytes {
            self.write(staged, take.partition)?;
        }
        Ok(rows)
    }

    fn write(&mut self, staged: &mut Staged, partition: usize) -> Result<()> {
        match staged {
            Staged::Slabs(slabs) => {
                self.out.clear();
                let info = slabs.encode(partition, self.encoder, self.out)?;
                (self.emit)(partition, self.out, info)
            }
            Staged::Stages(stages) => {
                let batches = stages.get_mut(partition).map(Stage::finish).transpose()?;
                batches.into_iter().flatten().try_for_each(|batch| {
                    self.out.clear();
                    let info = self.encoder.encode(&batch, 0, batch.num_rows(), self.out)?;
                    (self.emit)(partition, self.out, info)
                })
            }
        }
    }
}
