use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;
use std::sync::Arc;

use super::generate::{self, NESTED_KINDS, Rng};
use super::{CODECS, round_trip};
use crate::block::{BlockEncoder, BlockError, BlockSlice};

fn column(rng: &mut Rng, data_type: &DataType, rows: usize) -> RecordBatch {
    let nullable = generate::may_be_null(data_type) || rng.chance(70);
    let array = generate::array(rng, data_type, rows, nullable);
    let schema = Schema::new(vec![Field::new("c", data_type.clone(), nullable)]);
    RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap()
}

fn check(rng: &mut Rng, data_type: &DataType) {
    for rows in [0, 1, 2, 7, 8, 9, 63, 64, 65, 300, 1000] {
        let batch = column(rng, data_type, rows);
        let codec = CODECS[rng.below(CODECS.len())];
        round_trip(&batch, 0, rows, codec);
        if rows >= 8 {
            round_trip(&batch, 3, rows - 8, codec);
            round_trip(&batch, rows - 1, 1, codec);
        }
    }
}

#[test]
fn every_leaf_type_survives() {
    for data_type in generate::leaf_types() {
        for seed in 0..30 {
            check(&mut Rng(seed), &data_type);
        }
    }
}

#[test]
fn every_nested_form_survives() {
    for kind in 0..NESTED_KINDS {
        for seed in 0..60 {
            let mut rng = Rng(seed);
            let data_type = generate::nested_type(&mut rng, kind, 0);
            check(&mut rng, &data_type);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_schemas_survive(seed: u64, columns in 0usize..6, rows in 0usize..400, from in 0usize..400, len in 0usize..400) {
        let mut rng = Rng(seed);
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for i in 0..columns {
            let data_type = generate::random_type(&mut rng, 3);
            let nullable = generate::may_be_null(&data_type) || rng.chance(70);
            let array = generate::array(&mut rng, &data_type, rows, nullable);
                    fields.push(Field::new(format!("c{i}"), data_type, nullable));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).unwrap();
        let from = from.min(rows);
        let len = len.min(rows - from);
        round_trip(&batch, from, len, CODECS[rng.below(4)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_of_several_batches_survive(seed: u64, counts in proptest::collection::vec(0usize..90, 1..6)) {
        let mut rng = Rng(seed);
        let data_type = generate::random_type(&mut rng, 3);
        let batches: Vec<RecordBatch> =
            counts.iter().map(|rows| super::batch(vec![("c", generate::array(&mut rng, &data_type, *rows, true))])).collect();
        let slices: Vec<BlockSlice<'_>> = batches
            .iter()
            .map(|batch| {
                let offset = rng.below(batch.num_rows() + 1);
                BlockSlice { batch, offset, len: rng.below(batch.num_rows() - offset + 1) }
            })
            .collect();
        let schema = batches[0].schema();
        let mut out = Vec::new();
        let mut encoder = BlockEncoder::try_new(schema.clone(), CODECS[rng.below(4)]).unwrap();
        match encoder.encode_slices(&slices, &mut out) {
            Err(BlockError::Limit { what: "dictionary values", .. }) => return Ok(()),
            result => prop_assert_eq!(result.unwrap().stored_bytes, out.len()),
        }
        let decoded = super::decode(schema, &out);
        let mut at = 0;
        for slice in slices {
            let found = decoded.slice(at, slice.len);
            let wanted = slice.batch.slice(slice.offset, slice.len);
            prop_assert_eq!(found.column(0).to_data(), wanted.column(0).to_data());
            at += slice.len;
        }
        prop_assert_eq!(at, decoded.num_rows());
    }
}
