//! A memory pool that remembers how much was reserved at most.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
    UnboundedMemoryPool,
};

use crate::args::PoolKind;

/// Passes everything on to a pool of DataFusion and follows the sum of all reservations.
#[derive(Debug)]
pub(crate) struct PeakPool {
    inner: Arc<dyn MemoryPool>,
    reserved_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

impl PeakPool {
    pub(crate) fn new(kind: PoolKind, limit_bytes: Option<usize>) -> Self {
        let inner: Arc<dyn MemoryPool> = match (kind, limit_bytes) {
            (_, None) => Arc::new(UnboundedMemoryPool::default()),
            (PoolKind::Fair, Some(bytes)) => Arc::new(FairSpillPool::new(bytes)),
            (PoolKind::Greedy, Some(bytes)) => Arc::new(GreedyMemoryPool::new(bytes)),
        };
        Self { inner, reserved_bytes: AtomicUsize::new(0), peak_bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        let before = self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.peak_bytes.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
    }
}

impl MemoryPool for PeakPool {
    fn name(&self) -> &str {
        "peak"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.add(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
        self.reserved_bytes.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
        self.add(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

impl Display for PeakPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}

/// How a pool's error begins.
pub(crate) const REFUSAL: &str = "Failed to allocate additional ";

/// The consumer that a pool refused, from the text of its error.
pub(crate) fn refused_consumer(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(REFUSAL)?;
    let (_, rest) = rest.split_once(" for ")?;
    let (consumer, _) = rest.split_once(" with ")?;
    Some(consumer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_the_largest_sum_of_reservations() {
        let pool = Arc::new(PeakPool::new(PoolKind::Greedy, Some(100)));
        let dyn_pool: Arc<dyn MemoryPool> = Arc::clone(&pool) as _;
        let one = MemoryConsumer::new("one").register(&dyn_pool);
        let two = MemoryConsumer::new("two").register(&dyn_pool);
        one.grow(60);
        two.try_grow(30).unwrap();
        one.shrink(60);
        two.try_grow(20).unwrap();
        two.try_grow(80).unwrap_err();
        assert_eq!((pool.peak_bytes(), pool.reserved()), (90, 50));
    }

    #[test]
    fn a_fair_pool_knows_its_consumers() {
        let pool: Arc<dyn MemoryPool> = Arc::new(PeakPool::new(PoolKind::Fair, Some(100)));
        let one = MemoryConsumer::new("one").with_can_spill(true).register(&pool);
        let two = MemoryConsumer::new("two").with_can_spill(true).register(&pool);
        one.try_grow(51).unwrap_err();
        drop(two);
        one.try_grow(51).unwrap();
    }

    #[test]
    fn the_refused_consumer_is_named_in_the_error_of_each_pool() {
        for kind in [PoolKind::Fair, PoolKind::Greedy] {
            let pool: Arc<dyn MemoryPool> = Arc::new(PeakPool::new(kind, Some(10)));
            let consumer = MemoryConsumer::new("HashJoinInput[3]").register(&pool);
            let message = consumer.try_grow(11).unwrap_err().to_string();
            assert_eq!(refused_consumer(&message), Some("HashJoinInput[3]"), "{message}");
        }
        assert_eq!(refused_consumer("some other text"), None);
    }
}
