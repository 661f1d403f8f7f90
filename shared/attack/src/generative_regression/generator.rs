//! The generator: a perceptron with normalised hidden layers and a sigmoid at its end.

use std::borrow::Cow;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use vfl_core::model::contract::{ParameterRole, Parametrised, Tensor};

/// Added to the variance of a layer's sums before the root, as PyTorch's `LayerNorm` does.
const EPSILON: f64 = 1e-5;

/// One layer: a = relu(g ⊙ ẑ + s) for ẑ = (z − mean z) / √(var z + ε) and z = W x + b, over the
/// units of the layer, record by record. The last layer is a = 1 / (1 + exp(−z)).
struct Layer {
    /// The weights, outputs × inputs.
    weights: DMatrix<f64>,
    bias: DVector<f64>,
    /// Gain g and shift s. `None` for the last layer.
    norm: Option<(DVector<f64>, DVector<f64>)>,
}

/// The values of a layer that the backward pass needs.
struct LayerCache {
    /// The input x.
    input: DMatrix<f64>,
    /// ẑ, and 1 / √(var z + ε) of each record; empty for the last layer.
    normed: DMatrix<f64>,
    inverse: Vec<f64>,
    /// The output a.
    output: DMatrix<f64>,
}

/// A map of m inputs to d numbers in (0, 1), one record per column.
pub(super) struct Generator {
    layers: Vec<Layer>,
    /// The values of the last [`Generator::forward`].
    kept: Vec<LayerCache>,
}

impl Generator {
    /// Creates hidden layers of these widths. Weights and biases are uniform within 1 / √inputs, as
    /// PyTorch's `Linear` draws them; gains are 1, shifts 0.
    pub(super) fn new(inputs: usize, hidden: &[usize], outputs: usize, rng: &mut dyn Rng) -> Self {
        let mut from = inputs;
        let layers = hidden.iter().map(|width| (*width, true)).chain([(outputs, false)]);
        let layers = layers.map(|(width, hidden)| {
            let reach = 1.0 / (from as f64).sqrt();
            let mut uniform = || reach * (2.0 * rng.random::<f64>() - 1.0);
            let weights = DMatrix::from_fn(width, from, |_, _| uniform());
            let bias = DVector::from_fn(width, |_, _| uniform());
            from = width;
            let norm = hidden.then(|| (DVector::from_element(width, 1.0), DVector::zeros(width)));
            Layer { weights, bias, norm }
        });
        Self { layers: layers.collect(), kept: Vec::new() }
    }

    /// Returns the approximate number of multiplications of a forward pass for one record.
    pub(super) fn work(&self) -> u64 {
        self.layers.iter().map(|layer| layer.weights.len() as u64).sum()
    }

    /// Computes the outputs (d × n) at the inputs (m × n).
    pub(super) fn forward(&mut self, input: DMatrix<f64>) -> &DMatrix<f64> {
        self.kept.clear();
        let mut next = input;
        for layer in &self.layers {
            let kept = layer.forward(next);
            next = kept.output.clone();
            self.kept.push(kept);
        }
        // There is a last layer.
        &self.kept[self.kept.len() - 1].output
    }

    /// Computes the slopes in all parameters from those in the outputs (d × n) of the last
    /// [`Generator::forward`], in the order of [`Parametrised::tensors_mut`].
    pub(super) fn backward(&self, slopes: DMatrix<f64>) -> Vec<Vec<f64>> {
        let mut delta = slopes;
        let mut reversed = Vec::with_capacity(4 * self.layers.len());
        for (place, (layer, kept)) in self.layers.iter().zip(&self.kept).enumerate().rev() {
            layer.through_activation(kept, &mut delta, &mut reversed);
            reversed.push(delta.column_sum().as_slice().to_vec());
            reversed.push((&delta * kept.input.transpose()).as_slice().to_vec());
            if place > 0 {
                delta = layer.weights.tr_mul(&delta);
            }
        }
        reversed.reverse();
        reversed
    }
}

impl Layer {
    fn forward(&self, input: DMatrix<f64>) -> LayerCache {
        let mut z = DMatrix::from_fn(self.weights.nrows(), input.ncols(), |i, _| self.bias[i]);
        z.gemm(1.0, &self.weights, &input, 1.0);
        let Some((gain, shift)) = &self.norm else {
            z.apply(|z| *z = 1.0 / (1.0 + (-*z).exp()));
            return LayerCache {
                input,
                normed: DMatrix::zeros(0, 0),
                inverse: Vec::new(),
                output: z,
            };
        };
        let mut inverse = Vec::with_capacity(z.ncols());
        let mut output = z.clone();
        for (mut z, mut a) in z.column_iter_mut().zip(output.column_iter_mut()) {
            let mean = z.mean();
            z.add_scalar_mut(-mean);
            let scale = 1.0 / (z.norm_squared() / z.len() as f64 + EPSILON).sqrt();
            z *= scale;
            inverse.push(scale);
            for ((a, z), (g, s)) in a.iter_mut().zip(z.iter()).zip(gain.iter().zip(shift.iter())) {
                *a = (g * z + s).max(0.0);
            }
        }
        LayerCache { input, normed: z, inverse, output }
    }

    /// Converts the slopes in a to those in z. Those in s and g, in this order, go to `reversed`.
    fn through_activation(
        &self,
        kept: &LayerCache,
        delta: &mut DMatrix<f64>,
        reversed: &mut Vec<Vec<f64>>,
    ) {
        let Some((gain, _)) = &self.norm else {
            delta.zip_apply(&kept.output, |slope, a| *slope *= a * (1.0 - a));
            return;
        };
        delta.zip_apply(&kept.output, |slope, a| *slope = if a > 0.0 { *slope } else { 0.0 });
        reversed.push(delta.column_sum().as_slice().to_vec());
        reversed.push(delta.component_mul(&kept.normed).column_sum().as_slice().to_vec());
        for ((mut delta, normed), scale) in
            delta.column_iter_mut().zip(kept.normed.column_iter()).zip(&kept.inverse)
        {
            delta.component_mul_assign(gain);
            let (mean, along) = (delta.mean(), delta.dot(&normed) / delta.len() as f64);
            for (slope, z) in delta.iter_mut().zip(normed.iter()) {
                *slope = scale * (*slope - mean - along * z);
            }
        }
    }
}

fn tensor<V>(what: &'static str, shape: Vec<usize>, values: V) -> Tensor<V> {
    Tensor { name: Cow::Borrowed(what), shape, used: ParameterRole::Free, values }
}

impl Parametrised for Generator {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        let mut tensors = Vec::new();
        for Layer { weights, bias, norm } in &self.layers {
            tensors.push(tensor(
                "weights",
                vec![weights.ncols(), weights.nrows()],
                weights.as_slice(),
            ));
            tensors.push(tensor("bias", vec![bias.len()], bias.as_slice()));
            if let Some((gain, shift)) = norm {
                tensors.push(tensor("gain", vec![gain.len()], gain.as_slice()));
                tensors.push(tensor("shift", vec![shift.len()], shift.as_slice()));
            }
        }
        tensors
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let mut tensors = Vec::new();
        for Layer { weights, bias, norm } in &mut self.layers {
            tensors.push(tensor(
                "weights",
                vec![weights.ncols(), weights.nrows()],
                weights.as_mut_slice(),
            ));
            tensors.push(tensor("bias", vec![bias.len()], bias.as_mut_slice()));
            if let Some((gain, shift)) = norm {
                tensors.push(tensor("gain", vec![gain.len()], gain.as_mut_slice()));
                tensors.push(tensor("shift", vec![shift.len()], shift.as_mut_slice()));
            }
        }
        tensors
    }
}
