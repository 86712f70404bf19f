//! Standard output, and how commands fail.

use datafusion_ifile::error::{IFileError, Place};
use serde_json::{Value, json};
use std::fmt;
use std::io::{BufWriter, StdoutLock, Write, stdout};

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The data is at fault.
    Data(IFileError),
    /// Nobody takes the output.
    Output(std::io::Error),
    /// A file cannot be read, an argument does not fit.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write output: {error}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<IFileError> for Failure {
    fn from(error: IFileError) -> Self {
        match error {
            IFileError::Corrupt(_) => Self::Data(error),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Buffered standard output.
pub(crate) struct Out {
    stdout: BufWriter<StdoutLock<'static>>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Self { stdout: BufWriter::with_capacity(64 * 1024, stdout().lock()) }
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.stdout, "{text}").map_err(Failure::Output)
    }

    /// Passes everything on.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(Failure::Output)
    }
}

/// A fault as JSON: what is wrong, and where.
pub(crate) fn fault_json(error: &IFileError) -> Value {
    let place = error.place().cloned().unwrap_or_else(Place::default);
    let what = error.fault().map_or_else(|| error.to_string(), ToString::to_string);
    json!({
        "file": place.file.as_deref(),
        "partition": place.partition,
        "offset": place.offset,
        "fault": what,
    })
}
