//! Attacks on numbers: the truth lies in every cell, whole numbers come back from one exact number, and attacks on scores of
//! classes say that they do not apply.

use nalgebra::DMatrix;
use proptest::prelude::*;
use vfl_attack::adaptive::{Interval, KnownPolicy};
use vfl_attack::{
    AdversaryView, AttackError, AuxiliaryRecords, Colluders, KnownModel, Method, Reconstruction,
    Replacement, Settings, SideInformation, run,
};
use vfl_core::model::Link;
use vfl_core::types::{FeatureBlock, Logits, ReleasedScores};
use vfl_defense::{Noise, NumberPipeline, Policy};

/// One own feature and the passive ones, of a model with these weights.
struct Case {
    model: KnownModel,
    y: FeatureBlock,
    x: DMatrix<f64>,
    eta: DMatrix<f64>,
    link: Link,
}

impl Case {
    fn new(link: Link, w_pas: &[f64], bias: f64, x: DMatrix<f64>) -> Self {
        let (w_act, w_pas) =
            (DMatrix::from_element(1, 1, 0.4), DMatrix::from_row_slice(1, w_pas.len(), w_pas));
        let y = DMatrix::from_fn(1, x.ncols(), |_, j| (0.3 * j as f64).sin().abs());
        let mut eta = &w_act * &y + &w_pas * &x;
        eta.add_scalar_mut(bias);
        let model = KnownModel::of_number(link, &w_act, bias, Ok(&w_pas)).unwrap();
        Self { model, y: FeatureBlock::new(y).unwrap(), x, eta, link }
    }

    fn released(&self, policy: &Policy) -> ReleasedScores {
        let pipeline = NumberPipeline::build(&policy.defenses, self.link).unwrap();
        let logits = Logits::new(self.eta.clone()).unwrap();
        pipeline.release(logits, Noise::fresh([5; 32])).unwrap().released
    }

    fn attack(
        &self,
        name: &str,
        policy: &str,
        settings: &[(&str, &str)],
    ) -> Result<Reconstruction, AttackError> {
        let released = self.released(&policy.parse().unwrap());
        let view =
            AdversaryView::new(&self.model, &self.y, &released, Replacement::default()).unwrap();
        let settings = settings.iter().copied().chain([("policy", policy)]).collect::<Vec<_>>();
        let settings = Settings::read(settings).unwrap();
        let method: Method = name.parse().unwrap();
        run(&*method.build(&settings), &view, 3)
    }
}

/// Whole numbers from 0 to `top`, in [0, 1].
fn whole(features: usize, records: usize, top: usize) -> DMatrix<f64> {
    DMatrix::from_fn(features, records, |i, j| {
        ((17 * j + 29 * i + j * j * (i + 1)) % (top + 1)) as f64 / top as f64
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Behind rounding and bins the truth lies in the polytope of every record.
    #[test]
    fn cells_hold_the_truth(
        which in 0usize..3,
        weights in proptest::collection::vec(-3f64..3.0, 3),
        bias in -2f64..2.0,
        decimals in 0u32..4,
        (lower, width, count) in (-5f64..1.0, 0.1f64..10.0, 1u32..30),
    ) {
        let link = Link::NUMERIC[which];
        let x = DMatrix::from_fn(3, 20, |i, j| (0.7 * (i + 1) as f64 * (j + 2) as f64).sin().abs());
        let case = Case::new(link, &weights, bias, x);
        for policy in [
            format!("rounding (decimals = {decimals})"),
            format!("bins (lower = {lower:?}, upper = {:?}, count = {count})", lower + width),
            format!("bins (lower = {lower:?}, upper = {:?}, count = {count}) then rounding (decimals = 9)", lower + width),
            "none".to_owned(),
        ] {
            let policy: Policy = policy.parse().unwrap();
            let released = case.released(&policy);
            let view = AdversaryView::new(&case.model, &case.y, &released, Replacement::default()).unwrap();
            let sets = Interval { known: KnownPolicy::from(policy.clone()) }.polytopes(&view).unwrap();
            for (set, x) in sets.iter().zip(case.x.column_iter()) {
                let misfit = set.misfit(x.clone_owned().as_slice());
                prop_assert!(misfit < 1e-9, "{link} {policy}: {misfit:e}");
            }
        }
    }
}

/// One number gives four whole numbers of a hundred values each back: by enumeration no other point of the grid has it.
#[test]
fn whole_numbers_come_back_from_one_exact_number() {
    let weights = [0.731_234_567, -1.324_871_3, 2.017_346_19, 0.512_349_87];
    for (link, scale) in [(Link::Identity, -150.0), (Link::Log, 1.0), (Link::Logit, 1.0)] {
        let scaled = weights.map(|w| w * scale);
        let case = Case::new(link, &scaled, 0.25 * scale, whole(4, 12, 30));
        let found = case.attack("lattice", "none", &[("step", "0.03333333333333333")]).unwrap();
        let off = (&found.estimates - &case.x).amax();
        assert!(off < 1e-9, "{link}: {off:e} {:?}", found.remarks);
        // The oracle: all 31⁴ points, and their distance from the predictor.
        let own = &case.eta - DMatrix::from_row_slice(1, 4, &scaled) * &case.x;
        let grid: Vec<f64> = (0..=30).map(|t| f64::from(t) / 30.0).collect();
        let target = case.eta[0] - own[0];
        let mut near = 0;
        for a in &grid {
            for b in &grid {
                for c in &grid {
                    let three = scaled[0] * a + scaled[1] * b + scaled[2] * c;
                    near += grid
                        .iter()
                        .filter(|d| (three + scaled[3] * **d - target).abs() < 1e-11 * scale.abs())
                        .count();
                }
            }
        }
        assert_eq!(near, 1, "{link}");
    }
}

/// Without any parameter: one equation for each record known whole gives the weights, and with them all others.
#[test]
fn known_records_give_the_hidden_weights() {
    for link in Link::NUMERIC {
        let case = Case::new(link, &[0.731_234_567, -1.324_871_3], 0.25, whole(2, 60, 30));
        let released = case.released(&Policy::default());
        let part = |from: usize, n: usize| {
            let block =
                |m: &DMatrix<f64>| FeatureBlock::new(m.columns(from, n).into_owned()).unwrap();
            let ReleasedScores::Numbers(numbers) = &released else { panic!("numbers") };
            let numbers = ReleasedScores::Numbers(numbers.columns(from, n).into_owned());
            (block(case.y.matrix()), block(&case.x), numbers)
        };
        let ((y, x, seen), (own, truth, numbers)) = (part(0, 20), part(20, 40));
        let known = AuxiliaryRecords::new(y, x, seen, Replacement::default()).unwrap();
        let w_act = DMatrix::from_element(1, 1, 0.4);
        let hidden = KnownModel::of_number(link, &w_act, 0.25, Err(2)).unwrap();
        let view = AdversaryView::new(&hidden, &own, &numbers, Replacement::default()).unwrap();
        let side = SideInformation { auxiliary: Some(&known), ..SideInformation::default() };
        let view = view.with_side_information(side);
        let settings =
            Settings::read([("base", "lattice"), ("step", "0.03333333333333333")]).unwrap();
        let found = run(&*Method::ShadowModel.build(&settings), &view, 3).unwrap();
        let off = (found.estimates - truth.matrix()).amax();
        assert!(off < 1e-9, "{link}: {off:e} {:?}", found.remarks);
    }
}

/// Colluders lend their part of the predictor: the other party's whole numbers come back.
#[test]
fn colluders_leave_one_equation_of_the_other_party() {
    let weights = [0.731_234_567, -1.324_871_3, 2.017_346_19];
    let case = Case::new(Link::Log, &weights, 0.25, whole(3, 12, 30));
    let released = case.released(&Policy::default());
    // The last feature is of the party that colludes.
    let shares = (case.x.rows(2, 1) * weights[2]).insert_row(0, 0.0);
    let colluders = Colluders { features: vec![false, false, true], shares };
    let view = AdversaryView::new(&case.model, &case.y, &released, Replacement::default()).unwrap();
    let side = SideInformation { colluders: Some(&colluders), ..SideInformation::default() };
    let settings = Settings::read([("base", "lattice"), ("step", "0.03333333333333333")]).unwrap();
    let found =
        run(&*Method::Coalition.build(&settings), &view.with_side_information(side), 3).unwrap();
    let off = (found.estimates.rows(0, 2) - case.x.rows(0, 2)).amax();
    assert!(off < 1e-9, "{off:e} {:?}", found.remarks);
}

/// Weights released with the wrong sign give numbers that no features give: the right ones are found.
#[test]
fn a_secret_negation_is_undone() {
    let weights = [0.731_234_567, -1.324_871_3];
    let truth = Case::new(Link::Identity, &weights, 0.25, whole(2, 40, 30));
    let shown = KnownModel::of_number(
        Link::Identity,
        &DMatrix::from_element(1, 1, 0.4),
        0.25,
        Ok(&-DMatrix::from_row_slice(1, 2, &weights)),
    )
    .unwrap();
    let released = truth.released(&Policy::default());
    let view = AdversaryView::new(&shown, &truth.y, &released, Replacement::default()).unwrap();
    let settings = Settings::read([("base", "half_star")]).unwrap();
    let found = run(&*Method::UndoTransform.build(&settings), &view, 3).unwrap();
    let right = truth.attack("half_star", "none", &[]).unwrap();
    assert!((found.estimates - right.estimates).amax() < 1e-9, "{:?}", found.remarks);
}

/// The estimate behind noise is the posterior mean, by quadrature: no feature of the box is as good for the squared error.
#[test]
fn noise_on_a_number_is_taken_for_what_it_is() {
    let case = Case::new(Link::Identity, &[1.0], 0.0, whole(1, 400, 40));
    let policy = "gaussian_noise (sigma = 0.2)";
    let found = case.attack("averaging", policy, &[]).unwrap();
    let ReleasedScores::Numbers(released) = case.released(&policy.parse().unwrap()) else {
        panic!("numbers")
    };
    let own = &case.eta - &case.x;
    let mut worst = 0.0f64;
    for (j, estimate) in found.estimates.iter().enumerate() {
        // Normal features around ½ with the variance of uniform ones, in the box.
        let (mut sum, mut total) = (0.0, 0.0);
        for step in 0..2000 {
            let x = (f64::from(step) + 0.5) / 2000.0;
            let density =
                (-0.5 * ((released[j] - own[j] - x) / 0.2).powi(2) - 6.0 * (x - 0.5).powi(2)).exp();
            (sum, total) = (sum + x * density, total + density);
        }
        worst = worst.max((estimate - sum / total).abs());
    }
    assert!(worst < 0.02, "{worst}");
}

/// A rounding before the noise is in every answer: little noise behind it does not make the number known.
#[test]
fn a_rounding_before_the_noise_stays_unknown() {
    let case = Case::new(Link::Identity, &[1.0], 0.0, whole(1, 200, 40));
    let error = |name: &str, policy: &str| {
        let found = case.attack(name, policy, &[]).unwrap();
        (found.estimates - &case.x).norm_squared() / 200.0
    };
    let rounded = error("interval", "rounding (decimals = 0)");
    let behind = "rounding (decimals = 0) then gaussian_noise (sigma = 0.001)";
    let noisy = error("averaging", behind);
    assert!(noisy < 1.3 * rounded, "{noisy} {rounded}");
}

/// The mean of many answers with fresh noise tells what one does not.
#[test]
fn more_answers_narrow_the_bounds() {
    let case = Case::new(Link::Identity, &[2.0], 0.1, whole(1, 50, 20));
    let policy = "gaussian_noise (sigma = 0.5)";
    let error = |averaged: &str| {
        let found = case.attack("averaging", policy, &[("averaged", averaged)]).unwrap();
        (found.estimates - &case.x).norm_squared() / 50.0
    };
    // The release is of one draw: to take it for the mean of many is overconfident.
    let one = error("1");
    let uniform = 1.0 / 12.0;
    assert!(one < 0.6 * uniform, "{one} {uniform}");
    assert!(error("10000") > one, "the draw is taken for the truth");
}

#[test]
fn attacks_on_scores_say_that_they_do_not_apply() {
    let case = Case::new(Link::Log, &[1.0, 0.5], 0.0, whole(2, 10, 10));
    for method in Method::general().chain([Method::Agnostic]) {
        let name = method.as_str();
        match case.attack(name, "none", &[]) {
            Ok(found) => {
                assert!(found.estimates.iter().all(|v| v.is_finite()), "{name}");
            }
            Err(AttackError::Numbers | AttackError::Missing { .. }) => {}
            Err(other) => panic!("{name}: {other}"),
        }
    }
    for name in
        ["half_star", "least_squares", "rcc1", "rcc2", "lattice", "constrained_least_squares"]
    {
        assert!(case.attack(name, "none", &[]).is_ok(), "{name}");
    }
    let scores = ReleasedScores::Probabilities(DMatrix::from_element(2, 10, 0.5));
    let refused =
        AdversaryView::new(&case.model, &case.y, &scores, Replacement::default()).unwrap_err();
    assert!(refused.to_string().contains("expected 1"), "{refused}");
    let row = DMatrix::from_element(2, 1, 1.0);
    assert!(KnownModel::of_number(Link::Log, &row, 0.0, Err(2)).is_err());
}
