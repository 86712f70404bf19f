//! What a person reads, and the JSON that a program reads.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::args::{Args, Engine};
use crate::judge::Judged;
use crate::protocol::{Status, Usage};
use crate::queries::Query;
use crate::results::Cell;

/// One run, as it is written to the file of `--json`. What is not known is null.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    query: String,
    engine: Engine,
    limit_bytes: Option<u64>,
    partitions: u32,
    /// The stock exchange has none.
    codec: Option<String>,
    status: Status,
    consumer: Option<String>,
    seconds: f64,
    reserved_peak_bytes: Option<u64>,
    resident_growth_bytes: Option<u64>,
    spilled_raw_bytes: Option<u64>,
    spilled_bytes: Option<u64>,
    spill_count: Option<u64>,
    files_peak: Option<u64>,
    agrees: Option<bool>,
    verified: Option<bool>,
}

impl Record {
    pub(crate) fn new(args: &Args, query: &Query, run: &Judged) -> Self {
        let outcome = &run.outcome;
        let usage = outcome.usage;
        let spill = usage.map(|usage| usage.spill);
        Self {
            query: query.name.clone(),
            engine: run.engine,
            limit_bytes: args.memory_limit.0,
            partitions: args.partitions,
            codec: (run.engine == Engine::Ifile).then(|| args.codec.clone()),
            status: outcome.status,
            consumer: outcome.consumer.clone(),
            seconds: outcome.seconds,
            reserved_peak_bytes: usage.map(|usage| usage.reserved_peak_bytes),
            resident_growth_bytes: usage.map(|usage| usage.resident_growth_bytes),
            spilled_raw_bytes: spill.map(|spill| spill.raw_bytes),
            spilled_bytes: spill.map(|spill| spill.stored_bytes),
            spill_count: spill.map(|spill| spill.count),
            files_peak: usage.map(|usage| usage.files_peak),
            agrees: run.agrees,
            verified: run.verified,
        }
    }
}

/// Writes all records, so that a job that is stopped leaves what it has.
///
/// # Errors
///
/// Fails when the file cannot be written.
pub(crate) fn write_json(path: &Path, records: &[Record]) -> Result<()> {
    let text = serde_json::to_string_pretty(records)? + "\n";
    fs::write(path, text).map_err(|e| format!("--json: {}: {e}", path.display()).into())
}

/// The columns, and lines that say what they are.
pub(crate) fn header() -> String {
    format!(
        "cpu: of all threads; pool: peak of all reservations; resident: how far the process grew;\n\
         swapped: IFile exchanges of all exchanges. Spills of the exchanges: number, bytes before (raw)\n\
         and after (stored) compression; others: what all other operators wrote; files: most at a time.\n\
         same: both engines agree; answer: the stored answer was met.\n\n\
         {:<26} {:<5} {:<7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>6} {:>8} {:>8} {:>8} {:>5} {:>4} {:>6}  \
         refused consumer",
        "query",
        "exec",
        "status",
        "time",
        "cpu",
        "pool",
        "resident",
        "swapped",
        "spills",
        "raw",
        "stored",
        "others",
        "files",
        "same",
        "answer",
    )
}

/// One run as a line of the table, and its notes below.
pub(crate) fn line(query: &Query, run: &Judged) -> String {
    let outcome = &run.outcome;
    let mut line = format!(
        "{:<26} {:<5} {:<7} {:>8} {} {:>4} {:>6}  {}",
        query.name,
        run.engine,
        status(outcome.status),
        format!("{:.2} s", outcome.seconds),
        usage(outcome.usage.as_ref()),
        yes_no(run.agrees),
        yes_no(run.verified),
        outcome.consumer.as_deref().unwrap_or(""),
    );
    line.truncate(line.trim_end().len());
    for note in &run.notes {
        line.push_str("\n    ");
        line.push_str(note);
    }
    line
}

fn usage(usage: Option<&Usage>) -> String {
    let fields: [String; 9] = match usage {
        None => std::array::from_fn(|_| "-".to_owned()),
        Some(usage) => {
            let Usage { exchanges, spill, .. } = usage;
            [
                format!("{:.2} s", usage.cpu_seconds),
                bytes(usage.reserved_peak_bytes),
                bytes(usage.resident_growth_bytes),
                format!("{}/{}", exchanges.ifile, exchanges.ifile + exchanges.stock),
                spill.count.to_string(),
                bytes(spill.raw_bytes),
                bytes(spill.stored_bytes),
                bytes(spill.others_bytes),
                usage.files_peak.to_string(),
            ]
        }
    };
    let [cpu, pool, resident, swapped, spills, raw, stored, others, files] = fields;
    format!(
        "{cpu:>8} {pool:>8} {resident:>8} {swapped:>7} {spills:>6} {raw:>8} {stored:>8} \
         {others:>8} {files:>5}"
    )
}

pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Oom => "oom",
        Status::Timeout => "timeout",
        Status::Error => "error",
        Status::Wrong => "WRONG",
    }
}

fn yes_no(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

/// Totals per engine, and of the runs that both engines completed.
pub(crate) fn summary(records: &[Record]) -> String {
    let of = |engine| records.iter().filter(move |record| record.engine == engine);
    let both = [Engine::Stock, Engine::Ifile].into_iter().all(|engine| of(engine).next().is_some());
    let mut text = String::new();
    for engine in [Engine::Stock, Engine::Ifile].into_iter().filter(|e| of(*e).next().is_some()) {
        let count = |status| of(engine).filter(|record| record.status == status).count();
        write!(
            text,
            "{engine:<5}  {} runs: {} ok, {} out of memory, {} timeout, {} error, {} wrong",
            of(engine).count(),
            count(Status::Ok),
            count(Status::Oom),
            count(Status::Timeout),
            count(Status::Error),
            count(Status::Wrong),
        )
        .ok();
        if both {
            text.push_str(&completed_by_both(of(engine)));
        }
        text.push('\n');
    }
    text
}

fn completed_by_both<'a>(records: impl Iterator<Item = &'a Record>) -> String {
    let (mut runs, mut seconds, mut stored_bytes, mut resident_bytes) = (0, 0.0, 0, 0);
    for record in records.filter(|record| record.agrees.is_some()) {
        runs += 1;
        seconds += record.seconds;
        stored_bytes += record.spilled_bytes.unwrap_or(0);
        resident_bytes += record.resident_growth_bytes.unwrap_or(0);
    }
    format!(
        "; the {runs} that both completed: {seconds:.1} s, resident growth {} in sum, stored by exchanges {}",
        bytes(resident_bytes),
        bytes(stored_bytes),
    )
}

/// Whether anything happened that a limit of memory or time does not explain.
pub(crate) fn is_bad(records: &[Record]) -> bool {
    records.iter().any(|record| is_bad_answer(record.status, record.agrees, record.verified))
}

/// Whether a run needs a look of its own: a wrong answer, or an error that is not a lack of memory or time.
pub(crate) fn is_bad_run(run: &Judged) -> bool {
    is_bad_answer(run.outcome.status, run.agrees, run.verified)
}

pub(crate) fn is_bad_cell(cell: &Cell) -> bool {
    is_bad_answer(cell.outcome.status, cell.agrees, cell.verified)
}

fn is_bad_answer(status: Status, agrees: Option<bool>, verified: Option<bool>) -> bool {
    matches!(status, Status::Error | Status::Wrong)
        || agrees == Some(false)
        || verified == Some(false)
}

/// The runs of ours that did not complete: which operator holds the memory there, and how much.
pub(crate) fn failures(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells.iter().filter(|cell| cell.engine == Engine::Ifile) {
        if cell.outcome.status != Status::Ok {
            let (query, setting) = (&cell.query, cell.setting().to_string());
            writeln!(text, "{query:<26} {setting:<14} {}", why(cell)).ok();
        }
    }
    if text.is_empty() { text } else { format!("\nDid not complete with ifile:\n{text}") }
}

/// How a run failed, in a few words.
pub(crate) fn why(cell: &Cell) -> String {
    let outcome = &cell.outcome;
    if let Some(consumer) = &outcome.consumer {
        let holder = |h: &crate::protocol::Holder| format!("{} {}", h.operator, bytes(h.bytes));
        let holders: Vec<String> = outcome.holders.iter().map(holder).collect();
        return format!("refused {consumer}; held by {}", holders.join(", "));
    }
    let message = outcome.message.as_deref().and_then(|message| message.lines().next());
    format!("{} {}", status(outcome.status), message.unwrap_or_default())
}

/// A size with three or four digits, in powers of 1024.
pub(crate) fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["KB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if value < 10.0 { format!("{value:.2} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::protocol::{Exchanges, Outcome, Shuffled, Spill};
    use crate::suite::Suite;

    fn run(engine: Engine, status: Status) -> Judged {
        let spill = Spill { count: 2, raw_bytes: 3 << 20, stored_bytes: 1 << 20, others_bytes: 0 };
        let usage = Usage {
            cpu_seconds: 2.5,
            reserved_peak_bytes: 5 << 20,
            resident_growth_bytes: 7 << 20,
            files_peak: 1,
            descriptors_peak: 1,
            joins: 0,
            exchanges: Exchanges { stock: 0, ifile: 3 },
            shuffled: Shuffled::default(),
            spill,
        };
        let outcome = Outcome { usage: Some(usage), ..Outcome::new(status, None, 1.5) };
        Judged::new(engine, outcome, "result".into())
    }

    fn query() -> Query {
        let suite = Suite::Tpcds;
        Query { name: "q64".to_owned(), path: "q64.sql".into(), suite, answer: None }
    }

    fn record(engine: Engine, status: Status) -> Record {
        let args = Args::parse_from(["tpcds"]);
        let query = query();
        Record::new(&args, &query, &run(engine, status))
    }

    #[test]
    fn a_record_has_exactly_the_documented_keys() {
        let value = serde_json::to_value(record(Engine::Ifile, Status::Ok)).unwrap();
        let expected = serde_json::json!({
            "query": "q64", "engine": "ifile", "limit_bytes": 268_435_456, "partitions": 8,
            "codec": "lz4", "status": "ok", "consumer": null, "seconds": 1.5,
            "reserved_peak_bytes": 5_242_880, "resident_growth_bytes": 7_340_032,
            "spilled_raw_bytes": 3_145_728, "spilled_bytes": 1_048_576, "spill_count": 2,
            "files_peak": 1, "agrees": null, "verified": null,
        });
        assert_eq!(value, expected);
        assert!(
            serde_json::to_value(record(Engine::Stock, Status::Ok)).unwrap()["codec"].is_null()
        );
    }

    #[test]
    fn failures_of_memory_and_time_are_not_bad() {
        let with = |status| [record(Engine::Stock, Status::Ok), record(Engine::Ifile, status)];
        assert!(!is_bad(&with(Status::Oom)) && !is_bad(&with(Status::Timeout)));
        assert!(is_bad(&with(Status::Wrong)) && is_bad(&with(Status::Error)));
    }

    #[test]
    fn header_and_lines_have_the_same_columns() {
        let query = query();
        let line = line(&query, &run(Engine::Stock, Status::Ok));
        let header = header();
        let columns = header.lines().last().unwrap();
        for (name, value) in [
            ("cpu", "2.50 s"),
            ("pool", "5.00 MB"),
            ("swapped", "3/3"),
            ("stored", "1.00 MB"),
            ("files", "1"),
        ] {
            let end = columns.find(name).unwrap() + name.len();
            assert!(line[..end].ends_with(value), "{name}\n{columns}\n{line}");
        }
    }

    #[test]
    fn sizes_have_three_or_four_digits() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KB"),
            (256 << 20, "256 MB"),
            (1000 << 20, "0.98 GB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }
}
