//! The attack `lattice` where only some of the features lie on a grid that is known.

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::{
    AdversaryView, KnownModel, Method, Reconstruction, Replacement, Settings, run as run_attack,
};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::fixture::scores;

/// The share of records that are certain, of them wrong, and the largest error of the certain ones.
fn decoded(
    w: &DMatrix<f64>,
    x: &DMatrix<f64>,
    steps: &[f64],
    decimals: Option<i32>,
) -> (f64, usize, f64, Reconstruction) {
    let (k, n) = (w.nrows(), x.ncols());
    let bias = DVector::from_fn(k, |i, _| 0.1 * i as f64);
    let model = KnownModel::white_box(DMatrix::zeros(k, 0), bias.clone(), w.clone()).unwrap();
    let active = FeatureBlock::new(DMatrix::zeros(0, n)).unwrap();
    let rounded = |c: f64| match decimals {
        None => c,
        Some(decimals) => (c * 10f64.powi(decimals)).round() / 10f64.powi(decimals),
    };
    let released = ReleasedScores::Numbers(scores(w, &bias, x).matrix().map(rounded));
    let view = AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
    let steps = steps.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    let attack = Method::Lattice.build(&Settings::read([("step", steps.as_str())]).unwrap());
    let found = run_attack(&*attack, &view, 1).unwrap();
    let off = |j: usize| (found.estimates.column(j) - x.column(j)).amax();
    let sure: Vec<usize> = (0..n).filter(|j| found.certain[*j]).collect();
    // Rounded scores leave a feature on no grid to their own precision.
    let near = decimals.map_or(1e-6, |_| 1e-2);
    let wrong = sure.iter().filter(|j| off(**j) > near).count();
    let most = sure.iter().map(|j| off(*j)).fold(0.0, f64::max);
    (sure.len() as f64 / n as f64, wrong, most, found)
}

/// Features on a grid decode beside others that lie on none, which then follow: one equation less for
/// each of them.
#[test]
fn features_on_no_grid_are_solved_for_beside_those_on_one() {
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    for (k, steps) in [
        (6, vec![0.01, 0.0, 0.01, 0.25, 1.0, 0.0, 0.001, 0.01]),
        (3, vec![0.0, 0.01, 0.125, 1.0]),
        (8, vec![0.0, 0.0, 0.0, 0.01, 0.02, 0.001, 0.0, 0.0, 0.5]),
    ] {
        let d = steps.len();
        let w = DMatrix::from_fn(k, d, |_, _| 6.0 * rng.random::<f64>() - 3.0);
        let value = |step: f64, u: f64| match step {
            0.0 => u,
            step => (u * (1.0 / step + 1.0)).floor() * step,
        };
        let x = DMatrix::from_fn(d, 300, |i, _| value(steps[i], rng.random()));
        for decimals in [3, 5, 7, 9] {
            let (share, wrong, _, found) = decoded(&w, &x, &steps, Some(decimals));
            let mean = (&found.estimates - &x).map(f64::abs).mean();
            println!("{decimals} decimals: {share}, {mean:e}, {:?}", found.remarks);
            assert_eq!(wrong, 0, "{decimals} decimals");
            // Features on no grid are told to the precision of the scores, where few take equations.
            let free = steps.iter().filter(|step| **step == 0.0).count();
            if decimals >= 7 && free <= 2 {
                assert!(mean < 1e-3, "{decimals} decimals: {mean}");
            }
        }
        let (share, wrong, most, found) = decoded(&w, &x, &steps, None);
        println!("{k} classes, {d} features: {share}, {most:e}, {:?}", found.remarks);
        assert_eq!(wrong, 0);
        assert!(share > 0.99, "{share}, {:?}", found.remarks);
        assert!(most < 1e-9, "{most}");
        let solved = found.remarks.iter().any(|r| r.starts_with("features on no known grid"));
        assert!(solved, "{:?}", found.remarks);
    }
}

/// Two features on no grid with the same weights are not told apart, and nor is a feature on a grid from one
/// on none; with as many on none as there are equations nothing is decoded.
#[test]
fn what_the_equations_do_not_tell_apart_is_not_certain() {
    let mut rng = ChaCha20Rng::seed_from_u64(18);
    let steps = [0.01, 0.0, 0.0, 0.5];
    let x = DMatrix::from_fn(4, 60, |i, _| match steps[i] {
        0.0 => rng.random::<f64>(),
        step => (rng.random::<f64>() * (1.0 / step + 1.0)).floor() * step,
    });
    let own = DMatrix::from_fn(6, 4, |_, _| 6.0 * rng.random::<f64>() - 3.0);
    for (from, to) in [(1, 2), (1, 0)] {
        let mut w = own.clone();
        let column = w.column(from).into_owned();
        w.set_column(to, &(column * 0.5));
        let (share, _, _, found) = decoded(&w, &x, &steps, None);
        assert_eq!(share, 0.0, "{:?}", found.remarks);
    }
    let (share, _, _, found) = decoded(&own.rows(0, 3).into_owned(), &x, &steps, None);
    assert_eq!(share, 0.0);
    assert!(found.remarks[0].contains("there are 2 equations"), "{:?}", found.remarks);
}

/// A feature of which no unit is known does not stop the search for the steps of the others, and one
/// without a weight does not disturb them.
#[test]
fn the_steps_of_the_others_are_found_beside_a_feature_on_no_grid() {
    let mut rng = ChaCha20Rng::seed_from_u64(19);
    let own = DMatrix::from_fn(6, 3, |_, _| 6.0 * rng.random::<f64>() - 3.0);
    let mut without = own.clone();
    without.column_mut(1).fill(0.0);
    let x = DMatrix::from_fn(3, 80, |i, _| match i {
        1 => rng.random::<f64>(),
        _ => (rng.random::<f64>() * 101.0).floor() / 100.0,
    });
    for (w, least) in [(own, 1.0), (without, 0.0)] {
        let bias = DVector::zeros(6);
        let model = KnownModel::white_box(DMatrix::zeros(6, 0), bias.clone(), w.clone()).unwrap();
        let active = FeatureBlock::new(DMatrix::zeros(0, 80)).unwrap();
        let released = ReleasedScores::Numbers(scores(&w, &bias, &x).matrix().clone());
        let view = AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
        for settings in [[("width", "100,0,100")], [("step", "0.01,0,0.01")]] {
            let attack = Method::Lattice.build(&Settings::read(settings).unwrap());
            let found = run_attack(&*attack, &view, 1).unwrap();
            let off = |i: usize| (found.estimates.row(i) - x.row(i)).amax();
            let sure = found.certain.iter().filter(|sure| **sure).count() as f64 / 80.0;
            println!("{settings:?}: {sure}, {:?}", found.remarks);
            assert_eq!(sure, least, "{settings:?}: {:?}", found.remarks);
            // The others come back all the same where their steps are known.
            if least == 1.0 || settings[0].0 == "step" {
                assert!(off(0).max(off(2)) < 1e-9, "{settings:?}: {:?}", found.remarks);
            }
        }
    }
}
