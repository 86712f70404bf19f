use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};

use super::grouping::{Grouped, Grouping};
use super::slab::{SlabSource, Slabs, Take};
use super::source::{Rows, Source};
use super::stage::{Room, Stage};
use crate::block::{BlockEncoder, BlockInfo};
use crate::codec::Codec;

/// Splits batches into blocks of their output partitions.
///
/// Rows are gathered once, narrowed while their batch is in cache, and held until their partition
/// has a full block or [`finish`](Self::finish) is called. Rows of a partition keep their order.
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
    grouping: Grouping,
    staged: Staged,
    encoder: BlockEncoder,
    out: Vec<u8>,
}

enum Staged {
    Slabs(Box<Slabs>),
    /// One per partition, for the types that slabs do not hold.
    Stages(Vec<Stage>, usize),
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
            Staged::Stages((0..partitions).map(|_| stage()).collect(), 0)
        };
        Ok(Self {
            grouping: Grouping::new(partitions),
            schema,
            partitions,
            block_rows,
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
        let mut writer = Writer { encoder: &mut self.encoder, out: &mut self.out, emit: &mut emit };
        match &mut self.staged {
            Staged::Slabs(slabs) => {
                fill_slabs(slabs, &source, &grouped, left, self.block_rows, &mut writer)
            }
            Staged::Stages(stages, held) => {
                while !left.is_empty() {
                    for take in &mut left {
                        let Some(stage) = stages.get_mut(take.partition) else { continue };
                        let room = self.block_rows - stage.rows();
                        let (now, rest) = take.rows.split_at(take.rows.len().min(room));
                        *held += stage.growth(&source, now, Room::Full);
                        stage.append(&source, now, Room::Full)?;
                        take.rows = rest;
                        if stage.rows() == self.block_rows {
                            *held = held.saturating_sub(writer.stage(stage, take.partition)?);
                        }
                    }
                    left.retain(|take| !take.rows.is_empty());
                }
                Ok(())
            }
        }
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
            match &mut self.staged {
                Staged::Slabs(slabs) if slabs.rows(partition) > 0 => {
                    writer.slab(slabs, partition)?;
                }
                Staged::Stages(stages, held) => {
                    if let Some(stage) = stages.get_mut(partition).filter(|s| s.rows() > 0) {
                        *held = held.saturating_sub(writer.stage(stage, partition)?);
                    }
                }
                Staged::Slabs(_) => {}
            }
        }
        if let Staged::Slabs(slabs) = &mut self.staged {
            **slabs = Slabs::with_numbered_values(&self.schema, self.partitions, self.block_rows);
        }
        Ok(())
    }

    /// Bytes of staged rows, scratch and codec state.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let staged = match &self.staged {
            Staged::Slabs(slabs) => slabs.held_bytes(),
            Staged::Stages(_, held) => *held,
        };
        staged + self.encoder.held_bytes() + self.out.capacity()
    }
}

fn fill_slabs<E: FnMut(usize, &[u8], BlockInfo) -> Result<()>>(
    slabs: &mut Slabs,
    source: &Source,
    grouped: &Grouped<'_>,
    mut left: Vec<Take<'_>>,
    block_rows: usize,
    writer: &mut Writer<'_, E>,
) -> Result<()> {
    let source = SlabSource::new(source, Some(grouped), usize::MAX);
    let mut takes = Vec::with_capacity(left.len());
    while !left.is_empty() {
        takes.clear();
        for take in &mut left {
            let room = block_rows - slabs.rows(take.partition);
            let (now, rest) = take.rows.split_at(take.rows.len().min(room));
            takes.push(Take { rows: now, ..*take });
            take.rows = rest;
            take.place += now.len();
        }
        slabs.append(&source, &takes, false)?;
        for take in &takes {
            if slabs.rows(take.partition) == block_rows {
                writer.slab(slabs, take.partition)?;
            }
        }
        left.retain(|take| !take.rows.is_empty());
    }
    Ok(())
}

/// Encodes what is staged and gives it away.
struct Writer<'a, E> {
    encoder: &'a mut BlockEncoder,
    out: &'a mut Vec<u8>,
    emit: &'a mut E,
}

impl<E: FnMut(usize, &[u8], BlockInfo) -> Result<()>> Writer<'_, E> {
    fn slab(&mut self, slabs: &mut Slabs, partition: usize) -> Result<()> {
        self.out.clear();
        let info = slabs.encode(partition, self.encoder, self.out)?;
        (self.emit)(partition, self.out, info)
    }

    /// Returns the bytes that the stage held.
    fn stage(&mut self, stage: &mut Stage, partition: usize) -> Result<usize> {
        let held = stage.row_bytes();
        for batch in stage.finish()? {
            self.out.clear();
            let info = self.encoder.encode(&batch, 0, batch.num_rows(), self.out)?;
            (self.emit)(partition, self.out, info)?;
        }
        Ok(held)
    }
}
