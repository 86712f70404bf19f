//! Metrics of an exchange, as `EXPLAIN ANALYZE` shows them.
//!
//! | name | meaning |
//! |---|---|
//! | `fetch_time` | waiting for the inputs |
//! | `repartition_time` | placement of rows and gathering them by partition |
//! | `spill_count` | runs written to scratch files |
//! | `spilled_rows` | rows written |
//! | `spilled_raw_bytes` | Arrow bytes of those rows, each buffer for the part in use |
//! | `spilled_bytes` | bytes of their segments in scratch files |
//! | `encoded_rows` | rows turned into blocks, whether or not they were written |
//! | `encode_time` | encoding and compressing blocks |
//! | `write_time` | writing runs, on blocking threads |
//! | `read_time` | reading blocks back, on blocking threads |
//! | `decode_time` | decoding blocks and joining them to batches |
//! | `peak_reserved` | most bytes held of the memory pool |

use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};

#[derive(Debug, Clone)]
pub(crate) struct ExchangeMetrics {
    pub(super) fetch_time: Time,
    pub(super) repartition_time: Time,
    pub(super) spill_count: Count,
    pub(super) spilled_rows: Count,
    pub(super) spilled_bytes: Count,
    pub(super) spilled_raw_bytes: Count,
    pub(super) encoded_rows: Count,
    pub(super) encode_time: Time,
    pub(super) write_time: Time,
    pub(super) read_time: Time,
    pub(super) decode_time: Time,
    pub(super) peak_reserved: Gauge,
}

impl ExchangeMetrics {
    /// One metric of each kind for the whole exchange, whatever its partition counts.
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let build = || MetricBuilder::new(set);
        Self {
            fetch_time: build().subset_time("fetch_time", 0),
            repartition_time: build().subset_time("repartition_time", 0),
            spill_count: build().spill_count(0),
            spilled_rows: build().spilled_rows(0),
            spilled_bytes: build().spilled_bytes(0),
            spilled_raw_bytes: build().counter("spilled_raw_bytes", 0),
            encoded_rows: build().counter("encoded_rows", 0),
            encode_time: build().subset_time("encode_time", 0),
            write_time: build().subset_time("write_time", 0),
            read_time: build().subset_time("read_time", 0),
            decode_time: build().subset_time("decode_time", 0),
            peak_reserved: build().gauge("peak_reserved", 0),
        }
    }
}
