//! The sweep as a map: a row per query, a column per setting.

use std::collections::HashMap;
use std::fmt::Write;

use crate::args::Setting;
use crate::protocol::Status;
use crate::tally::{Pair, is_ok};

use super::svg::{Escaped, WIDTH, chart, label_room, number};

const ROW: f64 = 17.0;
const TOP: f64 = 66.0;

/// Rows of one map; more are drawn beside it.
const ROWS: usize = 33;

/// Times that differ by less count as equal: a process that starts beside others varies as much.
const NOISE_SECONDS: f64 = 0.1;

/// The classes of a cell, their signs, and what they mean.
pub(crate) const LEGEND: [(&str, &str, &str); 9] = [
    ("h1", "", "half the time of stock, or less"),
    ("h2", "", "0.5 to 0.8"),
    ("h3", "", "0.8 to 1.25, or less than 0.1 s apart"),
    ("h4", "", "1.25 to 2"),
    ("h5", "", "twice the time, or more"),
    ("ours", "+", "only ifile completes"),
    ("theirs", "−", "only stock completes"),
    ("neither", "×", "neither completes"),
    ("wrong", "!", "a wrong answer"),
];

/// Draws the maps side by side.
pub(crate) fn draw(pairs: &[Pair<'_>], settings: &[Setting]) -> Vec<String> {
    let mut queries: Vec<&str> = Vec::new();
    for pair in pairs {
        if !queries.contains(&pair.stock.query.as_str()) {
            queries.push(&pair.stock.query);
        }
    }
    queries.sort_unstable();
    let cells: HashMap<_, _> =
        pairs.iter().map(|pair| ((pair.stock.query.as_str(), pair.setting()), pair)).collect();
    // One left edge for all, so that their columns are of one width.
    let left = label_room(queries.iter().copied());
    let columns = columns(left, settings);
    let map = |(number, part): (usize, &[&str])| {
        let mut body = header(&columns);
        let mut y = TOP;
        for query in part {
            write!(
                body,
                "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 12.0,
                Escaped(query)
            )
            .ok();
            for column in &columns {
                if let Some(pair) = cells.get(&(*query, column.setting)) {
                    add_cell(&mut body, pair, column, y);
                }
            }
            y += ROW;
        }
        let (first, last) = (part.first().unwrap_or(&""), part.last().unwrap_or(&""));
        let title = format!("Time of ifile over stock, {first} to {last}");
        chart(&format!("heat-{number}"), &title, y + 4.0, &body)
    };
    queries.chunks(ROWS).enumerate().map(map).collect()
}

struct Column {
    x: f64,
    width: f64,
    setting: Setting,
}

fn columns(left: f64, settings: &[Setting]) -> Vec<Column> {
    let count = f64::from(u32::try_from(settings.len().max(1)).unwrap_or(1));
    let width = ((WIDTH - left) / count).min(60.0);
    let places = (0_u32..).map(|place| left + width * f64::from(place));
    places.zip(settings).map(|(x, setting)| Column { x, width, setting: *setting }).collect()
}

fn header(columns: &[Column]) -> String {
    let unit = "memory limit and pool; color: time of ifile / time of stock";
    let mut text = format!("<text class=\"unit\" x=\"0\" y=\"34\">{unit}</text>");
    for Column { x, width, setting } in columns {
        let middle = x + width / 2.0;
        let (limit, pool) = match setting.limit.0 {
            None => ("no".to_owned(), "limit".to_owned()),
            Some(_) => {
                let limit = setting.limit.to_string();
                let limit = limit.replace(".00", "").replace(" MB", "M").replace(" GB", "G");
                (limit, setting.pool.to_string())
            }
        };
        write!(
            text,
            "<text class=\"tick\" x=\"{middle:.1}\" y=\"49\" text-anchor=\"middle\">{limit}</text>\
             <text class=\"small\" x=\"{middle:.1}\" y=\"60\" text-anchor=\"middle\">{pool}</text>"
        )
        .ok();
    }
    text
}

fn add_cell(body: &mut String, pair: &Pair<'_>, column: &Column, y: f64) {
    let Column { x, width, .. } = column;
    let (class, meaning) = classify(pair);
    let (query, setting) = (Escaped(&pair.stock.query), pair.setting());
    write!(
        body,
        "<rect class=\"mark {class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\">\
         <title>{query}, {setting}: {meaning}</title></rect>",
        x + 0.75,
        width - 1.5,
        ROW - 1.5
    )
    .ok();
    let sign = LEGEND.iter().find(|(of, _, _)| *of == class).map_or("", |(_, sign, _)| *sign);
    if !sign.is_empty() {
        let middle = x + width / 2.0;
        write!(
            body,
            "<text class=\"sign\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{sign}</text>",
            y + 12.0
        )
        .ok();
    }
}

fn classify(pair: &Pair<'_>) -> (&'static str, String) {
    let wrong = [pair.stock, pair.ifile].iter().any(|c| c.outcome.status == Status::Wrong);
    if wrong {
        return ("wrong", "a wrong answer".to_owned());
    }
    match (is_ok(pair.stock), is_ok(pair.ifile)) {
        (false, false) => ("neither", "neither completes".to_owned()),
        (false, true) => ("ours", "only ifile completes".to_owned()),
        (true, false) => ("theirs", "only stock completes".to_owned()),
        (true, true) => {
            let (stock, ifile) = (pair.stock.outcome.seconds, pair.ifile.outcome.seconds);
            let ratio = ifile / stock.max(1e-9);
            let steps = [(0.5, "h1"), (0.8, "h2"), (1.25, "h3"), (2.0, "h4")];
            let class = steps.into_iter().find(|(most, _)| ratio <= *most).map_or("h5", |s| s.1);
            let class = if (stock - ifile).abs() < NOISE_SECONDS { "h3" } else { class };
            let (stock, ifile) = (number(stock), number(ifile));
            (class, format!("{ifile} s, stock {stock} s, ratio {ratio:.2}"))
        }
    }
}
