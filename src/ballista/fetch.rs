//! Fetches bytes of map outputs from the Flight services of executors.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use arrow_flight::flight_service_client::FlightServiceClient;
use ballista_core::serde::protobuf;
use ballista_core::serde::scheduler::{
    Action, ByteRange, PartitionLocation, ShuffleFileKind, ShuffleLayout,
};
use ballista_core::utils::create_grpc_client_endpoint;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::Channel;

use super::client_pool::Key;
use super::settings::FetchSettings;
use super::view::MAX_INDEX_BYTES;
use crate::codec::to_u64;
use crate::memory::{Ledger, Permit};

/// The action of Ballista's Flight service that gives the bytes of files.
const TRANSPORT: &str = "IO_BLOCK_TRANSPORT";

/// Room that is made at first for a transfer whose length is not known.
const FIRST_BYTES: u64 = 16 * 1024;

/// One connection per executor and configuration, shared by all transfers over it.
#[derive(Default)]
pub(super) struct Channels {
    open: Mutex<HashMap<Key, (Channel, Instant)>>,
    ttl: Duration,
}

impl Channels {
    /// Connections that nobody used for `ttl` are closed with the next use of another.
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, ..Self::default() }
    }

    /// A connection to the executor of `location`, made when it is first used, and anew where it is lost.
    fn get(
        &self,
        location: &PartitionLocation,
        settings: &FetchSettings,
    ) -> Result<Channel, Failed> {
        let executor = &location.executor_meta;
        let key = (executor.host.clone(), executor.port, settings.client.clone());
        let mut open = self.open.lock();
        open.retain(|other, (_, used)| *other == key || used.elapsed() < self.ttl);
        if let Some((channel, used)) = open.get_mut(&key) {
            *used = Instant::now();
            return Ok(channel.clone());
        }
        let client = &settings.client;
        let scheme = if client.use_tls { "https" } else { "http" };
        let address = format!("{scheme}://{}:{}", executor.host, executor.port);
        let refused = |error: &dyn fmt::Display| Failed::fatal(format!("{address}: {error}"));
        let endpoint = create_grpc_client_endpoint(address.clone(), None);
        let mut endpoint = endpoint
            .map_err(|error| refused(&error))?
            .connect_timeout(Duration::from_secs(client.connect_timeout_seconds.max(1)))
            .tcp_nodelay(true);
        if client.initial_connection_window_size > 0 {
            let window = Some(client.initial_connection_window_size);
            endpoint = endpoint.initial_connection_window_size(window);
        }
        if client.initial_stream_window_size > 0 {
            let window = Some(client.initial_stream_window_size);
            endpoint = endpoint.initial_stream_window_size(window);
        }
        if let Some(customize) = &settings.customize {
            endpoint = customize.configure_endpoint(endpoint).map_err(|error| refused(&error))?;
        }
        let channel = endpoint.connect_lazy();
        open.insert(key, (channel.clone(), Instant::now()));
        Ok(channel)
    }
}

/// Why a transfer failed.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) message: String,
    /// Whether another try may go better.
    again: bool,
    /// What the system of this process said, where that was the cause.
    pub(super) os_error: Option<i32>,
}

impl Failed {
    fn fatal(message: String) -> Self {
        Self { message, again: false, os_error: None }
    }

    fn again(message: String) -> Self {
        Self { message, again: true, os_error: None }
    }

    /// A server that answers knows what is wrong; a connection that breaks may be better the next time.
    pub(super) fn of_status(status: &tonic::Status) -> Self {
        use tonic::Code;
        let again = matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Aborted
        ) || status.code() == Code::DeadlineExceeded
            || status.code() == Code::ResourceExhausted
            || std::error::Error::source(status).is_some();
        let mut message = format!("{:?}: {}", status.code(), status.message());
        let mut os_error = None;
        let mut cause = std::error::Error::source(status);
        while let Some(error) = cause {
            os_error = error.downcast_ref().and_then(io::Error::raw_os_error).or(os_error);
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self { message, again, os_error }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failed {}

/// Metrics of fetches.
///
/// | name | meaning |
/// |---|---|
/// | `fetch_time` | time of all transfers, added up |
/// | `bytes_fetched` | bytes that have arrived |
/// | `fetch_requests`, `fetch_retries` | requests, and those of them after a transfer broke |
/// | `local_partitions`, `remote_partitions` | partitions of outputs read from files, and fetched |
#[derive(Debug, Clone)]
pub(super) struct FetchMetrics {
    time: Time,
    bytes: Count,
    requests: Count,
    retries: Count,
    pub(super) local: Count,
    pub(super) remote: Count,
}

impl FetchMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let build = || MetricBuilder::new(set);
        Self {
            time: build().subset_time("fetch_time", partition),
            bytes: build().counter("bytes_fetched", partition),
            requests: build().counter("fetch_requests", partition),
            retries: build().counter("fetch_retries", partition),
            local: build().counter("local_partitions", partition),
            remote: build().counter("remote_partitions", partition),
        }
    }
}

/// A part of a file of an output.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    kind: ShuffleFileKind,
    offset: u64,
    len: u64,
    /// Whether the file has all of it; else what it has is enough.
    exact: bool,
}

/// Bytes that have arrived, and what they hold of memory and of the bytes in flight until they are dropped.
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    _held: Hold,
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(to_u64(self.bytes.len()))
    }
}

/// What a piece will hold.
pub(super) struct Hold {
    _memory: Permit,
    _in_flight: Option<OwnedSemaphorePermit>,
}

/// Fetches for the streams of one partition.
pub(super) struct Fetcher {
    channels: Arc<Channels>,
    pub(super) settings: FetchSettings,
    ledger: Arc<Ledger>,
    requests: Arc<Semaphore>,
    addresses: Mutex<HashMap<String, Arc<Semaphore>>>,
    in_flight: Arc<Semaphore>,
    metrics: FetchMetrics,
}

impl Fetcher {
    pub(super) fn new(
        channels: Arc<Channels>,
        settings: FetchSettings,
        ledger: Arc<Ledger>,
        metrics: FetchMetrics,
    ) -> Self {
        Self {
            channels,
            requests: Arc::new(Semaphore::new(settings.most_requests)),
            addresses: Mutex::default(),
            in_flight: Arc::new(Semaphore::new(permits(settings.most_bytes))),
            settings,
            ledger,
            metrics,
        }
    }

    /// Waits until `bytes` may be in flight. Those who call one after another are served in that order, and what was
    /// held before is given back without the later: so the one whose bytes are read next always has them.
    pub(super) async fn hold(&self, bytes: u64) -> Result<Hold, Failed> {
        let closed = |_| Failed::fatal("the fetches of a partition have ended".to_owned());
        let count = permits(bytes.min(self.settings.most_bytes));
        let held = Arc::clone(&self.in_flight).acquire_many_owned(to_u32(count)).await;
        let held = held.map_err(closed)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Ok(memory) = self.ledger.try_reserve(bytes) {
            return Ok(Hold { _memory: memory, _in_flight: Some(held) });
        }
        // The pool is full: one piece at a time, which is the working set.
        let rest = permits(self.settings.most_bytes) - count;
        let rest = Arc::clone(&self.in_flight).acquire_many_owned(to_u32(rest)).await;
        drop(rest.map_err(closed)?);
        Ok(Hold { _memory: self.ledger.force(bytes), _in_flight: Some(held) })
    }

    /// What one of a fixed number of streams holds, each of which has its share of the bytes in flight.
    pub(super) fn hold_share(&self, bytes: u64) -> Hold {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let memory = self.ledger.try_reserve(bytes);
        let memory = memory.unwrap_or_else(|_| self.ledger.force(bytes));
        Hold { _memory: memory, _in_flight: None }
    }

    /// The index of the output at `location`; of one that is too long, a byte more than there may be. What has arrived of it
    /// is held whatever the pool says.
    pub(super) async fn index(
        &self,
        location: &PartitionLocation,
    ) -> Result<(Buffer, Permit), Failed> {
        let (kind, len) = (ShuffleFileKind::Index, MAX_INDEX_BYTES + 1);
        let wanted = Wanted { kind, offset: 0, len, exact: false };
        let mut memory = self.ledger.empty();
        let bytes = self.transfer(location, wanted, Some(&mut memory)).await?;
        Ok((Buffer::from_vec(bytes), memory))
    }

    /// `len` bytes at `offset` of the output at `location`.
    pub(super) async fn piece(
        &self,
        location: &PartitionLocation,
        offset: u64,
        len: u64,
        held: Hold,
    ) -> Result<Piece, Failed> {
        let wanted = Wanted { kind: ShuffleFileKind::Data, offset, len, exact: true };
        let bytes = self.transfer(location, wanted, None).await?;
        Ok(Piece { offset, bytes, _held: held })
    }

    /// The bytes of `wanted`. A transfer that breaks goes on behind what has arrived. Where nothing was held before, `held`
    /// grows with the bytes.
    async fn transfer(
        &self,
        location: &PartitionLocation,
        wanted: Wanted,
        mut held: Option<&mut Permit>,
    ) -> Result<Vec<u8>, Failed> {
        let _permits = self.permits(location).await?;
        let timer = self.metrics.time.timer();
        let room = if wanted.exact { wanted.len } else { FIRST_BYTES };
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or(usize::MAX));
        let mut left = self.settings.retries;
        loop {
            let before = bytes.len();
            let ended = self.request(location, wanted, &mut bytes, held.as_deref_mut()).await;
            self.metrics.bytes.add(bytes.len() - before);
            let found = to_u64(bytes.len());
            match ended {
                Ok(()) if wanted.exact && found != wanted.len => {
                    let message = format!("the file ends after {found} of {} bytes", wanted.len);
                    return Err(Failed::fatal(message));
                }
                Ok(()) => {
                    timer.done();
                    return Ok(bytes);
                }
                Err(error) if !error.again => return Err(error),
                Err(error) => {
                    if bytes.len() > before {
                        left = self.settings.retries;
                    }
                    if left == 0 {
                        return Err(error);
                    }
                    left -= 1;
                    log::debug!("goes on behind {} bytes after: {error}", bytes.len());
                    self.metrics.retries.add(1);
                    tokio::time::sleep(self.settings.retry_wait).await;
                }
            }
        }
    }

    async fn permits(
        &self,
        location: &PartitionLocation,
    ) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), Failed> {
        let closed = |_| Failed::fatal("the fetches of a partition have ended".to_owned());
        let address = {
            let most = self.settings.most_requests_per_address;
            let mut addresses = self.addresses.lock();
            let entry = addresses.entry(location.executor_meta.id.clone());
            Arc::clone(entry.or_insert_with(|| Arc::new(Semaphore::new(most))))
        };
        let address = address.acquire_owned().await.map_err(closed)?;
        let request = Arc::clone(&self.requests).acquire_owned().await.map_err(closed)?;
        Ok((address, request))
    }

    /// One request for what is missing in `bytes`, which gets whatever arrives.
    async fn request(
        &self,
        location: &PartitionLocation,
        wanted: Wanted,
        bytes: &mut Vec<u8>,
        mut held: Option<&mut Permit>,
    ) -> Result<(), Failed> {
        let arrived = to_u64(bytes.len());
        let range = ByteRange {
            offset: wanted.offset.saturating_add(arrived),
            length: wanted.len.saturating_sub(arrived),
        };
        if range.length == 0 {
            return Ok(());
        }
        let channel = self.channels.get(location, &self.settings)?;
        let most = self.settings.client.max_message_size;
        let mut client = FlightServiceClient::new(channel)
            .max_decoding_message_size(most)
            .max_encoding_message_size(most);
        let body = action(location, wanted.kind, range)?;
        self.metrics.requests.add(1);
        let request = arrow_flight::Action { r#type: TRANSPORT.to_owned(), body: body.into() };
        let patience = self.settings.patience;
        let stalled = |_| Failed::again(format!("nothing arrived for {patience:?}"));
        let answer = tokio::time::timeout(patience, client.do_action(request)).await;
        let answer = match answer.map_err(stalled)? {
            Ok(answer) => answer,
            // The transfer broke between the last byte and the word that it was the last.
            Err(status)
                if status.code() == tonic::Code::OutOfRange && !wanted.exact && arrived > 0 =>
            {
                return Ok(());
            }
            Err(status) => return Err(Failed::of_status(&status)),
        };
        let mut stream = answer.into_inner();
        loop {
            let message = tokio::time::timeout(patience, stream.message()).await;
            match message.map_err(stalled)? {
                Ok(Some(message)) => {
                    if to_u64(bytes.len() + message.body.len()) > wanted.len {
                        let message = "more bytes came than were asked for";
                        return Err(Failed::fatal(message.to_owned()));
                    }
                    bytes.extend_from_slice(&message.body);
                    held.iter_mut().for_each(|held| held.resize(bytes.capacity()));
                }
                Ok(None) => return Ok(()),
                Err(status) => return Err(Failed::of_status(&status)),
            }
        }
    }
}

/// The bytes of the action that asks for `range`.
fn action(
    location: &PartitionLocation,
    kind: ShuffleFileKind,
    range: ByteRange,
) -> Result<Vec<u8>, Failed> {
    let id = &location.partition_id;
    let action = Action::FetchPartition {
        job_id: id.job_id.clone(),
        stage_id: id.stage_id,
        partition_id: id.partition_id,
        host: location.executor_meta.host.clone(),
        port: location.executor_meta.port,
        file_id: location.file_id,
        layout: ShuffleLayout::Sort,
        file_kind: kind,
        byte_ranges: vec![range],
    };
    let action: protobuf::Action = action
        .try_into()
        .map_err(|error| Failed::fatal(format!("cannot ask for a map output: {error}")))?;
    Ok(action.encode_to_vec())
}

/// Bytes in flight as permits of a semaphore.
fn permits(bytes: u64) -> usize {
    usize::try_from(bytes.clamp(1, u64::from(u32::MAX))).unwrap_or(usize::MAX)
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use ballista_core::extension::SessionConfigExt;
    use datafusion::prelude::SessionConfig;

    use super::super::reads::tests::location;
    use super::*;

    #[tokio::test]
    async fn sessions_share_a_connection_only_where_they_configure_it_alike() {
        let channels = Channels::new(Duration::from_secs(3600));
        let location = location("a", Some(1), 0);
        let mut settings = FetchSettings::new(&SessionConfig::new_with_ballista());
        for (windows, connections) in [(0, 1), (0, 1), (1 << 20, 2)] {
            settings.client.initial_stream_window_size = windows;
            channels.get(&location, &settings).unwrap();
            assert_eq!(channels.open.lock().len(), connections);
        }
    }
}
