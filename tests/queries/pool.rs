//! A pool that is short for the exchanges only.

use std::fmt::{self, Display, Formatter};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

/// Limits the exchanges, and nothing else: they spill, and no other operator fails.
#[derive(Debug)]
pub(crate) struct ExchangeLimitPool {
    exchanges: GreedyMemoryPool,
    others: UnboundedMemoryPool,
}

impl ExchangeLimitPool {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { exchanges: GreedyMemoryPool::new(bytes), others: UnboundedMemoryPool::default() }
    }

    fn pool(&self, reservation: &MemoryReservation) -> &dyn MemoryPool {
        if reservation.consumer().name().starts_with("IFileRepartitionExec") {
            &self.exchanges
        } else {
            &self.others
        }
    }
}

impl MemoryPool for ExchangeLimitPool {
    fn name(&self) -> &str {
        "exchange limit"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool(reservation).grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool(reservation).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool(reservation).try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.exchanges.reserved() + self.others.reserved()
    }
}

impl Display for ExchangeLimitPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.exchanges, f)
    }
}
