//! A bounded-memory, compressed exchange for Apache DataFusion.

pub mod block;
pub mod codec;
mod config;
pub mod error;
mod exchange;
mod exec;
pub mod ifile;
mod memory;
mod optimizer;
mod partition;
mod scratch;
mod session;
pub mod wire;

pub use codec::Codec;
pub use config::IFileOptions;
pub use error::{IFileError, Result};
#[cfg(feature = "proto")]
pub use exec::IFilePhysicalCodec;
pub use exec::IFileRepartitionExec;
pub use optimizer::{ReplaceRepartition, why_not};
pub use session::SessionStateBuilderExt;
