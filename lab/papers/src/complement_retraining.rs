//! R figure 12: the change of the scores, D(c ‖ c̃), from training on 1 − x in place of x, by the
//! number of passive features.
//!
//! At the minimum there is no change if the bias is not penalised (R proposition 4 and errata R6).
//! The remaining change depends on the optimiser and its stopping rule.

use nalgebra::{DMatrix, DMatrixView, DVector};
use vfl_core::metrics::UtilityTotals;
use vfl_core::model::{cross_entropy, train_central, train_converged};
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_numerics::Lbfgs;
use vfl_present::progress::Progress;

use super::document::{Axis, Check, CheckKind, Curve, CurveRole, Document, Measure};
use super::experiment_model::ExperimentModel;
use super::model_training::{CONVERGED, scores};
use super::sweep::{Window, starts};
use super::white_box::axis;
use super::workers::in_order;
use super::{Figure, Options, ReproduceError, blank};

/// The default numbers of passive features, as shares of all.
const SHARES: [f64; 4] = [0.1, 0.3, 0.6, 0.9];
/// The default number of windows of each.
const WINDOWS: usize = 2;
/// The weight of the penalty at full convergence if the model itself has none.
const LEAST_L2: f64 = 1e-4;

/// The divergence below which the scores count as unchanged, in bits.
const LOSSLESS: f64 = 1e-8;

/// A way to train a model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TrainingMethod {
    /// Adam with early stopping, as for the model of the figure.
    Adam,
    /// To full convergence, with no penalty on the bias.
    Converged,
    /// To full convergence, with the bias penalised as the weights are, as in R (76).
    BiasPenalised,
}

const WAYS: [(&str, TrainingMethod); 3] = [
    ("adam", TrainingMethod::Adam),
    ("converged", TrainingMethod::Converged),
    ("converged_bias_penalised", TrainingMethod::BiasPenalised),
];

struct TrainedWeights {
    weights: DMatrix<f64>,
    bias: DVector<f64>,
    gradient: f64,
}

/// Returns the weight of the penalty at full convergence.
pub(super) fn l2(subject: &ExperimentModel) -> f64 {
    subject.training.values().l2.max(LEAST_L2)
}

/// Returns the same records with x → 1 − x in some rows.
pub(super) fn complemented(x: &DMatrix<f64>, rows: &[usize]) -> DMatrix<f64> {
    let mut x = x.clone();
    for &row in rows {
        x.row_mut(row).apply(|v| *v = 1.0 - *v);
    }
    x
}

/// Trains on records with features `x` (d_t × m).
fn train(
    way: TrainingMethod,
    subject: &ExperimentModel,
    x: &DMatrix<f64>,
    labels: &[u32],
) -> Result<TrainedWeights, ReproduceError> {
    let k = subject.classes();
    let method = CONVERGED;
    Ok(match way {
        TrainingMethod::Adam => {
            let fit = train_central(&subject.training, k, x, labels);
            TrainedWeights { weights: fit.weights, bias: fit.bias, gradient: f64::NAN }
        }
        TrainingMethod::Converged => {
            let fit = train_converged(k, x, labels, l2(subject), method)?;
            TrainedWeights { weights: fit.weights, bias: fit.bias, gradient: fit.gradient_norm }
        }
        TrainingMethod::BiasPenalised => penalised(k, x, labels, l2(subject), method),
    })
}

/// Minimises the mean cross-entropy plus l2 (‖W‖² + ‖b‖²).
fn penalised(k: usize, x: &DMatrix<f64>, labels: &[u32], l2: f64, method: Lbfgs) -> TrainedWeights {
    let d = x.nrows();
    let extended = x.clone().insert_row(d, 1.0);
    let mut objective = |theta: &[f64], gradient: &mut [f64]| {
        let theta = DMatrixView::from_slice(theta, k, d + 1);
        let Ok(logits) = Logits::new(theta * &extended) else {
            gradient.fill(f64::NAN);
            return f64::INFINITY;
        };
        let (loss, residual, _) = cross_entropy(logits, labels);
        let slope = residual * extended.transpose() + theta * (2.0 * l2);
        gradient.copy_from_slice(slope.as_slice());
        loss + l2 * theta.norm_squared()
    };
    let found = method.minimise(&vec![0.0; k * (d + 1)], &mut objective);
    let theta = DMatrix::from_vec(k, d + 1, found.x);
    TrainedWeights {
        weights: theta.columns(0, d).into_owned(),
        bias: theta.column(d).into_owned(),
        gradient: found.gradient_norm,
    }
}

/// The results of one split: mean D(c ‖ c̃) in bits, mean total variation, and the gradient at the
/// end of the second training.
type Divergence = ([f64; 2], f64);

/// Computes the figure.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let total = subject.features();
    let test = subject.draw(None, options.seed);
    let dimensions = match options.dimensions.as_slice() {
        [] => {
            let mut all: Vec<usize> = SHARES
                .iter()
                .map(|share| ((share * total as f64).round() as usize).max(1))
                .collect();
            all.dedup();
            all
        }
        _ => super::white_box::dimensions(subject, options)?,
    };
    let starts = starts(total, options.windows.or(Some(WINDOWS)));
    let (own, labels) = subject.own_records(options.own_records, options.seed);
    let before = WAYS.map(|(_, way)| train(way, subject, &own, &labels));
    let before = before.into_iter().collect::<Result<Vec<_>, _>>()?;
    let gradient = before.iter().skip(1).fold(0.0f64, |worst, trained| worst.max(trained.gradient));

    let pieces = WAYS.len() * dimensions.len() * starts.len();
    let of = |piece: usize| {
        let (way, rest) = (piece % WAYS.len(), piece / WAYS.len());
        (way, dimensions[rest / starts.len()], starts[rest % starts.len()])
    };
    let work = |piece: usize| -> Result<Divergence, ReproduceError> {
        let (way, d, k0) = of(piece);
        let window = Window::new(subject, k0, d)?;
        let after = train(WAYS[way].1, subject, &complemented(&own, &window.passive), &labels)?;
        let bits =
            divergence(&before[way], &after, &test.x, &complemented(&test.x, &window.passive))?;
        Ok((bits, after.gradient))
    };
    let mut progress = Progress::start("r-fig12", pieces as u64);
    let mut bits = vec![vec![[0.0; 2]; dimensions.len()]; WAYS.len()];
    let mut worst = gradient;
    in_order(options.threads, pieces, work, |piece, (found, gradient): Divergence| {
        let (way, d, _) = of(piece);
        let place = dimensions.iter().position(|x| *x == d).unwrap_or_default();
        bits[way][place]
            .iter_mut()
            .zip(found)
            .for_each(|(sum, found)| *sum += found / starts.len() as f64);
        worst = worst.max(gradient);
        progress.at(piece as u64 + 1, WAYS[way].0);
        Ok(())
    })?;
    progress.done(&format!("r-fig12: {pieces} models trained"));

    let mut document = blank(Figure::RFig12, subject, options.seed, test.records());
    document.axis = Axis { determined_up_to: None, ..axis(subject, &dimensions) };
    document.measure = Measure {
        label: "mean divergence D(c‖c̃) of the scores in bits; total variation where so named"
            .into(),
        linear: false,
    };
    let curves = WAYS.iter().zip(&bits).flat_map(|((name, _), found)| {
        let of = |at: usize| found.iter().map(|both| both[at]).collect::<Vec<f64>>();
        [((*name).to_owned(), of(0)), (format!("total_variation_{name}"), of(1))]
    });
    for (name, mean) in curves {
        document.curves.push(Curve {
            name,
            role: CurveRole::Measured,
            of: None,
            x: dimensions.iter().map(|&d| d as f64 / total as f64).collect(),
            mean,
            standard_error: None,
            spread: None,
        });
    }
    document.checks.push(lossless(&document, "converged", CheckKind::Theorem, worst));
    document.checks.push(lossless(&document, "adam", CheckKind::Ours, f64::NAN));
    document.checks.push(lossless(&document, "converged_bias_penalised", CheckKind::Ours, worst));
    document.notes.push(format!(
        "{} windows of each number of passive features, all {} test records, trained on {} of {} training records; `adam` is trained as the model of this document, seed, \
         order and stopping the same; `converged` by L-BFGS with L2 {:.0e} on the weights, largest entry of a gradient at the end \
         {worst:.0e}",
        starts.len(),
        test.records(),
        labels.len(),
        subject.others.ncols(),
        l2(subject)
    ));
    document.notes.push(
        "R explains the small divergence of its figure by the normalisation and the step size of its optimiser; penalising the \
         bias, as (76) does, moves the minimum itself"
            .into(),
    );
    Ok(document)
}

/// Returns the mean D(c ‖ c̃) in bits and the mean total variation over records with features `x`
/// for the first model and `y` for the second.
fn divergence(
    before: &TrainedWeights,
    after: &TrainedWeights,
    x: &DMatrix<f64>,
    y: &DMatrix<f64>,
) -> Result<[f64; 2], ReproduceError> {
    let mut logits = &before.weights * x;
    logits.column_iter_mut().for_each(|mut z| z += &before.bias);
    let c = ConfidenceScores::softmax(Logits::new(logits)?);
    let released = ReleasedScores::Probabilities(scores(&after.weights, &after.bias, y)?);
    let totals = UtilityTotals::of(&c, &released)?;
    let bits = totals.kl_divergence().unwrap_or(f64::INFINITY).max(0.0) / std::f64::consts::LN_2;
    Ok([bits, totals.total_variation().unwrap_or(1.0)])
}

/// R: the scheme is lossless, D(c ‖ c̃) about 0.
fn lossless(document: &Document, curve: &str, kind: CheckKind, gradient: f64) -> Check {
    let bound = LOSSLESS;
    let values = document.curve(curve).map_or(&[][..], |c| c.mean.as_slice());
    let most = values.iter().copied().fold(0.0, f64::max);
    let ended = if gradient.is_finite() {
        format!("; gradients at most {gradient:.0e}")
    } else {
        String::new()
    };
    Check {
        id: format!("{curve}_lossless"),
        kind,
        claim: format!(
            "{curve}: the scores are the same after training on 1 − x, divergence below {bound:.0e} bits{}",
            if kind == CheckKind::Theorem { " (R proposition 4)" } else { "" }
        ),
        holds: most < bound,
        comparisons: values.len() as u64,
        detail: format!("at most {most:.2e} bits{ended}"),
        violations: document
            .axis
            .points
            .iter()
            .zip(values)
            .filter(|(_, v)| **v >= bound)
            .map(|(d, v)| format!("d = {d}: {v:.3e}"))
            .collect(),
    }
}
