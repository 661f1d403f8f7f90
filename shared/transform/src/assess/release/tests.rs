use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::metrics::mse;
use vfl_core::types::FeatureBlock;

use super::super::assess;
use super::*;
use crate::{TransformConfig, rewrite};

fn world(k: usize, d: usize, n: usize, seed: u64) -> (DMatrix<f64>, DMatrix<f64>) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let w = DMatrix::from_fn(k, d, |_, _| 4.0 * rng.random::<f64>() - 2.0);
    (w, DMatrix::from_fn(d, n, |_, _| rng.random::<f64>().powi(2)))
}

/// The estimates that the adversary makes, record by record: `least_squares` and `half_star`.
fn attack(
    w: &DMatrix<f64>,
    released: &DMatrix<f64>,
    shift: &DVector<f64>,
    x: &DMatrix<f64>,
) -> [DMatrix<f64>; 2] {
    let a = row_differences(released);
    let inverse = PseudoInverse::new(&a).unwrap().matrix;
    // Scores less what it knows of them: z − (b + s), up to a shift of all classes.
    let mut known = w * x;
    known.column_iter_mut().for_each(|mut z| z -= shift);
    let least_squares = &inverse * row_differences(&known);
    let half = DMatrix::from_element(x.nrows(), x.ncols(), 0.5);
    let half_star = &least_squares + &half - &inverse * (&a * &half);
    [least_squares, half_star]
}

fn empirical(
    w: &DMatrix<f64>,
    released: &DMatrix<f64>,
    shift: &DVector<f64>,
    x: &DMatrix<f64>,
) -> AttackErrors {
    let [least_squares, half_star] =
        attack(w, released, shift, x).map(|estimate| mse(&estimate, x).unwrap().overall);
    AttackErrors { least_squares, half_star }
}

fn told(
    w: &DMatrix<f64>,
    released: &DMatrix<f64>,
    shift: &DVector<f64>,
    x: &DMatrix<f64>,
) -> AttackErrors {
    release_errors(w, released, shift, &FeatureBlock::new(x.clone()).unwrap()).unwrap()
}

fn close(a: AttackErrors, b: AttackErrors) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    near(a.least_squares, b.least_squares) && near(a.half_star, b.half_star)
}

/// All that can be released for k classes and d features, at an ε that is allowed.
fn configs(w: &DMatrix<f64>) -> Vec<TransformConfig> {
    let (k, d) = w.shape();
    let (epsilon, randomised) = (0.3 * crate::natural_distance(w), false);
    let mut all = vec![
        TransformConfig::None {},
        TransformConfig::Negate {},
        TransformConfig::Complement {},
        TransformConfig::Permute {},
        TransformConfig::Selective { features: (0..d).step_by(2).collect() },
        TransformConfig::RandomOrthonormal {},
        TransformConfig::LeastSquaresOptimal {},
        TransformConfig::Stiefel {
            epsilon,
            randomised,
            case: None,
            penalty: None,
            starts: Some(2),
        },
    ];
    if d == 1 {
        all.push(TransformConfig::SingleFeature { epsilon, randomised });
    }
    if k == 2 {
        all.push(TransformConfig::Binary { epsilon, randomised });
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Over the very records the closed form is what attacking gives: for every transform, and for any W_n and shift at all.
    #[test]
    fn closed_forms_are_what_attacking_gives(k in 2usize..9, d in 1usize..14, n in 1usize..25, seed in any::<u64>()) {
        let (w, x) = world(k, d, n, seed);
        let block = FeatureBlock::new(x.clone()).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        for config in configs(&w) {
            let r = rewrite(&config, &w, Some(&block), &mut rng).unwrap();
            let (a, b) = (told(&w, &r.weights, &r.bias_shift, &x), empirical(&w, &r.weights, &r.bias_shift, &x));
            prop_assert!(close(a, b), "{config:?}: {a:?} {b:?}");
        }
        let (other, shift) = (world(k, d, 1, seed ^ 1).0, DVector::from_fn(k, |_, _| rng.random::<f64>()));
        // Nearly dependent rows make errors of any size, and rounding with them.
        let inverse = PseudoInverse::new(&row_differences(&other)).unwrap();
        if inverse.condition_number() < 1e3 {
            let (a, b) = (told(&w, &other, &shift, &x), empirical(&w, &other, &shift, &x));
            prop_assert!(close(a, b), "{a:?} {b:?}");
        }
    }

    /// R (50), (51) for the true parameters; R section VIII-D for the complement.
    #[test]
    fn theorem_2_and_section_viii_d(k in 2usize..9, d in 1usize..14, n in 1usize..25, seed in any::<u64>()) {
        let (w, x) = world(k, d, n, seed);
        let block = FeatureBlock::new(x.clone()).unwrap();
        let all = assess(&w, &block).unwrap();
        let before = told(&w, &w, &DVector::zeros(k), &x);
        let want = AttackErrors { least_squares: all.mse_ls, half_star: all.mse_half_star };
        prop_assert!(close(before, want), "{before:?} {want:?}");
        // The model was trained on 1 − x: the adversary knows −W and b + W 1 and solves for x as if nothing had been done.
        // b' = J(z − b − s) with z = W x + b gives A_n x̂ = A x − J W 1.
        let after = told(&w, &-&w, &w.column_sum(), &x);
        let more = all.negate_mse_increase;
        let want = AttackErrors { least_squares: all.mse_ls + more, half_star: all.mse_half_star + more };
        prop_assert!(close(after, want), "{after:?} {want:?}");
    }

    /// V (38) for any orthonormal R, V (28) with its 1/d and K₀, and V (47) where A has full column rank.
    #[test]
    fn rotations(k in 2usize..9, d in 1usize..14, n in 1usize..25, seed in any::<u64>()) {
        let (w, x) = world(k, d, n, seed);
        let r = rewrite(&TransformConfig::RandomOrthonormal {}, &w, None, &mut ChaCha20Rng::seed_from_u64(seed)).unwrap();
        let (found, rotation, moments) = (told(&w, &r.weights, &r.bias_shift, &x), r.matrix.unwrap(), Moments::of(&x).unwrap());
        let p = System::of(&w).unwrap().projector();
        let (k0, unit) = (&moments.about_zero, DMatrix::<f64>::identity(d, d));
        let m = DVector::from_element(d, 1.0) * moments.mean.add_scalar(-0.25).transpose();
        let per_feature = |m: DMatrix<f64>| m.trace() / d as f64;
        let half_star = per_feature(moments.about_half.clone())
            + per_feature(&p * (k0 - k0 * rotation.transpose() * 2.0 + &rotation * m * rotation.transpose()));
        let least_squares = per_feature((&unit + &p) * k0) - 2.0 * per_feature(&rotation * k0 * &p);
        let want = AttackErrors { least_squares, half_star };
        prop_assert!(close(found, want), "{found:?} {want:?}");
        if d < k {
            let eq47 = 2.0 * per_feature(k0 - &rotation * k0);
            prop_assert!((found.least_squares - eq47).abs() < 1e-9 && (found.half_star - eq47).abs() < 1e-9);
        }
    }

    /// V (49) for one feature and V (53) for two classes.
    #[test]
    fn one_feature_and_two_classes(k in 2usize..7, d in 1usize..9, n in 1usize..20, seed in any::<u64>()) {
        let (w, x) = world(k, 1, n, seed);
        let other = &w + world(k, 1, 1, !seed).0 * 0.1;
        let (a, a_n) = (row_differences(&w), row_differences(&other));
        let sigma2 = x.norm_squared() / n as f64;
        let eq49 = sigma2 * (1.0 - a_n.dot(&a) / a_n.norm_squared()).powi(2);
        let found = told(&w, &other, &DVector::zeros(k), &x);
        prop_assert!((found.least_squares - eq49).abs() <= 1e-9 * eq49.max(1.0));
        let (w, x) = world(2, d, n, seed);
        let other = &w + world(2, d, 1, !seed).0 * 0.1;
        let (a, a_n, m) = (row_differences(&w), row_differences(&other), Moments::of(&x).unwrap());
        let lever = DVector::from_element(d, 1.0) * m.mean.add_scalar(-0.25).transpose();
        let of = |left: &DMatrix<f64>, middle: &DMatrix<f64>, right: &DMatrix<f64>| (left * middle * right.transpose())[(0, 0)];
        let bracket = of(&a, &m.about_zero, &a) - 2.0 * of(&a, &m.about_zero, &a_n) + of(&a_n, &lever, &a_n);
        let eq53 = (m.about_half.trace() + bracket / a_n.norm_squared()) / d as f64;
        let found = told(&w, &other, &DVector::zeros(2), &x);
        prop_assert!((found.half_star - eq53).abs() <= 1e-9 * eq53.max(1.0), "{} {eq53}", found.half_star);
    }

    /// V (13), (21) over records with errors of the scores that depend on the features.
    #[test]
    fn agnostic_attack(k in 2usize..7, d in 1usize..10, n in 1usize..20, seed in any::<u64>()) {
        let (w, x) = world(k, d, n, seed);
        let (a, mut rng) = (row_differences(&w), ChaCha20Rng::seed_from_u64(seed));
        let mut off = DMatrix::from_fn(k - 1, n, |_, _| rng.random::<f64>() - 0.4);
        off += &a * &x * 0.3;
        let moments = Moments::of(&x).unwrap();
        let found = agnostic_errors(&a, &moments.about_half, &(&off * off.transpose() / n as f64)).unwrap();
        let inverse = PseudoInverse::new(&a).unwrap();
        if inverse.condition_number() < 1e3 {
            let least_squares = &inverse.matrix * (&a * &x + &off);
            let half = DMatrix::from_element(d, n, 0.5);
            let half_star = &least_squares + &half - &inverse.matrix * (&a * &half);
            let want = mse(&half_star, &x).unwrap().overall;
            prop_assert!((found.total - want).abs() <= 1e-9 * want.max(1.0), "{found:?} {want}");
            prop_assert_eq!(found.total, found.exact_scores + found.estimated_scores);
            if inverse.rank == d {
                let want = mse(&least_squares, &x).unwrap().overall;
                prop_assert!((found.estimated_scores - want).abs() <= 1e-9 * want.max(1.0));
                prop_assert!(found.exact_scores < 1e-9);
            }
        }
    }
}

/// Squared error per feature of each record, under `least_squares` and `half_star`: mean and squared standard error.
fn measured(
    w: &DMatrix<f64>,
    released: &DMatrix<f64>,
    shift: &DVector<f64>,
    x: &DMatrix<f64>,
) -> [(f64, f64); 2] {
    attack(w, released, shift, x).map(|estimate| {
        let errors = (estimate - x).map(|e| e * e).row_mean();
        (errors.mean(), errors.variance() / errors.len() as f64)
    })
}

/// Moments over one half of the public sets foretell the errors on the other within four standard errors (of both halves, since
/// both are samples), with the published weights and for every transform.
#[test]
fn held_out_records_of_satellite_and_robot() {
    use vfl_datasets::{DatasetName, DatasetSpec, load};
    for (name, file, first, d) in [
        (DatasetName::Satellite, "model_satellite_rows.json", 4, 14),
        (DatasetName::Satellite, "model_satellite_rows.json", 20, 4),
        (DatasetName::Robot, "model_robot_rows.json", 2, 8),
        (DatasetName::Robot, "model_robot_rows.json", 11, 2),
    ] {
        let data = load(&DatasetSpec::new(name, None, 7)).unwrap_or_else(|e| panic!("{e}"));
        let w = crate::tests::matrix_of(&crate::tests::golden(file)["W"]);
        let w = w.columns(first, d).into_owned();
        let mut order: Vec<usize> = (0..data.records()).collect();
        let mut rng = ChaCha20Rng::seed_from_u64(11);
        for last in (1..order.len()).rev() {
            order.swap(last, rng.random_range(0..=last));
        }
        let x = data.x().rows(first, d).select_columns(&order);
        let (seen, held_out) = (
            x.columns_range(..x.ncols() / 2).into_owned(),
            x.columns_range(x.ncols() / 2..).into_owned(),
        );
        let block = FeatureBlock::new(seen.clone()).unwrap();
        for config in configs(&w) {
            let r = rewrite(&config, &w, Some(&block), &mut rng).unwrap();
            let foretold = told(&w, &r.weights, &r.bias_shift, &seen);
            let here = measured(&w, &r.weights, &r.bias_shift, &seen);
            let there = measured(&w, &r.weights, &r.bias_shift, &held_out);
            for (told, (here, there)) in [foretold.least_squares, foretold.half_star]
                .into_iter()
                .zip(here.into_iter().zip(there))
            {
                assert!(
                    (told - here.0).abs() <= 1e-9 * told.max(1.0),
                    "{name}, {config:?}: {told} {}",
                    here.0
                );
                // Errors at rounding have no standard error to speak of.
                let margin = 4.0 * (here.1 + there.1).sqrt() + 1e-12;
                assert!(
                    (told - there.0).abs() <= margin,
                    "{name}, d = {d}, {config:?}: {told} {} ± {margin}",
                    there.0
                );
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (w, x) = world(3, 2, 4, 1);
    let block = FeatureBlock::new(x).unwrap();
    let still = DVector::zeros(3);
    assert!(matches!(
        release_errors(&w, &w.clone().remove_row(0), &still, &block),
        Err(AssessError::Released { .. })
    ));
    assert!(matches!(
        release_errors(&w, &w, &DVector::zeros(2), &block),
        Err(AssessError::Released { .. })
    ));
    assert_eq!(release_errors(&w, &w.map(|_| f64::NAN), &still, &block), Err(AssessError::Weight));
    assert!(matches!(
        release_errors(&w, &(&w * 1e-200), &still, &block),
        Err(AssessError::Overflow { .. })
    ));
    let (a, half) = (row_differences(&w), DMatrix::identity(2, 2));
    assert!(agnostic_errors(&a, &half, &DMatrix::identity(2, 2)).is_ok());
    assert!(agnostic_errors(&a, &half, &DMatrix::identity(3, 3)).is_err());
    assert!(agnostic_errors(&a, &DMatrix::identity(3, 3), &DMatrix::identity(2, 2)).is_err());
    assert!(agnostic_errors(&a.map(|_| f64::NAN), &half, &DMatrix::identity(2, 2)).is_err());
}
