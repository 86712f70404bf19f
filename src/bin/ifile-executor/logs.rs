//! Logs, to the standard output or to files.

use ballista_core::config::LogRotationPolicy;
use ballista_core::error::{BallistaError, Result};
use ballista_executor::executor_process::ExecutorProcessConfig;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::EnvFilter;

/// Begins to log as `config` says; `RUST_LOG` goes before its filter.
pub(crate) fn begin(config: &ExecutorProcessConfig) -> Result<()> {
    let filter = std::env::var(EnvFilter::DEFAULT_ENV);
    let filter = filter.unwrap_or_else(|_| config.special_mod_log_level.clone());
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        BallistaError::Configuration(format!("--log-level-setting {filter}: {error}"))
    })?;
    let logs = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_thread_names(config.print_thread_info)
        .with_thread_ids(config.print_thread_info)
        .with_env_filter(filter);
    let begun = match &config.log_dir {
        None => logs.try_init(),
        Some(directory) => {
            let prefix = config.log_file_name_prefix();
            let files = RollingFileAppender::builder()
                .rotation(rotation(&config.log_rotation_policy))
                .filename_prefix(prefix)
                .build(directory)
                .map_err(|error| {
                    BallistaError::Configuration(format!("--log-dir {directory}: {error}"))
                })?;
            logs.with_writer(files).try_init()
        }
    };
    begun.map_err(|error| BallistaError::General(format!("cannot begin to log: {error}")))
}

fn rotation(policy: &LogRotationPolicy) -> Rotation {
    match policy {
        LogRotationPolicy::Minutely => Rotation::MINUTELY,
        LogRotationPolicy::Hourly => Rotation::HOURLY,
        LogRotationPolicy::Daily => Rotation::DAILY,
        LogRotationPolicy::Never => Rotation::NEVER,
    }
}
