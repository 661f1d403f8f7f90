//! Half*, layer by layer (V remark 4). For each layer it finds the outputs that go with those of
//! the next one and lie nearest to the middle of the activation's range, down to the features
//! nearest to ½.
//!
//! V proposes it and leaves open how well it does. Through one layer it is Half*. Through more it
//! is exact if every layer's system determines its inputs. Otherwise the next layer takes a guess
//! for the truth, and no theorem says that ½ is beaten.

use std::ops::AddAssign;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use vfl_core::model::DenseLayer;
use vfl_numerics::{PseudoInverse, row_differences};

use super::affine::affine;
use super::entry::{Entry, Group};
use super::half_star::HalfStar;
use super::{
    AdversaryView, Attack, AttackError, LinearSystem, Needs, Parameters, Reconstruction, Status,
    contract,
};

/// The distance of a layer's outputs from the ends of its activation's range, as a share of the
/// range. Beyond the ends no sum gives them.
const MARGIN: f64 = 1e-3;

/// The attack that inverts a network layer by layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerwiseInversion;

pub(super) static HALF_STAR_LAYERWISE: Entry =
    Entry::new("half_star_layerwise", Group::Special, |_| Box::new(LayerwiseInversion));

impl Attack for LayerwiseInversion {
    fn needs(&self) -> Needs {
        Needs { parameters: Parameters::Differentiable, ..Needs::RELEASE }
    }

    /// Inverts a network layer by layer; on a linear model it is the clipped Half*.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let Some(network) = view.model().network() else {
            return HalfStar { clamped: true }.reconstruct(view, rng);
        };
        let parts = network.summed_layers()?;
        let last: Vec<&DenseLayer<'_>> = parts.iter().filter_map(|layers| layers.last()).collect();
        // The inputs of the last layers of all parts, side by side, make the logits.
        let widths: Vec<usize> = last.iter().map(|layer| layer.weights.ncols()).collect();
        let mut weights = DMatrix::zeros(view.model().classes(), widths.iter().sum());
        let mut at = 0;
        for layer in &last {
            weights.columns_mut(at, layer.weights.ncols()).copy_from(layer.weights);
            at += layer.weights.ncols();
        }
        let middles: Vec<f64> = parts
            .iter()
            .zip(&widths)
            .flat_map(|(p, w)| vec![middle_below(p, p.len() - 1); *w])
            .collect();
        let system = LinearSystem::new(&weights)?;
        let biases = last.iter().filter_map(|layer| layer.bias);
        let mut bias = DMatrix::zeros(weights.nrows(), 1);
        biases.for_each(|of_part| bias.column_mut(0).add_assign(of_part));
        let shift = row_differences(&bias);
        let mut right = view.b_prime()?.clone();
        right.column_iter_mut().for_each(|mut b| b -= shift.column(0));
        let inputs =
            nearest(system.matrix(), system.pseudo_inverse(), &right, &DVector::from_vec(middles));
        let mut estimates = DMatrix::zeros(view.target_features(), view.records());
        let (mut from, mut to) = (0, 0);
        for (layers, width) in parts.iter().zip(&widths) {
            let x = down(layers, inputs.rows(from, *width).into_owned())?;
            estimates.rows_mut(to, x.nrows()).copy_from(&x);
            (from, to) = (from + width, to + x.nrows());
        }
        contract::clamp(&mut estimates);
        Ok(Reconstruction::new(estimates, Status::LayerByLayer))
    }
}

/// Returns the middle of the inputs of the layer at this place: of the range of the activation
/// below, or of a feature's range.
fn middle_below(layers: &[DenseLayer<'_>], place: usize) -> f64 {
    let below = place.checked_sub(1).and_then(|below| layers[below].activation);
    below.map_or(0.5, |activation| {
        let (low, high) = activation.range();
        0.5 * (low + high)
    })
}

/// Computes the features from the inputs of the last layer (n columns).
fn down(layers: &[DenseLayer<'_>], mut inputs: DMatrix<f64>) -> Result<DMatrix<f64>, AttackError> {
    for place in (0..layers.len() - 1).rev() {
        let DenseLayer { weights, bias, activation } = layers[place];
        if let Some(activation) = activation {
            let (low, high) = activation.range();
            let margin = MARGIN * (high - low);
            inputs.iter_mut().for_each(|a| {
                *a = activation.inverse(a.clamp(low + margin, high - margin)).unwrap_or(*a)
            });
        }
        if let Some(bias) = bias {
            inputs.column_iter_mut().for_each(|mut z| z -= bias);
        }
        let middle = DVector::from_element(weights.ncols(), middle_below(layers, place));
        inputs = nearest(weights, &PseudoInverse::new(weights)?.matrix, &inputs, &middle);
    }
    Ok(inputs)
}

/// Returns the best fits of W a = z nearest to `middle`, W⁺ z + (I − W⁺ W) m, one for each column
/// of z.
fn nearest(
    weights: &DMatrix<f64>,
    inverse: &DMatrix<f64>,
    z: &DMatrix<f64>,
    middle: &DVector<f64>,
) -> DMatrix<f64> {
    affine(inverse, Some(&(middle - inverse * (weights * middle))), z)
}
