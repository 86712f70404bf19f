//! Between the unlinking of an old index and the renaming of the new one an output is missing, but not lost.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::map_output::{
    CommitStep, IndexLayout, LocalOutput, ReadCounters, SegmentBatches, SegmentSource, ShuffleRead,
};
use datafusion_ifile::{IFileOptions, IFileShuffleWriterExec};

use crate::support::*;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Waits for `receiver` beside the threads of the runtime.
async fn next<T: Send + 'static>(receiver: Receiver<T>) -> (T, Receiver<T>) {
    let next = tokio::task::spawn_blocking(move || (receiver.recv().unwrap(), receiver));
    next.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_being_replaced_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let mut write_to = write_to(directory.path(), 3, IndexLayout::IFile);
    let first = write(input(2000, 2, 100), hash(1), write_to.clone(), &context).await.status;
    write_to.epoch += 1;
    let (reached, between) = channel();
    let (resume, resumed) = channel::<()>();
    let resumed = Mutex::new(resumed);
    let options = IFileOptions::default();
    let writer = IFileShuffleWriterExec::try_new(input(900, 2, 100), hash(1), write_to, options);
    let writer = writer.unwrap().with_commit_observer(move |step| {
        if step == CommitStep::OldIndexUnlinked {
            reached.send(()).unwrap();
            locked(&resumed).recv().unwrap();
        }
        Ok(())
    });
    let writing = tokio::spawn(datafusion::physical_plan::collect(Arc::new(writer), context));
    next(between).await;
    let (opened, openings) = channel();
    let opened = Mutex::new(opened);
    let tell = move |inner: &LocalOutput| {
        let open = inner.open();
        locked(&opened).send(open.is_ok()).unwrap();
        open
    };
    let told = Opening { inner: source(&first), open: tell };
    let reading = tokio::task::spawn_blocking(move || {
        let read = ShuffleRead::new(Arc::new(told), 0..1);
        let counters = ReadCounters::default();
        let batches =
            SegmentBatches::try_new(schema(), first.placement, vec![read], 4096, counters);
        let mut batches = batches.unwrap();
        let mut rows = 0;
        while let Some(batch) = batches.next_batch().unwrap() {
            rows += batch.num_rows();
        }
        rows
    });
    let (there, openings) = next(openings).await;
    assert!(!there, "the index was not missing");
    resume.send(()).unwrap();
    assert!(Written::of(&writing.await.unwrap().unwrap()[0]).committed());
    assert_eq!(reading.await.unwrap(), 900);
    assert_eq!(openings.iter().collect::<Vec<_>>(), [true]);
}
