//! The only owner of an exchange's memory reservation.
//!
//! **Policy.** One spillable [`MemoryConsumer`] and one [`MemoryReservation`] serve a whole
//! exchange, whatever its partition count: a fair pool grants a share per reservation, so one per
//! partition would take more than the exchange's part. What is held is counted by [`Permit`]s on
//! that reservation; a permit gives its bytes back when it is dropped, on every path.
//!
//! **Ceiling.** Joins and other operators cannot take memory back from an exchange, so with a
//! finite pool the exchange refuses itself what goes beyond a configured share of it, and what would
//! leave others less than a configured headroom.
//!
//! **Working set.** [`Ledger::force`] never fails. The exchange calls it only for what it needs to
//! make progress when the pool refuses: up to [`WORKING_SET_BYTES`] of staged rows, the narrowed copy
//! of the batch that a producer has in hand, the block in hand while it spills, and the stored bytes
//! of the one batch that a waiting consumer asked for.
//!
//! ```text
//!   MemoryPool <- MemoryReservation <- Ledger <- Permit (producer's credit)
//!                                            <- Permit (rows of a partition)
//!                                            <- Permit (encoder, blocks, fetched bytes)
//!                                            <- MergePool <- DataFusion's merge
//! ```

mod ledger;
mod merge_pool;

pub(crate) use ledger::{Cause, Held, Kept, Ledger, Permit, Shares};
pub(crate) use merge_pool::MergePool;

/// Most bytes that an exchange may hold although the pool refuses them, so that rows leave in
/// blocks of a useful size; fewer where `ifile.block_bytes` asks for smaller ones.
pub(crate) const WORKING_SET_BYTES: usize = 1024 * 1024;
