//! Rows of lanes to blocks in memory.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;

use super::Exchange;
use super::lane::{Body, Lane, Unencoded};
use crate::block::{BlockEncoder, BlockInfo, BlockResult, CodecUse, logical_bytes};
use crate::memory::{Held, Permit, WORKING_SET_BYTES};
use crate::partition::{Slab, SlabScratch};
use crate::scratch::Block;

/// What a block takes in memory beside its bytes.
const BLOCK_BYTES: usize = 256;

/// Most bytes of codec state and encoder scratch that are taken although the pool refuses them.
const MAX_ENCODER_BYTES: usize = 4 * WORKING_SET_BYTES;

/// An encoder, and the permit for what it holds.
pub(super) struct Encoder {
    encoder: BlockEncoder,
    permit: Permit,
}

/// Rows to encode, and their logical bytes.
#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    bytes: usize,
}

impl Size {
    /// Rows of one block of about `block_bytes`.
    fn step(self, block_bytes: usize) -> usize {
        let parts = self.bytes.div_ceil(block_bytes).clamp(1, self.rows.max(1));
        self.rows.div_ceil(parts).max(1)
    }
}

impl Exchange {
    /// Encodes the batches of a lane. Returns how many bytes of them.
    pub(super) fn encode_lane(&self, lane: usize) -> Result<usize> {
        let batches = self.with_lane(lane, |lane| lane.batches(&self.shape));
        let batches = batches.unwrap_or_else(|| Ok(Vec::new()))?;
        if batches.is_empty() {
            return Ok(0);
        }
        let mut encoder = self.take_encoder()?;
        let mut encoded = 0;
        for (number, rows) in batches {
            let (blocks, bytes) = match &rows {
                Unencoded::Batch(batch) => {
                    (self.encode(&mut encoder, &batch.value)?, batch.bytes())
                }
                Unencoded::Slab(slab) => {
                    (self.encode_slab(&mut encoder, &slab.value)?, slab.bytes())
                }
            };
            self.with_lane(lane, |lane| lane.replace(number, Body::Blocks(blocks)));
            encoded += bytes;
        }
        self.with_lane(lane, Lane::end_encoding);
        self.pressure.idle.lock().push(encoder);
        Ok(encoded)
    }

    /// An encoder. Where the pool refuses the memory of its codec, its blocks stay as they are.
    fn take_encoder(&self) -> Result<Encoder> {
        let idle = self.pressure.idle.lock().pop();
        if let Some(encoder) = idle {
            return Ok(encoder);
        }
        let options = &self.plan.options;
        let mut encoder = BlockEncoder::try_new(Arc::clone(&self.plan.schema), options.codec)?;
        encoder.prepare_codec(options.block_bytes.min(self.shape.batch_bytes));
        let bytes = encoder.held_bytes();
        let permit = match self.ledger.try_reserve(bytes) {
            Ok(permit) => permit,
            Err(_) if bytes <= MAX_ENCODER_BYTES => self.ledger.force(bytes),
            Err(refusal) => {
                log::debug!("{}: blocks without codec: {refusal}", self.plan.name);
                encoder.refuse_codec();
                self.ledger.force(encoder.held_bytes())
            }
        };
        Ok(Encoder { encoder, permit })
    }

    /// Encodes the rows of `batch`.
    fn encode(&self, own: &mut Encoder, batch: &RecordBatch) -> Result<Vec<Arc<Held<Block>>>> {
        let rows = batch.num_rows();
        let size = Size { rows, bytes: logical_bytes(batch, 0, rows) };
        self.encode_parts(own, size, |encoder, start, len, out| {
            encoder.encode(batch, start, len, out)
        })
    }

    fn encode_slab(&self, own: &mut Encoder, slab: &Slab) -> Result<Vec<Arc<Held<Block>>>> {
        let schema = &self.plan.schema;
        let size = Size { rows: slab.rows(), bytes: slab.arrow_bytes() };
        let mut scratch = SlabScratch::default();
        self.encode_parts(own, size, |encoder, start, len, out| {
            slab.encode(schema, encoder, &mut scratch, start, len, out)
        })
    }

    /// Encodes rows, split where their logical bytes exceed the option, and further where the pool
    /// refuses what encoding so many of them takes.
    fn encode_parts(
        &self,
        own: &mut Encoder,
        size: Size,
        mut encode: impl FnMut(&mut BlockEncoder, usize, usize, &mut Vec<u8>) -> BlockResult<BlockInfo>,
    ) -> Result<Vec<Arc<Held<Block>>>> {
        let timer = self.plan.metrics.encode_time.timer();
        let Size { rows, bytes } = size;
        let mut step = size.step(self.plan.options.block_bytes);
        if !self.reserve_working(own, self.working_bytes(own, size, step)) {
            step = step.min(size.step(WORKING_SET_BYTES));
        }
        let working = self.working_bytes(own, size, step);
        own.permit.resize(own.permit.bytes().max(working));
        let mut blocks = Vec::with_capacity(rows.div_ceil(step));
        let mut start = 0;
        while start < rows {
            let len = step.min(rows - start);
            let mut out = Vec::new();
            encode(&mut own.encoder, start, len, &mut out)?;
            out.shrink_to_fit();
            let permit = self.ledger.force(out.capacity() + BLOCK_BYTES);
            let raw_bytes = bytes * len / rows;
            blocks.push(Held::new(Block { bytes: out.into(), rows: len, raw_bytes }, permit));
            start += len;
        }
        own.permit.resize(own.encoder.held_bytes());
        self.plan.metrics.encoded_rows.add(rows);
        self.count_codec_use(own.encoder.take_codec_use());
        timer.done();
        Ok(blocks)
    }

    /// What encoding `rows` rows at a time takes in scratch and codec buffers, which are used again.
    fn working_bytes(&self, own: &Encoder, size: Size, rows: usize) -> usize {
        let columns = self.plan.schema.fields().len();
        let part = size.bytes / size.rows.max(1) * rows;
        let gathered = if self.slabs.is_some() { SlabScratch::most_bytes(rows) } else { 0 };
        gathered + own.encoder.held_bytes().max(BlockEncoder::working_bytes(columns, rows, part))
    }

    /// Reserves what encoding takes. A small part of that is taken in any case.
    fn reserve_working(&self, own: &mut Encoder, working: usize) -> bool {
        let more = working.saturating_sub(own.permit.bytes());
        match self.ledger.try_reserve(more) {
            Ok(permit) => own.permit.merge(permit),
            Err(_) if more <= MAX_ENCODER_BYTES => own.permit.merge(self.ledger.force(more)),
            Err(_) => return false,
        }
        true
    }

    fn count_codec_use(&self, codec: CodecUse) {
        let metrics = &self.plan.metrics;
        metrics.compress_time.add_duration(codec.time);
        metrics.raw_blocks_incompressible.add(codec.incompressible);
        metrics.raw_blocks_refused.add(codec.refused);
        metrics.raw_blocks_failed.add(codec.failed);
    }
}
