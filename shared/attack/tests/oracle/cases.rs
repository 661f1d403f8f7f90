//! Random systems A x = b over the box, as attacks meet them and as degenerate as they come.

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_numerics::row_differences;

use crate::fixture::column;

/// One system with a right side that a point of the box satisfies.
pub(crate) struct Case {
    /// Says how to draw this case again: for messages.
    pub(crate) name: String,
    /// A as given to the code under test, (k − 1) × d.
    pub(crate) a: DMatrix<f64>,
    /// σ_max(A), or 1 for A = 0: dividing by it makes values of order 1.
    pub(crate) scale: f64,
    /// A point of the box, d × 1.
    pub(crate) truth: DMatrix<f64>,
    /// A · truth.
    pub(crate) b: DMatrix<f64>,
    /// For what else the test wants to draw.
    pub(crate) rng: ChaCha20Rng,
}

impl Case {
    /// Case `index` of the series `seed`, with at most `max_d` features.
    pub(crate) fn draw(seed: u64, index: u64, max_d: usize) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(index);
        let k: usize = rng.random_range(2..=11);
        let d: usize = match rng.random_range(0..6) {
            0 => rng.random_range(1..=(k - 1).min(max_d)),
            1 => (k - 1).min(max_d),
            _ => rng.random_range(1..=max_d),
        };
        let (w, system) = weights(k, d, &mut rng);
        let (truth, point) = truth(d, &mut rng);
        let a = row_differences(&w);
        let largest = if a.amax() == 0.0 { 0.0 } else { a.singular_values().max() };
        let scale = if largest == 0.0 { 1.0 } else { largest };
        let b = &a * &truth;
        let name =
            format!("case {index} of seed {seed}: k = {k}, d = {d}, weights: {system}, x: {point}");
        Self { name, a, scale, truth, b, rng }
    }

    /// The right side with noise of σ_max(A) · `size`.
    pub(crate) fn noisy(&mut self, size: f64) -> DMatrix<f64> {
        let mut b = self.b.clone();
        for value in &mut b {
            let normal: f64 = StandardNormal.sample(&mut self.rng);
            *value += size * self.scale * normal;
        }
        b
    }
}

fn normal(rng: &mut ChaCha20Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// W (k × d) and what is special about it.
fn weights(k: usize, d: usize, rng: &mut ChaCha20Rng) -> (DMatrix<f64>, &'static str) {
    let size = 10f64.powf(rng.random_range(-2.0..2.0));
    let mut w = DMatrix::from_fn(k, d, |_, _| size * normal(rng));
    let (one, other) = (rng.random_range(0..d), rng.random_range(0..d));
    let name = match rng.random_range(0..12) {
        0 => {
            let (from, to) = (rng.random_range(0..k), rng.random_range(0..k));
            let row = w.row(from).into_owned();
            w.set_row(to, &row);
            "two classes with the same weights"
        }
        1 => {
            w.column_mut(one).fill(normal(rng));
            "a feature that no class sees"
        }
        2 => {
            let column = w.column(one).into_owned();
            w.set_column(other, &column);
            "two equal features"
        }
        3 => {
            w.column_mut(one).scale_mut(10f64.powf(rng.random_range(1.0..3.0)));
            "one feature that weighs 10 to 1000 times the others: leverage near 1"
        }
        4 => {
            for v in &mut w {
                *v = f64::from(rng.random_range(-1..=1));
            }
            "-1, 0, 1: ties"
        }
        5 => {
            let rank = rng.random_range(1..=k.min(d));
            let (left, right) = (
                DMatrix::from_fn(k, rank, |_, _| normal(rng)),
                DMatrix::from_fn(rank, d, |_, _| normal(rng)),
            );
            w = left * right * size;
            "a product of low rank"
        }
        6 if rng.random_range(0..3) == 0 => {
            let row = w.row(0).into_owned();
            for mut other in w.row_iter_mut() {
                other.copy_from(&row);
            }
            "A = 0"
        }
        _ => "normal",
    };
    (w, name)
}

/// A point of the box (d × 1) and what is special about it. Coordinates are on a face, or 1e-3 and more away from it.
fn truth(d: usize, rng: &mut ChaCha20Rng) -> (DMatrix<f64>, &'static str) {
    let mut inner =
        |low: f64, high: f64| -> Vec<f64> { (0..d).map(|_| rng.random_range(low..high)).collect() };
    let (anywhere, near_half) = (inner(0.001, 0.999), inner(0.4, 0.6));
    let mut binary = || f64::from(u8::from(rng.random::<bool>()));
    let vertex: Vec<f64> = (0..d).map(|_| binary()).collect();
    let saturated: Vec<bool> = (0..d).map(|_| rng.random::<bool>()).collect();
    let (x, name) = match rng.random_range(0..8) {
        0 => (vertex, "a vertex"),
        1 => {
            let mut x = vertex;
            let at = rng.random_range(0..d);
            x[at] = anywhere[at];
            (x, "on an edge")
        }
        2 | 3 => (
            (0..d).map(|i| if saturated[i] { vertex[i] } else { anywhere[i] }).collect(),
            "half of it on faces",
        ),
        4 => (near_half, "near ½"),
        5 => (anywhere.iter().map(|v| (v * 4.0).round() / 4.0).collect(), "quarters: ties"),
        6 => (vec![vertex[0]; d], "all 0 or all 1"),
        _ => (anywhere, "anywhere"),
    };
    (column(&x), name)
}
