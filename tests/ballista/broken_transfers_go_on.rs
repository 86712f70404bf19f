use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::scheduler::{Action as Fetch, PartitionLocation, ShuffleFileKind};
use ballista_executor::flight_service::BallistaFlightService;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::common::collect;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::{Request, Response, Status, Streaming};

use crate::support::{
    Counter, Executor, PARTITIONS, context, engine, failed_fetch, lines, merging, metric, reading,
    rows, session, write,
};

/// Bytes of a message of an answer: what has arrived of one is not lost with the next.
const MESSAGE_BYTES: usize = 1000;

/// Forwards connections to `target`; each of the first `breaks` ends after `bytes` bytes of answers.
async fn fragile(target: SocketAddr, breaks: u64, bytes: usize) -> (SocketAddr, Counter) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let broken = Counter::default();
    let count = broken.clone();
    tokio::spawn(async move {
        loop {
            let (mut reader, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(target).await.unwrap();
            let left = if count.value() < breaks { bytes } else { usize::MAX };
            if left < usize::MAX {
                count.add(1);
            }
            tokio::spawn(async move {
                let (mut from_reader, mut to_reader) = reader.split();
                let (mut from_server, mut to_server) = server.split();
                let asking = tokio::io::copy(&mut from_reader, &mut to_server);
                let answering = async {
                    let (mut left, mut buffer) = (left, vec![0; 4096]);
                    while left > 0 {
                        let most = left.min(buffer.len());
                        match from_server.read(&mut buffer[..most]).await {
                            Ok(0) | Err(_) => break,
                            Ok(len) => {
                                left -= len;
                                if to_reader.write_all(&buffer[..len]).await.is_err() {
                                    break;
                                }
                            }
                        }
                    }
                };
                // Whichever ends first closes both.
                tokio::select! {
                    _ = asking => {}
                    () = answering => {}
                }
            });
        }
    });
    (address, broken)
}

fn at(locations: &[PartitionLocation], address: SocketAddr) -> Vec<PartitionLocation> {
    let mut moved = locations.to_vec();
    for location in &mut moved {
        location.executor_meta.port = address.port();
    }
    moved
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_goes_on_behind_what_has_arrived() {
    let executor = watched(&Seen::default(), MESSAGE_BYTES).await;
    let inputs = [rows(0, 60_000), rows(100_000, 60_000)];
    let reported = write(&engine(), &executor, 0, &inputs, true).await;
    let data = std::fs::metadata(executor.data(0)).unwrap().len() as usize;
    let index = std::fs::metadata(executor.index(0)).unwrap().len() as usize;
    for merged in [false, true] {
        // Each connection gives another part of a partition.
        let (address, broken) = fragile(executor.address, 3, data / PARTITIONS / 3).await;
        let locations = at(&executor.locations(&reported), address);
        let plan = if merged { merging(&locations) } else { reading(&locations) };
        let plan = engine().with_readers(plan, executor.path()).unwrap();
        let mut found = Vec::new();
        for partition in 0..PARTITIONS {
            let mut config = session(true);
            config.options_mut().set("ballista.client.io_retries_times", "10").unwrap();
            let stream = plan.execute(partition, context(config, None)).unwrap();
            found.extend(collect(stream).await.unwrap());
        }
        let expected: Vec<_> = inputs.iter().flatten().cloned().collect();
        assert_eq!(lines(&found), lines(&expected));
        assert_eq!(broken.value(), 3);
        assert!(metric(&plan, "fetch_retries") >= 2, "{}", metric(&plan, "fetch_retries"));
        // No byte came twice.
        assert_eq!(metric(&plan, "bytes_fetched"), metric(&plan, "bytes_read") + index);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_never_goes_on_is_a_failed_fetch() {
    let executor = Executor::new().await;
    let reported = write(&engine(), &executor, 0, &[rows(0, 900)], false).await;
    let (address, _) = fragile(executor.address, u64::MAX, 0).await;
    let plan = reading(&at(&executor.locations(&reported), address));
    let plan = engine().with_readers(plan, executor.path()).unwrap();
    let stream = plan.execute(0, context(session(true), None)).unwrap();
    let (id, ..) = failed_fetch(collect(stream).await.unwrap_err());
    assert_eq!(id, "executor-a");
    assert_eq!(metric(&plan, "fetch_retries"), 1);
}

/// Looks at requests before Ballista's service answers them.
struct Watching {
    inner: BallistaFlightService,
    seen: Seen,
    /// Bytes of the messages of an answer.
    message_bytes: usize,
}

/// An executor whose Flight service answers with messages of `message_bytes`.
async fn watched(seen: &Seen, message_bytes: usize) -> Executor {
    let of = |directory| {
        let inner = BallistaFlightService::new(directory);
        Watching { inner, seen: seen.clone(), message_bytes }
    };
    Executor::serving(of).await
}

#[derive(Clone, Default)]
struct Seen {
    requests: Counter,
    /// Requests at the same time, and most of them.
    now: Counter,
    most: Counter,
    largest: Counter,
    empty: Counter,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn no<T>() -> Result<T, Status> {
    Err(Status::unimplemented("not in this test"))
}

#[tonic::async_trait]
impl FlightService for Watching {
    type DoActionStream = Answers<arrow_flight::Result>;
    type DoExchangeStream = Answers<FlightData>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListActionsStream = Answers<ActionType>;
    type ListFlightsStream = Answers<FlightInfo>;

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let Fetch::FetchPartition { byte_ranges, file_kind, .. } =
            decode_protobuf(&request.get_ref().body).unwrap();
        for range in &byte_ranges {
            if range.length == 0 {
                self.seen.empty.add(1);
            }
            // Nobody knows how long an index is.
            if file_kind == ShuffleFileKind::Data {
                self.seen.largest.max(range.length);
            }
        }
        self.seen.requests.add(1);
        self.seen.most.max(self.seen.now.add(1));
        let message_bytes = self.message_bytes;
        let inner = self.inner.do_action(request).await?.into_inner();
        let mut inner = inner.flat_map(move |message| {
            let parts: Vec<_> = match message {
                Err(status) => vec![Err(status)],
                Ok(message) => message
                    .body
                    .chunks(message_bytes)
                    .map(|part| Ok(arrow_flight::Result { body: part.to_vec().into() }))
                    .collect(),
            };
            futures::stream::iter(parts)
        });
        let now = self.seen.now.clone();
        let mut over = false;
        let answer = futures::stream::poll_fn(move |cx| {
            let polled = inner.poll_next_unpin(cx);
            if matches!(polled, std::task::Poll::Ready(None)) && !over {
                over = true;
                now.take(1);
            }
            polled
        });
        Ok(Response::new(Box::pin(answer)))
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        no()
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        no()
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        no()
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        no()
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        no()
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        no()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        no()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        no()
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        no()
    }
}

/// Reads the outputs of `tasks` tasks of `each` rows.
async fn reader_of(executor: &Executor, tasks: usize, each: i64) -> Arc<dyn ExecutionPlan> {
    let mut locations = Vec::new();
    for (task, first) in (0..).step_by(100_000).enumerate().take(tasks) {
        let reported = write(&engine(), executor, task, &[rows(first, each)], false).await;
        locations.extend(executor.locations(&reported));
    }
    engine().with_readers(reading(&locations), executor.path()).unwrap()
}

/// A context in which no more bytes are in flight, and another option has a value.
fn two_thousand_bytes(option: &str, value: &str) -> Arc<TaskContext> {
    let mut config = session(true);
    config.options_mut().set(option, value).unwrap();
    config.options_mut().set("ballista.shuffle.reader.max_bytes_in_flight", "2000").unwrap();
    context(config, None)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_bytes_in_flight_are_limited() {
    let seen = Seen::default();
    let executor = watched(&seen, usize::MAX).await;
    let plan = reader_of(&executor, 8, 3000).await;
    let context = two_thousand_bytes("ballista.shuffle.max_concurrent_read_requests", "3");
    let mut rows = 0;
    for partition in 0..PARTITIONS {
        let stream = plan.execute(partition, Arc::clone(&context)).unwrap();
        rows += collect(stream).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!(rows, 8 * 3000);
    assert!(seen.most.value() <= 3, "{} requests at a time", seen.most.value());
    assert!(seen.largest.value() <= 2000, "{} bytes at once", seen.largest.value());
    assert_eq!(seen.empty.value(), 0);
    assert_eq!(seen.requests.value(), metric(&plan, "fetch_requests") as u64);
}

/// A fetch of an index that waits for its turn is not to keep the turn from the pieces that are read before it.
#[tokio::test(flavor = "multi_thread")]
async fn one_request_at_a_time_suffices_for_many_outputs() {
    let seen = Seen::default();
    let executor = watched(&seen, usize::MAX).await;
    let plan = reader_of(&executor, 3, 20_000).await;
    let context =
        two_thousand_bytes("ballista.shuffle.reader.max_blocks_in_flight_per_address", "1");
    // Side by side, so that partitions wait for indexes that others fetch.
    let streams = (0..PARTITIONS).map(|at| plan.execute(at, Arc::clone(&context)).unwrap());
    let read = futures::future::try_join_all(streams.map(collect));
    let parts = tokio::time::timeout(Duration::from_secs(120), read).await;
    let parts = parts.expect("the fetches stand still").unwrap();
    assert_eq!(parts.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), 60_000);
    let pieces = seen.requests.value() - 3;
    assert!(pieces >= 3 * 3 * PARTITIONS as u64, "{pieces} pieces are too few to wait for");
}
