//! What a sweep is measured against.

use std::collections::HashMap;

use crate::args::Setting;
use crate::protocol::Status;
use crate::report::bytes;
use crate::results::Cell;
use crate::tally::{Pair, Sums, Tally, byte_ratio, pairs, ratio, sums};

const MB: u64 = 1 << 20;

/// Queries that count as heavy: those whose stock exchanges store most.
const HEAVY: usize = 10;

/// A bar, and how far it is met.
pub(crate) struct Goal {
    pub(crate) name: String,
    pub(crate) target: &'static str,
    /// The one number that counts.
    pub(crate) headline: String,
    pub(crate) measured: String,
    /// Unknown where nothing was measured for it.
    pub(crate) met: Option<bool>,
}

/// All goals, in the order of their weight.
pub(crate) fn goals(cells: &[Cell]) -> Vec<Goal> {
    let all = pairs(cells);
    let limited = |limits: &[u64]| -> Vec<Pair<'_>> {
        let within = |pair: &&Pair<'_>| pair.setting().limit.0.is_some_and(|b| limits.contains(&b));
        all.iter().filter(within).copied().collect()
    };
    let heavy = heavy_queries(&all);
    let mut tight = limited(&[64 * MB, 128 * MB]);
    tight.retain(|pair| heavy.contains(&pair.stock.query.as_str()));
    let free: Vec<_> = all.iter().filter(|p| p.setting().limit.0.is_none()).copied().collect();
    vec![
        completed(cells),
        wrong(cells),
        sizes(
            "Exchange bytes on disk at 64, 128 and 256 MB",
            &limited(&[64 * MB, 128 * MB, 256 * MB]),
            |sums| sums.stored_bytes,
            "≤ 0.3 × stock",
            0.3,
        ),
        time("Time of the ten heaviest shuffles at 64 and 128 MB", &tight, "≤ 0.8 × stock", 0.8),
        sizes(
            "Resident growth of the ten heaviest shuffles at 64 and 128 MB",
            &tight,
            |sums| sums.resident_bytes,
            "≤ 0.8 × stock",
            0.8,
        ),
        time("Time of all queries without a limit", &free, "≤ 1.0 × stock", 1.0),
    ]
}

/// The goals as lines of text.
pub(crate) fn text(cells: &[Cell]) -> String {
    let line = |goal: Goal| {
        let mark = goal.met.map_or("     ", |met| if met { "met  " } else { "MISSED" });
        format!(
            "{mark:<7}{}: {} (goal {}); {}\n",
            goal.name, goal.headline, goal.target, goal.measured
        )
    };
    goals(cells).into_iter().map(line).collect()
}

/// The queries whose stock exchanges store most, over all limits.
pub(crate) fn heavy_queries<'a>(pairs: &[Pair<'a>]) -> Vec<&'a str> {
    let mut stored: HashMap<&str, u64> = HashMap::new();
    for cell in pairs.iter().map(|pair| pair.stock) {
        let bytes = cell.outcome.usage.map_or(0, |usage| usage.spill.stored_bytes);
        *stored.entry(&cell.query).or_default() += bytes;
    }
    let mut stored: Vec<_> = stored.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    stored.sort_by_key(|(query, bytes)| (std::cmp::Reverse(*bytes), *query));
    stored.into_iter().take(HEAVY).map(|(query, _)| query).collect()
}

/// The settings, the one with most memory first.
pub(crate) fn settings(cells: &[Cell]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for cell in cells {
        if !settings.contains(&cell.setting()) {
            settings.push(cell.setting());
        }
    }
    let memory = |setting: &Setting| setting.limit.0.unwrap_or(u64::MAX);
    settings.sort_by_key(|setting| (std::cmp::Reverse(memory(setting)), setting.pool));
    settings
}

fn completed(cells: &[Cell]) -> Goal {
    let mut behind = Vec::new();
    for setting in settings(cells) {
        let tally = Tally::new(cells.iter().filter(|cell| cell.setting() == setting));
        if tally.ifile.0 < tally.stock.0 {
            behind.push(format!("{setting}: {} of stock's {}", tally.ifile.0, tally.stock.0));
        }
    }
    let all = Tally::new(cells);
    let counts = format!("stock completes {1} of them, ifile {0}", all.ifile.0, all.stock.0);
    Goal {
        name: "Queries completed".to_owned(),
        target: "never fewer than stock",
        headline: format!("{} of {}", all.ifile.0, all.ifile.1),
        met: (all.ifile.1 > 0).then_some(behind.is_empty()),
        measured: if behind.is_empty() {
            counts
        } else {
            format!("{counts}; {}", behind.join(", "))
        },
    }
}

fn wrong(cells: &[Cell]) -> Goal {
    let count = cells.iter().filter(|cell| cell.outcome.status == Status::Wrong).count();
    let checked = cells.iter().filter(|cell| cell.verified.is_some() || cell.agrees.is_some());
    let checked = checked.count();
    Goal {
        name: "Wrong answers".to_owned(),
        target: "0",
        headline: count.to_string(),
        measured: format!("{count} of {} that were checked", checked),
        met: (checked > 0).then_some(count == 0),
    }
}

fn time(name: &str, pairs: &[Pair<'_>], target: &'static str, most: f64) -> Goal {
    let (count, stock, ifile) = sums(pairs);
    let quotient = ratio(ifile.seconds, stock.seconds);
    let cpu = ratio(ifile.cpu_seconds, stock.cpu_seconds).unwrap_or(0.0);
    let times =
        format!("{:.1} s against {:.1} s; CPU time {cpu:.2} ×", ifile.seconds, stock.seconds);
    Goal {
        name: name.to_owned(),
        target,
        headline: headline(quotient),
        measured: measured(quotient, &times, count),
        met: quotient.map(|quotient| quotient <= most),
    }
}

/// Ours against stock in some bytes of the runs that both completed.
fn sizes(
    name: &str,
    pairs: &[Pair<'_>],
    of: impl Fn(&Sums) -> u64,
    target: &'static str,
    most: f64,
) -> Goal {
    let (count, stock, ifile) = sums(pairs);
    let (stock, ifile) = (of(&stock), of(&ifile));
    let quotient = byte_ratio(ifile, stock);
    let sizes = format!("{} against {}", bytes(ifile), bytes(stock));
    Goal {
        name: name.to_owned(),
        target,
        headline: headline(quotient),
        measured: measured(quotient, &sizes, count),
        met: quotient.map(|quotient| quotient <= most),
    }
}

fn headline(quotient: Option<f64>) -> String {
    quotient.map_or_else(|| "–".to_owned(), |quotient| format!("{quotient:.2} ×"))
}

fn measured(quotient: Option<f64>, values: &str, runs: usize) -> String {
    match quotient {
        None => "not measured".to_owned(),
        Some(_) => format!("{values}; {runs} runs that both completed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Engine;
    use crate::html::tests::cell;

    /// One query at 64 MB and without a limit.
    fn cells(stock: &str, ifile: &str, stored: [u64; 2]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for megabytes in [0, 64] {
            cells.push(cell("q72", megabytes, Engine::Stock, stock, stored[0]));
            cells.push(cell("q72", megabytes, Engine::Ifile, ifile, stored[1]));
        }
        cells
    }

    fn verdicts(cells: &[Cell]) -> Vec<Option<bool>> {
        goals(cells).iter().map(|goal| goal.met).collect()
    }

    #[test]
    fn equal_runs_meet_what_asks_for_no_less() {
        let cells = cells("ok", "ok", [10 << 20, 3 << 20]);
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(verdicts(&cells), [yes, yes, yes, no, no, yes]);
        assert!(text(&cells).contains("0.30 × (goal ≤ 0.3 × stock); 3.00 MB against 10 MB"));
    }

    #[test]
    fn a_query_that_only_stock_completes_is_named_with_its_setting() {
        let goals = goals(&cells("ok", "oom", [10 << 20, 0]));
        assert_eq!(goals[0].met, Some(false));
        assert!(
            goals[0].measured.ends_with("no limit: 0 of stock's 1, 64 MB fair: 0 of stock's 1")
        );
    }

    #[test]
    fn nothing_measured_is_neither_met_nor_missed() {
        assert_eq!(verdicts(&[]), [None; 6]);
    }

    #[test]
    fn the_heaviest_query_stores_most_with_the_stock_exchange() {
        let cells = [
            cell("q01", 64, Engine::Stock, "ok", 5),
            cell("q01", 64, Engine::Ifile, "ok", 9),
            cell("q02", 64, Engine::Stock, "ok", 7),
            cell("q02", 64, Engine::Ifile, "ok", 0),
            cell("q03", 64, Engine::Stock, "ok", 0),
            cell("q03", 64, Engine::Ifile, "ok", 8),
        ];
        assert_eq!(heavy_queries(&pairs(&cells)), ["q02", "q01"]);
    }
}
