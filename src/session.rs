//! Switches the exchange on in a session.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use crate::config::IFileOptions;
use crate::optimizer::{LimitJoinFilters, ReplaceRepartition};

/// Adds the exchange to a session.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_ifile::SessionStateBuilderExt;
///
/// let state = SessionStateBuilder::new().with_default_features().with_ifile().build();
/// let context = SessionContext::new_with_state(state);
///
/// // An existing session, as a new one with the same catalogs and settings:
/// let state = SessionStateBuilder::new_from_existing(context.state()).with_ifile().build();
/// # drop(state);
/// ```
pub trait SessionStateBuilderExt {
    /// Registers the `ifile.*` options, unless the session has them already, and appends
    /// [`LimitJoinFilters`] and [`ReplaceRepartition`] to its physical optimizer rules, after all that
    /// are there. It comes after the calls that set the session's config and rules.
    #[must_use]
    fn with_ifile(self) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_ifile(mut self) -> Self {
        let config = self.config().get_or_insert_default();
        let extensions = &mut config.options_mut().extensions;
        if extensions.get::<IFileOptions>().is_none() {
            extensions.insert(IFileOptions::default());
        }
        let ours: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 2] =
            [Arc::new(LimitJoinFilters), Arc::new(ReplaceRepartition)];
        ours.into_iter().fold(self, |mut builder, ours| {
            let known = |rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>]| {
                rules.iter().any(|rule| rule.name() == ours.name())
            };
            let added = builder.physical_optimizer_rules().as_deref().is_some_and(known);
            let built = builder.physical_optimizers().as_ref().is_some_and(|all| known(&all.rules));
            if added || built { builder } else { builder.with_physical_optimizer_rule(ours) }
        })
    }
}
