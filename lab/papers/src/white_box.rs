//! R figure 4: the error of ten attacks by the share of features that the passive party holds.

use super::curve_spec::{CurveRun, CurveSpec, SettingPairs, pick};
use super::document::{AttackFacts, Axis, Check, CheckKind, Curve, Document};
use super::experiment_model::ExperimentModel;
use super::statistics::{Mean, mean};
use super::sweep::{EQUAL, Plan, Point, SweepResult, starts, sweep};
use super::{Figure, Options, ReproduceError, blank};

/// The differences between each curve and the one that the paper printed.
const NOTES: [(&str, &str); 7] = [
    (
        "constrained_least_squares",
        "constrained_least_squares is the best fit nearest to ½, so on exact scores it is rcc2; the paper's curve is wherever \
         its solver stopped",
    ),
    (
        "half_star",
        "half_star is not clipped to [0, 1], as in the paper's text; its authors' stored curves are clipped",
    ),
    (
        "rcc1",
        "rcc1 is the semidefinite program (16); the paper's curve asks (16) of the diagonal only, and its legend swaps RCC1 and \
         RCC2",
    ),
    (
        "gradient_inversion",
        "gradient_inversion counts every record; the paper's curve leaves out those on which it failed",
    ),
    (
        CONVERGED,
        "gradient_inversion_converged takes squared differences of logarithms and up to 10 000 steps, on 20 records at most",
    ),
    ("informed", BEYOND),
    (
        "lattice",
        "lattice is in no paper: it knows the grids that the features lie on, from the public schema, and nothing else of them; on 20 \
         records at most",
    ),
];

/// The curve of gradient inversion to convergence, by squared differences of logarithms (errata
/// J4).
const CONVERGED: &str = "gradient_inversion_converged";
/// The number of records for slow attacks: convergence takes ten times the steps, and the lattice
/// is reduced for each window.
const CONVERGED_RECORDS: usize = 20;

/// Returns the ten curves, in the order of the paper's text. Gradient inversion is as R states it:
/// D(ĉ‖c), from zero.
fn wanted(options: &Options) -> Vec<CurveSpec> {
    let inversion = inversion(&options.inversion, options.inversion_records);
    vec![
        CurveSpec::new("least_squares"),
        CurveSpec::new("clamped_least_squares"),
        CurveSpec::new("constrained_least_squares"),
        CurveSpec::new("half"),
        CurveSpec::new("half_star"),
        CurveSpec::new("rcc1"),
        CurveSpec::new("rcc2"),
        inversion,
        CurveSpec::new("random"),
        CurveSpec::new("zero"),
        CurveSpec::new("gradient_inversion")
            .called(CONVERGED)
            .at_most(options.inversion_records.min(CONVERGED_RECORDS)),
    ]
    .into_iter()
    .chain(CurveSpec::beyond())
    .chain([CurveSpec::counting().at_most(options.inversion_records.min(CONVERGED_RECORDS))])
    .collect()
}

/// The note on the two curves that no paper has.
pub(super) const BEYOND: &str = "informed and control are in no paper: both know means and covariances of all features from records outside \
     the test set; informed has the scores, control has none, so that what lies between them is what the scores tell such an adversary";

/// Requests gradient inversion with R's loss, D(ĉ‖c), start 0, and 1000 steps, unless `settings`
/// override them.
pub(super) fn inversion(settings: &SettingPairs, records: usize) -> CurveSpec {
    let given = settings.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    CurveSpec::new("gradient_inversion")
        .with([("loss", "rkl"), ("start", "zero"), ("steps", "1000"), ("stop_loss", "0")])
        .with(given)
        .at_most(records)
}

/// Computes the figure.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let dimensions = dimensions(subject, options)?;
    let (contenders, notes) = pick(wanted(options), &options.attacks, drawn.records())?;
    let place = |name: &str| contenders.iter().position(|c| c.curve == name);
    // The order on every record: half_star is the projection of ½ on the solutions, rcc2 that of
    // half_star on those in the box.
    let claims =
        [("rcc2", "half_star"), ("half_star", "half"), ("clamped_least_squares", "least_squares")];
    let pairs: Vec<(usize, usize)> =
        claims.iter().filter_map(|(a, b)| Some((place(a)?, place(b)?))).collect();
    let plan = Plan {
        order: &pairs,
        ..Plan::new(subject, &drawn, &contenders, &dimensions, options, "r-fig4")
    };
    let swept = sweep(&plan, |_, _| Ok(Vec::new()))?;

    let mut document = blank(Figure::RFig4, subject, options.seed, drawn.records());
    document.axis = axis(subject, &dimensions);
    fill(&mut document, &plan, &swept);
    for (i, &(better, worse)) in pairs.iter().enumerate() {
        document.checks.push(ordered(&plan, &swept, (better, worse), i));
    }
    if let (Some(random), Some(half)) = (place("random"), place("half")) {
        document.checks.push(gap(&swept, random, half));
    }
    document.notes.extend(notes);
    let present = NOTES.iter().filter(|(curve, _)| place(curve).is_some());
    document.notes.extend(present.map(|(_, note)| (*note).to_owned()));
    Ok(document)
}

/// Returns the horizontal axis of a sweep over windows.
pub(super) fn axis(subject: &ExperimentModel, dimensions: &[usize]) -> Axis {
    Axis {
        label: "share of features that the passive party holds, d / d_t".into(),
        symbol: "d".into(),
        points: dimensions.to_vec(),
        determined_up_to: Some((subject.classes() as f64 - 1.0) / subject.features() as f64),
    }
}

/// Returns the numbers of passive features: the requested ones, or 1 … ⌊0.9 d_t⌋.
pub(super) fn dimensions(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Vec<usize>, ReproduceError> {
    let total = subject.features();
    let mut dimensions = options.dimensions.clone();
    if dimensions.is_empty() {
        dimensions = (1..=total * 9 / 10).collect();
    }
    dimensions.sort_unstable();
    dimensions.dedup();
    match dimensions.iter().find(|&&d| d < 1 || d > total) {
        Some(&got) => Err(ReproduceError::Dimension { got, total }),
        None => Ok(dimensions),
    }
}

/// Returns the requested numbers as [`dimensions`] does, or the tenths of the features, to the
/// nearest number.
pub(super) fn tenths(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Vec<usize>, ReproduceError> {
    if !options.dimensions.is_empty() {
        return dimensions(subject, options);
    }
    let total = subject.features();
    let mut tenths: Vec<usize> =
        (1..=9).map(|tenth| (total * tenth + 5) / 10).filter(|d| *d > 0).collect();
    tenths.dedup();
    Ok(tenths)
}

/// Returns the requested numbers as [`dimensions`] does, or eight of them, evenly spread.
pub(super) fn eight(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Vec<usize>, ReproduceError> {
    let all = dimensions(subject, options)?;
    if !options.dimensions.is_empty() || all.len() <= 8 {
        return Ok(all);
    }
    Ok((0..8).map(|i| all[i * (all.len() - 1) / 7]).collect())
}

/// Adds the attacks of a sweep and their curves to a document.
pub(super) fn fill(document: &mut Document, plan: &Plan<'_>, swept: &SweepResult) {
    let total = plan.subject.features() as f64;
    let x: Vec<f64> = swept.points.iter().map(|p| p.d as f64 / total).collect();
    for (i, contender) in plan.contenders.iter().enumerate() {
        let means: Vec<Mean> =
            swept.points.iter().map(|p| mean(p.errors[i].iter().copied())).collect();
        put(document, contender, &x, &means, swept.cpu[i].as_secs_f64());
        if let Some(curve) = document.curves.last_mut() {
            curve.spread = Some(swept.points.iter().map(|p| p.spread[i]).collect());
        }
    }
}

/// Adds an attack and its curve to a document: the mean at each position on the axis, and the
/// processor time of all.
pub(super) fn put(
    document: &mut Document,
    contender: &CurveRun,
    x: &[f64],
    means: &[Mean],
    cpu_seconds: f64,
) {
    document.curves.push(Curve {
        name: contender.curve.into(),
        role: contender.role,
        of: None,
        x: x.to_vec(),
        mean: means.iter().map(|m| m.mean).collect(),
        standard_error: Some(means.iter().map(|m| m.standard_error).collect()),
        spread: None,
    });
    document.attacks.push(AttackFacts {
        curve: contender.curve.into(),
        method: contender.method.to_string(),
        settings: contender.given.clone(),
        records: contender.records,
        cpu_seconds,
    });
}

/// Checks that one attack is never worse than another: in the mean at every point, and on every
/// record.
fn ordered(
    plan: &Plan<'_>,
    swept: &SweepResult,
    (better, worse): (usize, usize),
    pair: usize,
) -> Check {
    let (a, b) = (plan.contenders[better].curve, plan.contenders[worse].curve);
    let violations: Vec<String> = swept
        .points
        .iter()
        .filter_map(|p| {
            let (low, high) = (
                mean(p.errors[better].iter().copied()).mean,
                mean(p.errors[worse].iter().copied()).mean,
            );
            (low > high + EQUAL).then(|| format!("d = {}: {a} {low:.6e} above {b} {high:.6e}", p.d))
        })
        .collect();
    let out: u64 = swept.points.iter().map(|p| p.disorder[pair]).sum();
    let records = (plan.drawn.records()
        * starts(plan.subject.features(), plan.windows).len()
        * swept.points.len()) as u64;
    Check {
        id: format!("{a}_below_{b}"),
        kind: CheckKind::Theorem,
        claim: format!("{a} is at most {b} at every point (R theorem 1 and section VIII-A)"),
        holds: violations.is_empty() && out == 0,
        comparisons: records,
        detail: format!(
            "{} of {} points, {out} of {records} single records out of order",
            violations.len(),
            swept.points.len()
        ),
        violations,
    }
}

/// Checks that a uniform guess costs 1/12 more than ½ (R remark 8).
fn gap(swept: &SweepResult, random: usize, half: usize) -> Check {
    const GAP: f64 = 1.0 / 12.0;
    let difference = |p: &Point| {
        let pairs: Vec<f64> =
            p.errors[random].iter().zip(&p.errors[half]).map(|(r, h)| r - h).collect();
        let m = mean(pairs.into_iter());
        // A single record has no known standard error, so nothing can be checked.
        let z = if m.standard_error > 0.0 { (m.mean - GAP) / m.standard_error } else { 0.0 };
        (m, z)
    };
    let all: Vec<_> = swept.points.iter().map(|p| (p.d, difference(p))).collect();
    let worst = all.iter().fold(0.0f64, |worst, (_, (_, z))| worst.max(z.abs()));
    let violations: Vec<String> = all
        .iter()
        .filter(|(_, (_, z))| z.abs() > 4.0)
        .map(|(d, (m, z))| {
            format!("d = {d}: {:.6} ± {:.6}, {z:.1} standard errors off", m.mean, m.standard_error)
        })
        .collect();
    Check {
        id: "random_above_half".into(),
        kind: CheckKind::Theorem,
        claim: "random is 1/12 = 0.0833 above half (R remark 8), within four standard errors of the difference".into(),
        holds: violations.is_empty(),
        comparisons: all.len() as u64,
        detail: format!(
            "mean difference {:.5}, at worst {worst:.2} standard errors off",
            all.iter().map(|(_, (m, _))| m.mean).sum::<f64>() / all.len().max(1) as f64
        ),
        violations,
    }
}
