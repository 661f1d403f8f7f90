//! The steps of a private training with the data of all parties in one process and in the clear:
//! the model that the services train on secret shares, up to the rounding of shares.

use nalgebra::{DMatrix, DVector};
use sha2::{Digest, Sha256};
use vfl_core::model::contract::InitialSeed;
use vfl_core::model::{Activation, HiddenLayers, Schedule, TrainingConfig};
use vfl_mpc::{ClearData, Family, FixedPoint, LARGEST_FEATURE, MpcError, Network, Regression};
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
        family: Family::Multinomial,
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

/// A network of all parties, in the coordinates that it was trained in.
#[derive(Debug, Clone)]
pub struct WholeNetwork {
    network: Network,
    /// The whitening of each party's rows, and these.
    parties: Vec<(Whitening, Vec<usize>)>,
    /// All parameters, as the computation has them.
    parameters: Vec<f64>,
    classes: usize,
    /// The number of epochs run.
    pub epochs: usize,
    /// The epoch whose parameters these are, from 1.
    pub best_epoch: usize,
}

/// Trains networks on records `x` (d × n) with their labels, as the parties of a split do. `seeds`
/// are those of their first parameters, the active party's first.
///
/// # Errors
/// [`PrivateTrainingError`].
pub fn train_network_in_the_clear(
    config: &TrainingConfig,
    hidden: &HiddenLayers,
    classes: usize,
    (x, labels): (&DMatrix<f64>, &[u32]),
    split: &VerticalSplit,
    seeds: &[InitialSeed],
) -> Result<WholeNetwork, PrivateTrainingError> {
    let (values, n) = (config.values(), x.ncols());
    let schedule = Schedule::new(config, n);
    let positions = schedule.training().iter().chain(schedule.validation());
    let order: Vec<usize> = positions.map(|&position| position as usize).collect();
    let trained = schedule.training().len();
    let network = Network {
        epochs: values.epochs as usize,
        batch: values.batch_size as usize,
        hidden: hidden.widths.clone(),
        // A sigmoid is trained as tanh of half its input.
        activation: match hidden.activation {
            Activation::Relu => vfl_mpc::Activation::Relu,
            Activation::Sigmoid | Activation::Tanh => vfl_mpc::Activation::Tanh,
        },
        penalty: values.l2,
        validation: n - trained,
        patience: values.patience as usize,
        fixed: FixedPoint::new(20)?,
    };
    let rows = std::iter::once(split.active().to_vec())
        .chain(split.passive().iter().map(|party| party.columns.clone()));
    let (mut blocks, mut parties, mut start) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (rows, seed)) in rows.zip(seeds).enumerate() {
        let own = x.select_rows(&rows).select_columns(&order);
        let whitening = Whitening::fit(&own.columns(0, trained).into_owned())?;
        let mut padded = DMatrix::zeros(n, rows.len());
        padded.columns_mut(0, whitening.rank()).tr_copy_from(&whitening.apply(&own));
        let cut = |x: f64| x.clamp(-LARGEST_FEATURE, LARGEST_FEATURE);
        blocks.push(padded.map(cut).as_slice().to_vec());
        let seed = Sha256::new_with_prefix(seed).chain_update((place as u64).to_le_bytes());
        start.extend(network.start(&seed.finalize().into(), rows.len(), classes));
        parties.push((whitening, rows));
    }
    start.resize(start.len() + classes, 0.0);
    let is = |at: usize, class: usize| labels.get(order[at]) == Some(&(class as u32));
    let one_hot = DMatrix::from_fn(n, classes, |at, class| f64::from(is(at, class)));
    let data = ClearData { blocks: &blocks, labels: one_hot.as_slice(), records: n };
    let result = network.train_in_the_clear(data, &start);
    let (parameters, epochs, best_epoch) = (result.weights, result.epochs, result.best_epoch);
    Ok(WholeNetwork { network, parties, parameters, classes, epochs, best_epoch })
}

impl WholeNetwork {
    /// Computes the logits (k × n) of records (d × n), with exact activations.
    #[must_use]
    pub fn logits(&self, x: &DMatrix<f64>) -> DMatrix<f64> {
        let bias = &self.parameters[self.parameters.len() - self.classes..];
        let mut logits = DMatrix::from_fn(self.classes, x.ncols(), |class, _| bias[class]);
        let mut from = 0;
        for (whitening, rows) in &self.parties {
            let mut values = whitening.apply(&x.select_rows(rows));
            for shape in self.network.layers(rows.len(), self.classes) {
                let own = &self.parameters[from..from + shape.parameters()];
                let (weights, bias) = own.split_at(shape.weights());
                let weights = DMatrix::from_column_slice(shape.inputs, shape.outputs, weights);
                // Features beyond the rank of the block are zeros.
                let mut sums = weights.rows(0, values.nrows()).tr_mul(&values);
                if shape.hidden {
                    for mut record in sums.column_iter_mut() {
                        record += &DVector::from_column_slice(bias);
                    }
                    sums.apply(|u| match self.network.activation {
                        vfl_mpc::Activation::Tanh => *u = u.tanh(),
                        vfl_mpc::Activation::Relu => *u = u.max(0.0),
                    });
                }
                values = sums;
                from += shape.parameters();
            }
            logits += values;
        }
        logits
    }
}
