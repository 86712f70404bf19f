use datafusion::common::DataFusionError;

use super::BlockError;

impl From<BlockError> for DataFusionError {
    /// Wraps the error as external, so that a caller gets it back by downcast.
    fn from(error: BlockError) -> Self {
        Self::External(Box::new(error))
    }
}
