//! Dense layers as a [`Pass`]: a = φ(W x + b), one after the other.

use nalgebra::{DMatrix, DVector};

use crate::model::Activation;
use crate::model::pass::{LANES, Lanes, Pass};

/// One layer with its last outputs.
struct Layer<'a> {
    /// Outputs × inputs.
    weights: &'a DMatrix<f64>,
    /// Wᵀ, whose columns give the weights of an output in a row.
    transposed: DMatrix<f64>,
    bias: Option<&'a DVector<f64>>,
    activation: Option<Activation>,
    /// The activations a.
    outputs: Vec<Lanes>,
    /// The gradient that is propagated back through the layer.
    slopes: Vec<Lanes>,
}

/// The layers in order. The last one has no activation.
#[derive(Default)]
pub(super) struct Layers<'a>(Vec<Layer<'a>>);

impl<'a> Layers<'a> {
    /// Adds one layer.
    pub(super) fn then(
        mut self,
        weights: &'a DMatrix<f64>,
        bias: Option<&'a DVector<f64>>,
        activation: Option<Activation>,
    ) -> Self {
        let zeros = vec![Lanes::all(0.0); weights.nrows()];
        let transposed = weights.transpose();
        self.0.push(Layer {
            weights,
            transposed,
            bias,
            activation,
            outputs: zeros.clone(),
            slopes: zeros,
        });
        self
    }
}

/// Adds to each of `sums` the product of x and one of `rows`, which has `x.len()` numbers.
fn products(rows: &[f64], x: &[Lanes], sums: &mut [Lanes]) {
    for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(x.len().max(1))) {
        let mut total = *sum;
        for (w, x) in row.iter().zip(x) {
            for l in 0..LANES {
                total.0[l] += w * x.0[l];
            }
        }
        *sum = total;
    }
}

impl Pass for Layers<'_> {
    fn outputs(&mut self, x: &[Lanes], outputs: &mut [Lanes]) {
        for place in 0..self.0.len() {
            let (below, above) = self.0.split_at_mut(place);
            let x = below.last().map_or(x, |below| &below.outputs);
            let Some(layer) = above.first_mut() else { break };
            match layer.bias {
                Some(bias) => {
                    layer.outputs.iter_mut().zip(bias).for_each(|(a, b)| *a = Lanes::all(*b))
                }
                None => layer.outputs.fill(Lanes::all(0.0)),
            }
            products(layer.transposed.as_slice(), x, &mut layer.outputs);
            if let Some(activation) = layer.activation {
                layer
                    .outputs
                    .iter_mut()
                    .flat_map(|a| &mut a.0)
                    .for_each(|a| *a = activation.of(*a));
            }
        }
        if let Some(last) = self.0.last() {
            outputs.copy_from_slice(&last.outputs);
        }
    }

    /// Goes from the last layer to the first, as the backward pass of training does: Wᵀ δ ⊙ φ'.
    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]) {
        if let Some(last) = self.0.last_mut() {
            last.slopes.copy_from_slice(slopes);
        }
        for place in (0..self.0.len()).rev() {
            let (below, above) = self.0.split_at_mut(place);
            let Some(layer) = above.first_mut() else { break };
            if let Some(activation) = layer.activation {
                for (slope, a) in layer.slopes.iter_mut().zip(&layer.outputs) {
                    for l in 0..LANES {
                        slope.0[l] *= activation.slope(a.0[l]);
                    }
                }
            }
            let to = match below.last_mut() {
                Some(below) => &mut below.slopes[..],
                None => &mut *gradient,
            };
            to.fill(Lanes::all(0.0));
            products(layer.weights.as_slice(), &layer.slopes, to);
        }
    }
}
