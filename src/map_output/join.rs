//! Joins small blocks of spilled segments.

use std::io::Write;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;

use super::collect::Shared;
use super::encoded::Parked;
use super::spill::RunReader;
use super::task::MapTask;
use super::writer::{BlocksWriter, OutputWriter};
use crate::block::{BlockDecoder, BlockEncoder, BlockHeader, DecodeLimits, Joined};
use crate::codec::Codec;
use crate::ifile::{Lengths, ReadOptions, ReadScratch, SegmentReader};
use crate::memory::Permit;

/// Joins small blocks of a partition where the option asks for it. What it holds, the rows of a block and the block, is
/// its working set.
pub(super) struct Joiner {
    decoder: BlockDecoder,
    encoder: BlockEncoder,
    schema: SchemaRef,
    most_rows: usize,
    most_bytes: usize,
    buffer: usize,
    scratch: ReadScratch,
    joined: Joined,
    rows: usize,
    out: Vec<u8>,
    held: Permit,
}

impl Joiner {
    /// `None` where blocks stay as they are.
    pub(super) fn try_new(task: &MapTask, shared: &Shared) -> Result<Option<Self>> {
        if !task.output.join_small_blocks || task.sorted {
            return Ok(None);
        }
        let schema = &task.schema;
        Ok(Some(Self {
            decoder: BlockDecoder::try_new(Arc::clone(schema), DecodeLimits::default())?,
            encoder: BlockEncoder::try_new(Arc::clone(schema), task.options.codec)?,
            joined: Joined::new(schema, 0),
            schema: Arc::clone(schema),
            most_rows: shared.block_rows,
            most_bytes: task.options.block_bytes,
            buffer: task.options.read_ahead_bytes,
            scratch: ReadScratch::default(),
            rows: 0,
            out: Vec::new(),
            held: shared.ledger.empty(),
        }))
    }

    /// Writes `partition` as one segment of joined blocks, if there are any.
    pub(super) fn join(
        &mut self,
        partition: usize,
        readers: &mut [RunReader],
        parked: &[Parked],
        writer: &mut OutputWriter,
    ) -> Result<()> {
        let stored: Vec<_> = readers.iter_mut().map(|reader| reader.next_of(partition)).collect();
        let waits = |parked: &Parked| parked.blocks.of(partition).next().is_some();
        if !stored.iter().any(Option::is_some) && !parked.iter().any(waits) {
            return Ok(());
        }
        writer.segment(partition, 0, |segment| {
            for (reader, stored) in readers.iter_mut().zip(&stored) {
                let Some(stored) = stored else { continue };
                let lengths = Lengths::both(stored.raw, stored.stored);
                let options = ReadOptions::new(Codec::None).with_buffer(self.buffer);
                let scratch = std::mem::take(&mut self.scratch);
                let bytes = reader.open(stored)?;
                let mut records = SegmentReader::self_checked_in(scratch, bytes, lengths, options)?;
                while let Some(record) = records.next_record()? {
                    self.take(record.value, segment)?;
                }
                self.scratch = records.into_parts().1;
            }
            for block in parked.iter().flat_map(|input| input.blocks.of(partition)) {
                self.take(block.bytes, segment)?;
            }
            self.end(segment)
        })
    }

    /// Passes a block on if it has half of the rows, else adds its rows to those that wait.
    fn take<W: Write>(&mut self, block: &[u8], segment: &mut BlocksWriter<'_, W>) -> Result<()> {
        let header = BlockHeader::parse(block)?;
        let rows = self.decoder.check_limits(&header)?;
        if 2 * rows >= self.most_rows {
            return Ok(segment.append(block, rows)?);
        }
        if self.rows + rows > self.most_rows || self.joined.held_bytes() > self.most_bytes {
            self.end(segment)?;
        }
        let bytes = usize::try_from(header.decoded_bytes).unwrap_or(usize::MAX);
        self.held.resize(self.held_bytes() + 2 * bytes);
        self.decoder.decode_into(block, &mut self.joined)?;
        self.held.resize(self.held_bytes());
        self.rows += rows;
        Ok(())
    }

    /// Writes the rows that wait: as several blocks where dictionaries have too many values for one.
    fn end<W: Write>(&mut self, segment: &mut BlocksWriter<'_, W>) -> Result<()> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        let joined = std::mem::replace(&mut self.joined, Joined::new(&self.schema, 0));
        for batch in joined.finish()? {
            self.out.clear();
            self.encoder.encode(&batch, 0, batch.num_rows(), &mut self.out)?;
            self.decoder.check_limits(&BlockHeader::parse(&self.out)?)?;
            segment.append(&self.out, batch.num_rows())?;
        }
        self.held.resize(self.held_bytes());
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.joined.held_bytes()
            + self.encoder.held_bytes()
            + self.decoder.held_bytes()
            + self.scratch.held_bytes()
            + self.out.capacity()
    }
}
