//! The plan node.

mod node;
#[cfg(feature = "proto")]
mod proto;
mod pushdown;
mod run;

pub use node::IFileRepartitionExec;
#[cfg(feature = "proto")]
pub use proto::IFilePhysicalCodec;
