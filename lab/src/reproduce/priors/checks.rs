//! What is said of adversaries that know something, held against the figures.

use super::experiment::{ALL_SCORES, Point};
use crate::reproduce::document::{Check, Document};
use crate::reproduce::statistics::mean;
use crate::reproduce::sweep::EQUAL;

/// What knowing means and covariances is said to gain over half_star, at most.
const FACTOR: f64 = 13.0;
/// How far from that counts as the same.
const ABOUT: f64 = 0.25;

/// No attack has more error than what has the same knowledge and no score, one standard error of the difference allowed.
pub(super) fn never_worse(points: &[Point], pairs: &[(&'static str, &'static str)]) -> Check {
    let (mut violations, mut worst) = (Vec::new(), f64::NEG_INFINITY);
    for point in points {
        for (attack, control) in pairs {
            let (errors, controls) = (point.errors(attack), point.errors(control));
            let differences: Vec<f64> = errors.iter().zip(controls).map(|(e, c)| e - c).collect();
            let m = mean(differences.iter().copied());
            worst = worst.max(m.mean / mean(controls.iter().copied()).mean.max(f64::MIN_POSITIVE));
            if m.mean > m.standard_error + EQUAL {
                violations.push(format!(
                    "d = {}: {attack} {:.4} above {control} {:.4}, by {:.5} ± {:.5}",
                    point.d,
                    mean(errors.iter().copied()).mean,
                    mean(controls.iter().copied()).mean,
                    m.mean,
                    m.standard_error
                ));
            }
        }
    }
    Check {
        claim: "an attack never has more error than its control by more than the standard error of the difference"
            .into(),
        holds: violations.is_empty(),
        comparisons: (points.len() * pairs.len()) as u64,
        detail: format!("the least that scores take away from the control's error is {:.1} %", -100.0 * worst),
        violations,
    }
}

/// Knowing more never gives more error, one standard error of the difference allowed: moments, 200 records, all records.
pub(super) fn more_is_better(points: &[Point]) -> Check {
    const ORDER: [(&str, &str); 2] =
        [("records_200_scores", "moments_posterior_mean"), (ALL_SCORES, "records_200_scores")];
    let mut violations = Vec::new();
    for point in points {
        for (more, less) in ORDER {
            let (more_errors, less_errors) = (point.errors(more), point.errors(less));
            let differences: Vec<f64> = more_errors.iter().zip(less_errors).map(|(a, b)| a - b).collect();
            let m = mean(differences.iter().copied());
            if m.mean > m.standard_error + EQUAL {
                violations
                    .push(format!("d = {}: {more} above {less} by {:.5} ± {:.5}", point.d, m.mean, m.standard_error));
            }
        }
    }
    Check {
        claim: "with scores, 200 records of both parties tell more than the moments of the passive features of all, and all \
                records more than 200"
            .into(),
        holds: violations.is_empty(),
        comparisons: (points.len() * ORDER.len()) as u64,
        detail: format!("{} of {} steps do not", violations.len(), points.len() * ORDER.len()),
        violations,
    }
}

/// Somebody who knows means and covariances learns up to 13 times more from the scores than half_star: over the rows in which
/// half_star does better than the means alone, since elsewhere the moments do most without any score. `None` without such a row.
pub(in crate::reproduce) fn together(documents: &[Document]) -> Option<Check> {
    let mut factors = Vec::new();
    for document in documents {
        let of = |name: &str| document.curve(name).map(|curve| curve.mean.as_slice());
        let (Some(blind), Some(means), Some(told)) = (of("half_star"), of("column_mean"), of("moments_posterior_mean"))
        else {
            continue;
        };
        for (i, d) in document.axis.points.iter().enumerate() {
            if blind[i] < means[i] && told[i] > 0.0 {
                factors.push((document.dataset.name.clone(), *d, blind[i], told[i]));
            }
        }
    }
    let factor = |(_, _, blind, told): &(String, usize, f64, f64)| blind / told;
    let largest = factors.iter().map(factor).reduce(f64::max)?;
    Some(Check {
        claim: format!(
            "who knows means and covariances learns up to {FACTOR} times more from exact scores than half_star, within {:.0} %, \
             where half_star does better than the column means",
            100.0 * ABOUT
        ),
        holds: (largest / FACTOR - 1.0).abs() <= ABOUT,
        comparisons: factors.len() as u64,
        detail: factors
            .iter()
            .map(|row| format!("{}, d = {}: {:.1} ({:.4} against {:.4})", row.0, row.1, factor(row), row.2, row.3))
            .collect::<Vec<_>>()
            .join("; "),
        violations: Vec::new(),
    })
}
