//! One page of a run, with all that it needs inside: no network, no other file.

mod bars;
mod charts;
mod heat;
mod svg;
mod table;
mod trace;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use datafusion::arrow::temporal_conversions::timestamp_s_to_datetime;

use crate::args::Setting;
use crate::flag_value;
use crate::goals::{self, Goal};
use crate::results::{Cell, Run};
use crate::{Result, tally};

use svg::Escaped;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Writes the page and tells what could not be drawn.
///
/// # Errors
///
/// Fails when there is nothing to report, when the file cannot be written, or when a chart is empty.
pub(crate) fn write(path: &Path, run: &Run, cells: &[Cell]) -> Result<()> {
    if cells.is_empty() {
        return Err("--report: there are no results yet".into());
    }
    let page = page(run, cells);
    let charts = check(&page)?;
    fs::write(path, &page).map_err(|e| format!("--report: {}: {e}", path.display()))?;
    println!("\n{charts} charts of {} runs in {}", cells.len(), path.display());
    for nothing in page.split("class=\"nothing\">").skip(1) {
        println!("nothing to draw: {}", nothing.split(':').next().unwrap_or_default());
    }
    Ok(())
}

/// Counts the charts; each has a title, a unit and something drawn.
///
/// # Errors
///
/// Fails with the name of a chart that has not.
fn check(page: &str) -> Result<usize> {
    let mut charts = 0;
    for chart in page.split("<svg class=\"chart\"").skip(1) {
        let chart = chart.split("</svg>").next().unwrap_or_default();
        let id = chart.split('"').nth(1).unwrap_or_default();
        for part in ["class=\"title\"", "class=\"unit\"", "class=\"tick\"", "class=\"mark "] {
            if !chart.contains(part) {
                return Err(format!("the chart {id} is empty: it has no {part}").into());
            }
        }
        charts += 1;
    }
    Ok(charts)
}

fn page(run: &Run, cells: &[Cell]) -> String {
    let settings = goals::settings(cells);
    let shown = shown_first(&settings);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>Stock exchange against IFile exchange</title>\n<style>\n{STYLE}</style></head><body>\n"
    );
    page.push_str(&header(run, cells, &settings));
    page.push_str(&tiles(&goals::goals(cells)));
    page.push_str("<main>\n");
    page.push_str(&charts::by_setting(cells, &settings));
    page.push_str(&charts::map(&tally::pairs(cells), &settings));
    page.push_str(&picker(&settings, shown));
    page.push_str(&charts::by_query(cells, &settings, shown));
    page.push_str(&charts::over_time(cells, &settings, shown));
    write!(
        page,
        "<section id=\"failures\"><h2>Where memory ran out</h2><p>The consumer that was refused, and the operators \
         that held the memory then, all partitions together.</p>\n{}</section>\n\
         <section id=\"all\"><h2>Every number</h2><p>Tap a heading to sort. Sizes are in MB of 1,048,576 bytes.</p>\
         <p class=\"tools\"><label>Query <input id=\"find\" type=\"search\" placeholder=\"q72\"></label> \
         <label><input id=\"only\" type=\"checkbox\"> only the memory limit chosen above</label> \
         <span id=\"count\"></span></p>\n<div class=\"scroll tall\">{}</div></section>\n",
        table::failures(cells),
        table::all(cells)
    )
    .ok();
    write!(page, "</main>\n<script>\n{SCRIPT}</script></body></html>\n").ok();
    page
}

/// The setting in the middle of those with a limit: memory is short there, and most queries complete.
fn shown_first(settings: &[Setting]) -> Option<Setting> {
    let limited: Vec<_> = settings.iter().filter(|setting| setting.limit.0.is_some()).collect();
    limited.get(limited.len() / 2).map(|s| **s).or_else(|| settings.first().copied())
}

fn header(run: &Run, cells: &[Cell], settings: &[Setting]) -> String {
    let queries: std::collections::HashSet<_> = cells.iter().map(|cell| &cell.query).collect();
    let at = &run.settings;
    let started = i64::try_from(run.started).ok().and_then(timestamp_s_to_datetime);
    let checked = if at.verified { "the stored answers" } else { "each other" };
    let names: Vec<String> = settings.iter().map(ToString::to_string).collect();
    format!(
        "<header><p class=\"kicker\">TPC-DS under memory limits</p><h1>Stock exchange against IFile exchange</h1>\
         <p class=\"lede\">DataFusion’s <code>RepartitionExec</code> (<b class=\"stock\">stock</b>) and \
         <code>IFileRepartitionExec</code> (<b class=\"ifile\">ifile</b>) run the same queries, each run in a process of its \
         own; answers are compared with {checked}.</p>\n<dl class=\"facts\">\
         <div><dt>Runs</dt><dd>{}</dd></div><div><dt>Queries</dt><dd>{}</dd></div><div><dt>Scale</dt><dd>{}</dd></div>\
         <div><dt>Partitions</dt><dd>{}</dd></div><div><dt>Codec</dt><dd>{}</dd></div><div><dt>Joins</dt><dd>{}</dd></div>\
         <div><dt>Cores</dt><dd>{}</dd></div><div><dt>Started</dt><dd>{} UTC</dd></div>\
         <div class=\"wide\"><dt>Memory</dt><dd>{}</dd></div></dl></header>\n",
        crate::list::thousands(u64::try_from(cells.len()).unwrap_or(u64::MAX)),
        queries.len(),
        at.scale,
        at.partitions,
        Escaped(&at.codec),
        flag_value(&at.join),
        run.cores,
        started.map_or_else(String::new, |started| started.format("%Y-%m-%d %H:%M").to_string()),
        names.join(", "),
    )
}

fn tiles(goals: &[Goal]) -> String {
    let mut text = "<section class=\"tiles\" aria-label=\"Summary\">\n".to_owned();
    for goal in goals {
        let (class, verdict) = match goal.met {
            Some(true) => ("met", "✓ goal met"),
            Some(false) => ("missed", "✗ goal missed"),
            None => ("open", "not measured"),
        };
        writeln!(
            text,
            "<div class=\"tile {class}\"><h3>{}</h3><p class=\"big\">{}</p><p class=\"verdict\">{verdict} \
             <span>({})</span></p><p class=\"detail\">{}</p></div>",
            Escaped(&goal.name),
            Escaped(&goal.headline),
            Escaped(goal.target),
            Escaped(&goal.measured)
        )
        .ok();
    }
    text.push_str("</section>\n");
    text
}

fn picker(settings: &[Setting], shown: Option<Setting>) -> String {
    let mut text = "<div class=\"picker\"><label>Memory limit and pool \
                    <select id=\"setting\">"
        .to_owned();
    for setting in settings {
        let selected = if Some(*setting) == shown { " selected" } else { "" };
        write!(text, "<option{selected}>{setting}</option>").ok();
    }
    text.push_str(
        "</select></label><span class=\"key\"><i class=\"stock\"></i>stock <i class=\"ifile\"></i>ifile</span></div>\n",
    );
    text
}
