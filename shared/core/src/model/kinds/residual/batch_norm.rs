//! Batch norm: x̂ = (z − m) / √(v + ε) and y = γ x̂ + β for each channel (Ioffe and Szegedy 2015,
//! algorithm 1). In training m and v are mean and variance of the channel over all records and
//! pixels of the batch; in service they are running statistics.

use rayon::prelude::*;

use super::maps::{Maps, Real, narrowed, sum};

/// The ε of the formula.
const EPSILON: f64 = 1e-5;
/// The weight of a batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// A batch norm of maps, with one value of each parameter per channel.
#[derive(Clone)]
pub(super) struct BatchNorm<T> {
    pub(super) gamma: Vec<T>,
    pub(super) beta: Vec<T>,
    pub(super) mean: Vec<T>,
    pub(super) variance: Vec<T>,
}

/// Mean and variance of a channel over a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    /// Divided by the number of values. 0 for one value.
    pub(super) variance: f64,
}

impl Moments {
    /// Computes 1 / √(v + ε).
    fn inverse(self) -> f64 {
        1.0 / (self.variance + EPSILON).sqrt()
    }
}

/// The values of a batch that the backward pass needs.
pub(super) struct NormalisedBatch<T> {
    /// The normalised values x̂.
    maps: Maps<T>,
    /// Mean and variance of each channel.
    moments: Vec<Moments>,
}

/// The gradients of a batch norm.
pub(super) struct NormGradients<T> {
    pub(super) gamma: Vec<f64>,
    pub(super) beta: Vec<f64>,
    /// The gradient with respect to z.
    pub(super) below: Maps<T>,
}

impl<T: Real> BatchNorm<T> {
    /// Creates a layer with γ = 1, β = 0, running mean 0 and running variance 1.
    pub(super) fn new(channels: usize) -> Self {
        let (zeros, ones) = (vec![T::zero(); channels], vec![T::one(); channels]);
        Self { gamma: ones.clone(), beta: zeros.clone(), mean: zeros, variance: ones }
    }

    /// Computes y of a training batch.
    pub(super) fn forward(&self, z: Maps<T>) -> (Maps<T>, NormalisedBatch<T>) {
        let moments = moments(&z);
        let mut normed = z;
        let mut y = Maps { shape: normed.shape, values: normed.values.clone() };
        let (area, size) = (y.shape.area(), y.shape.values());
        let records = y.values.par_chunks_mut(size).zip(normed.values.par_chunks_mut(size));
        records.for_each(|(y, normed)| {
            let planes = y.chunks_exact_mut(area).zip(normed.chunks_exact_mut(area)).zip(&moments);
            for (((y, normed), moments), (gamma, beta)) in
                planes.zip(self.gamma.iter().zip(&self.beta))
            {
                let (mean, inverse) = (T::narrow(moments.mean), T::narrow(moments.inverse()));
                for (y, x) in y.iter_mut().zip(normed) {
                    *x = (*x - mean) * inverse;
                    *y = *gamma * *x + *beta;
                }
            }
        });
        (y, NormalisedBatch { maps: normed, moments })
    }

    /// Replaces z of one record by y, in service.
    pub(super) fn apply(&self, record: &mut [T], area: usize) {
        for (channel, plane) in record.chunks_exact_mut(area).enumerate() {
            let (scale, shift) = self.affine(channel);
            let (scale, shift) = (T::narrow(scale), T::narrow(shift));
            plane.iter_mut().for_each(|v| *v = *v * scale + shift);
        }
    }

    /// Returns the affine map of a channel in service: the factor, then the summand.
    pub(super) fn affine(&self, channel: usize) -> (f64, f64) {
        let (mean, variance) = (self.mean[channel].widen(), self.variance[channel].widen());
        let scale = self.gamma[channel].widen() * Moments { mean, variance }.inverse();
        (scale, self.beta[channel].widen() - mean * scale)
    }

    /// Computes the gradients from the gradient g of y: Σ g x̂ for γ, Σ g for β, and γ / √(v + ε) ·
    /// (g − mean g − x̂ · mean g x̂) for z.
    pub(super) fn backward(
        &self,
        normed: &NormalisedBatch<T>,
        mut gradient: Maps<T>,
    ) -> NormGradients<T> {
        let (area, size) = (gradient.shape.area(), gradient.shape.values());
        let count = ((gradient.values.len() / gradient.shape.channels) as f64).max(1.0);
        let sums = by_channel(&gradient, &normed.maps, |gradient, normed| {
            (sum(gradient, normed, |g, x| g * x), sum(gradient, gradient, |g, _| g))
        });
        let (gamma, beta): (Vec<f64>, Vec<f64>) = sums.into_iter().unzip();
        let factors: Vec<[T; 3]> = (0..gamma.len())
            .map(|c| {
                let scale = self.gamma[c].widen() * normed.moments[c].inverse();
                [scale, beta[c] / count, gamma[c] / count].map(T::narrow)
            })
            .collect();
        let records = gradient.values.par_chunks_mut(size).zip(normed.maps.values.par_chunks(size));
        records.for_each(|(gradient, normed)| {
            let planes = gradient.chunks_exact_mut(area).zip(normed.chunks_exact(area));
            for ((gradient, normed), [scale, mean, slope]) in planes.zip(&factors) {
                gradient
                    .iter_mut()
                    .zip(normed)
                    .for_each(|(g, x)| *g = *scale * (*g - *mean - *x * *slope));
            }
        });
        NormGradients { gamma, beta, below: gradient }
    }
}

impl BatchNorm<f64> {
    /// Moves the running statistics towards those of a batch. The running variance takes the
    /// variance divided by the number of values less 1, if there is more than one value. Without a
    /// record the statistics stay.
    pub(super) fn follow<T: Real>(&mut self, normed: &NormalisedBatch<T>) {
        let count = (normed.maps.values.len() / normed.maps.shape.channels) as f64;
        if count == 0.0 {
            return;
        }
        let unbiased = count / (count - 1.0).max(1.0);
        for ((mean, variance), batch) in
            self.mean.iter_mut().zip(&mut self.variance).zip(&normed.moments)
        {
            *mean = (1.0 - MOMENTUM) * *mean + MOMENTUM * batch.mean;
            *variance = (1.0 - MOMENTUM) * *variance + MOMENTUM * batch.variance * unbiased;
        }
    }

    /// Converts the layer to another number type.
    pub(super) fn narrow<T: Real>(&self) -> BatchNorm<T> {
        BatchNorm {
            gamma: narrowed(&self.gamma),
            beta: narrowed(&self.beta),
            mean: narrowed(&self.mean),
            variance: narrowed(&self.variance),
        }
    }
}

/// Computes mean and variance of each channel; both are 0 without a record.
fn moments<T: Real>(maps: &Maps<T>) -> Vec<Moments> {
    let count = ((maps.values.len() / maps.shape.channels) as f64).max(1.0);
    let means = by_channel(maps, maps, |plane, _| (sum(plane, plane, |v, _| v), 0.0));
    let means: Vec<f64> = means.iter().map(|(sum, _)| sum / count).collect();
    let (area, size) = (maps.shape.area(), maps.shape.values());
    (0..maps.shape.channels)
        .into_par_iter()
        .map(|channel| {
            let mean = means[channel];
            let planes =
                maps.values.chunks_exact(size).map(|record| &record[channel * area..][..area]);
            let squares: f64 =
                planes.map(|plane| sum(plane, plane, |v, _| (v - mean) * (v - mean))).sum();
            Moments { mean, variance: squares / count }
        })
        .collect()
}

/// Sums two numbers of a channel's planes over all records, for each channel.
fn by_channel<T: Real>(
    a: &Maps<T>,
    b: &Maps<T>,
    of: impl Fn(&[T], &[T]) -> (f64, f64) + Sync,
) -> Vec<(f64, f64)> {
    let (area, size) = (a.shape.area(), a.shape.values());
    (0..a.shape.channels)
        .into_par_iter()
        .map(|channel| {
            let range = channel * area..(channel + 1) * area;
            let records = a.values.chunks_exact(size).zip(b.values.chunks_exact(size));
            records.fold((0.0, 0.0), |(first, second), (a, b)| {
                let (x, y) = of(&a[range.clone()], &b[range.clone()]);
                (first + x, second + y)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::maps::Shape;
    use super::super::tests::{check, random};
    use super::*;

    /// By hand: one channel, two records of two pixels. Mean 3, squares 14.
    #[test]
    fn a_batch_is_normed_and_moves_the_running_statistics() {
        let shape = Shape { channels: 1, height: 1, width: 2 };
        let mut layer = BatchNorm::<f64>::new(1);
        (layer.gamma, layer.beta) = (vec![2.0], vec![0.5]);
        let (y, normed) = layer.forward(Maps { shape, values: vec![1.0, 2.0, 3.0, 6.0] });
        let deviation = (14.0_f64 / 4.0 + 1e-5).sqrt();
        for (y, z) in y.values.iter().zip([1.0, 2.0, 3.0, 6.0]) {
            assert!((y - (2.0 * (z - 3.0) / deviation + 0.5)).abs() < 1e-14);
        }
        layer.follow(&normed);
        assert!((layer.mean[0] - 0.3).abs() < 1e-15);
        assert!((layer.variance[0] - (0.9 + 0.1 * 14.0 / 3.0)).abs() < 1e-15);
        let mut record = [1.0, 6.0];
        layer.apply(&mut record, 2);
        let deviation = (layer.variance[0] + 1e-5).sqrt();
        for (y, z) in record.iter().zip([1.0, 6.0]) {
            assert!((y - (2.0 * (z - 0.3) / deviation + 0.5)).abs() < 1e-14);
        }
    }

    /// One value has variance 0 and is normed to 0. Without a value the running statistics stay.
    #[test]
    fn one_value_and_none_are_normed() {
        let shape = Shape { channels: 2, height: 1, width: 1 };
        let mut layer = BatchNorm::<f64>::new(2);
        let (y, normed) = layer.forward(Maps { shape, values: vec![5.0, -1.0] });
        assert_eq!(y.values, [0.0, 0.0]);
        let gradients = layer.backward(&normed, Maps { shape, values: vec![1.0, 2.0] });
        assert_eq!((gradients.gamma, gradients.beta), (vec![0.0, 0.0], vec![1.0, 2.0]));
        assert_eq!(gradients.below.values, [0.0, 0.0]);
        layer.follow(&normed);
        assert_eq!((layer.mean.clone(), layer.variance.clone()), (vec![0.5, -0.1], vec![0.9, 0.9]));

        let (y, normed) = layer.forward(Maps::zeros(shape, 0));
        assert_eq!(layer.backward(&normed, y).gamma, [0.0, 0.0]);
        layer.follow(&normed);
        assert_eq!(layer.variance, [0.9, 0.9]);
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        let shape = Shape { channels: 3, height: 2, width: 5 };
        let mut layer = BatchNorm::<f64>::new(3);
        (layer.gamma, layer.beta) = (random(3, 1), random(3, 2));
        let mut z = Maps { shape, values: random(shape.values() * 4, 3) };
        let direction = random(z.values.len(), 4);
        let value = |layer: &BatchNorm<f64>, z: &Maps<f64>| {
            layer
                .forward(z.clone())
                .0
                .values
                .iter()
                .zip(&direction)
                .map(|(y, d)| y * d)
                .sum::<f64>()
        };
        let (_, normed) = layer.forward(z.clone());
        let gradients = layer.backward(&normed, Maps { shape, values: direction.clone() });
        check("gamma", &gradients.gamma, |at, by| {
            let mut moved = layer.clone();
            moved.gamma[at] += by;
            value(&moved, &z)
        });
        check("beta", &gradients.beta, |at, by| {
            let mut moved = layer.clone();
            moved.beta[at] += by;
            value(&moved, &z)
        });
        check("inputs", &gradients.below.values, |at, by| {
            z.values[at] += by;
            let found = value(&layer, &z);
            z.values[at] -= by;
            found
        });
    }
}
