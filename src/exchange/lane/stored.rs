//! Items in scratch files, and what is held ready for a consumer.

use std::sync::Arc;

use arrow::buffer::Buffer;

use super::{Body, Item, Lane, ToFetch};
use crate::memory::Held;
use crate::scratch::StoredBlock;

impl Lane {
    /// When the first window lacks stored blocks: those, and more up to `read_ahead` bytes.
    pub(super) fn to_fetch(&self, read_ahead: usize) -> ToFetch {
        let mut wanted = ToFetch { items: Vec::new(), needed: 0 };
        let mut bytes = 0;
        let mut in_window = true;
        for item in &self.queue {
            if let Body::Stored { blocks, fetched: None, .. } = &item.body {
                bytes += blocks.iter().map(StoredBlock::len).sum::<usize>();
                if !in_window && (wanted.needed == 0 || bytes > read_ahead) {
                    break;
                }
                wanted.items.push((item.number, Arc::clone(blocks)));
                wanted.needed += usize::from(in_window);
            } else if !in_window {
                break;
            }
            in_window &= !item.ends_window;
        }
        wanted
    }

    /// Gives item `number` the blocks that were fetched for it, if it is still there.
    pub(in crate::exchange) fn set_fetched(
        &mut self,
        number: u64,
        buffers: Vec<Arc<Held<Buffer>>>,
    ) {
        if let Some(Item { body: Body::Stored { fetched, reads, .. }, .. }) = self.item_mut(number)
        {
            *fetched = Some(buffers);
            *reads = reads.saturating_add(1);
        }
    }

    /// Whether something is held ready for the consumer.
    pub(in crate::exchange) fn has_unread(&self) -> bool {
        let front = self.queue.front().filter(|_| self.windows > 0 && !self.closed);
        front.is_some_and(|item| self.wanted || item.body.is_fetched())
    }

    /// Memory is short, and the consumer has not come for what is ready. The second time it is not
    /// kept any longer; whether it was is returned.
    pub(in crate::exchange) fn age_unread(&mut self) -> bool {
        if !self.has_unread() {
            return false;
        }
        self.unread_age += 1;
        if self.unread_age < 2 {
            return false;
        }
        let first = self.unread_age == 2;
        self.unread_age = 2;
        let dropped = self.queue.iter_mut().filter(|item| item.body.is_fetched());
        let dropped = dropped.filter_map(|item| item.body.give_up_fetched().then_some(())).count();
        first || dropped > 0
    }

    /// Makes stored item `number` one with the stored item before it, in the same window: what is
    /// known of stored rows then grows with their blocks alone, however many runs they are in.
    pub(super) fn merge_stored(&mut self, number: u64) {
        let Some(index) = self.index_of(number).filter(|_| !self.fetching) else { return };
        let stored = |index: usize| self.queue.get(index).is_some_and(|item| item.body.is_stored());
        let Some(before) = index.checked_sub(1) else { return };
        if !stored(index) || !stored(before) {
            return;
        }
        if self.queue.get(before).is_none_or(|item| item.ends_window) {
            return;
        }
        let Some(behind) = self.queue.remove(index) else { return };
        if let Some(item) = self.queue.get_mut(before) {
            item.ends_window = behind.ends_window;
            item.body.add_stored(behind.body);
        }
    }
}
