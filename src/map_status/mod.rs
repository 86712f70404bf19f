//! What a map task tells about its output: sizes per partition, and tables of many such statuses.
//!
//! This text is the specification of the bytes. Fixed integers are little-endian; `vint` is the variable-length integer
//! of [`crate::wire`], of 64-bit patterns; a *string* is a vint length and UTF-8.
//!
//! # Size codes
//!
//! A stored size becomes one byte: 0 for 0, 1 for 1, else `min(255, ceil(ln s / ln 1.1))`. The byte stands for the
//! largest size that has it, `floor(1.1^code)`, so that a decoded size is never below the true one and at most 10 % above
//! it. Code 255 has no upper bound (from 32.7 GB): every such size has an *exact entry* beside the codes. A block with
//! bytes never has code 0.
//!
//! Above a switch-over count of partitions ([`SWITCH_OVER`]) sizes above 5 times the median of the blocks that have
//! bytes have exact entries too, the largest first, of at most 1 % of the partitions: no size is ever an average.
//!
//! # One status
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic `49 46 4d 53` ("IFMS") |
//! | 4 | 2 | version, 1 |
//! | 6 | 2 | flags: 1 exact sizes, 2 rows, 4 memory bytes, 8 segments, 16 checksums, 32 sorted, 64 attempt id, 128 bitmap |
//! | 8 | 4 | partitions |
//! | 12 | 4 | length of the body |
//! | 16 | 4 | CRC-32 of bytes 0..16 and of the body |
//! | 20 | n | body |
//!
//! Body: vints map id, attempt, epoch; the attempt id's 16 bytes (flag 64); strings executor, host; vint port; string
//! path; bytes layout, codec (as [`Codec::wire_id`](crate::codec::Codec::wire_id)); `u64` fingerprint of the schema; byte
//! partition function; `u64` its seed; vint data length plus 1, or 0. Then the sizes: a vint per partition (flag 1), or the codes. The
//! codes are a byte per partition, or (flag 128) a vint length, a Roaring bitmap of the partitions without bytes, and a
//! byte for each other partition; then a vint count of exact entries, each the vints distance from the entry before (from
//! -1 for the first) and size. Then a vint per partition for rows, memory bytes and segments, and `u32` checksums.
//!
//! # Table of statuses
//!
//! All statuses of a table have the same partitions, form of sizes and columns. Sizes lie by *partition*: the codes of
//! partition 0 for all maps, then of partition 1, and so on, in pages of whole partitions, each section of a page
//! compressed in one call; one partition is read without inflating the pages of others.
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic `49 46 53 54` ("IFST") |
//! | 4 | 2 | version, 1 |
//! | 6 | 2 | flags 1 to 16 of a status |
//! | 8 | 4 | maps |
//! | 12 | 4 | partitions |
//! | 16 | 4 | partitions per page |
//! | 20 | 4 | 0 |
//! | 24 | 8 | epoch |
//! | 32 | 24 | *section entry* of the map columns |
//! | 56 | 4 | CRC-32 of the directory |
//! | 60 | 4 | CRC-32 of bytes 0..60 |
//! | 64 | 24 per section | directory: a section entry per page and section |
//! | then | | the map columns, the sections of page 0, of page 1, ... |
//!
//! A section entry is `u64` stored length, `u64` raw length, `u32` CRC-32 of the stored bytes, `u32` codec (0 as it is, 3
//! one Zstandard frame). Sections of a page: sizes (codes or vints); exact entries (with codes only), each the vints
//! partition in the page, map, size, ascending; then rows, memory bytes, segments as vints and checksums as `u32`, as far
//! as the flags have them. Empty sections have lengths of 0.
//!
//! Map columns, one entry per map in the order of the map ids. Number columns: map id (as zigzag difference from the one
//! before), attempt, epoch, port, layout, codec, fingerprint, function, seed, whether the data length is known, data
//! length, sorted. Then attempt ids (byte 0, or 1 and 16 bytes per map, zeros for none). String columns: executor, host,
//! path. A *number column* is a byte width `w` of 0 to 8 and `w` planes of a
//! byte per map, low bytes first, of value minus the `u64` minimum that precedes the planes. A *string column* is a vint count of
//! shapes, each the strings head and tail; a number column of shapes; a number column of zigzag differences of numbers: a string is head, the
//! number in decimal unless the shape has none (a byte 0 after its tail, else 1), and tail.
//!
//! # Envelope
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic `49 46 53 45` ("IFSE") |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | kind: 1 direct, 2 by reference |
//! | 6 | 2 | 0 |
//! | 8 | 8 | shuffle |
//! | 16 | 8 | epoch |
//! | 24 | 8 | length of the table |
//! | 32 | 4 | CRC-32 of the table |
//! | 36 | 4 | CRC-32 of bytes 0..36 |
//! | 40 | | direct: the table; by reference: a `u16` length, a name of so many bytes in UTF-8, CRC-32 of both |
//!
//! # Invariants
//!
//! - **M1** A decoded size is never below the true one; in code form it is at most 10 % above it; entries of code 255 are
//!   exact. 0 stays 0 and nothing else becomes 0.
//! - **M2** No length that was read allocates before a checksum covers it and a cap holds: codes by maps and
//!   partitions, Zstandard by its largest ratio.
//! - **M3** Unknown versions, flags and ids, cut and flipped bytes are typed errors, never a panic and never other
//!   numbers.
//! - **M4** A table gives back the statuses it was made of, in the order of their map ids.
//! - **M5** Within an epoch statuses are serialized once, however many ask at the same time.

mod envelope;
mod numbers;
mod planner;
mod registry;
mod size_code;
mod sizes;
mod status;
mod status_bytes;
mod table;

pub use envelope::{Envelope, TableReference};
pub use planner::{MapRange, PartitionTotals, coalesce, skewed, split};
pub use registry::{StatusRegistry, StatusReply};
pub use size_code::{decode_size, encode_size};
pub use sizes::{BlockSizes, SWITCH_OVER};
pub use status::{AttemptId, Location, MapStatus, PartitionColumns, PartitionFunction, Placement};
pub use table::{StatusTable, TableEncoder, TableScratch, encode_table};
