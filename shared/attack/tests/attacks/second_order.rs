//! Inversion of networks by second order: the scores are met, the estimate is the nearest point that meets them, and whoever knows the
//! defense errs less than whoever does not.

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_attack as attack;
use vfl_attack::gradient_inversion::Order;
use vfl_attack::{
    AdversaryView, AttackError, GradientInversion, KnownModel, Method, Prior, Replacement,
    Settings, SideInformation, Termination,
};
use vfl_core::model::Link;
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::networks::{OWN, World, mlp, related, uniform};
use crate::simulated::{gaussian, privee, rounding, top_k};

/// A world with records of its own, and what the adversary is given of them.
struct Case {
    world: World,
    model: KnownModel,
    below: FeatureBlock,
    y: DMatrix<f64>,
    x: DMatrix<f64>,
}

impl Case {
    fn new(world: World, n: usize, seed: u64) -> Self {
        let (y, d) = (uniform(OWN, n, 0.0, 1.0, seed), world.features());
        let x = uniform(d, n, 0.0, 1.0, seed + 1);
        let (model, below) = world.known(&y);
        Self { world, model, below, y, x }
    }

    fn exact(&self) -> DMatrix<f64> {
        let ReleasedScores::Probabilities(c) = self.world.scores(&self.y, &self.x) else {
            panic!()
        };
        c
    }

    fn run(&self, method: &str, released: &ReleasedScores, settings: &[(&str, &str)]) -> Found {
        self.informed(method, released, settings, None)
    }

    fn informed(
        &self,
        method: &str,
        released: &ReleasedScores,
        settings: &[(&str, &str)],
        prior: Option<&Prior>,
    ) -> Found {
        let view = AdversaryView::new(&self.model, &self.below, released, Replacement::default());
        let side = SideInformation { prior, ..SideInformation::default() };
        let view = view.unwrap().with_side_information(side);
        let settings = Settings::read(settings.iter().copied()).unwrap();
        let built = method.parse::<Method>().unwrap().build(&settings);
        let found = attack::run(&*built, &view, 7).unwrap();
        Found {
            estimates: found.estimates,
            ended: found.outcomes.iter().map(|o| o.ended).collect(),
        }
    }

    fn error(&self, found: &Found) -> f64 {
        (&found.estimates - &self.x).norm_squared() / self.x.len() as f64
    }

    /// The largest relative error of the scores of each record.
    fn misfits(&self, found: &Found) -> Vec<f64> {
        let ReleasedScores::Probabilities(c) = self.world.scores(&self.y, &found.estimates) else {
            panic!()
        };
        let exact = self.exact();
        let of =
            |r: usize| c.column(r).zip_map(&exact.column(r), |a, b| (a / b - 1.0).abs()).amax();
        (0..self.x.ncols()).map(of).collect()
    }
}

struct Found {
    estimates: DMatrix<f64>,
    ended: Vec<Termination>,
}

/// Two hidden layers of eight, as J has them, at both parties; `d` passive features and six classes.
fn perceptron(d: usize, activation: &str) -> World {
    let layers = mlp(6, &[8, 8], activation);
    World::new(&layers, &[(layers.clone(), d)], None, 1.5)
}

fn under_top(d: usize) -> World {
    World::new(
        &mlp(4, &[8], "tanh"),
        &[(mlp(6, &[8], "tanh"), d)],
        Some(&mlp(6, &[12], "tanh")),
        1.0,
    )
}

/// With at most as many features as equations the scores have isolated preimages: nearly all records come back to 1e-6, and the descent of
/// first order leaves most of them unsolved.
#[test]
fn determined_records_come_back_exactly() {
    for world in [perceptron(4, "sigmoid"), perceptron(5, "tanh"), under_top(4)] {
        let case = Case::new(world, 60, 11);
        let released = ReleasedScores::Probabilities(case.exact());
        let found = case.run("gradient_inversion", &released, &[]);
        let misfits = case.misfits(&found);
        let solved = misfits.iter().filter(|m| **m < 1e-7).count();
        let exact = |found: &Found| {
            let off = (&found.estimates - &case.x).abs();
            off.column_iter().filter(|off| off.amax() < 1e-6).count()
        };
        let first = case.run("gradient_inversion", &released, &[("order", "first")]);
        let (second, first) = (exact(&found), exact(&first));
        assert!(solved >= 55, "{:?}: {solved} of 60", case.world.network);
        assert!(second >= 45 && second > first, "{:?}: {second}, {first}", case.world.network);
        // What it says of a record is what its scores say.
        for (ended, misfit) in found.ended.iter().zip(&misfits) {
            let expected =
                if *misfit < 1e-5 { Termination::Solved } else { Termination::StepLimit };
            assert_eq!(*ended, expected, "{misfit:e}");
        }
    }
}

/// Scores that no point of the box gives are nobody's: the search ends at its step limit.
#[test]
fn scores_that_nothing_gives_end_at_the_step_limit() {
    let case = Case::new(perceptron(2, "sigmoid"), 5, 15);
    let mut c = DMatrix::from_fn(6, 5, |i, j| ((i * 7 + j * 5) % 11 + 1) as f64);
    c.column_iter_mut().for_each(|mut c| {
        let sum = c.sum();
        c /= sum;
    });
    let found = case.run("gradient_inversion", &ReleasedScores::Probabilities(c), &[]);
    assert!(found.ended.iter().all(|ended| *ended == Termination::StepLimit), "{:?}", found.ended);
    assert!(found.estimates.iter().all(|x| (0.0..=1.0).contains(x)));
}

/// With more features than equations, and where units of relu are off: the estimate has the scores, lies in the box, and is nearer to ½ than the truth, which has them too.
/// So its error is below that of the descent of first order.
#[test]
fn undetermined_records_are_the_nearest_that_have_the_scores() {
    for world in
        [perceptron(12, "sigmoid"), perceptron(18, "tanh"), perceptron(4, "relu"), under_top(12)]
    {
        let case = Case::new(world, 60, 21);
        let released = ReleasedScores::Probabilities(case.exact());
        let found = case.run("gradient_inversion", &released, &[]);
        let misfits = case.misfits(&found);
        let solved: Vec<usize> = (0..60).filter(|&r| misfits[r] < 1e-6).collect();
        assert!(solved.len() >= 54, "{:?}: {} of 60", case.world.network, solved.len());
        assert!(found.estimates.iter().all(|x| (0.0..=1.0).contains(x)));
        let from_half = |x: &DMatrix<f64>, r: usize| x.column(r).map(|v| v - 0.5).norm_squared();
        let nearer = solved
            .iter()
            .filter(|&&r| from_half(&found.estimates, r) <= from_half(&case.x, r) + 1e-9);
        let nearer = nearer.count();
        assert!(nearer * 10 >= 9 * solved.len(), "{nearer} of {}", solved.len());
        let mut slopes: Vec<f64> =
            solved.iter().map(|&r| slope_along_surface(&case, &found.estimates, r)).collect();
        slopes.sort_by(f64::total_cmp);
        let still = slopes.iter().filter(|slope| **slope < 1e-2).count();
        assert!(still * 10 >= 9 * solved.len(), "{slopes:?}");
        let first = case.run("gradient_inversion", &released, &[("order", "first")]);
        let (second, first) = (case.error(&found), case.error(&first));
        assert!(second < 0.8 * first, "{:?}: {second} and {first}", case.world.network);
    }
}

/// The part of ½ − x that the scores do not change along and the box allows, relative to it: 0 at the nearest point. By a dense
/// least-squares problem on central differences of what is served.
fn slope_along_surface(case: &Case, estimates: &DMatrix<f64>, record: usize) -> f64 {
    let x = estimates.column(record).into_owned();
    let y = case.y.columns(record, 1).into_owned();
    let served = |x: &DVector<f64>| {
        let logits = case.world.served(&y, &DMatrix::from_columns(std::slice::from_ref(x)));
        let z = logits.matrix().column(0).into_owned();
        let mean = z.mean();
        z.map(|z| z - mean)
    };
    let slope = |i: usize| {
        let by = |step: f64| {
            let mut moved = x.clone();
            moved[i] += step;
            served(&moved)
        };
        (by(1e-5) - by(-1e-5)) / 2e-5
    };
    let away = x.map(|v| 0.5 - v);
    let free: Vec<usize> = (0..x.len()).filter(|&i| (1e-9..1.0 - 1e-9).contains(&x[i])).collect();
    if free.is_empty() {
        return 0.0;
    }
    let columns: Vec<DVector<f64>> = free.iter().map(|&i| slope(i)).collect();
    let jacobian = DMatrix::from_columns(&columns);
    let wanted = DVector::from_iterator(free.len(), free.iter().map(|&i| away[i]));
    let inverse = vfl_numerics::PseudoInverse::new(&jacobian).unwrap().matrix;
    let along = &wanted - &inverse * (&jacobian * &wanted);
    along.norm() / away.norm().max(1e-9)
}

/// Behind rounding and noise: an adversary that knows them errs less than one that takes the release for the scores, and less than ½.
#[test]
fn whoever_knows_the_defense_of_a_network_errs_less() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    for world in [perceptron(8, "sigmoid"), under_top(8)] {
        let case = Case::new(world, 80, 31);
        let c = case.exact();
        let half = case.x.map(|v| (v - 0.5) * (v - 0.5)).mean();
        for (policy, method, released) in [
            ("rounding (decimals = 3)", "interval", rounding(&c, 3)),
            ("rounding (decimals = 2)", "interval", rounding(&c, 2)),
            ("top_k (k = 3)", "interval", top_k(&c, 3, false)),
            ("gaussian_noise (sigma = 0.01)", "averaging", gaussian(&c, 0.01, &mut rng)),
        ] {
            let aware = case.error(&case.run(method, &released, &[("policy", policy)]));
            let unaware = case.error(&case.run("gradient_inversion", &released, &[]));
            let said = format!("{:?}, {policy}: {aware}, {unaware}, {half}", case.world.network);
            assert!(aware < 0.9 * unaware && aware < half, "{said}");
        }
        // Scores as they are leave nothing to know.
        let released = ReleasedScores::Probabilities(c);
        let aware = case.run("interval", &released, &[("policy", "none")]);
        let plain = case.run("gradient_inversion", &released, &[]);
        assert!((case.error(&aware) - case.error(&plain)).abs() < 1e-3);
    }
}

/// One-vs-rest models have rounding and noise known to their adversaries too.
#[test]
fn whoever_knows_the_defense_of_one_vs_rest_errs_less() {
    let (k, d, n) = (5, 7, 80);
    let weights = uniform(k, OWN + d, -3.0, 3.0, 5);
    let bias = uniform(k, 1, -1.0, 1.0, 6).column(0).into_owned();
    let (y, x) = (uniform(OWN, n, 0.0, 1.0, 7), uniform(d, n, 0.0, 1.0, 8));
    let (own, passive) =
        (weights.columns(0, OWN).into_owned(), weights.columns(OWN, d).into_owned());
    let mut z = &own * &y + &passive * &x;
    z.column_iter_mut().for_each(|mut z| z += &bias);
    let mut c = z.map(|z| 1.0 / (1.0 + (-z).exp()));
    c.column_iter_mut().for_each(|mut c| {
        let sum = c.sum();
        c /= sum;
    });
    let model = KnownModel::white_box(own, bias, passive).unwrap().with_link(Link::OneVsRest);
    let y = FeatureBlock::new(y).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    for (policy, method, released) in [
        ("rounding (decimals = 2)", "interval", rounding(&c, 2)),
        ("gaussian_noise (sigma = 0.01)", "averaging", gaussian(&c, 0.01, &mut rng)),
    ] {
        let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
        let error = |method: &str, settings: &[(&str, &str)]| {
            let settings = Settings::read(settings.iter().copied()).unwrap();
            let built = method.parse::<Method>().unwrap().build(&settings);
            let found = attack::run(&*built, &view, 7).unwrap();
            (&found.estimates - &x).norm_squared() / x.len() as f64
        };
        let (aware, unaware) =
            (error(method, &[("policy", policy)]), error("gradient_inversion", &[]));
        assert!(aware < unaware, "{policy}: {aware} and {unaware}");
    }
}

/// Whoever knows moments as well errs less than either alone: without the moments, without the scores, and without the defense.
#[test]
fn moments_and_a_known_defense_go_together_through_networks() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    for world in [perceptron(8, "sigmoid"), under_top(8)] {
        let n = 80;
        let (y, (x, prior)) = (uniform(OWN, n, 0.0, 1.0, 41), related(8, n, 42));
        let (model, below) = world.known(&y);
        let case = Case { world, model, below, y, x };
        let c = case.exact();
        for (policy, method, released) in [
            ("rounding (decimals = 2)", "interval", rounding(&c, 2)),
            ("gaussian_noise (sigma = 0.01)", "averaging", gaussian(&c, 0.01, &mut rng)),
        ] {
            let known = [("policy", policy)];
            let of = |method, settings: &[(&str, &str)]| {
                case.error(&case.informed(method, &released, settings, Some(&prior)))
            };
            let both = of("posterior_mean", &known);
            let (alone, control) = (of(method, &known), of("imputation", &[]));
            let unaware = of("posterior_mean", &[("evidence", "half_star")]);
            let said = format!("{policy}: {both}, {alone}, {control}, {unaware}");
            assert!(both < alone && both < control && both < unaware, "{said}");
        }
    }
}

/// The finer the rounding, the smaller the error, down to that of the exact scores.
#[test]
fn more_decimals_never_tell_less() {
    for d in [4, 10] {
        let case = Case::new(perceptron(d, "tanh"), 60, 81);
        let c = case.exact();
        let error = |decimals: u32| {
            let policy = format!("rounding (decimals = {decimals})");
            case.error(&case.run("interval", &rounding(&c, decimals), &[("policy", &policy)]))
        };
        let errors: Vec<f64> = [1, 2, 3, 4, 6, 8, 10].map(error).to_vec();
        let exact = ReleasedScores::Probabilities(c);
        let exact = case.error(&case.run("gradient_inversion", &exact, &[]));
        for pair in errors.windows(2) {
            assert!(pair[1] < 1.1 * pair[0] + 1e-4, "{d}: {errors:?}, {exact}");
        }
        assert!(errors[6] < 1.2 * exact + 1e-3, "{d}: {errors:?}, {exact}");
    }
}

/// A temperature hides nothing from one that knows it, through networks too, and with moments.
#[test]
fn a_known_temperature_is_undone_through_networks() {
    let world = perceptron(8, "sigmoid");
    let n = 60;
    let (y, (x, prior)) = (uniform(OWN, n, 0.0, 1.0, 91), related(8, n, 92));
    let (model, below) = world.known(&y);
    let case = Case { world, model, below, y, x };
    let c = case.exact();
    let mut cooled = c.map(f64::sqrt);
    cooled.column_iter_mut().for_each(|mut c| {
        let sum = c.sum();
        c /= sum;
    });
    let (exact, cooled) = (ReleasedScores::Probabilities(c), ReleasedScores::Probabilities(cooled));
    let known = [("policy", "temperature (temperature = 2.0)")];
    let plain = case.run("gradient_inversion", &exact, &[]);
    let undone = case.run("noise_direction", &cooled, &known);
    assert!((case.error(&plain) - case.error(&undone)).abs() < 1e-3);
    let of = |released, settings: &[(&str, &str)]| {
        case.error(&case.informed("posterior_mean", released, settings, Some(&prior)))
    };
    let (plain, undone, unaware) = (of(&exact, &[]), of(&cooled, &known), of(&cooled, &[]));
    assert!((plain - undone).abs() < 1e-3 && undone < unaware, "{plain}, {undone}, {unaware}");
}

/// PRIVEE with a known scale: its adversary errs less than one that takes the release for the scores.
#[test]
fn whoever_knows_privee_errs_less_through_networks() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let case = Case::new(perceptron(8, "sigmoid"), 80, 101);
    let released = privee(&case.exact(), &[4.84; 6], false, &mut rng);
    let aware =
        case.error(&case.run("interval", &released, &[("policy", "privee_dp (sigma = 4.84)")]));
    let unaware = case.error(&case.run("gradient_inversion", &released, &[]));
    let half = case.x.map(|v| (v - 0.5) * (v - 0.5)).mean();
    assert!(aware < unaware && aware < half, "{aware}, {unaware}, {half}");
}

/// A score that is 0 to a double leaves its record with the others, and a policy that no attack through networks knows leaves the posterior
/// with the scores as they are.
#[test]
fn odd_releases_leave_the_attacks_running() {
    let case = Case::new(perceptron(8, "sigmoid"), 10, 111);
    let mut c = case.exact();
    let plain = case.run("gradient_inversion", &ReleasedScores::Probabilities(c.clone()), &[]);
    c[(2, 4)] = 0.0;
    let sum = c.column(4).sum();
    c.column_mut(4).iter_mut().for_each(|c| *c /= sum);
    let zero = case.run("gradient_inversion", &ReleasedScores::Probabilities(c.clone()), &[]);
    for r in (0..10).filter(|r| *r != 4) {
        assert_eq!(zero.estimates.column(r), plain.estimates.column(r), "record {r}");
    }
    let (_, prior) = related(8, 10, 6);
    let policy = [("policy", "gaussian_noise (sigma = 0.1) then rounding (decimals = 2)")];
    let rounded = rounding(&c, 2);
    let found = case.informed("posterior_mean", &rounded, &policy, Some(&prior));
    assert!(found.estimates.iter().all(|x| (0.0..=1.0).contains(x)));
    // Kept scores that were divided by their sum are no scores: the attack says so.
    let kept = top_k(&case.exact(), 3, true);
    let view = AdversaryView::new(&case.model, &case.below, &kept, Replacement::default()).unwrap();
    let settings = Settings::read([("policy", "top_k (k = 3)")]).unwrap();
    let refused = attack::run(&*Method::Interval.build(&settings), &view, 1).unwrap_err();
    assert!(refused.to_string().contains("divided by the sum"), "{refused}");
    // No record is no estimate.
    let none = Case::new(perceptron(8, "sigmoid"), 0, 1);
    let released = ReleasedScores::Probabilities(DMatrix::zeros(6, 0));
    let found = none.run("gradient_inversion", &released, &[]);
    assert_eq!(found.estimates.shape(), (8, 0));
}

/// An attack that would take hours says so, or leaves the records to the descent.
#[test]
fn hours_of_second_order_are_refused() {
    let world = World::new(&mlp(3, &[], "tanh"), &[(mlp(3, &[1000, 1000], "tanh"), 8)], None, 0.1);
    let case = Case::new(world, 200, 1);
    let released = ReleasedScores::Probabilities(case.exact());
    let view =
        AdversaryView::new(&case.model, &case.below, &released, Replacement::default()).unwrap();
    let second = GradientInversion::default().with_order(Order::Second);
    let refused = attack::run(&second, &view, 1).unwrap_err();
    assert!(matches!(refused, AttackError::Steps { .. }), "{refused}");
}

/// The likeliest point beside noise, against random steps from it on the same sum of squares.
#[test]
fn no_small_step_lowers_the_objective_of_the_likeliest_point() {
    let case = Case::new(perceptron(6, "tanh"), 20, 51);
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let sigma = 0.02;
    let released = gaussian(&case.exact(), sigma, &mut rng);
    let (ReleasedScores::Numbers(noisy) | ReleasedScores::Probabilities(noisy)) = &released else {
        panic!()
    };
    let policy = format!("gaussian_noise (sigma = {sigma})");
    let found = case.run("averaging", &released, &[("policy", policy.as_str())]);
    let objective = |x: &DMatrix<f64>| -> Vec<f64> {
        let ReleasedScores::Probabilities(c) = case.world.scores(&case.y, x) else { panic!() };
        (0..20)
            .map(|r| {
                let misfit = (c.column(r) - noisy.column(r)).norm_squared() / (sigma * sigma);
                misfit + 12.0 * x.column(r).map(|v| v - 0.5).norm_squared()
            })
            .collect()
    };
    let least = objective(&found.estimates);
    for step in 0..200 {
        let by = uniform(6, 20, -1e-3, 1e-3, 1000 + step);
        let moved = (&found.estimates + by).map(|v| v.clamp(0.0, 1.0));
        for (r, (moved, least)) in objective(&moved).iter().zip(&least).enumerate() {
            assert!(*moved > least - 1e-4 * (1.0 + least), "record {r}: {moved} and {least}");
        }
    }
}

/// Exact scores of networks are inverted by second order, all others by first.
#[test]
fn the_order_is_chosen_by_the_release_and_may_be_asked_for() {
    let case = Case::new(perceptron(8, "sigmoid"), 10, 61);
    let c = case.exact();
    let exact = ReleasedScores::Probabilities(c.clone());
    let automatic = case.run("gradient_inversion", &exact, &[]);
    assert_eq!(
        automatic.estimates,
        case.run("gradient_inversion", &exact, &[("order", "second")]).estimates
    );
    // A setting of the descent is of first order.
    let first = case.run("gradient_inversion", &exact, &[("order", "first")]);
    let steps = case.run("gradient_inversion", &exact, &[("steps", "10000")]);
    assert_eq!(first.estimates, steps.estimates);
    assert_ne!(first.estimates, automatic.estimates);
    // Rounded scores are nobody's: without the policy the descent is of first order.
    let rounded = rounding(&c, 2);
    let plain = case.run("gradient_inversion", &rounded, &[]);
    assert_eq!(
        plain.estimates,
        case.run("gradient_inversion", &rounded, &[("order", "first")]).estimates
    );
    let view =
        AdversaryView::new(&case.model, &case.below, &rounded, Replacement::default()).unwrap();
    let second = GradientInversion::default().with_order(Order::Second);
    let refused = attack::run(&second, &view, 1).unwrap_err();
    assert!(matches!(refused, AttackError::Unfit { expected: "exact scores", .. }), "{refused}");
    assert!(Settings::read([("order", "third")]).is_err());
}

/// The estimates do not depend on the run, nor on the threads.
#[test]
fn a_record_is_inverted_the_same_way_twice() {
    let case = Case::new(perceptron(9, "tanh"), 12, 71);
    let released = ReleasedScores::Probabilities(case.exact());
    let once = case.run("gradient_inversion", &released, &[]);
    assert_eq!(once.estimates, case.run("gradient_inversion", &released, &[]).estimates);
}
