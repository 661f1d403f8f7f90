//! Models that both parties train with noise (DP-SGD), for J figures 14 and 15: J section 6.1.2.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use vfl_attack::{KnownModel, KnownNetwork};
use vfl_core::model::contract::start_of;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{LearnerError, SubModel, TrainingConfig, TrainingValues};
use vfl_core::types::{FeatureBlock, ShapeError};
use vfl_datasets::VerticalSplit;
use vfl_datasets::local_training::{LocalTraining, learners, start, summed_scores};
use vfl_numerics::GaussianSampling;

use super::super::ReproduceError;
use super::super::sweep::select;

/// The privacy budgets ε of J.
pub(super) const EPSILONS: [f64; 3] = [10.0, 1.0, 0.1];
/// The clipping norm γ of J.
const CLIP: f64 = 1.0;
/// The value of δ, as J names none.
const DELTA: f64 = 1e-5;
/// The number of passes over the records. J names none; more passes need more noise.
const EPOCHS: u32 = 20;

/// A model that was trained with noise, in one split.
pub(super) struct PrivateModel {
    active: Vec<usize>,
    passive: Vec<usize>,
    own: Arc<dyn SubModel>,
    part: Arc<dyn SubModel>,
}

/// Returns the noise of a training on so many records, as a share of γ. It uses the accountant of
/// sampled Gaussian mechanisms, as the authors of DP-SGD do.
fn noise(epsilon: f64, values: &TrainingValues, records: usize) -> Result<f64, String> {
    let rate = (f64::from(values.batch_size) / records.max(1) as f64).min(1.0);
    let steps = (f64::from(values.epochs) / rate).ceil() as u64;
    GaussianSampling::noise_for(epsilon, DELTA, steps, rate).map_err(|e| e.to_string())
}

/// Trains with noise, and returns the sub-models of both parties, the active party's first.
fn trained(
    config: &TrainingConfig,
    classes: usize,
    blocks: [DMatrix<f64>; 2],
    labels: &[u32],
    privacy: PrivacyConfig,
) -> Result<Vec<Box<dyn SubModel>>, LearnerError> {
    let seed =
        |place: usize| start_of(config.values().seed ^ (0x5eed << 32) ^ (place as u64 + 1) << 48);
    let blocks = blocks.into_iter().map(FeatureBlock::new).collect::<Result<Vec<_>, _>>()?;
    let parties = learners(config, classes, blocks, Some((privacy, &seed)))?;
    LocalTraining::train(config, classes, parties, labels, start(config))?.sub_models()
}

impl PrivateModel {
    /// Trains the kind of model of `config` on `records` (features d_t × n, labels): each party
    /// clips each record's part of its gradient to γ = 1, and adds noise for this ε. There is no
    /// validation, and the last epoch is served.
    pub(super) fn train(
        classes: usize,
        config: &TrainingConfig,
        (x, labels): &(DMatrix<f64>, Vec<u32>),
        (d, k0): (usize, usize),
        epsilon: f64,
    ) -> Result<Self, ReproduceError> {
        let off =
            |reason: String| ReproduceError::Failed { what: "training with noise", d, k0, reason };
        let split = VerticalSplit::window(k0, d, x.nrows())?;
        let passive: Vec<usize> =
            split.passive().iter().flat_map(|p| p.columns.iter().copied()).collect();
        let active = split.active().to_vec();
        let values = TrainingValues {
            epochs: EPOCHS,
            l2: 0.0,
            validation_share: 0.0,
            ..config.values().clone()
        };
        let noise = noise(epsilon, &values, labels.len()).map_err(off)?;
        let privacy = PrivacyConfig::new(CLIP, noise).map_err(|e| off(e.to_string()))?;
        let config = TrainingConfig::try_from(values)?;
        let blocks = [&active, &passive].map(|columns| select(x, columns, x.ncols()));
        let models =
            trained(&config, classes, blocks, labels, privacy).map_err(|e| off(e.to_string()))?;
        let mut models = models.into_iter();
        match (models.next(), models.next()) {
            (Some(own), Some(part)) => {
                Ok(Self { active, passive, own: own.into(), part: part.into() })
            }
            _ => Err(off("no sub-models".into())),
        }
    }

    /// Returns the adversary's view of records (d_t × n), and their scores (k × n). The view has
    /// its features, and below them the outputs of its own part if that is not linear.
    pub(super) fn served(
        &self,
        x: &DMatrix<f64>,
    ) -> Result<(DMatrix<f64>, DMatrix<f64>), ShapeError> {
        let y = select(x, &self.active, x.ncols());
        let outputs =
            [self.own.outputs(&y)?, self.part.outputs(&select(x, &self.passive, x.ncols()))?];
        let scores = summed_scores(&outputs).unwrap_or_else(|| DMatrix::zeros(0, 0));
        if self.own.linear().is_some() {
            return Ok((y, scores));
        }
        let (own, rows) = (outputs[0].matrix(), y.nrows());
        let mut below = y.resize_vertically(rows + own.nrows(), 0.0);
        below.rows_mut(rows, own.nrows()).copy_from(own);
        Ok((below, scores))
    }

    /// Returns the passive columns.
    pub(super) fn passive(&self) -> &[usize] {
        &self.passive
    }

    /// Returns the model with its passive part known.
    pub(super) fn known(&self, classes: usize) -> Result<KnownModel, vfl_attack::AttackError> {
        if let (Some(own), Some(part)) = (self.own.linear(), self.part.linear()) {
            let zeros = || DVector::zeros(classes);
            let bias = own.bias().cloned().unwrap_or_else(zeros)
                + part.bias().cloned().unwrap_or_else(zeros);
            return KnownModel::white_box(own.weights().clone(), bias, part.weights().clone());
        }
        let own = self.active.len();
        let w_act =
            DMatrix::from_fn(classes, own + classes, |i, j| if j == own + i { 1.0 } else { 0.0 });
        KnownModel::of_network(
            w_act,
            DVector::zeros(classes),
            KnownNetwork::summed(vec![self.part.clone()]),
        )
    }
}

/// Describes the training of these models.
pub(super) fn told(records: usize) -> String {
    format!(
        "training with noise: γ = {CLIP}, δ = {DELTA}, {EPOCHS} epochs on {records} records in batches of 64, the last epoch served; each \
         party clips and blurs its own gradient, where J does so with the gradient of the whole model. ε is that of batches drawn at \
         random, as DP-SGD counts it, and not the program's own statement, which claims no amplification by sampling. J names neither δ, \
         batches nor epochs"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn smaller_budgets_take_more_noise() {
        let values = TrainingValues { epochs: EPOCHS, ..TrainingValues::default() };
        let found = EPSILONS.map(|epsilon| noise(epsilon, &values, 4000).unwrap());
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
        // The tutorial of TensorFlow Privacy: 60 epochs over 60 000 records in batches of 256 cost
        // 2.5187 with a noise of 1.12.
        let tutorial = TrainingValues { epochs: 60, batch_size: 256, ..TrainingValues::default() };
        assert!((noise(2.5187, &tutorial, 60_000).unwrap() - 1.12).abs() < 2e-3);
    }
}
