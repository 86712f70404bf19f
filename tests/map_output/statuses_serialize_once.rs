use std::sync::Barrier;

use datafusion_ifile::map_status::{
    BlockSizes, Envelope, StatusRegistry, StatusTable, TableScratch,
};

use crate::statuses_round_trip::{columns, status};

fn one(map: u64, size: u64) -> datafusion_ifile::map_status::MapStatus {
    status(map, BlockSizes::coded(&vec![size; 50]), columns(50, false))
}

#[test]
fn m5_readers_that_ask_at_the_same_time_share_one_table() {
    let registry = StatusRegistry::new(64);
    registry.register(7);
    for map in 0..200 {
        registry.add(7, one(map, map)).unwrap();
    }
    let barrier = Barrier::new(8);
    let replies: Vec<_> = std::thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            registry.reply(7).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(registry.tables_encoded(), 1);
    assert!(replies.iter().all(|reply| reply.epoch == 200 && reply.envelope.len() < 566));
    let Envelope::ByReference(reference) = Envelope::parse(&replies[0].envelope).unwrap() else {
        panic!("by reference")
    };
    let table = replies[0].table.clone().unwrap();
    assert_eq!(reference.open(&table).unwrap().maps(), 200);
}

#[test]
fn changes_are_epochs_and_lost_outputs_go() {
    let registry = StatusRegistry::default();
    assert!(registry.add(1, one(0, 5)).is_err());
    registry.register(1);
    assert_eq!(registry.add(1, one(0, 5)).unwrap(), 1);
    assert_eq!(registry.add(1, one(1, 5)).unwrap(), 2);
    let mut older = one(1, 9);
    older.attempt = 0;
    assert_eq!(registry.add(1, older).unwrap(), 2);
    let first = registry.reply(1).unwrap();
    assert_eq!(
        (first.epoch, registry.reply(1).unwrap().epoch, registry.tables_encoded()),
        (2, 2, 1)
    );
    let gone = registry.remove(1, |status| &*status.location.executor == "exec-1").unwrap();
    assert_eq!(gone, [1]);
    let second = registry.reply(1).unwrap();
    assert_eq!((second.epoch, registry.tables_encoded()), (3, 2));
    let Envelope::Direct { table, .. } = Envelope::parse(&second.envelope).unwrap() else {
        panic!("direct")
    };
    let table = StatusTable::open(table).unwrap();
    let statuses = table.statuses(&mut TableScratch::default()).unwrap();
    assert_eq!(statuses.len(), 1);
    assert_eq!((statuses[0].map_id, statuses[0].epoch), (0, 1));
    assert!(registry.unregister(1) && registry.reply(1).is_err());
}
