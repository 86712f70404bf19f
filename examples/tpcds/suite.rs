//! The two benchmarks whose tables can be made, and what a generator needs of them.

use std::path::{Path, PathBuf};

use datafusion::arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Session, SessionBuilder, Table};

use crate::Result;
use crate::tables::{self, Batches};
use crate::tpch;

/// Source rows of a TPC-DS table per step.
const STEP_ROWS: u64 = 8 * 1024;

/// Files of a large table of TPC-H.
const TPCH_FILES: u64 = 8;

/// Whose tables a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    Tpcds,
    Tpch,
}

impl Suite {
    /// The directory of its tables below `work`.
    pub(crate) fn dir(self, work: &Path, scale: f64) -> PathBuf {
        work.join(match self {
            Self::Tpcds => format!("sf{scale}"),
            Self::Tpch => format!("tpch-sf{scale}"),
        })
    }

    /// Its tables, largest first: with several workers none is left over at the end.
    ///
    /// # Errors
    ///
    /// Fails when the generator refuses the scale.
    pub(crate) fn sources(self, scale: f64) -> Result<Vec<Source>> {
        match self {
            Self::Tpcds => {
                let session = SessionBuilder::new().with_scale_factor(scale).build()?;
                Ok(tables::TABLES.map(|table| tpcds_source(table, scale, &session)).into())
            }
            Self::Tpch => tpch::TABLES.into_iter().map(|name| tpch_source(name, scale)).collect(),
        }
    }
}

/// A table that can be made range by range.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaRef,
    pub(crate) files: u64,
    /// Units of which a range is made: rows, or parts.
    pub(crate) units: u64,
    /// Units made at a time.
    pub(crate) step: u64,
    make: Box<dyn Fn(u64, u64) -> Batches + Send + Sync>,
}

impl Source {
    /// The rows of units `first..=last`, counted from 1.
    pub(crate) fn batches(&self, first: u64, last: u64) -> Batches {
        (self.make)(first, last)
    }
}

fn tpcds_source(table: Table, scale: f64, session: &Session) -> Source {
    let units = session.get_scaling().get_row_count(table);
    let session = session.clone();
    Source {
        name: table.get_name(),
        schema: tables::schema(table),
        files: tables::files(table, scale).min(units.max(1)),
        units,
        step: STEP_ROWS,
        make: Box::new(move |first, last| tables::batches(table, session.clone(), first, last)),
    }
}

fn tpch_source(name: &'static str, scale: f64) -> Result<Source> {
    let parts = tpch::parts(name);
    let units = u64::try_from(parts)?;
    // A step is one part, whose number is small.
    let part = |unit: u64| i32::try_from(unit).unwrap_or(i32::MAX);
    let make = move |first, _| tpch::batches(name, scale, part(first), parts);
    Ok(Source {
        name,
        schema: tpch::schema(name)?,
        files: units.min(TPCH_FILES),
        units,
        step: 1,
        make: Box::new(make),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(suite: Suite, name: &str, ranges: &[(u64, u64)]) -> usize {
        let sources = suite.sources(0.01).unwrap();
        let source = sources.iter().find(|source| source.name == name).unwrap();
        let batches = ranges.iter().flat_map(|(first, last)| source.batches(*first, *last));
        batches.map(|batch| batch.unwrap().num_rows()).sum()
    }

    #[test]
    fn parts_of_a_tpch_table_make_up_all_its_rows() {
        let all: Vec<_> = (1..=64).map(|part| (part, part)).collect();
        assert_eq!(rows(Suite::Tpch, "orders", &all), 15_000);
        assert_eq!(rows(Suite::Tpch, "nation", &[(1, 1)]), 25);
    }

    #[test]
    fn ranges_of_a_tpcds_table_are_rows() {
        assert_eq!(rows(Suite::Tpcds, "reason", &[(1, 1), (2, 3)]), 3);
    }

    #[test]
    fn suites_have_directories_of_their_own() {
        let work = Path::new("w");
        assert_eq!(Suite::Tpcds.dir(work, 1.0), Path::new("w/sf1"));
        assert_eq!(Suite::Tpch.dir(work, 0.1), Path::new("w/tpch-sf0.1"));
    }
}
