//! The end of the network: the mean of each channel over its pixels, and a linear layer o = W a (+
//! b) on those means.

use super::maps::{Maps, Real, Shape, narrowed, sum};

/// Computes the mean of each channel, record after record: n × channels.
pub(super) fn pool<T: Real>(maps: &Maps<T>) -> Vec<T> {
    let area = maps.shape.area();
    maps.values
        .chunks_exact(area)
        .map(|plane| T::narrow(sum(plane, plane, |v, _| v) / area as f64))
        .collect()
}

/// Computes the gradient of maps of this shape from that of their means.
pub(super) fn pool_backward<T: Real>(shape: Shape, gradient: &[T]) -> Maps<T> {
    let area = shape.area();
    let share = T::narrow(1.0 / area as f64);
    let values = gradient.iter().flat_map(|g| std::iter::repeat_n(*g * share, area)).collect();
    Maps { shape, values }
}

/// A linear layer. The active party's has a bias.
#[derive(Clone)]
pub(super) struct Linear<T> {
    pub(super) inputs: usize,
    /// outputs × inputs, row by row.
    pub(super) weights: Vec<T>,
    pub(super) bias: Option<Vec<T>>,
}

/// The gradients of a linear layer.
pub(super) struct LinearGradients<T> {
    pub(super) weights: Vec<f64>,
    pub(super) bias: Option<Vec<f64>>,
    /// The gradient with respect to the inputs, n × inputs.
    pub(super) below: Vec<T>,
}

impl<T: Real> Linear<T> {
    /// Creates a layer with all parameters 0.
    pub(super) fn zeros(inputs: usize, outputs: usize, bias: bool) -> Self {
        let zeros = |count| vec![T::zero(); count];
        Self { inputs, weights: zeros(outputs * inputs), bias: bias.then(|| zeros(outputs)) }
    }

    /// Returns the number of outputs.
    fn outputs(&self) -> usize {
        self.weights.len() / self.inputs
    }

    /// Computes the outputs (n × outputs) of inputs (n × inputs), record after record.
    pub(super) fn forward(&self, inputs: &[T]) -> Vec<T> {
        let mut outputs = Vec::with_capacity(inputs.len() / self.inputs * self.outputs());
        for record in inputs.chunks_exact(self.inputs) {
            for (at, row) in self.weights.chunks_exact(self.inputs).enumerate() {
                let bias = self.bias.as_ref().map_or(0.0, |bias| bias[at].widen());
                outputs.push(T::narrow(sum(row, record, |w, a| w * a) + bias));
            }
        }
        outputs
    }

    /// Computes G W for the inputs from the gradient G (n × outputs).
    pub(super) fn pull_back(&self, gradient: &[T]) -> Vec<T> {
        let mut below = vec![T::zero(); gradient.len() / self.outputs() * self.inputs];
        for (gradient, below) in
            gradient.chunks_exact(self.outputs()).zip(below.chunks_exact_mut(self.inputs))
        {
            for (g, row) in gradient.iter().zip(self.weights.chunks_exact(self.inputs)) {
                below.iter_mut().zip(row).for_each(|(b, w)| *b += *g * *w);
            }
        }
        below
    }

    /// Computes Gᵀ A for the weights, Σ G for the bias and G W for the inputs from the gradient G
    /// (n × outputs).
    pub(super) fn backward(&self, inputs: &[T], gradient: &[T]) -> LinearGradients<T> {
        let outputs = self.outputs();
        let mut weights = vec![0.0; self.weights.len()];
        let mut bias = vec![0.0; outputs];
        for (record, gradient) in
            inputs.chunks_exact(self.inputs).zip(gradient.chunks_exact(outputs))
        {
            for ((g, bias), weights) in
                gradient.iter().zip(&mut bias).zip(weights.chunks_exact_mut(self.inputs))
            {
                *bias += g.widen();
                weights.iter_mut().zip(record).for_each(|(w, a)| *w += g.widen() * a.widen());
            }
        }
        LinearGradients {
            weights,
            bias: self.bias.is_some().then_some(bias),
            below: self.pull_back(gradient),
        }
    }
}

impl Linear<f64> {
    /// Converts the layer to another number type.
    pub(super) fn narrow<T: Real>(&self) -> Linear<T> {
        let bias = self.bias.as_ref().map(|bias| narrowed(bias));
        Linear { inputs: self.inputs, weights: narrowed(&self.weights), bias }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, random};
    use super::*;

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn outputs_are_those_of_the_formula() {
        let mut layer =
            Linear { inputs: 2, weights: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], bias: None };
        assert_eq!(layer.forward(&[1.0, -1.0, 0.5, 0.0]), [-1.0, -1.0, -1.0, 0.5, 1.5, 2.5]);
        layer.bias = Some(vec![10.0, 20.0, 30.0]);
        assert_eq!(layer.forward(&[1.0, -1.0]), [9.0, 19.0, 29.0]);
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        for bias in [true, false] {
            let mut layer = Linear::<f64>::zeros(5, 3, bias);
            layer.weights = random(15, 1);
            let mut inputs = random(20, 2);
            let direction = random(12, 3);
            let gradients = layer.backward(&inputs, &direction);
            check("inputs", &gradients.below, |at, by| {
                inputs[at] += by;
                let value = dot(&layer.forward(&inputs), &direction);
                inputs[at] -= by;
                value
            });
            check("weights", &gradients.weights, |at, by| {
                layer.weights[at] += by;
                let value = dot(&layer.forward(&inputs), &direction);
                layer.weights[at] -= by;
                value
            });
            assert_eq!(gradients.bias.is_some(), bias);
            check("bias", &gradients.bias.unwrap_or_default(), |at, by| {
                let mut moved = layer.clone();
                moved.bias.as_mut().unwrap()[at] += by;
                dot(&moved.forward(&inputs), &direction)
            });
        }
    }

    #[test]
    fn the_mean_over_pixels_and_its_gradient() {
        let shape = Shape { channels: 2, height: 3, width: 3 };
        let mut maps = Maps { shape, values: random(54, 1) };
        let direction = random(6, 2);
        let means = pool(&maps);
        assert!((means[1] - maps.values[9..18].iter().sum::<f64>() / 9.0).abs() < 1e-15);
        let gradient = pool_backward(shape, &direction);
        check("inputs", &gradient.values, |at, by| {
            maps.values[at] += by;
            let value = dot(&pool(&maps), &direction);
            maps.values[at] -= by;
            value
        });
    }
}
