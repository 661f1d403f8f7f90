//! R figure 5: theorem 2, the errors of least squares and of half_star in closed form with their
//! bounds, beside the measured errors.

use nalgebra::DMatrix;
use vfl_core::types::FeatureBlock;
use vfl_transform::assess::assess;

use super::curve_spec::{CurveSpec, pick};
use super::document::{Check, CheckKind, Curve, CurveRole, Document};
use super::experiment_model::{DrawnRecords, ExperimentModel};
use super::sweep::{Plan, Window, select, sweep};
use super::white_box::{axis, dimensions, fill};
use super::{Figure, Options, ReproduceError, blank};

/// The curves of the theorem, in the order that [`theorem`] returns them: name, role, and the
/// attack of each.
const CURVES: [(&str, CurveRole, Option<&str>); 7] = [
    ("least_squares_closed_form", CurveRole::ClosedForm, Some("least_squares")),
    ("least_squares_lower_bound", CurveRole::LowerBound, Some("least_squares")),
    ("least_squares_upper_bound", CurveRole::UpperBound, Some("least_squares")),
    ("half_star_closed_form", CurveRole::ClosedForm, Some("half_star")),
    ("half_star_lower_bound", CurveRole::LowerBound, Some("half_star")),
    ("half_star_upper_bound", CurveRole::UpperBound, Some("half_star")),
    ("lower_bound_of_both", CurveRole::LowerBound, None),
];

/// Returns (50), (51) and (52) in one split, over the given passive features (d × n).
fn theorem(window: &Window, x: &DMatrix<f64>) -> Result<Vec<f64>, ReproduceError> {
    let (d, k0) = (window.d, window.k0);
    let failed = |error| ReproduceError::Attack { curve: "theorem 2".into(), d, k0, error };
    let w_pas = window.model.passive_weights().map_err(failed)?;
    let told = assess(w_pas, &FeatureBlock::new(x.clone())?);
    let a = told.map_err(|e| ReproduceError::Failed {
        what: "theorem 2",
        d,
        k0,
        reason: e.to_string(),
    })?;
    Ok(vec![a.mse_ls, a.lb_ls, a.ub_ls, a.mse_half_star, a.lb_half_star, a.ub_half_star, a.lb_mu])
}

/// Computes the figure. Moments are those of the attacked records, so that closed forms and
/// measured errors use the same data and agree to round-off.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let dimensions = dimensions(subject, options)?;
    let wanted = vec![CurveSpec::new("least_squares"), CurveSpec::new("half_star")];
    let (contenders, notes) = pick(wanted, &[], drawn.records())?;
    let plan = Plan::new(subject, &drawn, &contenders, &dimensions, options, "r-fig5");
    let swept = sweep(&plan, |window, drawn: &DrawnRecords| {
        theorem(window, &select(&drawn.x, &window.passive, drawn.records()))
    })?;

    let mut document = blank(Figure::RFig5, subject, options.seed, drawn.records());
    document.axis = axis(subject, &dimensions);
    fill(&mut document, &plan, &swept);
    let total = subject.features() as f64;
    for (i, (name, role, of)) in CURVES.into_iter().enumerate() {
        document.curves.push(Curve {
            name: name.into(),
            role,
            of: of.map(str::to_owned),
            x: swept.points.iter().map(|p| p.d as f64 / total).collect(),
            mean: swept.points.iter().map(|p| p.more[i]).collect(),
            standard_error: None,
            spread: None,
        });
    }
    for attack in ["least_squares", "half_star"] {
        let checks = checks(&document, &dimensions, attack);
        document.checks.extend(checks);
    }
    document.notes.extend(notes);
    document.notes.push(
        "the upper bounds are those of (50) and (51), sums of eigenvalues; the paper's figure draws looser ones, min(Tr K, √nul(A)·‖K‖_F)/d"
            .into(),
    );
    document.notes.push("moments are taken over the records attacked".into());
    Ok(document)
}

fn checks(document: &Document, dimensions: &[usize], attack: &str) -> Vec<Check> {
    let values = |name: &str| document.curve(name).map_or(&[][..], |c| c.mean.as_slice());
    let of = |what: &str| values(&format!("{attack}_{what}"));
    let (measured, exact) = (values(attack), of("closed_form"));
    let check = |id: &str, claim: String, worst: f64, what: &str, violations: Vec<String>| Check {
        id: format!("{attack}_{id}"),
        kind: CheckKind::Theorem,
        claim,
        holds: violations.is_empty(),
        comparisons: dimensions.len() as u64,
        detail: format!("{what} {worst:.1e}"),
        violations,
    };
    let differences: Vec<f64> = measured.iter().zip(exact).map(|(a, b)| (a - b).abs()).collect();
    let agree = check(
        "equals_closed_form",
        format!("{attack} equals its closed form (R theorem 2)"),
        differences.iter().copied().fold(0.0, f64::max),
        "largest difference",
        dimensions
            .iter()
            .zip(&differences)
            .filter(|(_, difference)| **difference > 1e-9)
            .map(|(d, difference)| format!("d = {d}: {difference:.3e}"))
            .collect(),
    );
    let bounds = of("lower_bound").iter().zip(values("lower_bound_of_both")).zip(of("upper_bound"));
    let excess: Vec<f64> = measured
        .iter()
        .zip(bounds)
        .map(|(m, ((low, mean), high))| (low - m).max(mean - m).max(m - high))
        .collect();
    let within = check(
        "within_bounds",
        format!("{attack} lies within its bounds (50), (51) and (52)"),
        excess.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "closest to a bound, negative inside:",
        dimensions
            .iter()
            .zip(&excess)
            .filter(|(_, excess)| **excess > 1e-12)
            .map(|(d, excess)| format!("d = {d}: {excess:.3e} outside"))
            .collect(),
    );
    vec![agree, within]
}
