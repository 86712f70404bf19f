//! Tables as a session knows them.

use std::fs;
use std::path::Path;

use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::Result;

/// Registers every directory of `tables` as a table, but those that are not complete, whose names have a dot.
///
/// # Errors
///
/// Fails when a directory cannot be read.
pub(crate) async fn register_tables(context: &SessionContext, tables: &Path) -> Result<()> {
    let failed = |e| format!("{}: {e}", tables.display());
    let tables = fs::canonicalize(tables).map_err(failed)?;
    for entry in fs::read_dir(&tables).map_err(failed)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.contains('.') {
            // The slash at the end makes it a directory of files.
            let url = format!("{}/", entry.path().display());
            context.register_parquet(&name, url, ParquetReadOptions::default()).await?;
        }
    }
    Ok(())
}
