//! Map outputs with an index of the layout `ballista`, whatever their number of partitions.
//!
//! A reader is not told how many partitions an output has, and the offsets come first in the index. So the head of the
//! layout `ifile` behind them is searched for: it begins right behind the offsets of as many partitions as it states.

use std::sync::Arc;

use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::map_output::{IndexLayout, OpenSegments, SegmentSource};

const MAGIC: [u8; 4] = *b"IFMO";
const FLAGS_AT: usize = 6;
const SORTED: u8 = 1;
const PARTITIONS_AT: usize = 44;
const HEAD_BYTES: usize = PARTITIONS_AT + 4;

/// Bytes of an index that are looked at, at a time.
const STEP_BYTES: usize = 16 * 1024;

/// Bytes that an index may have: those of six million segments.
pub(super) const MAX_INDEX_BYTES: u64 = 256 * 1024 * 1024;

/// An output of a Ballista task, seen in the layout `ifile`.
#[derive(Debug, Clone)]
pub(super) struct BallistaOutput {
    inner: Arc<dyn SegmentSource>,
    /// Whether its segments have to be sorted.
    sorted: bool,
}

impl BallistaOutput {
    /// The output of `inner`, for a reader that merges its segments if `sorted`.
    pub(super) fn new(inner: Arc<dyn SegmentSource>, sorted: bool) -> Self {
        Self { inner, sorted }
    }
}

impl SegmentSource for BallistaOutput {
    fn map_id(&self) -> u64 {
        self.inner.map_id()
    }

    fn name(&self) -> Arc<str> {
        self.inner.name()
    }

    fn layout(&self) -> IndexLayout {
        IndexLayout::IFile
    }

    fn to_shared(&self) -> Result<Option<Arc<dyn SegmentSource>>> {
        let shared = self.inner.to_shared()?;
        Ok(shared.map(|inner| Arc::new(Self::new(inner, self.sorted)) as _))
    }

    fn await_commit(&self) {
        self.inner.await_commit();
    }

    fn open(&self) -> Result<Box<dyn OpenSegments>> {
        let mut open = self.inner.open()?;
        let head = find_head(open.as_mut(), &self.name())?;
        if self.sorted && !head.sorted {
            return Err(IFileError::Unsupported {
                what: format!("merging the segments of {}", self.name()),
                reason: "the task that wrote it knew of no order of its rows".to_owned(),
            });
        }
        Ok(Box::new(Behind { inner: open, base: head.base }))
    }
}

/// What is read of an index before it is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    /// Where the layout `ifile` begins.
    base: u64,
    sorted: bool,
}

fn find_head(open: &mut dyn OpenSegments, name: &Arc<str>) -> Result<Head> {
    let len = open.index_len()?;
    if len > MAX_INDEX_BYTES {
        let what = "bytes of a map output index, at most";
        let fault = Fault::Invalid { what, expected: MAX_INDEX_BYTES, found: len };
        let place = Place { file: Some(Arc::clone(name)), partition: None, offset: 0 };
        return Err(IFileError::corrupt(fault, place));
    }
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
            if let Some(sorted) = take_head(head, at) {
                return Ok(Head { base: to_u64(at), sorted });
            }
            at += 8;
        }
        let start = bytes.len();
        let left = usize::try_from(len - to_u64(start)).unwrap_or(usize::MAX);
        if left == 0 {
            return Err(not_ours(&bytes, name));
        }
        bytes.resize(start + left.min(STEP_BYTES), 0);
        open.read_index(to_u64(start), bytes.get_mut(start..).unwrap_or_default())?;
    }
}

/// Whether the segments are sorted, if `bytes` are the head behind `at` bytes of offsets.
fn take_head(bytes: &[u8], at: usize) -> Option<bool> {
    let partitions = bytes.get(PARTITIONS_AT..)?.first_chunk().map(|b| u32::from_le_bytes(*b))?;
    let offsets = 8 * (u64::from(partitions) + 1);
    let ours = bytes.starts_with(&MAGIC) && partitions > 0 && offsets == to_u64(at);
    ours.then(|| bytes.get(FLAGS_AT).is_some_and(|flags| flags & SORTED != 0))
}

/// Why an index has no head: a writer of Arrow IPC puts a schema before the first partition, and nothing behind its
/// offsets.
fn not_ours(index: &[u8], name: &Arc<str>) -> IFileError {
    let offsets: Vec<u64> =
        index.chunks_exact(8).filter_map(|b| b.try_into().ok().map(u64::from_le_bytes)).collect();
    let other = index.len().is_multiple_of(8)
        && offsets.len() >= 2
        && offsets.first().is_some_and(|first| *first > 0)
        && offsets.is_sorted();
    if other {
        return IFileError::Unsupported {
            what: format!("map output {name}"),
            reason: "it was written by an executor without this engine; all executors of a cluster have to \
                     run the same"
                .to_owned(),
        };
    }
    let what = "head of a map output index";
    let len = to_u64(index.len());
    let fault =
        Fault::UnexpectedEnd { what, expected: len.max(to_u64(HEAD_BYTES)) + 1, found: len };
    let place = Place { file: Some(Arc::clone(name)), partition: None, offset: len };
    IFileError::corrupt(fault, place)
}

/// An output without the offsets before its index.
struct Behind {
    inner: Box<dyn OpenSegments>,
    base: u64,
}

impl OpenSegments for Behind {
    fn index_len(&mut self) -> Result<u64> {
        Ok(self.inner.index_len()?.saturating_sub(self.base))
    }

    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_index(self.base.saturating_add(offset), buffer)
    }

    fn data_len(&mut self) -> Result<Option<u64>> {
        self.inner.data_len()
    }

    fn read_data(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_data(offset, buffer)
    }
}

#[cfg(test)]
mod tests {
    use arrow::buffer::Buffer;

    use super::*;
    use crate::map_output::FetchedOutput;

    fn head_of(index: &[u8]) -> Result<Head> {
        let layout = IndexLayout::Ballista;
        let output =
            FetchedOutput::try_new(0, "output", layout, Buffer::from(index), vec![]).unwrap();
        find_head(output.open().unwrap().as_mut(), &"output".into())
    }

    fn offsets(offsets: &[u64]) -> Vec<u8> {
        offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect()
    }

    fn head(partitions: u32, flags: u8) -> Vec<u8> {
        let mut head = vec![0; 128];
        head[..4].copy_from_slice(&MAGIC);
        head[FLAGS_AT] = flags;
        head[PARTITIONS_AT..HEAD_BYTES].copy_from_slice(&partitions.to_le_bytes());
        head
    }

    #[test]
    fn the_head_is_behind_its_offsets() {
        for (count, flags) in [(1, 0), (3, 1), (5000, 1)] {
            let mut index = offsets(&vec![0; count as usize + 1]);
            index.extend(head(count, flags));
            let expected = Head { base: 8 * (u64::from(count) + 1), sorted: flags == 1 };
            assert_eq!(head_of(&index).unwrap(), expected);
        }
    }

    #[test]
    fn an_offset_like_the_magic_is_an_offset() {
        let like = u64::from(u32::from_le_bytes(MAGIC));
        let mut index = offsets(&[0, like, like, like]);
        index.extend(head(3, 0));
        assert_eq!(head_of(&index).unwrap().base, 32);
    }

    #[test]
    fn an_index_of_arrow_ipc_is_refused_by_name() {
        let error = head_of(&offsets(&[400, 400, 9000])).unwrap_err().to_string();
        assert!(error.contains("output: it was written by an executor without"), "{error}");
    }

    #[test]
    fn a_part_of_an_index_is_corrupt() {
        let mut index = offsets(&[0, 10, 20]);
        index.extend(head(2, 0));
        for len in [0, 7, 24, 40, 71] {
            let error = head_of(&index[..len]).unwrap_err();
            assert!(matches!(error, IFileError::Corrupt(_)), "{len}: {error}");
        }
    }
}
