//! Many small writes in, few large ones out.
//!
//! The buffer starts at [`WriteBuffer::START`] and doubles up to its maximum, 64 KiB for segments.
//! Growing moves what is pending and never drains it, so the writes downstream are the same as if the
//! buffer had been as large as its maximum from the start:
//!
//! - **B1** A write that fits behind what is pending (up to the maximum, inclusive) is kept.
//! - **B2** One that does not fit drains what is pending first, in one write.
//! - **B3** One as large as the maximum, or larger, is not copied: it goes downstream as it is.
//! - **B4** [`WriteBuffer::drain`] passes on what is pending in one write, nothing if nothing is.

use crate::error::{IFileError, Result};

/// Bytes that wait to be written downstream.
#[derive(Debug)]
pub struct WriteBuffer {
    bytes: Vec<u8>,
    max: usize,
    growths: u64,
}

impl WriteBuffer {
    /// Capacity of a buffer that nothing is known about.
    pub const START: usize = 4 * 1024;

    /// Capacity that a buffer grows to, unless told otherwise.
    pub const MAX: usize = 64 * 1024;

    /// A buffer that grows up to `max` bytes. Holds no memory yet.
    ///
    /// # Errors
    /// [`IFileError::Config`] for a maximum of 0.
    pub fn new(max: usize) -> Result<Self> {
        if max == 0 {
            return Err(IFileError::Config {
                setting: "write buffer",
                expected: "1 byte or more".into(),
                found: "0".into(),
            });
        }
        Ok(Self { bytes: Vec::new(), max, growths: 0 })
    }

    /// Makes room for `expected` bytes, or for the maximum if that is less. Not counted as a growth.
    pub fn size_for(&mut self, expected: usize) {
        let wanted = expected.min(self.max);
        if self.bytes.capacity() < wanted {
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }

    /// Bytes pending.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// How often the buffer was too small for what it got and grew.
    pub fn growths(&self) -> u64 {
        self.growths
    }

    /// Room for `len` more bytes without a drain, or `None`.
    #[inline]
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut Vec<u8>> {
        let end = self.bytes.len().saturating_add(len);
        if end > self.bytes.capacity() {
            if end > self.max {
                return None;
            }
            self.grow(end);
        }
        Some(&mut self.bytes)
    }

    /// Takes `data`; `downstream` gets what has to leave the buffer.
    ///
    /// # Errors
    /// Those of `downstream`.
    #[inline]
    pub fn write(
        &mut self,
        data: &[u8],
        downstream: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if data.len() < self.max
            && let Some(bytes) = self.room(data.len())
        {
            bytes.extend_from_slice(data);
            return Ok(());
        }
        self.write_slow(data, downstream)
    }

    #[cold]
    fn write_slow(
        &mut self,
        data: &[u8],
        downstream: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.drain(downstream)?;
        if data.len() >= self.max {
            return downstream(data);
        }
        if let Some(bytes) = self.room(data.len()) {
            bytes.extend_from_slice(data);
        }
        Ok(())
    }

    /// Passes on what is pending.
    ///
    /// # Errors
    /// Those of `downstream`; what was pending is then gone.
    pub fn drain(&mut self, downstream: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let result = downstream(&self.bytes);
        self.bytes.clear();
        result
    }

    /// What is pending, from `skip` on.
    pub(crate) fn body(&self, skip: usize) -> &[u8] {
        self.bytes.get(skip..).unwrap_or_default()
    }

    /// Forgets what is pending but for the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Appends a trailer to what is pending, beyond the maximum if the memory is there. `false` if
    /// nothing is pending, or the memory is not there; nothing has then happened.
    pub(crate) fn push_past_max(&mut self, trailer: &[u8]) -> bool {
        let end = self.bytes.len() + trailer.len();
        if self.bytes.is_empty() || (end > self.max && end > self.bytes.capacity()) {
            return false;
        }
        if end > self.bytes.capacity() {
            self.grow(end);
        }
        self.bytes.extend_from_slice(trailer);
        true
    }

    /// Forgets what is pending.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        let doubled = self.bytes.capacity().saturating_mul(2).max(Self::START);
        let capacity = doubled.max(end).min(self.max);
        self.growths += u64::from(self.bytes.capacity() > 0);
        self.bytes.reserve_exact(capacity - self.bytes.len());
    }
}
