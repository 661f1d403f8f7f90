//! Converts the public schema of the passive features to settings of attacks.

use vfl_active_party::attack::{MethodError, Settings};
use vfl_shared::data::{FeatureKind, FeatureSpec};
use vfl_shared::rpc::Refusal;

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
    let features = beside(&settings(features), &plan.features);
    let features = features
        .map_err(|e| Refusal::internal(format!("the schema of the passive parties: {e}")))?;
    Ok(Plan { features, ..plan.clone() })
}

/// The settings that describe the grid of a schema.
pub(super) const GRID: [&str; 3] = ["step", "width", "groups"];

/// Returns the grid, the widths of the declared ranges and the groups of adjacent features as
/// settings.
pub(crate) fn settings(features: &[FeatureSpec]) -> Vec<(&'static str, String)> {
    // A feature that does not vary lies on every grid of its range.
    let step = |f: &FeatureSpec| if f.min == f.max { 1.0 } else { f.grid().unwrap_or(0.0) };
    let steps: Vec<f64> = features.iter().map(step).collect();
    // A range of 0 to 1 without a step may be normalised, and then says nothing of the owner's
    // units.
    let width = |f: &FeatureSpec| {
        if (f.min, f.max, f.grid()) == (0.0, 1.0, None) { 0.0 } else { f.max - f.min }
    };
    let widths: Vec<f64> = features.iter().map(width).collect();
    let groups: Vec<String> =
        groups(features).iter().map(|(first, last)| format!("{first}-{last}")).collect();
    let groups = Some(groups.join(",")).filter(|groups| !groups.is_empty());
    let all = [(GRID[0], each(&steps)), (GRID[1], each(&widths)), (GRID[2], groups)];
    all.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
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

/// Formats one number if all are equal, else one for each; `None` if all are 0 (unknown).
fn each(numbers: &[f64]) -> Option<String> {
    let first = numbers.first()?;
    match numbers.iter().all(|number| number == first) {
        true if *first == 0.0 => None,
        // Debug formatting has an exponent where the plain form is long.
        true => Some(format!("{first:?}")),
        false => {
            Some(numbers.iter().map(|number| format!("{number:?}")).collect::<Vec<_>>().join(","))
        }
    }
}

/// Returns the first and last place of each group whose columns are adjacent: a choice of two
/// columns or more, exactly one of which is 1.
fn groups(features: &[FeatureSpec]) -> Vec<(usize, usize)> {
    let is_choice = |f: &FeatureSpec| {
        f.group.is_some() && (f.kind, f.min, f.max) == (FeatureKind::Binary, 0.0, 1.0)
    };
    let runs = features.chunk_by(|a, b| is_choice(a) && is_choice(b) && a.group == b.group);
    let mut first = 0;
    let mut all: Vec<(usize, usize, Option<&str>)> = Vec::new();
    for run in runs {
        all.push((first, first + run.len() - 1, run[0].group.as_deref()));
        first += run.len();
    }
    let whole = |name: &str| all.iter().filter(|(_, _, group)| *group == Some(name)).count() == 1;
    let grouped =
        all.iter().filter(|(first, last, group)| last > first && group.is_some_and(whole));
    grouped.map(|(first, last, _)| (*first, *last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::request::Spec;
    use vfl_active_party::attack::{AttackConfig, Method, StatedKnowledge};
    use vfl_shared::types::RecordIds;

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
        let told = settings(&features());
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
        let told = settings(&features());
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
        let settings = |attack: AttackConfig| Spec::of(&attack, &plan).settings.len();
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

    #[test]
    fn columns_of_a_group_that_are_apart_and_single_ones_are_no_group() {
        let apart = [
            category("a", "a=1"),
            category("b", "b=1"),
            category("a", "a=2"),
            category("c", "c=1"),
        ];
        assert!(groups(&apart).is_empty());
        let money = ["in", "out"].map(|name| FeatureSpec {
            group: Some("money".into()),
            ..FeatureSpec::numeric(name, 0.0, 9.0)
        });
        assert!(groups(&money).is_empty(), "amounts are no choice");
        assert_eq!(settings(&[FeatureSpec::numeric("x", 1.0, 1.0)]), [("step", "1.0".to_owned())]);
    }
}
