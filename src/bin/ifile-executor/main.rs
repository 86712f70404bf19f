//! An executor of Ballista that runs its hash shuffles on map outputs of this crate.
//!
//! It takes the flags of `ballista-executor` and these of its own:
//!
//! | flag | meaning |
//! |---|---|
//! | `--ifile KEY=VALUE` | an option of [`IFileOptions`], several times, as `--ifile codec=zstd:1` |
//! | `--ifile-fsync` | synchronizes map outputs before they count as written |
//!
//! Scheduler and clients are those of Ballista 55.0.0. All executors of a cluster have to be this one.

mod logs;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::error::{BallistaError, Result};
use ballista_core::object_store::{runtime_env_with_s3_support, session_config_with_s3_support};
use ballista_executor::config::Config;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::spawn_health_server;
use clap::Parser;
use datafusion::config::ExtensionOptions;
use datafusion_ifile::IFileOptions;
use datafusion_ifile::ballista::IFileExecutionEngine;

/// The allocator of Ballista's executor.
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An executor of Ballista that runs its hash shuffles on map outputs of datafusion-ifile.
#[derive(Parser)]
#[command(name = "ifile-executor", version, about)]
struct Args {
    #[command(flatten)]
    stock: Config,
    /// An option of the map outputs, as `codec=zstd:1`; may be given several times.
    #[arg(long = "ifile", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Synchronizes map outputs before they count as written.
    #[arg(long)]
    ifile_fsync: bool,
}

fn options(pairs: &[String]) -> Result<IFileOptions> {
    let mut options = IFileOptions::default();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            let message = format!("--ifile: expected KEY=VALUE, found {pair}");
            return Err(BallistaError::Configuration(message));
        };
        options
            .set(key.trim(), value.trim())
            .map_err(|error| BallistaError::Configuration(format!("--ifile {pair}: {error}")))?;
    }
    Ok(options)
}

async fn run(args: Args) -> Result<()> {
    let options = options(&args.options)?;
    let health_address = format!("{}:{}", args.stock.bind_host, args.stock.bind_health_port);
    let health_address: SocketAddr = health_address.parse().map_err(|error| {
        let message = format!("--bind-health-port: {health_address}: {error}");
        BallistaError::Configuration(message)
    })?;
    let mut config: ExecutorProcessConfig = args.stock.try_into()?;
    logs::begin(&config)?;
    let ttl = Duration::from_secs(config.client_ttl);
    let engine = IFileExecutionEngine::new(options, ttl).with_fsync(args.ifile_fsync);
    config.override_execution_engine = Some(Arc::new(engine));
    config.override_config_producer = Some(Arc::new(session_config_with_s3_support));
    config.override_runtime_producer = Some(Arc::new(runtime_env_with_s3_support));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let health = spawn_health_server(health_address, config.health.clone(), stopped);
    let ended = start_executor_process(Arc::new(config)).await;
    // It may have ended by itself.
    let _ = stop.send(());
    if let Err(error) = health.await {
        log::warn!("the health server failed: {error}");
    }
    ended
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(BallistaError::IoError(error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ifile-executor: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_of_ballista_and_ours_do_not_collide() {
        Args::command().debug_assert();
    }

    #[test]
    fn options_are_checked() {
        let parsed = options(&["codec=zstd:3".to_owned(), "memory_share = 0.25".to_owned()]);
        let parsed = parsed.unwrap();
        assert_eq!((parsed.codec.to_string().as_str(), parsed.memory_share), ("zstd:3", 0.25));
        for (pair, part) in [("codec", "KEY=VALUE"), ("codec=fast", "codec"), ("x=1", "x")] {
            let error = options(&[pair.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
