//! Gradient inversion through sub-models that are not linear: logits and slopes against the heads that serve and against central
//! differences, descents against those on weights, and what the attack is for.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, AttackError, FailureClass, GradientInversion, KnownModel, KnownNetwork, Method,
    Prior, Reconstruction, Replacement, Settings, SideInformation, Termination,
};
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{
    Combiner, LANES, Lanes, LinearParameters, ModelSpec, Parameters, SubModel, SubModelSpec, heads,
    kinds,
};
use vfl_core::types::{ConfidenceScores, FeatureBlock, LogitShare, Logits, ReleasedScores};

pub(crate) fn uniform(rows: usize, columns: usize, low: f64, high: f64, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| low + (high - low) * rng.random::<f64>())
}

fn spec(kind: &str, width: u32, settings: serde_json::Value) -> SubModelSpec {
    SubModelSpec::new(kind, width, settings.as_object().unwrap().clone()).unwrap()
}

pub(crate) fn mlp(width: u32, hidden: &[usize], activation: &str) -> SubModelSpec {
    spec("mlp", width, serde_json::json!({ "hidden": hidden, "activation": activation }))
}

/// A sub-model with parameters that say something: `scale` is the reach of a weight.
fn model(
    spec: &SubModelSpec,
    features: usize,
    active: bool,
    scale: f64,
    seed: u64,
) -> Arc<dyn SubModel> {
    let origin = SubModelOrigin { spec: spec.clone(), features, active, start: start_of(seed) };
    let mut model = kinds::start(&origin).unwrap();
    if spec.kind() != "residual" {
        for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
            let values = uniform(tensor.values.len(), 1, -scale, scale, 1000 * seed + at as u64);
            tensor.values.copy_from_slice(values.as_slice());
        }
    }
    model.into()
}

/// Everything of a model, an active party of three features first.
pub(crate) struct World {
    pub(crate) network: KnownNetwork,
    own: Arc<dyn SubModel>,
    parts: Vec<Arc<dyn SubModel>>,
    spec: ModelSpec,
    top: Option<Arc<dyn SubModel>>,
    classes: usize,
}

/// Features of the active party.
pub(crate) const OWN: usize = 3;

impl World {
    /// Parts with their numbers of features; a top model if there is one.
    pub(crate) fn new(
        own: &SubModelSpec,
        parts: &[(SubModelSpec, usize)],
        top: Option<&SubModelSpec>,
        scale: f64,
    ) -> Self {
        let classes = top.unwrap_or(own).width() as usize;
        let active = model(own, OWN, true, scale, 1);
        let sub_models: Vec<_> =
            (2..).zip(parts).map(|(seed, (spec, d))| model(spec, *d, false, scale, seed)).collect();
        let combiner = if top.is_some() { Combiner::Concat } else { Combiner::Sum };
        let specs = parts.iter().map(|(spec, _)| spec.clone()).collect();
        let whole = ModelSpec::new(combiner, own.clone(), specs, top.cloned()).unwrap();
        let inputs: usize = whole.widths().iter().sum();
        let top = top.map(|spec| model(spec, inputs, true, scale, 99));
        let network = match &top {
            None => KnownNetwork::summed(sub_models.clone()),
            Some(top) => KnownNetwork::under_top(sub_models.clone(), top.clone()).unwrap(),
        };
        Self { network, own: active, parts: sub_models, spec: whole, top, classes }
    }

    pub(crate) fn features(&self) -> usize {
        self.network.features()
    }

    /// The logits that are served for own features (OWN × n) and passive ones (d × n).
    pub(crate) fn served(&self, y: &DMatrix<f64>, x: &DMatrix<f64>) -> Logits {
        let mut outputs: Vec<LogitShare> = vec![self.own.outputs(y).unwrap()];
        let mut from = 0;
        for part in &self.parts {
            outputs.push(part.outputs(&x.rows(from, part.features()).into_owned()).unwrap());
            from += part.features();
        }
        let top = self.top.as_ref().map(|top| Parameters::of(&**top, top.snapshot()));
        heads::restore(&self.spec, self.classes as u32, top.as_ref())
            .unwrap()
            .combine(outputs)
            .unwrap()
    }

    /// What the adversary knows of the model, and its features with its own outputs below them.
    pub(crate) fn known(&self, y: &DMatrix<f64>) -> (KnownModel, FeatureBlock) {
        let outputs = self.own.outputs(y).unwrap().into_matrix();
        let (w, k) = (outputs.nrows(), self.classes);
        let w_act = match self.top {
            None => DMatrix::from_fn(k, OWN + w, |i, j| if j == OWN + i { 1.0 } else { 0.0 }),
            Some(_) => DMatrix::zeros(k, OWN + w),
        };
        let model = KnownModel::of_network(w_act, DVector::zeros(k), self.network.clone()).unwrap();
        let mut below = y.clone().resize_vertically(OWN + w, 0.0);
        below.rows_mut(OWN, w).copy_from(&outputs);
        (model, FeatureBlock::new(below).unwrap())
    }

    pub(crate) fn scores(&self, y: &DMatrix<f64>, x: &DMatrix<f64>) -> ReleasedScores {
        ReleasedScores::Probabilities(ConfidenceScores::softmax(self.served(y, x)).into_matrix())
    }
}

/// Worlds of every kind and combiner, with their width of rounding.
fn worlds() -> Vec<(World, f64)> {
    let residual = |width| {
        spec("residual", width, serde_json::json!({ "height": 3, "blocks": 1, "filters": [4] }))
    };
    let softmax = || SubModelSpec::softmax_regression(5);
    vec![
        (
            World::new(&mlp(5, &[8, 8], "sigmoid"), &[(mlp(5, &[8, 8], "sigmoid"), 4)], None, 1.5),
            1e-12,
        ),
        (
            World::new(
                &mlp(5, &[4], "tanh"),
                &[(mlp(5, &[7], "tanh"), 4), (softmax(), 3)],
                None,
                1.5,
            ),
            1e-12,
        ),
        (
            World::new(
                &softmax(),
                &[(mlp(5, &[], "relu"), 2), (mlp(5, &[3, 2, 4], "tanh"), 2)],
                None,
                1.5,
            ),
            1e-12,
        ),
        (
            World::new(
                &mlp(4, &[6], "tanh"),
                &[(mlp(3, &[5], "sigmoid"), 4), (mlp(6, &[], "relu"), 2)],
                Some(&mlp(5, &[9], "tanh")),
                1.0,
            ),
            1e-12,
        ),
        (World::new(&softmax(), &[(residual(5), 9)], None, 1.0), 1e-5),
        (
            World::new(&mlp(3, &[], "tanh"), &[(residual(6), 9)], Some(&mlp(4, &[], "tanh")), 1.0),
            1e-5,
        ),
    ]
}

#[test]
fn logits_and_slopes_are_those_of_the_model_in_service() {
    for (world, rounding) in &worlds() {
        let (d, n, k) = (world.features(), 11, world.classes);
        let (y, x) = (uniform(OWN, n, 0.0, 1.0, 7), uniform(d, n, 0.05, 0.95, 8));
        let (model, below) = world.known(&y);
        let released = world.scores(&y, &x);
        let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
        let logits = view.differentiable().unwrap();
        // The second block ends with the last record, which fills the places that are left over.
        for from in [0, 8] {
            let records: [usize; LANES] = std::array::from_fn(|l| (from + l).min(n - 1));
            let mut block = logits.block(records);
            let lanes: Vec<Lanes> =
                (0..d).map(|i| Lanes(records.map(|record| x[(i, record)]))).collect();
            let mut found = vec![Lanes::all(0.0); k];
            block.logits(&lanes, &mut found);
            let served = world.served(&y, &x);
            for (class, found) in found.iter().enumerate() {
                for (l, &record) in records.iter().enumerate() {
                    let off = (found.0[l] - served.matrix()[(class, record)]).abs();
                    assert!(off < *rounding * 10.0, "{:?}: {off:e}", world.network);
                }
            }
            let direction = uniform(k, 1, -1.0, 1.0, 9);
            let slopes: Vec<Lanes> = direction.iter().map(|v| Lanes::all(*v)).collect();
            let mut gradient = vec![Lanes::all(0.0); d];
            block.pull_back(&slopes, &mut gradient);
            // Thirty-two bits leave little of a small difference.
            let (step, tolerance) = if *rounding < 1e-9 { (1e-5, 1e-7) } else { (1e-3, 1e-2) };
            for feature in 0..d {
                for (l, &record) in records.iter().enumerate().take(3) {
                    let moved = |by: f64| {
                        let mut x = x.column(record).into_owned();
                        x[feature] += by;
                        let (y, x) =
                            (y.columns(record, 1).into_owned(), DMatrix::from_columns(&[x]));
                        world.served(&y, &x).matrix().dot(&direction)
                    };
                    let difference = (moved(step) - moved(-step)) / (2.0 * step);
                    let off =
                        (difference - gradient[feature].0[l]).abs() / difference.abs().max(1.0);
                    assert!(off < tolerance, "{:?}: feature {feature}: {off:e}", world.network);
                }
            }
        }
    }
}

/// Softmax regressions given as sub-models are attacked as the same weights given as weights.
#[test]
fn a_network_of_linear_parts_is_attacked_as_its_weights() {
    let (k, n) = (5, 20);
    let (w_act, bias) =
        (uniform(k, OWN, -2.0, 2.0, 1), uniform(k, 1, -1.0, 1.0, 2).column(0).into_owned());
    let parts: Vec<DMatrix<f64>> =
        [3, 4].into_iter().map(|d| uniform(k, d, -2.0, 2.0, d as u64)).collect();
    let restored = parts.iter().map(|w| {
        let linear = LinearParameters::new(w.clone(), None).unwrap();
        Arc::from(kinds::restore(&Parameters::from(&linear)).unwrap())
    });
    let network = KnownNetwork::summed(restored.collect());
    let w_pas =
        DMatrix::from_fn(k, 7, |i, j| if j < 3 { parts[0][(i, j)] } else { parts[1][(i, j - 3)] });
    let (y, x) = (uniform(OWN, n, 0.0, 1.0, 5), uniform(7, n, 0.0, 1.0, 6));
    let mut z = &w_act * &y + &w_pas * &x;
    z.column_iter_mut().for_each(|mut z| z += &bias);
    let scores = ConfidenceScores::softmax(Logits::new(z).unwrap()).into_matrix();
    let released = ReleasedScores::Probabilities(scores);
    let y = FeatureBlock::new(y).unwrap();
    let attack = GradientInversion::default().with_steps(300).unwrap();
    let found = |model: KnownModel| {
        let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
        attack::run(&attack, &view, 1).unwrap()
    };
    let of_weights = found(KnownModel::white_box(w_act.clone(), bias.clone(), w_pas).unwrap());
    let of_network = found(KnownModel::of_network(w_act, bias, network).unwrap());
    let off = (of_weights.estimates - of_network.estimates).amax();
    assert!(off < 1e-9, "{off:e}");
    assert!(of_network.solved.is_none(), "no equations are solved of a network");
}

/// What it is for: with fewer features than classes the scores of a perceptron give the features back, summed and under a top model,
/// and a guess of ½ does not.
#[test]
fn few_features_come_back_through_networks() {
    let own = mlp(6, &[8, 8], "sigmoid");
    let top = mlp(6, &[12], "tanh");
    for world in [
        World::new(&own, &[(mlp(6, &[8, 8], "sigmoid"), 3)], None, 3.0),
        World::new(&mlp(4, &[8], "tanh"), &[(mlp(4, &[8], "tanh"), 3)], Some(&top), 1.0),
    ] {
        let n = 40;
        let (y, x) = (uniform(OWN, n, 0.0, 1.0, 17), uniform(3, n, 0.0, 1.0, 18));
        let (model, below) = world.known(&y);
        let released = world.scores(&y, &x);
        let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
        let found = attack::run(&GradientInversion::default(), &view, 1).unwrap();
        // Other features may give the same scores: the median is what counts.
        let mut errors: Vec<f64> = (0..n)
            .map(|r| (found.estimates.column(r) - x.column(r)).norm_squared() / 3.0)
            .collect();
        errors.sort_by(f64::total_cmp);
        let guess = x.map(|v| (v - 0.5) * (v - 0.5)).mean();
        assert!(
            errors[n / 2] < 1e-6 && errors[3 * n / 4] < guess / 2.0,
            "{:?}: {errors:?}, {guess}",
            world.network
        );
    }
}

/// Attacks on equations say why they do not run, and a view without the sub-models stays a black box.
#[test]
fn attacks_on_equations_refuse_networks() {
    let world = World::new(&mlp(5, &[8], "tanh"), &[(mlp(5, &[8], "tanh"), 4)], None, 1.0);
    let (y, x) = (uniform(OWN, 6, 0.0, 1.0, 7), uniform(4, 6, 0.0, 1.0, 8));
    let (model, below) = world.known(&y);
    let released = world.scores(&y, &x);
    let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
    assert_eq!(
        attack::run(&*Method::HalfStar.build(&Settings::default()), &view, 1).unwrap_err(),
        AttackError::NotLinear
    );
    assert_eq!(AttackError::NotLinear.not_run(), FailureClass::Unsuitable);
    assert!(AttackError::NotLinear.to_string().contains("gradient_inversion"));
    for method in Method::all() {
        let built = method.build(&Settings::default());
        match attack::run(&*built, &view, 1) {
            Ok(found) => assert_eq!(found.estimates.shape(), (4, 6), "{method}"),
            Err(e) => assert_ne!(e, AttackError::NeedsParameters, "{method}"),
        }
    }
    let hidden =
        KnownModel::black_box(model.active_weights().clone(), model.bias().clone(), 4).unwrap();
    let view = AdversaryView::new(&hidden, &below, &released, Replacement::default()).unwrap();
    let refused = attack::run(&GradientInversion::default(), &view, 1).unwrap_err();
    assert_eq!(refused, AttackError::NeedsParameters);
    assert!(format!("{model:?}").contains("white box"));
}

/// Parts that do not fit the model are refused with what does not fit.
#[test]
fn networks_of_other_shapes_are_refused() {
    let part = model(&mlp(4, &[3], "tanh"), 2, false, 1.0, 1);
    let summed = KnownNetwork::summed(vec![part.clone()]);
    let refused =
        KnownModel::of_network(DMatrix::zeros(5, 3), DVector::zeros(5), summed).unwrap_err();
    assert!(refused.to_string().contains("4"), "{refused}");
    // A top model that takes fewer numbers than the parts give, and one for which the adversary has too few of its own.
    let top = |inputs| model(&mlp(5, &[], "tanh"), inputs, true, 1.0, 2);
    assert!(KnownNetwork::under_top(vec![part.clone()], top(4)).is_err());
    let network = KnownNetwork::under_top(vec![part], top(9)).unwrap();
    assert!(
        KnownModel::of_network(DMatrix::zeros(5, 4), DVector::zeros(5), network.clone()).is_err()
    );
    assert!(KnownModel::of_network(DMatrix::zeros(5, 5), DVector::zeros(5), network).is_ok());
}

/// Features with moments that are known: mean ½, and neighbours that go together.
pub(crate) fn related(d: usize, n: usize, seed: u64) -> (DMatrix<f64>, Prior) {
    let covariance = DMatrix::from_fn(d, d, |i, j| 0.03 * 0.7f64.powi(i.abs_diff(j) as i32));
    let lower = covariance.clone().cholesky().unwrap().l();
    // Sums of twelve uniform numbers are normal enough, and stay within six deviations.
    let normal = DMatrix::from_fn(d, n, |_, _| 0.0)
        + (0..12)
            .fold(DMatrix::zeros(d, n), |sum, at| sum + uniform(d, n, -0.5, 0.5, 50 * seed + at));
    let x = (lower * normal).map(|v| (v + 0.5).clamp(0.0, 1.0));
    (x, Prior::new(DVector::from_element(d, 0.5), covariance).unwrap())
}

fn with_prior<'a>(view: AdversaryView<'a>, prior: &'a Prior) -> AdversaryView<'a> {
    view.with_side_information(SideInformation { prior: Some(prior), ..SideInformation::default() })
}

fn run(method: Method, view: &AdversaryView<'_>) -> Reconstruction {
    attack::run(&*method.build(&Settings::default()), view, 1).unwrap()
}

/// Through tangents, softmax regressions give what their weights give: the first tangent is the system itself.
#[test]
fn tangents_of_a_linear_network_are_its_equations() {
    let (k, d, n) = (4, 6, 30);
    let (w_act, bias) =
        (uniform(k, OWN, -2.0, 2.0, 1), uniform(k, 1, -1.0, 1.0, 2).column(0).into_owned());
    let w_pas = uniform(k, d, -2.0, 2.0, 3);
    let linear = LinearParameters::new(w_pas.clone(), None).unwrap();
    let network =
        KnownNetwork::summed(vec![kinds::restore(&Parameters::from(&linear)).unwrap().into()]);
    let (y, (x, prior)) = (uniform(OWN, n, 0.0, 1.0, 5), related(d, n, 6));
    let mut z = &w_act * &y + &w_pas * &x;
    z.column_iter_mut().for_each(|mut z| z += &bias);
    let released = ReleasedScores::Probabilities(
        ConfidenceScores::softmax(Logits::new(z).unwrap()).into_matrix(),
    );
    let y = FeatureBlock::new(y).unwrap();
    for method in [Method::ConditionalMean, Method::Gaussian, Method::PosteriorMean] {
        let found = |model: KnownModel| {
            let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
            run(method, &with_prior(view, &prior)).estimates
        };
        let of_weights =
            found(KnownModel::white_box(w_act.clone(), bias.clone(), w_pas.clone()).unwrap());
        let of_network =
            found(KnownModel::of_network(w_act.clone(), bias.clone(), network.clone()).unwrap());
        let off = (of_weights - of_network).amax();
        assert!(off < 1e-6, "{method}: {off:e}");
    }
}

/// What tangents are for: more features than equations, through networks. The estimate has the scores, is likelier than the truth (which
/// has them too), and is nearer to it than the guess without scores, which gradient inversion from the same start is not.
#[test]
fn who_knows_moments_gains_through_networks() {
    let own = mlp(6, &[8, 8], "tanh");
    for world in [
        World::new(&own, &[(mlp(6, &[8, 8], "tanh"), 5), (mlp(6, &[8], "sigmoid"), 3)], None, 1.0),
        World::new(
            &mlp(4, &[8], "tanh"),
            &[(mlp(6, &[8], "tanh"), 8)],
            Some(&mlp(6, &[12], "tanh")),
            1.0,
        ),
    ] {
        let n = 60;
        let (y, (x, prior)) = (uniform(OWN, n, 0.0, 1.0, 17), related(8, n, 18));
        let (model, below) = world.known(&y);
        let released = world.scores(&y, &x);
        let view = with_prior(
            AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap(),
            &prior,
        );
        let error =
            |found: &Reconstruction| (&found.estimates - &x).norm_squared() / x.len() as f64;
        let found = run(Method::Gaussian, &view);
        let solved: Vec<usize> =
            (0..n).filter(|&r| found.outcomes[r].ended == Termination::Solved).collect();
        assert!(solved.len() * 10 > 9 * n, "{} of {n} records solved", solved.len());
        let metric = prior_metric();
        let distance = |x: &DMatrix<f64>, r: usize| {
            let off = x.column(r).map(|v| v - 0.5);
            (off.transpose() * &metric * &off)[0]
        };
        let ReleasedScores::Probabilities(scores) = world.scores(&y, &found.estimates) else {
            panic!()
        };
        let ReleasedScores::Probabilities(expected) = &released else { panic!() };
        let mut likelier = 0;
        for &r in &solved {
            let off = (scores.column(r) - expected.column(r)).amax();
            assert!(off < 1e-5, "record {r}: the scores are off by {off:e}");
            likelier += usize::from(distance(&found.estimates, r) <= distance(&x, r) + 1e-6);
        }
        // In another valley a record may be less likely than the truth.
        assert!(likelier * 10 > 8 * solved.len(), "{likelier} of {}", solved.len());
        let (gain, guess) = (error(&found), error(&run(Method::Imputation, &view)));
        let inverted = error(&run(Method::GradientInversion, &view));
        assert!(gain < 0.75 * guess, "{:?}: {gain} with scores, {guess} without", world.network);
        assert!(gain < inverted, "{:?}: {gain}, {inverted} without moments", world.network);
    }
}

fn prior_metric() -> DMatrix<f64> {
    DMatrix::from_fn(8, 8, |i: usize, j| 0.03 * 0.7f64.powi(i.abs_diff(j) as i32))
        .try_inverse()
        .unwrap()
}

/// A solve per step of each record has its limit, and says so.
#[test]
fn too_many_features_for_tangents_are_refused() {
    let world = World::new(&mlp(3, &[2], "tanh"), &[(mlp(3, &[2], "tanh"), 129)], None, 1.0);
    let (y, x) = (uniform(OWN, 2, 0.0, 1.0, 7), uniform(129, 2, 0.0, 1.0, 8));
    let (model, below) = world.known(&y);
    let released = world.scores(&y, &x);
    let prior = Prior::new(DVector::from_element(129, 0.5), DMatrix::identity(129, 129)).unwrap();
    let view = with_prior(
        AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap(),
        &prior,
    );
    let refused =
        attack::run(&*Method::Gaussian.build(&Settings::default()), &view, 1).unwrap_err();
    assert_eq!(
        (refused.not_run(), refused),
        (FailureClass::TooLarge, AttackError::Features { got: 129, limit: 128 })
    );
}

/// A descent that would go on for hours says so before it begins, and how many steps it may take.
#[test]
fn hours_of_steps_are_refused() {
    let world = World::new(&mlp(3, &[], "tanh"), &[(mlp(3, &[1000, 1000], "tanh"), 8)], None, 0.1);
    let (y, x) = (uniform(OWN, 8, 0.0, 1.0, 7), uniform(8, 8, 0.0, 1.0, 8));
    let (model, below) = world.known(&y);
    let released = world.scores(&y, &x);
    let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
    let long = GradientInversion::default().with_steps(1_000_000).unwrap();
    let refused = attack::run(&long, &view, 1).unwrap_err();
    let AttackError::Steps { what: "steps", got: 1_000_000, limit } = refused else {
        panic!("{refused}")
    };
    assert!((100_000..1_000_000).contains(&limit), "{limit}");
    assert_eq!(refused.not_run(), FailureClass::TooLarge);
    let none = AttackError::Steps { what: "steps", got: 1, limit: 0 }.to_string();
    assert!(none.contains("name fewer records") && !none.contains("lower"), "{none}");
    assert!(attack::run(&long.with_steps(2).unwrap(), &view, 1).is_ok());
}

/// Layer by layer (V remark 4): exact where each layer determines what goes into it, the clipped Half* on a network of one layer, and
/// refused where an activation has no inverse.
#[test]
fn networks_are_turned_back_layer_by_layer() {
    let n = 40;
    let y = uniform(OWN, n, 0.0, 1.0, 1);
    // 3 features, 4 and then 5 units, 7 classes: each system has full column rank. Two parties share the classes.
    let narrow = |features| {
        World::new(&mlp(7, &[4, 5], "sigmoid"), &[(mlp(7, &[4, 5], "tanh"), features)], None, 0.8)
    };
    let two = World::new(
        &mlp(9, &[4], "tanh"),
        &[(mlp(9, &[3], "sigmoid"), 2), (mlp(9, &[4], "tanh"), 3)],
        None,
        0.8,
    );
    for world in [narrow(3), two] {
        let x = uniform(world.features(), n, 0.05, 0.95, 2);
        let (model, below) = world.known(&y);
        let released = world.scores(&y, &x);
        let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
        let found = run(Method::HalfStarLayerwise, &view);
        assert!(
            (&found.estimates - &x).amax() < 1e-5,
            "{:?}: {}",
            world.network,
            (&found.estimates - &x).amax()
        );
    }
    // Linear parts: the clipped Half* on the weights.
    let linear = World::new(&mlp(4, &[3], "tanh"), &[(mlp(4, &[], "tanh"), 6)], None, 1.0);
    let x = uniform(6, n, 0.0, 1.0, 3);
    let (model, below) = linear.known(&y);
    let released = linear.scores(&y, &x);
    let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
    let layerwise = run(Method::HalfStarLayerwise, &view);
    let layers = linear.parts[0].layers().unwrap();
    let weights = KnownModel::white_box(
        model.active_weights().clone(),
        model.bias().clone(),
        layers[0].weights.clone(),
    )
    .unwrap();
    let view = AdversaryView::new(&weights, &below, &released, Replacement::default()).unwrap();
    let half_star = run(Method::ClampedHalfStar, &view);
    assert!((&layerwise.estimates - &half_star.estimates).amax() < 1e-9);
    assert_eq!(run(Method::HalfStarLayerwise, &view).estimates, half_star.estimates);
    // More features than the layers tell of: a guess within the box.
    let wide = narrow(8);
    let x = uniform(8, n, 0.0, 1.0, 4);
    let (model, below) = wide.known(&y);
    let released = wide.scores(&y, &x);
    let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
    assert!(
        run(Method::HalfStarLayerwise, &view).estimates.iter().all(|x| (0.0..=1.0).contains(x))
    );
    for (world, what) in [
        (World::new(&mlp(5, &[4], "relu"), &[(mlp(5, &[4], "relu"), 3)], None, 1.0), "relu"),
        (
            World::new(
                &mlp(4, &[6], "tanh"),
                &[(mlp(4, &[6], "tanh"), 3)],
                Some(&mlp(5, &[], "tanh")),
                1.0,
            ),
            "top model",
        ),
    ] {
        let x = uniform(3, n, 0.0, 1.0, 5);
        let (model, below) = world.known(&y);
        let released = world.scores(&y, &x);
        let view = AdversaryView::new(&model, &below, &released, Replacement::default()).unwrap();
        let refused =
            attack::run(&*Method::HalfStarLayerwise.build(&Settings::default()), &view, 1)
                .unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
        assert_eq!(refused.not_run(), FailureClass::Unsuitable);
    }
}
