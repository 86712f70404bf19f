//! A memory pool that remembers how much was reserved at most.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
    UnboundedMemoryPool,
};

use parking_lot::Mutex;

use crate::args::PoolKind;
use crate::protocol::Holder;

/// Operators that are named when memory runs out.
const HOLDERS: usize = 4;

/// Passes everything on to a pool of DataFusion and follows the sum of all reservations.
#[derive(Debug)]
pub(crate) struct PeakPool {
    inner: Arc<dyn MemoryPool>,
    reserved_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    /// None without a limit, where nobody is ever refused.
    holders: Option<Mutex<Holders>>,
}

/// Who holds what, and what it was when a consumer was last refused.
#[derive(Debug, Default)]
struct Holders {
    held: HashMap<usize, (String, usize)>,
    refused: HashMap<String, Vec<Holder>>,
}

impl PeakPool {
    pub(crate) fn new(kind: PoolKind, limit_bytes: Option<usize>) -> Self {
        let inner: Arc<dyn MemoryPool> = match (kind, limit_bytes) {
            (_, None) => Arc::new(UnboundedMemoryPool::default()),
            (PoolKind::Fair, Some(bytes)) => Arc::new(FairSpillPool::new(bytes)),
            (PoolKind::Greedy, Some(bytes)) => Arc::new(GreedyMemoryPool::new(bytes)),
        };
        Self {
            inner,
            reserved_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            holders: limit_bytes.map(|_| Mutex::default()),
        }
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reserved_bytes(&self) -> usize {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Who held the memory when `consumer` was last refused, largest first.
    pub(crate) fn holders(&self, consumer: &str) -> Vec<Holder> {
        let holders = self.holders.as_ref();
        holders.and_then(|all| all.lock().refused.get(consumer).cloned()).unwrap_or_default()
    }

    fn add(&self, reservation: &MemoryReservation, bytes: usize) {
        if let Some(holders) = &self.holders {
            holders.lock().add(reservation.consumer(), bytes);
        }
        let before = self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.peak_bytes.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
    }
}

impl Holders {
    fn add(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        let held = self.held.entry(consumer.id());
        held.or_insert_with(|| (operator(consumer.name()).to_owned(), 0)).1 += bytes;
    }

    fn subtract(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if let Some((_, held)) = self.held.get_mut(&consumer.id()) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                self.held.remove(&consumer.id());
            }
        }
    }

    /// Notes who holds memory while `refused` gets none.
    fn note(&mut self, refused: &MemoryConsumer) {
        let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
        for (operator, bytes) in self.held.values() {
            *sums.entry(operator).or_default() += bytes;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let holder = |(operator, bytes): (&str, usize)| Holder {
            operator: operator.to_owned(),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        };
        let largest =
            sums.into_iter().filter(|(_, bytes)| *bytes > 0).take(HOLDERS).map(holder).collect();
        self.refused.insert(refused.name().to_owned(), largest);
    }
}

/// The name without the number of a partition: `HashJoinInput[3]` is one of `HashJoinInput`.
fn operator(name: &str) -> &str {
    name.split_once('[').map_or(name, |(operator, _)| operator).trim_end()
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
        self.add(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
        self.reserved_bytes.fetch_sub(shrink, Ordering::Relaxed);
        if let Some(holders) = &self.holders {
            holders.lock().subtract(reservation.consumer(), shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let granted = self.inner.try_grow(reservation, additional);
        match (&granted, &self.holders) {
            (Ok(()), _) => self.add(reservation, additional),
            (Err(_), Some(holders)) => holders.lock().note(reservation.consumer()),
            (Err(_), None) => {}
        }
        granted
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
    fn a_refusal_tells_who_held_the_memory() {
        let pool = Arc::new(PeakPool::new(PoolKind::Greedy, Some(100)));
        let dyn_pool: Arc<dyn MemoryPool> = Arc::clone(&pool) as _;
        let consumer = |name| MemoryConsumer::new(name).register(&dyn_pool);
        let (one, two, other) = (consumer("Join[0]"), consumer("Join[1]"), consumer("Sort[0]"));
        one.grow(40);
        two.grow(30);
        other.grow(20);
        two.shrink(5);
        other.try_grow(50).unwrap_err();
        drop(one);
        let holder = |operator: &str, bytes| Holder { operator: operator.to_owned(), bytes };
        assert_eq!(pool.holders("Sort[0]"), [holder("Join", 65), holder("Sort", 20)]);
        assert!(pool.holders("Join[0]").is_empty());
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
