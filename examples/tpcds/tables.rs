//! The 24 tables, and the generator of each.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use tpcdsgen::config::{Session, Table};

/// Batches of a range of source rows.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

macro_rules! tables {
    ($($table:ident => $generator:ident,)*) => {
        /// Every table that a query may name, largest first: with several workers none is left over at the end.
        pub(crate) const TABLES: [Table; 24] = [$(Table::$table),*];

        /// The columns of `table`.
        pub(crate) fn schema(table: Table) -> SchemaRef {
            match table {
                $(Table::$table => tpcdsgen_arrow::$generator::schema_ref(),)*
                Table::DbgenVersion => tpcdsgen_arrow::DbgenVersionArrow::schema_ref(),
            }
        }

        /// The rows that come from source rows `first..=last`, counted from 1. A source row of a sales or
        /// returns table is an order, which becomes several rows.
        pub(crate) fn batches(table: Table, session: Session, first: u64, last: u64) -> Batches {
            match table {
                $(Table::$table => Box::new(
                    tpcdsgen_arrow::$generator::new(session).with_source_row_range(first, last),
                ),)*
                Table::DbgenVersion => Box::new(
                    tpcdsgen_arrow::DbgenVersionArrow::new(session).with_source_row_range(first, last),
                ),
            }
        }
    };
}

tables! {
    Inventory => InventoryArrow,
    StoreSales => StoreSalesArrow,
    StoreReturns => StoreReturnsArrow,
    CatalogSales => CatalogSalesArrow,
    CatalogReturns => CatalogReturnsArrow,
    WebSales => WebSalesArrow,
    WebReturns => WebReturnsArrow,
    CustomerDemographics => CustomerDemographicsArrow,
    Customer => CustomerArrow,
    CustomerAddress => CustomerAddressArrow,
    DateDim => DateDimArrow,
    TimeDim => TimeDimArrow,
    Item => ItemArrow,
    CatalogPage => CatalogPageArrow,
    HouseholdDemographics => HouseholdDemographicsArrow,
    Promotion => PromotionArrow,
    Reason => ReasonArrow,
    WebPage => WebPageArrow,
    WebSite => WebSiteArrow,
    Store => StoreArrow,
    CallCenter => CallCenterArrow,
    IncomeBand => IncomeBandArrow,
    ShipMode => ShipModeArrow,
    Warehouse => WarehouseArrow,
}

/// How many files `table` has: the large tables are split, so that a scan has partitions to share out.
pub(crate) fn files(table: Table, scale: f64) -> u64 {
    let large = matches!(
        table,
        Table::Inventory
            | Table::StoreSales
            | Table::StoreReturns
            | Table::CatalogSales
            | Table::CatalogReturns
            | Table::WebSales
            | Table::WebReturns
            | Table::CustomerDemographics
    );
    if !large {
        return 1;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive scale"
    )]
    let tens = (scale / 10.0).ceil() as u64;
    8 * tens.max(1)
}
