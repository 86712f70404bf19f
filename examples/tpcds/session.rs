//! A fresh session for one run: pool, spill directory, options and tables.

use std::sync::Arc;

use datafusion::config::ExtensionOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::{IFileOptions, SessionStateBuilderExt};

use crate::Result;
use crate::args::{Engine, JoinKind};
use crate::pool::PeakPool;
use crate::protocol::Request;
use crate::register::register_tables;

/// What every sort of the stock configuration sets aside per partition.
const STOCK_SORT_RESERVATION_BYTES: u64 = 10 * 1024 * 1024;
const SMALL_SORT_RESERVATION_BYTES: usize = 256 * 1024;

/// The sorts of a query may set aside this part of the limit before it counts as small.
const SMALL_LIMIT_PART: u64 = 8;

/// Opens the session that `request` asks for, with its tables registered.
///
/// # Errors
///
/// Fails when an option is refused, or when a table cannot be read.
pub(crate) async fn open(request: &Request) -> Result<(SessionContext, Arc<PeakPool>)> {
    let limit_bytes = request.limit.0.map(usize::try_from).transpose()?;
    let pool = Arc::new(PeakPool::new(request.pool, limit_bytes));
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![request.spill_dir.clone()]));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&pool) as _)
        .with_disk_manager_builder(disk)
        .build_arc()?;

    let mut config = SessionConfig::new()
        .with_target_partitions(usize::try_from(request.partitions)?)
        .with_information_schema(true);
    config.options_mut().optimizer.prefer_hash_join = request.join == JoinKind::Hash;
    if is_small(request.limit.0, request.partitions) {
        config = config.with_sort_spill_reservation_bytes(SMALL_SORT_RESERVATION_BYTES);
    }
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    let builder = match request.engine {
        Engine::Stock => builder,
        Engine::Ifile => with_ifile(builder, &request.codec)?,
    };
    let builder = with_options(builder, request)?;
    let context = SessionContext::new_with_state(builder.build());
    register_tables(&context, &request.tables).await?;
    Ok((context, pool))
}

fn with_ifile(builder: SessionStateBuilder, codec: &str) -> Result<SessionStateBuilder> {
    let mut builder = builder.with_ifile();
    let config = builder.config().get_or_insert_default();
    config.options_mut().set("ifile.codec", codec)?;
    Ok(builder)
}

/// Sets the options of `--set`; the stock exchange has none of ours.
fn with_options(
    mut builder: SessionStateBuilder,
    request: &Request,
) -> Result<SessionStateBuilder> {
    let config = builder.config().get_or_insert_default();
    for (name, value) in request.set.iter().filter_map(|option| option.split_once('=')) {
        if request.engine == Engine::Ifile || !name.starts_with("ifile.") {
            config.options_mut().set(name, value).map_err(|error| format!("--set: {error}"))?;
        }
    }
    Ok(builder)
}

/// Checks the value of `--codec`.
///
/// # Errors
///
/// Fails with the names of the codecs there are.
pub(crate) fn parse_codec(text: &str) -> std::result::Result<String, String> {
    let mut options = IFileOptions::default();
    options.set("codec", text).map_err(|error| error.strip_backtrace())?;
    Ok(options.codec.to_string())
}

/// Whether the sorts would fail first, whatever the exchange does.
fn is_small(limit_bytes: Option<u64>, partitions: u32) -> bool {
    let reserved = STOCK_SORT_RESERVATION_BYTES * u64::from(partitions);
    limit_bytes.is_some_and(|limit| limit < reserved * SMALL_LIMIT_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_small_when_sorts_would_take_an_eighth_of_it() {
        assert!(is_small(Some(256 << 20), 8));
        assert!(!is_small(Some(1 << 30), 8));
        assert!(is_small(Some(1 << 30), 64));
        assert!(!is_small(None, 1_000));
    }
}
