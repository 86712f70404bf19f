//! Batches leave with the schema of the plan, whatever the schemas of the input batches say about
//! nullability and metadata. (DataFusion 21292, 21738)

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::physical_expr::Partitioning;
use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    assert_nothing_left, batches, context, drain_in_turn, exchange, feed, greedy_runtime, hash,
    metric, multiset,
};

fn tagged(field: Field, value: &str) -> Field {
    let entries = [("ARROW:extension:name", value), ("unit", "m")];
    let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned()));
    field.with_metadata(HashMap::from(entries))
}

/// A schema of a number, a text, a list and a struct, all nullable or none.
fn schema(nullable: bool, tag: Option<&str>) -> SchemaRef {
    let tag = |field: Field| match tag {
        Some(tag) => tagged(field, tag),
        None => field,
    };
    let item = Arc::new(tag(Field::new("item", DataType::Int32, nullable)));
    let members = vec![
        Arc::new(tag(Field::new("a", DataType::Utf8, nullable))),
        Arc::new(Field::new("b", DataType::Int64, nullable)),
    ];
    let fields = vec![
        tag(Field::new("k", DataType::Int64, nullable)),
        tag(Field::new("s", DataType::Utf8, nullable)),
        Field::new("l", DataType::List(item), nullable),
        tag(Field::new("t", DataType::Struct(members.into()), nullable)),
    ];
    let metadata = HashMap::from([("nullable".to_owned(), nullable.to_string())]);
    Arc::new(Schema::new(fields).with_metadata(metadata))
}

fn nulls(rows: usize, every: Option<usize>) -> Option<NullBuffer> {
    every.map(|every| (0..rows).map(|row| row % every != 0).collect())
}

/// Rows in a batch of `schema`; with nulls in every column and member where `with_nulls`.
fn rows(schema: &SchemaRef, start: i64, rows: usize, with_nulls: bool) -> RecordBatch {
    let every = |step: usize| with_nulls.then_some(step);
    let numbers = start..start + rows as i64;
    let number = Int64Array::new(numbers.clone().collect(), nulls(rows, every(7)));
    let texts = |prefix: &str, step: usize| {
        let texts = StringArray::from_iter_values(numbers.clone().map(|n| format!("{prefix} {n}")));
        StringArray::new(texts.offsets().clone(), texts.values().clone(), nulls(rows, every(step)))
    };
    let DataType::List(item) = schema.field(2).data_type() else { panic!("a list") };
    let items = Int32Array::new((0..2 * rows as i32).collect(), nulls(2 * rows, every(3)));
    let list = ListArray::new(
        FieldRef::clone(item),
        OffsetBuffer::from_lengths(vec![2; rows]),
        Arc::new(items),
        nulls(rows, every(5)),
    );
    let DataType::Struct(members) = schema.field(3).data_type() else { panic!("a struct") };
    let b = Int64Array::new(numbers.clone().collect(), nulls(rows, every(4)));
    let arrays: Vec<ArrayRef> = vec![Arc::new(texts("a", 2)), Arc::new(b)];
    let structs = StructArray::new(members.clone(), arrays, nulls(rows, every(6)));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(number), Arc::new(texts("s", 3)), Arc::new(list), Arc::new(structs)];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_and_loose_batches(
    #[values("strict first", "loose first", "plan is strict")] order: &str,
    #[values("hash", "round robin", "one output")] scheme: &str,
    #[values(false, true)] spilled: bool,
    #[values(1000, 300)] batch_rows: usize,
) {
    let count = if spilled { 40 } else { 4 };
    let plan_is_strict = order == "plan is strict";
    let plan_schema = schema(!plan_is_strict, Some("plan.extension"));
    let strict = schema(false, None);
    let loose = schema(true, Some("another.extension"));
    let data: Vec<_> = (0..count)
        .map(|batch| {
            let is_strict = match order {
                "strict first" => batch % 2 == 0,
                "loose first" => batch % 2 == 1,
                _ => batch % 3 == 0,
            };
            let schema = if is_strict { &strict } else { &loose };
            rows(schema, batch * 1000, 1000, !is_strict && !plan_is_strict)
        })
        .collect();
    let expected = multiset(&data);
    let (input, _) = feed(&plan_schema, vec![batches(data.into_iter().map(Ok).collect())]);
    let partitioning = match scheme {
        "hash" => hash(&input, "k", 3),
        "round robin" => Partitioning::RoundRobinBatch(3),
        _ => hash(&input, "k", 1),
    };
    let plan = exchange(input, partitioning, IFileOptions::default());
    assert_eq!(plan.schema(), plan_schema);
    let runtime = greedy_runtime(if spilled { 1 } else { 1 << 30 });
    let parts = drain_in_turn(&plan, &context(&runtime, batch_rows)).await.unwrap();
    for batch in parts.iter().flatten() {
        assert_eq!(batch.schema(), plan_schema);
        for (column, field) in batch.columns().iter().zip(plan_schema.fields()) {
            assert_eq!(column.data_type(), field.data_type());
        }
    }
    assert_eq!(multiset(parts.iter().flatten()), expected);
    if spilled && scheme != "one output" {
        assert!(metric(&plan, "encoded_rows") > 0, "nothing was encoded");
    }
    assert_nothing_left(&runtime);
}

#[tokio::test]
async fn nulls_that_the_plan_rules_out_are_an_error() {
    let strict = schema(false, None);
    let loose = schema(true, None);
    for outputs in [1, 3] {
        let data = vec![Ok(rows(&loose, 0, 100, true))];
        let (input, _) = feed(&strict, vec![batches(data)]);
        let partitioning = hash(&input, "k", outputs);
        let plan = exchange(input, partitioning, IFileOptions::default());
        let runtime = greedy_runtime(1 << 30);
        let message = drain_in_turn(&plan, &context(&runtime, 8192)).await.unwrap_err().to_string();
        assert!(message.contains("null"), "{message}");
    }
}
