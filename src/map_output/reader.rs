//! Reads segments of map outputs as batches.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::physical_plan::metrics::Count;

use super::index::IndexLayout;
use super::open::OpenOutput;
use super::pool::{ReadPool, Tools};
use super::segment::{StoredSegment, segment_crc};
use super::source::SegmentSource;
use crate::block::{BlockDecoder, BlockHeader, BlockResult, DecodeLimits, schema_fingerprint};
use crate::codec::{Codec, to_u64, to_usize_limit};
use crate::error::{Fault, IFileError, LostOutput, Place, Result};
use crate::ifile::{Lengths, ReadOptions, ReadScratch, SegmentReader};
use crate::map_status::{AttemptId, Placement};

/// What a reader takes of one map output.
#[derive(Debug, Clone)]
pub struct ShuffleRead {
    /// The output.
    pub source: Arc<dyn SegmentSource>,
    /// Its partitions.
    pub partitions: Range<u32>,
    /// Positions among the segments of those partitions, where not all are wanted: a skewed partition is shared by several
    /// readers.
    pub segments: Option<Range<usize>>,
    /// The attempt that the status names; a pair of another attempt is refused.
    pub attempt_id: Option<AttemptId>,
}

impl ShuffleRead {
    /// All segments of some partitions.
    pub fn new(source: Arc<dyn SegmentSource>, partitions: Range<u32>) -> Self {
        Self { source, partitions, segments: None, attempt_id: None }
    }

    /// The same, of the attempt that a status names.
    #[must_use]
    pub fn with_attempt_id(self, attempt_id: Option<AttemptId>) -> Self {
        Self { attempt_id, ..self }
    }

    /// The same, of some segments.
    #[must_use]
    pub fn with_segments(self, segments: Range<usize>) -> Self {
        Self { segments: Some(segments), ..self }
    }
}

/// What was read, of all readers that share it.
#[derive(Debug, Clone, Default)]
pub struct ReadCounters {
    /// Stored bytes of segments that were read.
    pub bytes_read: Count,
    /// Those whose checksums were compared to the end of their segment.
    pub bytes_verified: Count,
    /// Segments.
    pub segments: Count,
    /// Map outputs that were opened.
    pub outputs: Count,
}

/// The rows of segments, block by block. Calls block the thread.
pub struct SegmentBatches {
    schema: SchemaRef,
    expected: Expected,
    reads: VecDeque<ShuffleRead>,
    current: Option<Current>,
    /// `None` after the end.
    tools: Option<Tools>,
    buffer: usize,
    counters: ReadCounters,
    pool: Arc<ReadPool>,
}

impl std::fmt::Debug for SegmentBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentBatches").field("reads", &self.reads).finish_non_exhaustive()
    }
}

/// An output that is being read.
struct Current {
    source: Arc<dyn SegmentSource>,
    map_id: u64,
    name: Arc<str>,
    /// Rows that are still to come, by the index; `tez` knows neither rows nor checksums of segments.
    rows_ahead: Option<u64>,
    segments: VecDeque<(u32, StoredSegment)>,
    state: State,
}

type TakeBlock<'a, T> = dyn FnMut(&mut BlockDecoder, &[u8], Option<u64>) -> BlockResult<T> + 'a;

enum State {
    Between(OpenOutput),
    Within {
        reader: Box<SegmentReader<RangeReader>>,
        partition: u32,
        segment: StoredSegment,
        rows: u64,
    },
    /// A fault was reported.
    Failed,
}

/// The bytes of a segment.
struct RangeReader {
    open: OpenOutput,
    at: u64,
    end: u64,
    bytes_read: Count,
}

impl Read for RangeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = to_usize_limit(self.end.saturating_sub(self.at)).min(buffer.len());
        let Some(slot) = buffer.get_mut(..len).filter(|slot| !slot.is_empty()) else {
            return Ok(0);
        };
        self.open.source.read_data(self.at, slot).map_err(io::Error::other)?;
        self.at += to_u64(len);
        self.bytes_read.add(len);
        Ok(len)
    }
}

fn lost(
    map_id: u64,
    place: Place,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> IFileError {
    IFileError::LostOutput(Box::new(LostOutput { map_id, place, cause: cause.into() }))
}

/// `error` as a lost output, unless this process is to blame for it.
fn lost_by(map_id: u64, place: Place, error: IFileError) -> IFileError {
    error.into_ours().unwrap_or_else(|error| lost(map_id, place, error))
}

/// What a plan expects of every output that it reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    fingerprint: u64,
    placement: Placement,
    /// Whether every segment has to be sorted.
    sorted: bool,
}

impl Expected {
    pub(crate) fn new(schema: &Schema, placement: Placement) -> Self {
        Self { fingerprint: schema_fingerprint(schema), placement, sorted: false }
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// The same, with segments that are sorted.
    pub(crate) fn sorted(self) -> Self {
        Self { sorted: true, ..self }
    }

    /// Opens an output, or takes one that is open already, and finds the segments that are wanted of it.
    fn open(
        &self,
        read: &ShuffleRead,
        known: Option<OpenOutput>,
    ) -> Result<(OpenOutput, Vec<(u32, StoredSegment)>)> {
        let place = Place {
            file: Some(read.source.name()),
            partition: (read.partitions.len() == 1).then_some(read.partitions.start),
            offset: 0,
        };
        let at_fault = |error: IFileError| {
            let known = error.place().cloned();
            let place = Place {
                partition: known.as_ref().and_then(|known| known.partition).or(place.partition),
                ..known.unwrap_or(place.clone())
            };
            lost_by(read.source.map_id(), place, error)
        };
        // One of another attempt has been replaced since it was opened.
        let mut open = match known.filter(|open| self.check(read, open).is_ok()) {
            Some(open) => open,
            None => {
                let open = OpenOutput::open(read.source.as_ref(), self.placement.count);
                let open = open.map_err(at_fault)?;
                self.check(read, &open)
                    .map_err(|fault| at_fault(IFileError::corrupt(fault, place.clone())))?;
                open
            }
        };
        let segments = open.index.segments_of(open.source.as_mut(), read.partitions.clone());
        let mut segments = segments.map_err(at_fault)?;
        if let Some(wanted) = &read.segments {
            segments.truncate(wanted.end);
            segments.drain(..wanted.start.min(segments.len()));
        }
        Ok((open, segments))
    }

    fn check(&self, read: &ShuffleRead, open: &OpenOutput) -> Result<(), Fault> {
        let differ =
            |what, expected: u64, found: u64| Err(Fault::Invalid { what, expected, found });
        if let (Some(expected), Some(found)) = (read.attempt_id, open.attempt_id)
            && expected != found
        {
            let half = |id: AttemptId| id.0.first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
            return differ("attempt id of the output", half(expected), half(found));
        }
        let Some(head) = open.index.head() else { return Ok(()) };
        if head.map_id != read.source.map_id() {
            return differ("map id of the output", read.source.map_id(), head.map_id);
        }
        if head.schema_fingerprint != self.fingerprint {
            return differ("fingerprint of the schema", self.fingerprint, head.schema_fingerprint);
        }
        if self.sorted && !head.sorted {
            return differ("whether segments are sorted", 1, 0);
        }
        let (expected, found) = (self.placement, head.placement);
        // Such a reader knows neither function nor count.
        if expected.count == 0 {
            return Ok(());
        }
        if expected.function != found.function {
            let ids = (expected.function.wire_id(), found.function.wire_id());
            return differ("partition function", u64::from(ids.0), u64::from(ids.1));
        }
        if expected.count != found.count {
            return differ("partitions", u64::from(expected.count), u64::from(found.count));
        }
        if expected.seed != found.seed {
            return differ("seed of the partition function", expected.seed, found.seed);
        }
        Ok(())
    }
}

impl SegmentBatches {
    /// The rows of `reads`, one after another, of outputs with this schema and placement; of any placement where its count
    /// is 0. `buffer` is how many stored bytes are read at once.
    ///
    /// # Errors
    /// [`IFileError::Unsupported`] for a schema that blocks cannot carry.
    pub fn try_new(
        schema: SchemaRef,
        placement: Placement,
        reads: Vec<ShuffleRead>,
        buffer: usize,
        counters: ReadCounters,
    ) -> Result<Self> {
        let expected = Expected::new(&schema, placement);
        Self::pooled(schema, expected, reads, buffer, counters, Arc::default())
    }

    /// The same, with what other streams of `pool` have left.
    pub(crate) fn pooled(
        schema: SchemaRef,
        expected: Expected,
        reads: Vec<ShuffleRead>,
        buffer: usize,
        counters: ReadCounters,
        pool: Arc<ReadPool>,
    ) -> Result<Self> {
        let tools = match pool.take_tools() {
            Some(tools) => tools,
            None => {
                let decoder = BlockDecoder::try_new(Arc::clone(&schema), DecodeLimits::default());
                let decoder = decoder.map_err(|error| IFileError::Unsupported {
                    what: "schema of a shuffle".to_owned(),
                    reason: error.to_string(),
                })?;
                Tools { decoder, scratch: ReadScratch::default() }
            }
        };
        Ok(Self {
            expected,
            schema,
            reads: reads.into(),
            current: None,
            tools: Some(tools),
            buffer: buffer.max(4096),
            counters,
            pool,
        })
    }

    /// The schema of all batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Bytes held between calls.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let reader = match self.current.as_ref().map(|current| &current.state) {
            Some(State::Within { reader, .. }) => reader.held_bytes(),
            _ => 0,
        };
        reader + self.tools.as_ref().map_or(0, Tools::held_bytes)
    }

    /// The rows of the next block; `None` after the last, when all checksums have been compared.
    ///
    /// # Errors
    /// [`IFileError::LostOutput`] for whatever is wrong with a map output; what this process lacks, as descriptors, as it
    /// is. The reader is of no use after that.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.next_block(&mut |decoder, block, _| decoder.decode(block))
    }

    /// Gives the next block to `take`, and how many rows there may be with it and after it, where that is known; `None`
    /// after the last.
    ///
    /// # Errors
    /// As [`SegmentBatches::next_batch`]; what `take` refuses is a fault of the block.
    pub(crate) fn next_block<T>(&mut self, take: &mut TakeBlock<'_, T>) -> Result<Option<T>> {
        loop {
            let Some(mut current) = self.current.take() else {
                let Some(read) = self.reads.pop_front() else {
                    self.tools.take().into_iter().for_each(|tools| self.pool.give_tools(tools));
                    return Ok(None);
                };
                self.current = Some(self.open(&read)?);
                continue;
            };
            let batch = match std::mem::replace(&mut current.state, State::Failed) {
                State::Between(open) => match current.segments.pop_front() {
                    None => {
                        self.pool.give_output(current.source, open);
                        continue;
                    }
                    Some((partition, segment)) => {
                        current.state = self.begin(&current, open, partition, segment)?;
                        None
                    }
                },
                State::Within { reader, partition, segment, rows } => {
                    self.step(&mut current, reader, partition, segment, rows, take)?
                }
                State::Failed => return Err(IFileError::Usage("read on after a fault")),
            };
            self.current = Some(current);
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    /// Opens an output and holds it against what the plan expects.
    fn open(&self, read: &ShuffleRead) -> Result<Current> {
        let known = self.pool.take_output(&read.source);
        let (open, segments) = self.expected.open(read, known)?;
        self.counters.outputs.add(1);
        let exact = open.index.layout() != IndexLayout::Tez;
        let rows = segments.iter().map(|(_, segment)| segment.rows);
        Ok(Current {
            map_id: read.source.map_id(),
            name: read.source.name(),
            rows_ahead: exact.then(|| rows.fold(0, u64::saturating_add)),
            segments: segments.into(),
            source: Arc::clone(&read.source),
            state: State::Between(open),
        })
    }

    fn begin(
        &mut self,
        current: &Current,
        open: OpenOutput,
        partition: u32,
        segment: StoredSegment,
    ) -> Result<State> {
        let range = RangeReader {
            open,
            at: segment.offset,
            end: segment.end(),
            bytes_read: self.counters.bytes_read.clone(),
        };
        let options = ReadOptions::new(Codec::None)
            .with_buffer(self.buffer)
            .with_file(Arc::clone(&current.name))
            .with_partition(partition)
            .with_base_offset(segment.offset);
        let lengths = Lengths::both(segment.raw, segment.stored);
        let scratch = self.tools.as_mut().map(|tools| std::mem::take(&mut tools.scratch));
        let scratch = scratch.unwrap_or_default();
        let reader = SegmentReader::self_checked_in(scratch, range, lengths, options);
        let reader = reader.map_err(|error| failed(current, partition, segment.offset, error))?;
        Ok(State::Within { reader: Box::new(reader), partition, segment, rows: 0 })
    }

    /// The next block of a segment, or its end.
    fn step<T>(
        &mut self,
        current: &mut Current,
        mut reader: Box<SegmentReader<RangeReader>>,
        partition: u32,
        segment: StoredSegment,
        rows: u64,
        take: &mut TakeBlock<'_, T>,
    ) -> Result<Option<T>> {
        let offset = segment.offset.saturating_add(reader.position());
        let record = reader.next_record();
        let record = record.map_err(|error| failed(current, partition, offset, error))?;
        if let Some(record) = record {
            // Outputs that are not open yet count as this one: a guess.
            let outputs = 1 + to_u64(self.reads.len());
            let ahead = current.rows_ahead.map(|rows| rows.saturating_mul(outputs));
            let Some(Tools { decoder, .. }) = &mut self.tools else {
                return Err(IFileError::Usage("read on after the end"));
            };
            let header = BlockHeader::parse(record.value);
            let taken = header.and_then(|header| Ok((header, take(decoder, record.value, ahead)?)));
            let place =
                Place { file: Some(Arc::clone(&current.name)), partition: Some(partition), offset };
            let (header, taken) = taken.map_err(|error| lost(current.map_id, place, error))?;
            let rows = rows + u64::from(header.rows);
            let ahead = current.rows_ahead.iter_mut();
            ahead.for_each(|ahead| *ahead = ahead.saturating_sub(u64::from(header.rows)));
            current.state = State::Within { reader, partition, segment, rows };
            return Ok(Some(taken));
        }
        let fault = |fault| {
            let place = Place {
                file: Some(Arc::clone(&current.name)),
                partition: Some(partition),
                offset: segment.offset,
            };
            lost(current.map_id, place.clone(), IFileError::corrupt(fault, place))
        };
        let found = reader.summary().map_or(0, |summary| segment_crc(&summary));
        if current.rows_ahead.is_some() && found != segment.crc32 {
            return Err(fault(Fault::Checksum { expected: segment.crc32, found }));
        }
        if current.rows_ahead.is_some() && rows != segment.rows {
            let what = "rows of a segment";
            return Err(fault(Fault::Invalid { what, expected: segment.rows, found: rows }));
        }
        self.counters.segments.add(1);
        self.counters.bytes_verified.add(to_usize_limit(segment.stored));
        let (range, mut scratch) = reader.into_parts();
        self.tools.iter_mut().for_each(|tools| tools.scratch = std::mem::take(&mut scratch));
        current.state = State::Between(range.open);
        Ok(None)
    }
}

fn failed(current: &Current, partition: u32, offset: u64, error: IFileError) -> IFileError {
    let offset = error.place().map_or(offset, |place| place.offset);
    let place = Place { file: Some(Arc::clone(&current.name)), partition: Some(partition), offset };
    lost_by(current.map_id, place, error)
}

/// One read per segment of `reads`, for merges of sorted segments. All of an output's are of the attempt that is open now:
/// positions in the pair of another one say nothing. They share its files where they can, for all are read at once.
///
/// # Errors
/// [`IFileError::LostOutput`] for an output that is not as expected; what this process lacks, as it is.
pub(crate) fn reads_by_segment(
    reads: &[ShuffleRead],
    expected: &Expected,
) -> Result<Vec<ShuffleRead>> {
    let mut single = Vec::new();
    for read in reads {
        let (open, segments) = expected.open(read, None)?;
        let first = read.segments.as_ref().map_or(0, |wanted| wanted.start);
        let mut read = read.clone().with_attempt_id(open.attempt_id.or(read.attempt_id));
        drop(open);
        if segments.len() > 1 {
            let place = Place { file: Some(read.source.name()), ..Place::default() };
            let shared = read.source.to_shared();
            let shared = shared.map_err(|error| lost_by(read.source.map_id(), place, error))?;
            if let Some(shared) = shared {
                read.source = shared;
            }
        }
        let positions = (first..).take(segments.len());
        single.extend(positions.map(|at| read.clone().with_segments(at..at + 1)));
    }
    Ok(single)
}
