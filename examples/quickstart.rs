//! A session with the exchange switched on, and a query over a table in memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::SessionStateBuilderExt;

#[tokio::main]
async fn main() -> Result<()> {
    let config = SessionConfig::new().with_target_partitions(4).with_information_schema(true);
    let state =
        SessionStateBuilder::new().with_config(config).with_default_features().with_ifile().build();
    let context = SessionContext::new_with_state(state);

    let cities: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Lima", "Oslo", "Pune"]));
    let sales: ArrayRef = Arc::new(Int64Array::from(vec![3, 5, 7, 11]));
    let table = RecordBatch::try_from_iter([("city", cities), ("sales", sales)])?;
    context.register_batch("orders", table)?;

    context.sql("SET ifile.codec = 'zstd:1'").await?;
    let query = "SELECT city, sum(sales) AS sales FROM orders GROUP BY city ORDER BY city";
    context.sql(query).await?.show().await?;
    context.sql(&format!("EXPLAIN {query}")).await?.show().await
}
