//! Columns of every Arrow type, nested ones too, go through the exchange unchanged: in memory, and
//! through blocks and scratch files. A type that blocks cannot carry is refused when planning.

#[path = "../../src/block/tests/generate.rs"]
#[allow(dead_code, reason = "only a part of the generator is needed")]
mod generate;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_ifile::{IFileOptions, block};

use self::generate::{NESTED_KINDS, Rng, array, leaf_types, may_be_null, nested_type};
use super::support::{
    assert_nothing_left, context, drain, exchange, greedy_runtime, hash, memory_plan,
};

const BATCHES: usize = 6;
const ROWS: usize = 53;

fn column_types(rng: &mut Rng) -> Vec<DataType> {
    let mut types = leaf_types();
    for depth in 1..=2 {
        types.extend((0..NESTED_KINDS).map(|kind| nested_type(rng, kind, depth)));
    }
    types
}

/// Batches whose rows are a slice of larger arrays.
fn batches(rng: &mut Rng, schema: &SchemaRef) -> Vec<RecordBatch> {
    let made = (0..BATCHES).map(|batch| {
        let first = (batch * ROWS) as i64;
        let ids: ArrayRef =
            Arc::new(Int64Array::from_iter_values(first - 3..first + 2 + ROWS as i64));
        let field = schema.field(1);
        let values = array(rng, field.data_type(), ROWS + 5, field.is_nullable());
        RecordBatch::try_new(Arc::clone(schema), vec![ids, values]).unwrap().slice(3, ROWS)
    });
    made.collect()
}

async fn passes(input: &[RecordBatch], schema: &SchemaRef, pool_bytes: usize) {
    let (left, right) = input.split_at(input.len() / 2);
    let plan = memory_plan(&[left.to_vec(), right.to_vec()], schema);
    let partitioning = hash(&plan, "id", 5);
    let options = IFileOptions { block_bytes: 4096, ..IFileOptions::default() };
    let plan = exchange(plan, partitioning, options);
    let runtime = greedy_runtime(pool_bytes);
    let parts = drain(&plan, &context(&runtime, 16)).await;
    let parts = parts.unwrap_or_else(|error| panic!("{}: {error}", schema.field(1)));
    let all = concat_batches(schema, input).unwrap();
    let mut rows = 0;
    for batch in parts.iter().flatten() {
        assert_eq!(&batch.schema(), schema);
        let ids = batch.column(0).as_primitive::<Int64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            let expected = all.column(1).slice(*id as usize, 1);
            assert_eq!(&expected, &batch.column(1).slice(row, 1), "{}", schema.field(1));
        }
        rows += batch.num_rows();
    }
    assert_eq!(rows, BATCHES * ROWS, "{}", schema.field(1));
    assert_nothing_left(&runtime);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_passes_or_is_refused() {
    let mut rng = Rng(7);
    let mut refused = 0;
    for data_type in column_types(&mut rng) {
        let nullable = may_be_null(&data_type);
        let fields = vec![
            Field::new("id", DataType::Int64, false),
            Field::new("value", data_type, nullable),
        ];
        let schema = Arc::new(Schema::new(fields));
        if block::why_not(&schema).is_some() {
            refused += 1;
            continue;
        }
        let input = batches(&mut rng, &schema);
        passes(&input, &schema, usize::MAX / 2).await;
        passes(&input, &schema, 1).await;
    }
    assert!(refused <= 2, "{refused} types are refused");
}
