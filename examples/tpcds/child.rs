//! One run, inside of its own process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};

use crate::Result;
use crate::digest::Digest;
use crate::measure::{Measured, Meter};
use crate::pool::{PeakPool, refused_consumer};
use crate::protocol::{Exchanges, Outcome, Request, Shuffled, Spill, Status, Usage};
use crate::session;
use crate::timeline::{self, Watch};

const RESULT_ROW_GROUP_ROWS: usize = 16 * 1024;

/// Names of the two exchanges in a plan.
const STOCK_EXCHANGE: &str = "RepartitionExec";
const IFILE_EXCHANGE: &str = "IFileRepartitionExec";

/// Runs the request and prints its outcome as one line of JSON.
///
/// # Errors
///
/// Fails when there is nothing to measure: a request or a session that is no good.
pub(crate) fn main(request: &str) -> Result<ExitCode> {
    let request: Request = serde_json::from_str(request)?;
    end_with_the_parent();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(&request))?;
    let mut line = serde_json::to_string(&outcome)?;
    line.push('\n');
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Standard input is a pipe that nobody writes to: it ends when the job does, however that happens.
fn end_with_the_parent() {
    thread::spawn(|| {
        let mut byte = [0];
        if !matches!(std::io::stdin().read(&mut byte), Ok(1)) {
            std::process::exit(1);
        }
    });
}

async fn run(request: &Request) -> Result<Outcome> {
    let sql =
        fs::read_to_string(&request.sql).map_err(|e| format!("{}: {e}", request.sql.display()))?;
    fs::create_dir_all(&request.spill_dir)?;
    let spill_dir = fs::canonicalize(&request.spill_dir)?;
    let (context, pool) = session::open(request).await?;

    let plan = Arc::new(OnceLock::new());
    let watch =
        request.timeline.then(|| Watch { pool: Arc::clone(&pool), plan: Arc::clone(&plan) });
    let meter = Meter::start(&spill_dir, watch);
    let start = Instant::now();
    let query = AssertUnwindSafe(execute(&context, &sql, &request.result, &plan));
    let result = query.catch_unwind().await.unwrap_or_else(|_| Err("the query panicked".into()));
    let seconds = start.elapsed().as_secs_f64();
    let measured = meter.stop();

    let usage = usage(&pool, &measured, plan.get())?;
    let mut outcome = outcome(result, seconds, usage);
    outcome.holders = outcome.consumer.as_deref().map(|c| pool.holders(c)).unwrap_or_default();
    outcome.timeline = timeline::thin(&measured.points);
    Ok(outcome)
}

/// Plans and runs the query; leaves the plan with its metrics in `plan`, whatever comes of it.
async fn execute(
    context: &SessionContext,
    sql: &str,
    result: &Path,
    plan: &OnceLock<Arc<dyn ExecutionPlan>>,
) -> Result<Digest> {
    let planned = context.sql(sql).await?.create_physical_plan().await?;
    plan.get_or_init(|| Arc::clone(&planned));
    drain(execute_stream(planned, context.task_ctx())?, result).await
}

async fn drain(mut stream: SendableRecordBatchStream, result: &Path) -> Result<Digest> {
    let mut rows = ResultFile::create(result, stream.schema())?;
    let mut digest = Digest::default();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        digest.add(&batch)?;
        rows.write(&batch)?;
    }
    rows.finish()?;
    Ok(digest)
}

/// The rows are always stored, so that a difference can be looked at without a second run, which might not
/// show it again.
struct ResultFile(ArrowWriter<File>);

impl ResultFile {
    fn create(path: &Path, schema: SchemaRef) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(RESULT_ROW_GROUP_ROWS))
            .build();
        Ok(Self(ArrowWriter::try_new(File::create(path)?, schema, Some(properties))?))
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.0.write(batch)?)
    }

    fn finish(self) -> Result<()> {
        self.0.close()?;
        Ok(())
    }
}

fn usage(
    pool: &PeakPool,
    measured: &Measured,
    plan: Option<&Arc<dyn ExecutionPlan>>,
) -> Result<Usage> {
    let mut usage = Usage {
        reserved_peak_bytes: u64::try_from(pool.peak_bytes())?,
        cpu_seconds: measured.cpu_seconds,
        resident_growth_bytes: measured.resident_growth_bytes,
        files_peak: u64::try_from(measured.files_peak)?,
        descriptors_peak: u64::try_from(measured.descriptors_peak)?,
        joins: 0,
        exchanges: Exchanges::default(),
        shuffled: Shuffled::default(),
        spill: Spill::default(),
    };
    if let Some(plan) = plan {
        add_node(plan.as_ref(), &mut usage);
    }
    Ok(usage)
}

pub(crate) fn is_exchange(plan: &dyn ExecutionPlan) -> bool {
    [STOCK_EXCHANGE, IFILE_EXCHANGE].contains(&plan.name())
}

/// The sum of the metric of this name, whether or not it is built in; `sum_by_name` knows only others.
pub(crate) fn metric(metrics: &MetricsSet, name: &str) -> Option<u64> {
    let sum = metrics.sum(|metric| metric.value().name() == name)?;
    u64::try_from(sum.as_usize()).ok()
}

fn add_node(plan: &dyn ExecutionPlan, usage: &mut Usage) {
    let metrics = plan.metrics().unwrap_or_default();
    let sum = |name: &str| metric(&metrics, name);
    let stored_bytes = sum("spilled_bytes").unwrap_or(0);
    let (exchanges, spill) = (&mut usage.exchanges, &mut usage.spill);
    if is_exchange(plan) {
        if plan.name() == IFILE_EXCHANGE {
            exchanges.ifile += 1;
        } else {
            exchanges.stock += 1;
        }
        usage.shuffled.rows += sum("output_rows").unwrap_or(0);
        usage.shuffled.bytes += sum("output_bytes").unwrap_or(0);
        spill.count += sum("spill_count").unwrap_or(0);
        spill.stored_bytes += stored_bytes;
        // The stock exchange does not compress: what it stores is what it had.
        spill.raw_bytes += sum("spilled_raw_bytes").unwrap_or(stored_bytes);
    } else {
        spill.others_bytes += stored_bytes;
        usage.joins += u64::from(plan.name().contains("Join"));
    }
    for child in plan.children() {
        add_node(child.as_ref(), usage);
    }
}

fn outcome(result: Result<Digest>, seconds: f64, usage: Usage) -> Outcome {
    let (status, message, digest) = match result {
        Ok(digest) => (Status::Ok, None, Some(digest)),
        Err(error) => {
            let refused = error.downcast_ref::<DataFusionError>().is_some_and(|error| {
                matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
            });
            let status = if refused { Status::Oom } else { Status::Error };
            (status, Some(error.to_string()), None)
        }
    };
    let refused = message.as_deref().filter(|_| status == Status::Oom);
    let consumer = refused.and_then(refused_consumer).map(str::to_owned);
    Outcome { consumer, usage: Some(usage), digest, ..Outcome::new(status, message, seconds) }
}
