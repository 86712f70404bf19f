//! The page of a made-up sweep.

use super::*;
use crate::args::{Engine, JoinKind, MemoryLimit, PoolKind};
use crate::results::Settings;

fn run() -> Run {
    let settings = Settings {
        scale: 1.0,
        partitions: 8,
        codec: "lz4".to_owned(),
        join: JoinKind::Hash,
        set: Vec::new(),
        timeout_seconds: 300.0,
        verified: true,
        build: "00".to_owned(),
    };
    Run { settings, started: 1_700_000_000, cores: 2 }
}

/// A line of a file of results.
pub(crate) fn cell(
    query: &str,
    megabytes: u64,
    engine: Engine,
    status: &str,
    stored_bytes: u64,
) -> Cell {
    let usage = serde_json::json!({
        "cpu_seconds": 1.5, "reserved_peak_bytes": 5 << 20, "resident_growth_bytes": 7 << 20,
        "files_peak": 2, "descriptors_peak": 3, "joins": 4, "exchanges": {"stock": 0, "ifile": 6},
        "shuffled": {"rows": 1_234_567, "bytes": 9 << 20},
        "spill": {"count": 8, "raw_bytes": 3 << 20, "stored_bytes": stored_bytes, "others_bytes": 0},
    });
    let point = serde_json::json!({
        "seconds": 1.0, "reserved_bytes": 1 << 20, "scratch_bytes": stored_bytes, "rows": 10, "spills": 1,
    });
    let limit = MemoryLimit((megabytes > 0).then_some(megabytes << 20));
    serde_json::from_value(serde_json::json!({
        "query": query, "sql": "", "limit": limit, "pool": PoolKind::Fair, "engine": engine,
        "status": status, "consumer": (status == "oom").then_some("HashJoinInput<1>"),
        "holders": [{"operator": "HashJoinInput", "bytes": 60 << 20}],
        "message": null, "seconds": 1.25, "usage": usage, "digest": null,
        "timeline": [point], "agrees": null, "verified": true,
    }))
    .unwrap()
}

fn sweep(stored_bytes: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for megabytes in [0, 128, 64] {
        for query in (1..=99).map(|number| format!("q{number:02}")) {
            for engine in [Engine::Stock, Engine::Ifile] {
                let fails = megabytes == 64 && query == "q09" && engine == Engine::Stock;
                let status = if fails { "oom" } else { "ok" };
                cells.push(cell(&query, megabytes, engine, status, stored_bytes));
            }
        }
    }
    cells
}

#[test]
fn every_chart_has_a_title_a_unit_ticks_and_marks() {
    let page = page(&run(), &sweep(4 << 20));
    // Six by limit, three maps; per limit three of queries, each with its rest, and three over time.
    assert_eq!(check(&page).unwrap(), 6 + 3 + 3 * (3 * 2 + 3));
    assert!(!page.contains("class=\"nothing\""));
}

#[test]
fn what_is_zero_is_said_instead_of_drawn() {
    let page = page(&run(), &sweep(0));
    assert!(page.contains("class=\"nothing\">Written to disk by exchanges, all queries:"));
    check(&page).unwrap();
}

#[test]
fn an_empty_chart_is_found() {
    let empty = svg::chart("lonely", "Nothing", 10.0, "<text class=\"unit\">s</text>");
    let error = check(&empty).unwrap_err().to_string();
    assert!(error.starts_with("the chart lonely is empty"), "{error}");
}

#[test]
fn every_run_is_in_the_table_and_texts_are_escaped() {
    let cells = sweep(4 << 20);
    let page = page(&run(), &cells);
    assert_eq!(page.matches("<tr data-setting").count(), cells.len());
    assert!(page.contains("<td>1,234,567</td>") && page.contains("HashJoinInput&lt;1&gt; refused"));
    assert!(page.contains("held by HashJoinInput 60 MB"));
    assert!(page.contains("2023-11-14 22:13 UTC"));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(&run(), &sweep(4 << 20));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_goals_are_tiles() {
    let page = page(&run(), &sweep(4 << 20));
    assert_eq!(page.matches("class=\"tile ").count(), 6);
    assert!(page.contains("297 of 297") && page.contains("<p class=\"big\">1.00 ×"));
}
