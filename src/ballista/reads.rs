//! What a partition of a stage reads: partitions of map outputs, by output.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ballista_core::serde::scheduler::PartitionLocation;
use datafusion::common::{Result, exec_err};

use crate::codec::to_u64;
use crate::map_output::{IndexLayout, LocalOutput, OutputName};

/// Some neighbouring partitions of one map output.
#[derive(Debug, Clone)]
pub(super) struct OutputRead {
    /// Where the first of them is.
    pub(super) location: Arc<PartitionLocation>,
    pub(super) partitions: Range<u32>,
    pub(super) map_id: u64,
    /// The output in errors.
    pub(super) name: Arc<str>,
}

impl OutputRead {
    fn new(location: &PartitionLocation, partition: u32) -> Result<Self> {
        let (id, executor) = (&location.partition_id, &location.executor_meta);
        let Some(map_id) = location.file_id else {
            return exec_err!(
                "partition {partition} of stage {} of job {} has no map output",
                id.stage_id,
                id.job_id.as_str()
            );
        };
        let name = format!(
            "output {map_id} of stage {} of job {} on executor {} at {}:{}",
            id.stage_id,
            id.job_id.as_str(),
            executor.id,
            executor.host,
            executor.port
        );
        Ok(Self {
            location: Arc::new(location.clone()),
            partitions: partition..partition.saturating_add(1),
            map_id,
            name: name.into(),
        })
    }

    /// The output as files below `work_dir`.
    pub(super) fn local(&self, work_dir: &Path) -> Result<LocalOutput> {
        let data = self.location.path(&work_dir.display().to_string())?;
        let index = data.with_extension("arrow.index");
        let shuffle = to_u64(self.location.partition_id.stage_id);
        let local = LocalOutput::new(self.map_id, data, index, IndexLayout::Ballista);
        Ok(local.with_output_name(OutputName { shuffle, map_id: self.map_id }))
    }

    /// Whether the output is in files below `work_dir`. Blocks the thread.
    pub(super) fn is_local(&self, work_dir: &Path) -> bool {
        let path = self.location.path(&work_dir.display().to_string());
        path.is_ok_and(|path| path.exists())
    }
}

/// Groups `locations` by output; partitions next to each other become one range, since they lie next to each other.
/// The readers of different partitions begin with different outputs, so that they do not all ask the same executor.
pub(super) fn by_output(locations: &[PartitionLocation], reader: usize) -> Result<Vec<OutputRead>> {
    let mut single = Vec::with_capacity(locations.len());
    for location in locations {
        let partition = u32::try_from(location.partition_id.partition_id);
        let Ok(partition) = partition else {
            return exec_err!("partition {} is too many", location.partition_id.partition_id);
        };
        single.push(OutputRead::new(location, partition)?);
    }
    single.sort_by(|a, b| {
        let key = |read: &OutputRead| (read.map_id, read.partitions.start);
        let executor = |read: &OutputRead| read.location.executor_meta.id.clone();
        executor(a).cmp(&executor(b)).then(key(a).cmp(&key(b)))
    });
    let mut grouped: Vec<OutputRead> = Vec::with_capacity(single.len());
    for read in single {
        match grouped.last_mut() {
            Some(last)
                if last.name == read.name && last.partitions.end == read.partitions.start =>
            {
                last.partitions.end = read.partitions.end;
            }
            _ => grouped.push(read),
        }
    }
    let count = grouped.len();
    if count > 0 {
        grouped.rotate_left(reader % count);
    }
    Ok(grouped)
}

#[cfg(test)]
pub(super) mod tests {
    use ballista_core::serde::scheduler::{
        ExecutorMetadata, ExecutorOperatingSystemSpecification, ExecutorSpecification, PartitionId,
        PartitionStats,
    };

    use super::*;

    pub(in super::super) fn location(
        executor: &str,
        file: Option<u64>,
        partition: usize,
    ) -> PartitionLocation {
        PartitionLocation {
            map_partition_id: 0,
            partition_id: PartitionId::new(&"job".into(), 2, partition),
            executor_meta: ExecutorMetadata {
                id: executor.to_owned(),
                host: "localhost".to_owned(),
                port: 1,
                grpc_port: 2,
                specification: ExecutorSpecification::default(),
                os_info: ExecutorOperatingSystemSpecification::default(),
            },
            partition_stats: PartitionStats::new(Some(1), None, Some(1)),
            file_id: file,
            is_sort_shuffle: true,
        }
    }

    #[test]
    fn neighbouring_partitions_of_an_output_are_one_read() {
        let locations = [
            location("b", Some(1), 4),
            location("a", Some(1), 3),
            location("b", Some(1), 3),
            location("b", Some(1), 6),
            location("b", Some(0), 5),
        ];
        let reads = by_output(&locations, 0).unwrap();
        let of = |read: &OutputRead| {
            (read.location.executor_meta.id.clone(), read.map_id, read.partitions.clone())
        };
        let expected = [("a", 1, 3..4), ("b", 0, 5..6), ("b", 1, 3..5), ("b", 1, 6..7)];
        let expected: Vec<_> = expected.map(|(id, map, range)| (id.to_owned(), map, range)).into();
        assert_eq!(reads.iter().map(of).collect::<Vec<_>>(), expected);
        let first = by_output(&locations, 6).unwrap().remove(0);
        assert_eq!(of(&first), expected[2]);
    }

    #[test]
    fn a_location_without_a_file_is_an_error() {
        let error = by_output(&[location("a", None, 3)], 0).unwrap_err().to_string();
        assert!(error.contains("partition 3 of stage 2 of job job has no map output"), "{error}");
    }
}
