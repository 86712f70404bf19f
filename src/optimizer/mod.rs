//! Physical optimizer rules, one per file.

mod limit_join_filters;
mod replace_repartition;

pub use limit_join_filters::LimitJoinFilters;
pub use replace_repartition::{ReplaceRepartition, why_not};
