//! Rows of a batch to output partitions, and the rows that a partition has so far.
//!
//! [`Router`] gives every row its partition, the same one that DataFusion's `RepartitionExec`
//! gives, and groups the row numbers by partition with one counting sort. [`Stage`] then gathers
//! the rows of one partition out of the batch, straight to where they stay until they leave; [`Slabs`]
//! do so for many partitions, narrowed. [`BlockPartitioner`] is both for those who want blocks.
//!
//! ```text
//!   batch -> keys -> partition ids -> counting sort -> Grouped { order, runs }
//!                                                        |  per run
//!                                     Source (typed columns) -> Stage::append -> Stage::finish
//! ```

mod bits;
mod blocks;
mod column;
mod grouping;
mod pieces;
mod ranges;
mod retype;
mod router;
mod slab;
mod source;
mod stage;
mod values;

pub use blocks::BlockPartitioner;
pub(crate) use blocks::{After, BlockStage, takes_of};
pub(crate) use grouping::Grouped;
pub(crate) use router::{Routed, Router};
pub(crate) use slab::{Growth, Slab, SlabLayout, SlabScratch, SlabSource, Slabs, Take};
pub(crate) use source::{Rows, Source};
pub(crate) use stage::{GroupedValidity, Room, Stage};
