//! The eight tables of TPC-H, and the generator of each.

use datafusion::arrow::datatypes::SchemaRef;
use tpchgen::generators as rows;

use crate::Result;
use crate::tables::Batches;

macro_rules! tables {
    ($($name:literal => $table:ident($rows:ident),)*) => {
        /// Every table, largest first.
        pub(crate) const TABLES: [&str; 8] = [$($name),*];

        /// The columns of `table`.
        ///
        /// # Errors
        ///
        /// Fails when there is no such table.
        pub(crate) fn schema(table: &str) -> Result<SchemaRef> {
            match table {
                $($name => Ok(tpchgen_arrow::$table::schema_ref()),)*
                _ => Err(format!("TPC-H has no table {table}").into()),
            }
        }

        /// The rows of part `part` of `parts`, counted from 1.
        pub(crate) fn batches(table: &str, scale: f64, part: i32, parts: i32) -> Batches {
            match table {
                $($name => {
                    let rows = rows::$rows::new(scale, part, parts);
                    Box::new(tpchgen_arrow::$table::new(rows))
                })*
                _ => Box::new(std::iter::empty()),
            }
        }
    };
}

tables! {
    "lineitem" => LineItemArrow(LineItemGenerator),
    "orders" => OrderArrow(OrderGenerator),
    "partsupp" => PartSuppArrow(PartSuppGenerator),
    "part" => PartArrow(PartGenerator),
    "customer" => CustomerArrow(CustomerGenerator),
    "supplier" => SupplierArrow(SupplierGenerator),
    "nation" => NationArrow(NationGenerator),
    "region" => RegionArrow(RegionGenerator),
}

/// How many parts `table` is made in: nation and region have no parts, supplier is small.
pub(crate) fn parts(table: &str) -> i32 {
    if matches!(table, "nation" | "region" | "supplier") { 1 } else { 64 }
}
