//! Joins small blocks of spilled segments.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;

use super::collect::{Collected, Shared};
use super::spill::RunReader;
use super::task::MapTask;
use super::writer::{BlockBytes, OutputWriter};
use crate::block::{BlockDecoder, BlockEncoder, BlockHeader, DecodeLimits};
use crate::codec::Codec;
use crate::ifile::{Lengths, ReadOptions, SegmentSlice};

/// Joins small blocks of a partition where the option asks for it.
pub(super) struct Joiner {
    decoder: Option<BlockDecoder>,
    encoder: Option<BlockEncoder>,
    schema: SchemaRef,
    block_rows: usize,
    run: u32,
}

impl Joiner {
    pub(super) fn new(task: &MapTask, shared: &Shared) -> Result<Self> {
        let schema = Arc::clone(&task.schema);
        let on = task.output.join_small_blocks && !task.sorted;
        let limits = DecodeLimits::default();
        Ok(Self {
            decoder: on.then(|| BlockDecoder::try_new(Arc::clone(&schema), limits)).transpose()?,
            encoder: on
                .then(|| BlockEncoder::try_new(Arc::clone(&schema), task.options.codec))
                .transpose()?,
            schema,
            block_rows: shared.block_rows,
            run: 0,
        })
    }

    /// Writes `partition` as one segment of joined blocks, where that is asked for and there is something to join.
    pub(super) fn join(
        &mut self,
        partition: usize,
        readers: &mut [RunReader],
        collected: &[Collected],
        writer: &mut OutputWriter,
    ) -> Result<bool> {
        let (Some(decoder), Some(encoder)) = (&mut self.decoder, &mut self.encoder) else {
            return Ok(false);
        };
        let mut held: Vec<(Vec<u8>, usize)> = Vec::new();
        let mut batches = Vec::new();
        let mut rows = 0;
        let mut take = |bytes: &[u8], block_rows: usize| -> Result<()> {
            if 2 * block_rows >= self.block_rows {
                held.push((bytes.to_vec(), block_rows));
                return Ok(());
            }
            let batch = decoder.decode(bytes)?;
            rows += batch.num_rows();
            batches.push(batch);
            if rows >= self.block_rows {
                rows = 0;
                held.push(joined(encoder, &self.schema, &std::mem::take(&mut batches))?);
            }
            Ok(())
        };
        for reader in readers {
            let Some(segment) = reader.next_of(partition) else { continue };
            let bytes = reader.read(&segment)?;
            let options = ReadOptions::new(Codec::None);
            let lengths = Lengths::both(segment.raw, segment.stored);
            let mut records = SegmentSlice::open(&bytes, lengths, options)?;
            while let Some(record) = records.next_record()? {
                let rows = BlockHeader::parse(record.value)?.rows;
                take(record.value, usize::try_from(rows).unwrap_or(usize::MAX))?;
            }
        }
        for block in collected.iter().flat_map(|input| input.blocks.of(partition)) {
            take(block.bytes, block.rows)?;
        }
        if !batches.is_empty() {
            held.push(joined(encoder, &self.schema, &batches)?);
        }
        let blocks: Vec<BlockBytes<'_>> =
            held.iter().map(|(bytes, rows)| BlockBytes { bytes, rows: *rows }).collect();
        writer.blocks(partition, self.run, &blocks)?;
        Ok(true)
    }
}

fn joined(
    encoder: &mut BlockEncoder,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<(Vec<u8>, usize)> {
    let batch = concat_batches(schema, batches)?;
    let mut bytes = Vec::new();
    encoder.encode(&batch, 0, batch.num_rows(), &mut bytes)?;
    Ok((bytes, batch.num_rows()))
}
