//! Counts what an executor writes and serves of shuffles, whoever runs them.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::create_shuffle_path;
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_core::serde::scheduler::{Action as Fetch, ShuffleLayout};
use ballista_core::utils::create_grpc_server;
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::execution_engine::{ExecutionEngine, QueryStageExecutor};
use ballista_executor::flight_service::BallistaFlightService;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tonic::{Request, Response, Status, Streaming};

/// The action that answers with [`Counts`] as JSON.
pub(crate) const ACTION: &str = "SHUFFLE_COUNTS";

const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// What an executor did since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Bytes of hash shuffles in files, indexes included.
    pub(crate) written: u64,
    /// Bytes of hash shuffles that were served to readers.
    pub(crate) served: u64,
    /// Partitions of stages whose tasks have ended well.
    pub(crate) partitions: u64,
    /// Tasks that could not fetch an output, whose map task then runs again.
    pub(crate) failed_fetches: u64,
}

/// The counters of this process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    written: AtomicU64,
    served: AtomicU64,
    partitions: AtomicU64,
    failed_fetches: AtomicU64,
}

impl Counters {
    fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            written: of(&self.written),
            served: of(&self.served),
            partitions: of(&self.partitions),
            failed_fetches: of(&self.failed_fetches),
        }
    }
}

/// An engine whose hash shuffles are counted once they are written.
pub(crate) struct CountingEngine {
    pub(crate) inner: Arc<dyn ExecutionEngine>,
    pub(crate) counters: Arc<Counters>,
}

impl ExecutionEngine for CountingEngine {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let data = create_shuffle_path(work_dir, &job_id, stage_id, 0, Some(task_id as u64), true)?;
        let partitions = global_output_partition_ids.len() as u64;
        let inner = self.inner.create_query_stage_exec(
            job_id,
            stage_id,
            task_id,
            global_output_partition_ids,
            plan,
            work_dir,
            config,
        )?;
        Ok(Arc::new(CountingStage {
            inner,
            data,
            partitions,
            counters: Arc::clone(&self.counters),
        }))
    }
}

#[derive(Debug)]
struct CountingStage {
    inner: Arc<dyn QueryStageExecutor>,
    /// Where the task puts a hash shuffle.
    data: PathBuf,
    /// Partitions that it works on.
    partitions: u64,
    counters: Arc<Counters>,
}

impl fmt::Display for CountingStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for CountingStage {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let written =
            self.inner.execute_query_stage(task_id, context).await.inspect_err(|error| {
                if error.to_string().contains("fetch") {
                    self.counters.failed_fetches.fetch_add(1, Ordering::Relaxed);
                }
            })?;
        for path in [self.data.clone(), self.data.with_extension("arrow.index")] {
            if let Ok(metadata) = tokio::fs::metadata(path).await
                && written.iter().any(|partition| partition.is_sort_shuffle)
            {
                self.counters.written.fetch_add(metadata.len(), Ordering::Relaxed);
            }
        }
        self.counters.partitions.fetch_add(self.partitions, Ordering::Relaxed);
        Ok(written)
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.inner.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.inner.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.inner.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.inner.collect_column_stats()
    }
}

/// Ballista's Flight service, with a counter of the bytes of hash shuffles.
pub(crate) fn counting_service(counters: Arc<Counters>) -> Arc<ArrowFlightServerProvider> {
    Arc::new(move |work_dir, address, mut shutdown, config| {
        let inner = BallistaFlightService::new(work_dir);
        let service = CountingService { inner, counters: Arc::clone(&counters) };
        tokio::spawn(async move {
            let service = FlightServiceServer::new(service)
                .max_decoding_message_size(MESSAGE_BYTES)
                .max_encoding_message_size(MESSAGE_BYTES);
            let server = create_grpc_server(&config).add_service(service);
            let ended = server.serve_with_shutdown(address, shutdown.recv()).await;
            ended.map_err(BallistaError::TonicError)
        })
    })
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct CountingService {
    inner: BallistaFlightService,
    counters: Arc<Counters>,
}

fn is_hash_shuffle(action: &[u8]) -> bool {
    let fetch = decode_protobuf(action);
    fetch.is_ok_and(|Fetch::FetchPartition { layout, .. }| layout == ShuffleLayout::Sort)
}

#[tonic::async_trait]
impl FlightService for CountingService {
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
        if request.get_ref().r#type == ACTION {
            let counts = serde_json::to_vec(&self.counters.counts());
            let body = counts.map_err(|error| Status::internal(error.to_string()))?.into();
            let answer = futures::stream::iter([Ok(arrow_flight::Result { body })]);
            return Ok(Response::new(Box::pin(answer)));
        }
        let counted = is_hash_shuffle(&request.get_ref().body);
        let answer = self.inner.do_action(request).await?.into_inner();
        let counters = Arc::clone(&self.counters);
        let answer = answer.inspect(move |message| {
            if let Ok(message) = message
                && counted
            {
                counters.served.fetch_add(message.body.len() as u64, Ordering::Relaxed);
            }
        });
        Ok(Response::new(Box::pin(answer)))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let counted = is_hash_shuffle(&request.get_ref().ticket);
        let answer = self.inner.do_get(request).await?.into_inner();
        let counters = Arc::clone(&self.counters);
        let answer = answer.inspect(move |message| {
            if let Ok(message) = message
                && counted
            {
                let bytes = message.data_header.len() + message.data_body.len();
                counters.served.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        Ok(Response::new(Box::pin(answer)))
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        self.inner.handshake(request).await
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.inner.list_flights(request).await
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.inner.get_flight_info(request).await
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        self.inner.poll_flight_info(request).await
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        self.inner.get_schema(request).await
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.inner.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.inner.do_exchange(request).await
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        self.inner.list_actions(request).await
    }
}
