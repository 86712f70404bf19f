//! Readers that see a segment's checksum before they hand out its first record.

use super::index::IndexEntry;
use super::read_options::{Lengths, ReadOptions};
use super::read_scratch::ReadScratch;
use super::segment_reader::SegmentReader;
use crate::codec::to_u64;
use crate::error::{IFileError, Result};
use std::io::{Cursor, Read, Seek, SeekFrom};

impl<R: Read + Seek> SegmentReader<R> {
    /// A reader that compares a segment's checksum before it hands out the first record, in a pass of
    /// its own over the range. The source stands at the first byte of the range.
    ///
    /// # Errors
    /// If the options are invalid, or the first segment. Where its lengths are not known, all of its
    /// records are parsed beforehand.
    pub fn verified(source: R, lengths: Lengths, options: ReadOptions) -> Result<Self> {
        Self::verified_in(ReadScratch::default(), source, lengths, options)
    }

    /// As [`SegmentReader::verified`], with the buffers and codec states of a reader before.
    ///
    /// # Errors
    /// As [`SegmentReader::verified`]. The scratch is then gone.
    pub fn verified_in(
        scratch: ReadScratch,
        source: R,
        lengths: Lengths,
        options: ReadOptions,
    ) -> Result<Self> {
        Self::open(scratch, source, lengths, options, Some(Self::verify_ahead))
    }

    /// As [`SegmentReader::verified`], for the segment of an index entry. The source is a data file,
    /// at any position.
    ///
    /// # Errors
    /// As [`SegmentReader::verified`], and if the source cannot be positioned.
    pub fn range(source: R, entry: IndexEntry, options: ReadOptions) -> Result<Self> {
        Self::range_in(ReadScratch::default(), source, entry, options)
    }

    /// As [`SegmentReader::range`], with the buffers and codec states of a reader before.
    ///
    /// # Errors
    /// As [`SegmentReader::range`]. The scratch is then gone.
    pub fn range_in(
        scratch: ReadScratch,
        mut source: R,
        entry: IndexEntry,
        options: ReadOptions,
    ) -> Result<Self> {
        let options = options.with_base_offset(entry.start_offset);
        source.seek(SeekFrom::Start(entry.start_offset)).map_err(|source| IFileError::Io {
            action: "position segment",
            place: options.place.clone(),
            source,
        })?;
        Self::verified_in(scratch, source, entry.into(), options)
    }

    fn verify_ahead(&mut self) -> Result<()> {
        if self.source.check_ahead()? {
            return Ok(());
        }
        if self.segment.lengths.part.is_some() {
            self.source.skip_body()?;
        } else {
            while self.advance()?.is_some() {}
        }
        let back = i64::try_from(self.source.buffered_to() - self.segment.start)
            .map_err(|_| IFileError::Usage("rewind by more than a file can have"))?;
        self.source.reader.seek(SeekFrom::Current(-back)).map_err(|source| IFileError::Io {
            action: "rewind segment",
            place: self.source.place(0),
            source,
        })?;
        self.source.rewound(self.segment.start);
        self.restart()
    }
}

impl SegmentReader<Cursor<Vec<u8>>> {
    /// As [`SegmentReader::verified`] for a source that cannot be read twice: its stored bytes are
    /// held in memory, up to [`ReadOptions::with_spool_cap`]. Takes the segment's stored length from
    /// the source, all of it if that is not known.
    ///
    /// # Errors
    /// As [`SegmentReader::verified`], and [`IFileError::Unsupported`] for more bytes than the cap.
    pub fn spooled(source: impl Read, lengths: Lengths, options: ReadOptions) -> Result<Self> {
        let cap = options.spool_cap;
        let refuse = |what: String| IFileError::Unsupported {
            what,
            reason: format!("the cap on bytes held in memory is {cap}; read from a file instead"),
        };
        if let Some(part) = lengths.part
            && part > cap
        {
            return Err(refuse(format!("segment of {part} bytes from a stream")));
        }
        let limit = lengths.part.unwrap_or(cap.saturating_add(1));
        let mut spool = Vec::new();
        source.take(limit).read_to_end(&mut spool).map_err(|source| IFileError::Io {
            action: "read segment",
            place: options.place.clone(),
            source,
        })?;
        if to_u64(spool.len()) > cap {
            return Err(refuse(format!("more than {cap} bytes from a stream")));
        }
        Self::verified(Cursor::new(spool), lengths, options)
    }
}
