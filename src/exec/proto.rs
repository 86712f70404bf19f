mod shuffle;

use std::sync::Arc;

use datafusion::common::config::ExtensionOptions;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::parse_protobuf_partitioning;
use datafusion_proto::physical_plan::to_proto::serialize_partitioning;
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::Partitioning as ProtoPartitioning;
use prost::Message;

use super::{IFileRepartitionExec, IFileShuffleReaderExec, IFileShuffleWriterExec};
use crate::config::IFileOptions;

/// An [`IFileRepartitionExec`] on the wire. Field numbers are frozen.
#[derive(Clone, PartialEq, Message)]
struct RepartitionNode {
    #[prost(message, optional, tag = "1")]
    partitioning: Option<ProtoPartitioning>,
    #[prost(bool, tag = "2")]
    preserve_order: bool,
    #[prost(message, repeated, tag = "3")]
    options: Vec<OptionNode>,
}

/// One `ifile.*` option, as `SET` takes it.
#[derive(Clone, PartialEq, Message)]
struct OptionNode {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// First bytes of an encoded node, so that another codec's nodes are told from ours. The node
/// follows with its length before it: a message that is cut between two fields would decode.
const MAGIC: &[u8; 4] = b"IFR\x01";

/// Carries plans with [`IFileRepartitionExec`], [`IFileShuffleWriterExec`] and [`IFileShuffleReaderExec`] nodes through
/// protobuf; other nodes go to the inner codec. Readers go with sources that are local files.
#[derive(Debug)]
pub struct IFilePhysicalCodec {
    inner: Arc<dyn PhysicalExtensionCodec>,
}

impl Default for IFilePhysicalCodec {
    fn default() -> Self {
        Self::new(Arc::new(DefaultPhysicalExtensionCodec {}))
    }
}

impl IFilePhysicalCodec {
    /// A codec that leaves all other nodes, and what is inside of expressions, to `inner`.
    pub fn new(inner: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { inner }
    }
}

impl PhysicalExtensionCodec for IFilePhysicalCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(bytes) = bytes.strip_prefix(shuffle::WRITER) {
            return shuffle::decode_writer(bytes, inputs, context, converter, self);
        }
        if let Some(bytes) = bytes.strip_prefix(shuffle::READER) {
            return shuffle::decode_reader(bytes, inputs, context, converter, self);
        }
        let Some(bytes) = bytes.strip_prefix(MAGIC) else {
            return self.inner.try_decode(bytes, inputs, context, converter);
        };
        let [input] = inputs else {
            return internal_err!("an IFileRepartitionExec has one input, got {}", inputs.len());
        };
        let node: RepartitionNode = take_message(bytes, "an IFileRepartitionExec")?;
        let options = options_of(&node.options)?;
        let partitioning = parse_protobuf_partitioning(
            node.partitioning.as_ref(),
            &PhysicalPlanDecodeContext::new(context, self),
            &input.schema(),
            converter,
        )?
        .ok_or_else(|| internal_datafusion_err!("an IFileRepartitionExec without partitioning"))?;
        let exec = IFileRepartitionExec::try_new(Arc::clone(input), partitioning, options)?;
        Ok(Arc::new(if node.preserve_order { exec.with_preserve_order() } else { exec }))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(writer) = node.downcast_ref::<IFileShuffleWriterExec>() {
            return shuffle::encode_writer(writer, buf, converter, self);
        }
        if let Some(reader) = node.downcast_ref::<IFileShuffleReaderExec>() {
            return shuffle::encode_reader(reader, buf, converter, self);
        }
        let Some(exec) = node.downcast_ref::<IFileRepartitionExec>() else {
            return self.inner.try_encode(node, buf, converter);
        };
        let message = RepartitionNode {
            partitioning: Some(serialize_partitioning(exec.partitioning(), self, converter)?),
            preserve_order: exec.preserve_order(),
            options: option_nodes(exec.options()),
        };
        put_message(&message, MAGIC, buf)
    }
}

fn option_nodes(options: &IFileOptions) -> Vec<OptionNode> {
    let pairs = options.to_pairs().into_iter();
    pairs.map(|(key, value)| OptionNode { key: key.to_owned(), value }).collect()
}

fn options_of(nodes: &[OptionNode]) -> Result<IFileOptions> {
    let mut options = IFileOptions::default();
    for option in nodes {
        options.set(&option.key, &option.value)?;
    }
    Ok(options)
}

fn put_message(message: &impl Message, magic: &[u8; 4], buf: &mut Vec<u8>) -> Result<()> {
    buf.extend_from_slice(magic);
    message.encode_length_delimited(buf).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The message that is exactly `bytes`, called `what` in errors.
fn take_message<M: Message + Default>(mut bytes: &[u8], what: &str) -> Result<M> {
    let message = M::decode_length_delimited(&mut bytes)
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    match bytes.len() {
        0 => Ok(message),
        left => internal_err!("{left} bytes follow {what}"),
    }
}
