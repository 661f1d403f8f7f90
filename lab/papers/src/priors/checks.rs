//! Checks of claims about adversaries with prior knowledge.

use super::experiment::{POINTS, Point, PriorKnowledge};
use crate::statistics::mean;
use crate::sweep::EQUAL;
use crate::{Check, CheckKind, Document};

/// The claimed largest gain of knowing means and covariances over half_star.
const FACTOR: f64 = 13.0;
/// The relative difference from it that is tolerated.
const ABOUT: f64 = 0.25;

/// The levels of knowledge with moments, each with the prefix of its curves' names.
const LEVELS: [(PriorKnowledge, &str); 3] = [
    (PriorKnowledge::Moments, "moments"),
    (PriorKnowledge::Few, "records_200"),
    (PriorKnowledge::All, "all_records"),
];

/// Returns a violation if the first of two curves is above the second by more than the standard
/// error of the difference; and the mean of the difference, relative to the second.
fn above(point: &Point, first: &str, second: &str) -> (Option<String>, f64) {
    let (a, b) = (point.errors(first), point.errors(second));
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let m = mean(differences.iter().copied());
    let (a, b) = (mean(a.iter().copied()).mean, mean(b.iter().copied()).mean);
    let said = format!(
        "d = {}: {first} {a:.4} above {second} {b:.4}, by {:.5} ± {:.5}",
        point.d, m.mean, m.standard_error
    );
    ((m.mean > m.standard_error + EQUAL).then_some(said), m.mean / b.max(f64::MIN_POSITIVE))
}

/// Checks that an attack has no more error than its control, which has the same knowledge and no
/// score. One standard error of the difference is allowed.
pub(super) fn never_worse(points: &[Point], of: &str) -> Check {
    let (mut violations, mut worst) = (Vec::new(), f64::NEG_INFINITY);
    for point in points {
        for (known, name) in LEVELS {
            let (violation, relative) = above(point, &format!("{name}_{of}"), known.control());
            violations.extend(violation);
            worst = worst.max(relative);
        }
    }
    Check {
        id: format!("{of}_never_worse"),
        kind: CheckKind::Ours,
        claim: format!(
            "{of}, with moments, never has more error than its control by more than the standard error of the difference"
        ),
        holds: violations.is_empty(),
        comparisons: (points.len() * LEVELS.len()) as u64,
        detail: format!("at least {:.1} % of the control's error is taken away", -100.0 * worst),
        violations,
    }
}

/// Checks that an adversary that knows means and covariances has up to 13 times less error from the
/// scores than half_star. Only the rows count in which half_star does better than the means alone,
/// since elsewhere the moments do most without any score. The best of the three points of the
/// posterior is compared. `None` without such a row.
pub(crate) fn together(documents: &[Document]) -> Option<Check> {
    let mut factors = Vec::new();
    for document in documents {
        let of = |name: &str| document.curve(name).map(|curve| curve.mean.as_slice());
        let told: Vec<&[f64]> =
            POINTS.iter().filter_map(|point| of(&format!("moments_{point}"))).collect();
        let (Some(blind), Some(means)) = (of("half_star"), of("column_mean")) else { continue };
        for (i, d) in document.axis.points.iter().enumerate() {
            let least = told.iter().map(|curve| curve[i]).fold(f64::INFINITY, f64::min);
            if blind[i] < means[i] && least > 0.0 {
                factors.push((document.dataset.name.clone(), *d, blind[i], least));
            }
        }
    }
    let factor = |(_, _, blind, told): &(String, usize, f64, f64)| blind / told;
    let largest = factors.iter().map(factor).reduce(f64::max)?;
    Some(Check {
        id: "gain_of_moments".into(),
        kind: CheckKind::Ours,
        claim: format!(
            "who knows means and covariances learns up to {FACTOR} times more from exact scores than half_star, within {:.0} %, \
             where half_star does better than the column means",
            100.0 * ABOUT
        ),
        holds: (largest / FACTOR - 1.0).abs() <= ABOUT,
        comparisons: factors.len() as u64,
        detail: factors
            .iter()
            .map(|row| {
                format!(
                    "{}, d = {}: {:.1} ({:.4} against {:.4})",
                    row.0,
                    row.1,
                    factor(row),
                    row.2,
                    row.3
                )
            })
            .collect::<Vec<_>>()
            .join("; "),
        violations: Vec::new(),
    })
}
