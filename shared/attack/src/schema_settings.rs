//! The public schema of features as settings of attacks.

use vfl_core::data::schema::{FeatureKind, FeatureSpec};

/// The settings that describe the grid of a schema.
pub const GRID_SETTINGS: [&str; 3] = ["step", "width", "groups"];

/// Returns the grid, the widths of the declared ranges and the groups of adjacent features as
/// settings.
pub fn schema_settings(features: &[FeatureSpec]) -> Vec<(&'static str, String)> {
    // A feature that does not vary lies on every grid of its range.
    let step = |f: &FeatureSpec| if f.min == f.max { 1.0 } else { f.grid().unwrap_or(0.0) };
    let steps: Vec<f64> = features.iter().map(step).collect();
    // A range of 0 to 1 without a step may be normalised, and then says nothing of the owner's
    // units. Weights of a feature with a scale are of no such unit.
    let width = |f: &FeatureSpec| {
        let unknown = (f.min, f.max, f.grid()) == (0.0, 1.0, None) || f.scale.is_some();
        if unknown { 0.0 } else { f.max - f.min }
    };
    let widths: Vec<f64> = features.iter().map(width).collect();
    let groups: Vec<String> =
        groups(features).iter().map(|(first, last)| format!("{first}-{last}")).collect();
    let groups = Some(groups.join(",")).filter(|groups| !groups.is_empty());
    let all = [
        (GRID_SETTINGS[0], each(&steps)),
        (GRID_SETTINGS[1], each(&widths)),
        (GRID_SETTINGS[2], groups),
    ];
    all.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
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

    fn category(group: &str, name: &str) -> FeatureSpec {
        let (kind, group) = (FeatureKind::Binary, Some(group.to_owned()));
        FeatureSpec { kind, group, ..FeatureSpec::numeric(name, 0.0, 1.0) }
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
        assert_eq!(
            schema_settings(&[FeatureSpec::numeric("x", 1.0, 1.0)]),
            [("step", "1.0".to_owned())]
        );
    }
}
