//! `codec[:level]`.

use super::Codec;
use crate::error::{IFileError, Result};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

const SETTING: &str = "codec";
const DEFLATE_LEVELS: RangeInclusive<u32> = 0..=9;

fn zstd_levels() -> RangeInclusive<i32> {
    zstd::compression_level_range()
}

/// The forms that [`Codec::from_str`] takes, for messages.
fn forms() -> String {
    let levels = zstd_levels();
    let deflate = if cfg!(feature = "deflate") { ", deflate, deflate:LEVEL (0 to 9)" } else { "" };
    format!("none, snappy, lz4, zstd, zstd:LEVEL ({} to {}){deflate}", levels.start(), levels.end())
}

fn error(expected: String, found: &str) -> IFileError {
    IFileError::Config { setting: SETTING, expected, found: format!("{found:?}") }
}

pub(super) fn validate(codec: Codec) -> Result<()> {
    match codec {
        Codec::None | Codec::Snappy | Codec::Lz4 => Ok(()),
        Codec::Zstd { level } if zstd_levels().contains(&level) => Ok(()),
        Codec::Deflate { level } if DEFLATE_LEVELS.contains(&level) => {
            if cfg!(feature = "deflate") {
                return Ok(());
            }
            Err(IFileError::Unsupported {
                what: "codec deflate".into(),
                reason: "this build does not have the feature `deflate`".into(),
            })
        }
        Codec::Zstd { .. } | Codec::Deflate { .. } => Err(error(forms(), &codec.to_string())),
    }
}

impl FromStr for Codec {
    type Err = IFileError;

    /// Reads `codec[:level]`, in any case, spaces around either part ignored.
    fn from_str(text: &str) -> Result<Self> {
        let mut tokens = text.split(':').map(str::trim);
        let name = tokens.next().unwrap_or_default().to_ascii_lowercase();
        let level = tokens.next();
        if tokens.next().is_some() {
            return Err(error(format!("{}; at most one colon", forms()), text));
        }
        let codec = match (name.as_str(), level) {
            ("none", None) => Self::None,
            ("snappy", None) => Self::Snappy,
            ("lz4", None) => Self::Lz4,
            ("zstd", None) => Self::ZSTD,
            ("zstd", Some(level)) => {
                Self::Zstd { level: level.parse().map_err(|_| error(forms(), text))? }
            }
            ("deflate", None) => Self::DEFLATE,
            ("deflate", Some(level)) => {
                Self::Deflate { level: level.parse().map_err(|_| error(forms(), text))? }
            }
            ("none" | "snappy" | "lz4", Some(_)) => {
                return Err(error(format!("{name} without a level"), text));
            }
            _ => return Err(error(forms(), text)),
        };
        codec.validate()?;
        Ok(codec)
    }
}

impl fmt::Display for Codec {
    /// Writes what [`Codec::from_str`] reads back to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd { level } => write!(f, "zstd:{level}"),
            Self::Deflate { level } => write!(f, "deflate:{level}"),
            other => f.write_str(other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_case_is_ignored() {
        for (text, codec) in [
            ("none", Codec::None),
            ("  Snappy\t", Codec::Snappy),
            ("LZ4", Codec::Lz4),
            ("zstd", Codec::ZSTD),
            (" ZStd : 7 ", Codec::Zstd { level: 7 }),
            ("zstd:-5", Codec::Zstd { level: -5 }),
            ("zstd:22", Codec::Zstd { level: 22 }),
        ] {
            assert_eq!(text.parse::<Codec>().unwrap(), codec, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_forms_there_are() {
        for text in [
            "",
            ":",
            "gzip",
            "lz4:",
            "lz4:1",
            "snappy:0",
            "none:0",
            "zstd:",
            "zstd:x",
            "zstd:23",
            "zstd:1:2",
            "zstd:-131073",
            "zstd:99999999999",
            "lz 4",
        ] {
            let error = text.parse::<Codec>().unwrap_err();
            let IFileError::Config { setting, expected, found } = &error else {
                panic!("{text}: {error}");
            };
            assert_eq!((*setting, found.as_str()), ("codec", format!("{text:?}").as_str()));
            assert!(expected.contains("zstd:LEVEL") || expected.contains("without a level"));
        }
    }

    #[test]
    fn display_round_trips() {
        for codec in [
            Codec::None,
            Codec::Snappy,
            Codec::Lz4,
            Codec::ZSTD,
            Codec::Zstd { level: -131_072 },
            Codec::Zstd { level: 22 },
        ] {
            assert_eq!(codec.to_string().parse::<Codec>().unwrap(), codec);
        }
    }

    #[test]
    fn wire_ids_are_frozen() {
        for (id, codec) in [
            (0, Codec::None),
            (1, Codec::Snappy),
            (2, Codec::Lz4),
            (3, Codec::ZSTD),
            (4, Codec::DEFLATE),
        ] {
            assert_eq!(codec.wire_id(), id);
            assert_eq!(Codec::from_wire_id(id).unwrap(), codec);
        }
        assert!(Codec::from_wire_id(5).is_err());
    }
}
