//! The `ifile` command line tool: looks into IFile segments and spill files.
//!
//! Exit codes: 0 all is well, 1 the data is at fault, 2 anything else (arguments, files, output).

mod dump;
mod input;
mod inspect;
mod output;
mod rows;
mod verify;

use clap::{Args, Parser, Subcommand};
use datafusion_ifile::Codec;
use datafusion_ifile::codec::framing::DEFAULT_CODEC_BUFFER;
use output::{Failure, Out};
use std::path::PathBuf;
use std::process::ExitCode;

/// Looks into IFile segments and spill files.
#[derive(Debug, Parser)]
#[command(name = "ifile", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists partitions and segments: records, raw and stored bytes, ratio, checksum.
    Inspect(Target),
    /// Reads everything; exits with 1 and the place of the first fault.
    Verify(Target),
    /// Prints keys and values, once their segment's checksum has been compared.
    Dump {
        #[command(flatten)]
        target: Target,
        /// An Arrow IPC file or stream with the schema of the rows: blocks of this crate's exchange are
        /// then printed as rows.
        #[arg(long, value_name = "FILE")]
        schema: Option<PathBuf>,
    },
}

/// What to read, and how.
#[derive(Debug, Args)]
struct Target {
    /// The data file: one segment, or several one after another.
    file: PathBuf,
    /// The spill index of the data file.
    #[arg(long)]
    index: Option<PathBuf>,
    /// Codec of compressed segments: none, snappy, lz4, zstd or deflate.
    #[arg(long, default_value = "none")]
    codec: Codec,
    /// Size of the codec buffer that the segments were written with.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_CODEC_BUFFER)]
    codec_buffer: usize,
    /// Offset of the first segment, without an index.
    #[arg(long, value_name = "BYTES", default_value_t = 0, conflicts_with = "index")]
    offset: u64,
    /// Stored length of the only segment to read, without an index.
    #[arg(long, value_name = "BYTES", conflicts_with = "index")]
    length: Option<u64>,
    /// Accept raw segments although there is a codec, where no index confirms them.
    #[arg(long)]
    allow_raw: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Out::new();
    let result = match &cli.command {
        Command::Inspect(target) => inspect::run(target, &mut out),
        Command::Verify(target) => verify::run(target, &mut out),
        Command::Dump { target, schema } => dump::run(target, schema.as_deref(), &mut out),
    };
    match result.and_then(|()| out.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing is left to tell anyone if this fails too.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("ifile: {failure}\n"),
            ));
            match failure {
                Failure::Data(_) => ExitCode::from(1),
                Failure::Output(_) | Failure::Other(_) => ExitCode::from(2),
            }
        }
    }
}
