//! Regressions of numbers and of counts: on shares as in the clear, and in the clear as solvers of
//! another kind find.

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::prelude::*;
use rand_chacha::ChaCha12Rng;
use vfl_mpc::{
    Family, FixedPoint, LARGEST_FEATURE, MpcError, Regression, RegressionData, SharedMatrix,
};

use super::compute;
use super::regression::{data, distance, opened, prepared, settings, train};

const RECORDS: usize = 500;

/// Settings of a family: counts have two bits less.
fn of(family: Family, epochs: usize) -> Regression {
    let bits = if family == Family::Poisson { 18 } else { 20 };
    Regression { family, fixed: FixedPoint::new(bits).unwrap(), ..settings(epochs) }
}

/// Whitened features of both parties and the constant, and labels of a family that depend on them:
/// numbers of mean 0 and variance 1, counts of mean 1.
fn regression_data(family: Family, seed: u64) -> (DMatrix<f64>, DMatrix<f64>) {
    let features = prepared(&data(RECORDS, seed).0, RECORDS);
    let mut rng = ChaCha12Rng::seed_from_u64(seed + 100);
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let direction = DVector::from_fn(features.ncols(), |_, _| 0.25 * normal());
    let predictors = &features * direction;
    let labels = match family {
        Family::Gaussian => predictors.map(|eta| eta + 0.5 * normal()),
        _ => {
            let count = |eta: f64| {
                let (mut left, mut count) = (rng.random::<f64>(), 0.0);
                let mut part = (-eta.exp()).exp();
                while left > part && count < 1000.0 {
                    left -= part;
                    count += 1.0;
                    part *= eta.exp() / count;
                }
                count
            };
            predictors.map(count)
        }
    };
    let mean = labels.mean();
    let labels = match family {
        Family::Gaussian => {
            let centred = labels.add_scalar(-mean);
            let deviation = (centred.norm_squared() / RECORDS as f64).sqrt();
            centred / deviation
        }
        _ => labels / mean,
    };
    (features, DMatrix::from_column_slice(RECORDS, 1, labels.as_slice()))
}

/// Returns the optimum by Newton's method (of numbers one step, the closed form of ridge
/// regression), in the coordinates of the whitened features.
fn newton(of: Regression, features: &DMatrix<f64>, labels: &DMatrix<f64>) -> DVector<f64> {
    let (n, d) = features.shape();
    let mut penalty = DVector::repeat(d, 2.0 * of.penalty);
    penalty[d - 1] = 0.0;
    let mut weights = DVector::zeros(d);
    for _ in 0..50 {
        let predictors = features * &weights;
        let (means, slopes) = match of.family {
            Family::Gaussian => (predictors.clone(), predictors.map(|_| 1.0)),
            _ => (predictors.map(f64::exp), predictors.map(f64::exp)),
        };
        let gradient = features.tr_mul(&(means - labels.column(0))) / n as f64
            + weights.component_mul(&penalty);
        let mut weighted = features.clone();
        weighted.row_iter_mut().zip(&slopes).for_each(|(mut row, slope)| row *= *slope);
        let hessian = features.tr_mul(&weighted) / n as f64 + DMatrix::from_diagonal(&penalty);
        weights -= hessian.cholesky().unwrap().solve(&gradient);
        if gradient.norm() < 1e-12 {
            break;
        }
    }
    weights
}

#[test]
fn the_weights_are_those_of_a_second_solver() {
    for (family, tolerance) in [(Family::Gaussian, 1e-6), (Family::Poisson, 4e-3)] {
        for seed in 1..5 {
            let of = of(family, 400);
            let (features, labels) = regression_data(family, seed);
            let scale = of.feature_scale(RECORDS);
            let scaled = &features * scale;
            let found = of.train_in_the_clear(scaled.as_slice(), labels.as_slice(), RECORDS);
            let found = DVector::from_vec(found.weights) * scale;
            let expected = newton(of, &features, &labels);
            let away = (&found - &expected).amax();
            assert!(away < tolerance, "{family:?}, {seed}: {away}\n{found} {expected}");
            assert!(expected.amax() > 0.1);
        }
    }
}

#[test]
fn training_on_shares_is_that_in_the_clear() {
    // Rounds of an epoch, and of the substeps of the first ten beside it.
    for (family, each, early) in [(Family::Gaussian, 6, 0), (Family::Poisson, 10, 12)] {
        let of = of(family, 40);
        let (features, labels) = regression_data(family, 7);
        let features = features * of.feature_scale(RECORDS);
        let outcomes = compute(|session| {
            let result = train(session, of, &features, &labels, &mut |_| true).unwrap();
            opened(session, of, result)
        });
        let expected = of.train_in_the_clear(features.as_slice(), labels.as_slice(), RECORDS);
        let away = distance(&outcomes[0].result.weights, &expected.weights);
        assert!(away < 200.0 * of.fixed.unit(), "{family:?}: {}", away / of.fixed.unit());
        let rounds = outcomes.iter().map(|outcome| outcome.round).max().unwrap();
        assert_eq!(rounds, 40 * each + 10 * early + 3, "{family:?}");
    }
}

/// Of few records that a model soon learns by heart, the epoch is kept that others fit best.
#[test]
fn early_stop_on_shares_is_that_in_the_clear() {
    for family in [Family::Gaussian, Family::Poisson] {
        for seed in 1..4 {
            let (validation, patience) = (RECORDS - 30, 5);
            let of = Regression { penalty: 0.0, validation, patience, ..of(family, 60) };
            let (features, labels) = regression_data(family, seed);
            let features = features * of.feature_scale(RECORDS);
            let expected = of.train_in_the_clear(features.as_slice(), labels.as_slice(), RECORDS);
            assert!(expected.epochs < 60 && expected.best_epoch > 1, "{family:?}, {seed}");
            let outcomes = compute(|session| {
                let result = train(session, of, &features, &labels, &mut |_| true).unwrap();
                opened(session, of, result)
            });
            let result = &outcomes[1].result;
            let counts = (result.epochs, result.best_epoch);
            assert_eq!(counts, (expected.epochs, expected.best_epoch), "{family:?}, {seed}");
            let away = distance(&result.weights, &expected.weights);
            assert!(away < 200.0 * of.fixed.unit(), "{family:?}, {seed}");
        }
    }
}

/// Records far out, as amounts of money have them, stay in least squares, and do not throw it off.
#[test]
fn far_records_count_in_full() {
    for seed in 1..4 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let blocks = [3, 5].map(|d| DMatrix::from_fn(RECORDS, d, |_, _| (2.0 * normal()).exp()));
        let features = prepared(&blocks, RECORDS);
        assert!(features.amax() > 2.0 * LARGEST_FEATURE);
        let labels = DMatrix::from_fn(RECORDS, 1, |at, _| 0.5 * features[(at, 0)] + normal());
        let deviation = labels.column(0).variance().sqrt();
        let labels = labels.add_scalar(-labels.mean()) / deviation;
        let of = of(Family::Gaussian, 300);
        let prepared = of.prepare(features.as_slice(), RECORDS);
        let prepared = DMatrix::from_vec(RECORDS, features.ncols(), prepared);
        let expected = newton(of, &features, &labels);
        let outcomes = compute(|session| {
            let result = train(session, of, &prepared, &labels, &mut |_| true).unwrap();
            opened(session, of, result)
        });
        let found = DVector::from_vec(outcomes[0].result.weights.clone());
        let away = (found * of.feature_scale(RECORDS) - expected).amax();
        assert!(away < 1e-3, "{seed}: {away}");
    }
}

/// Records far out among those that validate neither are refused nor hide which epoch is best: what is kept is what exact sums of
/// squares keep.
#[test]
fn far_records_validate_within_the_ring() {
    let validation = 100;
    let of = Regression { validation, patience: 30, ..of(Family::Gaussian, 30) };
    let (mut features, labels) = regression_data(Family::Gaussian, 3);
    for far in [40.0, 2000.0, 1e6] {
        (0..9).for_each(|at| features[(RECORDS - 1 - 7 * at, 1)] = far);
        let prepared = of.prepare(features.as_slice(), RECORDS);
        let prepared = DMatrix::from_vec(RECORDS, features.ncols(), prepared);
        let expected = of.train_in_the_clear(prepared.as_slice(), labels.as_slice(), RECORDS);
        let outcomes = compute(|session| {
            let result = train(session, of, &prepared, &labels, &mut |_| true).unwrap();
            opened(session, of, result)
        });
        let result = &outcomes[2].result;
        assert_eq!(result.best_epoch, expected.best_epoch, "{far}");
        assert!(distance(&result.weights, &expected.weights) < 200.0 * of.fixed.unit(), "{far}");
    }
}

#[test]
fn a_number_is_one_column() {
    compute(|session| {
        let zeros = |columns: usize| {
            let zeros = session.public(&vec![0; 8 * columns]);
            SharedMatrix::new(8, columns, zeros).unwrap()
        };
        let data = RegressionData { features: zeros(2), labels: zeros(2) };
        for family in [Family::Gaussian, Family::Poisson] {
            let refused = session.regress(of(family, 1), &data, &mut |_| true).unwrap_err();
            assert!(matches!(refused, MpcError::Shape { .. }), "{refused}");
        }
    });
}
