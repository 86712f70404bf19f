//! Bytes in and out: a bounds-checked cursor and Hadoop's variable-length integers.
//!
//! This is the only code of the container that indexes untrusted bytes. Nothing here panics or
//! allocates by a length that was read.
//!
//! # Variable-length integers
//!
//! | first byte | meaning |
//! |---|---|
//! | `00..=7f`, `90..=ff` | the value itself, -112..=127 |
//! | `88..=8f` | a value >= 0, its `0x90 - first` magnitude bytes follow, big-endian |
//! | `80..=87` | a value < 0, the `0x88 - first` bytes of `!value` follow, big-endian |
//!
//! - **V1** Writers use the shortest form; there is never a leading zero byte in the magnitude.
//! - **V2** Readers accept longer forms than needed.
//! - **V3** An `int` read as such must lie within 32 bits.

mod cursor;
mod vint;

pub use cursor::Cursor;
pub use vint::{MAX_VINT_BYTES, MAX_VLONG_BYTES, decode_vlong, put_vlong, vlong_bytes, vlong_len};
