//! Attacks on one-vs-rest models, whose scores are σ(z) divided by their sum: whole numbers come back, no record is certain and
//! wrong, and attacks that solve equations of softmax say that they do not apply.

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::{
    AdversaryView, AttackError, Colluders, KnownModel, Method, Prior, Reconstruction, Replacement,
    Settings, SideInformation, run,
};
use vfl_core::model::{LANES, Lanes, Link};
use vfl_core::types::{FeatureBlock, Logits, ReleasedScores};
use vfl_defense::{Grants, Noise, Pipeline, Policy};

/// One own feature and d passive ones, of k classes.
struct Case {
    model: KnownModel,
    w: DMatrix<f64>,
    y: FeatureBlock,
    x: DMatrix<f64>,
    z: DMatrix<f64>,
}

impl Case {
    fn new(k: usize, x: DMatrix<f64>, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let w = DMatrix::from_fn(k, x.nrows(), |_, _| 8.0 * rng.random::<f64>() - 4.0);
        Self::of(w, x, seed + 1)
    }

    /// A model with these passive weights.
    fn of(w: DMatrix<f64>, x: DMatrix<f64>, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut weight = || 2.0 * rng.random::<f64>() - 1.0;
        let w_act = DMatrix::from_fn(w.nrows(), 1, |_, _| weight());
        let bias = DVector::from_fn(w.nrows(), |_, _| weight());
        let y = DMatrix::from_fn(1, x.ncols(), |_, j| (0.3 * j as f64).sin().abs());
        let mut z = &w_act * &y + &w * &x;
        z.column_iter_mut().for_each(|mut z| z += &bias);
        let model = KnownModel::white_box(w_act, bias, w.clone()).unwrap();
        let model = model.with_link(Link::OneVsRest);
        Self { model, w, y: FeatureBlock::new(y).unwrap(), x, z }
    }

    /// The scores by their definition, without the project's own code.
    fn exact(&self) -> DMatrix<f64> {
        scores(&self.z)
    }

    fn released(&self, policy: &str) -> ReleasedScores {
        let policy: Policy = policy.parse().unwrap();
        let grants = Grants { seed: [1; 32], passive_weights: None, calibration: None };
        let pipeline = Pipeline::build(&policy.defenses, self.z.nrows(), &grants).unwrap();
        let outputs = Logits::new(self.z.clone()).unwrap();
        let logits = Link::OneVsRest.score_logits(outputs).unwrap();
        pipeline.release(logits, Noise::fresh([5; 32])).unwrap().released
    }

    fn attack(
        &self,
        name: &str,
        policy: &str,
        settings: &[(&str, &str)],
        side: SideInformation<'_>,
    ) -> Result<Reconstruction, AttackError> {
        let released = match policy {
            "none" => ReleasedScores::Probabilities(self.exact()),
            policy => self.released(policy),
        };
        let replacement = Replacement::default();
        let view = AdversaryView::new(&self.model, &self.y, &released, replacement).unwrap();
        let settings = settings.iter().copied().chain([("policy", policy)]).collect::<Vec<_>>();
        let method: Method = name.parse().unwrap();
        let attack = method.build(&Settings::read(settings).unwrap());
        run(&*attack, &view.with_side_information(side), 3)
    }
}

fn scores(z: &DMatrix<f64>) -> DMatrix<f64> {
    let mut c = z.map(|z| 1.0 / (1.0 + (-z).exp()));
    c.column_iter_mut().for_each(|mut c| c /= c.sum());
    c
}

/// Whole numbers from 0 to `top`, in [0, 1].
fn whole(features: usize, records: usize, top: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(features, records, |_, _| rng.random_range(0..=top) as f64 / top as f64)
}

/// The slopes of the logits are those of central differences.
#[test]
fn slopes_are_those_of_differences() {
    let case = Case::new(4, whole(3, 5, 9, 1), 2);
    let released = ReleasedScores::Probabilities(case.exact());
    let view = AdversaryView::new(&case.model, &case.y, &released, Replacement::default()).unwrap();
    let model = view.differentiable().unwrap();
    let records = std::array::from_fn(|l| l % 5);
    let mut block = model.block(records);
    let at = |x: &[f64]| -> Vec<Lanes> { x.iter().map(|x| Lanes([*x; LANES])).collect() };
    let x = [0.3, 0.8, 0.1];
    for class in 0..4 {
        let mut logits = vec![Lanes([0.0; LANES]); 4];
        block.logits(&at(&x), &mut logits);
        let mut slopes = vec![Lanes([0.0; LANES]); 4];
        slopes[class] = Lanes([1.0; LANES]);
        let mut gradient = vec![Lanes([0.0; LANES]); 3];
        block.pull_back(&slopes, &mut gradient);
        for feature in 0..3 {
            let mut value = |by: f64| {
                let mut moved = x;
                moved[feature] += by;
                block.logits(&at(&moved), &mut logits);
                logits[class].0
            };
            let (up, down) = (value(1e-6), value(-1e-6));
            for l in 0..LANES {
                let want = (up[l] - down[l]) / 2e-6;
                assert!((gradient[feature].0[l] - want).abs() < 1e-7, "{class} {feature} {l}");
            }
        }
    }
}

/// Two equations give four whole numbers of 31 values each back: by enumeration no other point of the grid has the scores.
#[test]
fn whole_numbers_come_back_from_exact_scores() {
    let case = Case::new(3, whole(4, 12, 30, 3), 4);
    let step = (1.0 / 30.0).to_string();
    let found = case.attack("lattice", "none", &[("step", &step)], SideInformation::default());
    let found = found.unwrap();
    let off = (&found.estimates - &case.x).amax();
    assert!(off < 1e-9, "{off:e} {:?}", found.remarks);
    assert!(found.certain.iter().all(|certain| *certain), "{:?}", found.remarks);
    // The oracle: the scores of all 31⁴ points.
    let own = case.z.column(0) - &case.w * case.x.column(0);
    let target = case.exact();
    let mut alike = 0;
    for t in 0..31usize.pow(4) {
        let point = |i: u32| (t / 31usize.pow(i) % 31) as f64 / 30.0;
        let x = DVector::from_fn(4, |i, _| point(i as u32));
        let z = &own + &case.w * x;
        let c = scores(&DMatrix::from_columns(&[z]));
        alike += usize::from((c.column(0) - target.column(0)).amax() < 1e-11);
    }
    assert_eq!(alike, 1);
}

/// Two categories of equal weights have the same scores: neither is certain, whatever else of the record is.
#[test]
fn categories_of_equal_weights_are_not_told_apart() {
    let mut x = whole(4, 30, 20, 13);
    for (j, mut column) in x.column_iter_mut().enumerate() {
        (0..3).for_each(|i| column[i] = f64::from(u8::from(j % 3 == i)));
    }
    let mut w = Case::new(4, x.clone(), 14).w;
    let twin = w.column(0).into_owned();
    w.set_column(1, &twin);
    let case = Case::of(w, x, 15);
    for groups in ["0-2", "0-2,3-3"] {
        // Without an axis of steps too, where the last column is always 1.
        let mut case = Case::of(case.w.clone(), case.x.clone(), 15);
        let step = "0,0,0,0.05";
        if groups.ends_with("3-3") {
            let mut x = case.x.clone();
            x.row_mut(3).fill(1.0);
            case = Case::of(case.w, x, 15);
        }
        let settings = [("groups", groups), ("step", step)];
        let found = case.attack("lattice", "none", &settings, SideInformation::default()).unwrap();
        for (j, certain) in found.certain.iter().enumerate() {
            assert!(!certain || j % 3 == 2, "{groups} {j} {:?}", found.remarks);
        }
        let right = |j: &usize| (found.estimates.column(*j) - case.x.column(*j)).amax() < 1e-9;
        assert!((2..30).step_by(3).all(|j| right(&j)), "{groups} {:?}", found.remarks);
    }
}

/// With steep weights the σ of a class is 1 to a double in most records, and says next to nothing: the others do.
#[test]
fn steep_weights_do_not_hide_the_features() {
    let x = whole(3, 40, 30, 17);
    let w = Case::new(4, x.clone(), 18).w * 12.0;
    let case = Case::of(w, x, 19);
    let step = (1.0 / 30.0).to_string();
    let found = case.attack("lattice", "none", &[("step", &step)], SideInformation::default());
    let found = found.unwrap();
    let off = |j: usize| (found.estimates.column(j) - case.x.column(j)).amax();
    let saturated = (0..40).filter(|&j| case.z.column(j).max() > 40.0).count();
    assert!(saturated > 10, "{saturated}");
    let certain = (0..40).filter(|&j| found.certain[j]).count();
    assert!(certain >= 30, "{certain} {:?}", found.remarks);
    assert!((0..40).all(|j| !found.certain[j] || off(j) < 1e-9));
}

/// The order of the outputs is that of the scores: from labels and rankings the estimates are those under a softmax of the same
/// outputs, with and without moments.
#[test]
fn orders_are_read_under_every_link() {
    let case = Case::new(4, whole(3, 40, 1000, 21), 22);
    let known = whole(4, 400, 1000, 23);
    let prior = Prior::of_records(&known.rows(1, 3).into_owned(), &known.rows(0, 1).into_owned());
    let prior = prior.unwrap();
    let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
    let model = &case.model;
    let weights = (model.active_weights().clone(), model.bias().clone(), case.w.clone());
    let softmax = KnownModel::white_box(weights.0, weights.1, weights.2).unwrap();
    for (name, policy) in [
        ("label_cone", "class_label"),
        ("noisy_label", "randomized_label (epsilon = 3.0)"),
        ("ranking_cone", "rounding (decimals = 12)"),
        ("posterior_mean", "class_label"),
    ] {
        let released = case.released(policy);
        let [own, other] = [&case.model, &softmax].map(|model| {
            let view = AdversaryView::new(model, &case.y, &released, Replacement::default());
            let view = view.unwrap().with_side_information(side);
            let settings = Settings::read([("policy", policy)]).unwrap();
            let attack = name.parse::<Method>().unwrap().build(&settings);
            run(&*attack, &view, 3).unwrap().estimates
        });
        assert!((own - other).amax() < 1e-12, "{name}");
    }
}

/// A reader who takes the scores for those of softmax finds nothing: the sum of the σ is what makes them differ.
#[test]
fn equations_of_softmax_do_not_apply() {
    let case = Case::new(3, whole(2, 6, 9, 5), 6);
    for name in ["least_squares", "half_star", "rcc1", "rcc2"] {
        let error = case.attack(name, "none", &[], SideInformation::default()).unwrap_err();
        assert_eq!(error, AttackError::NotLinear, "{name}");
    }
    let found = case.attack("gradient_inversion", "none", &[], SideInformation::default()).unwrap();
    let released = ReleasedScores::Probabilities(case.exact());
    let view = AdversaryView::new(&case.model, &case.y, &released, Replacement::default()).unwrap();
    // Two features and two equations: what fits is the truth.
    let misfit = view.score_mismatch(&found.estimates).unwrap().squared_error.unwrap();
    assert!(misfit < 1e-9, "{misfit:e}");
    assert!((&found.estimates - &case.x).amax() < 1e-6);
}

/// With as many equations as features, Newton's method on the tangents gives all of them.
#[test]
fn tangents_reach_the_features() {
    let case = Case::new(5, whole(4, 20, 1000, 7), 8);
    let known = whole(5, 400, 1000, 9);
    let (y, x) = (known.rows(0, 1).into_owned(), known.rows(1, 4).into_owned());
    let prior = Prior::of_records(&x, &y).unwrap();
    let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
    let found = case.attack("gaussian", "none", &[], side).unwrap();
    let right = found.estimates.column_iter().zip(case.x.column_iter());
    let right = right.filter(|(found, x)| (found.clone_owned() - x).amax() < 1e-6).count();
    assert!(right >= 18, "{right} of 20");
}

/// The shares of a colluder are part of the outputs, and the rest is decoded.
#[test]
fn a_colluder_leaves_the_others_features() {
    let case = Case::new(3, whole(5, 8, 20, 11), 12);
    let shares = case.w.column(0) * case.x.row(0);
    let colluders = Colluders { features: vec![true, false, false, false, false], shares };
    let side = SideInformation { colluders: Some(&colluders), ..SideInformation::default() };
    let settings = [("base", "lattice"), ("step", "0.05")];
    let found = case.attack("coalition", "none", &settings, side).unwrap();
    let off = (found.estimates.rows(1, 4) - case.x.rows(1, 4)).amax();
    assert!(off < 1e-9, "{off:e} {:?}", found.remarks);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the rounding, the temperature and the number of classes: what is said to be certain is true.
    #[test]
    fn no_record_is_certain_and_wrong(
        seed in 0u64..1000,
        k in 3usize..6,
        d in 1usize..5,
        top in 1usize..40,
        which in 0usize..5,
    ) {
        let case = Case::new(k, whole(d, 6, top, seed), seed + 1);
        let policy = ["none", "rounding (decimals = 6)", "rounding (decimals = 3)", "temperature (temperature = 2.5)", "top_k (k = 2)"];
        let step = (1.0 / top as f64).to_string();
        let found = case.attack("lattice", policy[which], &[("step", &step)], SideInformation::default());
        let found = found.unwrap();
        for (j, certain) in found.certain.iter().enumerate() {
            let off = (found.estimates.column(j) - case.x.column(j)).amax();
            prop_assert!(!certain || off < 1e-9, "{} {j} {off:e} {:?}", policy[which], found.remarks);
        }
    }

    /// A feature that is off the grid is not called certain.
    #[test]
    fn records_off_the_grid_are_not_certain(seed in 0u64..1000, k in 3usize..6) {
        let mut x = whole(3, 6, 20, seed);
        x.row_mut(1).iter_mut().for_each(|x| *x = 0.013 + 0.97 * *x);
        let case = Case::new(k, x, seed + 1);
        let found = case.attack("lattice", "none", &[("step", "0.05")], SideInformation::default()).unwrap();
        prop_assert!(found.certain.iter().all(|certain| !certain), "{:?}", found.remarks);
    }
}
