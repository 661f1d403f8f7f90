//! What moments are for: on records like the prior, attacks that know them do better than the control without scores, and better than
//! the attack on the same release without moments, whatever the release leaves.

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::StandardNormal;
use vfl_attack::{
    AdversaryView, AuxiliaryRecords, KnownModel, KnownPolicy, Method, Need, Prior, Replacement,
    Settings, SideInformation, adaptive_for, run,
};
use vfl_core::metrics::mse;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_defense::Policy;

use crate::simulated::*;

/// 300 records of correlated features around ½, of which the first ten are passive, with the moments they were drawn with.
fn drawn(seed: u64) -> (World, Prior) {
    let (k, d, a, n) = (5, 10, 4, 300);
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut normal = |rows, columns| {
        DMatrix::from_fn(rows, columns, |_, _| rng.sample::<f64, _>(StandardNormal))
    };
    let (w, spread, deviates) =
        (4.0 * normal(k, d + a), 0.05 * normal(d + a, d + a), normal(d + a, n));
    let all = &spread * spread.transpose();
    let x = (&spread * deviates).map(|v| (0.5 + v).clamp(0.0, 1.0));
    let part = |i: usize, rows: usize, j: usize, columns: usize| {
        all.view((i, j), (rows, columns)).into_owned()
    };
    let prior = Prior::new(DVector::from_element(d, 0.5), part(0, d, 0, d)).unwrap();
    let prior = prior
        .with_active(DVector::from_element(a, 0.5), part(d, a, d, a), part(0, d, d, a))
        .unwrap();
    (World::new(&w, &DVector::zeros(k), &x, d), prior)
}

fn error(
    world: &World,
    prior: &Prior,
    released: &ReleasedScores,
    method: Method,
    policy: &str,
) -> f64 {
    let known = KnownPolicy::from(policy.parse::<Policy>().unwrap());
    let side = SideInformation { prior: Some(prior), ..SideInformation::default() };
    let view = world.view(released).with_side_information(side);
    let found = run(&*method.build(&known.settings()), &view, 1).unwrap();
    mse(&found.estimates, &world.truth).unwrap().overall
}

#[test]
fn scores_add_to_moments_and_moments_to_scores() {
    for seed in [1, 2, 3] {
        let (world, prior) = drawn(seed);
        let c = world.scores();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        for (policy, released) in [
            ("none", ReleasedScores::Probabilities(c.clone())),
            ("rounding (decimals = 2)", rounding(&c, 2)),
            ("top_k (k = 2)", top_k(&c, 2, false)),
            ("class_label", label(&c)),
            ("ranking", ranking(&c)),
            ("gaussian_noise (sigma = 0.02)", gaussian(&c, 0.02, &mut rng)),
            ("privee_dp (sigma = 4.84)", privee(&c, &[4.84; 5], false, &mut rng)),
        ] {
            let of = |method| error(&world, &prior, &released, method, policy);
            let without = adaptive_for(&policy.parse().unwrap()).unwrap_or(Method::ClampedHalfStar);
            let (control, blind) = (of(Method::Imputation), of(without));
            for method in [Method::Gaussian, Method::PosteriorMean] {
                let got = of(method);
                let said = format!(
                    "seed {seed}, {policy}, {method}: {got:.5}, control {control:.5}, no moments {blind:.5}"
                );
                assert!(got < blind, "{said}");
                // The mode of a cell may lie at its edge: for a cell as wide as a label's the mean is the estimate to take.
                let slack = if method == Method::Gaussian { 1.05 } else { 1.0 };
                assert!(got < slack * control, "{said}");
            }
        }
    }
}

/// A cell gives no equation; who asks for the mean without the box is told so, by the names of both.
#[test]
fn a_linear_estimate_behind_bounds_is_refused() {
    let (world, prior) = drawn(1);
    let released = label(&world.scores());
    let known = KnownPolicy::from("class_label".parse::<Policy>().unwrap());
    let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
    let view = world.view(&released).with_side_information(side);
    let refused =
        run(&*Method::ConditionalMean.build(&known.settings()), &view, 1).unwrap_err().to_string();
    assert_eq!(
        refused,
        "conditional_mean needs equations or noisy scores, and bounds were released"
    );
    // Moments of another number of features are no moments of these.
    let other = Prior::new(DVector::zeros(3), DMatrix::identity(3, 3)).unwrap();
    let view = world
        .view(&released)
        .with_side_information(SideInformation { prior: Some(&other), ..side });
    for method in
        Method::informed().filter(|m| m.build(&Settings::default()).needs().prior == Need::Yes)
    {
        let refused = run(&*method.build(&known.settings()), &view, 1).unwrap_err().to_string();
        assert!(refused.contains("moments"), "{method}: {refused}");
    }
}

/// 500 records whose features depend on each other by products and thresholds; 200 of them are known whole.
fn curved(seed: u64) -> (World, World) {
    let (k, d, a, n) = (4, 6, 3, 500);
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut normal = |rows, columns| {
        DMatrix::from_fn(rows, columns, |_, _| rng.sample::<f64, _>(StandardNormal))
    };
    let (w, hidden, noise) = (3.0 * normal(k, d + a), normal(4, n), normal(d + a, n));
    let x = DMatrix::from_fn(d + a, n, |i, j| {
        let (u, v) = (hidden[(i % 4, j)], hidden[((i + 1) % 4, j)]);
        let signal = match i % 3 {
            0 => 0.25 * u,
            1 => 0.2 * u * v,
            _ => {
                if u > 0.0 {
                    0.3
                } else {
                    -0.3
                }
            }
        };
        (0.5 + signal + 0.03 * noise[(i, j)]).clamp(0.0, 1.0)
    });
    let part = |from: usize, records: usize| {
        World::new(&w, &DVector::zeros(k), &x.columns(from, records).into_owned(), d)
    };
    (part(0, 300), part(300, 200))
}

/// The regression needs no parameters; it does better than its control, which has no score, behind every defense that leaves something,
/// and better than a Gaussian where features are not Gaussian and scores are coarse.
#[test]
fn a_regression_learns_what_scores_tell_without_parameters() {
    for seed in [1, 2] {
        let (world, known) = curved(seed);
        let mut gaussian_worse = 0;
        for (policy, release) in [
            (
                "none",
                (&|c: &DMatrix<f64>| ReleasedScores::Probabilities(c.clone()))
                    as &dyn Fn(&DMatrix<f64>) -> ReleasedScores,
            ),
            ("rounding (decimals = 1)", &|c| rounding(c, 1)),
            ("class_label", &label),
            ("ranking", &ranking),
            ("order_preserving_encryption", &encrypted),
        ] {
            let (released, of_known) = (release(&world.scores()), release(&known.scores()));
            let floor = Replacement::new(1e-12).unwrap();
            let block = |m: &DMatrix<f64>| FeatureBlock::new(m.clone()).unwrap();
            let records =
                AuxiliaryRecords::new(known.active.clone(), block(&known.truth), of_known, floor)
                    .unwrap();
            let prior = records.prior().unwrap();
            let side = SideInformation {
                auxiliary: Some(&records),
                prior: Some(&prior),
                ..SideInformation::default()
            };
            let settings = KnownPolicy::from(policy.parse::<Policy>().unwrap()).settings();
            let of = |method: Method, model: &KnownModel| {
                let view = AdversaryView::new(model, &world.active, &released, floor).unwrap();
                let view = view.with_side_information(side);
                let found = run(&*method.build(&settings), &view, 1).unwrap();
                (mse(&found.estimates, &world.truth).unwrap().overall, found.estimates)
            };
            let (control, _) = of(Method::KernelImputation, &world.model);
            let (got, estimates) = of(Method::KernelRidge, &world.model);
            assert!(got < 0.97 * control, "seed {seed}, {policy}: {got:.5}, control {control:.5}");
            let (linear, _) = of(Method::Imputation, &world.model);
            assert!(
                control < 0.9 * linear,
                "seed {seed}: control {control:.5}, linear {linear:.5}"
            );
            let (gaussian, _) = of(Method::Gaussian, &world.model);
            gaussian_worse += usize::from(gaussian > got);
            let (w_act, bias) = (world.model.active_weights().clone(), world.model.bias().clone());
            let hidden = KnownModel::black_box(w_act, bias, world.w_pas.ncols()).unwrap();
            assert_eq!(
                of(Method::KernelRidge, &hidden).1,
                estimates,
                "{policy}: parameters were looked at"
            );
        }
        assert!(
            gaussian_worse >= 3,
            "seed {seed}: the Gaussian does better behind {} of 5",
            5 - gaussian_worse
        );
    }
}
