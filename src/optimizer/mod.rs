//! Physical optimizer rules, one per file.

mod replace_repartition;

pub use replace_repartition::{ReplaceRepartition, why_not};
