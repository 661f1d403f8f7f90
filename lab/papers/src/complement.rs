//! R figures 8 to 11: the errors of seven attacks before and after the passive features x become 1
//! − x for training.
//!
//! If training has converged, the new model is the old one rewritten (R proposition 4, errata R6):
//! W_pas becomes −W_pas and b becomes b + W_pas 1, and every score stays the same. A model that was
//! trained to full convergence is retrained in every split; another is rewritten. The adversary
//! knows the new model and not the transform; it takes its estimates for x.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use vfl_attack::KnownModel;
use vfl_attack::adaptive::Hypothesis;
use vfl_core::model::train_converged;
use vfl_core::types::FeatureBlock;
use vfl_present::progress::Progress;
use vfl_transform::{RewrittenParameters, TransformConfig, rewrite};

use super::complement_retraining::{complemented, l2};
use super::curve_spec::{CurveSpec, pick};
use super::document::{Check, CheckKind, Curve, CurveRole, Document, ModelOrigin};
use super::experiment_model::{DrawnRecords, ExperimentModel, Purpose, generator};
use super::model_training::CONVERGED;
use super::sweep::{EQUAL, Plan, SweepResult, Window, select, starts, sweep};
use super::white_box::{BEYOND, axis, eight, fill};
use super::workers::in_order;
use super::{Figure, Options, ReproduceError, blank, undo};

/// The attacks of the figures, with the name of each one's curve after the transform, and the most
/// records of every split.
const ATTACKS: [(&str, &str, usize); 7] = [
    ("least_squares", "least_squares_after", usize::MAX),
    ("clamped_least_squares", "clamped_least_squares_after", usize::MAX),
    ("constrained_least_squares", "constrained_least_squares_after", 100),
    ("half_star", "half_star_after", usize::MAX),
    ("clamped_half_star", "clamped_half_star_after", usize::MAX),
    ("rcc1", "rcc1_after", 30),
    ("rcc2", "rcc2_after", 100),
];

/// Weights (k × d_t) and bias from training on 1 − x in the passive columns to full convergence, by
/// number and first of these columns.
type RetrainedModels = BTreeMap<(usize, usize), (DMatrix<f64>, DVector<f64>)>;

/// Retrains in every split; empty if the model before was not trained to full convergence.
fn retrain(
    subject: &ExperimentModel,
    dimensions: &[usize],
    options: &Options,
) -> Result<RetrainedModels, ReproduceError> {
    let mut models = RetrainedModels::new();
    if !matches!(subject.model.origin, ModelOrigin::Converged { .. }) {
        return Ok(models);
    }
    let starts = starts(subject.features(), options.windows);
    let splits: Vec<(usize, usize)> =
        dimensions.iter().flat_map(|&d| starts.iter().map(move |&k0| (d, k0))).collect();
    let work = |piece: usize| {
        let (d, k0) = splits[piece];
        let window = Window::new(subject, k0, d)?;
        let x = complemented(&subject.others, &window.passive);
        let l2 = subject.training.values().l2;
        let fit = train_converged(subject.classes(), &x, &subject.other_labels, l2, CONVERGED)?;
        Ok((fit.weights, fit.bias))
    };
    let mut progress = Progress::start("training again", splits.len() as u64);
    in_order(options.threads, splits.len(), work, |piece, model| {
        models.insert(splits[piece], model);
        progress.at(piece as u64 + 1, &format!("d = {}", splits[piece].0));
        Ok(())
    })?;
    progress.done(&format!("{} models trained on 1 − x", splits.len()));
    Ok(models)
}

/// Returns the model as released after training on 1 − x: the one before, rewritten.
fn after(window: &Window) -> Result<KnownModel, ReproduceError> {
    let failed =
        |error| ReproduceError::Attack { curve: "after".into(), d: window.d, k0: window.k0, error };
    let w_pas = window.model.passive_weights().map_err(failed)?;
    // This transform draws nothing at random.
    let rewritten = rewrite(
        &TransformConfig::Complement {},
        w_pas,
        None,
        &mut generator(0, Purpose::Attack, 0),
    );
    let transform = |error| ReproduceError::Transform {
        transform: "complement".into(),
        d: window.d,
        k0: window.k0,
        error,
    };
    let RewrittenParameters { weights, bias_shift, .. } = rewritten.map_err(transform)?;
    let bias = window.model.bias() + bias_shift;
    KnownModel::white_box(window.model.active_weights().clone(), bias, weights).map_err(failed)
}

/// Computes (4/d) Tr(P K_½) over the given passive features (d × n): the increase of the error of
/// both linear attacks (R section VIII-D).
fn increase(window: &Window, x: &DMatrix<f64>) -> Result<f64, ReproduceError> {
    let failed = |error| ReproduceError::Attack {
        curve: "increase".into(),
        d: window.d,
        k0: window.k0,
        error,
    };
    let system = window.model.linear().map_err(failed)?;
    let centred = x.map(|v| v - 0.5);
    let k = &centred * centred.transpose() / x.ncols() as f64;
    let p = system.pseudo_inverse() * system.matrix();
    Ok(4.0 * p.dot(&k.transpose()) / window.d as f64)
}

/// Computes the figure.
pub(super) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let dimensions = eight(subject, options)?;
    let wanted = ATTACKS.iter().flat_map(|&(method, after, most)| {
        [CurveSpec::new(method).at_most(most), CurveSpec::new(method).called(after).at_most(most)]
    });
    let wanted = wanted.chain(CurveSpec::beyond());
    let (contenders, notes) = pick(wanted.collect(), &options.attacks, drawn.records())?;
    let retrained_in = retrain(subject, &dimensions, options)?;
    // Two trainings do not end at the same digits.
    let equal = if retrained_in.is_empty() { 1e-9 } else { 1e-4 };
    let knowledge = |window: &Window, place: usize| {
        let is_after = ATTACKS.iter().any(|(_, name, _)| contenders[place].curve == *name);
        match (is_after, retrained_in.get(&(window.d, window.k0))) {
            (false, _) => Ok(None),
            (true, Some((weights, bias))) => {
                let of = |columns: &[usize]| weights.select_columns(columns);
                KnownModel::white_box(of(&window.active), bias.clone(), of(&window.passive))
                    .map(Some)
                    .map_err(|error| ReproduceError::Attack {
                        curve: "after".into(),
                        d: window.d,
                        k0: window.k0,
                        error,
                    })
            }
            (true, None) => after(window).map(Some),
        }
    };
    let plan = Plan {
        knowledge: Some(&knowledge),
        ..Plan::new(subject, &drawn, &contenders, &dimensions, options, figure.as_str())
    };
    let swept = sweep(&plan, |window, drawn: &DrawnRecords| {
        let truth = select(&drawn.x, &window.passive, drawn.records());
        let mut more = vec![increase(window, &truth)?];
        more.extend(adaptive(subject, window, drawn, &truth)?);
        Ok(more)
    })?;

    let mut document = blank(figure, subject, options.seed, drawn.records());
    document.axis = axis(subject, &dimensions);
    fill(&mut document, &plan, &swept);
    let by_formula: Vec<f64> = swept.points.iter().map(|p| p.more[0]).collect();
    let x: Vec<f64> = swept.points.iter().map(|p| p.d as f64 / subject.features() as f64).collect();
    for attack in ["least_squares", "half_star"] {
        if let Some((before, after)) = pair(&document, attack) {
            document.checks.push(rises(attack, &dimensions, &before, &after));
            document.checks.push(rises_as_told(
                attack,
                &dimensions,
                (&before, &after),
                &by_formula,
                equal,
            ));
            let closed: Vec<f64> = before.iter().zip(&by_formula).map(|(b, i)| b + i).collect();
            document.curves.push(Curve {
                name: format!("{attack}_after_closed_form"),
                role: CurveRole::ClosedForm,
                of: Some(format!("{attack}_after")),
                x: x.clone(),
                mean: closed,
                standard_error: None,
                spread: None,
            });
        }
    }
    for (i, name) in UNDONE.into_iter().enumerate() {
        document.curves.push(Curve {
            name: name.into(),
            role: CurveRole::Attack,
            of: None,
            x: x.clone(),
            mean: swept.points.iter().map(|p| p.more[1 + i]).collect(),
            standard_error: None,
            spread: None,
        });
        let found = swept.points.iter().map(|p| p.more[1 + UNDONE.len() + i]).fold(0.0, f64::max);
        document.notes.push(format!(
            "{name}: half_star of an adversary who knows that the model may have been trained on 1 − x{}; {}",
            if i == 0 { ", and no more" } else { ", and the mean of each passive feature over the test records" },
            if found > 0.0 { "where it cannot tell, it takes the release as it stands" } else { "it can never tell" }
        ));
    }
    document.checks.push(returns(&swept, &dimensions));
    for (attack, ..) in
        ATTACKS.iter().filter(|(a, ..)| !matches!(*a, "least_squares" | "half_star"))
    {
        if let Some((before, after)) = pair(&document, attack) {
            document.checks.push(rises(attack, &dimensions, &before, &after));
        }
    }
    document.checks.push(retrained(subject, options, dimensions[dimensions.len() / 2])?);
    document.notes.extend(notes);
    document.notes.push(BEYOND.to_owned());
    document.notes.push(format!(
        "{} windows of each number of passive features; {}; the adversary takes what it finds for x",
        plan.windows.unwrap_or(subject.features()),
        match retrained_in.is_empty() {
            true =>
                "the model after is the one before rewritten, W_pas to −W_pas and b to b + W_pas 1, so that all scores are the same",
            false => "the model after is trained on 1 − x in every window, to full convergence",
        }
    ));
    document.notes.push(
        "constrained_least_squares is the best fit nearest to ½, so on exact scores it is rcc2; rcc1 is the semidefinite program \
         (16); half_star is not clipped"
            .into(),
    );
    Ok(document)
}

/// The possible curves of the adversary that knows the transform: without and with the means of the
/// features.
const UNDONE: [&str; 2] = ["half_star_undone", "half_star_undone_means_known"];

/// Returns its errors, then 1 if it finds the transform, then its distance from `half_star` before
/// if it does.
fn adaptive(
    subject: &ExperimentModel,
    window: &Window,
    drawn: &DrawnRecords,
    truth: &DMatrix<f64>,
) -> Result<Vec<f64>, ReproduceError> {
    let failed = |error| ReproduceError::Attack {
        curve: UNDONE[0].into(),
        d: window.d,
        k0: window.k0,
        error,
    };
    let shown = after(window)?;
    let y = FeatureBlock::new(select(&drawn.x, &window.active, drawn.records()))?;
    let released = drawn.released(drawn.records());
    let before = undo::half_star(&window.model, &y, &released, truth).map_err(failed)?;
    let (mut errors, mut shares, mut off) = (Vec::new(), Vec::new(), 0.0);
    for means in [None, Some(undo::column_means(subject, window))] {
        let examined = undo::examine(&shown, &y, &released, means.clone()).map_err(failed)?;
        let found = examined.hypothesis == Some(Hypothesis::Complement);
        let error = undo::error(&shown, &y, &released, means, truth).map_err(failed)?;
        if found {
            off += (error - before).abs();
        }
        errors.push(error);
        shares.push(f64::from(u8::from(found)));
    }
    errors.extend(shares);
    errors.push(off);
    Ok(errors)
}

/// Our check: an adversary that finds the transform undoes it.
fn returns(swept: &SweepResult, dimensions: &[usize]) -> Check {
    let (share, off) = (2 * UNDONE.len(), 1 + 2 * UNDONE.len());
    let off: Vec<f64> = swept.points.iter().map(|p| p.more[off]).collect();
    let found: Vec<String> = dimensions
        .iter()
        .zip(&swept.points)
        .map(|(d, p)| format!("{:.0} % at d = {d}", 100.0 * p.more[share]))
        .collect();
    Check {
        id: "undone".into(),
        kind: CheckKind::Ours,
        claim: "who finds the transform is back at half_star before it (not in the paper)".into(),
        holds: off.iter().all(|off| *off <= 1e-9),
        comparisons: dimensions.len() as u64,
        detail: format!(
            "largest difference {:.1e}; found with the means of the features in {} of the windows",
            off.iter().copied().fold(0.0, f64::max),
            found.join(", ")
        ),
        violations: dimensions
            .iter()
            .zip(&off)
            .filter(|(_, off)| **off > 1e-9)
            .map(|(d, off)| format!("d = {d}: {off:.3e}"))
            .collect(),
    }
}

/// Returns the means of an attack before and after.
fn pair(document: &Document, attack: &str) -> Option<(Vec<f64>, Vec<f64>)> {
    let of = |name: &str| document.curve(name).map(|curve| curve.mean.clone());
    Some((of(attack)?, of(&format!("{attack}_after"))?))
}

/// R: all attacks become less successful.
fn rises(attack: &str, dimensions: &[usize], before: &[f64], after: &[f64]) -> Check {
    let points = || dimensions.iter().zip(before.iter().zip(after));
    let violations: Vec<String> = points()
        .filter(|(_, (before, after))| **after < **before - EQUAL)
        .map(|(d, (before, after))| format!("d = {d}: {before:.4e} before, {after:.4e} after"))
        .collect();
    let least = points().map(|(_, (b, a))| a - b).fold(f64::INFINITY, f64::min);
    let most = points().map(|(_, (b, a))| a - b).fold(f64::NEG_INFINITY, f64::max);
    Check {
        id: format!("{attack}_worse"),
        kind: CheckKind::Paper,
        claim: format!("{attack} does worse after training on 1 − x (R section VIII-D)"),
        holds: violations.is_empty(),
        comparisons: dimensions.len() as u64,
        detail: format!("error larger by {least:.4} to {most:.4}"),
        violations,
    }
}

/// R section VIII-D: the increase is (4/d) Tr(P K_½).
fn rises_as_told(
    attack: &str,
    dimensions: &[usize],
    (before, after): (&[f64], &[f64]),
    formula: &[f64],
    equal: f64,
) -> Check {
    let off: Vec<f64> =
        before.iter().zip(after).zip(formula).map(|((b, a), f)| (a - b - f).abs()).collect();
    Check {
        id: format!("{attack}_grows_as_told"),
        kind: CheckKind::Theorem,
        claim: format!("the error of {attack} grows by (4/d) Tr(A⁺A K_½) (R section VIII-D)"),
        holds: off.iter().all(|off| *off <= equal),
        comparisons: dimensions.len() as u64,
        detail: format!("largest difference {:.1e}", off.iter().copied().fold(0.0, f64::max)),
        violations: dimensions
            .iter()
            .zip(&off)
            .filter(|(_, off)| **off > equal)
            .map(|(d, off)| format!("d = {d}: {off:.3e}"))
            .collect(),
    }
}

/// Trains to convergence on x and on 1 − x in one split: W' = −W and b' = b + W 1 for the passive
/// features.
fn retrained(
    subject: &ExperimentModel,
    options: &Options,
    d: usize,
) -> Result<Check, ReproduceError> {
    let window = Window::new(subject, 0, d)?;
    let method = CONVERGED;
    let (own, labels) = subject.own_records(options.own_records, options.seed);
    let fit =
        |x: &DMatrix<f64>| train_converged(subject.classes(), x, &labels, l2(subject), method);
    let (old, new) = (fit(&own)?, fit(&complemented(&own, &window.passive))?);
    let mut told = old.clone();
    for &column in &window.passive {
        let weights = old.weights.column(column).into_owned();
        told.bias += &weights;
        told.weights.set_column(column, &-weights);
    }
    // Scores do not determine a shift of the bias that is the same for all classes.
    let gap = &new.bias - &told.bias;
    let bias = gap.add_scalar(-gap.mean()).amax();
    let weights = (&new.weights - &told.weights).amax();
    let scale = old.weights.amax();
    Ok(Check {
        id: "retrained".into(),
        kind: CheckKind::Theorem,
        claim: "at full convergence the model trained on 1 − x is W' = −W, b' = b + W 1 (R proposition 4)".into(),
        holds: weights.max(bias) <= 1e-4 * scale,
        comparisons: (new.weights.len() + new.bias.len()) as u64,
        detail: format!(
            "d = {d}: weights within {weights:.1e}, bias within {bias:.1e} of magnitudes up to {scale:.1}; gradients {:.0e} and \
             {:.0e} after {} and {} steps, L2 {:.0e} on the weights alone",
            old.gradient_norm,
            new.gradient_norm,
            old.iterations,
            new.iterations,
            l2(subject)
        ),
        violations: Vec::new(),
    })
}
