//! Horizontal bars, one of each engine per row.

use std::fmt::Write;

use crate::args::Engine;

use super::svg::{Escaped, Scale, WIDTH, chart, label_room, number};

const ROW: f64 = 28.0;
const BAR: f64 = 10.0;
const TOP: f64 = 58.0;

/// Room for the number at the end of the longest bar.
const VALUE: f64 = 44.0;

/// What a bar shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bar {
    Value(f64),
    /// No value, and why.
    Failed(&'static str),
    Missing,
}

impl Bar {
    pub(crate) fn value(&self) -> Option<f64> {
        if let Self::Value(value) = self { Some(*value) } else { None }
    }
}

/// The bars of both engines.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) stock: Bar,
    pub(crate) ifile: Bar,
}

impl Row {
    pub(crate) fn largest(&self) -> f64 {
        let values = [&self.stock, &self.ifile].into_iter().filter_map(Bar::value);
        values.fold(0.0, f64::max)
    }
}

/// Draws the rows in their order; `None` when every bar is empty.
pub(crate) fn draw(id: &str, title: &str, unit: &str, rows: &[Row]) -> Option<String> {
    let largest = rows.iter().map(Row::largest).fold(0.0, f64::max);
    if largest <= 0.0 {
        return None;
    }
    let left = label_room(rows.iter().map(|row| row.label.as_str()));
    let scale = Scale::new(largest, 4.0, left, WIDTH - VALUE);
    let mut y = TOP;
    let mut body = String::new();
    for row in rows {
        add_row(&mut body, row, &scale, y);
        y += ROW;
    }
    let axis = axis(&scale, unit, y);
    Some(chart(id, title, y + 6.0, &(axis + &body)))
}

fn axis(scale: &Scale, unit: &str, bottom: f64) -> String {
    let mut text =
        format!("<text class=\"unit\" x=\"{}\" y=\"34\">{}</text>", scale.from, Escaped(unit));
    for tick in scale.ticks() {
        let (x, label) = (scale.at(tick), scale.label(tick));
        write!(
            text,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"48\" text-anchor=\"middle\">{label}</text>",
            TOP - 6.0
        )
        .ok();
    }
    text
}

fn add_row(body: &mut String, row: &Row, scale: &Scale, y: f64) {
    let label = Escaped(&row.label);
    write!(
        body,
        "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
        scale.from - 6.0,
        y + 15.0
    )
    .ok();
    for (engine, bar, y) in
        [(Engine::Stock, &row.stock, y + 1.0), (Engine::Ifile, &row.ifile, y + 1.0 + BAR + 1.0)]
    {
        match bar {
            Bar::Value(value) => {
                let (end, text) = (scale.at(*value), number(*value).replace('<', "&lt;"));
                let mark = if *value > 0.0 { "mark " } else { "" };
                write!(
                    body,
                    "<rect class=\"{mark}{engine}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"1.5\">\
                     <title>{label} {engine}: {text}</title></rect>\
                     <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                    scale.from,
                    (end - scale.from).max(0.8),
                    end + 4.0,
                    y + BAR - 1.2
                )
            }
            Bar::Failed(why) => write!(
                body,
                "<text class=\"failed\" x=\"{:.1}\" y=\"{:.1}\">{engine}: {}</text>",
                scale.from + 3.0,
                y + BAR - 1.2,
                Escaped(why)
            ),
            Bar::Missing => Ok(()),
        }
        .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stock: Bar, ifile: Bar) -> Row {
        Row { label: "q72".to_owned(), stock, ifile }
    }

    #[test]
    fn the_longest_bar_reaches_its_value() {
        let rows = [row(Bar::Value(8.0), Bar::Value(4.0)), row(Bar::Failed("late"), Bar::Missing)];
        let svg = draw("t", "Time", "seconds", &rows).unwrap();
        assert_eq!(svg.matches("class=\"mark ").count(), 2);
        let widths: Vec<f64> = svg
            .split("width=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert!((widths[0] - 2.0 * widths[1]).abs() < 0.2, "{widths:?}");
        assert!(svg.contains(">stock: late</text>") && svg.contains(">seconds</text>"));
    }

    #[test]
    fn nothing_is_drawn_of_zeros() {
        assert_eq!(draw("t", "Time", "s", &[row(Bar::Value(0.0), Bar::Missing)]), None);
    }
}
