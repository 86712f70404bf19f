//! How the error travels through DataFusion.

use super::IFileError;
use datafusion::error::DataFusionError;

impl From<IFileError> for DataFusionError {
    /// Wraps the error as external, so that a caller gets it back by downcast.
    fn from(error: IFileError) -> Self {
        Self::External(Box::new(error))
    }
}
