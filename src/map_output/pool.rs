//! What the streams of a reader leave to each other.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::open::OpenOutput;
use super::source::SegmentSource;
use crate::block::BlockDecoder;
use crate::ifile::ReadScratch;

/// Outputs that stay open.
const MOST_OUTPUTS: usize = 8;

/// Tools that wait, and most bytes of each.
const MOST_TOOLS: usize = 4;
const MOST_TOOL_BYTES: usize = 4 * 1024 * 1024;

/// Decoder and buffers of a stream.
pub(super) struct Tools {
    pub(super) decoder: BlockDecoder,
    pub(super) scratch: ReadScratch,
}

impl Tools {
    pub(super) fn held_bytes(&self) -> usize {
        self.decoder.held_bytes() + self.scratch.held_bytes()
    }
}

/// Open outputs and tools that no stream uses now. With many partitions each stream reads little: without these the opening
/// would be most of its work. Holds at most 8 outputs, with two descriptors and a page of the index each, and 16 MiB.
pub(crate) struct ReadPool {
    most_outputs: usize,
    outputs: Mutex<VecDeque<(Arc<dyn SegmentSource>, OpenOutput)>>,
    tools: Mutex<Vec<Tools>>,
}

impl std::fmt::Debug for ReadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadPool")
            .field("outputs", &self.outputs.lock().len())
            .finish_non_exhaustive()
    }
}

impl Default for ReadPool {
    fn default() -> Self {
        Self { most_outputs: MOST_OUTPUTS, outputs: Mutex::default(), tools: Mutex::default() }
    }
}

impl ReadPool {
    /// One that keeps no outputs: those that somebody fetched hold memory until they go.
    #[cfg(feature = "ballista")]
    pub(crate) fn of_tools() -> Self {
        Self { most_outputs: 0, ..Self::default() }
    }

    pub(super) fn take_output(&self, source: &Arc<dyn SegmentSource>) -> Option<OpenOutput> {
        let mut outputs = self.outputs.lock();
        let at = outputs.iter().position(|(known, _)| Arc::ptr_eq(known, source))?;
        outputs.remove(at).map(|(_, open)| open)
    }

    pub(super) fn give_output(&self, source: Arc<dyn SegmentSource>, open: OpenOutput) {
        let mut outputs = self.outputs.lock();
        outputs.push_back((source, open));
        if outputs.len() > self.most_outputs {
            outputs.pop_front();
        }
    }

    pub(super) fn take_tools(&self) -> Option<Tools> {
        self.tools.lock().pop()
    }

    pub(super) fn give_tools(&self, tools: Tools) {
        let mut all = self.tools.lock();
        if all.len() < MOST_TOOLS && tools.held_bytes() <= MOST_TOOL_BYTES {
            all.push(tools);
        }
    }
}
