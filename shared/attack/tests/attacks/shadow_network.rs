//! Shadows that are networks: the gradients they are trained by against central differences, linear ones against least squares, and what
//! the attack through them is for.

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, Architecture, AttackError, AuxiliaryRecords, Descent, FailureClass, KnownModel,
    KnownNetwork, Method, NetworkTraining, Reconstruction, Replacement, Settings, ShadowBias,
    ShadowEstimate, ShadowFit, ShadowLoss, SideInformation, fit_shadow,
};
use vfl_core::metrics::mse;
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{SubModel, SubModelSpec, kinds};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use crate::fixture::satellite;

const GRADIENT: ShadowFit = ShadowFit::Gradient(Descent { steps: 1, tolerance: 0.0 });

fn uniform(rows: usize, columns: usize, low: f64, high: f64, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| low + (high - low) * rng.random::<f64>())
}

fn block(m: DMatrix<f64>) -> FeatureBlock {
    FeatureBlock::new(m).unwrap()
}

fn perceptron(
    hidden: &[u32],
    activation: &str,
    k: usize,
    d: usize,
    scale: f64,
) -> Box<dyn SubModel> {
    let settings = serde_json::json!({ "hidden": hidden, "activation": activation });
    let spec = SubModelSpec::new("mlp", k as u32, settings.as_object().unwrap().clone()).unwrap();
    let mut model =
        kinds::start(&SubModelOrigin { spec, features: d, active: true, start: start_of(1) })
            .unwrap();
    for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
        tensor.values.copy_from_slice(
            uniform(tensor.values.len(), 1, -scale, scale, 70 + at as u64).as_slice(),
        );
    }
    model
}

/// A model whose passive part is any sub-model, with two features of the adversary's own.
struct World {
    w_act: DMatrix<f64>,
    bias: DVector<f64>,
    part: Box<dyn SubModel>,
}

impl World {
    fn new(part: Box<dyn SubModel>) -> Self {
        let k = part.spec().width() as usize;
        let bias = DVector::from_iterator(k, uniform(k, 1, -1.0, 1.0, 3).iter().copied());
        Self { w_act: uniform(k, 2, -1.0, 1.0, 2), bias, part }
    }

    fn hidden(&self) -> KnownModel {
        KnownModel::black_box(self.w_act.clone(), self.bias.clone(), self.part.features()).unwrap()
    }

    /// Own features, passive ones and exact scores of `n` records.
    fn records(&self, n: usize, seed: u64) -> (FeatureBlock, DMatrix<f64>, ReleasedScores) {
        let (y, x) =
            (uniform(2, n, 0.0, 1.0, seed), uniform(self.part.features(), n, 0.0, 1.0, seed + 1));
        let mut z = &self.w_act * &y + self.part.outputs(&x).unwrap().matrix();
        z.column_iter_mut().for_each(|mut z| z += &self.bias);
        let scores = ConfidenceScores::softmax(Logits::new(z).unwrap()).into_matrix();
        (block(y), x, ReleasedScores::Probabilities(scores))
    }

    fn auxiliary(&self, n: usize) -> AuxiliaryRecords {
        let (y, x, released) = self.records(n, 500);
        AuxiliaryRecords::new(y, block(x), released, Replacement::default()).unwrap()
    }

    /// The attack with these settings on 40 records, `n` others known; with the truth.
    fn attack(
        &self,
        n: usize,
        settings: &[(&str, &str)],
    ) -> (Result<Reconstruction, AttackError>, DMatrix<f64>) {
        let (y, x, released) = self.records(40, 900);
        let (model, auxiliary) = (self.hidden(), self.auxiliary(n));
        let prior = auxiliary.prior().unwrap();
        let side = SideInformation {
            auxiliary: Some(&auxiliary),
            prior: Some(&prior),
            ..SideInformation::default()
        };
        let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
        let settings = Settings::read(settings.iter().copied()).unwrap();
        (
            attack::run(
                &*Method::ShadowNetwork.build(&settings),
                &view.with_side_information(side),
                5,
            ),
            x,
        )
    }
}

#[test]
fn gradients_are_those_of_central_differences() {
    for hidden in [&[][..], &[5], &[4, 3]] {
        for activation in ["sigmoid", "tanh", "relu"] {
            let world = World::new(perceptron(&[3], "tanh", 4, 3, 1.0));
            let mut shadow = perceptron(hidden, activation, 4, 3, 0.8);
            for fit in [ShadowFit::LeastSquares, GRADIENT] {
                let loss =
                    ShadowLoss::new(&world.hidden(), &world.auxiliary(6), fit, 0.03).unwrap();
                let (_, gradient) = loss.at(&mut *shadow).unwrap();
                assert_eq!(gradient.len(), shadow.tensors().len());
                for (which, slopes) in gradient.iter().enumerate() {
                    for (at, slope) in slopes.iter().enumerate() {
                        let mut moved = |by: f64| {
                            shadow.tensors_mut()[which].values[at] += by;
                            let found = loss.at(&mut *shadow).unwrap().0;
                            shadow.tensors_mut()[which].values[at] -= by;
                            found
                        };
                        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                        let off = (difference - slope).abs() / (1.0 + slope.abs());
                        assert!(
                            off < 1e-6,
                            "{hidden:?} {activation} {fit:?}, block {which}, {at}: {slope}, {difference}"
                        );
                    }
                }
            }
        }
    }
}

/// A linear shadow of a linear model, from many records: J W and J b are those of least squares in one step, and of the model.
#[test]
fn a_linear_shadow_is_that_of_least_squares() {
    let world = World::new(perceptron(&[], "tanh", 4, 5, 1.5));
    let (model, auxiliary) = (world.hidden(), world.auxiliary(60));
    let exact =
        ShadowEstimate::fit(&model, &auxiliary, ShadowFit::LeastSquares, ShadowBias::Unknown)
            .unwrap();
    let linear = Architecture { hidden: Vec::new(), ..Architecture::default() };
    for (fit, tolerance) in [(ShadowFit::LeastSquares, 1e-9), (GRADIENT, 1e-9)] {
        let training = NetworkTraining { l2: 0.0, starts: 1, ..NetworkTraining::of(fit) };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let fitted = fit_shadow(
            &model,
            &auxiliary,
            &linear,
            (fit, ShadowBias::Unknown),
            &training,
            &mut rng,
        )
        .unwrap();
        assert_eq!(fitted.parameters, 24);
        assert!(fitted.divergence.1 < 1e-6 && fitted.divergence.0 > 0.1, "{:?}", fitted.divergence);
        let found = fitted.in_place(&model).unwrap();
        let differences =
            |w: &DMatrix<f64>| DMatrix::from_fn(3, 5, |i, j| w[(i + 1, j)] - w[(i, j)]);
        let off =
            (differences(found.passive_weights().unwrap()) - differences(&exact.w_pas)).amax();
        let bias = found.bias() - (&world.bias + &exact.bias_shift);
        println!("{fit:?}: weights {off:e} off, bias {:e}", (bias.max() - bias.min()));
        assert!(off < tolerance && bias.max() - bias.min() < tolerance, "{fit:?}: {off:e}");
    }
}

/// Softmax regression and a strongly curved perceptron, with guesses simpler than the truth, equal and larger. Networks of smooth
/// activations tell more than ½ of both; a linear guess does so where the truth is linear, and of the perceptron it is the worst
/// (J section 5.3.2).
#[test]
fn networks_of_every_size_tell_more_than_a_linear_guess() {
    let linear: &[(&str, &str)] = &[("shadow", "linear"), ("base", "clamped_half_star")];
    let networks: &[&[(&str, &str)]] = &[
        &[("shadow", "6"), ("shadow_activation", "tanh")],
        &[("shadow", "8,8"), ("shadow_activation", "tanh"), ("base", "posterior_mean")],
        &[("shadow", "8"), ("shadow_fit", "gradient"), ("shadow_activation", "relu")],
        &[("shadow", "6"), ("base", "gaussian"), ("shadow_bias", "known")],
    ];
    for hidden in [&[][..], &[6]] {
        let world = World::new(perceptron(hidden, "tanh", 5, 3, 2.0));
        let error = |settings: &[(&str, &str)]| {
            let quick = [("shadow_steps", "2000"), ("shadow_starts", "1"), ("steps", "2000")];
            let (found, truth) = world.attack(60, &[&quick[..], settings].concat());
            let found = found.unwrap();
            assert!(
                found.remarks.iter().any(|said| said.contains("was fitted to 60 records")),
                "{:?}",
                found.remarks
            );
            let (error, half) = (
                mse(&found.estimates, &truth).unwrap().overall,
                truth.map(|x| (x - 0.5).powi(2)).mean(),
            );
            println!("{hidden:?} {settings:?}: {error:.4}, ½ {half:.4}");
            (error, half)
        };
        let (by_line, half) = error(linear);
        for settings in networks {
            let (found, _) = error(settings);
            // Of so curved a network a guess of another activation may tell less than ½ does, too.
            let alike = hidden.is_empty() || !settings.contains(&("shadow_activation", "relu"));
            assert!(!alike || found < half, "{hidden:?} {settings:?}: {found}, {half}");
            assert!(
                hidden.is_empty() || found < by_line,
                "{settings:?}: {found}, a linear guess {by_line}"
            );
        }
        assert!(!hidden.is_empty() || by_line < 1e-6, "{by_line}");
    }
}

/// The generator learns through a shadow what it learns through the network itself.
#[test]
fn the_generator_goes_through_a_shadow() {
    let world = World::new(perceptron(&[6], "tanh", 5, 3, 2.0));
    let (found, truth) =
        world.attack(60, &[("shadow", "6"), ("base", "generative_regression"), ("epochs", "40")]);
    let through = mse(&found.unwrap().estimates, &truth).unwrap().overall;
    let network = KnownNetwork::summed(vec![perceptron(&[6], "tanh", 5, 3, 2.0).into()]);
    let model = KnownModel::of_network(world.w_act.clone(), world.bias.clone(), network).unwrap();
    let (y, _, released) = world.records(40, 900);
    let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
    let settings = Settings::read([("epochs", "40")]).unwrap();
    let found = attack::run(&*Method::GenerativeRegression.build(&settings), &view, 5).unwrap();
    let known = mse(&found.estimates, &truth).unwrap().overall;
    println!(
        "generative regression: {through:.4} through the shadow, {known:.4} through the network"
    );
    assert!((through / known - 1.0).abs() < 0.3, "{through} {known}");
}

/// Of few records a fit without a penalty learns what is not so: with the default's penalty the shadow's scores are nearer to the true ones
/// on records it has not seen, in the mean over several sets of records.
#[test]
fn the_penalty_helps_where_records_are_few() {
    let fit = ShadowFit::LeastSquares;
    let off = |l2: f64| {
        let of_seed = |seed: u64| {
            let world = World::new(perceptron(&[], "tanh", 4, 8, 1.0));
            let (y, x, released) = world.records(15, 40 * seed);
            let known =
                AuxiliaryRecords::new(y, block(x), released, Replacement::default()).unwrap();
            let training =
                NetworkTraining { steps: 3000, starts: 1, l2, ..NetworkTraining::of(fit) };
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let guess = Architecture::default();
            let bias = ShadowBias::Unknown;
            let mut shadow =
                fit_shadow(&world.hidden(), &known, &guess, (fit, bias), &training, &mut rng)
                    .unwrap();
            let unseen =
                ShadowLoss::new(&world.hidden(), &world.auxiliary(200), GRADIENT, 0.0).unwrap();
            unseen.at(&mut *shadow.model).unwrap().0
        };
        (1..=6).map(of_seed).sum::<f64>() / 6.0
    };
    let (with, without) = (off(NetworkTraining::of(fit).l2), off(0.0));
    println!("divergence on others: {with:.5} with the penalty, {without:.5} without");
    assert!(with < without, "{with} {without}");
}

/// The published model of satellite, softmax regression, under a guess that it is a perceptron.
#[test]
fn a_network_is_guessed_where_softmax_regression_is_served() {
    let (published, d) = (satellite(), 5);
    let scores = published.scores();
    let window = published.window(0, d);
    let of = |from: usize, n: usize| {
        let x = window.truth.columns(from, n).into_owned();
        let y = block(window.active.matrix().columns(from, n).into_owned());
        let released = ReleasedScores::Probabilities(scores.matrix().columns(from, n).into_owned());
        (y, x, released)
    };
    let model = &window.model;
    let hidden =
        KnownModel::black_box(model.active_weights().clone(), model.bias().clone(), d).unwrap();
    let (y, truth, released) = of(0, 50);
    let view = || AdversaryView::new(&hidden, &y, &released, Replacement::default()).unwrap();
    let error = |n: usize| {
        let (y, x, released) = of(1000, n);
        let known = AuxiliaryRecords::new(y, block(x), released, Replacement::default()).unwrap();
        let side = SideInformation { auxiliary: Some(&known), ..SideInformation::default() };
        let settings = Settings::read([("start", "half"), ("steps", "3000")]).unwrap();
        let attack = Method::ShadowNetwork.build(&settings);
        let found = attack::run(&*attack, &view().with_side_information(side), 1).unwrap();
        mse(&found.estimates, &truth).unwrap().overall
    };
    let (few, enough) = (error(7), error(70));
    let half = truth.map(|x| (x - 0.5).powi(2)).mean();
    println!("satellite, d = 5: 7 records {few:.4}, 70 records {enough:.4}, ½ {half:.4}");
    assert!(enough < 0.5 * half && enough < 0.5 * few, "{few} {enough} {half}");
}

#[test]
fn what_cannot_be_is_refused() {
    for (key, value) in [
        ("shadow", "0"),
        ("shadow", "8;8"),
        ("shadow", "5000"),
        ("shadow_activation", "gelu"),
        ("shadow_steps", "0"),
        ("shadow_rate", "0"),
        ("shadow_l2", "-1"),
        ("shadow_starts", "101"),
    ] {
        let refused = Settings::read([(key, value)]).unwrap_err().to_string();
        assert!(refused.contains(&format!("setting `{key}` is")), "{refused}");
    }
    let world = World::new(perceptron(&[4], "tanh", 4, 3, 1.0));
    // Too much work, and a base that takes weights.
    let refused =
        world.attack(60, &[("shadow", "4096,8"), ("shadow_steps", "1000000")]).0.unwrap_err();
    assert!(
        refused.not_run() == FailureClass::TooLarge
            && refused.to_string().contains("`shadow_steps`"),
        "{refused}"
    );
    let quick = [("shadow_steps", "1"), ("base", "half_star")];
    assert_eq!(world.attack(9, &quick).0.unwrap_err(), AttackError::NotLinear);
    // No record, and records of other features.
    let (y, _, released) = world.records(3, 1);
    let model = world.hidden();
    let view = || AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
    let attack = Method::ShadowNetwork.build(&Settings::default());
    let refused = attack::run(&*attack, &view(), 1).unwrap_err();
    assert!(
        refused.not_run() == FailureClass::Missing
            && refused.to_string().contains("passive features"),
        "{refused}"
    );
    let other = World::new(perceptron(&[4], "tanh", 4, 2, 1.0)).auxiliary(5);
    let side = SideInformation { auxiliary: Some(&other), ..SideInformation::default() };
    let refused = attack::run(&*attack, &view().with_side_information(side), 1).unwrap_err();
    assert!(refused.to_string().contains("auxiliary passive features"), "{refused}");
    // More weights than a layer may have are told by the kind.
    let wide = Architecture { hidden: vec![4096, 4096], ..Architecture::default() };
    let training = NetworkTraining::of(GRADIENT);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let refused = fit_shadow(
        &model,
        &world.auxiliary(5),
        &wide,
        (GRADIENT, ShadowBias::Known),
        &training,
        &mut rng,
    )
    .unwrap_err();
    assert!(
        matches!(refused, AttackError::Shadow(_)) && refused.not_run() == FailureClass::Settings,
        "{refused}"
    );
    // A label has no logarithms of scores; the divergence takes it.
    let labels = ReleasedScores::Labels { classes: 4, labels: vec![0, 1, 2, 3, 0] };
    let (y5, x5, _) = world.records(5, 9);
    let labelled =
        AuxiliaryRecords::new(y5, block(x5), labels, Replacement::new(0.01).unwrap()).unwrap();
    let side = SideInformation { auxiliary: Some(&labelled), ..SideInformation::default() };
    let settings = Settings::read([("shadow_steps", "50"), ("steps", "50")]).unwrap();
    let found = attack::run(
        &*Method::ShadowNetwork.build(&settings),
        &view().with_side_information(side),
        1,
    )
    .unwrap();
    assert_eq!(found.estimates.shape(), (3, 3));
}
