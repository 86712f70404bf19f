//! Rows of a batch as block bytes, and back.

mod bits;
mod decode;
mod encode;
mod error;
mod external;
mod header;
mod sample;
mod sink;
mod sizes;
mod source;
mod table;
mod tags;
mod types;
mod word;

pub use decode::{BlockDecoder, DecodeLimits};
pub use encode::{BlockEncoder, BlockInfo, BlockSlice};
pub use error::{BlockError, BlockResult};
pub use header::{BlockHeader, HEADER_LEN};
pub use sizes::logical_bytes;
pub use types::{schema_fingerprint, why_not};

#[cfg(test)]
mod tests;
