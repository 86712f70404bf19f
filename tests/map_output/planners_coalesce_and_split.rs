use datafusion_ifile::map_status::{coalesce, skewed, split};
use proptest::prelude::*;

#[test]
fn skewed_partitions_are_those_beyond_median_and_floor() {
    assert_eq!(skewed(&[10, 11, 500, 9, 80], 5, 100), [2]);
    assert_eq!(skewed(&[10, 11, 500, 9, 80], 5, 0), [2, 4]);
    assert_eq!(skewed(&[], 5, 0), Vec::<usize>::new());
}

proptest! {
    #[test]
    fn groups_and_ranges_cover_everything_once(
        sizes in prop::collection::vec(0u64..1000, 0..200),
        target in 0u64..5000,
    ) {
        let groups = coalesce(&sizes, target);
        let covered: Vec<usize> = groups.iter().cloned().flatten().collect();
        prop_assert_eq!(covered, (0..sizes.len()).collect::<Vec<_>>());
        for group in &groups {
            let bytes: u64 = sizes[group.clone()].iter().sum();
            prop_assert!(bytes <= target || group.len() == 1);
        }
        let ranges = split(&sizes, target);
        let covered: Vec<usize> = ranges.iter().flat_map(|range| range.maps.clone()).collect();
        prop_assert_eq!(covered, (0..sizes.len()).collect::<Vec<_>>());
        for range in ranges {
            prop_assert_eq!(range.bytes, sizes[range.maps].iter().sum::<u64>());
        }
    }
}
