use datafusion_ifile::Codec;
use datafusion_ifile::map_status::{
    AttemptId, BlockSizes, Location, MapStatus, PartitionColumns, PartitionFunction, Placement,
    decode_size, encode_size,
};
use proptest::prelude::*;

pub(crate) fn status(map_id: u64, sizes: BlockSizes, columns: PartitionColumns) -> MapStatus {
    MapStatus {
        map_id,
        attempt: 2,
        attempt_id: map_id.is_multiple_of(2).then_some(AttemptId([map_id as u8 + 1; 16])),
        epoch: 9,
        location: Location {
            executor: format!("exec-{map_id}").into(),
            host: format!("10.0.{map_id}.007").into(),
            port: 65_535,
            path: ["", "/tmp/ö/000123/x", "00000000000000000000000000001"][map_id as usize % 3]
                .into(),
        },
        layout: 1,
        codec: Codec::Lz4,
        schema_fingerprint: u64::MAX,
        placement: Placement {
            function: PartitionFunction::Range,
            seed: 1 << 63,
            count: sizes.len() as u32,
        },
        data_length: (!map_id.is_multiple_of(3)).then_some(map_id << 40),
        sorted: map_id.is_multiple_of(5),
        sizes,
        columns,
    }
}

pub(crate) fn columns(len: usize, with: bool) -> PartitionColumns {
    if !with {
        return PartitionColumns::default();
    }
    PartitionColumns {
        rows: Some((0..len as u64).map(|n| n * n).collect()),
        memory_bytes: Some((0..len as u64).map(|n| n << 33).collect()),
        segments: Some((0..len as u32).collect()),
        checksums: Some((0..len as u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect()),
    }
}

/// Sizes with zeros, small and very large ones.
pub(crate) fn sizes() -> impl Strategy<Value = Vec<u64>> {
    let size = prop_oneof![Just(0), 1u64..200, any::<u64>().prop_map(|n| n >> (n % 64))];
    prop_oneof![
        prop::collection::vec(size.clone(), 0..300),
        prop::collection::vec(size, 2001..2100),
    ]
}

fn assert_bounds(exact: &[u64], sizes: &BlockSizes) {
    for (partition, &exact) in exact.iter().enumerate() {
        let told = sizes.get(partition).unwrap();
        assert!(told >= exact, "{told} for {exact}");
        assert!((told - exact) as f64 <= 0.1 * exact as f64, "{told} for {exact}");
        assert_eq!(told == 0, exact == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn m1_sizes_are_never_below_and_at_most_a_tenth_above(exact in sizes()) {
        let coded = BlockSizes::coded(&exact);
        assert_bounds(&exact, &coded);
        prop_assert_eq!(coded.to_vec(), (0..exact.len()).map(|p| coded.get(p).unwrap()).collect::<Vec<_>>());
        let total = coded.to_vec().iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        prop_assert_eq!(coded.total(), total);
    }

    #[test]
    fn m4_bytes_give_back_the_status(exact in sizes(), map in 0u64..20, with in any::<bool>(), coded in any::<bool>()) {
        let columns = columns(exact.len(), with);
        let sizes = if coded { BlockSizes::coded(&exact) } else { BlockSizes::Exact(exact) };
        let status = status(map, sizes, columns);
        let bytes = status.encode().unwrap();
        prop_assert_eq!(MapStatus::decode(&bytes).unwrap(), status);
        for len in [0, 1, 19, 20, bytes.len() / 2, bytes.len() - 1] {
            prop_assert!(MapStatus::decode(&bytes[..len.min(bytes.len() - 1)]).is_err());
        }
    }

    #[test]
    fn m3_flipped_bytes_are_errors(exact in sizes(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let bytes = status(4, BlockSizes::coded(&exact), columns(exact.len(), true)).encode().unwrap();
        let mut bad = bytes.clone();
        bad[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(MapStatus::decode(&bad).is_err());
    }

    /// The checksum made right again: whatever comes out, it is no panic.
    #[test]
    fn m3_forged_bytes_do_not_panic(exact in sizes(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = status(4, BlockSizes::coded(&exact), columns(exact.len(), true)).encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..16]);
        hasher.update(&bytes[20..]);
        let crc = hasher.finalize().to_le_bytes();
        bytes[16..20].copy_from_slice(&crc);
        let _ = MapStatus::decode(&bytes);
    }
}

#[test]
fn one_partition_a_thousand_times_larger_is_exact() {
    let mut sizes = vec![1_000_000_u64; 5000];
    sizes[4321] = 1_000_000_007;
    let coded = BlockSizes::coded(&sizes);
    assert_eq!(coded.get(4321), Some(1_000_000_007));
    let status = status(1, coded, columns(5000, false));
    let back = MapStatus::decode(&status.encode().unwrap()).unwrap();
    assert_eq!(back.sizes.get(4321), Some(1_000_000_007));
    let BlockSizes::Coded { exact, .. } = back.sizes else { panic!() };
    assert_eq!(exact.len(), 1);
}

#[test]
fn outliers_are_at_most_one_in_a_hundred_but_for_sizes_without_a_bound() {
    let sizes: Vec<u64> = (0..5000).map(|n| if n % 10 == 0 { 1000 + n } else { 10 }).collect();
    let BlockSizes::Coded { exact, .. } = BlockSizes::coded(&sizes) else { panic!() };
    assert_eq!(exact.len(), 50);
    assert!(exact.iter().all(|(_, size)| *size >= 1000 + 4500));
    let huge = vec![1 << 40; 10];
    let BlockSizes::Coded { exact, .. } = BlockSizes::coded(&huge) else { panic!() };
    assert_eq!(exact.len(), 10);
}

#[test]
fn many_empty_partitions_take_few_bytes() {
    let mut sizes = vec![0_u64; 100_000];
    sizes[77_000] = 5;
    let status = status(1, BlockSizes::coded(&sizes), columns(0, false));
    let bytes = status.encode().unwrap();
    assert!(bytes.len() < 20_000, "{}", bytes.len());
    assert_eq!(MapStatus::decode(&bytes).unwrap(), status);
}

#[test]
fn golden_codes_and_bytes() {
    let codes = [0, 1, 2, 3, 100, 1000, 1 << 20, 1 << 30, u64::MAX].map(encode_size);
    assert_eq!(codes, [0, 1, 8, 12, 49, 73, 146, 219, 255]);
    assert_eq!([8, 12, 49, 73, 255].map(decode_size), [2, 3, 106, 1051, 35_903_328_718]);
    let bytes = status(2, BlockSizes::coded(&[0, 5, 1000]), PartitionColumns::default()).encode();
    assert_eq!(hex::encode(bytes.unwrap()), GOLDEN);
}

/// Worked out by hand from the specification, but for the checksum at offset 16.
const GOLDEN: &str = concat!(
    "49464d53010040000300000064000000f11d1d37",
    "020209",
    "03030303030303030303030303030303",
    "06657865632d32",
    "0a31302e302e322e303037",
    "8effff",
    "1d3030303030303030303030303030303030303030303030303030303031",
    "0102ffffffffffffffff030000000000000080",
    "8a020000000001",
    "00114900",
);
