use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{Result, internal_err, not_impl_err};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;

use super::grouping::{Grouped, Grouping};
use super::ranges::Ranges;

/// Where the rows of a batch go.
#[derive(Debug)]
pub(crate) enum Routed<'a> {
    /// Every row goes to one partition.
    Whole(usize),
    /// The rows are grouped by partition.
    Grouped(Grouped<'a>),
}

/// Gives the rows of one input their output partitions.
///
/// Placement is that of `RepartitionExec`: hashes with its random state modulo the partition count,
/// the order of its split points for ranges, whole batches in turn for round-robin. Dynamic filters of joins
/// depend on it.
pub(crate) struct Router {
    scheme: Scheme,
    partitions: usize,
    hashes: Vec<u64>,
    ids: Vec<u32>,
    grouping: Grouping,
}

enum Scheme {
    Hash {
        keys: Vec<Arc<dyn PhysicalExpr>>,
        modulo: Modulo,
    },
    RoundRobin {
        next: usize,
    },
    /// One row after another in turn.
    Ordinal {
        next: usize,
    },
    Range {
        ranges: Box<Ranges>,
    },
    Single,
}

impl Router {
    /// A router for input `input` of `inputs`.
    ///
    /// # Errors
    /// No output partitions, more than `u32::MAX` of them, or a partitioning without a placement.
    pub(crate) fn try_new(
        partitioning: &Partitioning,
        input: usize,
        inputs: usize,
    ) -> Result<Self> {
        let partitions = partitioning.partition_count();
        if partitions == 0 || u32::try_from(partitions).is_err() {
            return internal_err!("an exchange cannot have {partitions} output partitions");
        }
        let scheme = match partitioning {
            Partitioning::Hash(keys, _) => {
                Scheme::Hash { keys: keys.clone(), modulo: Modulo::new(partitions as u64) }
            }
            Partitioning::RoundRobinBatch(_) => {
                Scheme::RoundRobin { next: input * partitions / inputs.max(1) }
            }
            Partitioning::Range(range) if range.split_points().is_empty() => Scheme::Single,
            Partitioning::Range(range) => {
                Scheme::Range { ranges: Box::new(Ranges::try_new(range)?) }
            }
            other => return not_impl_err!("repartitioning scheme {other:?}"),
        };
        Ok(Self {
            scheme,
            partitions,
            hashes: Vec::new(),
            ids: Vec::new(),
            grouping: Grouping::new(partitions),
        })
    }

    /// A router that deals rows in turn, beginning at partition `first`: a row's place depends on its
    /// ordinal in its input alone, however batches are cut.
    ///
    /// # Errors
    /// As [`Router::try_new`].
    pub(crate) fn by_ordinal(partitions: usize, first: usize) -> Result<Self> {
        let router = Self::try_new(&Partitioning::RoundRobinBatch(partitions), 0, 1)?;
        Ok(Self { scheme: Scheme::Ordinal { next: first % partitions }, ..router })
    }

    /// Routes the rows of `batch`; the answer is valid until the next call.
    ///
    /// # Errors
    /// Those of evaluating the keys.
    pub(crate) fn route(&mut self, batch: &RecordBatch) -> Result<Routed<'_>> {
        match &mut self.scheme {
            Scheme::RoundRobin { next } => {
                let partition = *next;
                *next = (*next + 1) % self.partitions;
                return Ok(Routed::Whole(partition));
            }
            Scheme::Ordinal { next } => {
                self.ids.clear();
                for _ in 0..batch.num_rows() {
                    self.ids.push(u32::try_from(*next).unwrap_or(u32::MAX));
                    *next = if *next + 1 == self.partitions { 0 } else { *next + 1 };
                }
            }
            Scheme::Single => return Ok(Routed::Whole(0)),
            Scheme::Hash { keys, modulo } => {
                let arrays = evaluate_expressions_to_arrays(keys.as_slice(), batch)?;
                self.hashes.clear();
                self.hashes.resize(batch.num_rows(), 0);
                create_hashes(&arrays, REPARTITION_RANDOM_STATE.random_state(), &mut self.hashes)?;
                modulo.reduce(&self.hashes, &mut self.ids);
            }
            Scheme::Range { ranges } => ranges.place(batch, &mut self.ids)?,
        }
        let grouped = self.grouping.group(&self.ids);
        Ok(match grouped.only() {
            Some(partition) => Routed::Whole(partition),
            None => Routed::Grouped(grouped),
        })
    }
}

/// Remainder by a divisor that is fixed for many values: a mask, or two multiplications by the
/// divisor's reciprocal in 128 bits (Lemire, Kaser and Kurz, "Faster remainder by direct
/// computation", 2019), exact for every 64-bit value and divisor.
#[derive(Debug, Clone, Copy)]
enum Modulo {
    Mask(u64),
    Reciprocal { divisor: u128, reciprocal: u128 },
}

impl Modulo {
    fn new(divisor: u64) -> Self {
        if divisor.is_power_of_two() {
            return Self::Mask(divisor - 1);
        }
        let divisor = u128::from(divisor);
        Self::Reciprocal { divisor, reciprocal: u128::MAX / divisor + 1 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "partition counts lie below 2^32")]
    fn reduce(self, hashes: &[u64], ids: &mut Vec<u32>) {
        ids.clear();
        match self {
            Self::Mask(mask) => ids.extend(hashes.iter().map(|hash| (hash & mask) as u32)),
            Self::Reciprocal { divisor, reciprocal } => {
                ids.extend(hashes.iter().map(|&hash| {
                    let fraction = reciprocal.wrapping_mul(u128::from(hash));
                    let high = (fraction >> 64) * divisor;
                    let low = ((fraction & u128::from(u64::MAX)) * divisor) >> 64;
                    ((high + low) >> 64) as u32
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
    use arrow::compute::kernels::sort::sort as sort_array;
    use arrow::compute::{SortOptions, cast};
    use arrow::datatypes::{DataType, TimeUnit};
    use datafusion::common::{ScalarValue, SplitPoint};
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr, RangePartitioning};
    use datafusion::physical_plan::metrics::Time;
    use datafusion::physical_plan::repartition::BatchPartitioner;
    use proptest::prelude::*;

    use super::*;

    fn rows_by_partition(router: &mut Router, batch: &RecordBatch, count: usize) -> Vec<Vec<i64>> {
        let mut out = vec![vec![]; count];
        let ids = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        match router.route(batch).unwrap() {
            Routed::Whole(partition) => out[partition].extend(ids.values()),
            Routed::Grouped(grouped) => {
                for index in 0..grouped.len() {
                    let (partition, rows) = grouped.run(index);
                    out[partition].extend(rows.iter().map(|&row| ids.value(row as usize)));
                }
            }
        }
        out
    }

    fn stock_rows(
        stock: &mut BatchPartitioner,
        batch: &RecordBatch,
        count: usize,
    ) -> Vec<Vec<i64>> {
        let mut out = vec![vec![]; count];
        stock
            .partition(batch.clone(), |partition, part| {
                let ids = part.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                out[partition].extend(ids.values());
                Ok(())
            })
            .unwrap();
        out
    }

    fn batch(key: ArrayRef) -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..key.len() as i64));
        RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("key", key, true)]).unwrap()
    }

    const RANGE_TYPES: &[DataType] = &[
        DataType::Int8,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal128(12, 2),
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Boolean,
    ];

    /// The numbers as values of a type; where it has no negative ones, others.
    fn of_type(numbers: Vec<Option<i64>>, kind: &DataType) -> ArrayRef {
        let from = if matches!(kind, DataType::UInt32 | DataType::UInt64) { 20 } else { 0 };
        let numbers: Int64Array = numbers.into_iter().map(|n| n.map(|n| n + from)).collect();
        match kind {
            DataType::Date32 => cast(&cast(&numbers, &DataType::Int32).unwrap(), kind).unwrap(),
            _ => cast(&numbers, kind).unwrap(),
        }
    }

    fn distinct(sorted: &ArrayRef) -> Vec<ScalarValue> {
        let values = (0..sorted.len()).map(|row| ScalarValue::try_from_array(sorted, row).unwrap());
        let mut values: Vec<_> = values.collect();
        values.dedup();
        values
    }

    fn same_as_stock(partitioning: &Partitioning, batch: &RecordBatch) {
        let count = partitioning.partition_count();
        let mut router = Router::try_new(partitioning, 1, 3).unwrap();
        let mut stock = BatchPartitioner::try_new(partitioning.clone(), Time::new(), 1, 3).unwrap();
        for _ in 0..3 {
            assert_eq!(
                rows_by_partition(&mut router, batch, count),
                stock_rows(&mut stock, batch, count)
            );
        }
    }

    #[test]
    fn nan_and_zero_keys_go_where_the_stock_operator_sends_them() {
        let nan = f64::from_bits;
        let keys = vec![
            Some(0.0),
            Some(-0.0),
            Some(nan(0x7ff8_0000_0000_0000)),
            Some(nan(0xfff8_0000_0000_0000)),
            Some(nan(0x7ff0_0000_0000_0001)),
            Some(f64::INFINITY),
            None,
        ];
        let batch = batch(Arc::new(Float64Array::from(keys)));
        for count in [1, 2, 7, 64, 1009] {
            let keys = vec![col("key", &batch.schema()).unwrap()];
            same_as_stock(&Partitioning::Hash(keys, count), &batch);
        }
    }

    #[test]
    fn round_robin_starts_where_the_stock_operator_starts() {
        let batch = batch(Arc::new(Int64Array::from(vec![1, 2])));
        for count in [1, 2, 5, 8] {
            same_as_stock(&Partitioning::RoundRobinBatch(count), &batch);
        }
    }

    #[test]
    fn an_exchange_needs_a_partition() {
        assert!(Router::try_new(&Partitioning::RoundRobinBatch(0), 0, 1).is_err());
        assert!(Router::try_new(&Partitioning::UnknownPartitioning(4), 0, 1).is_err());
    }

    proptest! {
        #[test]
        fn hash_placement_is_that_of_the_stock_operator(
            keys in prop::collection::vec(prop::option::of("[a-c]{0,3}"), 0..200),
            count in 1usize..1100,
        ) {
            let batch = batch(Arc::new(StringArray::from(keys)));
            let keys = vec![col("key", &batch.schema()).unwrap(), col("id", &batch.schema()).unwrap()];
            same_as_stock(&Partitioning::Hash(keys, count), &batch);
        }

        #[test]
        fn range_placement_is_that_of_the_stock_operator(
            keys in prop::collection::vec(prop::option::of(-20i64..20), 1..200),
            splits in prop::collection::btree_set(-20i64..20, 0..12),
            null_split in any::<bool>(),
            descending in any::<bool>(),
            nulls_first in any::<bool>(),
            kind in prop::sample::select(RANGE_TYPES),
        ) {
            let options = SortOptions { descending, nulls_first };
            let sort = Some(options);
            let mut points: Vec<_> = splits.into_iter().map(Some).collect();
            points.extend(null_split.then_some(None));
            let points = distinct(&sort_array(&of_type(points, &kind), sort).unwrap());
            let keys = of_type(keys, &kind);
            let batch = batch(keys);
            let key = |name: &str| PhysicalSortExpr::new(col(name, &batch.schema()).unwrap(), options);
            let point = |values| SplitPoint::new(values);
            let one = points.iter().map(|value| point(vec![value.clone()])).collect();
            let order = LexOrdering::new(vec![key("key")]).unwrap();
            same_as_stock(&Partitioning::Range(RangePartitioning::try_new(order, one).unwrap()), &batch);
            let two = points.into_iter().map(|value| point(vec![value, ScalarValue::Int64(Some(70))]));
            let order = LexOrdering::new(vec![key("key"), key("id")]).unwrap();
            let range = RangePartitioning::try_new(order, two.collect()).unwrap();
            same_as_stock(&Partitioning::Range(range), &batch);
        }

        #[test]
        fn the_reciprocal_is_exact(
            hashes in prop::collection::vec(any::<u64>(), 1..50),
            divisor in 1u64..u64::from(u32::MAX),
        ) {
            let mut ids = Vec::new();
            Modulo::new(divisor).reduce(&hashes, &mut ids);
            let ids: Vec<_> = ids.into_iter().map(u64::from).collect();
            let expected: Vec<_> = hashes.iter().map(|hash| hash % divisor).collect();
            prop_assert_eq!(ids, expected);
        }
    }
}
