//! The steps of a private training with the data of all parties in one process and in the clear:
//! the model that the services train on secret shares, up to the rounding of shares.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::{Schedule, TrainingConfig};
use vfl_mpc::{FixedPoint, MpcError, Regression};
use vfl_numerics::{DecompositionError, Whitening};

use crate::VerticalSplit;

/// A model of all features.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeModel {
    /// k × d.
    pub weights: DMatrix<f64>,
    /// k.
    pub bias: DVector<f64>,
    /// The number of epochs run.
    pub epochs: usize,
    /// The epoch whose parameters these are, from 1.
    pub best_epoch: usize,
}

/// The errors of a training in the clear.
#[derive(Debug, thiserror::Error)]
pub enum PrivateTrainingError {
    /// Features that cannot be whitened.
    #[error(transparent)]
    Whitening(#[from] DecompositionError),
    /// Settings out of range.
    #[error(transparent)]
    Mpc(#[from] MpcError),
}

/// Trains on records `x` (d × n) with their labels, as the parties of a split do.
///
/// # Errors
/// [`PrivateTrainingError`].
pub fn train_in_the_clear(
    config: &TrainingConfig,
    classes: usize,
    (x, labels): (&DMatrix<f64>, &[u32]),
    split: &VerticalSplit,
) -> Result<WholeModel, PrivateTrainingError> {
    let (values, n) = (config.values(), x.ncols());
    let schedule = Schedule::new(config, n);
    let positions = schedule.training().iter().chain(schedule.validation());
    let order: Vec<usize> = positions.map(|&position| position as usize).collect();
    let trained = schedule.training().len();
    let parties = std::iter::once(split.active())
        .chain(split.passive().iter().map(|party| &party.columns[..]))
        .collect::<Vec<_>>();
    let regression = Regression {
        epochs: values.epochs as usize,
        penalty: values.l2,
        free: 1,
        blocks: parties.len(),
        validation: n - trained,
        patience: values.patience as usize,
        fixed: FixedPoint::new(20)?,
    };
    let blocks: Vec<Whitening> = parties
        .iter()
        .map(|rows| Whitening::fit(&x.select_rows(*rows).select_columns(&order[..trained])))
        .collect::<Result<_, _>>()?;
    let width = blocks.iter().map(Whitening::rank).sum::<usize>() + 1;
    let mut features = DMatrix::from_element(n, width, 1.0);
    let mut from = 0;
    for (block, rows) in blocks.iter().zip(&parties) {
        let coordinates = block.apply(&x.select_rows(*rows).select_columns(&order)).transpose();
        features.columns_mut(from, block.rank()).copy_from(&coordinates);
        from += block.rank();
    }
    let is = |at: usize, class: usize| labels.get(order[at]) == Some(&(class as u32));
    let one_hot = DMatrix::from_fn(n, classes, |at, class| f64::from(is(at, class)));
    let features = regression.prepare(features.as_slice(), n);
    let result = regression.train_in_the_clear(&features, one_hot.as_slice(), n);
    let scale = regression.feature_scale(n);
    let coordinates = DMatrix::from_vec(width, classes, result.weights).transpose() * scale;
    let mut bias: DVector<f64> = coordinates.column(width - 1).into_owned();
    let mut weights = DMatrix::zeros(classes, x.nrows());
    let mut from = 0;
    for (block, rows) in blocks.iter().zip(&parties) {
        let of_block = coordinates.columns(from, block.rank()).into_owned();
        let (own, offset) = block.weights_of_features(&of_block);
        for (&row, column) in rows.iter().zip(own.column_iter()) {
            weights.set_column(row, &column);
        }
        bias += offset;
        from += block.rank();
    }
    let (epochs, best_epoch) = (result.epochs, result.best_epoch);
    Ok(WholeModel { weights, bias, epochs, best_epoch })
}
