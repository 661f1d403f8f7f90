//! The adversary's own model of the scores, from its own features alone (V section IV-B).

use std::fmt;

use nalgebra::{DMatrix, DVector};
use vfl_core::metrics::{ScoreMismatch, score_mismatch};
use vfl_core::model::TrainingConfig;
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits};
use vfl_numerics::{Lbfgs, Minimum};

use super::super::affine::affine;
use super::super::sizes::same;
use super::super::{AdversaryFit, AttackError, LabelledRecords, ObservedRecords, Replacement};
use super::{AgnosticObjective, AgnosticSettings, recipe};

/// The model ĉ = softmax(W y + b), an estimate of the joint model's scores. `Debug` shows the
/// shape.
#[derive(Clone, PartialEq)]
pub struct AdversaryModel {
    weights: DMatrix<f64>,
    bias: DVector<f64>,
}

impl fmt::Debug for AdversaryModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "AdversaryModel({k} × {d}, values withheld)")
    }
}

impl AdversaryModel {
    /// Fits V (8), or V (9) with the records `seen`.
    ///
    /// With a penalty in `settings`, [the objective](AgnosticObjective) is minimised from W = 0, b
    /// = 0. Without one, the model is trained by `recipe`, on the same terms as the joint model.
    /// Logits grow with the number of steps, and a model that stopped elsewhere has other logits
    /// even where it predicts as well. With α > 0 the objective is not convex, and the result lies
    /// downhill from the start.
    ///
    /// # Errors
    /// As [`AgnosticObjective::new`]; [`AttackError::NotFinite`] if the fit runs away.
    pub fn fit(
        settings: &AgnosticSettings,
        recipe: &TrainingConfig,
        classes: usize,
        own: &LabelledRecords,
        seen: Option<ObservedRecords<'_>>,
        replacement: Replacement,
    ) -> Result<(Self, AdversaryFit), AttackError> {
        let penalised =
            AgnosticSettings { l2: settings.l2.or(Some(recipe.values().l2)), ..*settings };
        let objective = AgnosticObjective::new(&penalised, classes, own, seen, replacement)?;
        let found = if settings.l2.is_some() {
            let start = vec![0.0; objective.parameters()];
            Lbfgs::default().minimise(&start, &mut |x, gradient| objective.flat(x, gradient))
        } else {
            let trained = recipe::train(recipe, &objective, own)?;
            let x: Vec<f64> = trained.weights.iter().chain(&trained.bias).copied().collect();
            let mut gradient = vec![0.0; x.len()];
            let value = objective.flat(&x, &mut gradient);
            let gradient_norm = gradient.iter().fold(0.0, |norm: f64, g| norm.max(g.abs()));
            Minimum {
                x,
                value,
                gradient_norm,
                iterations: trained.epochs,
                converged: trained.stopped,
            }
        };
        if !(found.value.is_finite() && found.x.iter().all(|v| v.is_finite())) {
            return Err(AttackError::NotFinite { what: "the fit of the adversary model" });
        }
        let (weights, bias) = found.x.split_at(classes * own.y.features());
        let model = Self {
            weights: DMatrix::from_column_slice(classes, own.y.features(), weights),
            bias: DVector::from_column_slice(bias),
        };
        let fit = AdversaryFit {
            objective: found.value,
            gradient_norm: found.gradient_norm,
            iterations: found.iterations,
            converged: found.converged,
        };
        Ok((model, fit))
    }

    /// Returns W, k × d_act.
    #[must_use]
    pub fn weights(&self) -> &DMatrix<f64> {
        &self.weights
    }

    /// Returns the bias b, k entries.
    #[must_use]
    pub fn bias(&self) -> &DVector<f64> {
        &self.bias
    }

    /// Returns ĉ of records, k × n.
    ///
    /// # Errors
    /// [`AttackError::View`] if `y` (d_act × n) has another number of features, or the logits
    /// overflow.
    pub fn scores(&self, y: &FeatureBlock) -> Result<ConfidenceScores, AttackError> {
        same("active features", "features", self.weights.ncols(), y.features())?;
        Ok(ConfidenceScores::softmax(Logits::new(affine(
            &self.weights,
            Some(&self.bias),
            y.matrix(),
        ))?))
    }

    /// Returns the distance of ĉ from the released scores (V remark 18): the gain of the active
    /// party from asking.
    ///
    /// # Errors
    /// [`AttackError::View`] as [`AdversaryModel::scores`], or if the release is of another size.
    pub fn mismatch(&self, seen: ObservedRecords<'_>) -> Result<ScoreMismatch, AttackError> {
        same("scores of records seen", "classes", self.bias.len(), seen.released.classes())?;
        same("scores of records seen", "records", seen.y.records(), seen.released.records())?;
        Ok(score_mismatch(seen.released, &self.scores(seen.y)?)?)
    }
}
