use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// How much of a finite memory pool an exchange takes, as shares of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// Most that the exchange holds.
    pub(crate) most: f64,
    /// What it leaves free for other operators.
    pub(crate) headroom: f64,
}

/// Who said no to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The memory pool, which is full.
    Pool,
    /// The exchange itself: it has its share of the pool.
    Share,
    /// The exchange itself: the rest of the pool is for others.
    Headroom,
}

/// Why a reservation was refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    reason: Reason,
}

/// Put into words only where somebody reads them: refusals are common.
#[derive(Debug)]
enum Reason {
    Pool(DataFusionError),
    Ours { wanted: usize, in_pool: usize, most: usize },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = match self.cause {
            Cause::Share => "ifile.memory_share",
            Cause::Headroom | Cause::Pool => "ifile.memory_headroom",
        };
        match &self.reason {
            Reason::Pool(error) => error.fmt(f),
            Reason::Ours { wanted, in_pool, most } => write!(
                f,
                "the exchange would hold {wanted} bytes and the memory pool {in_pool}, beyond {most} \
                 ({option})"
            ),
        }
    }
}

/// Counts what an exchange holds against its one reservation.
#[derive(Debug)]
pub(crate) struct Ledger {
    reservation: MemoryReservation,
    pool: Arc<dyn MemoryPool>,
    most_bytes: usize,
    pool_most_bytes: usize,
    peak_bytes: AtomicUsize,
    /// Bytes of [`Kept`] permits.
    kept_bytes: AtomicUsize,
}

impl Ledger {
    /// Registers a spillable consumer called `name`.
    pub(crate) fn new(name: &str, pool: &Arc<dyn MemoryPool>, shares: Shares) -> Arc<Self> {
        Self::of(MemoryConsumer::new(name).with_can_spill(true), pool, shares)
    }

    /// Registers a consumer called `name` that has nothing to spill: it takes no share of a fair pool from those who do,
    /// beyond what it holds.
    pub(crate) fn unspillable(name: &str, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Self::of(MemoryConsumer::new(name), pool, Shares { most: 1.0, headroom: 0.0 })
    }

    fn of(consumer: MemoryConsumer, pool: &Arc<dyn MemoryPool>, shares: Shares) -> Arc<Self> {
        let (most_bytes, pool_most_bytes) = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => {
                (share_of(limit, shares.most), limit - share_of(limit, shares.headroom))
            }
            MemoryLimit::Infinite | MemoryLimit::Unknown => (usize::MAX, usize::MAX),
        };
        Arc::new(Self {
            most_bytes,
            pool_most_bytes,
            reservation: consumer.register(pool),
            pool: Arc::clone(pool),
            peak_bytes: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
        })
    }

    /// The name of the consumer.
    pub(crate) fn name(&self) -> &str {
        self.reservation.consumer().name()
    }

    /// Bytes held now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.reservation.size()
    }

    /// Beyond how many bytes the exchange refuses itself more.
    pub(crate) fn ceiling_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Most bytes held at any time.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`.
    ///
    /// # Errors
    /// The pool's refusal, or ours when `bytes` goes beyond our share of it or into the headroom of
    /// others. Nothing is held then.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Result<Permit, Refusal> {
        self.try_grow(bytes)?;
        Ok(self.permit(bytes))
    }

    /// [`try_reserve`](Self::try_reserve) without a permit: the caller gives back by
    /// [`shrink`](Self::shrink).
    pub(super) fn try_grow(&self, bytes: usize) -> Result<(), Refusal> {
        let kept = self.kept_bytes.load(Ordering::Relaxed);
        let wanted = self.held_bytes().saturating_sub(kept).saturating_add(bytes);
        let in_pool = self.pool.reserved().saturating_add(bytes);
        let ours =
            |cause, most| Err(Refusal { cause, reason: Reason::Ours { wanted, in_pool, most } });
        if wanted > self.most_bytes {
            return ours(Cause::Share, self.most_bytes);
        }
        if in_pool > self.pool_most_bytes {
            return ours(Cause::Headroom, self.pool_most_bytes);
        }
        let grown = self.reservation.try_grow(bytes);
        grown.map_err(|error| Refusal { cause: Cause::Pool, reason: Reason::Pool(error) })?;
        self.note_peak();
        Ok(())
    }

    /// Reserves `bytes` whatever the pool says; see the module's policy for who may.
    pub(crate) fn force(self: &Arc<Self>, bytes: usize) -> Permit {
        self.grow(bytes);
        self.permit(bytes)
    }

    /// [`force`](Self::force) without a permit.
    pub(super) fn grow(&self, bytes: usize) {
        self.reservation.grow(bytes);
        self.note_peak();
    }

    /// Gives back bytes that no permit stands for.
    pub(super) fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    /// A permit for nothing, to be filled by [`Permit::move_from`].
    pub(crate) fn empty(self: &Arc<Self>) -> Permit {
        Permit { ledger: Arc::clone(self), bytes: 0 }
    }

    fn note_peak(&self) {
        self.peak_bytes.fetch_max(self.held_bytes(), Ordering::Relaxed);
    }

    fn permit(self: &Arc<Self>, bytes: usize) -> Permit {
        Permit { ledger: Arc::clone(self), bytes }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "share lies in [0, 1], so the product lies in 0..=limit up to rounding"
)]
fn share_of(limit: usize, share: f64) -> usize {
    ((limit as f64 * share) as usize).min(limit)
}

/// Bytes reserved on a [`Ledger`]; dropping it releases them.
#[derive(Debug)]
pub(crate) struct Permit {
    ledger: Arc<Ledger>,
    bytes: usize,
}

impl Permit {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves `bytes` out of `other`, which holds as many. Should it not, that is our own mistake and
    /// does not end a query: what is missing is held from now on, whatever the pool says.
    pub(crate) fn move_from(&mut self, other: &mut Permit, bytes: usize) {
        debug_assert!(Arc::ptr_eq(&self.ledger, &other.ledger));
        debug_assert!(bytes <= other.bytes, "{} bytes cannot give {bytes}", other.bytes);
        let moved = bytes.min(other.bytes);
        other.bytes -= moved;
        self.bytes += moved;
        if moved < bytes {
            log::warn!("{} bytes were held without a reservation", bytes - moved);
            self.resize(self.bytes + bytes - moved);
        }
    }

    /// Takes everything out of this permit.
    pub(crate) fn take(&mut self) -> Permit {
        Permit { ledger: Arc::clone(&self.ledger), bytes: std::mem::take(&mut self.bytes) }
    }

    /// Holds `bytes` from now on, whatever the pool says.
    pub(crate) fn resize(&mut self, bytes: usize) {
        match self.bytes.checked_sub(bytes) {
            Some(less) => self.ledger.shrink(less),
            None => self.ledger.grow(bytes - self.bytes),
        }
        self.bytes = bytes;
    }

    /// Adds the bytes of `other`.
    pub(crate) fn merge(&mut self, mut other: Permit) {
        let bytes = other.bytes;
        self.move_from(&mut other, bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.ledger.reservation.shrink(self.bytes);
        }
    }
}

/// Bytes that stay reserved until the rows that they are for have left, as those that tell where stored
/// rows are. They do not count against the exchange's own share: the room that it leaves for rows would
/// shrink with each run, and the runs with it.
#[derive(Debug)]
pub(crate) struct Kept(Permit);

impl Kept {
    /// Keeps what `permit` holds.
    pub(crate) fn new(permit: Permit) -> Self {
        permit.ledger.kept_bytes.fetch_add(permit.bytes, Ordering::Relaxed);
        Self(permit)
    }

    /// Holds `bytes` from now on, whatever the pool says.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let kept = &self.0.ledger.kept_bytes;
        match self.0.bytes.checked_sub(bytes) {
            Some(less) => kept.fetch_sub(less, Ordering::Relaxed),
            None => kept.fetch_add(bytes - self.0.bytes, Ordering::Relaxed),
        };
        self.0.resize(bytes);
    }

    /// Holds so many bytes more, whatever the pool says.
    pub(crate) fn grow(&mut self, more: usize) {
        self.resize(self.0.bytes.saturating_add(more));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.ledger.kept_bytes.fetch_sub(self.0.bytes, Ordering::Relaxed);
    }
}

/// A value together with the permit for its memory: shared, and released with the last reference.
#[derive(Debug)]
pub(crate) struct Held<T> {
    pub(crate) value: T,
    permit: Permit,
}

impl<T> Held<T> {
    pub(crate) fn new(value: T, permit: Permit) -> Arc<Self> {
        Arc::new(Self { value, permit })
    }

    /// Bytes that the value is charged with.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.bytes
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{
        FairSpillPool, GreedyMemoryPool, UnboundedMemoryPool,
    };

    use super::*;

    const ALL: Shares = Shares { most: 1.0, headroom: 0.0 };

    fn greedy(bytes: usize) -> Arc<dyn MemoryPool> {
        Arc::new(GreedyMemoryPool::new(bytes))
    }

    #[test]
    fn permits_release_what_they_hold() {
        let pool = greedy(100);
        let ledger = Ledger::new("test", &pool, ALL);
        let mut first = ledger.try_reserve(60).unwrap();
        let mut second = ledger.empty();
        second.move_from(&mut first, 20);
        assert_eq!((first.bytes(), second.bytes(), pool.reserved()), (40, 20, 60));
        drop(first);
        assert_eq!(pool.reserved(), 20);
        second.merge(ledger.force(100));
        assert_eq!(pool.reserved(), 120);
        drop(second.take());
        assert_eq!((second.bytes(), pool.reserved(), ledger.peak_bytes()), (0, 0, 120));
    }

    #[test]
    fn the_ceiling_is_a_share_of_a_finite_pool() {
        let pool = greedy(1000);
        let ledger = Ledger::new("IFileRepartitionExec", &pool, Shares { most: 0.25, ..ALL });
        let held = ledger.try_reserve(250).unwrap();
        let message = ledger.try_reserve(1).unwrap_err().to_string();
        assert!(message.contains("hold 251 bytes") && message.contains("beyond 250"), "{message}");
        assert!(message.contains("ifile.memory_share"), "{message}");
        drop(held);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_is_kept_leaves_the_share_to_rows() {
        let pool = greedy(1000);
        let ledger = Ledger::new("exchange", &pool, Shares { most: 0.25, ..ALL });
        let mut kept = Kept::new(ledger.force(100));
        let rows = ledger.try_reserve(250).unwrap();
        assert!(ledger.try_reserve(1).is_err());
        kept.resize(700);
        assert_eq!(pool.reserved(), 950);
        drop(rows);
        drop(ledger.try_reserve(250).unwrap());
        kept.resize(50);
        let rows = ledger.try_reserve(250).unwrap();
        drop(kept);
        assert_eq!(pool.reserved(), 250);
        assert!(ledger.try_reserve(1).is_err());
        drop(rows);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn others_keep_a_headroom() {
        let pool = greedy(1000);
        let other = MemoryConsumer::new("join").register(&pool);
        other.try_grow(700).unwrap();
        let ledger = Ledger::new("exchange", &pool, Shares { headroom: 0.2, ..ALL });
        assert!(ledger.try_reserve(101).is_err());
        let _held = ledger.try_reserve(100).unwrap();
        other.try_grow(200).unwrap();
        assert!(ledger.try_reserve(1).is_err());
    }

    #[test]
    fn an_unbounded_pool_has_no_ceiling() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        assert!(
            Ledger::new("test", &pool, Shares { most: 0.01, headroom: 0.9 })
                .try_reserve(usize::MAX / 2)
                .is_ok()
        );
    }

    #[test]
    fn what_cannot_spill_takes_no_share_of_a_fair_pool() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(100));
        let first = Ledger::new("first", &pool, ALL);
        let reader = Ledger::unspillable("reader", &pool);
        let held = reader.try_reserve(20).unwrap();
        assert!(first.try_reserve(81).is_err());
        let _permit = first.try_reserve(80).unwrap();
        assert!(reader.try_reserve(1).is_err());
        drop(held);
    }

    #[test]
    fn one_exchange_is_one_consumer_of_a_fair_pool() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(100));
        let first = Ledger::new("first", &pool, ALL);
        let permits: Vec<_> = (0..10).map(|_| first.try_reserve(10).unwrap()).collect();
        drop(permits);
        let _second = Ledger::new("second", &pool, ALL);
        assert!(first.try_reserve(51).is_err());
        assert!(first.try_reserve(50).is_ok());
    }
}
