//! Map outputs: one data file and its index per map task, written once, read by partition.
//!
//! This text is the specification of the bytes. Integers are little-endian unless a layout says otherwise; CRC is CRC-32
//! (IEEE).
//!
//! # Data file
//!
//! Segments of [`crate::ifile`], in the order of their partitions, without gaps from offset 0; then a trailer. A segment's
//! records have empty keys and one [block](crate::block) each; the segment itself has no codec.
//!
//! | trailer offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic `49 46 44 54` ("IFDT") |
//! | 4 | 2 | version, 1 |
//! | 6 | 1 | layout of the index, as [`IndexLayout::wire_id`] |
//! | 7 | 1 | 0 |
//! | 8 | 16 | attempt id |
//! | 24 | 8 | epoch |
//! | 32 | 8 | length of the segments, which is the trailer's offset |
//! | 40 | 4 | CRC of the segments |
//! | 44 | 4 | CRC of the index file |
//! | 48 | 8 | map id |
//! | 56 | 4 | attempt |
//! | 60 | 4 | CRC of bytes 0..60 |
//!
//! # Index, layout `ifile`
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic `49 46 4d 4f` ("IFMO") |
//! | 4 | 2 | version, 1 |
//! | 6 | 2 | flags: 1 each segment is sorted |
//! | 8 | 16 | attempt id |
//! | 24 | 8 | map id |
//! | 32 | 8 | epoch |
//! | 40 | 4 | attempt |
//! | 44 | 4 | partitions |
//! | 48 | 8 | fingerprint of the schema ([`schema_fingerprint`](crate::block::schema_fingerprint)) |
//! | 56 | 1 | partition function ([`PartitionFunction`](crate::map_status::PartitionFunction)) |
//! | 57 | 1 | codec of the blocks ([`Codec::wire_id`](crate::Codec::wire_id)) |
//! | 58 | 2 | 0 |
//! | 60 | 4 | pages |
//! | 64 | 8 | seed of the partition function |
//! | 72 | 8 | length of the segments |
//! | 80 | 4 | CRC of the segments |
//! | 84 | 4 | length of the schema |
//! | 88 | 8 | segments |
//! | 96 | 4 | CRC of schema and page directory |
//! | 100 | 24 | 0 |
//! | 124 | 4 | CRC of bytes 0..124 |
//! | 128 | | schema, as the flatbuffer `Schema` of Arrow IPC |
//! | then | 16 per page | page directory: `u64` offset of the page from the start of this layout, `u32` length, `u32` CRC |
//! | then | | pages of 64 partitions, the last one of the rest: a `u32` count of segments per partition, then their entries |
//!
//! | entry offset | length | field |
//! |---|---|---|
//! | 0 | 8 | offset in the data file |
//! | 8 | 8 | stored length |
//! | 16 | 8 | raw length |
//! | 24 | 8 | rows |
//! | 32 | 4 | run |
//! | 36 | 4 | CRC of the stored bytes, header and checksum of the segment included |
//!
//! One partition is found and verified by its page alone. Checksums of partitions and of the file are composed from those
//! of segments: bytes that are spliced into the file are never looked at.
//!
//! # Index, layout `tez`
//!
//! The spill index of [`crate::ifile`], exactly 24 bytes per partition and 8. It has one segment per partition; where a
//! partition would have more, asking for this layout is an error.
//!
//! # Index, layout `ballista`
//!
//! A `u64` offset per partition and the length of the segments, 8 (n + 1) bytes as Ballista reads them; then the
//! layout `ifile`, zeros after it up to a multiple of 8.
//!
//! # Commit
//!
//! Under a lock of the output: both files are complete under temporary names; where a valid pair exists, the new one is
//! discarded; else the old index is unlinked, the data renamed, the index renamed. Whatever is killed at whatever moment
//! leaves a valid pair or none. Where it is asked for, each file is synchronized once it is complete, and the directory
//! after the last rename. An attempt that fails leaves the old pair as it was or, from the unlinking of the old index on,
//! no file. A task that was cancelled before the unlinking commits nothing.
//!
//! # Invariants
//!
//! - **O1** Nothing of an index is believed before a checksum over it holds; entries lie within the data, in order, without
//!   gaps in a partition.
//! - **O2** A reader gives rows only of blocks whose checksum holds, and ends only after those of segment and index
//!   agree; a file that is missing, or data and index of different attempts, are reopened once, when the commit that may
//!   be under way has ended; then it is an error.
//! - **O3** Every fault of a map output is an [`IFileError::LostOutput`](crate::IFileError::LostOutput), which names map
//!   task, partition and offset. What the reading process lacks or does wrong is not.
//! - **O4** An output's bytes depend on its rows, their order and the options, but for the attempt id; as long as the memory
//!   pool refuses nothing. Where it does, blocks are cut and runs spilled at that moment.

mod blocks;
mod cancel;
mod collect;
mod commit;
mod encoded;
mod index;
mod join;
mod open;
mod options;
mod pool;
mod reader;
mod segment;
mod source;
mod spill;
mod step;
mod task;
mod trailer;
mod waiting;
mod writer;

pub use commit::{Committed, OutputName, OutputStore};
pub use index::{IndexLayout, OutputHead, OutputIndex};
pub use options::MapOutputOptions;
pub use reader::{ReadCounters, SegmentBatches, ShuffleRead};
pub use segment::StoredSegment;
pub use source::{FetchedOutput, LocalOutput, OpenSegments, SegmentSource};
pub use step::CommitStep;
pub use task::placement_of;

pub(crate) use pool::ReadPool;
pub(crate) use reader::{Expected, reads_by_segment};
pub(crate) use task::{MapTask, MapTaskMetrics, WrittenOutput};
