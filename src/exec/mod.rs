//! The plan nodes.

mod node;
#[cfg(feature = "proto")]
mod proto;
mod pushdown;
mod run;
mod shuffle_reader;
mod shuffle_reading;
mod shuffle_writer;

pub use node::IFileRepartitionExec;
#[cfg(feature = "proto")]
pub use proto::IFilePhysicalCodec;
pub use shuffle_reader::IFileShuffleReaderExec;
pub use shuffle_writer::{IFileShuffleWriterExec, ShuffleWrite};
