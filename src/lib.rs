//! A bounded-memory, compressed exchange for Apache DataFusion.

pub mod block;
pub mod codec;
pub mod error;
pub mod ifile;
pub mod wire;

pub use codec::Codec;
pub use error::{IFileError, Result};
