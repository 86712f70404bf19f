use std::path::Path;
use crate::Result;
use crate::results::{Cell, Run};
pub(crate) fn write(_path: &Path, _run: &Run, _cells: &[Cell]) -> Result<()> { Ok(()) }
