//! A read of DataFusion's spill files that is short is an error of the output that reads, and leaves nothing.

use std::path::{Path, PathBuf};

use datafusion_ifile::IFileOptions;
use futures::StreamExt;

use super::support::{
    context, exchange, feed, generated, hash, metric, noise, nothing_left_soon, open_all,
    runtime_in, within,
};

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn a_short_read_names_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime_in(1, directory.path());
    let batch = |number: usize| (number < 100).then(|| noise(number as u64 * 4096, 4096, 2));
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
    let partitioning = hash(&input, "k", 2);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    // With the end of the first output all is written, and the rows of the second are on disk.
    while let Some(batch) = within(60, streams[0].next()).await {
        batch.unwrap();
    }
    assert!(metric(&plan, "spill_count") > 0 && runtime.disk_manager.used_disk_space() > 0);
    for file in files(directory.path()) {
        std::fs::File::options().write(true).open(file).unwrap().set_len(1).unwrap();
    }
    let error = loop {
        match within(60, streams[1].next()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error.to_string(),
            None => panic!("rows are missing"),
        }
    };
    assert!(error.contains("failed to fill whole buffer"), "{error}");
    let place = directory.path().to_str().unwrap();
    assert!(error.contains(place) && error.contains("at offset"), "{error}");
    assert!(within(60, streams[1].next()).await.is_none());
    drop((streams, plan));
    nothing_left_soon(&runtime).await;
}
