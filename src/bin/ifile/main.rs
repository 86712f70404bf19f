//! The `ifile` command line tool.
fn main() {}
