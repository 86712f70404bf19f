//! Loops compiled for the vectors of the machine that runs them.

use fearless_simd::{Level, dispatch};

/// Runs `work`, which is compiled for the widest vectors there are here as well as for the oldest
/// machines. It should be one loop over a column: what it calls is part of that only if it is inlined.
#[inline(always)]
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    dispatch!(Level::new(), _simd => work())
}
