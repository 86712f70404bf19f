//! Map outputs from end to end: TPC-DS store_sales as 8 map outputs of 200 partitions, the statuses as a heat map, every
//! partition read back in another process, and what a reader is told when a file is gone.
//!
//! `cargo run --release --example map_output -- [--scale 1] [--maps 8] [--partitions 200] [--directory DIR]`

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "an example that cannot go on has failed"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use clap::Parser;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_ifile::map_output::{
    IndexLayout, LocalOutput, MapOutputOptions, OutputName, ShuffleRead,
};
use datafusion_ifile::map_status::{
    Envelope, Location, MapStatus, PartitionTotals, StatusRegistry, StatusTable, TableScratch,
};
use datafusion_ifile::{
    IFileError, IFileOptions, IFileShuffleReaderExec, IFileShuffleWriterExec, ShuffleWrite,
};
use futures::StreamExt;
use plotters::prelude::*;
use tpcdsgen::config::SessionBuilder;
use tpcdsgen_arrow::StoreSalesArrow;

#[derive(Parser)]
struct Args {
    /// Scale factor of TPC-DS.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Map outputs.
    #[arg(long, default_value_t = 8)]
    maps: u64,
    /// Partitions of each.
    #[arg(long, default_value_t = 200)]
    partitions: usize,
    /// Where the files go; a temporary directory unless given.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Reads the outputs of this envelope, in a process of its own.
    #[arg(long, hide = true)]
    read: Option<PathBuf>,
}

type Fallible<T> = Result<T, Box<dyn Error>>;

const SHUFFLE: u64 = 1;

#[tokio::main]
async fn main() -> Fallible<()> {
    let args = Args::parse();
    if let Some(envelope) = &args.read {
        println!("{}", read_all(envelope).await?);
        return Ok(());
    }
    let temporary = tempfile::tempdir()?;
    let directory = args.directory.clone().unwrap_or(temporary.path().to_owned());
    std::fs::create_dir_all(&directory)?;
    let (rows, statuses) = write(&args, &directory).await?;
    let envelope = directory.join("statuses");
    std::fs::write(&envelope, &publish(&statuses)?)?;
    let svg = directory.join("statuses.svg");
    heat_map(&statuses, &svg)?;
    let kept = if args.directory.is_some() { "" } else { " (kept with --directory only)" };
    println!("heat map of the statuses: {}{kept}", svg.display());
    let read = reader_process(&envelope)?;
    let found: u64 = read.trim().parse()?;
    println!("another process read {found} rows of {rows}");
    if found != rows {
        return Err("rows are missing".into());
    }
    let lost = Path::new(&*statuses[statuses.len() / 2].location.path);
    std::fs::remove_file(lost)?;
    match reader_process(&envelope) {
        Ok(_) => Err("a lost file was not noticed".into()),
        Err(error) => {
            println!("without {}:\n  {error}", lost.display());
            Ok(())
        }
    }
}

/// The batches of store_sales by map task.
fn inputs(args: &Args) -> Fallible<Vec<Vec<RecordBatch>>> {
    let session = SessionBuilder::new().with_scale_factor(args.scale).build()?;
    let mut inputs = vec![vec![]; args.maps.max(1) as usize];
    let count = inputs.len();
    for (at, batch) in StoreSalesArrow::new(session).with_batch_size(8192).enumerate() {
        inputs[at % count].push(batch?);
    }
    Ok(inputs)
}

/// Writes the map outputs, one task after another. Returns the rows and the statuses.
async fn write(args: &Args, directory: &Path) -> Fallible<(u64, Vec<MapStatus>)> {
    let inputs = inputs(args)?;
    let rows: usize = inputs.iter().flatten().map(RecordBatch::num_rows).sum();
    let schema = inputs.iter().flatten().next().ok_or("no rows")?.schema();
    let mut statuses = Vec::new();
    for (map_id, batches) in (0..).zip(inputs) {
        let input = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None)?;
        let key = vec![col("ss_item_sk", &schema)?];
        let write = ShuffleWrite {
            directory: directory.to_owned(),
            name: OutputName { shuffle: SHUFFLE, map_id },
            attempt: 0,
            epoch: 1,
            location: Location { executor: "local".into(), ..Location::default() },
            output: MapOutputOptions::default(),
        };
        let partitioning = Partitioning::Hash(key, args.partitions);
        let options = IFileOptions::default();
        let writer = IFileShuffleWriterExec::try_new(input, partitioning, write, options)?;
        let summary = collect(Arc::new(writer), Arc::new(TaskContext::default())).await?;
        let status = summary[0].column_by_name("status").ok_or("no status")?;
        let status = MapStatus::decode(status.as_binary::<i32>().value(0))?;
        println!("map {map_id}: {} bytes", status.data_length.unwrap_or(0));
        statuses.push(status);
    }
    Ok((rows as u64, statuses))
}

/// The envelope that readers get.
fn publish(statuses: &[MapStatus]) -> Fallible<Vec<u8>> {
    let registry = StatusRegistry::default();
    registry.register(SHUFFLE);
    for status in statuses {
        registry.add(SHUFFLE, status.clone())?;
    }
    let reply = registry.reply(SHUFFLE)?;
    println!("{} statuses in an envelope of {} bytes", statuses.len(), reply.envelope.len());
    Ok(reply.envelope.to_vec())
}

/// One cell per map output and partition, the darker the larger.
fn heat_map(statuses: &[MapStatus], path: &Path) -> Fallible<()> {
    let partitions = statuses[0].partitions();
    let sizes: Vec<Vec<u64>> = statuses.iter().map(|status| status.sizes.to_vec()).collect();
    let most = sizes.iter().flatten().max().copied().unwrap_or(1).max(1) as f64;
    let root = SVGBackend::new(path, (1000, 80 + 30 * statuses.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(40)
        .build_cartesian_2d(0..partitions, 0..statuses.len())?;
    chart.configure_mesh().disable_mesh().x_desc("partition").y_desc("map").draw()?;
    let cells = sizes.iter().enumerate().flat_map(|(map, sizes)| {
        sizes.iter().enumerate().map(move |(partition, &size)| {
            let color = HSLColor(0.6, 0.8, 0.95 - 0.7 * (size as f64 / most));
            Rectangle::new([(partition, map), (partition + 1, map + 1)], color.filled())
        })
    });
    chart.draw_series(cells)?;
    root.present()?;
    Ok(())
}

/// Runs this program as a reader of the envelope, and returns what it prints.
fn reader_process(envelope: &Path) -> Fallible<String> {
    let output = Command::new(std::env::current_exe()?).arg("--read").arg(envelope).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8(output.stderr)?.trim().to_owned().into()),
    }
}

/// Reads every partition of the outputs of an envelope, and holds the rows against the statuses.
async fn read_all(envelope: &Path) -> Fallible<u64> {
    let bytes = std::fs::read(envelope)?;
    let parsed = Envelope::parse(&bytes)?;
    let Envelope::Direct { table, .. } = parsed else { return Err("not a direct envelope".into()) };
    let statuses = StatusTable::open(table)?.statuses(&mut TableScratch::default())?;
    let totals = PartitionTotals::of(&statuses)?;
    let expected = totals.rows.ok_or("statuses without rows")?;
    let first = statuses.first().ok_or("no statuses")?;
    let source = |status: &MapStatus| -> Fallible<Arc<LocalOutput>> {
        let data = Path::new(&*status.location.path);
        let layout = IndexLayout::from_wire_id(status.layout)?;
        let index = data.with_extension("index");
        Ok(Arc::new(LocalOutput::new(status.map_id, data, index, layout)))
    };
    let sources = statuses.iter().map(source).collect::<Fallible<Vec<_>>>()?;
    let reads = (0..first.placement.count).map(|partition| {
        let all = sources.iter().zip(&statuses).map(|(source, status)| {
            let source = Arc::clone(source) as Arc<_>;
            ShuffleRead::new(source, partition..partition + 1).with_attempt_id(status.attempt_id)
        });
        all.collect::<Vec<_>>()
    });
    let session = SessionBuilder::new().with_scale_factor(0.01).build()?;
    let schema = StoreSalesArrow::new(session).next().ok_or("no schema")??.schema();
    let reader = IFileShuffleReaderExec::try_new(
        schema,
        first.placement,
        Partitioning::UnknownPartitioning(first.partitions()),
        reads.collect(),
        IFileOptions::default(),
    )?;
    let mut rows = 0;
    for (partition, expected) in expected.into_iter().enumerate() {
        let mut found = 0;
        let mut stream = reader.execute(partition, Arc::new(TaskContext::default()))?;
        while let Some(batch) = stream.next().await {
            found += batch.map_err(tell)?.num_rows() as u64;
        }
        if found != expected {
            return Err(format!("partition {partition} has {found} rows of {expected}").into());
        }
        rows += found;
    }
    Ok(rows)
}

/// What an engine does with an error: a lost output names the map task to run again.
fn tell(error: DataFusionError) -> Box<dyn Error> {
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<IFileError>() {
            Some(IFileError::LostOutput(lost)) => {
                format!("run map task {} again: {} ({})", lost.map_id, lost.cause, lost.place)
                    .into()
            }
            _ => error.into(),
        },
        _ => error.into(),
    }
}
