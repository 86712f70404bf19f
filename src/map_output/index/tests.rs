//! The three layouts against stored files, which were made by the specification and not by this code.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};

use super::super::segment::composed_crc;
use super::*;
use crate::block::schema_fingerprint;
use crate::map_status::PartitionFunction;

const IFILE: &[u8] = include_bytes!("../../../tests/golden/map_output/ifile.index");
const TEZ: &[u8] = include_bytes!("../../../tests/golden/map_output/tez.index");
const BALLISTA: &[u8] = include_bytes!("../../../tests/golden/map_output/ballista.index");

/// 70 partitions, so that there are two pages; each seventh is empty, and with `several` each fifth has two segments.
fn partitions(several: bool) -> Vec<Vec<StoredSegment>> {
    let mut offset = 0;
    let mut segment = |partition: u32, run: u32| {
        let stored = 100 + u64::from(partition);
        let segment = StoredSegment {
            offset,
            stored,
            raw: stored - 4,
            rows: u64::from(10 * partition + run),
            run,
            crc32: partition.wrapping_mul(0x9e37_79b9) ^ run,
        };
        offset += stored;
        segment
    };
    let runs = |partition: u32| match (partition % 7, partition % 5) {
        (0, _) => 0,
        (_, 0) if several => 2,
        _ => 1,
    };
    (0..70).map(|p| (0..runs(p)).map(|run| segment(p, run)).collect()).collect()
}

fn head(partitions: &[Vec<StoredSegment>]) -> OutputHead {
    let schema = Schema::new(vec![
        Field::new("n", DataType::Int64, false),
        Field::new("t", DataType::Utf8, true),
    ]);
    OutputHead {
        attempt_id: AttemptId(std::array::from_fn(|at| u8::try_from(0xa0 + at).unwrap_or(0))),
        map_id: 0x0102_0304_0506_0708,
        attempt: 3,
        epoch: 42,
        schema_fingerprint: schema_fingerprint(&schema),
        placement: Placement { function: PartitionFunction::Hash, seed: 0x1122_3344, count: 70 },
        codec: Codec::Lz4,
        sorted: true,
        data_length: partitions.iter().flatten().map(|segment| segment.stored).sum(),
        data_crc: composed_crc(partitions.iter().flatten()),
        schema: Arc::new(schema),
    }
}

struct Bytes(&'static [u8]);

impl OpenSegments for Bytes {
    fn index_len(&mut self) -> Result<u64> {
        Ok(to_u64(self.0.len()))
    }

    fn read_index(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[start..start + buffer.len()]);
        Ok(())
    }

    fn data_len(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn read_data(&mut self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(IFileError::Usage("there is no data"))
    }
}

#[test]
fn layouts_are_those_of_the_stored_files() {
    for (layout, golden) in
        [(IndexLayout::IFile, IFILE), (IndexLayout::Tez, TEZ), (IndexLayout::Ballista, BALLISTA)]
    {
        let partitions = partitions(layout != IndexLayout::Tez);
        let head = head(&partitions);
        let written = encode_index(layout, &head, &partitions).unwrap();
        let differs = written.iter().zip(golden).position(|(a, b)| a != b);
        assert_eq!((written.len(), differs), (golden.len(), None), "{layout}: {written:02x?}");

        let (mut source, name) = (Bytes(golden), Arc::from("golden"));
        let length = Some(head.data_length);
        let mut index = OutputIndex::open(&mut source, layout, 70, &name, length).unwrap();
        assert_eq!((index.layout(), index.partitions()), (layout, 70));
        let exact = layout != IndexLayout::Tez;
        assert_eq!(index.head(), exact.then_some(&head));
        for (partition, expected) in (0..).zip(&partitions) {
            let known = |segment: &StoredSegment| match exact {
                true => *segment,
                false => StoredSegment { rows: 0, run: 0, crc32: 0, ..*segment },
            };
            let expected: Vec<_> = expected.iter().map(known).collect();
            assert_eq!(index.segments(&mut source, partition).unwrap(), expected, "{layout}");
        }
    }
}
