//! The sections of the page that hold charts.

use std::fmt::Write;

use crate::args::{Engine, Setting};
use crate::protocol::{Status, Usage};
use crate::results::Cell;
use crate::tally::{Pair, Sums, Tally, is_ok, pairs, sums};

use super::bars::{self, Bar, Row};
use super::svg::{Escaped, byte_unit, float};
use super::trace::{self, Trace};
use super::{heat, table};

/// Rows of a chart of queries that are shown at once.
const FIRST_ROWS: usize = 25;

/// Sums per setting: what completes, and what the runs took that both completed.
pub(crate) fn by_setting(cells: &[Cell], settings: &[Setting]) -> String {
    let (mut counts, mut all) = (Vec::new(), Vec::new());
    for setting in settings {
        let of = cells.iter().filter(|cell| cell.setting() == *setting);
        let tally = Tally::new(of.clone());
        let label = setting.to_string();
        let count = |(ok, all): (usize, usize)| {
            let ok = u32::try_from(ok).unwrap_or(u32::MAX);
            if all == 0 { Bar::Missing } else { Bar::Value(f64::from(ok)) }
        };
        counts.push(Row {
            label: label.clone(),
            stock: count(tally.stock),
            ifile: count(tally.ifile),
        });
        let (_, stock, ifile) = sums(&pairs(of));
        all.push((label, stock, ifile));
    }
    let of = |value: fn(&Sums) -> f64| -> Vec<Row> {
        let bar = |sums: &Sums| Bar::Value(value(sums));
        let row = |(label, stock, ifile): &(String, Sums, Sums)| Row {
            label: label.clone(),
            stock: bar(stock),
            ifile: bar(ifile),
        };
        all.iter().map(row).collect()
    };
    let mut text = "<section id=\"limits\"><h2>By memory limit</h2><p>Sums over the queries that both exchanges \
                    complete at that limit, but for the first chart. At small limits sorts set aside \
                    256 KB per partition instead of 10 MB, with either exchange.</p>\n<div class=\"charts\">\n"
        .to_owned();
    add(
        &mut text,
        "Queries completed",
        bars::draw("completed", "Queries completed", "queries", &counts),
    );
    for (id, title, value) in [
        ("time-sum", "Time, all queries", (|sums| sums.seconds) as fn(&Sums) -> f64),
        ("cpu-sum", "CPU time of all threads, all queries", |sums| sums.cpu_seconds),
    ] {
        add(&mut text, title, bars::draw(id, title, "seconds", &of(value)));
    }
    for (id, title, value) in [
        (
            "reserved-sum",
            "Peaks of reserved memory, all queries",
            (|sums| float(sums.reserved_bytes)) as fn(&Sums) -> f64,
        ),
        ("resident-sum", "Growth of resident memory, all queries", |sums| {
            float(sums.resident_bytes)
        }),
        ("stored-sum", "Written to disk by exchanges, all queries", |sums| {
            float(sums.stored_bytes)
        }),
    ] {
        let (unit, rows) = in_unit(of(value));
        add(&mut text, title, bars::draw(id, title, unit, &rows));
    }
    text.push_str("</div></section>\n");
    text
}

/// Bytes in the unit that fits the largest.
fn in_unit(mut rows: Vec<Row>) -> (&'static str, Vec<Row>) {
    let (unit, per_unit) = byte_unit(rows.iter().map(Row::largest).fold(0.0, f64::max));
    for bar in rows.iter_mut().flat_map(|row| [&mut row.stock, &mut row.ifile]) {
        if let Bar::Value(value) = bar {
            *value /= per_unit;
        }
    }
    (unit, rows)
}

/// A chart, or a line that says why there is none.
fn add(text: &mut String, what: &str, chart: Option<String>) {
    match chart {
        Some(chart) => write!(text, "<figure>{chart}</figure>"),
        None => write!(
            text,
            "<p class=\"nothing\">{}: nothing was measured above zero.</p>",
            Escaped(what)
        ),
    }
    .ok();
}

/// The sweep as a map.
pub(crate) fn map(pairs: &[Pair<'_>], settings: &[Setting]) -> String {
    let maps = heat::draw(pairs, settings);
    if maps.is_empty() {
        return String::new();
    }
    let mut text =
        "<section id=\"map\"><h2>Every query at every limit</h2><p class=\"legend\">".to_owned();
    for (class, sign, meaning) in heat::LEGEND {
        write!(
            text,
            "<span><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"16\" height=\"16\" \
             rx=\"2\"/><text class=\"sign\" x=\"8\" y=\"12\" text-anchor=\"middle\">{sign}</text></svg>{meaning}</span> "
        )
        .ok();
    }
    text.push_str("</p>\n<div class=\"charts\">\n");
    for map in maps {
        write!(text, "<figure>{map}</figure>").ok();
    }
    text.push_str("</div></section>\n");
    text
}

/// Begins a part of the page that is there for one setting.
fn begin(text: &mut String, setting: Setting, shown: Option<Setting>) {
    let hidden = if Some(setting) == shown { "" } else { " hidden" };
    writeln!(text, "<div class=\"charts\" data-setting=\"{setting}\"{hidden}>").ok();
}

/// Bars per query, for each setting.
pub(crate) fn by_query(cells: &[Cell], settings: &[Setting], shown: Option<Setting>) -> String {
    let charts = [
        (
            "resident",
            "Growth of resident memory",
            (|usage| usage.resident_growth_bytes) as fn(&Usage) -> u64,
        ),
        ("stored", "Written to disk by exchanges", |usage| usage.spill.stored_bytes),
    ];
    let mut text = "<section id=\"queries\"><h2>Query by query</h2><p>Largest first; the rest folds out below each \
                    chart.</p>\n"
        .to_owned();
    for (number, setting) in settings.iter().enumerate() {
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.setting() == *setting).collect();
        begin(&mut text, *setting, shown);
        let times = rows(&of, |cell| Some(cell.outcome.seconds));
        add_bars(
            &mut text,
            &format!("time-{number}"),
            &format!("Time, {setting}"),
            "seconds",
            times,
        );
        for (key, title, value) in charts {
            let value = |cell: &Cell| cell.outcome.usage.as_ref().map(|usage| float(value(usage)));
            let (unit, rows) = in_unit(rows(&of, value));
            let (id, title) = (format!("{key}-{number}"), format!("{title}, {setting}"));
            add_bars(&mut text, &id, &title, unit, rows);
        }
        text.push_str("</div>\n");
    }
    text.push_str("</section>\n");
    text
}

fn rows(cells: &[&Cell], value: impl Fn(&Cell) -> Option<f64>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for cell in cells {
        let bar = match value(cell).filter(|_| is_ok(cell)) {
            Some(value) => Bar::Value(value),
            None => Bar::Failed(if cell.outcome.status == Status::Ok {
                "unknown"
            } else {
                table::name(cell.outcome.status)
            }),
        };
        let place = rows.iter().position(|row| row.label == cell.query);
        let place = place.unwrap_or_else(|| {
            let label = cell.query.clone();
            rows.push(Row { label, stock: Bar::Missing, ifile: Bar::Missing });
            rows.len() - 1
        });
        if let Some(row) = rows.get_mut(place) {
            *(if cell.engine == Engine::Stock { &mut row.stock } else { &mut row.ifile }) = bar;
        }
    }
    rows.sort_by(|a, b| b.largest().total_cmp(&a.largest()).then_with(|| a.label.cmp(&b.label)));
    rows
}

/// The first rows, and the others to fold out, where they are not all zero.
fn add_bars(text: &mut String, id: &str, title: &str, unit: &str, rows: Vec<Row>) {
    let all = |row: &Row, is: fn(&Bar) -> bool| is(&row.stock) && is(&row.ifile);
    let (zero, rows): (Vec<Row>, Vec<Row>) = rows
        .into_iter()
        .partition(|row| all(row, |bar| matches!(bar, Bar::Value(0.0) | Bar::Missing)));
    let (failed, rows): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| all(row, |bar| bar.value().is_none()));
    let (first, rest) = rows.split_at(rows.len().min(FIRST_ROWS));
    text.push_str("<div>");
    add(text, title, bars::draw(id, title, unit, first));
    if let Some(chart) =
        bars::draw(&format!("{id}-rest"), &format!("{title}, the rest"), unit, rest)
    {
        write!(
            text,
            "<details><summary>{} more queries</summary><figure>{chart}</figure></details>",
            rest.len()
        )
        .ok();
    }
    for (rows, what) in [(zero, "with 0 on both sides"), (failed, "that neither completes")] {
        if !rows.is_empty() {
            let names: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
            write!(
                text,
                "<details><summary>{} queries {what}</summary><p>{}</p></details>",
                rows.len(),
                Escaped(&names.join(", "))
            )
            .ok();
        }
    }
    text.push_str("</div>\n");
}

/// One query over time, for each setting in which it was followed.
pub(crate) fn over_time(cells: &[Cell], settings: &[Setting], shown: Option<Setting>) -> String {
    let followed = cells.iter().find(|cell| !cell.outcome.timeline.is_empty());
    let Some(query) = followed.map(|cell| cell.query.as_str()) else { return String::new() };
    let mut text = format!(
        "<section id=\"time\"><h2>{} over time</h2><p>A tick below the axis marks a moment in which an exchange \
         spilled: stock above, ifile below.</p>\n",
        Escaped(query)
    );
    for (number, setting) in settings.iter().enumerate() {
        let points = |engine| {
            let of = |cell: &&Cell| {
                cell.query == query && cell.engine == engine && cell.setting() == *setting
            };
            cells.iter().find(of).map_or(&[][..], |cell| cell.outcome.timeline.as_slice())
        };
        let trace = Trace {
            stock: points(Engine::Stock),
            ifile: points(Engine::Ifile),
            limit_bytes: setting.limit.0,
        };
        begin(&mut text, *setting, shown);
        for (title, chart) in
            trace::draw(&format!("over-time-{number}"), &format!("{query}, {setting}"), &trace)
        {
            add(&mut text, &title, chart);
        }
        text.push_str("</div>\n");
    }
    text.push_str("</section>\n");
    text
}
