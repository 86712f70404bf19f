//! Everything a segment reader needs that is worth keeping from one segment to the next.

use super::body_reader::{BodyReader, Window};

/// Buffers and codec states of a reader, for the reader after it. A task that reads many segments
/// allocates for the first and hardly again.
#[derive(Default)]
pub struct ReadScratch {
    pub(super) body: Option<BodyReader>,
    pub(super) window: Window,
    pub(super) buffer: Vec<u8>,
    pub(super) kept_key: Vec<u8>,
}

impl ReadScratch {
    /// Bytes of memory held: buffers, and the codec's state at its real size.
    pub fn held_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, BodyReader::state_bytes)
            + self.window.capacity()
            + self.buffer.capacity()
            + self.kept_key.capacity()
    }
}

impl std::fmt::Debug for ReadScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadScratch").field("held_bytes", &self.held_bytes()).finish()
    }
}
