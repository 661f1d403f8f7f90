//! The training of a shadow: J algorithm 2, with D = KL(c ‖ ĉ) or squared log-ratios.

use std::fmt;

use nalgebra::DMatrix;
use rand::{Rng, RngExt};
use vfl_core::model::contract::{ParameterRole, SubModelOrigin};
use vfl_core::model::{Adam, SubModel, kinds};
use vfl_core::types::ShapeError;
use vfl_numerics::softmax_columns;

use super::settings::{Architecture, NetworkTraining};
use crate::sizes::same;
use crate::{AdversaryView, AttackError, AuxiliaryRecords, KnownModel, ShadowBias, ShadowFit};

/// The most multiplications of all starts, forwards and backwards: some minutes on one core
/// of 2020.
const MOST_WORK: u64 = 400_000_000_000;

/// Learning rates of a training, as shares of the first one, each with its share of the steps.
const PHASES: [(f64, f64); 3] = [(1.0, 0.6), (0.1, 0.3), (0.01, 0.1)];

/// The loss of a shadow f: (1/n) Σ D + l2 Σ w², over n records with passive features x, released
/// scores c, and the part z of their logits that the adversary knows. Biases are not penalised.
/// `Debug` shows shapes only.
///
/// With [`ShadowFit::Gradient`] D = KL(c ‖ softmax(z + f(x))), as in J. With
/// [`ShadowFit::LeastSquares`] D = ‖ln c − z − f(x)‖², each difference less its mean over the
/// classes: on exact scores improbable classes say as much as others.
pub struct ShadowLoss {
    /// The passive features x, d × n.
    x: DMatrix<f64>,
    /// The known part z of the logits, k × n.
    known: DMatrix<f64>,
    /// The released scores c, k × n, of sum 1.
    scores: DMatrix<f64>,
    l2: f64,
    least_squares: bool,
}

impl fmt::Debug for ShadowLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((d, n), k) = (self.x.shape(), self.scores.nrows());
        write!(f, "ShadowLoss({k} classes, {d} features, {n} records, values withheld)")
    }
}

impl ShadowLoss {
    /// Creates the loss on the records that the adversary knows, under a model whose passive
    /// parameters are ignored.
    ///
    /// # Errors
    /// [`AttackError::View`] if records and model differ in classes or features, or the known part
    /// of a logit is not finite; [`AttackError::Floor`].
    pub fn new(
        model: &KnownModel,
        auxiliary: &AuxiliaryRecords,
        fit: ShadowFit,
        l2: f64,
    ) -> Result<Self, AttackError> {
        let least_squares = matches!(fit, ShadowFit::LeastSquares);
        let view = AdversaryView::of_auxiliary(model, auxiliary)?;
        let (mut scores, known) = (view.scores()?, view.known_logits());
        if let Some(at) = known.iter().position(|v| !v.is_finite()) {
            let record = at / known.nrows();
            return Err(ShapeError::NotFinite {
                what: "the known part of the auxiliary logits",
                record,
            }
            .into());
        }
        // A release need not sum to 1 (rounding), a distribution does.
        for mut column in scores.column_iter_mut() {
            let sum = column.sum();
            column /= sum;
        }
        Ok(Self { x: auxiliary.passive().matrix().clone(), known, scores, l2, least_squares })
    }

    /// Returns the mean divergence for the outputs of a shadow (k × n), in nats, and its gradient
    /// in them, (ĉ − c) / n.
    fn of_outputs(&self, outputs: &DMatrix<f64>) -> (f64, DMatrix<f64>) {
        let n = self.x.ncols().max(1) as f64;
        let mut slopes = &self.known + outputs;
        let mut divergence = 0.0;
        for (z, c) in slopes.column_iter().zip(self.scores.column_iter()) {
            let most = z.max();
            let log_sum = most + z.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
            divergence +=
                c.iter().zip(z.iter()).map(|(c, z)| c * (c.ln() - z + log_sum)).sum::<f64>();
        }
        softmax_columns(&mut slopes);
        slopes -= &self.scores;
        slopes /= n;
        (divergence / n, slopes)
    }

    /// Returns the mean squared log-ratio of each record, and its gradient in the outputs.
    fn of_ratios(&self, outputs: &DMatrix<f64>) -> (f64, DMatrix<f64>) {
        let n = self.x.ncols().max(1) as f64;
        let mut off = &self.known + outputs - self.scores.map(f64::ln);
        for mut column in off.column_iter_mut() {
            let mean = column.mean();
            column.add_scalar_mut(-mean);
        }
        (off.norm_squared() / n, off * (2.0 / n))
    }

    /// Returns the mean divergence of a shadow, without the penalty.
    fn divergence(&self, shadow: &dyn SubModel) -> Result<f64, AttackError> {
        Ok(self.of_outputs(shadow.outputs(&self.x)?.matrix()).0)
    }

    /// Returns the loss at a shadow with d inputs and k outputs, and its gradient: one vector for
    /// each of its blocks.
    ///
    /// # Errors
    /// [`AttackError::View`] for a shadow of other features or classes, [`AttackError::NotFinite`]
    /// if an output is not finite.
    pub fn at(&self, shadow: &mut dyn SubModel) -> Result<(f64, Vec<Vec<f64>>), AttackError> {
        let (mut loss, mut gradient) = self.without_penalty(shadow)?;
        for (tensor, slopes) in shadow.tensors().iter().zip(&mut gradient) {
            if tensor.used == ParameterRole::Weight {
                loss += self.l2 * tensor.values.iter().map(|w| w * w).sum::<f64>();
                slopes
                    .iter_mut()
                    .zip(tensor.values)
                    .for_each(|(slope, w)| *slope += 2.0 * self.l2 * w);
            }
        }
        Ok((loss, gradient))
    }

    fn without_penalty(
        &self,
        shadow: &mut dyn SubModel,
    ) -> Result<(f64, Vec<Vec<f64>>), AttackError> {
        let outputs = shadow.forward(self.x.clone())?;
        same("a shadow", "outputs", self.scores.nrows(), outputs.width())?;
        let (misfit, slopes) = match self.least_squares {
            true => self.of_ratios(outputs.matrix()),
            false => self.of_outputs(outputs.matrix()),
        };
        let gradients = shadow.backward(&slopes, false).map_err(|_| overflow())?;
        Ok((misfit, gradients.parameters))
    }
}

fn overflow() -> AttackError {
    AttackError::NotFinite { what: "a gradient of the shadow model" }
}

/// A fitted shadow.
pub struct FittedShadow {
    /// The sub-model. Its outputs are added to the known part of the logits.
    pub model: Box<dyn SubModel>,
    /// The number of its parameters.
    pub parameters: usize,
    /// The mean KL(c ‖ ĉ) per record, in nats, before the first step of the start that was kept and
    /// at the end.
    pub divergence: (f64, f64),
}

impl fmt::Debug for FittedShadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FittedShadow({:?}, {:?})", self.model, self.divergence)
    }
}

/// Trains a shadow of an architecture on the records of `auxiliary` under `model`, whose passive
/// parameters are ignored. Of all starts it keeps the one of least loss. With
/// [`ShadowBias::Unknown`] the last layer has a bias. The numbers of a [`ShadowFit::Gradient`] are
/// ignored: those of `training` count.
///
/// # Errors
/// As [`ShadowLoss::new`]; [`AttackError::Shadow`] for an architecture that cannot be built;
/// [`AttackError::Steps`] for too much work; [`AttackError::NotFinite`] if the training overflows.
pub fn fit_shadow(
    model: &KnownModel,
    auxiliary: &AuxiliaryRecords,
    architecture: &Architecture,
    (fit, bias): (ShadowFit, ShadowBias),
    training: &NetworkTraining,
    rng: &mut dyn Rng,
) -> Result<FittedShadow, AttackError> {
    let loss = ShadowLoss::new(model, auxiliary, fit, training.l2)?;
    let spec = architecture.spec(u32::try_from(model.classes()).unwrap_or(u32::MAX))?;
    let mut best: Option<(f64, FittedShadow)> = None;
    for _ in 0..training.starts {
        // In a sub-model of the active party the last layer has a bias.
        let origin = SubModelOrigin {
            spec: spec.clone(),
            features: auxiliary.features(),
            active: bias != ShadowBias::Known,
            start: rng.random(),
        };
        let mut shadow = kinds::start(&origin)?;
        let parameters = shadow.tensors().iter().map(|tensor| tensor.values.len()).sum();
        // A step of Adam costs about eight multiplications a parameter.
        let work =
            (3 * auxiliary.records() as u64 + 8) * shadow.work() * u64::from(training.starts);
        let limit = MOST_WORK / work.max(1);
        if u64::from(training.steps) > limit {
            return Err(AttackError::Steps { what: "shadow_steps", got: training.steps, limit });
        }
        let before = loss.divergence(&*shadow)?;
        let end = train(&loss, &mut *shadow, training)?;
        if best.as_ref().is_none_or(|(least, _)| end < *least) {
            let divergence = (before, loss.divergence(&*shadow)?);
            best = Some((end, FittedShadow { model: shadow, parameters, divergence }));
        }
    }
    best.map(|(_, fitted)| fitted)
        .ok_or(AttackError::NotFinite { what: "the loss of every shadow model" })
}

/// Trains from the current parameters. Returns the loss at the end.
fn train(
    loss: &ShadowLoss,
    shadow: &mut dyn SubModel,
    training: &NetworkTraining,
) -> Result<f64, AttackError> {
    for (rate, share) in PHASES {
        let mut adam = Adam::at(training.learning_rate * rate).with_penalty(training.l2);
        for _ in 0..(f64::from(training.steps) * share).ceil() as u32 {
            let (_, gradient) = loss.without_penalty(shadow)?;
            adam.step(shadow.tensors_mut(), gradient).map_err(|_| overflow())?;
        }
    }
    Ok(loss.at(shadow)?.0)
}
