//! Converts the public schema of the passive features to settings of attacks.

use vfl_attack::{MethodError, Settings, schema_settings};
use vfl_core::data::schema::FeatureSpec;
use vfl_protocol::Refusal;

use super::plan::Plan;

/// Returns the plan with the settings from the public schema added, if every adversary knows it.
/// `features` are those of all passive parties side by side.
///
/// # Errors
/// [`Refusal`] if the schema makes settings that no attack takes.
pub(super) fn known(features: &[FeatureSpec], plan: &Plan) -> Result<Plan, Refusal> {
    // The grid is in shares of the schema's own ranges.
    if !plan.schema || plan.ranges() {
        return Ok(plan.clone());
    }
    let features = beside(&schema_settings(features), &plan.features);
    let features = features
        .map_err(|e| Refusal::internal(format!("the schema of the passive parties: {e}")))?;
    Ok(Plan { features, ..plan.clone() })
}

/// Returns the stated settings, with those of the schema that they do not state.
fn beside(schema: &[(&'static str, String)], stated: &Settings) -> Result<Settings, MethodError> {
    let states = |key: &str| stated.pairs().any(|(stated, _)| stated == key);
    let mut pairs: Vec<(&str, &str)> = stated.pairs().collect();
    pairs.extend(
        schema.iter().filter(|(key, _)| !states(key)).map(|(key, text)| (*key, text.as_str())),
    );
    Settings::read(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::attack_spec::spec;
    use vfl_attack::{AttackConfig, Method, StatedKnowledge};
    use vfl_core::data::schema::FeatureKind;
    use vfl_core::types::RecordIds;

    fn category(group: &str, name: &str) -> FeatureSpec {
        let (kind, group) = (FeatureKind::Binary, Some(group.to_owned()));
        FeatureSpec { kind, group, ..FeatureSpec::numeric(name, 0.0, 1.0) }
    }

    fn features() -> Vec<FeatureSpec> {
        vec![
            FeatureSpec { step: Some(1.0), ..FeatureSpec::numeric("age", 18.0, 98.0) },
            FeatureSpec::numeric("rate", 0.0, 0.5),
            category("job", "job=a"),
            category("job", "job=b"),
            category("job", "job=c"),
            FeatureSpec::numeric("constant", 2.0, 2.0),
        ]
    }

    #[test]
    fn the_schema_becomes_settings() {
        let told = schema_settings(&features());
        let expected = [
            ("step", "0.0125,0.0,1.0,1.0,1.0,1.0"),
            ("width", "80.0,0.5,1.0,1.0,1.0,0.0"),
            ("groups", "2-4"),
        ];
        assert_eq!(told, expected.map(|(key, text)| (key, text.to_owned())));
        let all = beside(&told, &Settings::default()).unwrap();
        assert!(StatedKnowledge::from(&all).about(6).is_ok());
    }

    #[test]
    fn what_the_plan_states_stands_above_the_schema() {
        let told = schema_settings(&features());
        let stated = Settings::read([("step", "0.5")]).unwrap();
        let all = beside(&told, &stated).unwrap();
        assert_eq!(all.pairs().find(|(key, _)| *key == "step"), Some(("step", "0.5")));
        let ids = RecordIds::new(["a"]).unwrap();
        let plan = Plan {
            features: Settings::read([("upper", "2")]).unwrap(),
            ..Plan::of(ids, vec![], vec![], 1)
        };
        assert_eq!(
            known(&features(), &plan).unwrap().features,
            plan.features,
            "the grid is of other ranges"
        );
        let plan = Plan { features: Settings::default(), ..plan };
        assert_eq!(known(&features(), &plan).unwrap().features.pairs().count(), 3);
        assert_eq!(
            known(&features(), &Plan { schema: false, ..plan.clone() }).unwrap().features,
            plan.features
        );
        // Attacks with ranges of their own, or with the features of some parties only, go without
        // the schema.
        let plan = known(&features(), &plan).unwrap();
        let settings = |attack: AttackConfig| spec(&attack, &plan).settings.len();
        let ranged = AttackConfig::new(Method::Lattice, [("upper", "2")]).unwrap();
        assert_eq!(
            (
                settings(ranged),
                settings(Method::Coalition.into()),
                settings(Method::Lattice.into())
            ),
            (1, 0, 3)
        );
    }
}
