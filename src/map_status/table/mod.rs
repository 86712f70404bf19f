//! Many statuses as one table, laid out by column.

mod encode;
mod header;
mod maps;
mod read;
mod transpose;

pub use encode::{TableEncoder, encode_table};
pub use read::{StatusTable, TableScratch};
