#![allow(clippy::cast_possible_truncation, reason = "small numbers that tests choose")]

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchOptions, StringArray, UInt32Array, UInt64Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;

use super::*;
use crate::block::tests::generate::{self, Rng};
use crate::block::{BlockDecoder, DecodeLimits};
use crate::codec::Codec;
use crate::partition::BlockPartitioner;
use crate::partition::grouping::Grouping;
use crate::partition::source::Rows;

/// Slabs, what they are charged with, and what came out of them.
struct Bench {
    slabs: Slabs,
    schema: SchemaRef,
    full: usize,
    charged: usize,
    encode: bool,
    /// Whether batches are narrowed as the slabs hold rows already.
    hint: bool,
    out: Vec<Vec<RecordBatch>>,
}

impl Bench {
    fn new(schema: &SchemaRef, partitions: usize, full: usize) -> Self {
        let slabs = Slabs::new(schema, partitions, full);
        Self {
            charged: slabs.overhead_bytes(),
            slabs,
            schema: Arc::clone(schema),
            full,
            encode: false,
            hint: false,
            out: vec![Vec::new(); partitions],
        }
    }

    fn push(&mut self, batch: &RecordBatch, ids: &[u32], growth: Growth) {
        let source = Source::try_new(&self.schema, batch).unwrap();
        let mut grouping = Grouping::new(self.out.len());
        let grouped = grouping.group(ids);
        let whole = grouped.only();
        let mut left: Vec<Take<'_>> = match whole {
            Some(partition) => vec![Take { partition, rows: source.all_rows() }],
            None => (0..grouped.len())
                .map(|index| {
                    let (partition, rows) = grouped.run(index);
                    Take { partition, rows: Rows::Index(rows) }
                })
                .collect(),
        };
        let layout = self.slabs.layout();
        let source = SlabSource::new(&source, self.hint.then_some(&layout));
        while !left.is_empty() {
            let takes: Vec<Take<'_>> = left
                .iter_mut()
                .map(|take| {
                    let room = self.full - self.slabs.rows(take.partition);
                    let (now, rest) = take.rows.split_at(take.rows.len().min(room));
                    let taken = Take { rows: now, ..*take };
                    take.rows = rest;
                    taken
                })
                .collect();
            self.charged += self.slabs.growth(&source, &takes, growth);
            self.slabs.append(&source, &takes, growth).unwrap();
            assert_eq!(self.charged, self.slabs.held_bytes(), "what is held is what was said");
            for take in &takes {
                if self.slabs.rows(take.partition) == self.full {
                    self.finish(take.partition);
                }
            }
            left.retain(|take| !take.rows.is_empty());
        }
    }

    fn finish(&mut self, partition: usize) {
        let (slab, bytes) = self.slabs.finish(partition).unwrap();
        self.charged -= bytes;
        assert_eq!(self.charged, self.slabs.held_bytes());
        let batch = match self.encode {
            false => Slab::join(&self.schema, &[&slab]).unwrap(),
            true => {
                let mut encoder =
                    BlockEncoder::try_new(Arc::clone(&self.schema), Codec::Lz4).unwrap();
                let mut decoder =
                    BlockDecoder::try_new(Arc::clone(&self.schema), DecodeLimits::default())
                        .unwrap();
                let half = slab.rows() / 2;
                let parts = [(0, half), (half, slab.rows() - half)];
                let parts = parts.iter().filter(|(_, len)| *len > 0).map(|(start, len)| {
                    let mut out = Vec::new();
                    let (encoder, scratch) = (&mut encoder, &mut SlabScratch::default());
                    let info = slab
                        .encode(&self.schema, encoder, scratch, *start, *len, &mut out)
                        .unwrap();
                    assert_eq!(info.rows as usize, *len);
                    decoder.decode(&out).unwrap()
                });
                concat_batches(&self.schema, &parts.collect::<Vec<_>>()).unwrap()
            }
        };
        self.out[partition].push(batch);
    }

    fn end(mut self) -> Vec<RecordBatch> {
        for partition in 0..self.out.len() {
            if self.slabs.rows(partition) > 0 {
                self.finish(partition);
            }
        }
        let joined = self.out.iter().map(|batches| concat_batches(&self.schema, batches).unwrap());
        joined.collect()
    }
}

/// The rows of each partition, by Arrow's own kernels.
fn expected(
    schema: &SchemaRef,
    batches: &[(RecordBatch, Vec<u32>)],
    partitions: usize,
) -> Vec<RecordBatch> {
    let of = |partition: usize| {
        let parts = batches.iter().map(|(batch, ids)| {
            let rows = (0_u32..).zip(ids).filter(|(_, id)| **id as usize == partition);
            let rows = UInt32Array::from_iter_values(rows.map(|(row, _)| row));
            take_record_batch(batch, &rows).unwrap()
        });
        concat_batches(schema, &parts.collect::<Vec<_>>()).unwrap()
    };
    (0..partitions).map(of).collect()
}

fn same(found: &[RecordBatch], wanted: &[RecordBatch]) {
    for (partition, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert_eq!(found.num_rows(), wanted.num_rows(), "partition {partition}");
        for (found, wanted) in found.columns().iter().zip(wanted.columns()) {
            assert_eq!(found.to_data(), wanted.to_data(), "partition {partition}");
        }
    }
}

/// Leaf types whose rows Arrow's own kernels keep: those lose values of no bytes.
fn leaves() -> Vec<DataType> {
    let types = generate::leaf_types().into_iter();
    types.filter(|t| !matches!(t, DataType::FixedSizeBinary(0) | DataType::Null)).collect()
}

fn random_batches(
    rng: &mut Rng,
    types: &[DataType],
    partitions: usize,
    count: usize,
) -> (SchemaRef, Vec<(RecordBatch, Vec<u32>)>) {
    let fields: Vec<Field> = types
        .iter()
        .enumerate()
        .map(|(index, data_type)| Field::new(format!("c{index}"), data_type.clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let skew = rng.chance(30);
    let batches = (0..count).map(|_| {
        let rows = rng.below(300);
        let nullable = rng.chance(60);
        let columns = types.iter().map(|t| generate::array(rng, t, rows, nullable)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
        let offset = rng.below(rows + 1).min(40);
        let batch = batch.unwrap().slice(offset, rows - offset);
        let id = |rng: &mut Rng| match skew && rng.chance(90) {
            true => 0,
            false => rng.below(partitions) as u32,
        };
        let ids = (0..batch.num_rows()).map(|_| id(rng)).collect();
        (batch, ids)
    });
    let batches = batches.collect();
    (schema, batches)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn rows_leave_as_they_came(
        seed: u64, columns in 1_usize..5, partitions in 1_usize..9, full in 1_usize..200,
        batches in 1_usize..6, encode: bool, hint: bool,
    ) {
        let mut rng = Rng(seed);
        let can_hold = |t: &DataType| {
            Slabs::can_hold(&Schema::new(vec![Field::new("c", t.clone(), true)]))
        };
        let leaves: Vec<DataType> = leaves().into_iter().filter(can_hold).collect();
        let types: Vec<DataType> =
            (0..columns).map(|_| leaves[rng.below(leaves.len())].clone()).collect();
        let (schema, batches) = random_batches(&mut rng, &types, partitions, batches);
        let mut bench = Bench::new(&schema, partitions, full);
        bench.encode = encode;
        bench.hint = hint;
        for (batch, ids) in &batches {
            let growth = [Growth::Ample, Growth::Careful, Growth::Lean][rng.below(3)];
            bench.push(batch, ids, growth);
        }
        same(&bench.end(), &expected(&schema, &batches, partitions));
    }

    #[test]
    fn blocks_of_partitions_hold_their_rows(
        seed: u64, columns in 1_usize..5, partitions in 1_usize..9, full in 1_usize..200,
        batches in 1_usize..6,
    ) {
        let mut rng = Rng(seed);
        let mut all = leaves();
        let list = |t: &DataType| DataType::List(Arc::new(Field::new("item", t.clone(), true)));
        let nested: Vec<DataType> = all.iter().map(list).collect();
        all.extend(nested);
        let types: Vec<DataType> =
            (0..columns).map(|_| all[rng.below(all.len())].clone()).collect();
        let (schema, batches) = random_batches(&mut rng, &types, partitions, batches);
        let mut partitioner =
            BlockPartitioner::try_new(Arc::clone(&schema), partitions, Codec::Lz4, full).unwrap();
        let small = rng.chance(50);
        if small {
            partitioner.set_most_value_bytes(1 + rng.below(2000));
        }
        let before = partitioner.held_bytes();
        let mut decoder =
            BlockDecoder::try_new(Arc::clone(&schema), DecodeLimits::default()).unwrap();
        let mut out = vec![Vec::new(); partitions];
        let mut keep = |partition: usize, bytes: &[u8], info: BlockInfo| {
            let batch = decoder.decode(bytes).unwrap();
            assert!(batch.num_rows() <= full && batch.num_rows() == info.rows as usize);
            out[partition].push(batch);
            Ok(())
        };
        for (batch, ids) in &batches {
            partitioner.push(batch, ids, &mut keep).unwrap();
        }
        partitioner.finish(&mut keep).unwrap();
        let scratch = partitioner.scratch_bytes();
        prop_assert!(partitioner.held_bytes() - scratch <= before, "staged rows are gone");
        let found: Vec<RecordBatch> =
            out.iter().map(|batches| concat_batches(&schema, batches).unwrap()).collect();
        same(&found, &expected(&schema, &batches, partitions));
    }
}

fn one_column(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap()
}

fn check(arrays: &[ArrayRef]) {
    for encode in [false, true] {
        let batches: Vec<_> = arrays
            .iter()
            .map(|array| {
                let ids: Vec<u32> = (0..array.len()).map(|row| row as u32 % 3).collect();
                (one_column(Arc::clone(array)), ids)
            })
            .collect();
        let schema = batches[0].0.schema();
        let mut bench = Bench::new(&schema, 3, 1000);
        bench.encode = encode;
        for (batch, ids) in &batches {
            bench.push(batch, ids, Growth::Careful);
        }
        same(&bench.end(), &expected(&schema, &batches, 3));
    }
}

#[test]
fn offsets_become_wider_when_the_range_does() {
    let column = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    check(&[
        column(vec![None, None]),
        column(vec![Some(7), None, Some(9)]),
        column(vec![Some(-300), Some(70_000)]),
        column(vec![Some(i64::from(u32::MAX) * 3), None]),
        column(vec![Some(i64::MIN), Some(i64::MAX), Some(0)]),
        column(vec![Some(1); 7]),
    ]);
    check(&[
        column((0..500).map(|i| Some(1_000_000 + i)).collect()),
        column((0..500).map(|i| Some(1_000_000 - i)).collect()),
        column((0..500).map(|i| Some(9_000_000_000 + i)).collect()),
    ]);
}

#[test]
fn extremes_of_all_widths_survive() {
    check(&[
        Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX), Some(-1)])),
        Arc::new(Int32Array::from(vec![5; 9])),
    ]);
    check(&[
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])),
        Arc::new(UInt64Array::from(vec![Some(0), Some(1 << 63), Some((1 << 63) - 1)])),
    ]);
    let decimals = |values: Vec<Option<i128>>| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 2).unwrap())
    };
    check(&[
        decimals(vec![Some(5), Some(-5), None]),
        decimals(vec![Some(i128::from(i64::MAX) + 5), Some(i128::from(i64::MAX))]),
        decimals(vec![Some(i128::MIN), Some(i128::MAX), None, Some(0)]),
        decimals(vec![Some(3); 4]),
    ]);
    check(&[decimals(vec![Some(i128::MAX), None]), decimals(vec![Some(0), Some(i128::MIN)])]);
}

#[test]
fn rows_without_a_value_are_told_in_every_frame() {
    // Offsets that use all their bytes but for the greatest; then all of them; then floats.
    let bytes = |top: i64| -> ArrayRef {
        Arc::new(Int64Array::from(vec![Some(0), None, Some(top - 1), Some(top), None]))
    };
    for top in [254, 255, 65_534, 65_535, (1 << 32) - 2, (1 << 32) - 1] {
        check(&[bytes(top)]);
        check(&[bytes(7), bytes(top), bytes(7)]);
    }
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::NAN)]));
    let valid: ArrayRef = Arc::new(Float64Array::from(vec![1.5; 4]));
    check(&[Arc::clone(&valid), floats, valid]);
    let small: ArrayRef = Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)]));
    let all_null: ArrayRef = Arc::new(Int8Array::from(vec![None; 5]));
    check(&[all_null, small]);
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None]));
    check(&[Arc::new(Int64Array::from(vec![None; 9])), wide]);
}

#[test]
fn values_that_stop_to_repeat_are_no_longer_numbered() {
    let partitions = 3;
    let batches: Vec<_> = (0..12)
        .map(|batch| {
            let text = |row: usize| match (batch, row) {
                (_, row) if row % 7 == 3 => None,
                (..5, row) => Some(format!("{} of few", row % 9)),
                (_, row) => Some(format!("value {row} of batch {batch}, which comes once")),
            };
            let texts: ArrayRef = Arc::new(StringArray::from_iter((0..400).map(text)));
            let ids: Vec<u32> = (0..400).map(|row| row % 3).collect();
            (one_column(texts), ids)
        })
        .collect();
    let schema = batches[0].0.schema();
    for full in [100, 1000, 10_000] {
        let mut partitioner =
            BlockPartitioner::try_new(Arc::clone(&schema), partitions, Codec::Lz4, full).unwrap();
        let mut decoder =
            BlockDecoder::try_new(Arc::clone(&schema), DecodeLimits::default()).unwrap();
        let mut out = vec![Vec::new(); partitions];
        let mut keep = |partition: usize, bytes: &[u8], _: BlockInfo| {
            out[partition].push(decoder.decode(bytes).unwrap());
            Ok(())
        };
        for (batch, ids) in &batches {
            partitioner.push(batch, ids, &mut keep).unwrap();
        }
        partitioner.finish(&mut keep).unwrap();
        let found: Vec<_> =
            out.iter().map(|batches| concat_batches(&schema, batches).unwrap()).collect();
        same(&found, &expected(&schema, &batches, partitions));
    }
}

#[test]
fn a_block_has_no_more_values_than_fit() {
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..100).map(|row| format!("{row:0>40}"))));
    let batch = one_column(texts);
    for distinct_rows in [1, 100] {
        let batch = batch.slice(0, distinct_rows);
        let mut partitioner =
            BlockPartitioner::try_new(batch.schema(), 1, Codec::None, 1000).unwrap();
        partitioner.set_most_value_bytes(400);
        let mut rows = Vec::new();
        for _ in 0..100 / distinct_rows {
            let ids = vec![0; distinct_rows];
            let mut keep = |_: usize, _: &[u8], info: BlockInfo| {
                rows.push(info.rows);
                Ok(())
            };
            partitioner.push(&batch, &ids, &mut keep).unwrap();
        }
        partitioner
            .finish(|_, _, info| {
                rows.push(info.rows);
                Ok(())
            })
            .unwrap();
        assert_eq!(rows.iter().sum::<u32>(), 100);
        assert!(rows.iter().all(|rows| *rows <= 20), "{rows:?}");
    }
}

#[test]
fn nulls_in_a_required_column_are_refused_when_they_come() {
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
    let batch = one_column(Arc::new(Int64Array::from(vec![Some(1), None])));
    let mut partitioner = BlockPartitioner::try_new(schema, 2, Codec::Lz4, 10).unwrap();
    let error = partitioner.push(&batch, &[0, 1], |_, _, _| Ok(())).unwrap_err().to_string();
    assert!(error.contains("column 'c'") && error.contains("nulls"), "{error}");
}

#[test]
fn rows_without_columns_are_counted() {
    let options = RecordBatchOptions::new().with_row_count(Some(10));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let mut partitioner = BlockPartitioner::try_new(batch.schema(), 3, Codec::Lz4, 4).unwrap();
    let mut rows = [0; 3];
    let mut count = |partition: usize, _: &[u8], info: BlockInfo| {
        rows[partition] += info.rows;
        Ok(())
    };
    partitioner.push(&batch, &[0, 1, 1, 1, 1, 1, 2, 2, 2, 0], &mut count).unwrap();
    partitioner.finish(&mut count).unwrap();
    assert_eq!(rows, [2, 5, 3]);
}

#[test]
fn several_slabs_become_one_batch() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("long text")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(1 << 40)]));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::clone(&numbers), true),
        ("t", texts, true),
    ])
    .unwrap();
    let mut slabs = Vec::new();
    for start in 0..3 {
        let mut bench = Bench::new(&batch.schema(), 1, 10);
        bench.push(&batch.slice(start, 1), &[0], Growth::Careful);
        slabs.push(bench.slabs.finish(0).unwrap().0);
    }
    let all = Slab::join(&batch.schema(), &slabs.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(all, batch);
}
