//! The IFile container: Apache Tez's bytes, in and out.
//!
//! This page is the format's specification. Numbers are decimal unless they look like `ff`; `i32be` is
//! a big-endian `i32`; `vint` is Hadoop's variable-length integer (see [`crate::wire`]).
//!
//! # Segment
//!
//! A segment is one stream of records. Nothing in it names its codec or its length; whoever reads it is
//! told (by an index, by a configuration) or finds its end where the record stream ends.
//!
//! | bytes | field | why |
//! |---|---|---|
//! | 3 | magic `54 49 46`, "TIF" | |
//! | 1 | flag: 0 raw body, 1 body compressed | other values are refused |
//! | n | body | the record stream, as a whole through the codec |
//! | 4 | checksum, `u32be` | CRC-32 (IEEE) of the body *as stored*; the header is not covered |
//!
//! `raw_length` is 4 and the record stream's bytes; `part_length` is 4 + n + 4. Without records the
//! segment is `54 49 46 00 ff ff ff ff 00 00`: raw length 6, stored length 10.
//!
//! # Record stream
//!
//! ```text
//! stream := entry* ff ff
//! entry  := vint(key length) vint(value length) key value
//!         | fe (vint(value length) value)+ fd                 a run: more values for the last key
//! ```
//!
//! Markers are vints too: -1 `ff` twice ends the stream, -2 `fe` opens a run, -3 `fd` closes it.
//!
//! # Compressed bodies
//!
//! Snappy and LZ4 come in Hadoop's blocks ([`crate::codec::framing`]):
//! `(i32be raw_len, (i32be chunk_len, chunk)+)*`, without an end marker. A body of Zstandard is one
//! frame, of Deflate one RFC 1950 stream. Blocks of this crate's own exchange are compressed inside the
//! record instead and lie in raw segments; never both.
//!
//! # Spill index
//!
//! | bytes | field |
//! |---|---|
//! | 24 per partition | `i64be` start offset, raw length, stored length |
//! | 8 | `i64be` CRC-32 of all bytes before, its high word 0 |
//!
//! The data file has the segments in the order of their partitions. A partition without records is
//! `(0, 0, 0)`, `(offset, 0, 0)` or a segment without records, so start offsets are not monotonic.
//!
//! # Invariants
//!
//! Tests carry these numbers.
//!
//! Reading:
//! - **I1** A valid segment gives exactly its records, whether it lies in memory, is streamed, is read
//!   as a range of a file, or follows another; with its lengths given or not.
//! - **I2** Other magic, another flag, a compressed body without a codec are refused; so is a raw body
//!   where a codec is given, unless the index's raw length confirms it (`raw = part - 4`) or the caller
//!   allows raw bodies. The flag is outside of the checksum, so nothing else catches a flipped one.
//! - **I3** The checksum is compared before the end is reported; a foreign record is not handed out
//!   before it ([`SegmentSlice`], [`SegmentReader::verified`], [`SegmentReader::spooled`]). Records with
//!   a checksum of their own may come earlier ([`SegmentReader::self_checked`]).
//! - **I4** The record stream ends in both markers, and nothing follows them in the segment.
//! - **I5** A run follows a key, has a value, and ends before the next key and before the markers.
//! - **I6** Lengths are 0 or more, fit an `i32` and lie within what is left.
//! - **I7** Where a raw length is given, exactly `raw - 4` bytes are decoded.
//! - **I8** Blocks and chunks have 1 byte or more; a chunk, stored or raw, fits the codec buffer; the
//!   chunks of a block decode to its raw length.
//! - **I9** A frame or stream fills its body: nothing follows it.
//! - **I10** Segments that follow one another are read without gaps or overlap.
//! - **I11** Memory is bounded by the buffers' sizes and the longest record, which is capped. A length
//!   that was read allocates nothing; buffers grow as bytes arrive. Zstandard windows are capped.
//!
//! Writing:
//! - **I12** A segment's bytes depend on its records and the [`SegmentOptions`]: not on the bound, not
//!   on how the buffers grew, not on what the codec states did before.
//! - **I13** Buffered writers cut by position: every block but the last has `max_input` raw bytes, and a
//!   full block waits until more follows.
//! - **I14** Unbuffered writers cut as Tez did before it had a write buffer: see [`WriteMode`].
//! - **I15** With a bound that holds no buffer grows, and none is larger than the bound asks for.
//! - **I16** With `store_incompressible_raw` a body that is pending as a whole at the end, and does not
//!   shrink, is stored raw. Once its first block has left the scratch, a segment is compressed for good.
//! - **I17** Small writes do not reach the sink: header and checksum travel with the body, a codec's
//!   block is one write, raw bytes go in writes of up to 64 KiB unless a record is larger.
//! - **I18** One codec state, one block and one stored buffer serve all segments of a task.
//!
//! Index:
//! - **X1** An index has 24 bytes per partition and 8 more, no byte else; 8 bytes alone are an index
//!   of no partitions.
//! - **X2** What was read is written back byte for byte.
//! - **X3** The checksum agrees before any entry is believed; entries agree with the size of the data
//!   file and with each other before any range is read.

mod body_reader;
mod body_writer;
mod bound;
mod header;
mod index;
mod options;
mod read_options;
mod read_scratch;
mod records;
mod scratch;
mod segment_reader;
mod segment_slice;
mod segment_writer;
mod source;
mod spill_writer;
mod verified;
mod write_buffer;

pub use bound::{RawBound, RecordCounts};
pub use header::{CHECKSUM_BYTES, HEADER_BYTES, SegmentSummary};
pub use index::{INDEX_ENTRY_BYTES, INDEX_TRAILER_BYTES, IndexEntry, SpillIndex, UncheckedIndex};
pub use options::{SegmentOptions, WriteMode};
pub use read_options::{Lengths, ReadOptions};
pub use read_scratch::ReadScratch;
pub use records::Record;
pub use scratch::WriteScratch;
pub use segment_reader::SegmentReader;
pub use segment_slice::SegmentSlice;
pub use segment_writer::SegmentWriter;
pub use spill_writer::SpillWriter;
pub use write_buffer::WriteBuffer;
