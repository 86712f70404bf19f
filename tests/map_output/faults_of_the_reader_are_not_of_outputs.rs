//! What this process lacks, or does wrong, is no reason to run a map task again.

use std::io;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::IFileError;
use datafusion_ifile::map_output::{
    IndexLayout, LocalOutput, OpenSegments, ReadCounters, SegmentBatches, SegmentSource,
    ShuffleRead,
};
use datafusion_ifile::map_status::MapStatus;

use crate::support::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Open,
    Index,
    Data,
}

#[derive(Debug, Clone, Copy)]
enum What {
    System(i32),
    Usage,
}

impl What {
    fn error(self) -> IFileError {
        let (action, place) = ("fail", datafusion_ifile::error::Place::at(0));
        match self {
            Self::System(code) => {
                IFileError::Io { action, place, source: io::Error::from_raw_os_error(code) }
            }
            Self::Usage => IFileError::Usage("fail"),
        }
    }
}

/// An open output that cannot be read on from some time on.
struct Open {
    inner: Box<dyn OpenSegments>,
    when: When,
    what: What,
}

impl OpenSegments for Open {
    fn index_len(&mut self) -> datafusion_ifile::Result<u64> {
        self.inner.index_len()
    }

    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> datafusion_ifile::Result<()> {
        match self.when {
            When::Index => Err(self.what.error()),
            _ => self.inner.read_index(offset, buffer),
        }
    }

    fn data_len(&mut self) -> datafusion_ifile::Result<Option<u64>> {
        self.inner.data_len()
    }

    fn read_data(&mut self, offset: u64, buffer: &mut [u8]) -> datafusion_ifile::Result<()> {
        match self.when {
            // The trailer is read first.
            When::Data if offset == 0 => Err(self.what.error()),
            _ => self.inner.read_data(offset, buffer),
        }
    }
}

fn error_of(status: &MapStatus, when: When, what: What) -> IFileError {
    let open = move |inner: &LocalOutput| -> datafusion_ifile::Result<Box<dyn OpenSegments>> {
        match when {
            When::Open => Err(what.error()),
            _ => Ok(Box::new(Open { inner: inner.open()?, when, what })),
        }
    };
    let read = ShuffleRead::new(Arc::new(Opening { inner: source(status), open }), 0..1);
    let counters = ReadCounters::default();
    let batches = SegmentBatches::try_new(schema(), status.placement, vec![read], 4096, counters);
    batches.unwrap().next_batch().unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_system_lacks_passes_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let write_to = write_to(directory.path(), 5, IndexLayout::IFile);
    let status = write(input(900, 1, 300), hash(1), write_to, &context).await.status;
    for when in [When::Open, When::Index, When::Data] {
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            match error_of(&status, when, What::System(code)) {
                IFileError::Io { source, .. } => assert_eq!(source.raw_os_error(), Some(code)),
                other => panic!("{when:?}, {code}: {other}"),
            }
        }
        let error = error_of(&status, when, What::Usage);
        assert!(matches!(error, IFileError::Usage("fail")), "{when:?}: {error}");
        let error = error_of(&status, when, What::System(libc::EIO));
        assert!(matches!(error, IFileError::LostOutput(_)), "{when:?}: {error}");
    }
}
