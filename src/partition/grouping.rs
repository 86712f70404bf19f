//! Row numbers of a batch, grouped by partition.

/// Row numbers of a batch, grouped by partition; rows of a partition keep their order.
#[derive(Debug)]
pub(crate) struct Grouped<'a> {
    order: &'a [u32],
    runs: &'a [Run],
    places: &'a [u32],
}

#[derive(Debug, Clone, Copy)]
struct Run {
    partition: usize,
    start: usize,
    end: usize,
}

impl<'a> Grouped<'a> {
    /// The partition and the row numbers of run `index`.
    #[expect(clippy::indexing_slicing, reason = "runs are made with their order")]
    pub(crate) fn run(&self, index: usize) -> (usize, &'a [u32]) {
        let run = self.runs[index];
        (run.partition, &self.order[run.start..run.end])
    }

    /// Number of partitions that have rows.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The partition of all rows, if there is only one.
    pub(crate) fn only(&self) -> Option<usize> {
        match self.runs {
            [only] => Some(only.partition),
            _ => None,
        }
    }

    /// The runs in the order of their partitions.
    #[expect(clippy::indexing_slicing, reason = "the indices are below the number of runs")]
    pub(crate) fn by_partition(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_unstable_by_key(|&index| self.runs[index].partition);
        order
    }

    /// The place of every row in the grouped order.
    pub(crate) fn places(&self) -> &'a [u32] {
        self.places
    }

    /// Where run `index` starts in the grouped order.
    #[expect(clippy::indexing_slicing, reason = "the index is below the number of runs")]
    pub(crate) fn start(&self, index: usize) -> usize {
        self.runs[index].start
    }
}

/// Groups the rows of batches, with scratch that they share.
#[derive(Debug)]
pub(crate) struct Grouping {
    counts: Vec<u32>,
    order: Vec<u32>,
    places: Vec<u32>,
    runs: Vec<Run>,
}

impl Grouping {
    /// For partitions below `partitions`.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            counts: vec![0; partitions],
            order: Vec::new(),
            places: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Counting sort of the row numbers by `ids`, in time that depends on the rows alone.
    #[expect(clippy::indexing_slicing, reason = "ids lie below the partition count")]
    pub(crate) fn group<'a>(&'a mut self, ids: &[u32]) -> Grouped<'a> {
        self.runs.clear();
        for &id in ids {
            let partition = id as usize;
            if self.counts[partition] == 0 {
                self.runs.push(Run { partition, start: 0, end: 0 });
            }
            self.counts[partition] += 1;
        }
        let mut start = 0;
        for run in &mut self.runs {
            let count = self.counts[run.partition] as usize;
            (run.start, run.end) = (start, start + count);
            self.counts[run.partition] = to_u32(start);
            start += count;
        }
        self.order.resize(ids.len(), 0);
        self.places.clear();
        for (row, &id) in ids.iter().enumerate() {
            let cursor = &mut self.counts[id as usize];
            self.order[*cursor as usize] = to_u32(row);
            self.places.push(*cursor);
            *cursor += 1;
        }
        for run in &self.runs {
            self.counts[run.partition] = 0;
        }
        Grouped { order: &self.order, runs: &self.runs, places: &self.places }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a batch has fewer than 2^32 rows")]
fn to_u32(row: usize) -> u32 {
    row as u32
}
