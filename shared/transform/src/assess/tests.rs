use faer::Mat;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use vfl_numerics::{PseudoInverse, row_differences};

use super::*;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<GoldenCase>,
}

#[derive(Deserialize)]
struct GoldenCase {
    model: String,
    d: usize,
    #[serde(rename = "W_pas")]
    w_pas: Vec<Vec<f64>>,
    #[serde(rename = "X_pas")]
    x_pas: Vec<Vec<f64>>,
    expected: serde_json::Map<String, serde_json::Value>,
    pps_theorem3: Theorem3,
    #[serde(rename = "pps_minus_I_mse_increase")]
    negated: f64,
}

#[derive(Deserialize)]
struct Theorem3 {
    max_mse_per_feature: f64,
}

fn matrix(rows: &[Vec<f64>]) -> DMatrix<f64> {
    DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

fn run(w_pas: &DMatrix<f64>, x: &DMatrix<f64>) -> Assessment {
    assess(w_pas, &FeatureBlock::new(x.clone()).unwrap()).unwrap()
}

#[test]
fn golden_vectors_of_theorem_2() {
    let golden: Golden = vfl_testing::golden("theorem2_pps.json");
    assert_eq!(golden.cases.len(), 5);
    for case in golden.cases {
        let found = run(&matrix(&case.w_pas), &matrix(&case.x_pas).transpose());
        let got = serde_json::to_value(&found).unwrap();
        assert_eq!(case.expected.len(), 11);
        for (name, want) in &case.expected {
            let (got, want) = (got[name].as_f64().unwrap(), want.as_f64().unwrap());
            assert!(
                (got - want).abs() <= 1e-9,
                "{}, d = {}: {name} is {got}, not {want}",
                case.model,
                case.d
            );
        }
        assert!(
            (found.negate_mse_increase - case.negated).abs() <= 1e-9,
            "{}, d = {}",
            case.model,
            case.d
        );
        let best = case.pps_theorem3.max_mse_per_feature;
        assert!(
            (found.least_squares_optimal_mse - best).abs() <= 1e-9,
            "{}, d = {}",
            case.model,
            case.d
        );
    }
}

/// k × d weights and d × n features. Weights in [−2, 2); of 0 and 1; the same for two classes and for pairs of features;
/// with every third feature without any; the same for all classes (A = 0). Features in [0, 1], a third of them at each end
/// if `saturated`.
fn world(
    k: usize,
    d: usize,
    n: usize,
    weights: u8,
    saturated: bool,
    seed: u64,
) -> (DMatrix<f64>, DMatrix<f64>) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let dense = DMatrix::from_fn(k, d, |_, _| 4.0 * rng.random::<f64>() - 2.0);
    let w = match weights {
        0 => dense,
        1 => dense.map(|w| f64::from(w > 0.0)),
        2 => DMatrix::from_fn(k, d, |i, j| dense[(i / 2, j / 2)]),
        3 => DMatrix::from_fn(k, d, |i, j| if j % 3 == 0 { 0.0 } else { dense[(i, j)] }),
        _ => DMatrix::from_fn(k, d, |_, j| dense[(0, j)]),
    };
    let x = DMatrix::from_fn(d, n, |_, _| {
        let v: f64 = rng.random();
        if saturated { (3.0 * v - 1.0).clamp(0.0, 1.0) } else { v }
    });
    (w, x)
}

/// An orthonormal matrix of either determinant.
fn orthonormal(d: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    let q = DMatrix::from_fn(d, d, |_, _| rng.random::<f64>() - 0.5).qr().q();
    if rng.random() { q } else { -q }
}

/// What `least_squares` on the transformed features errs as an estimate of x: the party trains on H x, so that its
/// parameters are W Hᵀ (R proposition 4).
fn attacked_after(h: &DMatrix<f64>, w: &DMatrix<f64>, x: &DMatrix<f64>) -> f64 {
    let a = row_differences(&(w * h.transpose()));
    let inverse = PseudoInverse::new(&a).unwrap().matrix;
    mse(&(inverse * (a * (h * x))), x).unwrap().overall
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// R theorem 2 on random models and moments, rank loss and A = 0 among them: closed form and attack agree, and no
    /// error leaves its bounds.
    #[test]
    fn closed_forms_are_what_attacking_gives_and_bounds_hold(
        k in 2usize..9, d in 1usize..21, n in 1usize..30, weights in 0u8..5, saturated in any::<bool>(), seed in any::<u64>(),
    ) {
        let (w, x) = world(k, d, n, weights, saturated, seed);
        let a = run(&w, &x);
        prop_assert_eq!((a.classes, a.features, a.records, a.rank + a.nul), (k, d, n, d));
        prop_assert!(a.rank < k);
        if weights == 4 {
            prop_assert_eq!(a.rank, 0);
        }
        for (closed, found) in [
            (a.mse_ls, a.empirical.least_squares),
            (a.mse_half_star, a.empirical.half_star),
            (a.mse_half, a.empirical.half),
            (a.mse_zero, a.empirical.zero),
        ] {
            prop_assert!((closed - found).abs() < 1e-9, "{closed} {found}");
        }
        for (least, value, most) in
            [(a.lb_ls, a.mse_ls, a.ub_ls), (a.lb_half_star, a.mse_half_star, a.ub_half_star)]
        {
            prop_assert!(least <= value + 1e-12 && value <= most + 1e-12, "{least} {value} {most}");
            prop_assert!(a.lb_mu <= value + 1e-12, "{} {value}", a.lb_mu);
        }
        prop_assert!(a.mse_half_star <= a.mse_half + 1e-12 && a.mse_ls <= a.mse_zero + 1e-12);
        prop_assert!(a.errors().iter().all(|v| *v >= 0.0));
    }

    /// R section VIII-D: trained on 1 − x the parameters are −W, and both attacks err more by what is foretold.
    #[test]
    fn negation_adds_what_is_foretold(
        k in 2usize..7, d in 1usize..13, n in 1usize..20, weights in 0u8..5, seed in any::<u64>(),
    ) {
        let (w, x) = world(k, d, n, weights, false, seed);
        let told = run(&w, &x);
        let a = row_differences(&-&w);
        let inverse = PseudoInverse::new(&a).unwrap().matrix;
        let found = &inverse * (&a * x.map(|v| 1.0 - v));
        let half = DMatrix::from_element(d, n, 0.5);
        let half_star = &found + &half - &inverse * (&a * &half);
        for (before, estimate) in [(told.mse_ls, found), (told.mse_half_star, half_star)] {
            let increase = mse(&estimate, &x).unwrap().overall - before;
            prop_assert!((increase - told.negate_mse_increase).abs() < 1e-9, "{increase} {}", told.negate_mse_increase);
        }
    }

    /// R theorem 3 (with 1/d): H* attains it, and no other orthonormal matrix goes beyond.
    #[test]
    fn the_best_transform_attains_its_error(
        k in 2usize..7, d in 1usize..9, n in 1usize..20, weights in 0u8..5, seed in any::<u64>(),
    ) {
        let (w, x) = world(k, d, n, weights, false, seed);
        let told = run(&w, &x).least_squares_optimal_mse;
        let a = row_differences(&w);
        let pk = PseudoInverse::new(&a).unwrap().matrix * a * (&x * x.transpose()) / n as f64;
        let svd = Mat::from_fn(d, d, |i, j| pk[(i, j)]).svd().unwrap();
        let (u, v) = (svd.U(), svd.V());
        let best = DMatrix::from_fn(d, d, |i, j| -(0..d).map(|l| v[(i, l)] * u[(j, l)]).sum::<f64>());
        let found = attacked_after(&best, &w, &x);
        prop_assert!((found - told).abs() < 1e-9, "H*: {found}, told {told}");
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        for _ in 0..8 {
            let other = attacked_after(&orthonormal(d, &mut rng), &w, &x);
            prop_assert!(other <= told + 1e-9, "{other} above {told}");
        }
    }
}

/// Weights of any finite size, and the same up to a factor, give the same answer.
#[test]
fn the_size_of_the_weights_does_not_matter() {
    let (w, x) = world(4, 6, 9, 0, false, 5);
    let want = run(&w, &x);
    for factor in [2f64.powi(-1000), 2f64.powi(1000)] {
        assert_eq!(run(&(&w * factor), &x), want);
    }
}

#[test]
fn one_record_has_moments_and_no_spread() {
    let (w, x) = world(3, 5, 1, 0, false, 5);
    let found = run(&w, &x);
    assert_eq!((found.records, found.lb_mu), (1, 0.0));
    assert!(found.mse_ls > 1e-3);
}

#[test]
fn what_cannot_be_assessed_is_refused() {
    let refuse =
        |w: DMatrix<f64>, x: DMatrix<f64>| assess(&w, &FeatureBlock::new(x).unwrap()).unwrap_err();
    let (w, x) = world(3, 2, 4, 0, false, 1);
    assert_eq!(refuse(DMatrix::zeros(1, 2), x.clone()), AssessError::TooFewClasses { got: 1 });
    assert_eq!(refuse(DMatrix::zeros(3, 0), x.clone()), AssessError::NoFeature);
    assert_eq!(
        refuse(w.clone(), DMatrix::zeros(3, 4)),
        AssessError::Features { expected: 2, got: 3 }
    );
    assert_eq!(refuse(w.clone(), DMatrix::zeros(2, 0)), AssessError::NoRecord);
    assert_eq!(refuse(w.map(|_| f64::NAN), x.clone()), AssessError::Weight);
    let opposite = DMatrix::from_fn(3, 2, |i, _| if i == 1 { 1e308 } else { -1e308 });
    assert!(matches!(refuse(opposite, x), AssessError::Overflow { .. }));
    for huge in [1e154, 1e200, f64::MAX] {
        assert!(
            matches!(
                refuse(w.clone(), DMatrix::from_element(2, 4, huge)),
                AssessError::Overflow { .. }
            ),
            "{huge}"
        );
    }
}
