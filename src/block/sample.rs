//! Whether a codec would shrink some bytes, judged by counting in a sample.

use super::word::LANE;

/// Judges buffers for one codec.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sampler {
    mode: Mode,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No codec: where bytes go does not matter.
    #[default]
    Off,
    /// Only repeated sequences shrink.
    Matches,
    /// Skewed bytes shrink as well.
    Entropy,
}

/// Buffers below this length always go through the codec: a sample would say little.
const SMALL: usize = 512;
/// Most bytes looked at, and least: an eighth of them.
const SAMPLE: usize = 1024;
const LEAST_SAMPLE: usize = 256;
const SAMPLE_PART: usize = 8;

impl Sampler {
    pub(crate) fn new(codec: crate::codec::Codec) -> Self {
        use crate::codec::Codec;
        let mode = match codec {
            Codec::None => Mode::Off,
            Codec::Snappy | Codec::Lz4 => Mode::Matches,
            Codec::Zstd { .. } | Codec::Deflate { .. } => Mode::Entropy,
        };
        Self { mode }
    }

    /// Whether the codec is likely to shrink `bytes`.
    pub(crate) fn pays(self, bytes: &[u8]) -> bool {
        let middle = (bytes.len() / 2).saturating_sub(SAMPLE / 2);
        let sample =
            || bytes.get(middle..).map_or(bytes, |tail| tail.get(..SAMPLE).unwrap_or(tail));
        self.mode == Mode::Off || bytes.len() < SMALL || self.shrinks(sample())
    }

    /// The same of `len` bytes that are not written yet: `fill` writes some from their middle.
    pub(crate) fn pays_by_sample(self, len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if self.mode == Mode::Off || len < SMALL {
            return true;
        }
        let mut sample = [0; SAMPLE];
        let sample = sample.get_mut(..sample_len(len)).unwrap_or_default();
        fill(sample);
        self.shrinks(sample)
    }

    fn shrinks(self, sample: &[u8]) -> bool {
        let repeats = || matched(sample) * 16 > sample.len();
        match self.mode {
            Mode::Off => true,
            Mode::Matches => repeats(),
            Mode::Entropy => repeats() || skewed(sample),
        }
    }

    /// Whether the bytes of these offsets are worth separating: some of their planes shrink, and others do not.
    pub(crate) fn separates(self, offsets: [[u8; 8]; LANE]) -> bool {
        if self.mode == Mode::Off {
            return false;
        }
        let mut even = 0;
        let mut uneven = 0;
        for plane in 0..8 {
            let mut counts = [0u8; 256];
            for offset in &offsets {
                let byte = offset.get(plane).copied().unwrap_or(0);
                if let Some(count) = counts.get_mut(usize::from(byte)) {
                    *count += 1;
                }
            }
            let pairs: u32 =
                counts.iter().map(|c| u32::from(*c) * u32::from(c.saturating_sub(1))).sum();
            // All the same gives 64 * 63 pairs, random bytes about 16.
            match pairs {
                4032 => {}
                400.. => uneven += 1,
                _ => even += 1,
            }
        }
        uneven > 0 && even > 0
    }
}

fn sample_len(bytes: usize) -> usize {
    (bytes / SAMPLE_PART).clamp(LEAST_SAMPLE, SAMPLE)
}

/// Positions of `sample` whose four bytes occurred before in it.
fn matched(sample: &[u8]) -> usize {
    let mut last = [u32::MAX; 512];
    let mut found = 0;
    for four in sample.windows(4) {
        let &[a, b, c, d] = four else { continue };
        let gram = u32::from_le_bytes([a, b, c, d]);
        let slot = usize::try_from(gram.wrapping_mul(0x9e37_79b1) >> 23).unwrap_or(0);
        if let Some(seen) = last.get_mut(slot) {
            found += usize::from(*seen == gram);
            *seen = gram;
        }
    }
    found
}

/// Whether bytes are so uneven that an entropy coder saves about a sixteenth.
fn skewed(sample: &[u8]) -> bool {
    let mut counts = [0u32; 256];
    for byte in sample {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let pairs: u64 = counts.iter().map(|c| u64::from(*c) * u64::from(*c)).sum();
    let n = sample.len() as u64;
    // Even bytes give n^2 / 256 + n; half a bit less per byte is sqrt(2) times as much.
    pairs * 256 > n * n * 14 / 10 + n * 256
}
