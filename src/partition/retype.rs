use arrow::array::ArrayData;
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

/// Gives `data` the type `target`, which may differ from its own in names, metadata and
/// nullability of nested fields alone. `None` when the types differ in more than that.
///
/// # Errors
/// Nulls where `target` allows none.
pub(super) fn retype(data: ArrayData, target: &DataType) -> Result<Option<ArrayData>> {
    if data.data_type() == target {
        return Ok(Some(data));
    }
    let children = match (data.data_type(), target) {
        (DataType::List(_), DataType::List(field))
        | (DataType::LargeList(_), DataType::LargeList(field))
        | (DataType::ListView(_), DataType::ListView(field))
        | (DataType::LargeListView(_), DataType::LargeListView(field)) => vec![field.data_type()],
        (DataType::FixedSizeList(_, own), DataType::FixedSizeList(field, width))
            if own == width =>
        {
            vec![field.data_type()]
        }
        (DataType::Map(_, own), DataType::Map(field, sorted)) if own == sorted => {
            vec![field.data_type()]
        }
        (DataType::Struct(own), DataType::Struct(fields)) if own.len() == fields.len() => {
            fields.iter().map(|field| field.data_type()).collect()
        }
        (DataType::Dictionary(own, _), DataType::Dictionary(keys, values)) if own == keys => {
            vec![values.as_ref()]
        }
        (DataType::RunEndEncoded(_, _), DataType::RunEndEncoded(ends, values)) => {
            vec![ends.data_type(), values.data_type()]
        }
        (DataType::Union(own, own_mode), DataType::Union(fields, mode))
            if own_mode == mode && own.len() == fields.len() =>
        {
            let own_ids = own.iter().map(|(id, _)| id);
            if !own_ids.eq(fields.iter().map(|(id, _)| id)) {
                return Ok(None);
            }
            fields.iter().map(|(_, field): (_, &std::sync::Arc<Field>)| field.data_type()).collect()
        }
        _ => return Ok(None),
    };
    let mut retyped = Vec::with_capacity(children.len());
    for (child, target) in data.child_data().iter().zip(children) {
        match retype(child.clone(), target)? {
            Some(child) => retyped.push(child),
            None => return Ok(None),
        }
    }
    let builder = data.into_builder().data_type(target.clone()).child_data(retyped);
    Ok(Some(builder.build()?))
}
