//! Connections to executors, kept for the next fetch.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use parking_lot::Mutex;

/// An executor's host and port, and how its connections are configured.
pub(super) type Key = (String, u16, GrpcClientConfig);

/// An idle client, and since when.
type Idle = HashMap<Key, Vec<(BallistaClient, Instant)>>;

/// A pool of Ballista's clients, for the stages that Ballista's own readers read.
///
/// A client that is given back waits for the next one who asks for the same executor and configuration. Those that
/// nobody asked for in a while are closed when another is asked for or given back.
pub struct ClientPool {
    idle: Arc<Mutex<Idle>>,
    ttl: Duration,
}

impl fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientPool").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl ClientPool {
    /// A pool that closes connections which nobody used for `ttl`; none is kept if that is zero.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self { idle: Arc::default(), ttl }
    }

    /// Clients that wait.
    #[must_use]
    pub fn idle_clients(&self) -> usize {
        self.idle.lock().values().map(Vec::len).sum()
    }
}

fn evict(idle: &mut Idle, ttl: Duration) {
    idle.retain(|_, clients| {
        clients.retain(|(_, since)| since.elapsed() < ttl);
        !clients.is_empty()
    });
}

fn give_back(idle: &Weak<Mutex<Idle>>, ttl: Duration, key: Key, client: BallistaClient) {
    let Some(idle) = idle.upgrade().filter(|_| !ttl.is_zero()) else { return };
    let mut idle = idle.lock();
    evict(&mut idle, ttl);
    idle.entry(key).or_default().push((client, Instant::now()));
}

#[async_trait]
impl BallistaClientPool for ClientPool {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize_endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        let key: Key = (host.to_owned(), port, config.clone());
        let waiting = {
            let mut idle = self.idle.lock();
            evict(&mut idle, self.ttl);
            idle.get_mut(&key).and_then(Vec::pop)
        };
        let client = match waiting {
            Some((client, _)) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize_endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let (idle, ttl) = (Arc::downgrade(&self.idle), self.ttl);
        Ok(PooledClient::new(client, Box::new(move |client| give_back(&idle, ttl, key, client))))
    }

    async fn evict_idle(&self) {
        evict(&mut self.idle.lock(), self.ttl);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> Key {
        let config = GrpcClientConfig::from(&ballista_core::config::BallistaConfig::default());
        ("localhost".to_owned(), port, config)
    }

    async fn acquire(pool: &ClientPool, port: u16) -> PooledClient {
        let (host, port, config) = key(port);
        pool.acquire(&host, port, &config, None).await.unwrap()
    }

    fn with_idle(ttl: Duration) -> ClientPool {
        let pool = ClientPool::new(ttl);
        let client = BallistaClient::new_for_test("localhost", 1);
        give_back(&Arc::downgrade(&pool.idle), ttl, key(1), client);
        pool
    }

    #[tokio::test]
    async fn a_client_comes_back_unless_it_is_discarded() {
        let pool = with_idle(Duration::from_secs(3600));
        assert_eq!(pool.idle_clients(), 1);
        let client = acquire(&pool, 1).await;
        assert_eq!(pool.idle_clients(), 0);
        drop(client);
        assert_eq!(pool.idle_clients(), 1);
        acquire(&pool, 1).await.discard();
        assert_eq!(pool.idle_clients(), 0);
    }

    #[tokio::test]
    async fn without_a_time_to_live_none_is_kept() {
        assert_eq!(with_idle(Duration::ZERO).idle_clients(), 0);
    }
}
