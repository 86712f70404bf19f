use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};

use super::ledger::Ledger;

/// Bytes that the merges of an exchange may hold together although the pool refuses them, at least.
const LEAST_MERGE_BYTES: usize = 4 * 1024 * 1024;

/// The same for every lane that they merge: two batches of the least size, and their sort keys.
const MERGE_BYTES_PER_LANE: usize = 48 * 1024;

/// The pool of DataFusion's streaming merge over an exchange.
///
/// The merge fails when its reservation is refused, and holds a batch per input whatever happens.
/// So it gets this pool: what it asks for is counted on the exchange's own reservation, and where
/// the real pool refuses, a stated number of bytes is taken all the same; the producers find the pool
/// full and spill what the exchange holds.
pub(crate) struct MergePool {
    ledger: Arc<Ledger>,
    overdraft_bytes: usize,
    held_bytes: AtomicUsize,
}

impl MergePool {
    /// A pool for the merges of `lanes` lanes.
    pub(crate) fn new(ledger: Arc<Ledger>, lanes: usize) -> Self {
        let overdraft_bytes = LEAST_MERGE_BYTES.max(lanes.saturating_mul(MERGE_BYTES_PER_LANE));
        Self { ledger, overdraft_bytes, held_bytes: AtomicUsize::new(0) }
    }
}

impl fmt::Debug for MergePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for MergePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "merge(used: {})", self.reserved())
    }
}

impl MemoryPool for MergePool {
    fn name(&self) -> &'static str {
        "merge"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.ledger.grow(additional);
        self.held_bytes.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.held_bytes.fetch_sub(shrink, Ordering::Relaxed);
        self.ledger.shrink(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if let Err(refusal) = self.ledger.try_grow(additional) {
            let wanted = self.reserved().saturating_add(additional);
            let most = self.overdraft_bytes;
            if wanted > most {
                return Err(DataFusionError::ResourcesExhausted(format!(
                    "{} needs {wanted} bytes for the batches it merges, beyond the {most} \
                     bytes that it may take of a full memory pool: {refusal}",
                    reservation.consumer().name()
                )));
            }
            self.ledger.grow(additional);
        }
        self.held_bytes.fetch_add(additional, Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer};

    use super::super::ledger::Shares;
    use super::*;

    const MERGE_BYTES: usize = LEAST_MERGE_BYTES;
    const ALL: Shares = Shares { most: 1.0, headroom: 0.0 };

    #[test]
    fn merges_count_on_the_exchanges_reservation_and_may_overdraw_it() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let ledger = Ledger::new("exchange", &pool, ALL);
        let merges: Arc<dyn MemoryPool> = Arc::new(MergePool::new(Arc::clone(&ledger), 2));
        let first = MemoryConsumer::new("exchange[Merge 0]").register(&merges);
        let second = MemoryConsumer::new("exchange[Merge 1]").register(&merges);
        first.try_grow(900).unwrap();
        assert_eq!((pool.reserved(), ledger.held_bytes()), (900, 900));
        second.try_grow(MERGE_BYTES - 900).unwrap();
        assert_eq!(ledger.held_bytes(), MERGE_BYTES);
        let message = first.try_grow(1).unwrap_err().to_string();
        assert!(message.contains("exchange[Merge 0] needs 4194305 bytes"), "{message}");
        drop((first, second));
        assert_eq!((pool.reserved(), merges.reserved()), (0, 0));
    }

    #[test]
    fn a_pool_with_memory_to_spare_has_no_limit_of_its_own() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 * MERGE_BYTES));
        let ledger = Ledger::new("exchange", &pool, ALL);
        let merges: Arc<dyn MemoryPool> = Arc::new(MergePool::new(ledger, 2));
        let merge = MemoryConsumer::new("exchange[Merge 0]").register(&merges);
        merge.try_grow(3 * MERGE_BYTES).unwrap();
        assert!(merge.try_grow(2 * MERGE_BYTES).is_err());
    }
}
