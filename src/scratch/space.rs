use std::ops::Range;

use super::punch;
use super::ranges::{RANGE_BYTES, Ranges};

/// Consumed bytes are punched once this part of a file lies together.
const PUNCH_PART: u64 = 32;
const LEAST_PUNCH_BYTES: u64 = 4096;
const MOST_PUNCH_BYTES: u64 = 1024 * 1024;

/// Which bytes of a file are in use.
///
/// - **S1** Every byte below `end` is live, free, or on its way to being punched.
/// - **S2** `unpunched` is a part of `free`: the bytes whose blocks the file still has.
#[derive(Debug, Default)]
pub(super) struct FileSpace {
    end: u64,
    free: Ranges,
    unpunched: Ranges,
    /// No free range is longer.
    longest: u64,
    /// Whether an unpunched range may be worth a hole.
    ripe: bool,
    /// Whether holes are to be punched.
    pub(super) punches: bool,
}

impl FileSpace {
    pub(super) fn new(punches: bool) -> Self {
        Self { punches, ..Self::default() }
    }

    /// Length of the file.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that have blocks.
    pub(super) fn held_bytes(&self) -> u64 {
        self.end - (self.free.bytes() - self.unpunched.bytes())
    }

    /// Memory that the ranges take, beside the two that every file may have.
    pub(super) fn metadata_bytes(&self) -> usize {
        (self.free.count() + self.unpunched.count()).saturating_sub(2) * RANGE_BYTES
    }

    /// The first free range of `len` bytes, and how many of them have no blocks.
    pub(super) fn fit(&mut self, len: u64) -> Option<(Range<u64>, u64)> {
        if self.longest < len {
            return None;
        }
        let Some(fit) = self.free.first_fit(len) else {
            self.longest = len.saturating_sub(1);
            return None;
        };
        let range = fit.start..fit.start + len;
        let blocks: u64 = self.unpunched.within(&range);
        Some((range, len - blocks))
    }

    /// The first free range of `len` bytes that all have blocks.
    pub(super) fn fit_charged(&self, len: u64) -> Option<Range<u64>> {
        let fit = self.unpunched.first_fit(len)?;
        Some(fit.start..fit.start + len)
    }

    /// Takes a free range.
    pub(super) fn take(&mut self, range: &Range<u64>) {
        self.free.remove(range);
        self.unpunched.remove(range);
    }

    /// Takes `len` bytes behind the last.
    pub(super) fn append(&mut self, len: u64) -> Range<u64> {
        let start = self.end;
        self.end += len;
        start..self.end
    }

    /// Nobody will read `range` again.
    pub(super) fn release(&mut self, range: Range<u64>) {
        self.free_again(range.clone());
        let held = punch::pages(&self.unpunched.insert(range));
        self.ripe |= held.end.saturating_sub(held.start) >= self.least_hole();
    }

    fn free_again(&mut self, range: Range<u64>) {
        let whole = self.free.insert(range);
        self.longest = self.longest.max(whole.end - whole.start);
    }

    /// Bytes of a hole that is worth a call. It grows with the file.
    fn least_hole(&self) -> u64 {
        (self.end / PUNCH_PART).clamp(LEAST_PUNCH_BYTES, MOST_PUNCH_BYTES)
    }

    /// Ranges worth a hole. They are nobody's until [`punched`](Self::punched).
    pub(super) fn take_holes(&mut self) -> Vec<Range<u64>> {
        if !self.punches || !std::mem::take(&mut self.ripe) {
            return Vec::new();
        }
        let least = self.least_hole();
        let pages = self.unpunched.iter().map(|range| punch::pages(&range));
        let holes: Vec<_> = pages.filter(|pages| pages.end - pages.start >= least).collect();
        holes.iter().for_each(|hole| self.take(hole));
        holes
    }

    /// A hole was punched, or could not be: then none is tried again.
    pub(super) fn punched(&mut self, hole: Range<u64>, done: bool) {
        if !done {
            self.unpunched.insert(hole.clone());
            self.punches = false;
        }
        self.free_again(hole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn append(space: &mut FileSpace, pages: u64) -> Range<u64> {
        space.append(pages * PAGE)
    }

    #[test]
    fn consumed_ranges_are_used_again_first_fit() {
        let mut space = FileSpace::new(false);
        let ranges: Vec<_> = (1..6).map(|pages| append(&mut space, pages)).collect();
        assert_eq!(space.fit(1), None);
        space.release(ranges[1].clone());
        space.release(ranges[3].clone());
        let (fit, fresh) = space.fit(3 * PAGE).unwrap();
        assert_eq!((fit.start, fresh), (ranges[3].start, 0));
        space.take(&fit);
        assert_eq!(space.fit(PAGE).unwrap().0.start, ranges[1].start);
        assert_eq!(space.fit(3 * PAGE), None);
        assert!(space.take_holes().is_empty());
        assert_eq!(space.held_bytes(), space.end());
    }

    #[test]
    fn holes_are_whole_pages_and_have_no_blocks() {
        let mut space = FileSpace::new(true);
        let range = space.append(10 * PAGE + 10);
        space.release(1..range.end);
        let holes = space.take_holes();
        assert_eq!(holes, vec![Range { start: PAGE, end: 10 * PAGE }]);
        assert_eq!(space.fit(PAGE), None, "not while it is being punched");
        space.punched(holes[0].clone(), true);
        assert_eq!(space.held_bytes(), PAGE + 10);
        assert!(space.take_holes().is_empty(), "once is enough");
        let (fit, fresh) = space.fit(2 * PAGE).unwrap();
        assert_eq!((fit.start, fresh), (1, PAGE + 1));
        space.take(&fit);
        assert_eq!(space.held_bytes(), 2 * PAGE + 1 + 10);
    }

    #[test]
    fn a_hole_that_cannot_be_punched_is_the_last_one() {
        let mut space = FileSpace::new(true);
        let range = append(&mut space, 8);
        space.release(range.clone());
        let holes = space.take_holes();
        space.punched(holes[0].clone(), false);
        assert_eq!((space.held_bytes(), space.fit(8 * PAGE)), (8 * PAGE, Some((range, 0))));
        assert!(space.take_holes().is_empty() && !space.punches);
    }
}
