//! Every number of every run, and the runs that did not complete.

use std::fmt::Write;

use crate::args::Engine;
use crate::list::thousands;
use crate::protocol::{Status, Usage};
use crate::report::{bytes, status};
use crate::results::Cell;

use super::svg::Escaped;

/// The columns: name, and what it means.
const COLUMNS: [(&str, &str); 19] = [
    ("query", "file below sql/"),
    ("memory", "limit of the pool, and how it is shared"),
    ("exchange", "stock or ifile"),
    ("result", "how the run ended"),
    ("time s", "seconds of the query, planning included"),
    ("CPU s", "seconds of all threads"),
    ("reserved MB", "peak of all reservations of the pool"),
    ("resident MB", "how far the process grew above its start"),
    ("spilled raw MB", "exchanges: before compression"),
    ("spilled MB", "exchanges: as written"),
    ("others MB", "spilled by all other operators"),
    ("spills", "of the exchanges"),
    ("files", "most spill files at a time"),
    ("descriptors", "most open descriptors of spill files"),
    ("joins", "in the plan"),
    ("exchanges", "replaced ones of all"),
    ("shuffled rows", "out of all exchanges"),
    ("shuffled MB", "out of all exchanges"),
    ("answer", "compared with the stored one, or with the other exchange"),
];

/// The columns that are no numbers.
const TEXTS: [&str; 5] = ["query", "memory", "exchange", "result", "answer"];

/// The table of all runs.
pub(crate) fn all(cells: &[Cell]) -> String {
    let mut text = "<table id=\"numbers\"><thead><tr>".to_owned();
    for (name, meaning) in COLUMNS {
        let class = if TEXTS.contains(&name) { " class=\"t\"" } else { "" };
        write!(
            text,
            "<th scope=\"col\"{class} title=\"{}\"><button type=\"button\">{}</button></th>",
            Escaped(meaning),
            Escaped(name)
        )
        .ok();
    }
    text.push_str("</tr></thead><tbody>\n");
    for cell in cells {
        add_row(&mut text, cell);
    }
    text.push_str("</tbody></table>\n");
    text
}

fn add_row(text: &mut String, cell: &Cell) {
    let setting = cell.setting().to_string();
    let result = status(cell.outcome.status).to_ascii_lowercase();
    write!(
        text,
        "<tr data-setting=\"{}\" class=\"{}\"><th scope=\"row\">{}</th><td class=\"t\">{setting}</td>\
         <td class=\"t {engine}\">{engine}</td><td class=\"t r-{result}\">{}</td><td>{:.3}</td>",
        Escaped(&setting),
        if cell.outcome.status == Status::Ok { "" } else { "bad" },
        Escaped(&cell.query),
        name(cell.outcome.status),
        cell.outcome.seconds,
        engine = cell.engine,
    )
    .ok();
    match &cell.outcome.usage {
        Some(usage) => add_usage(text, usage),
        None => text.push_str(&"<td>–</td>".repeat(COLUMNS.len() - 6)),
    }
    let answer = match (cell.verified, cell.agrees) {
        (Some(true), _) => "as stored",
        (_, Some(true)) => "both agree",
        (Some(false), _) | (_, Some(false)) => "differs",
        _ => "–",
    };
    writeln!(text, "<td class=\"t\">{answer}</td></tr>").ok();
}

fn add_usage(text: &mut String, usage: &Usage) {
    let Usage { spill, exchanges, shuffled, .. } = usage;
    let fields = [
        format!("{:.2}", usage.cpu_seconds),
        megabytes(usage.reserved_peak_bytes),
        megabytes(usage.resident_growth_bytes),
        megabytes(spill.raw_bytes),
        megabytes(spill.stored_bytes),
        megabytes(spill.others_bytes),
        spill.count.to_string(),
        usage.files_peak.to_string(),
        usage.descriptors_peak.to_string(),
        usage.joins.to_string(),
        format!("{} of {}", exchanges.ifile, exchanges.ifile + exchanges.stock),
        thousands(shuffled.rows),
        megabytes(shuffled.bytes),
    ];
    for field in fields {
        write!(text, "<td>{field}</td>").ok();
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn megabytes(bytes: u64) -> String {
    let size = bytes as f64 / f64::from(1 << 20);
    if bytes == 0 { "0".to_owned() } else { format!("{size:.2}") }
}

/// What a reader calls it.
pub(crate) fn name(status: Status) -> &'static str {
    match status {
        Status::Ok => "OK",
        Status::Oom => "out of memory",
        Status::Timeout => "timeout",
        Status::Error => "error",
        Status::Wrong => "wrong",
    }
}

/// The runs that did not complete: who was refused, and who held the memory.
pub(crate) fn failures(cells: &[Cell]) -> String {
    let failed: Vec<&Cell> =
        cells.iter().filter(|cell| cell.outcome.status != Status::Ok).collect();
    if failed.is_empty() {
        return "<p>Every run completed.</p>\n".to_owned();
    }
    let mut text = "<div class=\"scroll\"><table><thead><tr><th>query</th><th>memory</th>\
                    <th>stock</th><th>ifile</th></tr></thead><tbody>\n"
        .to_owned();
    let mut keys: Vec<_> = Vec::new();
    for cell in &failed {
        let key = (cell.query.as_str(), cell.setting());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_by_key(|(query, _)| *query);
    for (query, setting) in keys {
        let of = |engine| {
            cells.iter().find(|cell| {
                cell.engine == engine && cell.query == query && cell.setting() == setting
            })
        };
        let (stock, ifile) = (note(of(Engine::Stock)), note(of(Engine::Ifile)));
        let query = Escaped(query);
        writeln!(
            text,
            "<tr><th scope=\"row\">{query}</th><td class=\"t\">{setting}</td>\
             <td class=\"t\">{stock}</td><td class=\"t\">{ifile}</td></tr>"
        )
        .ok();
    }
    text.push_str("</tbody></table></div>\n");
    text
}

fn note(cell: Option<&Cell>) -> String {
    let Some(outcome) = cell.map(|cell| &cell.outcome) else { return "–".to_owned() };
    if outcome.status == Status::Ok {
        return "<span class=\"good\">OK</span>".to_owned();
    }
    let Some(consumer) = &outcome.consumer else {
        return format!("<b>{}</b>", name(outcome.status));
    };
    let mut text = format!("<b>{} refused</b>", Escaped(consumer));
    let mut separator = "; held by ";
    for holder in &outcome.holders {
        write!(text, "{separator}{} {}", Escaped(&holder.operator), bytes(holder.bytes)).ok();
        separator = ", ";
    }
    text
}
