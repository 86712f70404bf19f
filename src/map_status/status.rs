//! The status of one map output.

use std::fmt;
use std::sync::Arc;

use super::sizes::BlockSizes;
use crate::codec::Codec;
use crate::error::{Fault, IFileError, Place, Result};

/// Names one attempt at a map output; the data file and the index of a pair carry the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AttemptId(pub [u8; 16]);

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptId({self})")
    }
}

/// Where an output can be fetched. What the strings mean is the engine's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Location {
    /// The executor that wrote it.
    pub executor: Arc<str>,
    /// Its host.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// The data file, if a reader can open it.
    pub path: Arc<str>,
}

/// How rows are placed. The ids are part of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionFunction {
    /// DataFusion's `create_hashes` with the random state of its repartitioning, modulo the count.
    Hash,
    /// The row's ordinal in its input, plus the input's offset, modulo the count.
    RoundRobin,
    /// Ranges by split points.
    Range,
    /// Everything in one partition.
    Single,
}

impl PartitionFunction {
    /// Its id in bytes.
    #[must_use]
    pub const fn wire_id(self) -> u8 {
        match self {
            Self::Hash => 1,
            Self::RoundRobin => 2,
            Self::Range => 3,
            Self::Single => 4,
        }
    }

    /// The function of an id.
    ///
    /// # Errors
    /// [`Fault::UnknownTag`], without a place.
    pub fn from_wire_id(id: u8) -> Result<Self> {
        match id {
            1 => Ok(Self::Hash),
            2 => Ok(Self::RoundRobin),
            3 => Ok(Self::Range),
            4 => Ok(Self::Single),
            found => {
                let fault =
                    Fault::UnknownTag { what: "partition function", found: u64::from(found) };
                Err(IFileError::corrupt(fault, Place::default()))
            }
        }
    }
}

/// The partitioning of an output: two outputs fit the same reader where these are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The function.
    pub function: PartitionFunction,
    /// Its seed; for ranges a fingerprint of order and split points.
    pub seed: u64,
    /// Partitions.
    pub count: u32,
}

/// Exact numbers per partition that a status may carry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionColumns {
    /// Rows.
    pub rows: Option<Vec<u64>>,
    /// Bytes of the rows as Arrow arrays.
    pub memory_bytes: Option<Vec<u64>>,
    /// Segments.
    pub segments: Option<Vec<u32>>,
    /// CRC-32 of the partition's stored bytes.
    pub checksums: Option<Vec<u32>>,
}

/// What a map task tells about its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapStatus {
    /// The map task.
    pub map_id: u64,
    /// Its attempt.
    pub attempt: u32,
    /// The id in the files, where there are files.
    pub attempt_id: Option<AttemptId>,
    /// Grows with each change of the shuffle's outputs.
    pub epoch: u64,
    /// Where it is.
    pub location: Location,
    /// Version of the index layout, see [`IndexLayout`](crate::map_output::IndexLayout::wire_id).
    pub layout: u8,
    /// Codec of the blocks.
    pub codec: Codec,
    /// See [`schema_fingerprint`](crate::block::schema_fingerprint).
    pub schema_fingerprint: u64,
    /// How rows were placed.
    pub placement: Placement,
    /// Length of the data file, where it is told.
    pub data_length: Option<u64>,
    /// Whether each segment is sorted by the plan's order.
    pub sorted: bool,
    /// Stored bytes per partition.
    pub sizes: BlockSizes,
    /// More numbers per partition.
    pub columns: PartitionColumns,
}

impl MapStatus {
    /// Partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.sizes.len()
    }

    /// Holds the lengths of all parts against each other.
    ///
    /// # Errors
    /// [`IFileError::Usage`].
    pub(super) fn check(&self) -> Result<()> {
        let partitions = self.sizes.len();
        let columns = &self.columns;
        let fits = |len: Option<usize>| len.is_none_or(|len| len == partitions);
        let fit = usize::try_from(self.placement.count) == Ok(partitions)
            && fits(columns.rows.as_ref().map(Vec::len))
            && fits(columns.memory_bytes.as_ref().map(Vec::len))
            && fits(columns.segments.as_ref().map(Vec::len))
            && fits(columns.checksums.as_ref().map(Vec::len));
        if fit {
            return Ok(());
        }
        Err(IFileError::Usage("a map status whose columns have different numbers of partitions"))
    }
}

/// The codec of an id at `place`.
pub(super) fn codec_at(id: u8, place: &Place) -> Result<Codec> {
    Codec::from_wire_id(id).map_err(|error| error.or_place(place))
}
