//! One run, inside of its own process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};

use crate::Result;
use crate::digest::Digest;
use crate::measure::{Measured, Meter};
use crate::pool::{PeakPool, refused_consumer};
use crate::protocol::{Exchanges, Outcome, Request, Spill, Status, Usage};
use crate::session;

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

    let meter = Meter::start(&spill_dir);
    let start = Instant::now();
    let mut plan = None;
    let query = AssertUnwindSafe(execute(&context, &sql, &request.result, &mut plan));
    let result = query.catch_unwind().await.unwrap_or_else(|_| Err("the query panicked".into()));
    let seconds = start.elapsed().as_secs_f64();
    let measured = meter.stop();

    let usage = usage(&pool, measured, plan.as_ref())?;
    Ok(outcome(result, seconds, usage))
}

/// Plans and runs the query; leaves the plan with its metrics in `plan`, whatever comes of it.
async fn execute(
    context: &SessionContext,
    sql: &str,
    result: &Path,
    plan: &mut Option<Arc<dyn ExecutionPlan>>,
) -> Result<Digest> {
    let planned = context.sql(sql).await?.create_physical_plan().await?;
    *plan = Some(Arc::clone(&planned));
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
    measured: Measured,
    plan: Option<&Arc<dyn ExecutionPlan>>,
) -> Result<Usage> {
    let mut exchanges = Exchanges::default();
    let mut spill = Spill::default();
    if let Some(plan) = plan {
        add_node(plan.as_ref(), &mut exchanges, &mut spill)?;
    }
    Ok(Usage {
        reserved_peak_bytes: u64::try_from(pool.peak_bytes())?,
        cpu_seconds: measured.cpu_seconds,
        resident_growth_bytes: measured.resident_growth_bytes,
        files_peak: u64::try_from(measured.files_peak)?,
        exchanges,
        spill,
    })
}

fn add_node(plan: &dyn ExecutionPlan, exchanges: &mut Exchanges, spill: &mut Spill) -> Result<()> {
    let metrics = plan.metrics().unwrap_or_default();
    // `sum_by_name` does not know the names of metrics that are built in, such as these.
    let sum = |name: &str| -> Result<Option<u64>> {
        let sum = metrics.sum(|metric| metric.value().name() == name);
        Ok(sum.map(|metric| u64::try_from(metric.as_usize())).transpose()?)
    };
    let stored_bytes = sum("spilled_bytes")?.unwrap_or(0);
    let count = match plan.name() {
        STOCK_EXCHANGE => Some(&mut exchanges.stock),
        IFILE_EXCHANGE => Some(&mut exchanges.ifile),
        _ => None,
    };
    if let Some(count) = count {
        *count += 1;
        spill.count += sum("spill_count")?.unwrap_or(0);
        spill.stored_bytes += stored_bytes;
        // The stock exchange does not compress: what it stores is what it had.
        spill.raw_bytes += sum("spilled_raw_bytes")?.unwrap_or(stored_bytes);
    } else {
        spill.others_bytes += stored_bytes;
    }
    plan.children().into_iter().try_for_each(|child| add_node(child.as_ref(), exchanges, spill))
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
    Outcome { status, consumer, message, seconds, usage: Some(usage), digest }
}
