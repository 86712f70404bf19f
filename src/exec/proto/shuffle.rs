//! Shuffle nodes on the wire. Field numbers are frozen.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{
    DataFusionError, Result, internal_datafusion_err, internal_err, not_impl_err,
};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::{
    parse_physical_sort_exprs, parse_protobuf_partitioning,
};
use datafusion_proto::physical_plan::to_proto::{
    serialize_partitioning, serialize_physical_sort_exprs,
};
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{
    Partitioning as ProtoPartitioning, PhysicalSortExprNode, Schema as ProtoSchema,
};
use prost::Message;

use super::super::{IFileShuffleReaderExec, IFileShuffleWriterExec, ShuffleWrite};
use super::{OptionNode, option_nodes, options_of, put_message, take_message};
use crate::map_output::{IndexLayout, LocalOutput, MapOutputOptions, OutputName, ShuffleRead};
use crate::map_status::{AttemptId, Location, PartitionFunction, Placement};

pub(super) const WRITER: &[u8; 4] = b"IFW\x01";
pub(super) const READER: &[u8; 4] = b"IFS\x01";

#[derive(Clone, PartialEq, Message)]
struct WriterNode {
    #[prost(message, optional, tag = "1")]
    partitioning: Option<ProtoPartitioning>,
    #[prost(message, repeated, tag = "2")]
    options: Vec<OptionNode>,
    #[prost(string, tag = "3")]
    directory: String,
    #[prost(uint64, tag = "4")]
    shuffle: u64,
    #[prost(uint64, tag = "5")]
    map_id: u64,
    #[prost(uint32, tag = "6")]
    attempt: u32,
    #[prost(uint64, tag = "7")]
    epoch: u64,
    #[prost(string, tag = "8")]
    executor: String,
    #[prost(string, tag = "9")]
    host: String,
    #[prost(uint32, tag = "10")]
    port: u32,
    #[prost(string, tag = "11")]
    path: String,
    #[prost(uint32, tag = "12")]
    layout: u32,
    #[prost(bool, tag = "13")]
    fsync: bool,
    #[prost(uint64, tag = "14")]
    staged_bytes: u64,
    #[prost(bool, tag = "15")]
    join_small_blocks: bool,
}

#[derive(Clone, PartialEq, Message)]
struct ReaderNode {
    #[prost(message, optional, tag = "1")]
    schema: Option<ProtoSchema>,
    #[prost(message, optional, tag = "2")]
    partitioning: Option<ProtoPartitioning>,
    #[prost(message, repeated, tag = "3")]
    options: Vec<OptionNode>,
    #[prost(message, repeated, tag = "4")]
    order: Vec<PhysicalSortExprNode>,
    #[prost(uint32, tag = "5")]
    function: u32,
    #[prost(uint64, tag = "6")]
    seed: u64,
    #[prost(uint32, tag = "7")]
    count: u32,
    #[prost(message, repeated, tag = "8")]
    partitions: Vec<ReadsNode>,
}

#[derive(Clone, PartialEq, Message)]
struct ReadsNode {
    #[prost(message, repeated, tag = "1")]
    reads: Vec<ReadNode>,
}

#[derive(Clone, PartialEq, Message)]
struct ReadNode {
    #[prost(uint64, tag = "1")]
    map_id: u64,
    #[prost(string, tag = "2")]
    data: String,
    #[prost(string, tag = "3")]
    index: String,
    #[prost(uint32, tag = "4")]
    layout: u32,
    #[prost(uint32, tag = "5")]
    start: u32,
    #[prost(uint32, tag = "6")]
    end: u32,
    #[prost(message, optional, tag = "7")]
    segments: Option<SegmentsNode>,
    #[prost(bytes = "vec", optional, tag = "8")]
    attempt_id: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct SegmentsNode {
    #[prost(uint64, tag = "1")]
    start: u64,
    #[prost(uint64, tag = "2")]
    end: u64,
}

pub(super) fn encode_writer(
    exec: &IFileShuffleWriterExec,
    buf: &mut Vec<u8>,
    converter: &dyn PhysicalProtoConverterExtension,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<()> {
    let write = exec.shuffle_write();
    let node = WriterNode {
        partitioning: Some(serialize_partitioning(exec.partitioning(), codec, converter)?),
        options: option_nodes(exec.options()),
        directory: path_text(&write.directory)?,
        shuffle: write.name.shuffle,
        map_id: write.name.map_id,
        attempt: write.attempt,
        epoch: write.epoch,
        executor: write.location.executor.to_string(),
        host: write.location.host.to_string(),
        port: u32::from(write.location.port),
        path: write.location.path.to_string(),
        layout: u32::from(write.output.layout.wire_id()),
        fsync: write.output.fsync,
        staged_bytes: to_u64(write.output.staged_bytes),
        join_small_blocks: write.output.join_small_blocks,
    };
    put_message(&node, WRITER, buf)
}

pub(super) fn decode_writer(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &TaskContext,
    converter: &dyn PhysicalProtoConverterExtension,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<Arc<dyn ExecutionPlan>> {
    let node: WriterNode = take_message(bytes, "an IFileShuffleWriterExec")?;
    let [input] = inputs else {
        return internal_err!("an IFileShuffleWriterExec has one input, got {}", inputs.len());
    };
    let context = PhysicalPlanDecodeContext::new(context, codec);
    let partitioning = node.partitioning.as_ref();
    let partitioning =
        parse_protobuf_partitioning(partitioning, &context, &input.schema(), converter)?
            .ok_or_else(|| missing("partitioning"))?;
    let write = ShuffleWrite {
        directory: node.directory.into(),
        name: OutputName { shuffle: node.shuffle, map_id: node.map_id },
        attempt: node.attempt,
        epoch: node.epoch,
        location: Location {
            executor: node.executor.into(),
            host: node.host.into(),
            port: fit(node.port, "port")?,
            path: node.path.into(),
        },
        output: MapOutputOptions {
            layout: layout_of(node.layout)?,
            fsync: node.fsync,
            staged_bytes: fit(node.staged_bytes, "staged bytes")?,
            join_small_blocks: node.join_small_blocks,
        },
    };
    let options = options_of(&node.options)?;
    let exec = IFileShuffleWriterExec::try_new(Arc::clone(input), partitioning, write, options)?;
    Ok(Arc::new(exec))
}

pub(super) fn encode_reader(
    exec: &IFileShuffleReaderExec,
    buf: &mut Vec<u8>,
    converter: &dyn PhysicalProtoConverterExtension,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<()> {
    let placement = exec.placement();
    let order = exec.order().into_iter().flatten().cloned();
    let reads = |reads: &Vec<ShuffleRead>| -> Result<ReadsNode> {
        Ok(ReadsNode { reads: reads.iter().map(read_node).collect::<Result<_>>()? })
    };
    let node = ReaderNode {
        schema: Some(exec.schema().as_ref().try_into()?),
        partitioning: Some(serialize_partitioning(
            &exec.properties().partitioning,
            codec,
            converter,
        )?),
        options: option_nodes(exec.options()),
        order: serialize_physical_sort_exprs(order, codec, converter)?,
        function: u32::from(placement.function.wire_id()),
        seed: placement.seed,
        count: placement.count,
        partitions: exec.reads().iter().map(reads).collect::<Result<_>>()?,
    };
    put_message(&node, READER, buf)
}

fn read_node(read: &ShuffleRead) -> Result<ReadNode> {
    let Some(local) = read.source.as_local() else {
        return not_impl_err!("a shuffle read of {:?} in another process", read.source);
    };
    Ok(ReadNode {
        map_id: read.source.map_id(),
        data: path_text(local.data())?,
        index: path_text(local.index())?,
        layout: u32::from(read.source.layout().wire_id()),
        start: read.partitions.start,
        end: read.partitions.end,
        segments: read.segments.as_ref().map(|segments| SegmentsNode {
            start: to_u64(segments.start),
            end: to_u64(segments.end),
        }),
        attempt_id: read.attempt_id.map(|id| id.0.to_vec()),
    })
}

pub(super) fn decode_reader(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &TaskContext,
    converter: &dyn PhysicalProtoConverterExtension,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<Arc<dyn ExecutionPlan>> {
    let node: ReaderNode = take_message(bytes, "an IFileShuffleReaderExec")?;
    if !inputs.is_empty() {
        return internal_err!("an IFileShuffleReaderExec has no inputs, got {}", inputs.len());
    }
    let schema: Schema = node.schema.as_ref().ok_or_else(|| missing("schema"))?.try_into()?;
    let context = PhysicalPlanDecodeContext::new(context, codec);
    let partitioning = node.partitioning.as_ref();
    let partitioning = parse_protobuf_partitioning(partitioning, &context, &schema, converter)?
        .ok_or_else(|| missing("partitioning"))?;
    let order = parse_physical_sort_exprs(&node.order, &context, &schema, converter)?;
    let function = PartitionFunction::from_wire_id(fit(node.function, "partition function")?)?;
    let placement = Placement { function, seed: node.seed, count: node.count };
    let reads = |reads: &ReadsNode| reads.reads.iter().map(read_of).collect::<Result<Vec<_>>>();
    let reads = node.partitions.iter().map(reads).collect::<Result<Vec<_>>>()?;
    let options = options_of(&node.options)?;
    let schema = Arc::new(schema);
    let exec = IFileShuffleReaderExec::try_new(schema, placement, partitioning, reads, options)?;
    Ok(Arc::new(match LexOrdering::new(order) {
        Some(order) => exec.with_order(order),
        None => exec,
    }))
}

fn read_of(node: &ReadNode) -> Result<ShuffleRead> {
    let layout = layout_of(node.layout)?;
    let source = LocalOutput::new(node.map_id, &node.data, &node.index, layout);
    let read = ShuffleRead::new(Arc::new(source), node.start..node.end);
    let id = node.attempt_id.as_ref().map(|bytes| {
        let id = bytes.as_slice().try_into().map(AttemptId);
        id.map_err(|_| internal_datafusion_err!("an attempt id of {} bytes", bytes.len()))
    });
    let read = read.with_attempt_id(id.transpose()?);
    Ok(match &node.segments {
        Some(segments) => {
            let (start, end) = (fit(segments.start, "segment")?, fit(segments.end, "segment")?);
            read.with_segments(start..end)
        }
        None => read,
    })
}

fn layout_of(id: u32) -> Result<IndexLayout> {
    Ok(IndexLayout::from_wire_id(fit(id, "index layout")?)?)
}

fn path_text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| internal_datafusion_err!("the path {} is not UTF-8", path.display()))
}

fn fit<N: TryFrom<T>, T: Copy + std::fmt::Display>(value: T, what: &str) -> Result<N> {
    N::try_from(value).map_err(|_| internal_datafusion_err!("{value} is too large for a {what}"))
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn missing(what: &str) -> DataFusionError {
    internal_datafusion_err!("a shuffle node without {what}")
}
