//! J figure 6: the error of each passive feature beside its correlation with the active ones, J
//! (25).

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_core::metrics::active_correlation;
use vfl_present::progress::Progress;

use super::curve_spec::{CurveSpec, pick};
use super::document::{AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, Document, Measure};
use super::experiment_model::ExperimentModel;
use super::statistics::{Mean, mean};
use super::sweep::{Plan, Window, estimate, select, starts};
use super::white_box::BEYOND;
use super::workers::in_order;
use super::{Figure, Options, ReproduceError, blank};

/// The share of passive features in J.
const PASSIVE: f64 = 0.3;
/// The number of features that J shows.
const SHOWN: usize = 8;
/// The default number of windows of columns. The first is drawn; the claim is tested on all.
const WINDOWS: usize = 6;

/// The result of one window.
struct FeatureWindowResult {
    /// J (25) of each passive feature.
    correlation: Vec<f64>,
    /// Mean squared error over records, by attack and passive feature.
    errors: Vec<Vec<Mean>>,
    cpu: Vec<Duration>,
}

/// Computes the figure: 0.3 of the features are passive unless one number is requested.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let total = subject.features();
    let d = match options.dimensions[..] {
        [] => ((PASSIVE * total as f64).round() as usize).clamp(1, total - 1),
        // (25) needs at least one active feature.
        [d] if (1..total).contains(&d) => d,
        [got] => return Err(ReproduceError::Dimension { got, total: total - 1 }),
        _ => return Err(ReproduceError::OneDimension { figure: Figure::JFig6.as_str() }),
    };
    let drawn = subject.draw(options.records, options.seed);
    let given = options.inversion.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let printed = CurveSpec::new("gradient_inversion")
        .called("gia")
        .with([("preset", "j"), ("loss", "mse")])
        .with(given);
    let wanted = vec![
        printed.at_most(options.inversion_records),
        CurveSpec::new("gradient_inversion")
            .called("gia_converged")
            .at_most(options.inversion_records),
        CurveSpec::new("least_squares").called("esa"),
        CurveSpec::new("half"),
    ];
    let wanted = wanted.into_iter().chain(CurveSpec::beyond()).collect();
    let (contenders, notes) = pick(wanted, &options.attacks, drawn.records())?;
    let dimensions = [d];
    let plan = Plan {
        windows: options.windows.or(Some(WINDOWS)),
        ..Plan::new(subject, &drawn, &contenders, &dimensions, options, "j-fig6")
    };
    let starts = starts(total, plan.windows);
    let all = subject.all_records();
    let work = |piece: usize| -> Result<FeatureWindowResult, ReproduceError> {
        let window = Window::new(subject, starts[piece], d)?;
        let of = |rows: &[usize]| select(&all, rows, all.ncols());
        let correlation = active_correlation(&of(&window.passive), &of(&window.active))?;
        let mut done = FeatureWindowResult { correlation, errors: Vec::new(), cpu: Vec::new() };
        for (place, contender) in contenders.iter().enumerate() {
            let released = drawn.released(contender.records);
            let (estimates, cpu) = estimate(&plan, &window, place, contender, &released)?;
            let off = estimates - select(&drawn.x, &window.passive, contender.records);
            if off.iter().any(|v| !v.is_finite()) {
                return Err(ReproduceError::NotFinite {
                    curve: contender.curve.to_owned(),
                    d,
                    k0: window.k0,
                });
            }
            done.errors.push(by_feature(&off));
            done.cpu.push(cpu);
        }
        Ok(done)
    };
    let mut windows: Vec<FeatureWindowResult> = Vec::new();
    let mut progress = Progress::start("j-fig6", starts.len() as u64);
    in_order(options.threads, starts.len(), work, |piece, done: FeatureWindowResult| {
        windows.push(done);
        progress.at(piece as u64 + 1, &format!("d = {d}"));
        Ok(())
    })?;
    progress.done(&format!("j-fig6: {} windows attacked", starts.len()));

    let mut document = blank(Figure::JFig6, subject, options.seed, drawn.records());
    let shown = d.min(SHOWN);
    document.axis = Axis {
        label: "passive feature, in the order of the data set".into(),
        symbol: "feature".into(),
        points: (1..=shown).collect(),
        determined_up_to: None,
    };
    document.measure =
        Measure::linear("mean squared error of the feature, and its correlation (25)");
    let curve = |name: &str, role, mean: Vec<f64>, standard_error| Curve {
        name: name.into(),
        role,
        of: None,
        x: (1..=shown).map(|i| i as f64).collect(),
        mean,
        standard_error,
        spread: None,
    };
    let first = &windows[0];
    document.curves.push(curve(
        CORRELATION,
        CurveRole::Measured,
        first.correlation[..shown].to_vec(),
        None,
    ));
    for (place, contender) in contenders.iter().enumerate() {
        let errors = &first.errors[place][..shown];
        let (means, errors) = (
            errors.iter().map(|m| m.mean).collect(),
            errors.iter().map(|m| m.standard_error).collect(),
        );
        document.curves.push(curve(contender.curve, contender.role, means, Some(errors)));
        document.attacks.push(AttackFacts {
            curve: contender.curve.into(),
            method: contender.method.to_string(),
            settings: contender.given.clone(),
            records: contender.records,
            cpu_seconds: windows.iter().map(|window| window.cpu[place].as_secs_f64()).sum(),
        });
    }
    let place = |name: &str| contenders.iter().position(|c| c.curve == name);
    for (name, at) in
        ["gia", "gia_converged", "esa"].into_iter().filter_map(|name| Some((name, place(name)?)))
    {
        let claim = format!(
            "{name}: features with a higher correlation usually have a lower error (J section 5.2.1.1, figure 6; here: in more than \
             half of the pairs of passive features of a window)"
        );
        let id = format!("{name}_falls_with_correlation");
        document.checks.push(usually_lower(
            (CheckKind::Paper, id),
            claim,
            &windows,
            |window, i| window.errors[at][i].mean,
        ));
        if let Some(half) = place("half") {
            let claim = format!(
                "{name}: the same of the error over that of ½, which takes out how much a feature varies (ours)"
            );
            let relative = |window: &FeatureWindowResult, i: usize| {
                window.errors[at][i].mean / window.errors[half][i].mean.max(f64::MIN_POSITIVE)
            };
            let id = format!("{name}_over_half_falls_with_correlation");
            document.checks.push(usually_lower((CheckKind::Ours, id), claim, &windows, relative));
        }
    }
    document.notes.push(format!(
        "{d} of {total} features are passive; the curves are the first {shown} of the window from the first column, the pairs of all {} \
         windows. (25) is over all {} records; which features J shows is not said",
        starts.len(),
        all.ncols()
    ));
    document.notes.extend(notes);
    document.notes.push(BEYOND.to_owned());
    Ok(document)
}

const CORRELATION: &str = "correlation";

/// Returns the mean square of each row, with its standard error.
fn by_feature(off: &DMatrix<f64>) -> Vec<Mean> {
    off.row_iter().map(|row| mean(row.iter().map(|v| v * v))).collect()
}

/// Checks that of two features of a window the one with the higher correlation has the lower value,
/// in more than half of the pairs. Pairs that are equal in either are not counted.
fn usually_lower(
    (kind, id): (CheckKind, String),
    claim: String,
    windows: &[FeatureWindowResult],
    value: impl Fn(&FeatureWindowResult, usize) -> f64,
) -> Check {
    let (mut pairs, mut as_said) = (0u64, 0u64);
    let mut violations = Vec::new();
    for (number, window) in windows.iter().enumerate() {
        let features = window.correlation.len();
        let values: Vec<f64> = (0..features).map(|i| value(window, i)).collect();
        let (mut here, mut right) = (0u64, 0u64);
        for (i, j) in (0..features).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let product = (window.correlation[i] - window.correlation[j]) * (values[i] - values[j]);
            here += u64::from(product != 0.0);
            right += u64::from(product < 0.0);
        }
        if 2 * right <= here {
            violations.push(format!("window {}: {right} of {here} pairs", number + 1));
        }
        pairs += here;
        as_said += right;
    }
    Check {
        id,
        kind,
        claim,
        holds: 2 * as_said > pairs,
        comparisons: pairs,
        detail: format!("{as_said} of {pairs} pairs in {} windows", windows.len()),
        violations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(correlation: &[f64], errors: &[f64]) -> FeatureWindowResult {
        let errors = errors.iter().map(|e| Mean { mean: *e, standard_error: 0.0 }).collect();
        FeatureWindowResult {
            correlation: correlation.to_vec(),
            errors: vec![errors],
            cpu: Vec::new(),
        }
    }

    #[test]
    fn pairs_are_counted_within_windows_and_ties_are_none() {
        let of = |windows: &[FeatureWindowResult]| {
            let check =
                usually_lower((CheckKind::Paper, String::new()), String::new(), windows, |w, i| {
                    w.errors[0][i].mean
                });
            (check.holds, check.comparisons, check.violations.len())
        };
        let falls = window(&[0.1, 0.2, 0.3], &[3.0, 2.0, 1.0]);
        let rises = window(&[0.1, 0.2, 0.3], &[1.0, 2.0, 3.0]);
        assert_eq!(of(&[falls]), (true, 3, 0));
        assert_eq!(of(&[rises]), (false, 3, 1));
        // One pair of equal errors, one of equal correlations, one as claimed.
        assert_eq!(of(&[window(&[0.1, 0.2, 0.2], &[2.0, 2.0, 1.0])]), (true, 1, 0));
        assert_eq!(of(&[window(&[0.1], &[1.0])]), (false, 0, 1));
        let halves = [window(&[0.1, 0.2], &[2.0, 1.0]), window(&[0.1, 0.2], &[1.0, 2.0])];
        assert_eq!(of(&halves), (false, 2, 1), "half of the pairs is not more than half");
    }

    #[test]
    fn a_features_error_is_its_mean_square() {
        let found = by_feature(&DMatrix::from_row_slice(2, 2, &[1.0, -3.0, 0.0, 2.0]));
        assert_eq!(found.iter().map(|m| m.mean).collect::<Vec<_>>(), [5.0, 2.0]);
    }
}
