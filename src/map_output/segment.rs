//! Stored segments and checksums composed from theirs.

use crc32fast::Hasher;

use crate::codec::to_u64;
use crate::ifile::{CHECKSUM_BYTES, HEADER_BYTES, SegmentSummary};

/// Where a segment lies, and what it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredSegment {
    /// Offset in the data file.
    pub offset: u64,
    /// Stored bytes, header and checksum included.
    pub stored: u64,
    /// Raw length, as an index of [`crate::ifile`] has it.
    pub raw: u64,
    /// Rows.
    pub rows: u64,
    /// The run it was written in: rows of one run are in the order of their input.
    pub run: u32,
    /// CRC-32 of the stored bytes.
    pub crc32: u32,
}

impl StoredSegment {
    /// End in the data file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.stored)
    }
}

/// The checksum of a whole segment, from that of its body.
pub(super) fn segment_crc(summary: &SegmentSummary) -> u32 {
    let envelope = to_u64(HEADER_BYTES + CHECKSUM_BYTES);
    let mut hasher = Hasher::new();
    hasher.update(&[b'T', b'I', b'F', u8::from(summary.compressed)]);
    let body = summary.part_length.saturating_sub(envelope);
    hasher.combine(&Hasher::new_with_initial_len(summary.crc32, body));
    hasher.update(&summary.crc32.to_be_bytes());
    hasher.finalize()
}

/// The checksum of `segments` one after another.
pub(super) fn composed_crc<'a>(segments: impl IntoIterator<Item = &'a StoredSegment>) -> u32 {
    let mut whole = Hasher::new();
    for segment in segments {
        whole.combine(&Hasher::new_with_initial_len(segment.crc32, segment.stored));
    }
    whole.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;
    use crate::ifile::{RawBound, SegmentOptions, SegmentWriter, WriteScratch};

    #[test]
    fn checksums_are_composed_as_if_the_bytes_were_seen() {
        for codec in [Codec::None, Codec::Lz4] {
            let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
            let (mut all, mut segments) = (Vec::new(), Vec::new());
            for records in [0, 1, 50] {
                let mut bytes = Vec::new();
                let mut writer =
                    SegmentWriter::new(&mut bytes, &mut scratch, RawBound::UNKNOWN).unwrap();
                (0..records).for_each(|_| writer.append(b"", &[7; 100]).unwrap());
                let summary = writer.finish().unwrap();
                assert_eq!(segment_crc(&summary), crc32fast::hash(&bytes));
                let (stored, crc32) = (summary.part_length, segment_crc(&summary));
                segments.push(StoredSegment { stored, crc32, ..StoredSegment::default() });
                all.extend(bytes);
            }
            assert_eq!(composed_crc(&segments), crc32fast::hash(&all));
        }
    }
}
