//! Options of the exchange: the `ifile.*` keys of a session, parsed once into validated values.
//!
//! | key | values | default | meaning |
//! |---|---|---|---|
//! | `ifile.enabled` | `true`, `false` | `true` | whether the optimizer rule swaps exchanges |
//! | `ifile.codec` | `none`, `snappy`, `lz4`, `zstd[:level]` | `lz4` | codec of spilled blocks |
//! | `ifile.memory_share` | `0.01` to `1.0` | `0.5` | most an exchange may hold of a finite memory pool |
//! | `ifile.memory_headroom` | `0.0` to `0.9` | `0.2` | share of a finite pool that an exchange leaves to other operators |
//! | `ifile.block_bytes` | `64` to `64MB` | `1MB` | logical bytes of rows beyond which a block is split |
//! | `ifile.batch_bytes` | `64` to `1GB` | `128MB` | logical bytes beyond which an output batch ends early |
//! | `ifile.read_ahead_bytes` | `0` to `64MB` | `256KB` | stored bytes fetched ahead per output partition |
//! | `ifile.narrow_outputs` | `1` to `1000000` | `16` | outputs from which on staged rows are narrowed, memory to spare or not |
//! | `ifile.max_active_inputs` | `0` to `1000000` | `0` | inputs that an exchange reads at the same time; `0` is 64, or 8 for each core if that is more |
//! | `ifile.join_filter_partitions` | `0` to `1000000` | `64` | most partitions of a partitioned hash join that keeps its dynamic filter |
//! | `ifile.scratch_dirs` | `path[:limit[:priority]],...` | (empty) | directories for scratch files; without any, those of DataFusion's `DiskManager` |
//! | `ifile.scratch_limit` | bytes | `0` | most that a query holds in `scratch_dirs`; `0` is no limit |
//! | `ifile.punch_holes` | `true`, `false` | `true` | whether consumed parts of scratch files are given back to the file system at once |
//!
//! Byte values take a plain number or one of the suffixes `B`, `KB`, `MB`, `GB`, `TB` (powers of 1024).

mod scratch_dirs;

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, Result};

pub use self::scratch_dirs::{ScratchDir, ScratchDirs};
use crate::codec::Codec;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const BYTES_SUFFIXES: [(&str, u64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)];

/// Validated options of the exchange, a DataFusion [`ConfigExtension`] with prefix `ifile`.
///
/// A value is checked when it is set, so that a session never holds one that cannot run.
#[derive(Debug, Clone, PartialEq)]
pub struct IFileOptions {
    /// Whether [`ReplaceRepartition`](crate::ReplaceRepartition) swaps exchanges.
    pub enabled: bool,
    /// Codec of spilled blocks.
    pub codec: Codec,
    /// Share of a finite memory pool beyond which the exchange spills, in `(0, 1]`.
    pub memory_share: f64,
    /// Share of a finite memory pool that the exchange leaves free for other operators.
    pub memory_headroom: f64,
    /// Logical bytes of rows beyond which a block is split.
    pub block_bytes: usize,
    /// Bytes beyond which an output batch has fewer rows than the session's batch size.
    pub batch_bytes: usize,
    /// Stored bytes that a consumer fetches ahead of the batch it needs.
    pub read_ahead_bytes: usize,
    /// Output partitions from which on staged rows are narrowed, memory to spare or not.
    pub narrow_outputs: usize,
    /// Input partitions that an exchange reads at the same time, where those can be read one after
    /// another; 0 is 64, or 8 for each core if that is more.
    pub max_active_inputs: usize,
    /// Partitions up to which [`LimitJoinFilters`](crate::LimitJoinFilters) leaves a partitioned hash
    /// join its dynamic filter.
    pub join_filter_partitions: usize,
    /// Directories for scratch files. Without any they are DataFusion's.
    pub scratch_dirs: ScratchDirs,
    /// Bytes that the exchanges of one query may hold in `scratch_dirs`; 0 is no limit.
    pub scratch_limit: u64,
    /// Whether consumed parts of scratch files become holes, where the file system can.
    pub punch_holes: bool,
}

impl Default for IFileOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            codec: Codec::Lz4,
            memory_share: 0.5,
            memory_headroom: 0.2,
            block_bytes: MIB,
            batch_bytes: 128 * MIB,
            read_ahead_bytes: 256 * KIB,
            narrow_outputs: 16,
            max_active_inputs: 0,
            join_filter_partitions: 64,
            scratch_dirs: ScratchDirs::default(),
            scratch_limit: 0,
            punch_holes: true,
        }
    }
}

impl IFileOptions {
    /// The options of a session, or the defaults where the extension is not registered.
    pub fn from_config(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The options of a session in which the exchange is switched on.
    pub(crate) fn enabled_in(config: &ConfigOptions) -> Option<Self> {
        Some(Self::from_config(config)).filter(|options| options.enabled)
    }

    /// Input partitions that an exchange reads at the same time.
    pub(crate) fn active_inputs(&self) -> usize {
        match self.max_active_inputs {
            0 => (8 * std::thread::available_parallelism().map_or(1, usize::from)).max(64),
            count => count,
        }
    }

    /// Every key with its current value in the syntax that [`ExtensionOptions::set`] takes.
    pub fn to_pairs(&self) -> Vec<(&'static str, String)> {
        KEYS.iter().map(|key| (key.name, (key.get)(self))).collect()
    }
}

struct Key {
    name: &'static str,
    allowed: &'static str,
    description: &'static str,
    get: fn(&IFileOptions) -> String,
    set: fn(&mut IFileOptions, &str) -> Result<(), String>,
}

/// The key of an option of the same name, whose values `$parse` reads.
macro_rules! key {
    ($name:ident, $parse:expr, $allowed:literal, $description:literal) => {
        Key {
            name: stringify!($name),
            allowed: $allowed,
            description: $description,
            get: |options| options.$name.to_string(),
            set: |options, value| $parse(value).map(|parsed| options.$name = parsed),
        }
    };
}

const KEYS: [Key; 13] = [
    key!(
        enabled,
        parse,
        "true, false",
        "Whether RepartitionExec is replaced by IFileRepartitionExec"
    ),
    key!(codec, parse_codec, "none, snappy, lz4, zstd[:level]", "Codec of spilled blocks"),
    key!(
        memory_share,
        within(0.01, 1.0, parse),
        "a number from 0.01 to 1.0",
        "Share of a finite memory pool beyond which an exchange spills"
    ),
    key!(
        memory_headroom,
        within(0.0, 0.9, parse),
        "a number from 0.0 to 0.9",
        "Share of a finite memory pool that an exchange leaves to other operators"
    ),
    key!(
        block_bytes,
        within(64, 64 * MIB, parse_bytes),
        "64 to 64MB, as a number of bytes or with a suffix KB or MB",
        "Logical bytes of rows beyond which a spilled block is split"
    ),
    key!(
        batch_bytes,
        within(64, 1024 * MIB, parse_bytes),
        "64 to 1GB, as a number of bytes or with a suffix KB, MB or GB",
        "Bytes beyond which an output batch ends before the batch size"
    ),
    key!(
        read_ahead_bytes,
        within(0, 64 * MIB, parse_bytes),
        "0 to 64MB, as a number of bytes or with a suffix KB or MB",
        "Stored bytes fetched ahead of the batch that a consumer needs"
    ),
    key!(
        narrow_outputs,
        within(1, 1_000_000, parse),
        "1 to 1000000",
        "Output partitions from which on staged rows are narrowed"
    ),
    key!(
        max_active_inputs,
        within(0, 1_000_000, parse),
        "0 to 1000000",
        "Input partitions that an exchange reads at the same time; 0 is 64, or 8 for each core if that is more"
    ),
    key!(
        join_filter_partitions,
        within(0, 1_000_000, parse),
        "0 to 1000000",
        "Most partitions of a partitioned hash join that keeps its dynamic filter"
    ),
    key!(
        scratch_dirs,
        str::parse,
        "path[:limit[:priority]],... where the best priority is 0",
        "Directories for scratch files; without any, those of the DiskManager"
    ),
    key!(
        scratch_limit,
        parse_size,
        "a number of bytes or one with a suffix KB, MB, GB or TB",
        "Most bytes that a query holds in ifile.scratch_dirs; 0 is no limit"
    ),
    key!(
        punch_holes,
        parse,
        "true, false",
        "Whether consumed parts of scratch files are given back at once"
    ),
];

fn parse<T: FromStr>(value: &str) -> Result<T, String>
where
    T::Err: fmt::Display,
{
    value.trim().to_ascii_lowercase().parse().map_err(|error: T::Err| error.to_string())
}

fn parse_codec(value: &str) -> Result<Codec, String> {
    let codec = Codec::from_str(value).map_err(|error| error.to_string())?;
    match codec {
        Codec::None | Codec::Snappy | Codec::Lz4 | Codec::Zstd { .. } => Ok(codec),
        other => Err(format!("codec {other} serves the exchange of segments with Tez only")),
    }
}

/// Reads a value with `parse` and refuses those beyond `least..=most`.
fn within<T: PartialOrd>(
    least: T,
    most: T,
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<T, String> {
    move |value| {
        let parsed = parse(value)?;
        let fits = (&least..=&most).contains(&&parsed);
        if fits { Ok(parsed) } else { Err("out of range".to_owned()) }
    }
}

fn parse_bytes(value: &str) -> Result<usize, String> {
    usize::try_from(parse_size(value)?).map_err(|_| "out of range".to_owned())
}

fn parse_size(value: &str) -> Result<u64, String> {
    let text = value.trim().to_ascii_uppercase();
    let (digits, unit) = BYTES_SUFFIXES
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
        .unwrap_or((text.as_str(), 1));
    let count: u64 = digits.trim().parse().map_err(|_| "not a number of bytes".to_owned())?;
    count.checked_mul(unit).ok_or_else(|| "out of range".to_owned())
}

impl ConfigExtension for IFileOptions {
    const PREFIX: &'static str = "ifile";
}

impl ExtensionOptions for IFileOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let Some(known) = KEYS.iter().find(|known| known.name == key) else {
            let names: Vec<_> = KEYS.iter().map(|known| format!("ifile.{}", known.name)).collect();
            return Err(DataFusionError::Configuration(format!(
                "unknown option ifile.{key}; the options are {}",
                names.join(", ")
            )));
        };
        (known.set)(self, value).map_err(|reason| {
            DataFusionError::Configuration(format!(
                "invalid value '{value}' for ifile.{key}: {reason}; allowed: {}",
                known.allowed
            ))
        })
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        KEYS.iter()
            .map(|key| ConfigEntry {
                key: format!("{}.{}", Self::PREFIX, key.name),
                value: Some((key.get)(self)),
                description: key.description,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Result<IFileOptions> {
        let mut options = IFileOptions::default();
        options.set(key, value)?;
        Ok(options)
    }

    #[test]
    fn every_pair_sets_itself_again() {
        let changed = IFileOptions {
            enabled: false,
            codec: Codec::Zstd { level: 7 },
            memory_share: 0.25,
            memory_headroom: 0.0,
            block_bytes: 4096,
            batch_bytes: 8192,
            read_ahead_bytes: 0,
            narrow_outputs: 1,
            max_active_inputs: 8,
            join_filter_partitions: 0,
            scratch_dirs: "/a:1MB:2,/b".parse().unwrap(),
            scratch_limit: 1 << 30,
            punch_holes: false,
        };
        let mut copy = IFileOptions::default();
        for (key, value) in changed.to_pairs() {
            copy.set(key, &value).unwrap();
        }
        assert_eq!(copy, changed);
    }

    #[test]
    fn values_are_trimmed_and_take_suffixes() {
        assert_eq!(set("codec", " ZSTD:3 ").unwrap().codec, Codec::Zstd { level: 3 });
        assert_eq!(set("block_bytes", "128KB").unwrap().block_bytes, 128 * KIB);
        assert_eq!(set("read_ahead_bytes", "4096").unwrap().read_ahead_bytes, 4096);
        assert!(!set("enabled", "FALSE").unwrap().enabled);
    }

    #[test]
    fn a_refused_value_names_the_key_and_what_is_allowed() {
        for (key, value, allowed) in [
            ("enabled", "maybe", "true, false"),
            ("codec", "gzip", "none, snappy, lz4, zstd[:level]"),
            ("codec", "lz4:1:2", "none, snappy, lz4, zstd[:level]"),
            ("memory_share", "0", "0.01 to 1.0"),
            ("memory_share", "NaN", "0.01 to 1.0"),
            ("block_bytes", "63", "64 to 64MB"),
            ("read_ahead_bytes", "99999999999999999999GB", "0 to 64MB"),
            ("narrow_outputs", "0", "1 to 1000000"),
            ("max_active_inputs", "-1", "0 to 1000000"),
            ("join_filter_partitions", "1000001", "0 to 1000000"),
            ("scratch_dirs", "/a:1MB:2:3", "path[:limit[:priority]]"),
            ("scratch_limit", "much", "a number of bytes"),
            ("punch_holes", "perhaps", "true, false"),
        ] {
            let message = set(key, value).unwrap_err().to_string();
            assert!(message.contains(&format!("ifile.{key}")), "{message}");
            assert!(message.contains(allowed), "{message}");
        }
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let message = set("codecs", "lz4").unwrap_err().to_string();
        assert!(message.contains("ifile.codec") && message.contains("ifile.memory_share"));
    }
}
