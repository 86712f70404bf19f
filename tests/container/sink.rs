//! A sink that remembers the sizes of its writes.

use std::io::{Result, Write};

#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) bytes: Vec<u8>,
    pub(crate) writes: Vec<usize>,
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        self.bytes.extend_from_slice(data);
        self.writes.push(data.len());
        Ok(data.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
