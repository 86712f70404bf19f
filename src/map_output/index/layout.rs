//! The layouts by name, and writing them.

use std::fmt;
use std::str::FromStr;

use super::super::segment::StoredSegment;
use super::OutputHead;
use super::ifile::put_ifile;
use crate::error::{Fault, IFileError, Place, Result};
use crate::ifile::{IndexEntry, SpillIndex};

/// A layout of an index; the [module](crate::map_output) has the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IndexLayout {
    /// Segment tables in pages, each verified alone.
    #[default]
    IFile,
    /// Apache Tez's spill index.
    Tez,
    /// Ballista's offsets, then [`IndexLayout::IFile`].
    Ballista,
}

impl IndexLayout {
    /// The id in trailers and statuses. Frozen.
    #[must_use]
    pub const fn wire_id(self) -> u8 {
        match self {
            Self::IFile => 1,
            Self::Tez => 2,
            Self::Ballista => 3,
        }
    }

    /// The layout of an id.
    ///
    /// # Errors
    /// [`Fault::UnknownTag`], without a place.
    pub fn from_wire_id(id: u8) -> Result<Self> {
        match id {
            1 => Ok(Self::IFile),
            2 => Ok(Self::Tez),
            3 => Ok(Self::Ballista),
            found => {
                let fault = Fault::UnknownTag { what: "index layout", found: u64::from(found) };
                Err(IFileError::corrupt(fault, Place::default()))
            }
        }
    }
}

impl fmt::Display for IndexLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IFile => "ifile",
            Self::Tez => "tez",
            Self::Ballista => "ballista",
        })
    }
}

impl FromStr for IndexLayout {
    type Err = IFileError;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "ifile" => Ok(Self::IFile),
            "tez" => Ok(Self::Tez),
            "ballista" => Ok(Self::Ballista),
            other => Err(IFileError::Config {
                setting: "index layout",
                expected: "ifile, tez or ballista".to_owned(),
                found: other.to_owned(),
            }),
        }
    }
}

/// The bytes of an index in `layout`.
///
/// # Errors
/// [`IFileError::Unsupported`] for `tez` where a partition has several segments.
pub(in super::super) fn encode_index(
    layout: IndexLayout,
    head: &OutputHead,
    partitions: &[Vec<StoredSegment>],
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match layout {
        IndexLayout::IFile => put_ifile(head, partitions, &mut out)?,
        IndexLayout::Tez => put_tez(partitions, &mut out)?,
        IndexLayout::Ballista => {
            let mut end = 0;
            for segments in partitions {
                out.extend_from_slice(
                    &segments.first().map_or(end, |first| first.offset).to_le_bytes(),
                );
                end = segments.last().map_or(end, StoredSegment::end);
            }
            out.extend_from_slice(&head.data_length.to_le_bytes());
            let mut paged = Vec::new();
            put_ifile(head, partitions, &mut paged)?;
            out.append(&mut paged);
            out.resize(out.len().next_multiple_of(8), 0);
        }
    }
    Ok(out)
}

fn put_tez(partitions: &[Vec<StoredSegment>], out: &mut Vec<u8>) -> Result<()> {
    let mut entries = Vec::with_capacity(partitions.len());
    for (partition, segments) in partitions.iter().enumerate() {
        match segments.as_slice() {
            [] => entries.push(IndexEntry::EMPTY),
            [only] => entries.push(IndexEntry {
                start_offset: only.offset,
                raw_length: only.raw,
                part_length: only.stored,
            }),
            several => {
                return Err(IFileError::Unsupported {
                    what: format!(
                        "index layout tez for partition {partition} of {} segments",
                        several.len()
                    ),
                    reason: "it has one segment per partition; use ifile, or memory for one run"
                        .to_owned(),
                });
            }
        }
    }
    SpillIndex::new(entries).encode(out)
}
