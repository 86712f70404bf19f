//! Sums over the results of a sweep.

use std::collections::HashMap;

use crate::args::{Engine, Setting};
use crate::protocol::{Status, Usage};
use crate::results::Cell;

/// One query with one setting, run with both exchanges.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) stock: &'a Cell,
    pub(crate) ifile: &'a Cell,
}

impl Pair<'_> {
    pub(crate) fn setting(&self) -> Setting {
        self.stock.setting()
    }

    pub(crate) fn both_ok(&self) -> bool {
        is_ok(self.stock) && is_ok(self.ifile)
    }
}

pub(crate) fn is_ok(cell: &Cell) -> bool {
    cell.outcome.status == Status::Ok
}

/// The pairs in the order of their stock runs.
pub(crate) fn pairs<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Vec<Pair<'a>> {
    let cells: Vec<&Cell> = cells.into_iter().collect();
    let key = |cell: &'a Cell| (cell.query.as_str(), cell.setting());
    let of = |engine| cells.iter().copied().filter(move |cell| cell.engine == engine);
    let ifile: HashMap<_, _> = of(Engine::Ifile).map(|cell| (key(cell), cell)).collect();
    of(Engine::Stock)
        .filter_map(|stock| Some(Pair { stock, ifile: ifile.get(&key(stock))? }))
        .collect()
}

/// What the runs of one engine took, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl Sums {
    fn add(&mut self, cell: &Cell) {
        self.seconds += cell.outcome.seconds;
        if let Some(usage) = &cell.outcome.usage {
            let Usage { cpu_seconds, reserved_peak_bytes, resident_growth_bytes, spill, .. } =
                usage;
            self.cpu_seconds += cpu_seconds;
            self.reserved_bytes += reserved_peak_bytes;
            self.resident_bytes += resident_growth_bytes;
            self.stored_bytes += spill.stored_bytes;
        }
    }
}

/// Sums of both engines over the pairs that both completed.
pub(crate) fn sums<'a>(pairs: impl IntoIterator<Item = &'a Pair<'a>>) -> (usize, Sums, Sums) {
    let (mut count, mut stock, mut ifile) = (0, Sums::default(), Sums::default());
    for pair in pairs.into_iter().filter(|pair| pair.both_ok()) {
        count += 1;
        stock.add(pair.stock);
        ifile.add(pair.ifile);
    }
    (count, stock, ifile)
}

/// How the runs of both engines ended.
pub(crate) struct Tally {
    /// Completed, and how many there are, of stock and of ours.
    pub(crate) stock: (usize, usize),
    pub(crate) ifile: (usize, usize),
    both: (usize, Sums, Sums),
}

impl Tally {
    pub(crate) fn new<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let cells: Vec<&Cell> = cells.into_iter().collect();
        let count = |engine| {
            let of = cells.iter().filter(|cell| cell.engine == engine);
            of.fold((0, 0), |(ok, all), cell| (ok + usize::from(is_ok(cell)), all + 1))
        };
        let both = sums(&pairs(cells.iter().copied()));
        Self { stock: count(Engine::Stock), ifile: count(Engine::Ifile), both }
    }

    /// One line of text.
    pub(crate) fn line(&self) -> String {
        let (count, stock, ifile) = self.both;
        format!(
            "ok of {}: stock {}, ifile {}; the {count} of both: {:.1} s, {:.1} s; stored {}, {}",
            self.stock.1.max(self.ifile.1),
            self.stock.0,
            self.ifile.0,
            stock.seconds,
            ifile.seconds,
            crate::report::bytes(stock.stored_bytes),
            crate::report::bytes(ifile.stored_bytes),
        )
    }
}

/// The quotient, where there is something to divide by.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn byte_ratio(part: u64, whole: u64) -> Option<f64> {
    ratio(part as f64, whole as f64)
}
