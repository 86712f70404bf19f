//! A step of a commit that fails is an error with its file, and leaves the pair that was there or nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::collect;
use datafusion_ifile::map_output::{CommitStep, IndexLayout, OutputName};
use datafusion_ifile::{IFileError, IFileOptions, IFileShuffleWriterExec};
use rstest::rstest;

use crate::support::*;

const NAME: OutputName = OutputName { shuffle: 1, map_id: 3 };

const SAID: &str = "the disk says no";

/// An attempt that synchronizes, with an epoch of its own and an observer of its commit.
async fn attempt(
    directory: &Path,
    epoch: u64,
    runtime: &Arc<RuntimeEnv>,
    observer: impl Fn(CommitStep) -> io::Result<()> + Send + Sync + 'static,
) -> Result<Written, DataFusionError> {
    let mut write_to = write_to(directory, NAME.map_id, IndexLayout::IFile);
    write_to.epoch = epoch;
    write_to.output.fsync = true;
    let input = input(60_000, 2, 1000);
    let options = IFileOptions::default();
    let writer = IFileShuffleWriterExec::try_new(input, hash(9), write_to, options).unwrap();
    let writer = Arc::new(writer.with_commit_observer(observer));
    let summary = collect(writer, context(runtime, 1000)).await?;
    Ok(Written::of(&summary[0]))
}

/// The action, the name of the file and the original error.
fn parts(error: &DataFusionError) -> (&'static str, String, &io::Error) {
    let DataFusionError::External(inner) = error.find_root() else { panic!("{error:?}") };
    match inner.downcast_ref() {
        Some(IFileError::Io { action, place, source }) => {
            let file = Path::new(place.file.as_deref().unwrap()).file_name().unwrap();
            (action, file.to_str().unwrap().to_owned(), source)
        }
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case(CommitStep::DataWritten, "write the data", ".data.tmp", true)]
#[case(CommitStep::DataSynced, "synchronize the data", ".data.tmp", true)]
#[case(CommitStep::IndexWritten, "write the index", ".index.tmp", true)]
#[case(CommitStep::IndexSynced, "synchronize the index", ".index.tmp", true)]
#[case(CommitStep::Locked, "lock a", "shuffle_1_3.data", true)]
#[case(CommitStep::OldIndexUnlinked, "remove the old index", "shuffle_1_3.index", false)]
#[case(CommitStep::DataRenamed, "rename the data", "shuffle_1_3.data", false)]
#[case(CommitStep::IndexRenamed, "rename the index", "shuffle_1_3.index", false)]
#[case(CommitStep::DirectorySynced, "synchronize the directory", "outputs", false)]
#[tokio::test]
async fn whichever_step_fails(
    #[case] fails: CommitStep,
    #[case] action: &str,
    #[case] file: &str,
    #[case] old_stays: bool,
    #[values(false, true)] before: bool,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outputs");
    std::fs::create_dir(&path).unwrap();
    // The rows do not fit: there are spills.
    let runtime = limited(1 << 20);
    let mut old = vec![];
    if before {
        let written = attempt(&path, 1, &runtime, |_| Ok(())).await.unwrap();
        assert!(written.committed() && written.number("spills") > 0);
        old =
            files(&path).iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    }
    let says = move |step| if step == fails { Err(io::Error::other(SAID)) } else { Ok(()) };
    let error = attempt(&path, 2, &runtime, says).await.err().unwrap();
    let (found_action, found_file, source) = parts(&error);
    assert!(found_action.starts_with(action), "{error}");
    assert!(found_file.ends_with(file), "{error}");
    assert_eq!(source.to_string(), SAID);
    released(&runtime).await;
    assert_eq!(runtime.disk_manager.used_disk_space(), 0);
    let expected = if old_stays { old } else { vec![] };
    let left = files(&path).into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap()));
    assert!(left.eq(expected.iter().cloned()), "{:?}", files(&path));
    assert_eq!(store(&path).exists(NAME).unwrap(), !expected.is_empty());

    let next = attempt(&path, 2, &runtime, |_| Ok(())).await.unwrap();
    assert!(next.committed());
    let reads = reads(std::slice::from_ref(&next.status));
    let rows = read(&next.status, reads, &context(&runtime, 1000)).await.unwrap();
    assert_all_rows(&rows, 60_000);
    assert_eq!(files(&path).len(), 2);
}

/// `/dev/null` takes every byte and cannot be synchronized.
#[tokio::test]
async fn the_system_refuses_to_synchronize() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let runtime = Arc::new(RuntimeEnv::default());
    let replaces_index = move |step| {
        if step == CommitStep::DataSynced {
            let files = files(&path);
            let data = files.iter().find(|file| file.to_str().unwrap().ends_with(".data.tmp"));
            let index = data.unwrap().to_str().unwrap().replace(".data.tmp", ".index.tmp");
            std::os::unix::fs::symlink("/dev/null", index)?;
        }
        Ok(())
    };
    let error = attempt(directory.path(), 1, &runtime, replaces_index).await.err().unwrap();
    let (action, file, source) = parts(&error);
    assert_eq!(action, "synchronize the index of a map output");
    assert!(file.ends_with(".index.tmp"), "{error}");
    assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
    assert_eq!(files(directory.path()), [""; 0].map(std::path::PathBuf::from));
}

/// Nothing is synchronized where it was not asked for.
#[tokio::test]
async fn without_the_option_no_step_synchronizes() {
    let directory = tempfile::tempdir().unwrap();
    let steps = Arc::new(parking_lot::Mutex::new(vec![]));
    let seen = Arc::clone(&steps);
    let write_to = write_to(directory.path(), NAME.map_id, IndexLayout::IFile);
    let options = IFileOptions::default();
    let input = input(2000, 2, 100);
    let writer = IFileShuffleWriterExec::try_new(input, hash(9), write_to, options).unwrap();
    let writer = writer.with_commit_observer(move |step| {
        seen.lock().push(step);
        Ok(())
    });
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    collect(Arc::new(writer), context).await.unwrap();
    let expected = [
        CommitStep::DataWritten,
        CommitStep::IndexWritten,
        CommitStep::Locked,
        CommitStep::OldIndexUnlinked,
        CommitStep::DataRenamed,
        CommitStep::IndexRenamed,
    ];
    assert_eq!(*steps.lock(), expected);
}
