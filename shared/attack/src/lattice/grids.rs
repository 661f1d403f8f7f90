//! The grids that are tried if the schema does not state one.

use super::axes::Axes;
use super::decoder::DecodedRecord;
use crate::FeatureKnowledge;

/// The steps that are tried, in the features' own units, coarsest first.
const STEPS: [f64; 6] = [1.0, 0.5, 0.1, 0.01, 0.001, 0.0001];
/// The number of records on which a grid is tried.
const TRIED: usize = 40;
/// The most features with unknown steps for which each may have another step.
const MOST_APART: usize = 3;

/// Decodes on the known grid, or on the first of those tried on which most records become certain.
/// A common step is tried and, if few steps are unknown, also a step for each feature; a feature of
/// which no unit is known is on none. If no grid is found, the features whose grid is not known are
/// solved for beside the others. `decode` gets the grid, the number of grids tried, and the number
/// of first records to decode (`None`: all).
///
/// # Errors
/// The reason why there is no grid, in words.
pub(super) fn each(
    knowledge: &FeatureKnowledge,
    mut decode: impl FnMut(&Axes, usize, Option<usize>) -> Result<Vec<DecodedRecord>, String>,
    remarks: &mut Vec<String>,
) -> Result<Vec<DecodedRecord>, String> {
    let unknown = match Axes::new(knowledge, |_| None) {
        Ok(axes) => return decode(&axes, 1, None),
        Err(unknown) => unknown,
    };
    let why = match on_one_of_several(knowledge, &unknown, &mut decode, remarks) {
        Ok(decoded) => return Ok(decoded),
        Err(why) => why,
    };
    let axes = Axes::partial(knowledge, &unknown, |_| None).filter(|axes| axes.coordinates() > 0);
    let axes = axes.ok_or_else(|| why.clone())?;
    let decoded = decode(&axes, 1, None).map_err(|other| format!("{why}; {other}"))?;
    remarks.extend(solved(&unknown));
    Ok(decoded)
}

/// Returns the remark on features that are on no grid, if there are any.
fn solved(free: &[usize]) -> Option<String> {
    let places: Vec<String> = free.iter().map(usize::to_string).collect();
    let some = !places.is_empty();
    some.then(|| format!("features on no known grid are solved for: {}", places.join(", ")))
}

/// Decodes on the first of the tried grids on which most records become certain.
fn on_one_of_several(
    knowledge: &FeatureKnowledge,
    unknown: &[usize],
    mut decode: impl FnMut(&Axes, usize, Option<usize>) -> Result<Vec<DecodedRecord>, String>,
    remarks: &mut Vec<String>,
) -> Result<Vec<DecodedRecord>, String> {
    let widths: Vec<Option<f64>> = knowledge.widths().to_vec();
    let (unknown, free): (Vec<usize>, Vec<usize>) =
        unknown.iter().partition(|&&feature| widths[feature].is_some());
    if let (Some(feature), true) = (free.first(), unknown.is_empty()) {
        return Err(format!(
            "neither the step nor the width of feature {feature} is known, so there is no grid"
        ));
    }
    let grids = candidates(&unknown, &widths);
    let tries = grids.len();
    for steps in &grids {
        let Some(axes) = on(knowledge, (&unknown, &free), &widths, steps) else { continue };
        let Ok(first) = decode(&axes, tries, Some(TRIED)) else { continue };
        if 2 * certain(&first) <= first.len() {
            continue;
        }
        let named: Vec<String> =
            unknown.iter().zip(steps).map(|(f, s)| format!("{f}: {s}")).collect();
        remarks.push(format!(
            "the grid was found: steps of the features' own units are {}",
            named.join(", ")
        ));
        remarks.extend(solved(&free));
        return decode(&axes, tries, None);
    }
    Err(format!("none of {tries} grids has most records on it"))
}

fn certain(decoded: &[DecodedRecord]) -> usize {
    decoded.iter().filter(|d| d.certain).count()
}

/// Returns the steps of each feature with an unknown one, for every grid to be tried.
fn candidates(unknown: &[usize], widths: &[Option<f64>]) -> Vec<Vec<f64>> {
    let mut grids: Vec<Vec<f64>> = STEPS.iter().map(|step| vec![*step; unknown.len()]).collect();
    if unknown.len() <= MOST_APART {
        let mut all = vec![Vec::new()];
        for _ in unknown {
            let longer = |steps: Vec<f64>| {
                STEPS.iter().map(move |step| [steps.as_slice(), &[*step]].concat())
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        grids.extend(all);
    }
    // A grid with fewer points is decoded more easily, and is tried first.
    let points = |steps: &[f64]| -> f64 {
        unknown
            .iter()
            .zip(steps)
            .map(|(&f, step)| (widths[f].unwrap_or(1.0) / step + 1.0).ln())
            .sum()
    };
    grids.sort_by(|a, b| points(a).total_cmp(&points(b)));
    grids.dedup();
    grids
}

/// Returns the grid with these steps; `None` if a step does not divide its range.
fn on(
    knowledge: &FeatureKnowledge,
    (unknown, free): (&[usize], &[usize]),
    widths: &[Option<f64>],
    steps: &[f64],
) -> Option<Axes> {
    let mut shares = vec![None; knowledge.features()];
    for (&feature, step) in unknown.iter().zip(steps) {
        let count = widths[feature]? / step;
        if count < 1.0 - 1e-6 || (count - count.round()).abs() > 1e-6 * count {
            return None;
        }
        let (lower, upper) = knowledge.ranges()[feature];
        shares[feature] = Some((upper - lower) / count.round());
    }
    Axes::partial(knowledge, free, |feature| shares[feature])
}
