//! The black box: one feature, shadow models, and coalitions of passive parties.

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use vfl_attack::{
    AdversaryView, Attack, AttackError, AuxiliaryRecords, Coalition, Colluders, Constant, Descent,
    HalfStar, KnownModel, Method, OneFeature, OneFeatureCase, OneFeatureError, Party, Prior,
    Replacement, Role, Settings, ShadowBias, ShadowEstimate, ShadowFit, ShadowModel,
    SideInformation, Status, one_feature, one_feature_of_mean,
};
use vfl_core::metrics::{mse, squared_error_by_record};
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_numerics::row_differences;

use crate::fixture::{golden, matrix, run, scores, undefended};

#[derive(Deserialize)]
struct File {
    one_feature: Vec<OneFeatureVector>,
    shadow_model: Vec<ShadowVector>,
}

#[derive(Deserialize)]
struct OneFeatureVector {
    case: String,
    x: Option<Vec<f64>>,
    v: Vec<f64>,
    x_hat: Vec<Option<f64>>,
    mse: Option<f64>,
}

#[derive(Deserialize)]
struct ShadowVector {
    #[serde(rename = "W_act")]
    w_act: Vec<Vec<f64>>,
    #[serde(rename = "b")]
    bias: Vec<f64>,
    #[serde(rename = "Y_aux")]
    y: Vec<Vec<f64>>,
    #[serde(rename = "X_aux")]
    x: Vec<Vec<f64>>,
    #[serde(rename = "C_aux")]
    c: Vec<Vec<f64>>,
    #[serde(rename = "A_hat")]
    a_hat: Vec<Vec<f64>>,
    #[serde(rename = "W_hat_zero_column_mean")]
    w_hat: Vec<Vec<f64>>,
    #[serde(rename = "A_true")]
    a_true: Option<Vec<Vec<f64>>>,
    tol: f64,
}

fn generator() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(0)
}

fn numbers(c: DMatrix<f64>) -> ReleasedScores {
    ReleasedScores::Numbers(c)
}

/// Largest difference, relative to the largest entry if that is above 1.
fn distance(got: &DMatrix<f64>, want: &DMatrix<f64>) -> f64 {
    assert_eq!(got.shape(), want.shape());
    (got - want).amax() / want.amax().max(1.0)
}

#[test]
fn one_feature_equals_the_golden_vectors() {
    let vectors = golden::<File>("blackbox.json").one_feature;
    assert!(vectors.len() >= 11);
    for OneFeatureVector { case, x, v, x_hat, mse } in vectors {
        let found = one_feature(case.parse().unwrap(), &v);
        let Some(want) = x_hat.into_iter().collect::<Option<Vec<f64>>>() else {
            assert!(
                matches!(found, Err(OneFeatureError::Undefined { .. })),
                "case {case}: {found:?}"
            );
            continue;
        };
        let found = found.unwrap();
        assert!(
            found.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-12),
            "case {case}: {found:?} {want:?}"
        );
        if let (Some(x), Some(mse)) = (x, mse) {
            let error =
                x.iter().zip(&found).map(|(x, e)| (x - e).powi(2)).sum::<f64>() / x.len() as f64;
            assert!((error - mse).abs() < 1e-12, "case {case}: MSE {error}, {mse}");
        }
    }
}

#[test]
fn one_feature_says_where_it_is_undefined() {
    for case in OneFeatureCase::ALL {
        for v in [vec![0.0], vec![0.0, 0.0], vec![2.5, 2.5, 2.5], vec![-1.0]] {
            let found = one_feature(case, &v);
            if case == OneFeatureCase::NoIntercept && v[0] != 0.0 {
                assert_eq!(found, Ok(vec![1.0; v.len()]));
            } else {
                assert_eq!(found, Err(OneFeatureError::Undefined { case }), "{v:?}");
            }
        }
        assert_eq!(one_feature(case, &[]), Ok(Vec::new()));
        let error = one_feature(case, &[0.5, f64::NAN]);
        assert_eq!(error, Err(OneFeatureError::NotFinite { record: 1 }));
    }
    // R VI-C2: an estimate and its mirror image, and no way to choose. A 0 has no sign of its own.
    assert_eq!(one_feature(OneFeatureCase::OppositeSigns, &[-1.0, 0.2, 3.0]), Ok(vec![0.5; 3]));
    assert_eq!(
        one_feature(OneFeatureCase::OppositeSigns, &[4.0, 0.0, 3.0]),
        Ok(vec![0.0, 1.0, 0.25])
    );
    // The range of f64 is no limit.
    assert_eq!(
        one_feature(OneFeatureCase::Rising, &[-f64::MAX, 0.0, f64::MAX]),
        Ok(vec![0.0, 0.5, 1.0])
    );
}

proptest! {
    /// R (65) and (71): the error is bounded by what the records' extremes miss of 0 and 1. The signs of ω and β are the case's;
    /// in case 3, β outweighs ω, so that all values have its sign.
    #[test]
    fn one_feature_keeps_its_bounds(
        x in prop::collection::vec(0.0f64..=1.0, 2..40), weight in 0.01f64..20.0, bias in 0.01f64..20.0, negative in any::<bool>()
    ) {
        let (least, greatest) = x.iter().fold((1.0f64, 0.0f64), |(l, g), v| (l.min(*v), g.max(*v)));
        prop_assume!(greatest - least > 1e-6);
        let sign = if negative { -1.0 } else { 1.0 };
        for (case, omega, beta) in [
            (OneFeatureCase::NoIntercept, sign * weight, 0.0),
            (OneFeatureCase::SameSign, sign * weight, sign * bias),
            (OneFeatureCase::OppositeSigns, sign * weight, -sign * (bias + weight)),
            (OneFeatureCase::Rising, weight, -bias),
            (OneFeatureCase::Falling, -weight, bias),
        ] {
            let v: Vec<f64> = x.iter().map(|x| omega * x + beta).collect();
            let found = one_feature(case, &v).unwrap();
            let error = x.iter().zip(&found).map(|(x, e)| (x - e).powi(2)).sum::<f64>() / x.len() as f64;
            let misses = if case == OneFeatureCase::NoIntercept { 0.0 } else { least };
            let bound = (1.0 - greatest).powi(2) + misses * misses;
            prop_assert!(error <= bound + 1e-8, "case {case}: {error} above {bound}");
            prop_assert!(found.iter().all(|e| (0.0..=1.0).contains(e)));
        }
    }
}

/// Records of a model with one passive feature, the adversary's own features and the truth.
struct OneColumn {
    w_act: DMatrix<f64>,
    bias: DVector<f64>,
    w_pas: DMatrix<f64>,
    active: FeatureBlock,
    truth: DMatrix<f64>,
    released: ReleasedScores,
}

impl OneColumn {
    fn new(k: usize, n: usize) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(k as u64);
        let mut uniform = |r, c| DMatrix::from_fn(r, c, |_, _| rng.random::<f64>());
        let (w_act, bias, w_pas) =
            (uniform(k, 3), uniform(k, 1).column(0).into_owned(), uniform(k, 1) * 4.0);
        let mut x = uniform(4, n);
        (x[(3, 0)], x[(3, 1)]) = (1.0, 0.0);
        let w = DMatrix::from_fn(k, 4, |i, j| if j < 3 { w_act[(i, j)] } else { w_pas[(i, 0)] });
        Self {
            released: undefended(&scores(&w, &bias, &x)),
            active: FeatureBlock::new(x.rows(0, 3).into_owned()).unwrap(),
            truth: x.rows(3, 1).into_owned(),
            w_act,
            bias,
            w_pas,
        }
    }

    fn attack(
        &self,
        case: OneFeatureCase,
        bias: &DVector<f64>,
    ) -> Result<(DMatrix<f64>, Status), AttackError> {
        let model = KnownModel::black_box(self.w_act.clone(), bias.clone(), 1).unwrap();
        let view = AdversaryView::new(&model, &self.active, &self.released, Replacement::default())
            .unwrap();
        let found =
            OneFeature { case, population_mean: None }.reconstruct(&view, &mut generator())?;
        assert!(found.solved.is_none() && found.outcomes.is_empty());
        Ok((found.estimates, found.status))
    }
}

/// With a record at each end of the range the feature comes back although its weights are hidden.
#[test]
fn one_feature_of_a_view_comes_back() {
    for k in [2, 3, 6] {
        let world = OneColumn::new(k, 50);
        let (estimates, status) = world.attack(OneFeatureCase::NoIntercept, &world.bias).unwrap();
        assert_eq!(status, Status::Scaled);
        assert!((estimates - &world.truth).amax() < 1e-12, "{k} classes");
    }
    // An adversary that does not know the bias takes 0 for it; the case is what it knows of the signs.
    let world = OneColumn::new(2, 50);
    let (omega, beta) = (world.w_pas[1] - world.w_pas[0], world.bias[1] - world.bias[0]);
    let zero = DVector::zeros(2);
    let right = match (omega > 0.0, beta > 0.0) {
        (true, false) => OneFeatureCase::Rising,
        (false, true) => OneFeatureCase::Falling,
        _ => OneFeatureCase::SameSign,
    };
    let (estimates, status) = world.attack(right, &zero).unwrap();
    assert_eq!(status, Status::Scaled);
    assert!((estimates - &world.truth).amax() < 1e-12);
    let (wrong, _) = world.attack(OneFeatureCase::NoIntercept, &zero).unwrap();
    assert!((wrong - &world.truth).amax() > 1e-3, "the bias matters");
    // Signs that do not tell the ends apart: ½, which is told as such.
    let mixed = DVector::from_vec(vec![0.0, beta + 0.5 * omega]);
    let (estimates, status) = world.attack(OneFeatureCase::OppositeSigns, &mixed).unwrap();
    assert_eq!(status, Status::Baseline);
    assert!(estimates.iter().all(|e| *e == 0.5));
}

/// R footnote 15: the population's mean tells x from 1 − x. Without it the estimate is ½; the farther the mean is from ½, and the more
/// records there are, the surer it is; a mean of ½ tells nothing.
#[test]
fn a_known_mean_tells_the_ends_apart() {
    let mut rng = ChaCha20Rng::seed_from_u64(15);
    let case = OneFeatureCase::OppositeSigns;
    // x = u² has mean 1/3 and is near both ends somewhere.
    let mut error = |n: usize, omega: f64, mean: f64| {
        let x: Vec<f64> = (0..n).map(|_| rng.random::<f64>().powi(2)).collect();
        let v: Vec<f64> = x.iter().map(|x| omega * x - 0.3 * omega).collect();
        let found = one_feature_of_mean(case, &v, mean).unwrap();
        x.iter().zip(&found).map(|(x, found)| (x - found).powi(2)).sum::<f64>() / n as f64
    };
    for omega in [2.0, -2.0] {
        assert!(error(2000, omega, 1.0 / 3.0) < 1e-4, "{omega}");
        // The variance of u² around ½ is 4/45 + (1/6)².
        assert!((error(2000, omega, 0.5) - 0.1167).abs() < 0.01, "{omega}");
        // A mean that is on the wrong side misleads: the mirror image.
        assert!(error(2000, omega, 2.0 / 3.0) > 0.3, "{omega}");
    }
    // Never worse than ½ in the mean over draws, however few records there are.
    let few = (0..400).map(|_| error(20, 2.0, 1.0 / 3.0)).sum::<f64>() / 400.0;
    assert!(few < 0.05, "{few}");
    // Where nothing is open the mean moves nothing.
    for case in [OneFeatureCase::SameSign, OneFeatureCase::Rising, OneFeatureCase::OppositeSigns] {
        let v = [4.0, 0.5, 3.0];
        assert_eq!(one_feature_of_mean(case, &v, 0.1), one_feature(case, &v));
    }
    // By hand: u = (0, 1, 1), ū = 2/3, s² = 2/9, μ = 0.6: w = 1 / (1 + e^(−0.45)).
    let found = one_feature_of_mean(case, &[-1.0, 1.0, 1.0], 0.6).unwrap();
    let w = 1.0 / (1.0 + (-0.45f64).exp());
    assert!(
        found.iter().zip([1.0 - w, w, w]).all(|(f, want)| (f - want).abs() < 1e-15),
        "{found:?}"
    );
}

/// The mean of the moments that an adversary knows serves as well as one that is stated.
#[test]
fn one_feature_takes_the_mean_of_known_moments() {
    let world = OneColumn::new(2, 50);
    let (omega, beta) = (world.w_pas[1] - world.w_pas[0], world.bias[1] - world.bias[0]);
    let mixed = DVector::from_vec(vec![0.0, beta + 0.5 * omega]);
    let model = KnownModel::black_box(world.w_act.clone(), mixed, 1).unwrap();
    let view =
        AdversaryView::new(&model, &world.active, &world.released, Replacement::default()).unwrap();
    let mean = world.truth.mean();
    let prior =
        Prior::new(DVector::from_element(1, mean), DMatrix::from_element(1, 1, 0.08)).unwrap();
    let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
    let attack = OneFeature { case: OneFeatureCase::OppositeSigns, population_mean: None };
    let of_moments =
        attack.reconstruct(&view.with_side_information(side), &mut generator()).unwrap();
    assert_eq!(of_moments.status, Status::Scaled);
    let view =
        AdversaryView::new(&model, &world.active, &world.released, Replacement::default()).unwrap();
    let stated = OneFeature { population_mean: Some(mean), ..attack };
    let found = stated.reconstruct(&view, &mut generator()).unwrap();
    assert_eq!(found.estimates, of_moments.estimates);
    assert!(
        mse(&found.estimates, &world.truth).unwrap().overall
            < mse(&found.estimates.map(|_| 0.5), &world.truth).unwrap().overall
    );
}

/// Rounding scatters the log-ratios; taken together they are closer to the truth than one by one.
#[test]
fn one_feature_averages_over_classes() {
    let mut world = OneColumn::new(5, 400);
    let ReleasedScores::Probabilities(c) = &world.released else { unreachable!() };
    world.released = numbers(c.map(|c| (c * 1000.0).round() / 1000.0));
    let error = |estimates: &DMatrix<f64>| mse(estimates, &world.truth).unwrap().overall;
    let together = error(&world.attack(OneFeatureCase::NoIntercept, &world.bias).unwrap().0);
    let model = KnownModel::black_box(world.w_act.clone(), world.bias.clone(), 1).unwrap();
    let view =
        AdversaryView::new(&model, &world.active, &world.released, Replacement::default()).unwrap();
    let alone = view.b_prime().unwrap().row_iter().map(|v| {
        let v: Vec<f64> = v.iter().copied().collect();
        error(&DMatrix::from_vec(1, 400, one_feature(OneFeatureCase::NoIntercept, &v).unwrap()))
    });
    let mean = alone.sum::<f64>() / 4.0;
    assert!(
        together > 0.0 && together < 0.5 * mean && together < 0.01,
        "{together:e}, one by one {mean:e}"
    );
}

#[test]
fn one_feature_refuses_other_views() {
    let world = OneColumn::new(3, 10);
    let error = world.attack(OneFeatureCase::SameSign, &world.bias).unwrap_err();
    assert!(
        matches!(error, AttackError::OneFeature(OneFeatureError::Classes { got: 3, .. })),
        "{error}"
    );
    let model = KnownModel::black_box(world.w_act.clone(), world.bias.clone(), 2).unwrap();
    let view =
        AdversaryView::new(&model, &world.active, &world.released, Replacement::default()).unwrap();
    let error = OneFeature::default().reconstruct(&view, &mut generator()).unwrap_err();
    assert_eq!(error, OneFeatureError::Features { got: 2 }.into());
    // Scores that say nothing: nothing is left to put on [0, 1].
    let silent = numbers(DMatrix::from_element(2, 4, 0.5));
    let model = KnownModel::black_box(DMatrix::zeros(2, 0), DVector::zeros(2), 1).unwrap();
    let none = FeatureBlock::new(DMatrix::zeros(0, 4)).unwrap();
    let view = AdversaryView::new(&model, &none, &silent, Replacement::default()).unwrap();
    let error = OneFeature::default().reconstruct(&view, &mut generator()).unwrap_err();
    assert_eq!(error, OneFeatureError::Undefined { case: OneFeatureCase::NoIntercept }.into());
}

#[test]
fn shadow_weights_equal_the_golden_vectors() {
    let vectors = golden::<File>("blackbox.json").shadow_model;
    assert!(vectors.len() >= 4);
    let mut fewer_than_features = 0;
    for vector in vectors {
        let x = matrix(&vector.x).transpose();
        let (d, n) = x.shape();
        let auxiliary = AuxiliaryRecords::new(
            FeatureBlock::new(matrix(&vector.y).transpose()).unwrap(),
            FeatureBlock::new(x).unwrap(),
            numbers(matrix(&vector.c).transpose()),
            Replacement::default(),
        );
        let model = KnownModel::black_box(matrix(&vector.w_act), DVector::from_vec(vector.bias), d)
            .unwrap();
        let fit = ShadowEstimate::fit(
            &model,
            &auxiliary.unwrap(),
            ShadowFit::LeastSquares,
            ShadowBias::Known,
        )
        .unwrap();
        assert!(distance(&fit.w_pas, &matrix(&vector.w_hat)) < 1e-9, "{d} features, {n} records");
        let a = row_differences(&fit.w_pas);
        assert!(distance(&a, &matrix(&vector.a_hat)) < 1e-9);
        assert_eq!((fit.system.rank, fit.system.unknowns, fit.system.records), (n.min(d), d, n));
        assert!(
            fit.w_pas.row_sum().amax() < 1e-12
                && fit.bias_shift.amax() == 0.0
                && fit.descent.is_none()
        );
        fewer_than_features += usize::from(n < d);
        if let Some(truth) = vector.a_true {
            assert!(distance(&a, &matrix(&truth)) < vector.tol);
        }
    }
    assert!(fewer_than_features >= 2);
}

/// A model with passive parameters, auxiliary records of it and records to attack.
struct Shadowed {
    w_act: DMatrix<f64>,
    bias: DVector<f64>,
    w_pas: DMatrix<f64>,
    auxiliary: DMatrix<f64>,
    records: DMatrix<f64>,
}

impl Shadowed {
    fn new(k: usize, d_act: usize, d: usize, auxiliary: usize, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut uniform = |r, c| DMatrix::from_fn(r, c, |_, _| rng.random::<f64>());
        Self {
            w_act: uniform(k, d_act) * 2.0,
            bias: uniform(k, 1).column(0).into_owned(),
            w_pas: uniform(k, d) * 2.0,
            auxiliary: uniform(d_act + d, auxiliary),
            records: uniform(d_act + d, 20),
        }
    }

    fn parts(&self, x: &DMatrix<f64>) -> (FeatureBlock, FeatureBlock, ReleasedScores) {
        let (d_act, d) = (self.w_act.ncols(), self.w_pas.ncols());
        let w = beside(&self.w_act, &self.w_pas);
        (
            FeatureBlock::new(x.rows(0, d_act).into_owned()).unwrap(),
            FeatureBlock::new(x.rows(d_act, d).into_owned()).unwrap(),
            undefended(&scores(&w, &self.bias, x)),
        )
    }

    fn auxiliary(&self) -> AuxiliaryRecords {
        let (y, x, released) = self.parts(&self.auxiliary);
        AuxiliaryRecords::new(y, x, released, Replacement::default()).unwrap()
    }

    fn black_box(&self, bias: &DVector<f64>) -> KnownModel {
        KnownModel::black_box(self.w_act.clone(), bias.clone(), self.w_pas.ncols()).unwrap()
    }

    fn fit(&self, fit: ShadowFit) -> ShadowEstimate {
        ShadowEstimate::fit(&self.black_box(&self.bias), &self.auxiliary(), fit, ShadowBias::Known)
            .unwrap()
    }
}

fn beside(left: &DMatrix<f64>, right: &DMatrix<f64>) -> DMatrix<f64> {
    let from = left.ncols();
    DMatrix::from_fn(left.nrows(), from + right.ncols(), |i, j| {
        if j < from { left[(i, j)] } else { right[(i, j - from)] }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// J (21), errata J2: d independent records, d + 1 with the bias unknown, give the white box's estimates.
    #[test]
    fn enough_auxiliary_records_are_a_white_box(k in 2usize..6, d_act in 0usize..4, d in 1usize..7, more in 0usize..3, seed: u64) {
        let world = Shadowed::new(k, d_act, d, d + 1 + more, seed);
        let (y, _, released) = world.parts(&world.records);
        let white = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), world.w_pas.clone()).unwrap();
        let view = AdversaryView::new(&white, &y, &released, Replacement::default()).unwrap();
        let want = run(Method::HalfStar, &view);
        // Where the equations themselves are ill-conditioned, two right answers may differ.
        prop_assume!(want.solved.as_ref().unwrap().condition_number < 1e3);
        for bias in [ShadowBias::Known, ShadowBias::Unknown] {
            let given = if bias == ShadowBias::Known { world.bias.clone() } else { DVector::zeros(k) };
            let model = world.black_box(&given);
            let attack = ShadowModel {
                fit: ShadowFit::LeastSquares, bias, inner: Box::new(HalfStar { clamped: false }),
            };
            prop_assert!(!attack.needs().white_box());
            let auxiliary = world.auxiliary();
            let black = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
            let black = black.with_side_information(SideInformation { auxiliary: Some(&auxiliary), ..SideInformation::default() });
            let found = attack.reconstruct(&black, &mut generator()).unwrap();
            let system = found.solved.as_ref().unwrap().auxiliary.unwrap();
            prop_assert_eq!((system.rank, system.unknowns), (system.unknowns, d + usize::from(bias == ShadowBias::Unknown)));
            prop_assume!(system.condition_number < 1e3);
            prop_assert!((found.estimates - &want.estimates).amax() < 1e-7, "{bias:?}");
            prop_assert_eq!(found.status, want.status);
        }
    }

    /// Of a model that somebody else computes, d + d_act + 1 records give all weights: the adversary's own are estimated too.
    #[test]
    fn enough_records_give_the_adversarys_own_weights(k in 2usize..6, d_act in 0usize..4, d in 1usize..5, seed: u64) {
        let world = Shadowed::new(k, d_act, d, d + d_act + 3, seed);
        let (y, _, released) = world.parts(&world.records);
        let white = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), world.w_pas.clone()).unwrap();
        let view = AdversaryView::new(&white, &y, &released, Replacement::default()).unwrap();
        let want = run(Method::HalfStar, &view);
        prop_assume!(want.solved.as_ref().unwrap().condition_number < 1e3);
        let nothing = KnownModel::black_box(DMatrix::zeros(k, d_act), DVector::zeros(k), d).unwrap();
        let attack = ShadowModel {
            fit: ShadowFit::LeastSquares, bias: ShadowBias::AllUnknown, inner: Box::new(HalfStar { clamped: false }),
        };
        let auxiliary = world.auxiliary();
        let black = AdversaryView::new(&nothing, &y, &released, Replacement::default()).unwrap();
        let black = black.with_side_information(SideInformation { auxiliary: Some(&auxiliary), ..SideInformation::default() });
        let found = attack.reconstruct(&black, &mut generator()).unwrap();
        let system = found.solved.as_ref().unwrap().auxiliary.unwrap();
        prop_assert_eq!((system.rank, system.unknowns), (d + d_act + 1, d + d_act + 1));
        prop_assume!(system.condition_number < 1e3);
        prop_assert!((found.estimates - &want.estimates).amax() < 1e-6);
    }

    /// The descent ends where the gradient (c − ĉ) Xᵀ is 0, on scores that no model gives too, and then no estimate has a
    /// smaller divergence, that of least squares included. On exact scores both find the same weights of least norm.
    #[test]
    fn a_descent_ends_at_the_optimum(k in 2usize..5, d in 1usize..5, n in 1usize..9, noisy: bool, seed: u64) {
        let world = Shadowed::new(k, 2, d, n, seed);
        let mut auxiliary = world.auxiliary();
        let (y, x, released) = world.parts(&world.auxiliary);
        let ReleasedScores::Probabilities(mut c) = released else { unreachable!() };
        if noisy {
            // Rounded to twentieths, with a twentieth everywhere so that no score is 0; sums differ from 1.
            c.apply(|c| *c = (*c * 20.0).round() / 20.0 + 0.05);
            auxiliary = AuxiliaryRecords::new(y.clone(), x.clone(), numbers(c.clone()), Replacement::default()).unwrap();
        }
        let model = world.black_box(&world.bias);
        let fit = |fit| ShadowEstimate::fit(&model, &auxiliary, fit, ShadowBias::Known).unwrap();
        let (by_squares, by_descent) = (fit(ShadowFit::LeastSquares), fit(ShadowFit::Gradient(Descent::default())));
        prop_assume!(by_squares.system.condition_number < 1e3);
        let end = by_descent.descent.unwrap();
        prop_assert!(end.converged, "{end:?}");
        for mut column in c.column_iter_mut() {
            let sum = column.sum();
            column /= sum;
        }
        let given = |w: &DMatrix<f64>| scores(&beside(&world.w_act, w), &world.bias, &world.auxiliary).into_matrix();
        let loss = |w: &DMatrix<f64>| c.iter().zip(given(w).iter()).map(|(c, g)| c * (c / g).ln()).sum::<f64>() / n as f64;
        let gradient = (&c - given(&by_descent.w_pas)) * x.matrix().transpose();
        prop_assert!(gradient.amax() < 1e-9, "gradient {:e}", gradient.amax());
        prop_assert!((loss(&by_descent.w_pas) - end.loss).abs() < 1e-9);
        prop_assert!(end.loss <= loss(&by_squares.w_pas) + 1e-12);
        if !noisy {
            prop_assert!(distance(&by_descent.w_pas, &by_squares.w_pas) < 1e-6);
        }
    }
}

/// Poor records give an estimate all the same, and the rank says how much of it is known.
#[test]
fn poor_auxiliary_records_are_told_by_their_rank() {
    let base = Shadowed::new(4, 2, 5, 6, 3);
    let with = |auxiliary: DMatrix<f64>| Shadowed { auxiliary, ..Shadowed::new(4, 2, 5, 6, 3) };
    let mut constant = base.auxiliary.clone();
    constant.row_mut(3).fill(0.4);
    constant.row_mut(4).fill(0.8);
    let mut zero = base.auxiliary.clone();
    zero.rows_mut(2, 5).fill(0.0);
    for (name, auxiliary, rank) in [
        ("one record", base.auxiliary.columns(0, 1).into_owned(), 1),
        ("fewer than features", base.auxiliary.columns(0, 3).into_owned(), 3),
        ("one record, five times", base.auxiliary.select_columns(&[2, 2, 2, 2, 2]), 1),
        ("two constant features", constant, 4),
        ("no feature but 0", zero, 0),
    ] {
        let world = with(auxiliary);
        for fit in [ShadowFit::LeastSquares, ShadowFit::Gradient(Descent::default())] {
            let estimate = world.fit(fit);
            assert_eq!((estimate.system.rank, estimate.system.unknowns), (rank, 5), "{name}");
            // The records are explained: the estimate gives their scores.
            let w = beside(&world.w_act, &estimate.w_pas);
            let got = scores(&w, &world.bias, &world.auxiliary).into_matrix();
            let ReleasedScores::Probabilities(want) = world.parts(&world.auxiliary).2 else {
                unreachable!()
            };
            assert!((got - want).amax() < 1e-9, "{name}, {fit:?}");
            // And no more than that: it is nothing but what their features weigh, so of least norm.
            let x = world.auxiliary.rows(2, 5).into_owned();
            let unseen = &base.w_pas - &estimate.w_pas;
            let mut shifted = unseen.clone();
            for mut column in shifted.column_iter_mut() {
                let mean = column.mean();
                column.add_scalar_mut(-mean);
            }
            assert!(
                (&shifted * &x).amax() < 1e-6,
                "{name}: the truth differs where the records do not look"
            );
            assert!(
                (shifted * estimate.w_pas.transpose()).trace().abs() < 1e-6,
                "{name}: least norm"
            );
        }
    }
    // Scores of 0 and labels go through the replacement; inner attacks that solve nothing still tell the rank.
    let (y, x, _) = base.parts(&base.auxiliary);
    let labels = ReleasedScores::Labels { classes: 4, labels: vec![0, 1, 2, 3, 0, 1] };
    for (fit, released) in [
        (ShadowFit::LeastSquares, labels.clone()),
        (ShadowFit::LeastSquares, numbers(DMatrix::zeros(4, 6))),
        (ShadowFit::Gradient(Descent { steps: 50, tolerance: 1e-12 }), labels),
    ] {
        let attack = ShadowModel { fit, bias: ShadowBias::Known, inner: Box::new(Constant(0.5)) };
        let auxiliary =
            AuxiliaryRecords::new(y.clone(), x.clone(), released, Replacement::default()).unwrap();
        let (y_targets, _, targets) = base.parts(&base.records);
        let model = base.black_box(&base.bias);
        let view =
            AdversaryView::new(&model, &y_targets, &targets, Replacement::default()).unwrap();
        let view = view.with_side_information(SideInformation {
            auxiliary: Some(&auxiliary),
            ..SideInformation::default()
        });
        let found = attack.reconstruct(&view, &mut generator()).unwrap();
        let solved = found.solved.unwrap();
        assert_eq!(solved.auxiliary.unwrap().rank, 5);
        assert!(
            found.estimates.iter().all(|e| *e == 0.5)
                && solved.residuals.iter().all(|r| r.is_finite())
        );
    }
}

#[test]
fn auxiliary_records_that_do_not_fit_are_refused() {
    let world = Shadowed::new(3, 2, 4, 5, 1);
    let (y, x, released) = world.parts(&world.auxiliary);
    let fewer = FeatureBlock::new(y.matrix().columns(0, 4).into_owned()).unwrap();
    let error = AuxiliaryRecords::new(fewer, x, released, Replacement::default()).unwrap_err();
    assert!(
        error.to_string().contains("auxiliary active features has 4 records, expected 5"),
        "{error}"
    );
    let empty = world.parts(&DMatrix::zeros(6, 0));
    let error =
        AuxiliaryRecords::new(empty.0, empty.1, empty.2, Replacement::default()).unwrap_err();
    assert_eq!(error, AttackError::NoAuxiliary);
    let other = KnownModel::black_box(world.w_act.clone(), world.bias.clone(), 3).unwrap();
    let fit = |model| {
        ShadowEstimate::fit(model, &world.auxiliary(), ShadowFit::LeastSquares, ShadowBias::Known)
    };
    assert!(fit(&other).unwrap_err().to_string().contains("has 4 features, expected 3"));
    let huge = KnownModel::black_box(&world.w_act * f64::MAX, world.bias.clone(), 4).unwrap();
    assert!(fit(&huge).unwrap_err().to_string().contains("not finite"));
}

/// A target, another passive party and the adversary.
struct Parties {
    w_act: DMatrix<f64>,
    bias: DVector<f64>,
    weights: [DMatrix<f64>; 2],
    y: FeatureBlock,
    x: [FeatureBlock; 2],
    released: ReleasedScores,
}

impl Parties {
    fn new(k: usize, d_act: usize, d: [usize; 2], seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut uniform = |r, c| DMatrix::from_fn(r, c, |_, _| rng.random::<f64>());
        let (w_act, bias) = (uniform(k, d_act), uniform(k, 1).column(0).into_owned());
        let weights = [uniform(k, d[0]) * 3.0, uniform(k, d[1]) * 3.0];
        let x = uniform(d_act + d[0] + d[1], 12);
        let released =
            undefended(&scores(&beside(&beside(&w_act, &weights[0]), &weights[1]), &bias, &x));
        let block = |from, rows| FeatureBlock::new(x.rows(from, rows).into_owned()).unwrap();
        let (y, x) = (block(0, d_act), [block(d_act, d[0]), block(d_act + d[0], d[1])]);
        Self { w_act, bias, weights, y, x, released }
    }

    /// The parties in this order, party 1 in this role.
    fn coalition(&self, role: Role, target_first: bool) -> Coalition {
        let mut parties = vec![
            Party { weights: self.weights[0].clone(), role: Role::Target },
            Party { weights: self.weights[1].clone(), role },
        ];
        if !target_first {
            parties.reverse();
        }
        Coalition::new(self.w_act.clone(), self.bias.clone(), self.y.clone(), &parties).unwrap()
    }

    /// Half*'s estimates of the target, and of the joint block.
    fn half_star(&self, coalition: &Coalition) -> (DMatrix<f64>, DMatrix<f64>) {
        let joint =
            run(Method::HalfStar, &coalition.view(&self.released, Replacement::default()).unwrap())
                .estimates;
        let mut targets = coalition.target_estimates(&joint).unwrap();
        assert_eq!(targets.len(), 1);
        (targets.remove(0).1, joint)
    }

    /// How far round-off can move an estimate.
    fn round_off(&self, coalition: &Coalition) -> f64 {
        let system = coalition.model().linear().unwrap();
        1e-13 / system.singular_values()[system.rank() - 1].min(1.0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// A colluder's part is known: what is left is the attack on a model without that party, whose scores are softmax(z − W_c x_c).
    #[test]
    fn a_colluder_leaves_the_smaller_problem(
        k in 2usize..6, d_act in 0usize..3, d in 1usize..7, other in 0usize..4, first: bool, seed: u64
    ) {
        let world = Parties::new(k, d_act, [d, other], seed);
        let coalition = world.coalition(Role::Colluder(world.x[1].clone()), first);
        let round_off = world.round_off(&coalition);
        prop_assume!(round_off < 1e-9);
        prop_assert_eq!(coalition.target_rows(), &[(usize::from(!first), 0..d)][..]);
        prop_assert_eq!(coalition.known_features().features(), d_act + other);
        let (found, _) = world.half_star(&coalition);
        let x = beside(&world.y.matrix().transpose(), &world.x[0].matrix().transpose()).transpose();
        let released = undefended(&scores(&beside(&world.w_act, &world.weights[0]), &world.bias, &x));
        let model = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), world.weights[0].clone()).unwrap();
        let view = AdversaryView::new(&model, &world.y, &released, Replacement::default()).unwrap();
        let want = run(Method::HalfStar, &view).estimates;
        prop_assert!((&found - want).amax() < 10.0 * round_off);
        // The attack `coalition` is given the colluder's logit share, and comes to the same.
        let (first_weights, second_weights) = (&world.weights[usize::from(!first)], &world.weights[usize::from(first)]);
        let joint = beside(first_weights, second_weights);
        let model = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), joint).unwrap();
        let rows = if first { 0..d } else { other..d + other };
        let colluders = Colluders {
            features: (0..d + other).map(|i| !rows.contains(&i)).collect(),
            shares: &world.weights[1] * world.x[1].matrix(),
        };
        let view = AdversaryView::new(&model, &world.y, &world.released, Replacement::default()).unwrap();
        let view = view.with_side_information(SideInformation { colluders: Some(&colluders), ..SideInformation::default() });
        let attack = Method::Coalition.build(&Settings::read([("base", "half_star")]).unwrap());
        let by_shares = vfl_attack::run(&*attack, &view, 1).unwrap().estimates;
        prop_assert!((by_shares.rows_range(rows.clone()) - &found).amax() < 100.0 * round_off);
        let others = (0..d + other).filter(|i| !rows.contains(i)).all(|i| by_shares.row(i).iter().all(|x| *x == 0.5));
        prop_assert!(others, "the colluder's own features are no target");
    }

    /// An unknown party never helps against the target, record by record; and theorem 1 holds for the joint block.
    #[test]
    fn an_unknown_party_does_not_help(
        k in 2usize..6, d_act in 0usize..3, d in 1usize..7, other in 1usize..5, first: bool, seed: u64
    ) {
        let world = Parties::new(k, d_act, [d, other], seed);
        let helped = world.coalition(Role::Colluder(world.x[1].clone()), first);
        let alone = world.coalition(Role::Unknown, first);
        let round_off = world.round_off(&helped).max(world.round_off(&alone));
        prop_assume!(round_off < 1e-9);
        let from = if first { 0 } else { other };
        prop_assert_eq!(alone.target_rows(), &[(usize::from(!first), from..from + d)][..]);
        let (target, joint) = world.half_star(&alone);
        prop_assert_eq!(joint.nrows(), d + other);
        let truth = world.x[0].matrix();
        let by_record = |e: &DMatrix<f64>, t: &DMatrix<f64>| squared_error_by_record(e, t).unwrap();
        let with_help = by_record(&world.half_star(&helped).0, truth);
        for (alone, helped) in by_record(&target, truth).iter().zip(&with_help) {
            prop_assert!(*alone >= helped - 10.0 * round_off, "{alone} below {helped}");
        }
        let (above, below) = if first { (0, 1) } else { (1, 0) };
        let blocks = [world.x[above].matrix().transpose(), world.x[below].matrix().transpose()];
        let all = beside(&blocks[0], &blocks[1]).transpose();
        let half = by_record(&all.map(|_| 0.5), &all);
        for (joint, half) in by_record(&joint, &all).iter().zip(&half) {
            prop_assert!(*joint <= half + 10.0 * round_off, "{joint} above {half}");
        }
    }
}

#[test]
fn coalitions_that_do_not_fit_are_refused() {
    let world = Parties::new(3, 2, [2, 2], 5);
    let new = |parties: &[Party]| {
        Coalition::new(world.w_act.clone(), world.bias.clone(), world.y.clone(), parties)
    };
    let party = |p: usize, role| Party { weights: world.weights[p].clone(), role };
    assert_eq!(new(&[party(0, Role::Unknown)]).unwrap_err(), AttackError::NoTarget);
    assert_eq!(new(&[]).unwrap_err(), AttackError::NoTarget);
    let short = FeatureBlock::new(DMatrix::zeros(2, 11)).unwrap();
    let narrow = FeatureBlock::new(DMatrix::zeros(1, 12)).unwrap();
    for (x, says) in
        [(short, "has 11 records, expected 12"), (narrow, "has 1 features, expected 2")]
    {
        let error = new(&[party(0, Role::Target), party(1, Role::Colluder(x))]).unwrap_err();
        assert!(
            matches!(error, AttackError::Party { party: 1, .. })
                && error.to_string().contains(says),
            "{error}"
        );
    }
    let classes = Party { weights: DMatrix::zeros(4, 2), role: Role::Target };
    assert!(
        new(&[classes])
            .unwrap_err()
            .to_string()
            .contains("passive party 0: passive weights has 4 classes")
    );
    let coalition = new(&[party(0, Role::Target)]).unwrap();
    assert!(coalition.target_estimates(&DMatrix::zeros(3, 12)).is_err());
}
