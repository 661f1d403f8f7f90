use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{ActiveSet, NearestOutcome, Polytope, Walk};
use crate::BoxSystem;

/// A random polytope around a random point: wide rows, narrow ones, equalities, repeated and dependent ones.
fn drawn(seed: u64) -> (Polytope, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (d, m) = (rng.random_range(1..14), rng.random_range(0..16));
    let corner = |u: f64| {
        if u < 0.15 {
            0.0
        } else if u > 0.85 {
            1.0
        } else {
            u
        }
    };
    let truth: Vec<f64> = (0..d).map(|_| corner(rng.random::<f64>())).collect();
    let mut p = Polytope::unit_box(d);
    let mut last = vec![0.0; d];
    for _ in 0..m {
        let row: Vec<f64> = match rng.random_range(0..5) {
            0 => last.clone(),
            1 => last.iter().map(|v| -2.0 * v).collect(),
            _ => (0..d).map(|_| 4.0 * rng.random::<f64>() - 2.0).collect(),
        };
        let value: f64 = row.iter().zip(&truth).map(|(a, b)| a * b).sum();
        let (lower, upper) = match rng.random_range(0..5) {
            0 => (value, value),
            1 => (f64::NEG_INFINITY, value),
            2 => (value - 1e-7, value + 1e-7),
            _ => (value - rng.random::<f64>(), value + rng.random::<f64>()),
        };
        p.add(&row, lower, upper);
        last = row;
    }
    (p, truth)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Feasible, and no farther from the target than any point of the segment to the truth (the variational inequality
    /// (target − x)ᵀ(y − x) ≤ 0 for y = truth, and for others of the set).
    #[test]
    fn nearest_is_in_the_set_and_nearest(seed in any::<u64>()) {
        let (p, truth) = drawn(seed);
        let d = truth.len();
        let target = vec![0.5; d];
        let mut x = vec![f64::NAN; d];
        let mut work = ActiveSet::default();
        prop_assert_eq!(p.nearest(&target, &mut work, &mut x), NearestOutcome::Found);
        prop_assert!(p.misfit(&x) < 1e-9, "misfit {:e}", p.misfit(&x));
        let along = |y: &[f64]| (0..d).map(|i| (target[i] - x[i]) * (y[i] - x[i])).sum::<f64>();
        prop_assert!(along(&truth) <= 1e-8, "{:e}", along(&truth));
        for _ in 0..3 {
            let mut other = vec![0.0; d];
            let far: Vec<f64> = truth.iter().map(|v| 3.0 * v - 1.0).collect();
            prop_assert_eq!(p.nearest(&far, &mut work, &mut other), NearestOutcome::Found);
            prop_assert!(along(&other) <= 1e-8);
        }
    }

    /// The analytic centre and the mean lie in the set.
    #[test]
    fn centres_are_in_the_set(seed in any::<u64>()) {
        let (p, truth) = drawn(seed);
        let mut walk = Walk::default();
        let mut x = vec![0.5; truth.len()];
        if p.analytic_centre(&mut walk, &mut x) {
            prop_assert!(p.misfit(&x) < 1e-8, "{:e}", p.misfit(&x));
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            prop_assert!(p.mean(100, None, &mut rng, &mut walk, &mut x));
            prop_assert!(p.misfit(&x) < 1e-7, "{:e}", p.misfit(&x));
        }
    }
}

/// With equations alone it is the second relaxation of the Chebyshev centre.
#[test]
fn equations_give_the_projection_of_the_box_system() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut work = ActiveSet::default();
    for (m, d) in [(1, 1), (3, 7), (5, 18), (5, 4), (9, 20)] {
        let a = DMatrix::from_fn(m, d, |_, _| rng.random::<f64>() - 0.5);
        let truth = DMatrix::from_fn(d, 20, |_, _| rng.random::<f64>());
        let b = &a * &truth;
        let want = BoxSystem::new(&a).unwrap().project_half(&b);
        for record in 0..20 {
            let mut p = Polytope::unit_box(d);
            for (row, b) in a.row_iter().zip(b.column(record).iter()) {
                p.add(&row.iter().copied().collect::<Vec<_>>(), *b, *b);
            }
            let mut x = vec![0.0; d];
            assert_eq!(p.nearest(&vec![0.5; d], &mut work, &mut x), NearestOutcome::Found);
            let off = x
                .iter()
                .zip(want.x.column(record).iter())
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            assert!(off < 1e-9, "{m} × {d}: {off:e}");
        }
    }
}

/// x + y ≥ 3 has no point in the box; its nearest is (1, 1). x ≥ 0.75 and x ≤ 0.25 meet half way.
#[test]
fn an_empty_set_is_said_to_be_empty() {
    let mut work = ActiveSet::default();
    let mut p = Polytope::unit_box(2);
    p.add(&[1.0, 1.0], 3.0, f64::INFINITY);
    let mut x = [0.5; 2];
    assert_eq!(p.nearest(&[0.5; 2], &mut work, &mut x), NearestOutcome::Empty);
    assert!(!p.analytic_centre(&mut Walk::default(), &mut x));
    assert_eq!(p.nearest_misfit(&[0.5; 2], &mut work, &mut x), NearestOutcome::Found);
    assert_eq!(x, [1.0; 2]);
    for crossed in [false, true] {
        let mut p = Polytope::unit_box(2);
        if crossed {
            p.add(&[2.0, 0.0], 1.5, 0.5);
        } else {
            p.add(&[1.0, 0.0], 0.75, f64::INFINITY);
            p.add(&[1.0, 0.0], f64::NEG_INFINITY, 0.25);
        }
        assert_eq!(p.nearest(&[0.1; 2], &mut work, &mut x), NearestOutcome::Empty);
        assert_eq!(p.nearest_misfit(&[0.1; 2], &mut work, &mut x), NearestOutcome::Found);
        assert!((x[0] - 0.5).abs() < 1e-6 && (x[1] - 0.1).abs() < 1e-9, "{x:?}");
    }
    let mut p = Polytope::unit_box(1);
    p.add(&[0.0], 1.0, 2.0);
    assert_eq!(p.nearest(&[0.5], &mut work, &mut [0.5]), NearestOutcome::Empty);
}

/// A Gaussian term of standard deviation g on x = 1, against one of standard deviation 1 around ½.
#[test]
fn a_row_that_gives_is_a_weighted_mean() {
    let mut p = Polytope::unit_box(1);
    p.add_giving(&[2.0], 2.0, 2.0, 0.5);
    let mut x = [0.0];
    assert_eq!(p.nearest(&[0.5], &mut ActiveSet::default(), &mut x), NearestOutcome::Found);
    // Minimum of (x − ½)² + (2x − 2)²/0.25.
    assert!((x[0] - (0.5 + 16.0) / 17.0).abs() < 1e-12, "{x:?}");
}

/// Mean and analytic centre of a triangle; a plane keeps both on it.
#[test]
fn the_mean_of_a_triangle() {
    let mut p = Polytope::unit_box(2);
    p.add(&[1.0, 1.0], f64::NEG_INFINITY, 1.0);
    let (mut walk, mut x) = (Walk::default(), [0.5; 2]);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    assert!(p.mean(20_000, None, &mut rng, &mut walk, &mut x));
    // Standard error about 0.002.
    assert!(x.iter().all(|v| (v - 1.0 / 3.0).abs() < 0.01), "{x:?}");
    // The density y along (0, 1): mean 2/3 in y on the box alone.
    let square = Polytope::unit_box(2);
    assert!(square.mean(20_000, Some(&|x: &[f64]| x[1].ln()), &mut rng, &mut walk, &mut x));
    assert!((x[0] - 0.5).abs() < 0.015 && (x[1] - 2.0 / 3.0).abs() < 0.015, "{x:?}");
    let mut p = Polytope::unit_box(2);
    p.add(&[1.0, 1.0], 0.4, 0.4);
    assert!(p.mean(2000, None, &mut rng, &mut walk, &mut x));
    assert!((x[0] + x[1] - 0.4).abs() < 1e-9 && (x[0] - 0.2).abs() < 0.02, "{x:?}");
}

/// Sets thinner than a margin, and sets whose bounds imply an equality: a start that misses a bound by what passes for round-off
/// once became a centre outside.
#[test]
fn thin_sets_have_their_centre_within_or_none() {
    let mut walk = Walk::default();
    let mut found = 0;
    for seed in (0..4000).chain([
        4_249_225_258_071_702_376,
        9_765_688_791_136_004_187,
        13_719_217_620_186_173_803,
    ]) {
        let (p, truth) = drawn(seed);
        let mut x = vec![0.5; truth.len()];
        if p.analytic_centre(&mut walk, &mut x) {
            found += 1;
            assert!(p.misfit(&x) < 1e-8, "{seed}: {:e}", p.misfit(&x));
        }
    }
    assert!(found > 1000, "{found}");
}
