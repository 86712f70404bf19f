use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};

use super::grouping::Grouping;
use super::slab::{SlabSource, Slabs, Take};
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
    schema: SchemaRef,
    partitions: usize,
    block_rows: usize,
    most_value_bytes: usize,
    grouping: Grouping,
    staged: Staged,
    encoder: BlockEncoder,
    out: Vec<u8>,
}

enum Staged {
    Slabs(Box<Slabs>),
    /// One per partition, for the types that slabs do not hold.
    Stages(Vec<Stage>),
}

impl Staged {
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
            Staged::Slabs(slabs) => slabs.append(source, takes, false).map(drop),
            Staged::Stages(stages) => takes.iter().try_for_each(|take| {
                let stage = stages.get_mut(take.partition);
                stage.map_or(Ok(()), |stage| stage.append(source.source, take.rows, Room::Full))
            }),
        }
    }
}

impl std::fmt::Debug for BlockPartitioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockPartitioner")
            .field("partitions", &self.partitions)
            .field("block_rows", &self.block_rows)
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
        if partitions == 0 || u32::try_from(partitions).is_err() || block_rows == 0 {
            return exec_err!(
                "blocks of {block_rows} rows of {partitions} partitions cannot be made"
            );
        }
        let encoder = BlockEncoder::try_new(Arc::clone(&schema), codec)?;
        let staged = if Slabs::can_hold(&schema) {
            Staged::Slabs(Box::new(Slabs::with_numbered_values(&schema, partitions, block_rows)))
        } else {
            let stage = || Stage::new(&schema, block_rows);
            Staged::Stages((0..partitions).map(|_| stage()).collect())
        };
        Ok(Self {
            grouping: Grouping::new(partitions),
            schema,
            partitions,
            block_rows,
            most_value_bytes: MOST_VALUE_BYTES,
            staged,
            encoder,
            out: Vec::new(),
        })
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
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.partitions) {
            return exec_err!("partition id {id} of {} partitions", self.partitions);
        }
        let source = Source::try_new(&self.schema, batch)?;
        let grouped = self.grouping.group(ids);
        let runs = (0..grouped.len()).map(|index| {
            let (partition, rows) = grouped.run(index);
            Take { partition, rows: Rows::Index(rows), place: grouped.start(index) }
        });
        let mut left: Vec<Take<'_>> = runs.collect();
        let mut source = SlabSource::new(&source, Some(&grouped), usize::MAX);
        if let Staged::Slabs(slabs) = &mut self.staged {
            slabs.number(&mut source);
        }
        let Self { staged, encoder, out, block_rows, most_value_bytes, .. } = self;
        let mut writer = Writer { encoder, out, emit: &mut emit };
        let mut takes = Vec::with_capacity(left.len());
        while !left.is_empty() {
            takes.clear();
            for take in &mut left {
                let room = *block_rows - staged.rows(take.partition);
                let count = take.rows.len().min(room);
                let now = writer.fitting(staged, &source, take, count, *most_value_bytes)?;
                takes.push(Take { rows: now, ..*take });
                take.rows = take.rows.split_at(now.len()).1;
                take.place += now.len();
            }
            staged.append(&source, &takes)?;
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

    /// Gives the rows that are left to `emit`, partition by partition. More may be pushed after it.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn finish(
        &mut self,
        mut emit: impl FnMut(usize, &[u8], BlockInfo) -> Result<()>,
    ) -> Result<()> {
        let mut writer = Writer { encoder: &mut self.encoder, out: &mut self.out, emit: &mut emit };
        for partition in 0..self.partitions {
            if self.staged.rows(partition) > 0 {
                writer.write(&mut self.staged, partition)?;
            }
        }
        if let Staged::Slabs(slabs) = &mut self.staged {
            **slabs = Slabs::with_numbered_values(&self.schema, self.partitions, self.block_rows);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn set_most_value_bytes(&mut self, bytes: usize) {
        self.most_value_bytes = bytes;
    }

    /// Bytes of staged rows, scratch and codec state.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let staged = match &self.staged {
            Staged::Slabs(slabs) => slabs.held_bytes(),
            Staged::Stages(stages) => stages.iter().map(Stage::held_bytes).sum(),
        };
        staged + self.scratch_bytes()
    }

    /// Bytes of scratch and codec state.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.encoder.held_bytes() + self.out.capacity()
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
