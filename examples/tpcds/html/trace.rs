//! One query over time: lines of both engines, and a tick for every moment that spilled.

use std::fmt::Write;

use crate::args::Engine;
use crate::timeline::Point;

use super::svg::{Escaped, Scale, WIDTH, byte_unit, chart, float};

const LEFT: f64 = 46.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 210.0;
const HEIGHT: f64 = 276.0;

/// The points of both engines.
pub(crate) struct Trace<'a> {
    pub(crate) stock: &'a [Point],
    pub(crate) ifile: &'a [Point],
    pub(crate) limit_bytes: Option<u64>,
}

/// Draws memory, scratch and rows; a chart without any line is left out.
pub(crate) fn draw(id: &str, name: &str, trace: &Trace<'_>) -> Vec<(String, Option<String>)> {
    let charts = [
        (
            "reserved",
            "memory reserved in the pool",
            (|point| point.reserved_bytes) as fn(&Point) -> u64,
        ),
        ("scratch", "scratch files on disk", |point| point.scratch_bytes),
        ("rows", "rows out of the exchanges", |point| point.rows),
    ];
    let chart = |(key, what, value): (&str, &str, fn(&Point) -> u64)| {
        let title = format!("{name}: {what}");
        let id = format!("{id}-{key}");
        (title.clone(), draw_one(&id, &title, key, trace, value))
    };
    charts.into_iter().map(chart).collect()
}

fn draw_one(
    id: &str,
    title: &str,
    key: &str,
    trace: &Trace<'_>,
    value: fn(&Point) -> u64,
) -> Option<String> {
    let limit = trace.limit_bytes.filter(|_| key == "reserved");
    let all = || trace.stock.iter().chain(trace.ifile);
    let largest = float(all().map(value).max().filter(|largest| *largest > 0)?);
    let largest = largest.max(limit.map_or(0.0, float));
    let (unit, per_unit) = match key {
        "rows" if largest >= 1e6 => ("million rows", 1e6),
        "rows" => ("rows", 1.0),
        _ => byte_unit(largest),
    };
    let y = Scale::new(largest / per_unit, 4.0, BOTTOM, TOP);
    let seconds = all().map(|point| point.seconds).fold(0.0, f64::max);
    let x = Scale::new(seconds, 5.0, LEFT, WIDTH - 12.0);
    let mut body = axes(&x, &y, unit);
    if let Some(limit) = limit {
        add_limit(&mut body, y.at(float(limit) / per_unit));
    }
    for (engine, points, rug) in
        [(Engine::Stock, trace.stock, BOTTOM + 38.0), (Engine::Ifile, trace.ifile, BOTTOM + 51.0)]
    {
        add_line(&mut body, engine, points, &x, |point| y.at(float(value(point)) / per_unit));
        add_spills(&mut body, engine, points, &x, rug);
    }
    Some(chart(id, title, HEIGHT, &body))
}

fn axes(x: &Scale, y: &Scale, unit: &str) -> String {
    let right = WIDTH - 12.0;
    let mut text = format!("<text class=\"unit\" x=\"0\" y=\"34\">{}</text>", Escaped(unit));
    for tick in y.ticks() {
        let (at, label) = (y.at(tick), y.label(tick));
        write!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            at + 3.5
        )
        .ok();
    }
    for tick in x.ticks() {
        let (at, label) = (x.at(tick), x.label(tick));
        write!(
            text,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            BOTTOM + 4.0,
            BOTTOM + 15.0
        )
        .ok();
    }
    write!(
        text,
        "<text class=\"unit\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">seconds</text>\
         <text class=\"tick\" x=\"0\" y=\"{}\">spills</text>",
        BOTTOM + 27.0,
        BOTTOM + 50.0
    )
    .ok();
    text
}

fn add_limit(body: &mut String, y: f64) {
    write!(
        body,
        "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">limit</text>",
        WIDTH - 12.0,
        WIDTH - 12.0,
        y - 3.0
    )
    .ok();
}

fn add_line(
    body: &mut String,
    engine: Engine,
    points: &[Point],
    x: &Scale,
    y: impl Fn(&Point) -> f64,
) {
    if points.is_empty() {
        return;
    }
    let places: Vec<String> =
        points.iter().map(|point| format!("{:.1},{:.1}", x.at(point.seconds), y(point))).collect();
    write!(body, "<polyline class=\"mark line-{engine}\" points=\"{}\"/>", places.join(" ")).ok();
}

/// A tick per moment in which the number of spills grew.
fn add_spills(body: &mut String, engine: Engine, points: &[Point], x: &Scale, y: f64) {
    let mut before = 0;
    let mut path = String::new();
    for point in points {
        if point.spills > before {
            write!(path, "M{:.1} {:.1}v9", x.at(point.seconds), y - 6.0).ok();
        }
        before = point.spills;
    }
    if !path.is_empty() {
        write!(body, "<path class=\"mark spill-{engine}\" d=\"{path}\"><title>{engine}: {before} spills</title></path>").ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(seconds: f64, reserved_bytes: u64, spills: u64) -> Point {
        Point { seconds, reserved_bytes, spills, ..Point::default() }
    }

    #[test]
    fn spills_are_marked_where_their_number_grows() {
        let stock = [point(0.0, 1 << 20, 0), point(1.0, 2 << 20, 3), point(2.0, 0, 3)];
        let trace = Trace { stock: &stock, ifile: &[], limit_bytes: Some(4 << 20) };
        let charts = draw("t", "q72", &trace);
        let reserved = charts[0].1.as_ref().unwrap();
        assert_eq!(reserved.matches("M").count() - reserved.matches("MB").count(), 1, "{reserved}");
        assert!(reserved.contains("stock: 3 spills") && reserved.contains(">limit<"));
        assert!(charts[1].1.is_none() && charts[2].1.is_none());
    }
}
