//! A straightforward port of a spill: every partition gets a codec state of its own, a zeroed block of
//! the configured size, its compression bound and a write buffer of 64 KiB.

use crate::Partition;
use datafusion_ifile::Codec;
use std::io::Write;

const CODEC_BUFFER: usize = 256 * 1024;
const WRITE_BUFFER: usize = 64 * 1024;

enum State {
    Snappy(Box<snap::raw::Encoder>),
    Lz4(lz4_flex::block::CompressTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

struct BlockStream<'a> {
    state: State,
    block: Vec<u8>,
    pending: usize,
    compressed: Vec<u8>,
    crc: crc32fast::Hasher,
    out: &'a mut Vec<u8>,
}

impl<'a> BlockStream<'a> {
    fn new(codec: Codec, out: &'a mut Vec<u8>) -> Self {
        let (state, bound) = match codec {
            Codec::Snappy => {
                let bound = snap::raw::max_compress_len(CODEC_BUFFER);
                (State::Snappy(Box::new(snap::raw::Encoder::new())), bound)
            }
            Codec::Lz4 => {
                let bound = lz4_flex::block::get_maximum_output_size(CODEC_BUFFER);
                (State::Lz4(lz4_flex::block::CompressTable::large()), bound)
            }
            _ => {
                let bound = zstd::zstd_safe::compress_bound(CODEC_BUFFER);
                (State::Zstd(zstd::bulk::Compressor::new(1).unwrap()), bound)
            }
        };
        let (block, compressed) = (zeroed(CODEC_BUFFER), zeroed(bound));
        Self { state, block, pending: 0, compressed, crc: crc32fast::Hasher::new(), out }
    }

    fn emit(&mut self) {
        let raw = &self.block[..self.pending];
        let len = match &mut self.state {
            State::Snappy(encoder) => encoder.compress(raw, &mut self.compressed).unwrap(),
            State::Lz4(table) => {
                lz4_flex::block::compress_into_with_table(raw, &mut self.compressed, table).unwrap()
            }
            State::Zstd(compressor) => {
                compressor.compress_to_buffer(raw, &mut self.compressed[..]).unwrap()
            }
        };
        if !matches!(self.state, State::Zstd(_)) {
            for field in [self.pending, len] {
                let field = i32::try_from(field).unwrap().to_be_bytes();
                self.crc.update(&field);
                self.out.extend_from_slice(&field);
            }
        }
        self.crc.update(&self.compressed[..len]);
        self.out.extend_from_slice(&self.compressed[..len]);
        self.pending = 0;
    }
}

impl Write for BlockStream<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let mut rest = data;
        while !rest.is_empty() {
            if self.pending == self.block.len() {
                self.emit();
            }
            let len = rest.len().min(self.block.len() - self.pending);
            self.block[self.pending..self.pending + len].copy_from_slice(&rest[..len]);
            self.pending += len;
            rest = &rest[len..];
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.pending > 0 {
            self.emit();
        }
        Ok(())
    }
}

/// Memory that has been written to: what "a new zeroed array" costs where the allocator has no pages
/// that happen to be zero.
fn zeroed(len: usize) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(len);
    buffer.resize(len, std::hint::black_box(0));
    buffer
}

/// Writes all partitions.
pub(crate) fn spill(partitions: &[Partition], codec: Codec, data: &mut Vec<u8>) {
    data.clear();
    for partition in partitions {
        data.extend_from_slice(b"TIF\x01");
        let mut stream = BlockStream::new(codec, &mut *data);
        let mut buffer = std::io::BufWriter::with_capacity(WRITE_BUFFER, &mut stream);
        for (key, value) in partition.keys.iter().zip(&partition.values) {
            let lens = [key.len(), value.len()].map(|len| u8::try_from(len).unwrap());
            buffer.write_all(&lens).unwrap();
            buffer.write_all(key).unwrap();
            buffer.write_all(value).unwrap();
        }
        buffer.write_all(&[0xff, 0xff]).unwrap();
        buffer.flush().unwrap();
        drop(buffer);
        let crc = stream.crc.finalize().to_be_bytes();
        data.extend_from_slice(&crc);
    }
}
