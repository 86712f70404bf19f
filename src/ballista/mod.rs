//! Ballista's executors on map outputs of this crate.
//!
//! [`IFileExecutionEngine`] is an execution engine for an executor of Ballista 55.0.0; scheduler and client stay as they are.
//! Stages that end in a hash exchange write a [map output](crate::map_output) per task, stages that begin with one read
//! them. Everything else is left to Ballista's own engine: stages that pass partitions through, broadcasts, range
//! shuffles, and the last stage, which the client reads.
//!
//! ```text
//!  executor A                                             executor B
//!  +--------------------------------------------+         +---------------------------------------+
//!  | stage 1, task 0                            |         | stage 2, task 4                       |
//!  |  inputs -> collect -> data.arrow           |  index  |  fetch --> verify, decode --> join .. |
//!  |  side by    blocks    data.arrow.index     | ------> |  byte ranges of       batches         |
//!  |  side       spills    JOB/STAGE/TASK/      | ranges  |  its partitions                       |
//!  +--------------------------------------------+         +---------------------------------------+
//!             Flight service of Ballista: IO_BLOCK_TRANSPORT
//! ```
//!
//! # Writing
//!
//! A task drains its input partitions side by side into one output, on its memory pool. The files have the names that
//! Ballista gives them, and the index has the layout `ballista`. Each segment keeps to one input where the input is
//! sorted. Only partitions with rows are reported; their bytes are the logical bytes of the rows as Arrow arrays.
//!
//! # Reading
//!
//! Outputs on this machine are read by position, others by byte ranges through the Flight service that every executor
//! has: the index, then the ranges of the wanted partitions, in pieces. Pieces in flight are compressed, bounded and
//! reserved, indexes reserved and of 256 MiB at most. A transfer that breaks goes on behind the last byte that has arrived. Readers that must keep an order merge
//! the segments.
//!
//! | setting of the session | meaning |
//! |---|---|
//! | `ballista.shuffle.force_remote_read` | reads everything through the Flight service |
//! | `ballista.shuffle.max_concurrent_read_requests` | most requests in flight of a partition |
//! | `ballista.shuffle.reader.max_bytes_in_flight` | most compressed bytes in flight of a partition, and never more than 8 MiB; a merge of more than 128 segments has up to 64 KiB of each |
//! | `ballista.shuffle.reader.max_blocks_in_flight_per_address` | most requests to one executor |
//! | `ballista.client.io_retries_times`, `ballista.client.io_retry_wait_time_ms` | how a transfer goes on that broke |
//!
//! # Faults
//!
//! A map output that is missing, truncated or damaged is a `FetchFailed`, on which the scheduler runs its map task
//! again. An output of another format, which an executor without this engine wrote, fails the query: all executors of a
//! cluster have to run the same engine.

mod client_pool;
mod engine;
mod fault;
mod fetch;
mod fetched;
mod node;
mod readers;
mod reads;
mod settings;
mod stage;
mod view;

pub use client_pool::ClientPool;
pub use engine::IFileExecutionEngine;
pub use node::IFileFetchExec;
