//! The processes of a cluster: the example is started again, with a role.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ballista_executor::config::Config;
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::spawn_health_server;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::{Parser, Subcommand, ValueEnum};
use datafusion_ifile::IFileOptions;
use datafusion_ifile::ballista::{ClientPool, IFileExecutionEngine};

use crate::Result;
use crate::counters::{Counters, CountingEngine, counting_service};

const CLIENT_TTL: Duration = Duration::from_secs(30);

/// Who runs the hash shuffles of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Ballista.
    Stock,
    /// This crate.
    Ifile,
}

/// What a process is.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// A scheduler of Ballista.
    Scheduler {
        #[arg(long)]
        port: u16,
        /// After how many seconds without a sign of life an executor is lost.
        #[arg(long)]
        patience: u64,
    },
    /// An executor, with the flags of Ballista's.
    Executor {
        #[arg(long)]
        engine: Engine,
        #[command(flatten)]
        config: Box<Flattened>,
    },
}

/// Ballista's flags.
#[derive(Debug, Parser)]
pub(crate) struct Flattened {
    #[command(flatten)]
    config: Config,
}

/// Is the process of `role` until it is killed.
pub(crate) async fn run(role: Role) -> Result<()> {
    match role {
        Role::Scheduler { port, patience } => scheduler(port, patience).await,
        Role::Executor { engine, config } => executor(engine, config.config).await,
    }
}

async fn scheduler(port: u16, patience: u64) -> Result<()> {
    let mut config = SchedulerConfig::default();
    config.bind_port = port;
    config.external_host = "127.0.0.1".to_owned();
    config.executor_timeout_seconds = patience;
    config.expire_dead_executor_interval_seconds = 1;
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let cluster = BallistaCluster::new_from_config(&config).await?;
    Ok(start_server(cluster, address, Arc::new(config)).await?)
}

async fn executor(engine: Engine, config: Config) -> Result<()> {
    let health: SocketAddr = format!("{}:{}", config.bind_host, config.bind_health_port).parse()?;
    let mut config: ExecutorProcessConfig = config.try_into()?;
    let inner: Arc<dyn ExecutionEngine> = match engine {
        Engine::Stock => {
            let pool = Arc::new(ClientPool::new(CLIENT_TTL));
            Arc::new(DefaultExecutionEngine::with_client_pool(pool))
        }
        Engine::Ifile => Arc::new(IFileExecutionEngine::new(IFileOptions::default(), CLIENT_TTL)),
    };
    let counters = Arc::new(Counters::default());
    let counting = CountingEngine { inner, counters: Arc::clone(&counters) };
    config.override_execution_engine = Some(Arc::new(counting));
    config.override_arrow_flight_service = Some(counting_service(counters));
    let (_stop, stopped) = tokio::sync::oneshot::channel();
    drop(spawn_health_server(health, config.health.clone(), stopped));
    Ok(start_executor_process(Arc::new(config)).await?)
}
