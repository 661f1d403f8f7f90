//! The black box with auxiliary records (J section 4.3.2, algorithm 2). From a few records whose
//! passive features it knows, and their scores, the adversary estimates the passive parameters. It
//! then attacks as in the white box with the estimate in place of them.
//!
//! Scores fix W_pas up to one vector added to all its rows, which no score shows and no attack
//! needs: only J W_pas counts. Each auxiliary record gives k − 1 equations in its (k − 1) d
//! entries, so d records that are linearly independent determine it (J (21), whose count of k
//! equations in k d unknowns leads to the same n ≥ d), and d + 1 if the bias is unknown too. Fewer,
//! or dependent ones, give the estimate of least norm, and [`AuxiliarySystem::rank`] says how much
//! of it is known.

use std::fmt;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use vfl_core::types::ShapeError;
use vfl_numerics::{DecompositionError, PseudoInverse, softmax_columns};

use super::entry::{Base, Entry, Group};
use super::settings::Setting;
use super::sizes::same;
use super::{
    AdversaryView, Attack, AttackError, AuxiliaryRecords, AuxiliarySystem, KnownModel, Need, Needs,
    Parameters, Reconstruction, Settings, StatedKnowledge,
};

/// The method by which the parameters are fitted to the auxiliary records.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum ShadowFit {
    /// Least squares on the log-ratios of the scores, of least norm: exact on exact scores, in one
    /// step.
    #[default]
    LeastSquares,
    /// Descent on the divergence of the scores, J algorithm 2 with D = KL(c ‖ ĉ), as in J. Least
    /// squares weighs all log-ratios the same. Here those of improbable classes hardly count, which
    /// is better for rounded scores and slower on exact ones.
    Gradient(Descent),
}

/// The limits of a descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descent {
    /// The most steps, J's T.
    pub steps: u32,
    /// The norm of the gradient, per record and in logits, at which the descent has converged.
    pub tolerance: f64,
}

impl Default for Descent {
    /// Returns 20 000 steps and a tolerance of 1e-12.
    fn default() -> Self {
        Self { steps: 20_000, tolerance: 1e-12 }
    }
}

/// The adversary's knowledge of the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShadowBias {
    /// The model's `bias` is the true one.
    #[default]
    Known,
    /// The model's `bias` is a guess (0, say): the part that it lacks is estimated with the
    /// weights.
    Unknown,
    /// Neither `bias` nor the active weights are those of the model, which somebody else computes:
    /// both are estimated.
    AllUnknown,
}

/// Estimated parameters. `Debug` shows no weight.
#[derive(Clone, PartialEq)]
pub struct ShadowEstimate {
    /// Ŵ_pas, k × d. Each column sums to 0: of all the matrices with the same J Ŵ_pas, the one of
    /// least norm.
    pub w_pas: DMatrix<f64>,
    /// The estimate of the part that the bias lacks, k; it sums to 0. All 0 if the bias is known.
    pub bias_shift: DVector<f64>,
    /// The estimate of the part that the active weights lack, k × d_act; 0 if they are known.
    pub own_shift: DMatrix<f64>,
    /// Rank and condition of the auxiliary records.
    pub system: AuxiliarySystem,
    /// The end of a descent; `None` for least squares.
    pub descent: Option<DescentEnd>,
}

/// The end of a descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DescentEnd {
    /// True if the gradient fell to the tolerance.
    pub converged: bool,
    /// The number of steps taken.
    pub steps: u32,
    /// The mean KL(c ‖ ĉ) per record at the end, in nats.
    pub loss: f64,
}

impl fmt::Debug for ShadowEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((k, d), AuxiliarySystem { rank, unknowns, .. }) = (self.w_pas.shape(), self.system);
        write!(f, "ShadowEstimate({k} × {d}, rank {rank} of {unknowns}, values withheld)")
    }
}

impl ShadowEstimate {
    /// Estimates the passive parameters of `model` (whose own, if it holds any, are ignored).
    ///
    /// [`ShadowFit::LeastSquares`] gives Ŵ = L X⁺, where column i of L (k × n) is ln c_i − W_act
    /// y_i − b less its mean over the classes, and X (d × n) the auxiliary features: the least ‖W X
    /// − L‖, and of several W that of least norm, so that J Ŵ = B' X⁺ with B' the right sides b' of
    /// the records. With the bias unknown, X gets a row of ones. Of a number every fit is this one.
    ///
    /// # Errors
    /// [`AttackError::View`] if records and model differ in classes or features;
    /// [`AttackError::Floor`]; [`AttackError::Decomposition`] if X or the estimate holds a value
    /// that is not finite.
    pub fn fit(
        model: &KnownModel,
        auxiliary: &AuxiliaryRecords,
        fit: ShadowFit,
        bias: ShadowBias,
    ) -> Result<Self, AttackError> {
        same(
            "auxiliary passive features",
            "features",
            model.target_features(),
            auxiliary.features(),
        )?;
        let view = AdversaryView::of_auxiliary(model, auxiliary)?;
        let known = view.known_logits();
        if let Some(at) = known.iter().position(|v| !v.is_finite()) {
            let record = at / known.nrows();
            return Err(ShapeError::NotFinite {
                what: "the known part of the auxiliary logits",
                record,
            }
            .into());
        }
        let d = auxiliary.features();
        let x = auxiliary.x.matrix().clone();
        let x = match bias {
            ShadowBias::Known => x,
            ShadowBias::Unknown => x.insert_row(d, 1.0),
            ShadowBias::AllUnknown => {
                let own = view.active().matrix();
                let mut x = x.insert_rows(d, 1 + own.nrows(), 1.0);
                x.rows_mut(d + 1, own.nrows()).copy_from(own);
                x
            }
        };
        let inverse = PseudoInverse::new(&x)?;
        let (mut weights, descent) = match fit {
            // Of a number the right sides are b' themselves, and nothing is left to descend on.
            _ if model.link().is_numeric() => {
                (view.b_prime()?.clone().insert_row(0, 0.0) * &inverse.matrix, None)
            }
            ShadowFit::LeastSquares => {
                let mut residual = view.scores()?.map(f64::ln) - &known;
                center(&mut residual);
                (residual * &inverse.matrix, None)
            }
            ShadowFit::Gradient(until) => {
                let (weights, end) = descend(view.scores()?, &known, &x, &inverse.matrix, until);
                (weights, Some(end))
            }
        };
        // Removes round-off: the answer is the one of many whose columns sum to 0.
        center(&mut weights);
        if !weights.iter().all(|v| v.is_finite()) {
            return Err(DecompositionError::NotFinite.into());
        }
        let bias_shift = match bias {
            ShadowBias::Known => DVector::zeros(model.classes()),
            ShadowBias::Unknown | ShadowBias::AllUnknown => weights.column(d).into_owned(),
        };
        let own_shift = match bias {
            ShadowBias::AllUnknown => weights.columns(d + 1, weights.ncols() - d - 1).into_owned(),
            _ => DMatrix::zeros(model.classes(), model.active_weights().ncols()),
        };
        let system = AuxiliarySystem {
            records: auxiliary.records(),
            unknowns: x.nrows(),
            rank: inverse.rank,
            condition_number: inverse.condition_number(),
        };
        let w_pas = weights.columns(0, d).into_owned();
        Ok(Self { w_pas, bias_shift, own_shift, system, descent })
    }

    /// Returns the model with these parameters in place of the hidden ones.
    ///
    /// # Errors
    /// [`AttackError::View`] if it is about a model of another shape.
    pub fn shadow_of(&self, model: &KnownModel) -> Result<KnownModel, AttackError> {
        same("estimated bias", "classes", model.classes(), self.bias_shift.len())?;
        let bias = model.bias() + &self.bias_shift;
        let w_act = model.active_weights() + &self.own_shift;
        let shadow = KnownModel::white_box(w_act, bias, self.w_pas.clone())?;
        Ok(shadow.with_link(model.link()))
    }
}

/// Subtracts from every column its mean.
fn center(m: &mut DMatrix<f64>) {
    for mut column in m.column_iter_mut() {
        let mean = column.mean();
        column.add_scalar_mut(-mean);
    }
}

/// Minimises Σ KL(c ‖ softmax(known + W X)) over W from W = 0.
///
/// The objective is convex. The steps are those of gradient descent in coordinates in which the
/// rows of X are orthonormal: there the curvature is at most ½ in every direction, whatever the
/// features, and the step (c − ĉ) X⁺ / ½ needs no search. Nesterov's momentum is dropped whenever
/// it points uphill. With it the number of steps grows with the root of the remaining condition,
/// that of improbable classes. The rows of W stay in the column space of X, so W is the solution of
/// least norm.
fn descend(
    mut c: DMatrix<f64>,
    known: &DMatrix<f64>,
    x: &DMatrix<f64>,
    inverse: &DMatrix<f64>,
    until: Descent,
) -> (DMatrix<f64>, DescentEnd) {
    // A release need not sum to 1 (rounding), a distribution does.
    for mut column in c.column_iter_mut() {
        let sum = column.sum();
        column /= sum;
    }
    let n = c.ncols() as f64;
    let (mut weights, mut logits) = (DMatrix::zeros(c.nrows(), x.nrows()), known.clone());
    // The point the gradient is taken at: ahead of `weights` by the momentum.
    let (mut ahead, mut ahead_logits) = (weights.clone(), logits.clone());
    let (mut momentum, mut steps, mut converged) = (1.0f64, 0, false);
    let mut scores = logits.clone();
    let mut misfit = logits.clone();
    let mut direction = weights.clone();
    let mut change = logits.clone();
    loop {
        scores.copy_from(&ahead_logits);
        softmax_columns(&mut scores);
        misfit.copy_from(&c);
        misfit -= &scores;
        direction.gemm(1.0, &misfit, inverse, 0.0);
        change.gemm(1.0, &direction, x, 0.0);
        if change.norm() <= until.tolerance * n.sqrt() {
            (weights, logits, converged) = (ahead, ahead_logits, true);
            break;
        }
        if steps == until.steps {
            break;
        }
        steps += 1;
        // W⁺ = ahead + 2 (c − ĉ) X⁺, then ahead = W⁺ + β (W⁺ − W).
        ahead.zip_apply(&direction, |a, step| *a += 2.0 * step);
        ahead_logits.zip_apply(&change, |a, step| *a += 2.0 * step);
        let moved = &mut misfit;
        moved.copy_from(&ahead_logits);
        *moved -= &logits;
        // The gradient in logits is −change (on the row space of X): uphill if the move goes
        // against `change`.
        let beta = if moved.dot(&change) < 0.0 {
            momentum = 1.0;
            0.0
        } else {
            let next = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt());
            let beta = (momentum - 1.0) / next;
            momentum = next;
            beta
        };
        advance(&mut weights, &mut ahead, beta);
        advance(&mut logits, &mut ahead_logits, beta);
    }
    scores.copy_from(&logits);
    softmax_columns(&mut scores);
    let divergence = |(c, s): (&f64, &f64)| {
        if *s > 0.0 { c * (c / s).ln() } else { c * (c / f64::MIN_POSITIVE).ln() }
    };
    let loss = c.iter().zip(scores.iter()).map(divergence).sum::<f64>() / n;
    (weights, DescentEnd { converged, steps, loss })
}

/// Moves from W and W⁺ to W⁺ and W⁺ + β (W⁺ − W).
fn advance(now: &mut DMatrix<f64>, next: &mut DMatrix<f64>, beta: f64) {
    for (now, next) in now.iter_mut().zip(next.iter_mut()) {
        let moved = *next - *now;
        *now = *next;
        *next += beta * moved;
    }
}

/// The attack that estimates the passive parameters from auxiliary records, then runs any white-box
/// attack on the estimate.
///
/// The status of the reconstruction and its rank, null space and residuals are those of the inner
/// attack on the estimated model: an estimate from fewer independent records than features has a
/// null space where the true model may have none.
/// [`SystemSummary::auxiliary`](super::SystemSummary::auxiliary) says what the records determined.
#[derive(Debug)]
pub struct ShadowModel {
    /// The method of the fit.
    pub fit: ShadowFit,
    /// The adversary's knowledge of the bias.
    pub bias: ShadowBias,
    /// The attack on the estimated model.
    pub inner: Box<dyn Attack>,
}

pub(super) static FIT: Setting<ShadowFit> = Setting {
    key: "shadow_fit",
    takes: "how a shadow model is fitted: least_squares (on log-ratios) or gradient (descent on the divergence of the scores) \
            (default least_squares; of shadow_network gradient where a score is 0 or below)",
    read: |value| match value {
        "least_squares" => Some(ShadowFit::LeastSquares),
        "gradient" => Some(ShadowFit::Gradient(Descent::default())),
        _ => None,
    },
};
pub(super) static BIAS: Setting<ShadowBias> = Setting {
    key: "shadow_bias",
    takes: "whether a shadow model takes b as it is or estimates what it lacks: known, unknown, or all_unknown, which estimates the \
            active weights too (default known; of shadow_network unknown)",
    read: |value| match value {
        "known" => Some(ShadowBias::Known),
        "unknown" => Some(ShadowBias::Unknown),
        "all_unknown" => Some(ShadowBias::AllUnknown),
        _ => None,
    },
};

pub(super) static SHADOW_MODEL: Entry = Entry {
    settings: &[&FIT, &BIAS],
    ..Entry::upon("shadow_model", Group::Helped, Base::CHOSEN, |settings, base| {
        // The knowledge of the features goes to the base, which has parameters.
        let inner = StatedKnowledge::from(settings).wrap(base);
        Box::new(ShadowModel {
            fit: ShadowFit::of(settings),
            bias: ShadowBias::of(settings),
            inner,
        })
    })
};

impl ShadowFit {
    /// Reads the setting `shadow_fit`.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        settings.get(&FIT).unwrap_or_default()
    }
}

impl ShadowBias {
    /// Reads the setting `shadow_bias`.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        settings.get(&BIAS).unwrap_or_default()
    }
}

impl Attack for ShadowModel {
    fn needs(&self) -> Needs {
        Needs {
            auxiliary: Need::Yes,
            ..Needs { parameters: Parameters::Hidden, ..self.inner.needs() }
        }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let auxiliary = view.side_information().auxiliary.ok_or(AttackError::NoAuxiliary)?;
        let estimate = ShadowEstimate::fit(view.model(), auxiliary, self.fit, self.bias)?;
        let model = estimate.shadow_of(view.model())?;
        let view = view.under(&model)?;
        let mut found = self.inner.reconstruct(&view, rng)?;
        let mut solved = match found.solved.take() {
            Some(solved) => solved,
            None => view.linear()?.solved(&found.estimates, view.b_prime()?),
        };
        solved.auxiliary = Some(estimate.system);
        found.solved = Some(solved);
        Ok(found)
    }
}
