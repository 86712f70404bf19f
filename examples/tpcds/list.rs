//! The list of queries, with what each moves through its exchanges.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::Result;
use crate::args::{Args, Engine, MemoryLimit, Setting};
use crate::job::Job;
use crate::protocol::{Status, Usage};
use crate::queries::Query;
use crate::report::bytes;

/// Where the table begins and ends in the file; all else in it is written by hand.
const BEGIN: &str = "<!-- list: begin -->\n";
const END: &str = "<!-- list: end -->\n";

/// Runs each query once, without a limit, and writes the table into `path`.
///
/// # Errors
///
/// Fails when a query fails, or when the file cannot be written.
pub(crate) fn write(args: &Args, work: &Path, queries: &[Query], path: &Path) -> Result<ExitCode> {
    let mut job = Job::new(args, work, queries)?;
    job.expect_runs(queries.len() * args.engines(0).len())?;
    let setting = Setting { limit: MemoryLimit(None), pool: args.single_pool() };
    let mut rows = String::new();
    for query in queries {
        let Some(judged) = job.run(query, setting, 0)? else {
            return Ok(ExitCode::from(crate::interrupt::EXIT_CODE));
        };
        if let Some(run) = judged.iter().find(|run| run.outcome.status != Status::Ok) {
            return Err(format!("{}: {}", query.name, run.notes.join(" ")).into());
        }
        let usage = |engine| {
            let of = judged.iter().find(move |run| run.engine == engine);
            of.and_then(|run| run.outcome.usage)
        };
        let usage = usage(Engine::Ifile).or_else(|| usage(Engine::Stock));
        rows.push_str(&row(query, usage.as_ref())?);
    }
    job.bar.finish_and_clear();
    let table = format!(
        "| query | asks | joins | exchanges | rows shuffled | bytes shuffled |\n|---|---|--:|--:|--:|--:|\n{rows}"
    );
    let text = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, replace(&text, &table)).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn row(query: &Query, usage: Option<&Usage>) -> Result<String> {
    let sql = fs::read_to_string(&query.path)?;
    let asks = sql.lines().next().unwrap_or_default();
    let asks = asks.trim_start_matches("-- ").trim_start_matches("Asks ");
    let mut row = format!("| {} | {} ", query.name, asks.trim_end_matches('.'));
    if let Some(Usage { joins, exchanges, shuffled, .. }) = usage {
        let exchanges = exchanges.ifile + exchanges.stock;
        let (rows, size) = (thousands(shuffled.rows), bytes(shuffled.bytes));
        write!(row, "| {joins} | {exchanges} | {rows} | {size} |")?;
    }
    row.push('\n');
    Ok(row)
}

/// Puts the table between its marks, or at the end where there are none.
fn replace(text: &str, table: &str) -> String {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.unwrap_or((text, ""));
    format!("{before}{BEGIN}{table}{END}{after}")
}

/// Digits in groups of three.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_the_place_of_the_last_one() {
        let first = replace("# Title\n\n", "one\n");
        assert_eq!(first, format!("# Title\n\n{BEGIN}one\n{END}"));
        let again = replace(&format!("{first}\nThe end.\n"), "two\n");
        assert_eq!(again, format!("# Title\n\n{BEGIN}two\n{END}\nThe end.\n"));
    }

    #[test]
    fn digits_are_grouped() {
        let all = [0, 999, 1_000, 12_345_678].map(thousands);
        assert_eq!(all, ["0", "999", "1,000", "12,345,678"]);
    }
}
