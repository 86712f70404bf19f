use std::borrow::Cow;

use datafusion_ifile::map_status::{
    BlockSizes, Envelope, MapStatus, StatusTable, TableReference, TableScratch, encode_table,
};
use proptest::prelude::*;

use crate::statuses_round_trip::{columns, sizes, status};

fn statuses(exact: &[u64], maps: usize, with: bool, coded: bool) -> Vec<MapStatus> {
    (0..maps)
        .map(|map| {
            let sizes: Vec<u64> = exact.iter().map(|size| size.rotate_right(map as u32)).collect();
            let len = sizes.len();
            let sizes = if coded { BlockSizes::coded(&sizes) } else { BlockSizes::Exact(sizes) };
            status(map as u64 * 3, sizes, columns(len, with))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn m4_tables_give_back_their_statuses(
        exact in sizes(), maps in 0usize..90, with in any::<bool>(), coded in any::<bool>(),
    ) {
        let statuses = statuses(&exact, maps, with, coded);
        let mut shuffled = statuses.clone();
        shuffled.reverse();
        let bytes = encode_table(&shuffled, 5).unwrap();
        prop_assert_eq!(&bytes, &encode_table(&statuses, 5).unwrap());
        let table = StatusTable::open(&bytes).unwrap();
        let mut scratch = TableScratch::default();
        prop_assert_eq!((table.maps(), table.epoch()), (maps, 5));
        prop_assert_eq!(table.statuses(&mut scratch).unwrap(), statuses.clone());
        if maps > 0 {
            let middle = exact.len() / 2..(exact.len() / 2 + 3).min(exact.len());
            let sizes = table.sizes(&mut scratch, middle.clone()).unwrap();
            let expected: Vec<u64> = middle
                .clone()
                .flat_map(|p| statuses.iter().map(move |status| status.sizes.get(p).unwrap()))
                .collect();
            prop_assert_eq!(sizes, expected);
            let rows = table.rows(&mut scratch, middle.clone()).unwrap();
            prop_assert_eq!(rows.is_some(), with);
            if let Some(rows) = rows {
                let expected: Vec<u64> =
                    middle.flat_map(|p| vec![(p * p) as u64; maps]).collect();
                prop_assert_eq!(rows, expected);
            }
        }
    }

    #[test]
    fn m3_damaged_tables_are_errors_or_the_same(
        exact in sizes(), maps in 1usize..40, at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let statuses = statuses(&exact, maps, true, true);
        let bytes = encode_table(&statuses, 5).unwrap();
        let mut scratch = TableScratch::default();
        let mut bad = bytes.clone();
        bad[at.index(bytes.len())] ^= 1 << bit;
        let read = StatusTable::open(&bad).and_then(|table| table.statuses(&mut scratch));
        prop_assert!(read.is_err());
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(StatusTable::open(cut).is_err());
    }
}

#[test]
fn statuses_that_do_not_fit_one_table_are_refused() {
    let one = status(1, BlockSizes::coded(&[1, 2]), columns(2, false));
    for other in [
        status(2, BlockSizes::coded(&[1, 2, 3]), columns(3, false)),
        status(2, BlockSizes::Exact(vec![1, 2]), columns(2, false)),
        status(2, BlockSizes::coded(&[1, 2]), columns(2, true)),
        status(1, BlockSizes::coded(&[1, 2]), columns(2, false)),
    ] {
        assert!(encode_table(&[one.clone(), other], 1).is_err());
    }
}

#[test]
fn envelopes_are_direct_or_by_reference() {
    let statuses = statuses(&[1, 2, 3], 10, false, true);
    let table = encode_table(&statuses, 5).unwrap();
    let direct = Envelope::direct(3, 5, &table);
    let parsed = Envelope::parse(&direct).unwrap();
    assert_eq!(parsed, Envelope::Direct { shuffle: 3, epoch: 5, table: &table });
    let reference = TableReference {
        shuffle: 3,
        epoch: 5,
        length: table.len() as u64,
        crc32: crc32fast::hash(&table),
        name: "somewhere".into(),
    };
    let envelope = Envelope::by_reference(&reference).unwrap();
    let parsed = Envelope::parse(&envelope).unwrap();
    assert_eq!(parsed, Envelope::ByReference(reference.clone()));
    let fetched = parsed.clone().resolve(|_| Ok(Cow::Borrowed(&table))).unwrap();
    assert_eq!(StatusTable::open(&fetched).unwrap().maps(), 10);
    assert!(parsed.resolve(|_| Ok(Cow::Borrowed(&table[1..]))).is_err());
    assert_eq!(reference.open(&table).unwrap().partitions(), 3);
    for bytes in [&direct, &envelope] {
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert!(Envelope::parse(&bad).is_err(), "byte {at}");
            assert!(Envelope::parse(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}

/// Lengths beyond 2^31 and 2^32: all codes alike, so that the table itself is small.
#[test]
#[ignore = "takes 5 GB of memory"]
fn more_than_four_gigabytes_of_codes() {
    let statuses: Vec<MapStatus> = (0..50_000)
        .map(|map| status(map, BlockSizes::coded(&vec![7; 90_000]), columns(0, false)))
        .collect();
    let bytes = encode_table(&statuses, 1).unwrap();
    drop(statuses);
    let table = StatusTable::open(&bytes).unwrap();
    let mut codes = Vec::new();
    table.codes_into(&mut TableScratch::default(), &mut codes).unwrap();
    assert_eq!(codes.len(), 50_000 * 90_000);
}
