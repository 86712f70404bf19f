//! The crate's error: what went wrong, where, what was expected and what was found.
//!
//! Bytes that come from outside (files, sockets, other processes) never panic. They end in
//! [`IFileError::Corrupt`], which names the file, the partition and the byte offset, and carries a
//! [`Fault`] with the numbers that did not agree.

mod datafusion;
mod fault;

pub use fault::{Fault, LengthField};

use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

/// Result of everything in this crate that can fail.
pub type Result<T, E = IFileError> = std::result::Result<T, E>;

/// Where in the outside world a fault lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Name of the file, as the caller gave it.
    pub file: Option<Arc<str>>,
    /// Partition of the segment, where the caller knows it.
    pub partition: Option<u32>,
    /// Byte offset in the file. A fault inside a compressed body is placed at the first byte of the
    /// block that holds it, or as near as the codec tells.
    pub offset: u64,
}

impl Place {
    /// A place with nothing but an offset.
    pub fn at(offset: u64) -> Self {
        Self { offset, ..Self::default() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}, ")?;
        }
        if let Some(partition) = self.partition {
            write!(f, "partition {partition}, ")?;
        }
        write!(f, "offset {}", self.offset)
    }
}

/// A broken rule of a format, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// The rule that is broken, with the numbers that disagree.
    pub fault: Fault,
    /// Where.
    pub place: Place,
}

/// A map output that is missing, damaged, or not what the plan expects: its map task has to run again.
#[derive(Debug)]
pub struct LostOutput {
    /// The map task.
    pub map_id: u64,
    /// File, partition where the read was for one, and offset.
    pub place: Place,
    /// What is wrong.
    pub cause: Box<dyn std::error::Error + Send + Sync>,
}

/// Error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum IFileError {
    /// Bytes that were read break the format.
    Corrupt(Box<Corruption>),
    /// The operating system, or the stream underneath, failed.
    Io {
        /// What was being done, as a verb phrase: `"read segment"`.
        action: &'static str,
        /// Where.
        place: Place,
        /// The original error.
        source: io::Error,
    },
    /// A setting has a value it cannot take.
    Config {
        /// Name of the setting.
        setting: &'static str,
        /// What it can be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Something that would be right, but that this crate (or this build of it) does not do.
    Unsupported {
        /// The thing.
        what: String,
        /// Why not, or what to do instead.
        reason: String,
    },
    /// A call that its object cannot serve in its present state; a fault of the caller.
    Usage(&'static str),
    /// A codec failed to compress, which is never the fault of the data.
    Compress {
        /// Name of the codec.
        codec: &'static str,
        /// What the codec says.
        detail: String,
    },
    /// A map output cannot be read.
    LostOutput(Box<LostOutput>),
}

impl IFileError {
    /// A fault at a place.
    pub fn corrupt(fault: Fault, place: Place) -> Self {
        Self::Corrupt(Box::new(Corruption { fault, place }))
    }

    /// The same error at `place`, if it has come from a codec that does not know its place.
    #[must_use]
    pub fn or_place(mut self, place: &Place) -> Self {
        if let Self::Corrupt(corruption) = &mut self
            && corruption.place == Place::default()
        {
            corruption.place = place.clone();
        }
        self
    }

    /// The fault, where bytes are to blame.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Corrupt(corruption) => Some(&corruption.fault),
            Self::LostOutput(lost) => lost.cause.downcast_ref::<Self>().and_then(Self::fault),
            _ => None,
        }
    }

    /// Whether this process is to blame, whatever it reads or writes: the system is out of descriptors or memory, or a call
    /// was invalid.
    pub(crate) fn is_ours(&self) -> bool {
        let lacks = |source: &io::Error| {
            let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
            source.kind() == io::ErrorKind::OutOfMemory
                || lacking.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
        };
        match self {
            Self::Usage(_) => true,
            Self::Io { source, .. } => {
                let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
                inner.map_or_else(|| lacks(source), Self::is_ours)
            }
            _ => false,
        }
    }

    /// The innermost error if this process is to blame for it.
    ///
    /// # Errors
    /// The error as it is, if not.
    pub(crate) fn into_ours(self) -> Result<Self> {
        match self {
            error if !error.is_ours() => Err(error),
            Self::Io { action, place, source } => match source.downcast::<Self>() {
                Ok(inner) => inner.into_ours(),
                Err(source) => Ok(Self::Io { action, place, source }),
            },
            error => Ok(error),
        }
    }

    /// The place, where the error has one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Corrupt(corruption) => Some(&corruption.place),
            Self::Io { place, .. } => Some(place),
            Self::LostOutput(lost) => Some(&lost.place),
            _ => None,
        }
    }
}

impl fmt::Display for IFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(corruption) => {
                write!(f, "corrupt data ({}): {}", corruption.place, corruption.fault)
            }
            Self::Io { action, place, source } => write!(f, "cannot {action} ({place}): {source}"),
            Self::Config { setting, expected, found } => {
                write!(f, "invalid value for {setting}: expected {expected}, found {found}")
            }
            Self::Unsupported { what, reason } => write!(f, "unsupported: {what}: {reason}"),
            Self::Usage(what) => write!(f, "invalid call: {what}"),
            Self::Compress { codec, detail } => write!(f, "{codec} cannot compress: {detail}"),
            Self::LostOutput(lost) => write!(
                f,
                "output of map task {} is lost ({}): {}",
                lost.map_id, lost.place, lost.cause
            ),
        }
    }
}

impl std::error::Error for IFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::LostOutput(lost) => Some(lost.cause.as_ref()),
            _ => None,
        }
    }
}
