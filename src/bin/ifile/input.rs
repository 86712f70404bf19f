//! The data file, its index, and the segments in it.

use crate::Target;
use crate::output::Failure;
use datafusion_ifile::error::{IFileError, Result};
use datafusion_ifile::ifile::{
    IndexEntry, Lengths, ReadOptions, SegmentReader, SpillIndex, UncheckedIndex,
};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// A file, or what came out of a pipe.
pub(crate) trait Data: Read + Seek {}

impl<T: Read + Seek> Data for T {}

/// The data file and what is known of it.
pub(crate) struct Input {
    data: Box<dyn Data>,
    pub(crate) len: u64,
    pub(crate) index: Option<SpillIndex>,
    options: ReadOptions,
}

/// How much of a pipe is held in memory.
const PIPE_CAP: u64 = 1 << 30;

impl Input {
    pub(crate) fn open(target: &Target) -> Result<Self, Failure> {
        let name = target.file.display().to_string();
        let mut file = open(&target.file)?;
        let metadata = file.metadata().map_err(|error| cannot_read(&target.file, &error))?;
        let (data, len): (Box<dyn Data>, u64) = if metadata.is_file() {
            (Box::new(file), metadata.len())
        } else {
            let mut bytes = vec![];
            let read = (&mut file).take(PIPE_CAP).read_to_end(&mut bytes);
            let len = read.map_err(|error| cannot_read(&target.file, &error))?;
            (Box::new(Cursor::new(bytes)), u64::try_from(len).unwrap_or(PIPE_CAP))
        };
        let index = target.index.as_deref().map(|path| read_index(path, len)).transpose()?;
        let options = ReadOptions::new(target.codec)
            .with_codec_buffer(target.codec_buffer)
            .with_raw_allowed(target.allow_raw)
            .with_file(name);
        if target.offset > len {
            let text = format!("offset {} lies beyond the {len} bytes of the file", target.offset);
            return Err(Failure::Other(text));
        }
        Ok(Self { data, len, index, options })
    }

    /// Index entries with their partitions.
    pub(crate) fn entries(&self) -> Option<Vec<(u32, IndexEntry)>> {
        let entries = self.index.as_ref()?.entries();
        Some((0..).zip(entries.iter().copied()).collect())
    }

    /// A reader of one partition's segment, for records that are used only after its end.
    pub(crate) fn partition(
        &mut self,
        partition: u32,
        entry: IndexEntry,
    ) -> Result<SegmentReader<&mut dyn Data>> {
        let options = self.at(entry.start_offset)?.with_partition(partition);
        SegmentReader::self_checked(&mut *self.data, entry.into(), options)
    }

    /// As [`Input::partition`], with the checksum compared beforehand.
    pub(crate) fn verified_partition(
        &mut self,
        partition: u32,
        entry: IndexEntry,
    ) -> Result<SegmentReader<&mut dyn Data>> {
        let options = self.at(entry.start_offset)?.with_partition(partition);
        SegmentReader::verified(&mut *self.data, entry.into(), options)
    }

    /// A reader of the segments that follow one another from an offset.
    pub(crate) fn row(&mut self, target: &Target) -> Result<SegmentReader<&mut dyn Data>> {
        let options = self.at(target.offset)?;
        SegmentReader::self_checked(&mut *self.data, lengths(target), options)
    }

    /// As [`Input::row`], with checksums compared beforehand.
    pub(crate) fn verified_row(&mut self, target: &Target) -> Result<SegmentReader<&mut dyn Data>> {
        let options = self.at(target.offset)?;
        SegmentReader::verified(&mut *self.data, lengths(target), options)
    }

    fn at(&mut self, offset: u64) -> Result<ReadOptions> {
        let options = self.options.clone().with_base_offset(offset);
        self.data.seek(SeekFrom::Start(offset)).map_err(|source| IFileError::Io {
            action: "position segment",
            place: datafusion_ifile::error::Place::at(offset),
            source,
        })?;
        Ok(options)
    }
}

fn lengths(target: &Target) -> Lengths {
    target.length.map_or(Lengths::UNKNOWN, Lengths::part)
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Other(format!("cannot read {}: {error}", path.display()))
}

fn read_index(path: &Path, data_len: u64) -> Result<SpillIndex, Failure> {
    let mut bytes = vec![];
    let mut file = open(path)?;
    file.read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
    let name = path.display().to_string();
    Ok(UncheckedIndex::parse(&bytes, Some(&name))?.validate(data_len)?)
}
