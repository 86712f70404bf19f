//! The IFile container (spec to come).

mod body_reader;
mod body_writer;
mod bound;
mod header;
mod index;
mod options;
mod read_options;
mod records;
mod scratch;
mod segment_reader;
mod segment_slice;
mod segment_writer;
mod source;
mod write_buffer;

pub use bound::{RawBound, RecordCounts};
pub use header::{CHECKSUM_BYTES, HEADER_BYTES, SegmentSummary};
pub use index::{INDEX_ENTRY_BYTES, INDEX_TRAILER_BYTES, IndexEntry, SpillIndex, UncheckedIndex};
pub use options::{SegmentOptions, WriteMode};
pub use read_options::{Lengths, ReadOptions};
pub use records::Record;
pub use scratch::WriteScratch;
pub use segment_reader::SegmentReader;
pub use segment_slice::SegmentSlice;
pub use segment_writer::SegmentWriter;
pub use write_buffer::WriteBuffer;
