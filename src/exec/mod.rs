//! The plan node.

mod node;
mod pushdown;
#[cfg(feature = "proto")]
mod proto;
mod run;

pub use node::IFileRepartitionExec;
#[cfg(feature = "proto")]
pub use proto::IFilePhysicalCodec;
