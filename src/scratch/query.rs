use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use datafusion::execution::TaskContext;
use parking_lot::Mutex;

use super::usage::Quota;

/// What the exchanges of one query share of their own scratch directories: the limit of the query,
/// and the devices that failed it.
#[derive(Debug)]
pub(crate) struct QueryScratch {
    pub(super) quota: Quota,
    dropped: Mutex<Vec<(PathBuf, String)>>,
}

impl QueryScratch {
    /// That of the query that runs in `context`, which all nodes of its plan have.
    pub(crate) fn of(context: &Arc<TaskContext>, limit: Option<u64>) -> Arc<Self> {
        static QUERIES: Mutex<Vec<(Weak<TaskContext>, Weak<QueryScratch>)>> =
            Mutex::new(Vec::new());
        let mut queries = QUERIES.lock();
        queries.retain(|(_, scratch)| scratch.strong_count() > 0);
        let same = |(query, _): &&(Weak<TaskContext>, Weak<QueryScratch>)| {
            std::ptr::eq(query.as_ptr(), Arc::as_ptr(context))
        };
        if let Some(scratch) = queries.iter().find(same).and_then(|(_, known)| known.upgrade()) {
            scratch.quota.set_limit(limit);
            return scratch;
        }
        let scratch = Arc::new(Self::new(limit));
        queries.push((Arc::downgrade(context), Arc::downgrade(&scratch)));
        scratch
    }

    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { quota: Quota::new(limit), dropped: Mutex::new(Vec::new()) }
    }

    /// Writes nothing more to `directory`.
    pub(super) fn drop_device(&self, directory: &Path, why: String) {
        self.dropped.lock().push((directory.to_path_buf(), why));
    }

    pub(super) fn is_dropped(&self, directory: &Path) -> bool {
        self.dropped.lock().iter().any(|(dropped, _)| dropped == directory)
    }

    /// The devices that were dropped, and why, for errors.
    pub(super) fn dropped(&self) -> String {
        let dropped = self.dropped.lock();
        let each = dropped.iter().map(|(path, why)| format!("; {} failed: {why}", path.display()));
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_query_share_and_others_do_not() {
        let (first, second) = (Arc::new(TaskContext::default()), Arc::new(TaskContext::default()));
        let shared = QueryScratch::of(&first, Some(10));
        assert!(Arc::ptr_eq(&shared, &QueryScratch::of(&first, Some(10))));
        assert!(!Arc::ptr_eq(&shared, &QueryScratch::of(&second, None)));
        assert!(shared.quota.take(10) && !shared.quota.take(1));
        shared.drop_device(Path::new("/a"), "broken".to_owned());
        assert!(shared.is_dropped(Path::new("/a")) && !shared.is_dropped(Path::new("/b")));
        assert_eq!(shared.dropped(), "; /a failed: broken");
    }
}
