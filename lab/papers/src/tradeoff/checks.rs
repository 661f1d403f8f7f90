//! Checks of V's claims about its trade-offs.

use super::experiment::{Case, EXAMINED, LEVELS, Line, RewriteResult, SHARES, average};
use crate::sweep::EQUAL;
use crate::{Check, CheckKind, Document};

pub(super) fn rises(name: &str, points: &[&Vec<RewriteResult>]) -> Check {
    let values: Vec<(f64, f64)> = points
        .iter()
        .map(|of| (average(of, |f| f.distance), average(of, |f| f.error.mean)))
        .collect();
    let violations: Vec<String> = values
        .windows(2)
        .filter(|v| v[1].1 < v[0].1 - EQUAL)
        .map(|v| {
            format!("from g = {:.3e} to {:.3e}: {:.4e} to {:.4e}", v[0].0, v[1].0, v[0].1, v[1].1)
        })
        .collect();
    let (first, last) =
        (values.first().copied().unwrap_or_default(), values.last().copied().unwrap_or_default());
    Check {
        id: format!("{name}_rises"),
        kind: CheckKind::Paper,
        claim: format!("{name}: the error rises with the distance (V section VI-B)"),
        holds: violations.is_empty(),
        comparisons: values.len().saturating_sub(1) as u64,
        detail: format!("{:.4e} at g = 0, {:.4e} at {:.3e}", first.1, last.1, last.0),
        violations,
    }
}

/// Describes how soon the release reveals that it is not the truth (our own note).
pub(super) fn shows(name: &str, points: &[&Vec<RewriteResult>]) -> String {
    let shares: Vec<String> = points
        .iter()
        .map(|of| {
            let share = average(of, |f| f64::from(u8::from(f.seen_through)));
            format!("{:.0} % at g = {:.2e}", 100.0 * share, average(of, |f| f.distance))
        })
        .collect();
    format!(
        "{name}: windows in which an adversary who knows the means of the features sees, from {EXAMINED} records at most, that \
         the released parameters are not the true ones (`suspicious` then guesses the means): {}",
        shares.join(", ")
    )
}

/// The largest share of the variance of the errors that a straight line may leave unexplained.
const BENT: f64 = 0.05;

/// Checks that below ½ the error is almost linear in the distance. `None` with fewer than three
/// distances there.
pub(super) fn almost_linear(name: &str, points: &[&Vec<RewriteResult>]) -> Option<Check> {
    let of = |of: &&Vec<RewriteResult>| {
        (average(of, |f| f.distance), average(of, |f| f.error.mean), average(of, |f| f.half))
    };
    let below: Vec<(f64, f64)> = points
        .iter()
        .map(of)
        .filter(|(_, error, half)| error <= half)
        .map(|(g, error, _)| (g, error))
        .collect();
    if below.len() < 3 {
        return None;
    }
    let n = below.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| below.iter().map(of).sum::<f64>() / n;
    let (g, e) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| below.iter().map(of).sum::<f64>();
    let (gg, ge, ee) =
        (sum(&|p| (p.0 - g).powi(2)), sum(&|p| (p.0 - g) * (p.1 - e)), sum(&|p| (p.1 - e).powi(2)));
    let left = 1.0 - ge * ge / (gg * ee).max(f64::MIN_POSITIVE);
    Some(Check {
        id: format!("{name}_almost_linear"),
        kind: CheckKind::Paper,
        claim: format!(
            "{name}: below ½ the error is almost linear in the distance (V section VI-B; here: a line leaves at most {BENT} of its variance)"
        ),
        holds: left <= BENT,
        comparisons: below.len() as u64,
        detail: format!("a line leaves {left:.4} of the variance of {} points", below.len()),
        violations: Vec::new(),
    })
}

/// Checks that a small distance makes the error as large as that of ½: V's region of interest.
pub(super) fn reached(name: &str, points: &[&Vec<RewriteResult>]) -> Check {
    let at = points.iter().position(|of| average(of, |f| f.error.mean) >= average(of, |f| f.half));
    let detail = match at {
        Some(i) => format!(
            "reached with g = {:.3e}, {:.0} % of the mean square of a weight",
            average(points[i], |f| f.distance),
            100.0 * SHARES[i]
        ),
        None => "not reached".into(),
    };
    Check {
        id: format!("{name}_reaches_half"),
        kind: CheckKind::Paper,
        claim: format!(
            "{name}: a distance below that of W_n = 0 makes the attack as bad as ½ (V section VI-B)"
        ),
        holds: at.is_some(),
        comparisons: points.len() as u64,
        detail,
        violations: Vec::new(),
    }
}

pub(super) fn as_told(all: &[&RewriteResult]) -> Check {
    let off = |f: &RewriteResult| (f.error.mean - f.told).abs() / f.told.abs().max(1.0);
    let worst = all.iter().map(|f| off(f)).fold(0.0, f64::max);
    Check {
        id: "as_told".into(),
        kind: CheckKind::Theorem,
        claim: "the error is what the moments tell (V (38), (47), (49), (53); half_star with A_n for A)".into(),
        holds: worst <= 1e-9,
        comparisons: all.len() as u64,
        detail: format!("largest difference, relative above 1: {worst:.1e}"),
        violations: all
            .iter()
            .filter(|f| off(f) > 1e-9)
            .map(|f| format!("g = {:.3e}: {:.9e} measured, {:.9e} told", f.distance, f.error.mean, f.told))
            .collect(),
    }
}

pub(super) fn at_distance(all: &[&RewriteResult]) -> Check {
    let aimed: Vec<&&RewriteResult> = all.iter().filter(|f| f.epsilon > 0.0).collect();
    let off = |f: &RewriteResult| (f.distance / f.epsilon - 1.0).abs();
    let worst = aimed.iter().map(|f| off(f)).fold(0.0, f64::max);
    let far = aimed.iter().filter(|f| off(f) > 0.1).count();
    Check {
        id: "distance_as_aimed".into(),
        kind: CheckKind::Ours,
        claim: "the distance is the one aimed at, within 10 %".into(),
        holds: far == 0,
        comparisons: aimed.len() as u64,
        detail: format!("largest difference {:.1} %", 100.0 * worst),
        violations: if far > 0 {
            vec![format!("{far} of {} releases", aimed.len())]
        } else {
            Vec::new()
        },
    }
}

/// V section VI-B: with k = 2, case iv, which is not restricted to W_pas R, does at least as well
/// as case i, and both converge as d grows.
pub(super) fn more_general(
    document: &Document,
    lines: &[Line],
    found: &[Vec<Vec<RewriteResult>>],
) -> Vec<Check> {
    let mut violations = Vec::new();
    let (mut comparisons, mut gaps) = (0u64, Vec::new());
    for (iv, line) in lines.iter().enumerate().filter(|(_, line)| line.case == Case::Iv) {
        let Some(i) = lines.iter().position(|l| l.case == Case::I && l.d == line.d) else {
            continue;
        };
        for (a, b) in
            found[iv].iter().zip(&found[i]).filter(|(a, b)| a.len() == b.len() && !a.is_empty())
        {
            comparisons += 1;
            let (own, other) = (average(a, |f| f.error.mean), average(b, |f| f.error.mean));
            // Case i reaches its distance only approximately, and the error changes with it.
            let near = average(b, |f| f.distance) <= average(a, |f| f.distance) * 1.001;
            if own < other * (1.0 - 1e-6) && near {
                violations.push(format!(
                    "d = {}, g = {:.3e}: {own:.4e}, case i {other:.4e}",
                    line.d,
                    average(a, |f| f.distance)
                ));
            }
        }
        // Compare at the fourth level, at about which ½ is reached.
        if let (Some(a), Some(b)) = (document.curve(&line.name()), document.curve(&lines[i].name()))
            && let (Some(a), Some(b)) = (a.mean.get(4), b.mean.get(4))
        {
            gaps.push((line.d, a / b));
        }
    }
    let listed: Vec<String> =
        gaps.iter().map(|(d, ratio)| format!("d = {d}: {ratio:.3}")).collect();
    let ordered = gaps.windows(2).all(|g| (g[1].1 - 1.0).abs() <= (g[0].1 - 1.0).abs() + 1e-6);
    vec![
        Check {
            id: "case_iv_above_case_i".into(),
            kind: CheckKind::Paper,
            claim:
                "case iv gives at least the error of case i at the same distance (V section VI-B)"
                    .into(),
            holds: violations.is_empty(),
            comparisons,
            detail: format!("{} of {comparisons} below", violations.len()),
            violations,
        },
        Check {
            id: "cases_come_together".into(),
            kind: CheckKind::Paper,
            claim: "the two come together as d grows (V section VI-B)".into(),
            holds: ordered,
            comparisons: gaps.len().saturating_sub(1) as u64,
            detail: format!(
                "error of case iv over case i at a share of {}: {}",
                SHARES[4],
                listed.join(", ")
            ),
            violations: Vec::new(),
        },
    ]
}

/// Checks that the transform makes the attack worse than on the true parameters.
pub(super) fn above_true(document: &Document) -> Check {
    let before = document.curve("half_star");
    let mut violations = Vec::new();
    let mut comparisons = 0;
    for (_, name) in LEVELS {
        let Some((curve, before)) = document.curve(name).zip(before) else { continue };
        for (x, error) in curve.x.iter().zip(&curve.mean) {
            let Some(at) = before.x.iter().position(|b| b == x) else { continue };
            comparisons += 1;
            if *error < before.mean[at] - EQUAL {
                violations.push(format!(
                    "{name} at d/d_t = {x:.3}: {error:.4e}, {:.4e} with the true parameters",
                    before.mean[at]
                ));
            }
        }
    }
    Check {
        id: "above_true".into(),
        kind: CheckKind::Paper,
        claim: "the attack does worse on rewritten than on true parameters (V section VI-B)".into(),
        holds: violations.is_empty(),
        comparisons,
        detail: format!("{} of {comparisons} points do not", violations.len()),
        violations,
    }
}

/// Checks that a larger distance gives a larger error at every d.
pub(super) fn levels_rise(
    found: &[Vec<Vec<RewriteResult>>],
    dimensions: &[usize],
    windows: usize,
) -> Check {
    let mut violations = Vec::new();
    let mut comparisons = 0;
    for pair in found.windows(2) {
        for (d, (low, high)) in dimensions.iter().zip(pair[0].iter().zip(&pair[1])) {
            if low.len() == windows && high.len() == windows {
                comparisons += 1;
                let (low, high) = (average(low, |f| f.error.mean), average(high, |f| f.error.mean));
                if high < low - EQUAL {
                    violations.push(format!(
                        "d = {d}: {low:.4e} at the smaller distance, {high:.4e} at the larger"
                    ));
                }
            }
        }
    }
    Check {
        id: "levels_rise".into(),
        kind: CheckKind::Paper,
        claim: "a larger distance gives a larger error at every number of passive features (V figure 12)".into(),
        holds: violations.is_empty(),
        comparisons,
        detail: format!("{} of {comparisons} the other way", violations.len()),
        violations,
    }
}
