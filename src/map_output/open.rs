//! Opens a map output: data and index of one attempt.

use std::io::ErrorKind;
use std::sync::Arc;

use super::commit::{OutputName, OutputStore};
use super::index::{IndexLayout, OutputIndex};
use super::source::{OpenSegments, SegmentSource};
use super::trailer::{TRAILER_BYTES, Trailer};
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::map_status::AttemptId;

/// An open map output: its index, held against its data file.
pub(super) struct OpenOutput {
    pub(super) source: Box<dyn OpenSegments>,
    pub(super) index: OutputIndex,
    pub(super) attempt_id: Option<AttemptId>,
    /// `None` if only parts of the data file are here.
    pub(super) trailer: Option<Trailer>,
}

impl OpenOutput {
    /// Opens an output. Where a file is missing, or of another attempt than the other, a commit may be under way: it is
    /// waited for, and the output opened once more. Where that is not possible, what was wrong at first says more. Blocks
    /// the thread.
    pub(super) fn open(source: &dyn SegmentSource, partitions: u32) -> Result<Self> {
        match Self::open_once(source, partitions) {
            Err(first) if may_be_under_way(&first) => {
                source.await_commit();
                Self::open_once(source, partitions)
                    .map_err(|second| if says_more(&second) { second } else { first })
            }
            other => other,
        }
    }

    /// Opens the pair in place, whatever the layout of its index.
    pub(super) fn in_place(store: &OutputStore, name: OutputName, partitions: u32) -> Result<Self> {
        let source = store.source(name, IndexLayout::default());
        let trailer = read_trailer(source.open()?.as_mut(), &source.name())?;
        let layout = trailer.map_or(Ok(IndexLayout::default()), |trailer| trailer.layout())?;
        Self::open(&store.source(name, layout), partitions)
    }

    fn open_once(source: &dyn SegmentSource, partitions: u32) -> Result<Self> {
        let name = source.name();
        let mut open = source.open()?;
        let trailer = read_trailer(open.as_mut(), &name)?;
        let length = trailer.map_or(0, |trailer| trailer.length);
        let known = trailer.map(|trailer| trailer.length);
        let index = OutputIndex::open(open.as_mut(), source.layout(), partitions, &name, known)?;
        let head = index.head();
        if let Some(trailer) = trailer {
            let place = || Place { file: Some(Arc::clone(&name)), partition: None, offset: length };
            let differ = |what, expected: u64, found: u64| {
                IFileError::corrupt(Fault::Invalid { what, expected, found }, place())
            };
            if let Some(head) = head.filter(|head| head.attempt_id != trailer.attempt_id) {
                let half = |id: AttemptId| id.0.first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
                let (expected, found) = (half(head.attempt_id), half(trailer.attempt_id));
                return Err(differ("attempt ids of index and data differ", expected, found));
            }
            if let Some(head) = head.filter(|head| head.data_length != trailer.length) {
                return Err(differ("length of the segments", head.data_length, trailer.length));
            }
            if let Some(found) = index.tez_crc().filter(|crc| *crc != trailer.index_crc) {
                let expected = u64::from(trailer.index_crc);
                return Err(differ("checksum of the index", expected, u64::from(found)));
            }
        }
        let id = head.map(|head| head.attempt_id).or(trailer.map(|trailer| trailer.attempt_id));
        Ok(Self { source: open, index, attempt_id: id, trailer })
    }
}

fn may_be_under_way(error: &IFileError) -> bool {
    match error {
        IFileError::Corrupt(_) => true,
        IFileError::Io { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

fn says_more(second: &IFileError) -> bool {
    matches!(second, IFileError::Corrupt(_)) || second.is_ours()
}

/// The trailer of a data file; `None` if only parts of the file are here.
pub(super) fn read_trailer(
    source: &mut dyn OpenSegments,
    file: &Arc<str>,
) -> Result<Option<Trailer>> {
    let Some(len) = source.data_len()? else { return Ok(None) };
    let place = |offset| Place { file: Some(Arc::clone(file)), partition: None, offset };
    let Some(offset) = len.checked_sub(to_u64(TRAILER_BYTES)) else {
        let (what, expected) = ("data trailer", to_u64(TRAILER_BYTES));
        let fault = Fault::UnexpectedEnd { what, expected, found: len };
        return Err(IFileError::corrupt(fault, place(len)));
    };
    let mut bytes = [0; TRAILER_BYTES];
    source.read_data(offset, &mut bytes)?;
    Trailer::parse(&bytes, len, place(offset)).map(Some)
}
