//! Batches of mixed types. Column `id` names a row, `key` places it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Int8Array, Int32Array,
    Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder, StringViewArray, StructArray,
    UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Fields, Int8Type, Int32Type, Schema, SchemaRef};

use crate::rng::Rng;

/// A payload column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// Views into buffers that all batches share.
    View,
    /// Dictionaries that do not fit the key type together.
    SmallDictionary,
    Dictionary,
    List,
    Struct,
    Decimal,
    Boolean,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Text,
    Kind::View,
    Kind::SmallDictionary,
    Kind::Dictionary,
    Kind::List,
    Kind::Struct,
    Kind::Decimal,
    Kind::Boolean,
];

fn struct_fields() -> Fields {
    Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
    ])
}

fn field(index: usize, kind: Kind) -> Field {
    let text = Box::new(DataType::Utf8);
    let data_type = match kind {
        Kind::Text => DataType::Utf8,
        Kind::View => DataType::Utf8View,
        Kind::SmallDictionary => DataType::Dictionary(Box::new(DataType::Int8), text),
        Kind::Dictionary => DataType::Dictionary(Box::new(DataType::Int32), text),
        Kind::List => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        Kind::Struct => DataType::Struct(struct_fields()),
        Kind::Decimal => DataType::Decimal128(20, 3),
        Kind::Boolean => DataType::Boolean,
    };
    Field::new(format!("c{index}"), data_type, true)
}

pub(crate) fn schema(kinds: &[Kind]) -> SchemaRef {
    let mut fields =
        vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int64, true)];
    fields.extend(kinds.iter().enumerate().map(|(index, kind)| field(index, *kind)));
    Arc::new(Schema::new(fields))
}

/// Makes the batches of a case.
pub(crate) struct Maker {
    schema: SchemaRef,
    kinds: Vec<Kind>,
    views: ArrayRef,
    dictionaries: Vec<ArrayRef>,
    small: Vec<ArrayRef>,
}

impl Maker {
    pub(crate) fn new(kinds: &[Kind], rng: &mut Rng) -> Self {
        let views = (0..64).map(|index| word(rng, if index % 3 == 0 { 8 } else { 60 }));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(views));
        let mut dictionary = |values: usize| -> ArrayRef {
            let words = (0..values).map(|_| word(rng, 20));
            Arc::new(StringArray::from_iter_values(words))
        };
        Self {
            schema: schema(kinds),
            kinds: kinds.to_vec(),
            views,
            dictionaries: (0..3).map(|_| dictionary(30)).collect(),
            small: (0..3).map(|_| dictionary(100)).collect(),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch of the rows `ids`. Some batches are slices of longer ones.
    pub(crate) fn batch(&self, ids: &[i64], rng: &mut Rng) -> RecordBatch {
        let before = if rng.chance(30) { 3 } else { 0 };
        let mut padded = vec![-1; before];
        padded.extend(ids);
        padded.extend(vec![-1; before]);
        let rows = padded.len();
        let ids_column: ArrayRef = Arc::new(Int64Array::from(padded));
        let keys: Int64Array =
            (0..rows).map(|_| maybe(rng, |rng| i64::try_from(rng.below(50)).unwrap())).collect();
        let mut columns: Vec<ArrayRef> = vec![ids_column, Arc::new(keys)];
        columns.extend(self.kinds.iter().map(|kind| self.column(*kind, rows, rng)));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).unwrap();
        batch.slice(before, ids.len())
    }

    fn column(&self, kind: Kind, rows: usize, rng: &mut Rng) -> ArrayRef {
        match kind {
            Kind::Text => {
                let texts = (0..rows).map(|_| maybe(rng, |rng| word(rng, 40)));
                Arc::new(texts.collect::<StringArray>())
            }
            Kind::View => self.views(rows, rng),
            Kind::SmallDictionary => {
                let values = Arc::clone(&self.small[rng.below(self.small.len())]);
                let keys: Int8Array = (0..rows)
                    .map(|_| maybe(rng, |rng| i8::try_from(rng.below(100)).unwrap()))
                    .collect();
                Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap())
            }
            Kind::Dictionary => {
                let values = Arc::clone(&self.dictionaries[rng.below(self.dictionaries.len())]);
                let keys: Int32Array = (0..rows)
                    .map(|_| maybe(rng, |rng| i32::try_from(rng.below(30)).unwrap()))
                    .collect();
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap())
            }
            Kind::List => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for _ in 0..rows {
                    for _ in 0..rng.below(4) {
                        lists.values().append_option(maybe(rng, |rng| word(rng, 10)));
                    }
                    lists.append(!rng.chance(10));
                }
                Arc::new(lists.finish())
            }
            Kind::Struct => {
                let numbers: Int64Array =
                    (0..rows).map(|_| maybe(rng, |rng| (rng.next() >> 20) as i64)).collect();
                let columns = vec![Arc::new(numbers) as ArrayRef, self.views(rows, rng)];
                let valid: Vec<bool> = (0..rows).map(|_| !rng.chance(10)).collect();
                Arc::new(StructArray::new(struct_fields(), columns, Some(valid.into())))
            }
            Kind::Decimal => {
                let values: Decimal128Array =
                    (0..rows).map(|_| maybe(rng, |rng| i128::from(rng.next() as i64))).collect();
                Arc::new(values.with_precision_and_scale(20, 3).unwrap())
            }
            Kind::Boolean => {
                let values = (0..rows).map(|_| maybe(rng, |rng| rng.chance(50)));
                Arc::new(values.collect::<BooleanArray>())
            }
        }
    }

    fn views(&self, rows: usize, rng: &mut Rng) -> ArrayRef {
        let index: UInt32Array = (0..rows)
            .map(|_| maybe(rng, |rng| u32::try_from(rng.below(self.views.len())).unwrap()))
            .collect();
        take(&self.views, &index, None).unwrap()
    }
}

fn maybe<T>(rng: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    if rng.chance(15) { None } else { Some(make(rng)) }
}

fn word(rng: &mut Rng, longest: usize) -> String {
    let len = rng.below(longest + 1);
    (0..len).map(|_| char::from(b'a' + u8::try_from(rng.below(26)).unwrap())).collect()
}
