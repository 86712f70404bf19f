//! Map outputs of other machines as sources of segments.
//!
//! Decoding runs on blocking threads and takes bytes from fetches, which run on the threads of the runtime and wait for
//! nobody but the network and their limits. A decoder that waits for bytes therefore always gets them. A fetch that has
//! or awaits a turn is polled until it ends, by a task of its own where others wait: a turn that comes to one that nobody
//! polls would be lost to all.
//!
//! Where outputs are read one after another, [`Queue`] fetches them ahead in that order. Where they are merged, all are
//! read at once, and each [`Pulling`] fetches its next piece itself, with a share of the bytes in flight. The shares of
//! many have a least size; where they are too many for two pieces each, none fetches ahead.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::buffer::Buffer;
use datafusion::common::runtime::SpawnedTask;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OnceCell, watch};

use super::fetch::{Failed, Fetcher, Piece};
use super::reads::OutputRead;
use super::view::BallistaOutput;
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::map_output::{
    FetchedOutput, IndexLayout, OpenSegments, OutputIndex, SegmentSource, StoredSegment,
};
use crate::memory::Permit;

/// An index that was fetched, with its memory.
type Index = Arc<(Buffer, Permit)>;

/// Indexes that the streams of a node share, by output.
#[derive(Default)]
pub(super) struct Indexes {
    known: Mutex<HashMap<Arc<str>, Arc<OnceCell<Index>>>>,
}

impl Indexes {
    async fn get(&self, fetcher: &Fetcher, read: &OutputRead) -> Result<Index, Failed> {
        let cell = {
            let mut known = self.known.lock();
            Arc::clone(known.entry(Arc::clone(&read.name)).or_default())
        };
        let index = cell.get_or_try_init(|| async {
            let fetched = fetcher.index(&read.location).await?;
            Ok(Arc::new(fetched))
        });
        Ok(Arc::clone(index.await?))
    }
}

/// The error of a fetch; where this process lacked something for it, that is the cause.
fn failed(name: &Arc<str>, offset: u64, error: Failed) -> IFileError {
    let of = |source| {
        let place = Place { file: Some(Arc::clone(name)), partition: None, offset };
        IFileError::Io { action: "fetch map output", place, source }
    };
    let lacked = error.os_error.map(|code| of(io::Error::from_raw_os_error(code)));
    lacked.filter(IFileError::is_ours).unwrap_or_else(|| of(io::Error::other(error)))
}

fn stopped(name: &Arc<str>, offset: u64) -> IFileError {
    let source = io::Error::new(io::ErrorKind::Interrupted, "the reader has stopped");
    let place = Place { file: Some(Arc::clone(name)), partition: None, offset };
    IFileError::Io { action: "fetch map output", place, source }
}

/// The segments of `read`, as its index states them.
fn segments(read: &OutputRead, index: &Buffer) -> Result<Vec<StoredSegment>> {
    let layout = IndexLayout::Ballista;
    let fetched =
        FetchedOutput::try_new(read.map_id, &read.name, layout, index.clone(), Vec::new())?;
    let output = BallistaOutput::new(Arc::new(fetched), false);
    let mut open = output.open()?;
    let mut index = OutputIndex::open(open.as_mut(), output.layout(), 0, &read.name, None)?;
    let segments = index.segments_of(open.as_mut(), read.partitions.clone())?;
    Ok(segments.into_iter().map(|(_, segment)| segment).collect())
}

/// The bytes of all of `segments`, which lie next to each other.
fn span(segments: &[StoredSegment]) -> Range<u64> {
    match (segments.first(), segments.last()) {
        (Some(first), Some(last)) => first.offset..last.end().max(first.offset),
        _ => 0..0,
    }
}

fn pieces(range: Range<u64>, piece_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut offset = range.start;
    std::iter::from_fn(move || {
        let len = range.end.saturating_sub(offset).min(piece_bytes.max(1));
        let piece = (len > 0).then_some((offset, len));
        offset = offset.saturating_add(len);
        piece
    })
}

/// Copies from `piece` what of it is at `offset`; returns the bytes that were copied.
fn copy(piece: &Piece, offset: u64, buffer: &mut [u8]) -> usize {
    let skip = offset.checked_sub(piece.offset).and_then(|skip| usize::try_from(skip).ok());
    let bytes = skip.and_then(|skip| piece.bytes.get(skip..)).unwrap_or_default();
    let len = bytes.len().min(buffer.len());
    match (buffer.get_mut(..len), bytes.get(..len)) {
        (Some(slot), Some(bytes)) => {
            slot.copy_from_slice(bytes);
            len
        }
        _ => 0,
    }
}

/// Something of the output with this number.
enum Item {
    Index(usize, Index),
    Piece(usize, Piece),
}

/// What has to be done for an output, in this order.
enum Job {
    Index(usize, Index),
    Piece(usize, OutputRead, u64, u64),
}

/// Outputs that are fetched ahead, one after another. Dropping it ends the fetches.
pub(super) struct Queue {
    _task: SpawnedTask<()>,
}

impl Queue {
    /// Begins to fetch `reads`; the sources are to be read in their order.
    pub(super) fn start(
        fetcher: Arc<Fetcher>,
        indexes: Arc<Indexes>,
        reads: Vec<OutputRead>,
    ) -> (Self, Vec<Arc<dyn SegmentSource>>) {
        let (sender, receiver) = unbounded_channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let source = |(number, read): (usize, &OutputRead)| -> Arc<dyn SegmentSource> {
            Arc::new(Queued {
                number,
                read: read.clone(),
                items: Arc::clone(&receiver),
                index: Arc::default(),
            })
        };
        let sources = reads.iter().enumerate().map(source).collect();
        let task = SpawnedTask::spawn(fetch_all(fetcher, indexes, reads, sender));
        (Self { _task: task }, sources)
    }
}

/// Fetches all of `reads`. What has arrived and was not taken is bounded by what pieces hold.
async fn fetch_all(
    fetcher: Arc<Fetcher>,
    indexes: Arc<Indexes>,
    reads: Vec<OutputRead>,
    sender: UnboundedSender<Result<Item>>,
) {
    let (most, piece_bytes) = (fetcher.settings.most_requests, fetcher.settings.piece_bytes(1));
    let of_index = Arc::clone(&fetcher);
    let jobs = stream::iter(reads.into_iter().enumerate())
        .map(move |(number, read)| {
            let (fetcher, indexes) = (Arc::clone(&of_index), Arc::clone(&indexes));
            let name = Arc::clone(&read.name);
            // The pieces of the outputs before it are waited for while it is on its way.
            let fetched = SpawnedTask::spawn(async move {
                let index = indexes.get(&fetcher, &read).await;
                let index = index.map_err(|error| failed(&read.name, 0, error))?;
                let range = span(&segments(&read, &index.0)?);
                Ok::<_, IFileError>((number, read, index, range))
            });
            async move { fetched.join_unwind().await.unwrap_or_else(|_| Err(stopped(&name, 0))) }
        })
        .buffered(most)
        .map_ok(move |(number, read, index, range)| {
            let pieces = pieces(range, piece_bytes)
                .map(move |(offset, len)| Ok(Job::Piece(number, read.clone(), offset, len)));
            stream::iter(
                std::iter::once(Ok::<_, IFileError>(Job::Index(number, index))).chain(pieces),
            )
        })
        .try_flatten();
    // Holding is done in order, one after another; fetching then side by side.
    let of_hold = Arc::clone(&fetcher);
    let held = jobs.then(move |job: Result<Job>| {
        let fetcher = Arc::clone(&of_hold);
        async move {
            let job = job?;
            let hold = match &job {
                Job::Index(..) => None,
                Job::Piece(_, read, offset, len) => {
                    let held = fetcher.hold(*len).await;
                    Some(held.map_err(|error| failed(&read.name, *offset, error))?)
                }
            };
            Ok::<_, IFileError>((job, hold))
        }
    });
    let items = held.map(move |held| {
        let fetcher = Arc::clone(&fetcher);
        async move {
            match held? {
                (Job::Index(number, index), _) => Ok(Item::Index(number, index)),
                (Job::Piece(number, read, offset, len), Some(hold)) => {
                    let piece = fetcher.piece(&read.location, offset, len, hold).await;
                    let piece = piece.map_err(|error| failed(&read.name, offset, error))?;
                    Ok(Item::Piece(number, piece))
                }
                (Job::Piece(..), None) => {
                    Err(IFileError::Usage("fetch a piece that holds nothing"))
                }
            }
        }
    });
    let mut items = std::pin::pin!(items.buffered(most));
    while let Some(item) = items.next().await {
        let ended = item.is_err();
        if sender.send(item).is_err() || ended {
            return;
        }
    }
}

/// An output of a queue.
#[derive(Clone)]
struct Queued {
    number: usize,
    read: OutputRead,
    items: Arc<Mutex<UnboundedReceiver<Result<Item>>>>,
    /// It stays when the output is opened again.
    index: Arc<Mutex<Option<Index>>>,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queued").field(&self.read.name).finish()
    }
}

impl Queued {
    fn item(&self, offset: u64) -> Result<Item> {
        let item = self.items.lock().blocking_recv();
        item.unwrap_or_else(|| Err(stopped(&self.read.name, offset)))
    }
}

impl SegmentSource for Queued {
    fn map_id(&self) -> u64 {
        self.read.map_id
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.read.name)
    }

    fn layout(&self) -> IndexLayout {
        IndexLayout::Ballista
    }

    fn open(&self) -> Result<Box<dyn OpenSegments>> {
        let mut known = self.index.lock();
        let index = match &*known {
            Some(index) => Arc::clone(index),
            None => match self.item(0)? {
                Item::Index(number, index) if number == self.number => {
                    Arc::clone(known.insert(index))
                }
                _ => return Err(IFileError::Usage("open fetched outputs out of order")),
            },
        };
        Ok(Box::new(OpenPieces::new(self.name(), index, self.clone())))
    }
}

impl Pieces for Queued {
    fn next(&mut self, offset: u64) -> Result<Piece> {
        match self.item(offset)? {
            Item::Piece(number, piece) if number == self.number => Ok(piece),
            _ => Err(IFileError::Usage("read fetched outputs out of order")),
        }
    }
}

/// Where the pieces of an output come from.
trait Pieces: Send {
    /// The piece with what is at `offset`; nobody has one any more.
    fn next(&mut self, offset: u64) -> Result<Piece>;
}

/// A fetched output that is open: its index, and the piece in hand.
struct OpenPieces<P> {
    name: Arc<str>,
    index: Index,
    piece: Option<Piece>,
    pieces: P,
}

impl<P> OpenPieces<P> {
    fn new(name: Arc<str>, index: Index, pieces: P) -> Self {
        Self { name, index, piece: None, pieces }
    }
}

impl<P: Pieces> OpenSegments for OpenPieces<P> {
    fn index_len(&mut self) -> Result<u64> {
        Ok(to_u64(self.index.0.len()))
    }

    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_index(&self.index.0, &self.name, offset, buffer)
    }

    fn data_len(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn read_data(&mut self, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            let copied = self.piece.as_ref().map_or(0, |piece| copy(piece, offset, buffer));
            if copied > 0 {
                offset = offset.saturating_add(to_u64(copied));
                buffer = buffer.get_mut(copied..).unwrap_or_default();
                continue;
            }
            // What it holds is free before the next one comes.
            self.piece = None;
            let piece = self.pieces.next(offset)?;
            if !(piece.offset..piece.end()).contains(&offset) {
                return Err(IFileError::Usage("read fetched outputs out of order"));
            }
            self.piece = Some(piece);
        }
        Ok(())
    }
}

fn read_index(index: &Buffer, name: &Arc<str>, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let bytes =
        usize::try_from(offset).ok().and_then(|start| index.get(start..)?.get(..buffer.len()));
    match bytes {
        Some(bytes) => {
            buffer.copy_from_slice(bytes);
            Ok(())
        }
        None => {
            let (expected, len) = (to_u64(buffer.len()), to_u64(index.len()));
            let fault = Fault::UnexpectedEnd {
                what: "fetched index",
                expected,
                found: len.saturating_sub(offset).min(expected),
            };
            let place = Place { file: Some(Arc::clone(name)), partition: None, offset };
            Err(IFileError::corrupt(fault, place))
        }
    }
}

/// What the outputs of a merge share.
#[derive(Clone)]
pub(super) struct Pull {
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) indexes: Arc<Indexes>,
    /// Outputs that are open.
    pub(super) open: Arc<AtomicU64>,
    /// Its sender is dropped when nobody reads any more.
    pub(super) stop: watch::Receiver<()>,
}

impl Pull {
    /// Waits for `future` on a blocking thread, unless the reader stops.
    fn wait<T>(&self, future: impl Future<Output = Result<T>>, name: &Arc<str>) -> Result<T> {
        let mut stop = self.stop.clone();
        Handle::current().block_on(async {
            tokio::select! {
                biased;
                _ = stop.changed() => Err(stopped(name, 0)),
                result = future => result,
            }
        })
    }
}

/// An output that is fetched as it is read.
#[derive(Clone)]
pub(super) struct Pulled {
    pub(super) read: OutputRead,
    pub(super) pull: Pull,
}

impl std::fmt::Debug for Pulled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pulled").field(&self.read.name).finish()
    }
}

impl SegmentSource for Pulled {
    fn map_id(&self) -> u64 {
        self.read.map_id
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.read.name)
    }

    fn layout(&self) -> IndexLayout {
        IndexLayout::Ballista
    }

    fn open(&self) -> Result<Box<dyn OpenSegments>> {
        let name = &self.read.name;
        let index = async {
            let index = self.pull.indexes.get(&self.pull.fetcher, &self.read).await;
            index.map_err(|error| failed(name, 0, error))
        };
        let index = self.pull.wait(index, name)?;
        let segments = segments(&self.read, &index.0)?;
        self.pull.open.fetch_add(1, Ordering::Relaxed);
        let pulling = Pulling { source: self.clone(), segments, next: None };
        Ok(Box::new(OpenPieces::new(self.name(), index, pulling)))
    }
}

/// An output that is pulled, while it is open.
struct Pulling {
    source: Pulled,
    segments: Vec<StoredSegment>,
    /// The piece that follows, under way.
    next: Option<(u64, SpawnedTask<Result<Piece, Failed>>)>,
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.source.pull.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pulling {
    /// Begins to fetch what of its segment is at `offset`, if there is anything.
    fn fetch(&self, offset: u64) -> Option<(u64, SpawnedTask<Result<Piece, Failed>>)> {
        let within = |segment: &&StoredSegment| (segment.offset..segment.end()).contains(&offset);
        let end = self.segments.iter().find(within)?.end();
        let pull = &self.source.pull;
        let fetcher = Arc::clone(&pull.fetcher);
        let len = fetcher.settings.piece_bytes(pull.open.load(Ordering::Relaxed)).min(end - offset);
        let location = Arc::clone(&self.source.read.location);
        let task = SpawnedTask::spawn(async move {
            let held = fetcher.hold_share(len);
            fetcher.piece(&location, offset, len, held).await
        });
        Some((offset, task))
    }
}

impl Pieces for Pulling {
    fn next(&mut self, offset: u64) -> Result<Piece> {
        let name = Arc::clone(&self.source.read.name);
        let under_way = self.next.take().filter(|(at, _)| *at == offset);
        let Some((_, task)) = under_way.or_else(|| self.fetch(offset)) else {
            return Err(IFileError::Usage("read between the segments of a partition"));
        };
        let piece = async {
            match task.join_unwind().await {
                Ok(piece) => piece.map_err(|error| failed(&name, offset, error)),
                Err(_) => Err(stopped(&name, offset)),
            }
        };
        let piece = self.source.pull.wait(piece, &name)?;
        let end = piece.end();
        let segment_ends = self.segments.iter().any(|segment| segment.end() == end);
        let pull = &self.source.pull;
        let ahead = pull.fetcher.settings.reads_ahead(pull.open.load(Ordering::Relaxed));
        self.next = if segment_ends || !ahead { None } else { self.fetch(end) };
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_once() {
        let of = |range, bytes| pieces(range, bytes).collect::<Vec<_>>();
        assert_eq!(of(10..35, 10), [(10, 10), (20, 10), (30, 5)]);
        assert_eq!(of(10..20, 10), [(10, 10)]);
        assert_eq!(of(10..10, 10), []);
        assert_eq!(of(0..2, 0), [(0, 1), (1, 1)]);
    }

    #[test]
    fn a_connection_for_which_descriptors_are_missing_is_no_fault_of_the_output() {
        for (code, ours) in [(libc::EMFILE, true), (libc::ECONNREFUSED, false)] {
            let cause = Box::new(io::Error::from_raw_os_error(code));
            let error = Failed::of_status(&tonic::Status::from_error(cause));
            assert_eq!(error.os_error, Some(code));
            assert_eq!(failed(&"output".into(), 0, error).is_ours(), ours);
        }
    }
}
