//! Which SQL files a run means.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::suite::Suite;

/// Queries with stored answers.
const BENCHMARK: &str = "tpcds";
const SHUFFLE: &str = "shuffle";
const TPCH: &str = "tpch";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// `q64`, or `shuffle/wide_group_by`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) suite: Suite,
    /// File with the stored answer, below the directory of answers.
    pub(crate) answer: Option<String>,
}

impl Query {
    /// The name as a part of a file name.
    pub(crate) fn file_name(&self) -> String {
        self.name.replace('/', "-")
    }
}

/// Finds the wanted queries below `sql_dir`, each once, in the order wanted.
///
/// # Errors
///
/// Fails when a name means no file; the error lists what there is.
pub(crate) fn select(sql_dir: &Path, wanted: &[String]) -> Result<Vec<Query>> {
    let groups = [BENCHMARK, SHUFFLE, TPCH];
    let known = groups.into_iter().map(|group| Ok((group, list(sql_dir, group)?)));
    let known: Vec<(&str, Vec<Query>)> = known.collect::<Result<_>>()?;
    let mut selected: Vec<Query> = Vec::new();
    for want in wanted.iter().map(|want| want.trim()) {
        let group = if want == "all" { BENCHMARK } else { want };
        let name = full_name(want);
        let found = known.iter().flat_map(|(of, queries)| {
            queries.iter().filter(|query| *of == group || query.name == name)
        });
        let before = selected.len();
        let mut is_known = false;
        for query in found {
            is_known = true;
            // Among those that this word added nothing is there twice.
            if !selected.iter().take(before).any(|other| other == query) {
                selected.push(query.clone());
            }
        }
        if !is_known {
            let all = known.iter().flat_map(|(_, queries)| queries);
            let all = all.map(|query| query.name.as_str()).collect::<Vec<_>>().join(", ");
            let error = format!("--queries: no query `{want}`: expected all, shuffle, tpch, {all}");
            return Err(error.into());
        }
    }
    Ok(selected)
}

fn list(sql_dir: &Path, group: &str) -> Result<Vec<Query>> {
    let dir = sql_dir.join(group);
    let mut queries = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry?.path();
        let (Some(stem), Some("sql")) =
            (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        queries.push(if group == BENCHMARK {
            let number = stem.trim_start_matches('q').trim_start_matches('0');
            let answer = Some(format!("q{number}.parquet"));
            Query { name: stem.to_owned(), path, suite: Suite::Tpcds, answer }
        } else {
            let suite = if group == TPCH { Suite::Tpch } else { Suite::Tpcds };
            Query { name: format!("{group}/{stem}"), path, suite, answer: None }
        });
    }
    queries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(queries)
}

/// `5`, `q5`, `q05` and `tpcds/q05` are all `q05`; `tpch/9` is `tpch/q09`.
pub(crate) fn full_name(want: &str) -> String {
    let name = want.strip_prefix("tpcds/").unwrap_or(want);
    let (group, name) = match name.strip_prefix("tpch/") {
        Some(name) => ("tpch/", name),
        None => ("", name),
    };
    match name.strip_prefix('q').unwrap_or(name).parse::<u32>() {
        Ok(number) => format!("{group}q{number:02}"),
        Err(_) => format!("{group}{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Result<Vec<String>> {
        let dir = tempfile::tempdir()?;
        for file in
            ["tpcds/q05.sql", "tpcds/q64.sql", "tpcds/note.md", "shuffle/wide.sql", "tpch/q09.sql"]
        {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap())?;
            fs::write(path, "")?;
        }
        let wanted: Vec<String> = wanted.iter().map(|want| (*want).to_owned()).collect();
        Ok(select(dir.path(), &wanted)?.into_iter().map(|query| query.name).collect())
    }

    #[test]
    fn a_query_has_many_names_and_runs_once() {
        assert_eq!(names(&["64", "q5", "05", "q05", "tpcds/q64"]).unwrap(), ["q64", "q05"]);
    }

    #[test]
    fn groups() {
        assert_eq!(names(&["all"]).unwrap(), ["q05", "q64"]);
        assert_eq!(names(&["shuffle"]).unwrap(), ["shuffle/wide"]);
        assert_eq!(names(&["tpch"]).unwrap(), ["tpch/q09"]);
        assert_eq!(names(&["tpch/9"]).unwrap(), ["tpch/q09"]);
        assert_eq!(names(&["shuffle/wide", "all"]).unwrap(), ["shuffle/wide", "q05", "q64"]);
    }

    #[test]
    fn an_unknown_query_lists_the_known_ones() {
        let error = names(&["7"]).unwrap_err().to_string();
        let expected = "expected all, shuffle, tpch, q05, q64, shuffle/wide, tpch/q09";
        assert_eq!(error, format!("--queries: no query `7`: {expected}"));
    }

    #[test]
    fn answers_are_named_without_leading_zero() {
        let dir = tempfile::tempdir().unwrap();
        for group in ["tpcds", "shuffle", "tpch"] {
            fs::create_dir_all(dir.path().join(group)).unwrap();
        }
        fs::write(dir.path().join("tpcds/q05.sql"), "").unwrap();
        let queries = select(dir.path(), &["5".to_owned()]).unwrap();
        assert_eq!(queries[0].answer.as_deref(), Some("q5.parquet"));
    }
}
