//! A memory pool that refuses as a script says.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{Result, resources_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

use crate::rng::Rng;

/// When the exchange is refused. DataFusion's own merge never is: it fails when it is refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Refusals {
    Never,
    Always,
    Percent(u64),
    /// The n-th time and no other; numbers count from 1.
    Only(usize),
    /// So many refusals, one grant, and so on.
    AllButOneOf(usize),
    /// Beyond so many bytes.
    Beyond(usize),
}

#[derive(Debug)]
pub(crate) struct ScriptedPool {
    refusals: Refusals,
    rng: Mutex<Rng>,
    calls: AtomicUsize,
    reserved: AtomicUsize,
    exchanges: AtomicUsize,
    exchanges_ever: AtomicUsize,
}

impl ScriptedPool {
    pub(crate) fn new(refusals: Refusals, seed: u64) -> Self {
        Self {
            refusals,
            rng: Mutex::new(Rng::new(seed)),
            calls: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            exchanges_ever: AtomicUsize::new(0),
        }
    }

    /// Memory consumers of exchanges registered now, and ever.
    pub(crate) fn exchanges(&self) -> (usize, usize) {
        (self.exchanges.load(Ordering::SeqCst), self.exchanges_ever.load(Ordering::SeqCst))
    }

    fn refuses(&self, more: usize) -> bool {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.refusals {
            Refusals::Never => false,
            Refusals::Always => true,
            Refusals::Only(number) => call + 1 == number,
            Refusals::Percent(percent) => self.rng.lock().chance(percent),
            Refusals::AllButOneOf(count) => call % count + 1 != count,
            Refusals::Beyond(bytes) => self.reserved.load(Ordering::SeqCst) + more > bytes,
        }
    }
}

fn is_exchange(consumer: &MemoryConsumer) -> bool {
    ["IFileRepartitionExec", "IFileShuffleWriterExec"].contains(&consumer.name())
}

impl fmt::Display for ScriptedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scripted({:?})", self.refusals)
    }
}

impl MemoryPool for ScriptedPool {
    fn name(&self) -> &str {
        "scripted"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if is_exchange(consumer) {
            self.exchanges.fetch_add(1, Ordering::SeqCst);
            self.exchanges_ever.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if is_exchange(consumer) {
            self.exchanges.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::SeqCst);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        let before = self.reserved.fetch_sub(shrink, Ordering::SeqCst);
        assert!(before >= shrink, "{shrink} bytes given back, {before} were reserved");
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if is_exchange(reservation.consumer()) && self.refuses(additional) {
            return resources_err!("refused by script");
        }
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::SeqCst)
    }

    fn memory_limit(&self) -> MemoryLimit {
        match self.refusals {
            Refusals::Beyond(bytes) => MemoryLimit::Finite(bytes),
            _ => MemoryLimit::Infinite,
        }
    }
}
