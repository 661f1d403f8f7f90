//! Training with all features in one place: the plain form against which the distributed one is
//! tested.

use nalgebra::{DMatrix, DVector};

use super::optimiser::Adam;
use super::{Schedule, TrainingConfig, cross_entropy};
use crate::types::Logits;

/// The result of central training.
#[derive(Clone)]
pub struct CentralFit {
    /// Weights of all features, k × d.
    pub weights: DMatrix<f64>,
    /// Bias of each class (k).
    pub bias: DVector<f64>,
    /// The epoch whose parameters are kept, from 1.
    pub best_epoch: u32,
    /// Number of epochs run.
    pub epochs: u32,
}

/// Trains on `x` (d × n, one record per column) with labels below `classes`: mini-batch Adam on the
/// mean cross-entropy plus l2 · ‖W‖², early stopping on the validation loss, all in the order of
/// the seed.
///
/// It is not optimised for speed, and shares only the order and the loss with the distributed
/// trainer.
#[must_use]
pub fn train_central(
    config: &TrainingConfig,
    classes: usize,
    x: &DMatrix<f64>,
    labels: &[u32],
) -> CentralFit {
    let v = config.values();
    let mut schedule = Schedule::new(config, x.ncols());
    // Parameters as one matrix [W | b], features with a row of ones below.
    let d = x.nrows();
    let mut theta = DMatrix::<f64>::zeros(classes, d + 1);
    let (mut m, mut s) = (theta.clone(), theta.clone());
    let extended = x.clone().insert_row(d, 1.0);
    let pick = |positions: &[u32]| {
        let columns: Vec<usize> = positions.iter().map(|&p| p as usize).collect();
        let y: Vec<u32> = columns.iter().map(|&c| labels[c]).collect();
        (extended.select_columns(&columns), y)
    };
    let validation = pick(schedule.validation());
    let (mut best, mut best_loss, mut best_epoch, mut t, mut epochs) =
        (theta.clone(), f64::INFINITY, 0u32, 0i32, 0u32);
    for epoch in 1..=v.epochs {
        epochs = epoch;
        for batch in schedule.next_epoch() {
            let (xb, y) = pick(&batch);
            let Ok(logits) = Logits::new(&theta * &xb) else { break };
            let (_, gradient, _) = cross_entropy(logits, &y);
            let mut slope = &gradient * xb.transpose();
            let penalty = theta.columns(0, d) * (2.0 * v.l2);
            let mut of_weights = slope.columns_mut(0, d);
            of_weights += penalty;
            t += 1;
            m = &m * Adam::BETA1 + &slope * (1.0 - Adam::BETA1);
            s = &s * Adam::BETA2 + slope.component_mul(&slope) * (1.0 - Adam::BETA2);
            let mean = &m / (1.0 - Adam::BETA1.powi(t));
            let spread = (&s / (1.0 - Adam::BETA2.powi(t))).map(|v| v.sqrt() + Adam::EPSILON);
            theta -= mean.component_div(&spread) * v.learning_rate;
        }
        if validation.1.is_empty() {
            (best, best_epoch) = (theta.clone(), epoch);
            continue;
        }
        let Ok(logits) = Logits::new(&theta * &validation.0) else { break };
        let (loss, _, _) = cross_entropy(logits, &validation.1);
        if loss < best_loss {
            (best, best_loss, best_epoch) = (theta.clone(), loss, epoch);
        } else if epoch - best_epoch >= v.patience {
            break;
        }
    }
    CentralFit {
        weights: best.columns(0, d).into_owned(),
        bias: best.column(d).into_owned(),
        best_epoch,
        epochs,
    }
}
