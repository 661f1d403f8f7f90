//! Maps, the values between layers. A record has `channels` planes of `height` × `width` values,
//! row by row.

use nalgebra::RealField;
use rayon::prelude::*;

/// A number type that layers compute with: 32 bits in training and in service, 64 bits in tests of
/// gradients.
pub(super) trait Real: RealField + Copy {
    /// Converts from 64 bits.
    fn narrow(wide: f64) -> Self;
    /// Converts to 64 bits.
    fn widen(self) -> f64;
}

impl Real for f32 {
    fn narrow(wide: f64) -> Self {
        wide as Self
    }

    fn widen(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn narrow(wide: f64) -> Self {
        wide
    }

    fn widen(self) -> f64 {
        self
    }
}

/// Converts all values to the layers' number type.
pub(super) fn narrowed<T: Real>(wide: &[f64]) -> Vec<T> {
    wide.iter().map(|v| T::narrow(*v)).collect()
}

/// Converts all values to 64 bits.
pub(super) fn widened<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.widen()).collect()
}

/// The number of partial sums of [`sum`]. The compiler turns them into vector instructions.
const LANES: usize = 8;

/// Computes Σ term(a_i, b_i) in 64 bits. The order of the additions depends on the length alone.
pub(super) fn sum<T: Real>(a: &[T], b: &[T], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (heads, tails) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = heads
        .remainder()
        .iter()
        .zip(tails.remainder())
        .map(|(a, b)| term(a.widen(), b.widen()))
        .sum();
    for (a, b) in heads.zip(tails) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += term(a.widen(), b.widen());
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// The shape of one record between two layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

impl Shape {
    /// Returns the number of values of one channel.
    pub(super) fn area(self) -> usize {
        self.height * self.width
    }

    /// Returns the number of values of one record.
    pub(super) fn values(self) -> usize {
        self.channels * self.area()
    }
}

/// The maps of n records, one record after another. No dimension of the shape is 0.
#[derive(Clone)]
pub(super) struct Maps<T> {
    pub(super) shape: Shape,
    pub(super) values: Vec<T>,
}

impl<T: Real> Maps<T> {
    /// Creates maps with all values 0.
    pub(super) fn zeros(shape: Shape, records: usize) -> Self {
        Self { shape, values: vec![T::zero(); shape.values() * records] }
    }

    /// Returns the number of records n.
    pub(super) fn records(&self) -> usize {
        self.values.len() / self.shape.values()
    }

    /// Adds other maps of the same shape.
    pub(super) fn add(&mut self, other: &Self) {
        self.zip(other, |v, o| v + o);
    }

    /// Replaces each value v by max(v, 0).
    pub(super) fn relu(&mut self) {
        let values = self.values.par_chunks_mut(self.shape.values());
        values.for_each(|record| record.iter_mut().for_each(|v| *v = relu(*v)));
    }

    /// Turns the gradient behind a relu into the gradient before it, given the relu's outputs. At
    /// the kink it is 0.
    pub(super) fn through_relu(&mut self, outputs: &Self) {
        self.zip(outputs, |gradient, output| if output > T::zero() { gradient } else { T::zero() });
    }

    /// Replaces each value v by f(v, o), with o the value of other maps of the same shape.
    fn zip(&mut self, other: &Self, f: impl Fn(T, T) -> T + Sync) {
        let size = self.shape.values();
        self.values.par_chunks_mut(size).zip(other.values.par_chunks(size)).for_each(
            |(record, other)| {
                record.iter_mut().zip(other).for_each(|(v, o)| *v = f(*v, *o));
            },
        );
    }
}

/// Computes max(v, 0). NaN stays NaN, so that the outputs are refused.
pub(super) fn relu<T: Real>(v: T) -> T {
    if v < T::zero() { T::zero() } else { v }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_all_terms() {
        for n in [0, 1, 7, 8, 9, 64, 100] {
            let a: Vec<f64> = (0..n).map(f64::from).collect();
            let expected: f64 = a.iter().map(|v| v * v + 1.0).sum();
            assert_eq!(sum(&a, &a, |a, b| a * b + 1.0), expected, "{n} terms");
        }
    }

    #[test]
    fn the_gradient_of_relu_is_that_of_its_positive_side() {
        let shape = Shape { channels: 1, height: 1, width: 2 };
        let mut maps = Maps { shape, values: vec![-1.0, 2.0, 0.0, 3.0] };
        assert_eq!(maps.records(), 2);
        maps.relu();
        assert_eq!(maps.values, [0.0, 2.0, 0.0, 3.0]);
        let mut gradient = Maps { shape, values: vec![5.0, 6.0, 7.0, 8.0] };
        gradient.through_relu(&maps);
        assert_eq!(gradient.values, [0.0, 6.0, 0.0, 8.0]);
        gradient.add(&maps);
        assert_eq!(gradient.values, [0.0, 8.0, 0.0, 11.0]);
        assert!(relu(f64::NAN).is_nan());
    }
}
