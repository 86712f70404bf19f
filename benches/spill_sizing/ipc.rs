//! An Arrow IPC stream per partition, with LZ4: what an engine writes that has nothing of its own.

use crate::Partition;
use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use std::sync::Arc;

/// The side takes part.
pub(crate) const AVAILABLE: bool = true;

/// Writes all partitions.
pub(crate) fn spill(partitions: &[Partition], data: &mut Vec<u8>) {
    data.clear();
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Binary, false),
        Field::new("value", DataType::Binary, false),
    ]));
    let options =
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    for partition in partitions {
        let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(&partition.keys));
        let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(&partition.values));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![keys, values]).unwrap();
        let mut writer =
            StreamWriter::try_new_with_options(&mut *data, &schema, options.clone()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
}
