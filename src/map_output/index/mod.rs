//! Indexes of map outputs: three layouts, one view.

mod ifile;
mod layout;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::segment::StoredSegment;
use super::source::OpenSegments;
use crate::codec::{Codec, to_u64};
use crate::error::{Fault, IFileError, Place, Result};
use crate::ifile::{IndexEntry, SpillIndex, UncheckedIndex};
use crate::map_status::{AttemptId, Placement};

pub use layout::IndexLayout;

pub(super) use layout::encode_index;

use ifile::{Directory, FIXED_BYTES, take_page};

/// What an index says of the whole output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputHead {
    /// The attempt that wrote the pair.
    pub attempt_id: AttemptId,
    /// The map task.
    pub map_id: u64,
    /// Its attempt.
    pub attempt: u32,
    /// The epoch it was written in.
    pub epoch: u64,
    /// Fingerprint of the schema.
    pub schema_fingerprint: u64,
    /// How rows were placed.
    pub placement: Placement,
    /// Codec of the blocks.
    pub codec: Codec,
    /// Whether each segment is sorted by the plan's order.
    pub sorted: bool,
    /// Bytes of the segments.
    pub data_length: u64,
    /// CRC-32 of the segments.
    pub data_crc: u32,
    /// The schema of the rows.
    pub schema: SchemaRef,
}

/// An index of any layout.
#[derive(Debug)]
pub struct OutputIndex {
    layout: IndexLayout,
    partitions: u32,
    file: Arc<str>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Pages are read when they are asked for.
    Paged {
        head: Box<OutputHead>,
        directory: Directory,
        page: Option<(usize, Vec<Vec<StoredSegment>>)>,
    },
    Tez {
        index: SpillIndex,
        crc32: u32,
    },
}

impl OutputIndex {
    /// Reads what has to be known before any partition: for the paged layouts the head and the page directory, for
    /// `tez` all of it, held against the length of the segments where that is known. `partitions` is needed for `ballista`, whose offsets come first.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] and those of the source.
    pub fn open(
        source: &mut dyn OpenSegments,
        layout: IndexLayout,
        partitions: u32,
        file: &Arc<str>,
        data_length: Option<u64>,
    ) -> Result<Self> {
        let len = source.index_len()?;
        let base = match layout {
            IndexLayout::Tez => return Self::open_tez(source, partitions, file, len, data_length),
            IndexLayout::IFile => 0,
            IndexLayout::Ballista => 8 * (u64::from(partitions) + 1),
        };
        let place = |offset| Place { file: Some(Arc::clone(file)), partition: None, offset };
        let wanted = base.saturating_add(to_u64(FIXED_BYTES));
        if len < wanted {
            let fault =
                Fault::UnexpectedEnd { what: "map output index", expected: wanted, found: len };
            return Err(IFileError::corrupt(fault, place(len)));
        }
        let mut fixed = [0; FIXED_BYTES];
        source.read_index(base, &mut fixed)?;
        let fixed = ifile::take_fixed(&fixed, place(base))?;
        let variable = fixed.variable_bytes();
        let start = base.saturating_add(to_u64(FIXED_BYTES));
        if to_u64(variable) > len - start {
            let what = "schema and pages of a map output index";
            let fault =
                Fault::UnexpectedEnd { what, expected: to_u64(variable), found: len - start };
            return Err(IFileError::corrupt(fault, place(start)));
        }
        let mut bytes = vec![0; variable];
        source.read_index(start, &mut bytes)?;
        let (head, directory) = fixed.finish(&bytes, base, len, place(start))?;
        if layout == IndexLayout::Ballista && head.placement.count != partitions {
            let what = "partitions of a ballista index";
            let (expected, found) = (u64::from(partitions), u64::from(head.placement.count));
            return Err(IFileError::corrupt(Fault::Invalid { what, expected, found }, place(base)));
        }
        let partitions = head.placement.count;
        let body = Body::Paged { head: Box::new(head), directory, page: None };
        Ok(Self { layout, partitions, file: Arc::clone(file), body })
    }

    fn open_tez(
        source: &mut dyn OpenSegments,
        partitions: u32,
        file: &Arc<str>,
        len: u64,
        data_length: Option<u64>,
    ) -> Result<Self> {
        let wanted = 24 * u64::from(partitions) + 8;
        if len != wanted {
            let place =
                Place { file: Some(Arc::clone(file)), partition: None, offset: len.min(wanted) };
            let fault = Fault::IndexLength { expected: wanted, found: len };
            return Err(IFileError::corrupt(fault, place));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        source.read_index(0, &mut bytes)?;
        let index =
            UncheckedIndex::parse(&bytes, Some(file))?.validate(data_length.unwrap_or(u64::MAX))?;
        if let Some(length) = data_length {
            index.check_contiguous(length)?;
        }
        let body = Body::Tez { index, crc32: crc32fast::hash(&bytes) };
        Ok(Self { layout: IndexLayout::Tez, partitions, file: Arc::clone(file), body })
    }

    /// Its layout.
    #[must_use]
    pub fn layout(&self) -> IndexLayout {
        self.layout
    }

    /// Partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// What it says of the whole output; `tez` says nothing.
    #[must_use]
    pub fn head(&self) -> Option<&OutputHead> {
        match &self.body {
            Body::Paged { head, .. } => Some(head),
            Body::Tez { .. } => None,
        }
    }

    /// The checksum of a `tez` index.
    pub(super) fn tez_crc(&self) -> Option<u32> {
        match &self.body {
            Body::Tez { crc32, .. } => Some(*crc32),
            Body::Paged { .. } => None,
        }
    }

    /// The segments of a partition, in their order. In `tez` their rows and checksums are not known and 0.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for a damaged page, [`IFileError::Usage`] for a partition that does not exist.
    pub fn segments(
        &mut self,
        source: &mut dyn OpenSegments,
        partition: u32,
    ) -> Result<Vec<StoredSegment>> {
        if partition >= self.partitions {
            return Err(IFileError::Usage("read a partition that a map output does not have"));
        }
        let at = usize::try_from(partition).unwrap_or(usize::MAX);
        match &mut self.body {
            Body::Tez { index, .. } => {
                let entry = index.entries().get(at).filter(|entry| entry.has_records());
                Ok(entry.map(tez_segment).into_iter().collect())
            }
            Body::Paged { head, directory, page } => {
                let number = at / ifile::PAGE_PARTITIONS;
                if page.as_ref().is_none_or(|(known, _)| *known != number) {
                    let read = read_page(source, directory, number, &self.file, head)?;
                    *page = Some((number, read));
                }
                let segments =
                    page.as_ref().and_then(|(_, page)| page.get(at % ifile::PAGE_PARTITIONS));
                Ok(segments.cloned().unwrap_or_default())
            }
        }
    }

    /// The segments of several partitions, with their partition.
    ///
    /// # Errors
    /// Those of [`OutputIndex::segments`].
    pub fn segments_of(
        &mut self,
        source: &mut dyn OpenSegments,
        partitions: Range<u32>,
    ) -> Result<Vec<(u32, StoredSegment)>> {
        let mut all = Vec::new();
        for partition in partitions {
            let segments = self.segments(source, partition)?;
            all.extend(segments.into_iter().map(|segment| (partition, segment)));
        }
        Ok(all)
    }
}

fn tez_segment(entry: &IndexEntry) -> StoredSegment {
    StoredSegment {
        offset: entry.start_offset,
        stored: entry.part_length,
        raw: entry.raw_length,
        ..StoredSegment::default()
    }
}

fn read_page(
    source: &mut dyn OpenSegments,
    directory: &Directory,
    number: usize,
    file: &Arc<str>,
    head: &OutputHead,
) -> Result<Vec<Vec<StoredSegment>>> {
    let Some(entry) = directory.page(number) else {
        return Err(IFileError::Usage("read a page that an index does not have"));
    };
    let mut bytes = vec![0; entry.length];
    source.read_index(entry.offset, &mut bytes)?;
    let place = Place { file: Some(Arc::clone(file)), partition: None, offset: entry.offset };
    take_page(&bytes, &entry, number, head, &place)
}

#[cfg(test)]
mod tests;
