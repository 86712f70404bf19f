//! The corpus of the fuzz targets, replayed: as it is, and with bytes changed.

use crate::support::Noise;
use datafusion_ifile::codec::Codec;
use std::path::PathBuf;

#[path = "../fuzz/targets.rs"]
mod targets;

fn replay(name: &str, target: impl Fn(&[u8])) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{dir:?}: {error}")) {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        target(&data);
        let mut noise = Noise::new(u64::try_from(data.len()).unwrap());
        for _ in 0..200 {
            let mut changed = data.clone();
            for _ in 0..1 + noise.below(3) {
                let at = noise.below(changed.len());
                match noise.below(4) {
                    0 => changed.truncate(at),
                    1 => changed.insert(at.min(changed.len()), noise.next().to_be_bytes()[0]),
                    _ => {
                        if let Some(byte) = changed.get_mut(at) {
                            *byte ^= 1 << noise.below(8);
                        }
                    }
                }
            }
            target(&changed);
        }
        count += 1;
    }
    assert!(count > 4, "{name} has a corpus");
}

#[test]
fn segments() {
    replay("segment", targets::segment);
}

#[test]
fn indexes() {
    replay("index", targets::index);
}

#[test]
fn snappy() {
    replay("codec_snappy", |data| targets::codec(Codec::Snappy, data));
}

#[test]
fn lz4() {
    replay("codec_lz4", |data| targets::codec(Codec::Lz4, data));
}

#[test]
fn zstd() {
    replay("codec_zstd", |data| targets::codec(Codec::ZSTD, data));
}

#[test]
fn deflate() {
    replay("codec_deflate", |data| targets::codec(Codec::DEFLATE, data));
}
