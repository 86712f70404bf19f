use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::map_output::{IndexLayout, OutputName};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn outputs_before_an_epoch_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    for map in 0..4 {
        let mut write_to = write_to(directory.path(), map, IndexLayout::Tez);
        write_to.epoch = 10 + map;
        write(input(100, 1, 10), hash(3), write_to, &context).await;
    }
    std::fs::write(directory.path().join("shuffle_1_9.data"), b"not valid").unwrap();
    std::fs::write(directory.path().join("other"), b"not ours").unwrap();
    let store = store(directory.path());
    let name = |map_id| OutputName { shuffle: 1, map_id };
    assert_eq!(store.remove_before(1, 12).unwrap(), [name(0), name(1), name(9)]);
    assert_eq!(store.remove_before(2, 100).unwrap(), []);
    assert!(!store.exists(name(1)).unwrap() && store.exists(name(2)).unwrap());
    assert!(store.remove(name(3)).unwrap() && !store.remove(name(3)).unwrap());
    let mut left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["other", "shuffle_1_2.data", "shuffle_1_2.index"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dead_attempts_left_goes_with_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    for map in 0..2 {
        let mut write_to = write_to(path, map, IndexLayout::IFile);
        write_to.epoch = 10 + map;
        write(input(100, 1, 10), hash(3), write_to, &context).await;
    }
    let file = |name: &str| path.join(name);
    for name in [
        // Of an output that goes, of one that stays, of one that never was, and a lock.
        ".shuffle_1_0.aa.data.tmp",
        ".shuffle_1_0.aa.index.tmp",
        ".shuffle_1_1.bb.data.tmp",
        ".shuffle_1_7.cc.data.tmp",
        ".shuffle_1_8.lock",
        ".shuffle_2_0.dd.data.tmp",
        ".shuffle_1_1.ee.data.tmp",
    ] {
        std::fs::write(file(name), b"").unwrap();
    }
    let alive = std::fs::File::open(file(".shuffle_1_1.ee.data.tmp")).unwrap();
    alive.lock().unwrap();
    let removed = store(path).remove_before(1, 11).unwrap();
    assert_eq!(removed, [OutputName { shuffle: 1, map_id: 0 }]);
    let mut left: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let expected = [
        ".shuffle_1_1.ee.data.tmp",
        ".shuffle_2_0.dd.data.tmp",
        "shuffle_1_1.data",
        "shuffle_1_1.index",
    ];
    assert_eq!(left, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_epoch_replaces_and_the_same_one_is_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let mut write_to = write_to(directory.path(), 5, IndexLayout::IFile);
    let first = write(input(500, 1, 10), hash(3), write_to.clone(), &context).await;
    write_to.attempt = 1;
    let second = write(input(500, 1, 10), hash(3), write_to.clone(), &context).await;
    assert!(first.committed() && !second.committed());
    let strip = |mut status: datafusion_ifile::map_status::MapStatus| {
        status.columns.memory_bytes = None;
        status
    };
    assert_eq!(strip(first.status.clone()), strip(second.status));
    write_to.epoch += 1;
    let third = write(input(500, 1, 10), hash(3), write_to, &context).await;
    assert!(third.committed() && third.status.attempt_id != first.status.attempt_id);
    // A reader that was told of the first attempt is told that it is gone.
    let error = read(&first.status, reads(std::slice::from_ref(&first.status)), &context)
        .await
        .unwrap_err();
    assert!(lost(&error).to_string_cause().contains("attempt id"), "{error}");
    let parts =
        read(&third.status, reads(std::slice::from_ref(&third.status)), &context).await.unwrap();
    assert_all_rows(&parts, 500);
}

trait CauseText {
    fn to_string_cause(&self) -> String;
}

impl CauseText for datafusion_ifile::LostOutput {
    fn to_string_cause(&self) -> String {
        self.cause.to_string()
    }
}
