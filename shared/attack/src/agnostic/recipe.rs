//! Training of an adversary model as the joint model was trained: same optimiser, penalty, batches
//! and early stop.
//!
//! Logits grow with the number of steps. A model of the same accuracy that stopped elsewhere has
//! larger or smaller logits than the joint one, and its log-ratios are wrong by as much: on
//! satellite, d = 1, a model fitted to convergence with l2 = 1e-3 gave errors 18 times as large.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::contract::{ParameterRole, Tensor};
use vfl_core::model::{Adam, Schedule, TrainingConfig, cross_entropy};
use vfl_core::types::Logits;

use super::super::affine::affine;
use super::super::{AttackError, LabelledRecords};
use super::AgnosticObjective;

/// The result of a training.
pub(super) struct TrainingResult {
    /// The weights, k × d_act.
    pub(super) weights: DMatrix<f64>,
    /// The bias, k entries.
    pub(super) bias: DVector<f64>,
    /// The number of epochs run.
    pub(super) epochs: u32,
    /// True if the loss on the validation records stopped falling. Without such records it is
    /// always true.
    pub(super) stopped: bool,
}

/// Trains from W = 0, b = 0 on mini-batches of `own`. The terms of all records seen are added to
/// each batch's mean cross-entropy, weighted as in the objective. Without records seen it is the
/// training of the joint model on the adversary's features.
///
/// # Errors
/// [`AttackError::NotFinite`] if it runs away.
pub(super) fn train(
    recipe: &TrainingConfig,
    objective: &AgnosticObjective<'_>,
    own: &LabelledRecords,
) -> Result<TrainingResult, AttackError> {
    let runaway = || AttackError::NotFinite { what: "the training of the adversary model" };
    let v = recipe.values();
    let (classes, y) = (objective.classes(), own.y.matrix());
    let mut schedule = Schedule::new(recipe, y.ncols());
    let pick = |positions: &[u32]| -> (DMatrix<f64>, Vec<u32>) {
        let columns: Vec<usize> = positions.iter().map(|&p| p as usize).collect();
        (y.select_columns(&columns), columns.iter().map(|&c| own.labels[c]).collect())
    };
    let share = objective.share_of_own();
    let (mut weights, mut bias) = (DMatrix::zeros(classes, y.nrows()), DVector::zeros(classes));
    let mut adam = Adam::new(recipe);
    let validation = pick(schedule.validation());
    let (mut best, mut best_loss, mut best_epoch, mut epochs) = (None, f64::INFINITY, 0, 0);
    let mut stopped = validation.1.is_empty();
    for epoch in 1..=v.epochs {
        epochs = epoch;
        for batch in schedule.next_epoch() {
            let (y, labels) = pick(&batch);
            let logits = Logits::new(affine(&weights, Some(&bias), &y)).map_err(|_| runaway())?;
            let (_, slopes, _) = cross_entropy(logits, &labels);
            let (_, mut of_weights, mut of_bias) = objective.of_seen(&weights, &bias);
            of_weights.gemm(share, &slopes, &y.transpose(), 1.0);
            of_bias.axpy(share, &slopes.column_sum(), 1.0);
            let tensors = vec![
                Tensor {
                    name: "weights".into(),
                    shape: vec![y.nrows(), classes],
                    used: ParameterRole::Weight,
                    values: weights.as_mut_slice(),
                },
                Tensor {
                    name: "bias".into(),
                    shape: vec![classes],
                    used: ParameterRole::Free,
                    values: bias.as_mut_slice(),
                },
            ];
            let gradients = vec![of_weights.as_slice().to_vec(), of_bias.as_slice().to_vec()];
            adam.step(tensors, gradients).map_err(|_| runaway())?;
        }
        if validation.1.is_empty() {
            continue;
        }
        let logits =
            Logits::new(affine(&weights, Some(&bias), &validation.0)).map_err(|_| runaway())?;
        let loss =
            share * cross_entropy(logits, &validation.1).0 + objective.of_seen(&weights, &bias).0;
        if loss < best_loss {
            (best, best_loss, best_epoch) = (Some((weights.clone(), bias.clone())), loss, epoch);
        } else if epoch - best_epoch >= v.patience {
            stopped = true;
            break;
        }
    }
    let (weights, bias) = best.unwrap_or((weights, bias));
    Ok(TrainingResult { weights, bias, epochs, stopped })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use vfl_core::model::{TrainingValues, train_central};
    use vfl_core::types::{ConfidenceScores, FeatureBlock, ReleasedScores};

    use super::super::super::{ObservedRecords, Replacement};
    use super::super::AgnosticSettings;
    use super::*;

    struct World {
        own: LabelledRecords,
        /// The records seen: other records, with the scores of a model of its own.
        y: FeatureBlock,
        released: ReleasedScores,
    }

    fn world() -> World {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let y = DMatrix::from_fn(3, 400, |_, _| rng.random::<f64>());
        let labels =
            y.column_iter().map(|y| u32::from(y[0] > 0.5) + u32::from(y[1] > y[2] + 0.2)).collect();
        let seen = DMatrix::from_fn(3, 60, |_, _| rng.random::<f64>());
        let weights = DMatrix::from_fn(3, 3, |_, _| 4.0 * rng.random::<f64>() - 2.0);
        let scores = ConfidenceScores::softmax(Logits::new(weights * &seen).unwrap()).into_matrix();
        World {
            own: LabelledRecords { y: FeatureBlock::new(y).unwrap(), labels },
            y: FeatureBlock::new(seen).unwrap(),
            released: ReleasedScores::Probabilities(scores),
        }
    }

    fn recipe(validation_share: f64) -> TrainingConfig {
        TrainingConfig::try_from(TrainingValues {
            epochs: 60,
            patience: 3,
            validation_share,
            ..TrainingValues::default()
        })
        .unwrap()
    }

    /// Without records seen it is the joint model's own training on these features, with early stop
    /// and without.
    #[test]
    fn without_records_seen_it_is_central_training() {
        let World { own, .. } = world();
        for share in [0.0, 0.2] {
            let recipe = recipe(share);
            let settings =
                AgnosticSettings { l2: Some(recipe.values().l2), ..AgnosticSettings::default() };
            let objective =
                AgnosticObjective::new(&settings, 3, &own, None, Replacement::default()).unwrap();
            let found = train(&recipe, &objective, &own).unwrap();
            let central = train_central(&recipe, 3, own.y.matrix(), &own.labels);
            assert_eq!(found.epochs, central.epochs);
            assert_eq!(
                found.stopped,
                share == 0.0 || central.epochs < 60,
                "{} epochs",
                central.epochs
            );
            assert!(
                (found.weights - central.weights).amax() < 1e-9
                    && (found.bias - central.bias).amax() < 1e-9
            );
        }
    }

    /// With them it comes close to the minimum of V (9), closer than it started, and far below the
    /// model that saw nothing.
    #[test]
    fn with_records_seen_it_descends_to_the_minimum_of_the_whole_objective() {
        let World { own, y, released } = world();
        let seen = Some(ObservedRecords { y: &y, released: &released });
        let recipe = TrainingConfig::try_from(TrainingValues {
            epochs: 600,
            validation_share: 0.0,
            l2: 1e-3,
            ..TrainingValues::default()
        })
        .unwrap();
        for (alpha, beta) in [(1.0, 0.0), (0.0, 1.0), (0.5, 2.0)] {
            let settings =
                AgnosticSettings { alpha, beta, l2: Some(1e-3), ..AgnosticSettings::default() };
            let objective =
                AgnosticObjective::new(&settings, 3, &own, seen, Replacement::default()).unwrap();
            let found = train(&recipe, &objective, &own).unwrap();
            let blind =
                AgnosticObjective::new(&settings, 3, &own, None, Replacement::default()).unwrap();
            let blind = train(&recipe, &blind, &own).unwrap();
            let mut flat = |x: &[f64], gradient: &mut [f64]| objective.flat(x, gradient);
            let least = vfl_numerics::Lbfgs::default().minimise(&[0.0; 12], &mut flat).value;
            let (value, unseen) = (
                objective.at(&found.weights, &found.bias).0,
                objective.at(&blind.weights, &blind.bias).0,
            );
            assert!(
                value - least < 0.02 * (unseen - least) + 2e-3,
                "{alpha} {beta}: {value} {least} {unseen}"
            );
        }
    }
}
