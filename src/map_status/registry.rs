//! Statuses by shuffle, for whoever answers the readers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::envelope::{Envelope, TableReference};
use super::sizes::BlockSizes;
use super::status::MapStatus;
use super::status_bytes::{CHECKSUMS, EXACT, MEMORY, ROWS, SEGMENTS, shared_flags};
use super::table::encode_table;
use crate::codec::to_u64;
use crate::error::{IFileError, Result};

/// Tables larger than this are referred to.
const DIRECT_BYTES: usize = 512 * 1024;

/// What a reader is told.
#[derive(Debug, Clone)]
pub struct StatusReply {
    /// The envelope's bytes, shared by all replies of an epoch.
    pub envelope: Arc<[u8]>,
    /// The table, where the envelope refers to it: to be published once under the reference's name.
    pub table: Option<Arc<[u8]>>,
    /// The epoch.
    pub epoch: u64,
}

/// The statuses of running shuffles. Every change of a shuffle's outputs is a new epoch; within an epoch the statuses
/// are serialized once, however many ask at the same time.
#[derive(Debug)]
pub struct StatusRegistry {
    direct_bytes: usize,
    shuffles: Mutex<HashMap<u64, Arc<Shuffle>>>,
    encoded: AtomicU64,
}

#[derive(Debug, Default)]
struct Shuffle {
    outputs: Mutex<Outputs>,
    /// Held while a table is made, so that others wait for it instead of making it too.
    reply: Mutex<Option<StatusReply>>,
}

#[derive(Debug, Default, Clone)]
struct Outputs {
    epoch: u64,
    statuses: BTreeMap<u64, Arc<MapStatus>>,
}

impl Default for StatusRegistry {
    fn default() -> Self {
        Self::new(DIRECT_BYTES)
    }
}

impl StatusRegistry {
    /// A registry that refers to tables of more than `direct_bytes`.
    #[must_use]
    pub fn new(direct_bytes: usize) -> Self {
        Self { direct_bytes, shuffles: Mutex::default(), encoded: AtomicU64::new(0) }
    }

    fn shuffle(&self, shuffle: u64) -> Result<Arc<Shuffle>> {
        let shuffles = self.shuffles.lock();
        shuffles.get(&shuffle).cloned().ok_or_else(|| IFileError::Unsupported {
            what: format!("shuffle {shuffle}"),
            reason: "it is not registered, or was removed".to_owned(),
        })
    }

    /// Begins a shuffle; one that is known stays as it is.
    pub fn register(&self, shuffle: u64) {
        self.shuffles.lock().entry(shuffle).or_default();
    }

    /// Adds the output of a map task, in place of one of an earlier attempt, and returns the epoch. A status of an
    /// attempt before the known one changes nothing.
    ///
    /// # Errors
    /// If the shuffle is not registered, or the status is not well formed.
    pub fn add(&self, shuffle: u64, status: MapStatus) -> Result<u64> {
        status.check()?;
        let shuffle = self.shuffle(shuffle)?;
        let mut outputs = shuffle.outputs.lock();
        let known = outputs.statuses.get(&status.map_id);
        if known.is_some_and(|known| known.attempt > status.attempt) {
            return Ok(outputs.epoch);
        }
        outputs.epoch += 1;
        let status = MapStatus { epoch: outputs.epoch, ..status };
        outputs.statuses.insert(status.map_id, Arc::new(status));
        Ok(outputs.epoch)
    }

    /// Removes the outputs that `lost` names, for a reader that could not read one or an executor that is gone. Returns
    /// their map ids; the epoch grows if there are any.
    ///
    /// # Errors
    /// If the shuffle is not registered.
    pub fn remove(&self, shuffle: u64, lost: impl Fn(&MapStatus) -> bool) -> Result<Vec<u64>> {
        let shuffle = self.shuffle(shuffle)?;
        let mut outputs = shuffle.outputs.lock();
        let mut removed = Vec::new();
        outputs.statuses.retain(|&map_id, status| {
            let gone = lost(status);
            if gone {
                removed.push(map_id);
            }
            !gone
        });
        outputs.epoch += u64::from(!removed.is_empty());
        Ok(removed)
    }

    /// Ends a shuffle. Returns whether there was one.
    pub fn unregister(&self, shuffle: u64) -> bool {
        self.shuffles.lock().remove(&shuffle).is_some()
    }

    /// The statuses of a shuffle, in the order of their map ids.
    ///
    /// # Errors
    /// If the shuffle is not registered.
    pub fn statuses(&self, shuffle: u64) -> Result<Vec<Arc<MapStatus>>> {
        Ok(self.shuffle(shuffle)?.outputs.lock().statuses.values().cloned().collect())
    }

    /// What to tell readers of a shuffle in its present epoch. Columns that some of the statuses do not have are left out
    /// of all, and sizes are codes unless all of them are exact.
    ///
    /// # Errors
    /// If the shuffle is not registered, or its statuses do not fit one table.
    pub fn reply(&self, shuffle: u64) -> Result<StatusReply> {
        let id = shuffle;
        let shuffle = self.shuffle(id)?;
        let mut reply = shuffle.reply.lock();
        let outputs = {
            let outputs = shuffle.outputs.lock();
            if let Some(known) = reply.as_ref().filter(|known| known.epoch == outputs.epoch) {
                return Ok(known.clone());
            }
            outputs.clone()
        };
        let mut statuses: Vec<Arc<MapStatus>> = outputs.statuses.into_values().collect();
        level(&mut statuses);
        let table = encode_table(&statuses, outputs.epoch)?;
        self.encoded.fetch_add(1, Ordering::Relaxed);
        let made = if table.len() <= self.direct_bytes {
            let envelope = Envelope::direct(id, outputs.epoch, &table).into();
            StatusReply { envelope, table: None, epoch: outputs.epoch }
        } else {
            let reference = TableReference {
                shuffle: id,
                epoch: outputs.epoch,
                length: to_u64(table.len()),
                crc32: crc32fast::hash(&table),
                name: format!("shuffle-{id}-epoch-{}", outputs.epoch).into(),
            };
            let envelope = Envelope::by_reference(&reference)?.into();
            StatusReply { envelope, table: Some(table.into()), epoch: outputs.epoch }
        };
        *reply = Some(made.clone());
        Ok(made)
    }

    /// How often a table was made.
    #[must_use]
    pub fn tables_encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }
}

/// Gives all statuses the same columns and form of sizes: those that every one of them has. The status of an attempt that
/// found another one's output in place has less to tell than that one's own.
fn level(statuses: &mut [Arc<MapStatus>]) {
    let flags = |status: &Arc<MapStatus>| shared_flags(status);
    let Some(shared) = statuses.iter().map(flags).reduce(|all, flags| all & flags) else { return };
    for status in statuses.iter_mut().filter(|status| flags(status) != shared) {
        let status = Arc::make_mut(status);
        let lacks = |flag: u16| shared & flag == 0;
        if lacks(EXACT)
            && let BlockSizes::Exact(sizes) = &status.sizes
        {
            status.sizes = BlockSizes::coded(sizes);
        }
        let columns = &mut status.columns;
        columns.rows.take_if(|_| lacks(ROWS));
        columns.memory_bytes.take_if(|_| lacks(MEMORY));
        columns.segments.take_if(|_| lacks(SEGMENTS));
        columns.checksums.take_if(|_| lacks(CHECKSUMS));
    }
}
