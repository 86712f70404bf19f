//! One line adds the options and the rule to a session.

use std::sync::Arc;

use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::{Codec, IFileOptions, ReplaceRepartition, SessionStateBuilderExt};

use super::support::{answer, config, exchanges, physical_plan, stock_state, with_table};

const GROUPS: &str = "SELECT g, count(*), min(s) FROM t GROUP BY g";

fn rules(state: &SessionState) -> Vec<&str> {
    state.physical_optimizers().iter().map(|rule| rule.name()).collect()
}

fn assert_switched_on(state: &SessionState) {
    let rules = rules(state);
    let place = |wanted: &str| {
        let mut places = rules.iter().enumerate().filter(|(_, name)| **name == wanted);
        let place = places.next().map(|(place, _)| place);
        assert!(place.is_some() && places.next().is_none(), "{wanted} in {rules:?}");
        place
    };
    for ours in ["LimitJoinFilters", "ReplaceRepartition"] {
        assert!(place("SanityCheckPlan") < place(ours), "{rules:?}");
    }
}

#[tokio::test]
async fn in_a_new_session() {
    let state = SessionStateBuilder::new().with_default_features().with_ifile().build();
    assert_switched_on(&state);
    let expected = stock_state(SessionConfig::new());
    assert_eq!(rules(&state).len(), rules(&expected).len() + 2);

    let state =
        SessionStateBuilder::new_with_default_features().with_config(config()).with_ifile().build();
    assert_switched_on(&state);
    let context = SessionContext::new_with_state(state);
    with_table(&context);
    let plan = physical_plan(&context, GROUPS).await;
    assert!(matches!(exchanges(&plan), (1.., 0)));
}

#[tokio::test]
async fn in_an_existing_session() {
    let context = SessionContext::new_with_state(stock_state(config()));
    with_table(&context);
    let before = answer(&context, GROUPS).await;
    let stock_rules = rules(&context.state()).len();
    let state = SessionStateBuilder::new_from_existing(context.state()).with_ifile().build();
    assert_switched_on(&state);
    assert_eq!(rules(&state).len(), stock_rules + 2);
    let context = SessionContext::new_with_state(state);
    let plan = physical_plan(&context, GROUPS).await;
    assert!(matches!(exchanges(&plan), (1.., 0)));
    assert_eq!(answer(&context, GROUPS).await, before);
}

#[test]
fn twice_is_once() {
    let state =
        SessionStateBuilder::new().with_default_features().with_ifile().with_ifile().build();
    assert_switched_on(&state);
    let again = SessionStateBuilder::new_from_existing(state).with_ifile().build();
    assert_switched_on(&again);
}

#[test]
fn rules_that_are_there_stay() {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_physical_optimizer_rules(PhysicalOptimizer::new().rules)
        .with_ifile()
        .build();
    assert_switched_on(&state);
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(ReplaceRepartition))
        .with_ifile()
        .build();
    assert_switched_on(&state);
}

#[test]
fn options_that_are_there_stay() {
    let options = IFileOptions { codec: Codec::Snappy, ..IFileOptions::default() };
    let config = SessionConfig::new().with_option_extension(options.clone());
    let state =
        SessionStateBuilder::new().with_config(config).with_default_features().with_ifile().build();
    assert_eq!(state.config_options().extensions.get::<IFileOptions>(), Some(&options));
    let again = SessionStateBuilder::new_from_existing(state).with_ifile().build();
    assert_eq!(again.config_options().extensions.get::<IFileOptions>(), Some(&options));
}
