//! Zstandard contexts, both ways: whole buffers and streams.
//!
//! Frames carry neither their content size nor a checksum, as Hadoop's do not: the container has both.

use super::decompressor::refused;
use super::{Codec, to_u64};
use crate::error::{Fault, IFileError, Place, Result};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name,
};

/// Largest window a reader accepts unless told otherwise, as a power of two: what the library's own
/// stream decoder accepts (128 MiB).
pub const DEFAULT_WINDOW_LOG_MAX: u32 = 27;

/// Smallest window of the format.
pub const MIN_WINDOW_LOG: u32 = 10;

/// Largest window of the format on 64-bit machines.
pub const MAX_WINDOW_LOG: u32 = 31;

/// Levels that search rows of a hash table in the library's present version. A row search mixes a salt
/// into its hashes that moves on with every frame of a context, so that a used context gives other
/// bytes than a new one.
const ROW_SEARCH_LEVELS: std::ops::RangeInclusive<i32> = 4..=12;

/// Inputs up to this size are never searched by rows: their window is too small for it.
const ROW_SEARCH_ABOVE: usize = 1 << 14;

/// Source sizes up to which the library has parameters of their own.
const SIZE_CLASSES: [usize; 4] = [16 << 10, 128 << 10, 256 << 10, usize::MAX];

/// What a stream call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Bytes taken from the source.
    pub(crate) consumed: usize,
    /// Bytes put into the destination.
    pub(crate) written: usize,
    /// The frame (or stream) is complete.
    pub(crate) done: bool,
}

/// A compression context.
pub(crate) struct ZstdEncoder {
    context: CCtx<'static>,
    level: i32,
    /// The context has searched rows since it was made.
    salted: bool,
    peak_bytes: usize,
}

impl ZstdEncoder {
    pub(crate) fn new(level: i32) -> Result<Self> {
        Ok(Self { context: new_context(level)?, level, salted: false, peak_bytes: 0 })
    }

    /// Real size of the context, at its largest so far.
    pub(crate) fn state_bytes(&self) -> usize {
        self.peak_bytes.max(self.context.sizeof())
    }

    /// Opens a frame for each class of sizes up to `max_len`, so that the context takes the memory
    /// that any buffer of up to `max_len` bytes can ask for.
    pub(crate) fn prepare(&mut self, max_len: usize) -> Result<()> {
        for class in SIZE_CLASSES {
            let size = class.min(max_len);
            self.start_frame(size, None)?;
            self.context.set_pledged_src_size(Some(to_u64(size))).map_err(failed)?;
            self.open_frame()?;
            if size == max_len {
                break;
            }
        }
        Ok(())
    }

    /// As [`ZstdEncoder::prepare`], for streams with a window.
    pub(crate) fn prepare_stream(&mut self, window_log: u32) -> Result<()> {
        self.start_frame(usize::MAX, Some(window_log))?;
        self.open_frame()
    }

    fn open_frame(&mut self) -> Result<()> {
        let mut no_output = [];
        let mut output = OutBuffer::around(&mut no_output[..]);
        let mut input = InBuffer::around(&[]);
        let directive = ZSTD_EndDirective::ZSTD_e_continue;
        let opened = self.context.compress_stream2(&mut output, &mut input, directive);
        self.peak_bytes = self.state_bytes();
        opened.map_err(failed)?;
        self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        Ok(())
    }

    /// Compresses `src` to one frame at the front of `dst`.
    pub(crate) fn compress_block(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.start_frame(src.len(), None)?;
        let written = self.context.compress2(dst, src).map_err(failed);
        self.peak_bytes = self.state_bytes();
        written
    }

    /// Begins a frame of unknown length. Its window is at most `1 << window_log` bytes.
    pub(crate) fn start_stream(&mut self, window_log: u32) -> Result<()> {
        self.start_frame(usize::MAX, Some(window_log))
    }

    /// Takes as much of `src` and fills as much of `dst` as it can. With `end` the frame is closed;
    /// call again until it is done.
    pub(crate) fn stream(&mut self, src: &[u8], dst: &mut [u8], end: bool) -> Result<Step> {
        let directive =
            if end { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
        let mut input = InBuffer::around(src);
        let mut output = OutBuffer::around(dst);
        let left = self.context.compress_stream2(&mut output, &mut input, directive);
        let step =
            Step { consumed: input.pos(), written: output.pos(), done: end && left == Ok(0) };
        self.peak_bytes = self.state_bytes();
        left.map_err(failed)?;
        Ok(step)
    }

    fn start_frame(&mut self, len: usize, window_log: Option<u32>) -> Result<()> {
        let rows = ROW_SEARCH_LEVELS.contains(&self.level) && len > ROW_SEARCH_ABOVE;
        if rows && self.salted {
            self.context = new_context(self.level)?;
        }
        self.salted |= rows;
        self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        // 0 leaves the window to the level and the size of the source.
        let window = CParameter::WindowLog(window_log.unwrap_or(0));
        self.context.set_parameter(window).map_err(failed)?;
        Ok(())
    }
}

fn new_context(level: i32) -> Result<CCtx<'static>> {
    let mut context = CCtx::try_create().ok_or_else(|| IFileError::Compress {
        codec: Codec::ZSTD.name(),
        detail: "out of memory for a context".into(),
    })?;
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::ContentSizeFlag(false),
        CParameter::ChecksumFlag(false),
    ] {
        context.set_parameter(parameter).map_err(failed)?;
    }
    Ok(context)
}

/// A decompression context.
pub(crate) struct ZstdDecoder {
    context: DCtx<'static>,
    peak_bytes: usize,
}

impl ZstdDecoder {
    /// A context whose streams have windows of up to `1 << window_log_max` bytes.
    pub(crate) fn new(window_log_max: u32) -> Result<Self> {
        let config = |found: String| IFileError::Config {
            setting: "zstd window log limit",
            expected: format!("{MIN_WINDOW_LOG} to {MAX_WINDOW_LOG}"),
            found,
        };
        let mut context = DCtx::try_create()
            .ok_or_else(|| refused(Codec::ZSTD, "out of memory for a context".into()))?;
        context
            .set_parameter(DParameter::WindowLogMax(window_log_max))
            .map_err(|_| config(window_log_max.to_string()))?;
        Ok(Self { context, peak_bytes: 0 })
    }

    /// Real size of the context, at its largest so far.
    pub(crate) fn state_bytes(&self) -> usize {
        self.peak_bytes.max(self.context.sizeof())
    }

    /// Decodes all frames of `src` to the front of `dst`, which bounds the output; needs no window.
    pub(crate) fn decompress_block(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.context.reset(ResetDirective::SessionOnly).map_err(broken)?;
        let limit = dst.len();
        self.context.decompress(dst, src).map_err(|code| match get_error_name(code) {
            "Destination buffer is too small" => IFileError::corrupt(
                Fault::ChunkRawLength { limit: to_u64(limit), found: to_u64(limit) + 1 },
                Place::default(),
            ),
            detail => refused(Codec::ZSTD, detail.into()),
        })
    }

    /// Begins a frame.
    pub(crate) fn start_stream(&mut self) -> Result<()> {
        self.context.reset(ResetDirective::SessionOnly).map_err(broken)?;
        Ok(())
    }

    /// Takes as much of `src` and fills as much of `dst` as it can.
    pub(crate) fn stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Step> {
        let mut input = InBuffer::around(src);
        let mut output = OutBuffer::around(dst);
        let hint = self.context.decompress_stream(&mut output, &mut input);
        let step = Step { consumed: input.pos(), written: output.pos(), done: hint == Ok(0) };
        self.peak_bytes = self.state_bytes();
        hint.map_err(broken)?;
        Ok(step)
    }
}

fn failed(code: usize) -> IFileError {
    IFileError::Compress { codec: Codec::ZSTD.name(), detail: get_error_name(code).into() }
}

fn broken(code: usize) -> IFileError {
    refused(Codec::ZSTD, get_error_name(code).into())
}
