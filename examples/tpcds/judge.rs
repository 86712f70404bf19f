//! Decides which answers are right: against the other engine, and against the stored answers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::args::Engine;
use crate::compare::{Difference, Texts, compare_files};
use crate::pool::REFUSAL;
use crate::protocol::{Outcome, Status};
use crate::queries::Query;

/// Rows of a difference that are shown.
const ROWS_SHOWN: usize = 3;

/// Lines of an error that are shown.
const LINES_SHOWN: usize = 2;

/// A run with what is known of its answer.
pub(crate) struct Judged {
    pub(crate) engine: Engine,
    pub(crate) outcome: Outcome,
    /// The stored rows of the result.
    pub(crate) result: PathBuf,
    /// Whether both engines gave the same rows, when both gave some.
    pub(crate) agrees: Option<bool>,
    /// Whether the rows are those of the stored answer, when there is one.
    pub(crate) verified: Option<bool>,
    /// What a reader should know, one per line.
    pub(crate) notes: Vec<String>,
}

impl Judged {
    pub(crate) fn new(engine: Engine, outcome: Outcome, result: PathBuf) -> Self {
        let notes = outcome.message.iter().map(|message| shorten(message)).collect();
        Self { engine, outcome, result, agrees: None, verified: None, notes }
    }

    fn is_ok(&self) -> bool {
        self.outcome.status == Status::Ok
    }
}

/// Judges the runs of one query that belong together, one per engine. Results that are not right are moved to `wrong_dir`.
///
/// # Errors
///
/// Fails when a stored result cannot be moved or removed.
pub(crate) fn judge(
    runs: &mut [Judged],
    query: &Query,
    answers: Option<&Path>,
    wrong_dir: &Path,
) -> Result<()> {
    if let (Some(answers), Some(answer)) = (answers, &query.answer) {
        for run in runs.iter_mut().filter(|run| run.is_ok()) {
            verify(run, &answers.join(answer));
        }
    }
    if let [one, other] = runs
        && one.is_ok()
        && other.is_ok()
    {
        agree(one, other);
    }
    let disagree = runs.iter().any(|run| run.agrees == Some(false));
    for run in runs.iter_mut().filter(|run| run.is_ok()) {
        // Where nothing else tells which one is wrong, the stock engine is taken to be right.
        let suspect =
            run.agrees == Some(false) && run.verified.is_none() && run.engine == Engine::Ifile;
        if run.verified == Some(false) || suspect {
            run.outcome.status = Status::Wrong;
        }
    }
    for run in runs.iter_mut().filter(|run| run.result.exists()) {
        if disagree || run.outcome.status == Status::Wrong {
            keep(run, wrong_dir)?;
        } else {
            fs::remove_file(&run.result)?;
        }
    }
    Ok(())
}

fn verify(run: &mut Judged, answer: &Path) {
    if !answer.exists() {
        run.notes.push(format!("no stored answer {}", answer.display()));
        return;
    }
    let notes = differences(&run.result, answer, Texts::Lenient, ["this run", "the stored answer"]);
    run.verified = Some(notes.is_empty());
    run.notes.extend(notes);
}

fn agree(one: &mut Judged, other: &mut Judged) {
    let notes = if one.outcome.digest == other.outcome.digest {
        Vec::new()
    } else {
        let (left, right) = (one.engine.to_string(), other.engine.to_string());
        differences(&one.result, &other.result, Texts::Exact, [&left, &right])
    };
    one.agrees = Some(notes.is_empty());
    other.agrees = one.agrees;
    other.notes.extend(notes);
}

/// What differs, one line each; a result that cannot be compared differs.
fn differences(left: &Path, right: &Path, texts: Texts, names: [&str; 2]) -> Vec<String> {
    match compare_files(left, right, texts) {
        Ok(difference) if difference.is_empty() => Vec::new(),
        Ok(difference) => describe(&difference, names),
        Err(error) => vec![error.to_string()],
    }
}

fn describe(difference: &Difference, names: [&str; 2]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, rows) in names.into_iter().zip([&difference.left_only, &difference.right_only]) {
        lines.push(format!("{} rows only in {name}", rows.len()));
        lines.extend(rows.iter().take(ROWS_SHOWN).map(|row| format!("  {row}")));
    }
    lines
}

fn keep(run: &mut Judged, wrong_dir: &Path) -> Result<()> {
    fs::create_dir_all(wrong_dir)?;
    if let Some(name) = run.result.file_name() {
        let kept = wrong_dir.join(name);
        fs::rename(&run.result, &kept)?;
        run.notes.push(format!("rows kept in {}", kept.display()));
        run.result = kept;
    }
    Ok(())
}

/// The part of an error that says what failed: the refusal, where memory was refused, else its first lines.
fn shorten(message: &str) -> String {
    let refusal = message.lines().find_map(|line| Some(&line[line.find(REFUSAL)?..]));
    refusal.map_or_else(
        || message.lines().take(LINES_SHOWN).collect::<Vec<_>>().join(" "),
        str::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, RecordBatch};
    use datafusion::parquet::arrow::ArrowWriter;

    use super::*;
    use crate::digest::Digest;
    use crate::suite::Suite;

    struct Bench {
        dir: tempfile::TempDir,
        query: Query,
    }

    impl Bench {
        fn new() -> Self {
            let query = Query {
                name: "q01".to_owned(),
                path: PathBuf::new(),
                suite: Suite::Tpcds,
                answer: Some("q1.parquet".to_owned()),
            };
            Self { dir: tempfile::tempdir().unwrap(), query }
        }

        fn write(&self, name: &str, rows: &[i32]) -> (PathBuf, Digest) {
            let path = self.dir.path().join(name);
            let column = Arc::new(Int32Array::from(rows.to_vec())) as _;
            let batch = RecordBatch::try_from_iter([("c0", column)]).unwrap();
            let file = fs::File::create(&path).unwrap();
            let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            let mut digest = Digest::default();
            digest.add(&batch).unwrap();
            (path, digest)
        }

        fn run(&self, engine: Engine, rows: &[i32]) -> Judged {
            let (path, digest) = self.write(&format!("{engine}.parquet"), rows);
            let outcome = Outcome { digest: Some(digest), ..Outcome::new(Status::Ok, None, 0.0) };
            Judged::new(engine, outcome, path)
        }

        fn judge(&self, stock: &[i32], ifile: &[i32], answer: Option<&[i32]>) -> Vec<Judged> {
            let mut runs = vec![self.run(Engine::Stock, stock), self.run(Engine::Ifile, ifile)];
            let answers = answer.map(|rows| {
                self.write("q1.parquet", rows);
                self.dir.path()
            });
            judge(&mut runs, &self.query, answers, &self.dir.path().join("wrong")).unwrap();
            runs
        }
    }

    fn verdicts(runs: &[Judged]) -> Vec<(Status, Option<bool>, Option<bool>)> {
        runs.iter().map(|run| (run.outcome.status, run.agrees, run.verified)).collect()
    }

    #[test]
    fn equal_results_leave_no_file() {
        let bench = Bench::new();
        let runs = bench.judge(&[1, 2], &[2, 1], Some(&[1, 2]));
        assert_eq!(verdicts(&runs), [(Status::Ok, Some(true), Some(true)); 2]);
        assert!(runs.iter().all(|run| !run.result.exists() && run.notes.is_empty()));
    }

    #[test]
    fn without_an_answer_the_stock_engine_is_taken_to_be_right() {
        let bench = Bench::new();
        let runs = bench.judge(&[1, 2], &[1, 3], None);
        let expected = [(Status::Ok, Some(false), None), (Status::Wrong, Some(false), None)];
        assert_eq!(verdicts(&runs), expected);
        assert!(runs.iter().all(|run| run.result.starts_with(bench.dir.path().join("wrong"))));
        assert_eq!(
            runs[1].notes[..4],
            ["1 rows only in stock", "  \"2\"", "1 rows only in ifile", "  \"3\""]
        );
    }

    #[test]
    fn an_answer_tells_which_engine_is_wrong() {
        let bench = Bench::new();
        let runs = bench.judge(&[1, 2], &[1, 3], Some(&[1, 3]));
        let expected =
            [(Status::Wrong, Some(false), Some(false)), (Status::Ok, Some(false), Some(true))];
        assert_eq!(verdicts(&runs), expected);
    }

    #[test]
    fn an_error_is_shown_by_its_refusal_or_its_start() {
        let nested = "Not enough memory to sort. caused by\nResources exhausted: Failed to allocate \
                      additional 1 KB for Sorter[0] with 0 B already allocated\nmore";
        assert_eq!(
            shorten(nested),
            "Failed to allocate additional 1 KB for Sorter[0] with 0 B already allocated"
        );
        assert_eq!(shorten("one\ntwo\nthree"), "one two");
    }

    #[test]
    fn a_run_that_failed_is_not_compared() {
        let bench = Bench::new();
        let mut runs = vec![bench.run(Engine::Stock, &[1]), bench.run(Engine::Ifile, &[1])];
        runs[0].outcome.status = Status::Oom;
        judge(&mut runs, &bench.query, None, &bench.dir.path().join("wrong")).unwrap();
        assert_eq!(verdicts(&runs), [(Status::Oom, None, None), (Status::Ok, None, None)]);
    }
}
