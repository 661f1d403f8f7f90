//! The sensitivity of reported figures to one record, and the grid and noise that follow from it.
//!
//! n records, d features, truth x and estimates e in \[0, 1\] (estimates are clipped to it). e
//! comes from the auditor and is no secret, so a bound may depend on it. r_ij = max(e_ij², (1 −
//! e_ij)²) is the range of (e_ij − x)² over x in \[0, 1\]: its least value is 0, at x = e_ij, its
//! largest is at an end. Only the terms of one record i change between neighbours.
//!
//! | figure | changes by at most | in the worst case |
//! |---|---|---|
//! | overall error (1 / dn) Σ (e − x)² | max_i (1/d) Σ_j r_ij / n | 1/n: e_ij in {0, 1} |
//! | the same of ½ everywhere | r = ¼: 1 / 4n | 1 / 4n |
//! | errors by feature, together, in L2 | max_i √(Σ_j r_ij²) / n | √d / n |
//! | difference of two overall errors, of e and f | the sum of both bounds | 2/n: e_ij = 0, f_ij = 1 |
//! | overall error of estimates of which each depends on its own record | 1/n | 1/n |
//! | the same by feature, in L2 | √d / n | √d / n |
//! | column mean's error (mean variance, divisor n) | (n − 1) / n² | (n − 1) / n² |
//! | the same by feature, in L2 | √d (n − 1) / n² | √d (n − 1) / n² |
//!
//! Metrics have their own bounds, beside their definitions in `vfl_core::metrics`; a property
//! test there searches for a larger change.
//!
//! The difference: the terms of record i in it are linear in x, (1/d) Σ_j (e² − f² − 2 x (e − f)),
//! and range over 2 mean_j |e_ij − f_ij| ≤ 2. The column mean: with μ and v the mean and variance
//! of a feature over the other n − 1 records, the variance over all is (n − 1)/n v + (n − 1)/n² (x
//! − μ)², and (x − μ)² ranges over at most \[0, 1\] (all of it if μ is 0 or 1).
//!
//! # Grid
//!
//! A figure goes to the nearest multiple of a step g, and integer noise of standard deviation S =
//! [`STEPS`] steps is added ([`discrete_gaussian`]). Rounding moves each of c coordinates by half a
//! step at most, so neighbours differ by at most Δ/g + √c (1 + 1/64) steps, in L2. The 1/64 covers
//! the round-off of the sums; at n = 16 384 it is a hundred times the bound of that round-off.
//! Discrete Gaussian noise makes this ρ-zCDP with ρ = (Δ/g + √c (1 + 1/64))² / 2S² (Canonne et al.,
//! theorem 14). Solved for g this gives the step, and σ = S g. Against σ = Δ/√(2ρ) of continuous
//! noise this is below 1 % more for any ρ above 1e-5.

use nalgebra::DMatrix;
use rand::Rng;

use super::noise::{STEPS, discrete_gaussian};

/// The most that one record can move an error, over all features and by feature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sensitivity {
    /// The sensitivity of the overall error.
    pub overall: f64,
    /// The sensitivity of the vector of errors by feature, in L2.
    pub by_feature: f64,
}

impl Sensitivity {
    /// Returns the sensitivity of the errors of these estimates (d × n), which must lie in [0, 1].
    #[must_use]
    pub fn of_estimates(estimates: &DMatrix<f64>) -> Self {
        let (d, n) = estimates.shape();
        let (mut overall, mut square) = (0.0_f64, 0.0_f64);
        for record in estimates.as_slice().chunks_exact(d.max(1)) {
            let range = |e: f64| e.max(1.0 - e).powi(2);
            overall = overall.max(record.iter().map(|&e| range(e)).sum());
            square = square.max(record.iter().map(|&e| range(e).powi(2)).sum());
        }
        let n = n.max(1) as f64;
        Self { overall: overall / d.max(1) as f64 / n, by_feature: square.sqrt() / n }
    }

    /// Returns the sensitivity for estimates in [0, 1] of which each may depend on the truth of its
    /// own record, and on that of no other.
    #[must_use]
    pub fn of_played(d: usize, n: usize) -> Self {
        let overall = 1.0 / n.max(1) as f64;
        Self { overall, by_feature: (d as f64).sqrt() * overall }
    }

    /// Returns the sensitivity of the error of ½ everywhere.
    #[must_use]
    pub fn of_half(d: usize, n: usize) -> Self {
        let overall = 0.25 / n.max(1) as f64;
        Self { overall, by_feature: (d as f64).sqrt() * overall }
    }

    /// Returns the sensitivity of the error of each feature's own mean.
    #[must_use]
    pub fn of_column_mean(d: usize, n: usize) -> Self {
        let n = n.max(1) as f64;
        let overall = (n - 1.0).max(0.0) / (n * n);
        Self { overall, by_feature: (d as f64).sqrt() * overall }
    }
}

/// The most that each rounded coordinate adds to a difference, in steps.
const ROUNDING: f64 = 1.0 + 1.0 / 64.0;

/// A grid whose step makes figures of a given sensitivity cost a given ρ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    step: f64,
}

impl Grid {
    /// Creates the grid for `coordinates` figures that one record moves by `sensitivity` together,
    /// in L2; `None` if `rho` is too small for so many.
    #[must_use]
    pub fn new(sensitivity: f64, coordinates: usize, rho: f64) -> Option<Self> {
        let steps = STEPS as f64 * (2.0 * rho).sqrt() - (coordinates as f64).sqrt() * ROUNDING;
        // At most half of the distance to the noise is lost to rounding.
        (steps > 0.5 * STEPS as f64 * (2.0 * rho).sqrt())
            .then_some(Self { step: sensitivity / steps })
    }

    /// Creates the grid for a choice by the exponential mechanism among errors whose differences
    /// one record moves by `sensitivity`.
    ///
    /// The odds are exp(−steps / S). The logarithm of the odds of two candidates moves by ε =
    /// (Δ/g + 2 (1 + 1/64)) / S at most: a bounded range ε, which is ε²/8-zCDP (Cesar and Rogers
    /// 2021, Dong et al. 2020).
    #[must_use]
    pub fn of_choice(sensitivity: f64, rho: f64) -> Option<Self> {
        let epsilon = STEPS as f64 * (8.0 * rho).sqrt();
        let steps = epsilon - 2.0 * ROUNDING;
        (steps > 0.5 * epsilon).then_some(Self { step: sensitivity / steps })
    }

    /// Returns the standard deviation of the noise.
    #[must_use]
    pub fn sigma(&self) -> f64 {
        self.step * STEPS as f64
    }

    /// Returns the nearest multiple of the step, in steps.
    #[must_use]
    pub fn steps(&self, value: f64) -> i64 {
        (value / self.step).round() as i64
    }

    /// Returns a figure on the grid, with noise.
    pub fn noised(&self, value: f64, rng: &mut impl Rng) -> f64 {
        self.steps(value).saturating_add(discrete_gaussian(rng)) as f64 * self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vfl_core::metrics::{SquaredError, column_mean_error, half_error, mse};

    fn l2(a: &SquaredError, b: &SquaredError) -> f64 {
        a.by_feature.iter().zip(&b.by_feature).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// Values of the box, its ends and middle often.
    fn unit() -> impl Strategy<Value = f64> {
        prop_oneof![2 => Just(0.0), 2 => Just(1.0), 1 => Just(0.5), 3 => 0.0..=1.0f64]
    }

    fn matrix(d: usize, n: usize) -> impl Strategy<Value = DMatrix<f64>> {
        prop::collection::vec(unit(), d * n).prop_map(move |v| DMatrix::from_vec(d, n, v))
    }

    fn tables()
    -> impl Strategy<Value = (DMatrix<f64>, DMatrix<f64>, DMatrix<f64>, DMatrix<f64>, usize)> {
        (1usize..5, 2usize..8)
            .prop_flat_map(|(d, n)| (matrix(d, n), matrix(d, n), matrix(d, n), matrix(d, 1), 0..n))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Random and extreme neighbours never pass a bound.
        #[test]
        fn no_neighbour_passes_a_bound((truth, e, f, other, at) in tables()) {
            let (d, n) = truth.shape();
            let mut neighbour = truth.clone();
            neighbour.set_column(at, &other.column(0));
            let near = |a: f64, bound: f64| a <= bound + 1e-12;
            let (a, b) = (mse(&e, &truth).unwrap(), mse(&e, &neighbour).unwrap());
            let bound = Sensitivity::of_estimates(&e);
            prop_assert!(near((a.overall - b.overall).abs(), bound.overall) && near(l2(&a, &b), bound.by_feature));
            prop_assert!(near(bound.overall, 1.0 / n as f64) && near(bound.by_feature, (d as f64).sqrt() / n as f64));
            let (fa, fb) = (mse(&f, &truth).unwrap(), mse(&f, &neighbour).unwrap());
            let difference = ((a.overall - fa.overall) - (b.overall - fb.overall)).abs();
            prop_assert!(near(difference, bound.overall + Sensitivity::of_estimates(&f).overall));
            prop_assert!(near(difference, 2.0 / n as f64));
            let (a, b, bound) = (half_error(&truth).unwrap(), half_error(&neighbour).unwrap(), Sensitivity::of_half(d, n));
            prop_assert!(near((a.overall - b.overall).abs(), bound.overall) && near(l2(&a, &b), bound.by_feature));
            let (a, b) = (column_mean_error(&truth).unwrap(), column_mean_error(&neighbour).unwrap());
            let bound = Sensitivity::of_column_mean(d, n);
            prop_assert!(near((a.overall - b.overall).abs(), bound.overall) && near(l2(&a, &b), bound.by_feature));
        }

        /// On the grid, neighbours differ by at most what the price assumes: the price is never
        /// below (Δ steps)² / 2 S².
        #[test]
        fn the_grid_costs_what_it_says((truth, e, _, other, at) in tables(), exponent in -5.0..-1.06f64) {
            let rho = 10f64.powf(exponent);
            let mut neighbour = truth.clone();
            neighbour.set_column(at, &other.column(0));
            let (a, b) = (mse(&e, &truth).unwrap(), mse(&e, &neighbour).unwrap());
            let bound = Sensitivity::of_estimates(&e);
            let grid = Grid::new(bound.by_feature, truth.nrows(), rho).unwrap();
            let square: f64 = a.by_feature.iter().zip(&b.by_feature)
                .map(|(a, b)| ((grid.steps(*a) - grid.steps(*b)) as f64).powi(2)).sum();
            prop_assert!(square / (2.0 * (STEPS as f64).powi(2)) <= rho);
            prop_assert!(grid.sigma() >= bound.by_feature / (2.0 * rho).sqrt(), "never less noise than in the continuous case");
            prop_assert!(grid.sigma() <= 1.02 * bound.by_feature / (2.0 * rho).sqrt());
        }
    }

    /// Every bound is reached, to a relative 1e-9, by some pair of neighbours.
    #[test]
    fn every_bound_is_reached() {
        let (d, n) = (3, 7);
        let zeros = DMatrix::zeros(d, n);
        let ones = DMatrix::from_element(d, n, 1.0);
        let mut neighbour = zeros.clone();
        neighbour.column_mut(2).fill(1.0);
        let reached = |a: &SquaredError, b: &SquaredError, bound: Sensitivity| {
            assert!(((a.overall - b.overall).abs() / bound.overall - 1.0).abs() < 1e-9);
            assert!((l2(a, b) / bound.by_feature - 1.0).abs() < 1e-9);
        };
        let of = |e: &DMatrix<f64>, x: &DMatrix<f64>| mse(e, x).unwrap();
        reached(&of(&zeros, &zeros), &of(&zeros, &neighbour), Sensitivity::of_estimates(&zeros));
        let difference = |x: &DMatrix<f64>| of(&zeros, x).overall - of(&ones, x).overall;
        assert!(
            ((difference(&neighbour) - difference(&zeros)) * n as f64 / 2.0 - 1.0).abs() < 1e-9
        );
        let mut half = zeros.clone();
        half.column_mut(2).fill(0.5);
        reached(
            &half_error(&zeros).unwrap(),
            &half_error(&half).unwrap(),
            Sensitivity::of_half(d, n),
        );
        reached(
            &column_mean_error(&zeros).unwrap(),
            &column_mean_error(&neighbour).unwrap(),
            Sensitivity::of_column_mean(d, n),
        );
    }

    #[test]
    fn a_price_too_small_for_its_figures_has_no_grid() {
        assert!(Grid::new(0.01, 1, 1e-7).is_some());
        assert!(Grid::new(0.01, 1 << 20, 1e-7).is_none());
        assert!(Grid::new(0.01, 1, 0.0).is_none() && Grid::of_choice(0.01, 0.0).is_none());
        assert!(Grid::new(0.01, 1, f64::NAN).is_none());
    }
}
