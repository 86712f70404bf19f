//! What the tests share: records, writers, readers, sinks.

use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::Result;
use datafusion_ifile::ifile::{
    Lengths, RawBound, ReadOptions, SegmentOptions, SegmentReader, SegmentSlice, SegmentSummary,
    SegmentWriter, WriteScratch,
};
use std::io::{Cursor, Write};

pub(crate) type Record = (Vec<u8>, Vec<u8>);

pub(crate) const CODECS: [Codec; 5] =
    [Codec::None, Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::DEFLATE];

pub(crate) fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap()
}

/// A generator of bytes that no codec shrinks.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_be_bytes()[0]).collect()
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % limit.max(1)
    }
}

/// Records whose values shrink to about a half.
pub(crate) fn records(count: usize, value_len: usize, seed: u64) -> Vec<Record> {
    let mut noise = Noise::new(seed);
    (0..count)
        .map(|row| {
            let mut value = noise.bytes(value_len);
            value[value_len / 2..].fill(7);
            (to_u64(row).to_be_bytes().to_vec(), value)
        })
        .collect()
}

/// Words of a small vocabulary, the first ones more often: bytes in which a codec has many matches to
/// choose from, so that another table or other hashes give another choice.
pub(crate) fn words(len: usize, seed: u64) -> Vec<u8> {
    let mut noise = Noise::new(seed);
    let vocabulary: Vec<Vec<u8>> = (0..3_000).map(|n| noise.bytes(3 + n % 11)).collect();
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        let word = noise.below(3_000).min(noise.below(3_000));
        text.extend_from_slice(&vocabulary[word]);
    }
    text.truncate(len);
    text
}

/// Records that make a raw stream of `raw` bytes, its end-of-stream markers included, of noise.
pub(crate) fn noise_of(raw: usize, seed: u64) -> Vec<Record> {
    // Markers and the vints of an empty key and a value: 2 + 1 + 1, 2, 3 or 4.
    let value = [1, 2, 3, 4]
        .into_iter()
        .filter_map(|vint| Some((raw.checked_sub(3 + vint)?, vint)))
        .find(|(len, vint)| {
            let need = match len {
                0..=127 => 1,
                128..=255 => 2,
                256..=65_535 => 3,
                _ => 4,
            };
            need == *vint
        });
    let Some((len, _)) = value else {
        // A length between two widths of its vint: one more record takes up the difference.
        let mut records = noise_of(raw - 2, seed);
        records.push((vec![], vec![]));
        return records;
    };
    vec![(vec![], Noise::new(seed).bytes(len))]
}

pub(crate) fn append_all<W: Write>(
    writer: &mut SegmentWriter<'_, W>,
    records: &[Record],
) -> Result<()> {
    records.iter().try_for_each(|(key, value)| writer.append(key, value))
}

pub(crate) fn write_with(
    records: &[Record],
    scratch: &mut WriteScratch,
    bound: RawBound,
) -> (Sink, SegmentSummary) {
    let mut sink = Sink::default();
    let mut writer = SegmentWriter::new(&mut sink, scratch, bound).unwrap();
    append_all(&mut writer, records).unwrap();
    let summary = writer.finish().unwrap();
    assert_eq!(summary.part_length, to_u64(sink.bytes.len()));
    (sink, summary)
}

pub(crate) fn write(records: &[Record], options: SegmentOptions) -> (Vec<u8>, SegmentSummary) {
    let mut scratch = WriteScratch::new(options).unwrap();
    let (sink, summary) = write_with(records, &mut scratch, RawBound::UNKNOWN);
    (sink.bytes, summary)
}

/// Drains any of the readers.
macro_rules! drain {
    ($reader:expr) => {{
        let mut reader = $reader;
        let mut records: Vec<crate::support::Record> = vec![];
        loop {
            match reader.next_record() {
                Ok(Some(record)) => records.push((record.key.to_vec(), record.value.to_vec())),
                Ok(None) => break Ok(records),
                Err(error) => break Err(error),
            }
        }
    }};
}

pub(crate) use drain;

/// The ways to read a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Memory,
    Streaming,
    Verified,
    Spooled,
}

pub(crate) const WAYS: [Way; 4] = [Way::Memory, Way::Streaming, Way::Verified, Way::Spooled];

pub(crate) fn read(
    way: Way,
    bytes: &[u8],
    lengths: Lengths,
    options: ReadOptions,
) -> Result<Vec<Record>> {
    match way {
        Way::Memory => drain!(SegmentSlice::open(bytes, lengths, options)?),
        Way::Streaming => drain!(SegmentReader::self_checked(bytes, lengths, options)?),
        Way::Verified => drain!(SegmentReader::verified(Cursor::new(bytes), lengths, options)?),
        Way::Spooled => drain!(SegmentReader::spooled(bytes, lengths, options)?),
    }
}

/// A sink that remembers the sizes of its writes, and fails after some.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) bytes: Vec<u8>,
    pub(crate) writes: Vec<usize>,
    pub(crate) fail_at: Option<usize>,
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if self.fail_at == Some(self.writes.len()) {
            return Err(std::io::Error::other("disk is full"));
        }
        self.bytes.extend_from_slice(data);
        self.writes.push(data.len());
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A source that gives a byte or a few at a time.
pub(crate) struct Trickle<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) step: usize,
}

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.step.min(buffer.len()).min(self.bytes.len());
        let (head, tail) = self.bytes.split_at(len);
        buffer[..len].copy_from_slice(head);
        self.bytes = tail;
        Ok(len)
    }
}
