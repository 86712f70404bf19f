use std::collections::BTreeMap;
use std::ops::Range;

/// What one range takes in memory.
pub(super) const RANGE_BYTES: usize = 64;

/// Disjoint ranges of a file; neighbours are one.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Start to end.
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// How many bytes they have together.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// Adds a range; returns what it has become a part of.
    pub(super) fn insert(&mut self, range: Range<u64>) -> Range<u64> {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return range;
        }
        let before = self.ends.range(..=start).next_back().map(|(start, end)| (*start, *end));
        if let Some((first, last)) = before.filter(|(_, last)| *last >= start) {
            self.take(first);
            (start, end) = (first, end.max(last));
        }
        while let Some((first, last)) =
            self.ends.range(start..=end).next().map(|(start, end)| (*start, *end))
        {
            self.take(first);
            end = end.max(last);
        }
        self.put(start..end);
        start..end
    }

    /// Takes out what lies in `range`; returns how many bytes that was.
    pub(super) fn remove(&mut self, range: &Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.ends.range(..range.start).next_back();
        let before = before.filter(|(_, end)| **end > range.start).map(|(start, _)| *start);
        let inside = self.ends.range(range.clone()).map(|(start, _)| *start);
        let touched: Vec<u64> = before.into_iter().chain(inside).collect();
        let held = self.bytes;
        for start in touched {
            let end = self.take(start);
            self.put(start..end.min(range.start));
            self.put(start.max(range.end)..end);
        }
        held - self.bytes
    }

    /// How many bytes lie in `range`.
    pub(super) fn within(&self, range: &Range<u64>) -> u64 {
        let before = self.ends.range(..range.start).next_back();
        let inside = self.ends.range(range.clone());
        let part = |(start, end): (&u64, &u64)| {
            (*end).min(range.end).saturating_sub((*start).max(range.start))
        };
        before.into_iter().chain(inside).map(part).sum()
    }

    /// The first range of at least `len` bytes.
    pub(super) fn first_fit(&self, len: u64) -> Option<Range<u64>> {
        self.iter().find(|range| range.end - range.start >= len)
    }

    fn put(&mut self, range: Range<u64>) {
        if range.start < range.end {
            self.ends.insert(range.start, range.end);
            self.bytes += range.end - range.start;
        }
    }

    fn take(&mut self, start: u64) -> u64 {
        let end = self.ends.remove(&start).unwrap_or(start);
        self.bytes -= end - start;
        end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_become_one() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.insert(10..20), 10..20);
        assert_eq!(ranges.insert(30..40), 30..40);
        assert_eq!(ranges.insert(20..30), 10..40);
        assert_eq!((ranges.count(), ranges.bytes()), (1, 30));
        assert_eq!(ranges.remove(&(15..25)), 10);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..15, 25..40]);
        assert_eq!(ranges.first_fit(6), Some(25..40));
        assert_eq!(ranges.first_fit(16), None);
    }

    proptest! {
        /// The same as a set of single bytes.
        #[test]
        fn ranges_are_a_set(steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..20), 0..60)) {
            let mut ranges = Ranges::default();
            let mut set = std::collections::BTreeSet::new();
            for (insert, start, len) in steps {
                let range = start..start + len;
                let there = range.clone().filter(|byte| set.contains(byte)).count();
                prop_assert_eq!(ranges.within(&range), there as u64);
                if insert {
                    ranges.insert(range.clone());
                    set.extend(range);
                } else {
                    let there = range.clone().filter(|byte| set.remove(byte)).count();
                    prop_assert_eq!(ranges.remove(&range), there as u64);
                }
                prop_assert_eq!(ranges.bytes(), set.len() as u64);
                let bytes: Vec<u64> = ranges.iter().flatten().collect();
                prop_assert_eq!(bytes, set.iter().copied().collect::<Vec<_>>());
                let ends: Vec<_> = ranges.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
