//! Gradient inversion against golden vectors, a plain descent written out, finite differences, and what must hold of any
//! descent.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use vfl_attack::gradient_inversion::{GradientInversionError, Iterate, Loss, MAX_STEPS, Start};
use vfl_attack::{
    AdversaryView, Attack, AttackError, GradientInversion, KnownModel, Method, Reconstruction,
    Replacement, Settings, Status, Termination,
};
use vfl_core::metrics::mse;
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::fixture::{golden, matrix, satellite, scores, undefended};

fn generator(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn reconstruct(attack: GradientInversion, view: &AdversaryView) -> Reconstruction {
    attack.reconstruct(view, &mut generator(5)).unwrap()
}

fn objectives(found: &Reconstruction) -> Vec<f64> {
    found.outcomes.iter().map(|o| o.objective).collect()
}

/// All of these steps, at this rate.
fn steps(steps: u32, rate: f64) -> GradientInversion {
    let all = GradientInversion::default().with_stop_loss(0.0).unwrap();
    all.with_steps(steps).unwrap().with_learning_rate(rate).unwrap()
}

/// A model, n records, and scores for them.
#[derive(Debug, Clone)]
struct World {
    w_act: DMatrix<f64>,
    w_pas: DMatrix<f64>,
    bias: DVector<f64>,
    y: DMatrix<f64>,
    x: DMatrix<f64>,
    c: DMatrix<f64>,
}

impl World {
    /// k classes, d + 2 features, n records; weights in [−2, 2), a third of the features at 0 or 1.
    fn draw(k: usize, d: usize, n: usize, seed: u64) -> Self {
        let mut rng = generator(seed);
        let mut uniform = |r, c, low: f64, high: f64| {
            DMatrix::from_fn(r, c, |_, _| low + (high - low) * rng.random::<f64>())
        };
        let (w, bias) =
            (uniform(k, d + 2, -2.0, 2.0), uniform(k, 1, -1.0, 1.0).column(0).into_owned());
        let all = uniform(d + 2, n, -0.25, 1.25).map(|v| v.clamp(0.0, 1.0));
        let c = scores(&w, &bias, &all).matrix().clone();
        Self {
            w_act: w.columns(0, 2).into_owned(),
            w_pas: w.columns(2, d).into_owned(),
            bias,
            y: all.rows(0, 2).into_owned(),
            x: all.rows(2, d).into_owned(),
            c,
        }
    }

    /// The same with scores of other records: no point gives them as a rule, though each sums to 1.
    fn shuffled(mut self) -> Self {
        let n = self.c.ncols();
        let order: Vec<usize> = (0..n).map(|r| (r + 1) % n).collect();
        self.c = self.c.select_columns(&order);
        self
    }

    fn with<T>(&self, look: impl FnOnce(&AdversaryView) -> T) -> T {
        let model =
            KnownModel::white_box(self.w_act.clone(), self.bias.clone(), self.w_pas.clone())
                .unwrap();
        let y = FeatureBlock::new(self.y.clone()).unwrap();
        let released = ReleasedScores::Probabilities(self.c.clone());
        look(&AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap())
    }

    fn run(&self, attack: GradientInversion) -> Reconstruction {
        self.with(|view| reconstruct(attack, view))
    }

    fn pick(&self, records: &[usize]) -> Self {
        Self {
            y: self.y.select_columns(records),
            x: self.x.select_columns(records),
            c: self.c.select_columns(records),
            ..self.clone()
        }
    }

    /// The logits of a record with these passive features.
    fn logits(&self, record: usize, x: &[f64]) -> Vec<f64> {
        let z = &self.w_pas * DVector::from_column_slice(x)
            + &self.w_act * self.y.column(record)
            + &self.bias;
        z.iter().copied().collect()
    }

    fn released(&self, record: usize) -> Vec<f64> {
        self.c.column(record).iter().copied().collect()
    }

    /// The loss at these features, and its derivatives by them, by the chain rule written out: dL/dĉ, dĉ/dz, dz/dx.
    fn naive(&self, loss: Loss, record: usize, x: &[f64]) -> (f64, Vec<f64>) {
        let (c, z) = (self.released(record), self.logits(record, x));
        let sum: f64 = z.iter().map(|z| z.exp()).sum();
        let p: Vec<f64> = z.iter().map(|z| z.exp() / sum).collect();
        let k = c.len();
        let terms = c.iter().zip(&p);
        let (value, by_p): (f64, Vec<f64>) = match loss {
            Loss::Mse => (
                terms.clone().map(|(c, p)| (c - p) * (c - p)).sum::<f64>() / k as f64,
                terms.map(|(c, p)| 2.0 * (p - c) / k as f64).collect(),
            ),
            Loss::Kl => (
                terms.clone().map(|(c, p)| c * (c / p).ln()).sum(),
                terms.map(|(c, p)| -c / p).collect(),
            ),
            Loss::Rkl => (
                terms.clone().map(|(c, p)| p * (p / c).ln()).sum(),
                terms.map(|(c, p)| (p / c).ln() + 1.0).collect(),
            ),
            Loss::LogSq => (
                terms.clone().map(|(c, p)| (p.ln() - c.ln()).powi(2)).sum(),
                terms.map(|(c, p)| 2.0 * (p.ln() - c.ln()) / p).collect(),
            ),
        };
        let mut slope = vec![0.0; x.len()];
        for (feature, slope) in slope.iter_mut().enumerate() {
            for i in 0..k {
                for (j, p_j) in p.iter().enumerate() {
                    let kronecker = if i == j { 1.0 } else { 0.0 };
                    *slope += by_p[i] * p[i] * (kronecker - p_j) * self.w_pas[(j, feature)];
                }
            }
        }
        (value, slope)
    }

    /// All points and losses of a descent, the start first.
    fn naive_descent(
        &self,
        loss: Loss,
        record: usize,
        start: &[f64],
        descent: &Plain,
    ) -> Vec<(Vec<f64>, f64)> {
        let mut x = start.to_vec();
        let (mut m, mut v) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let (value, mut slope) = self.naive(loss, record, &x);
        let mut path = vec![(x.clone(), value)];
        for t in 1..=descent.steps {
            for i in 0..x.len() {
                slope[i] += descent.nudge;
                m[i] = 0.9 * m[i] + 0.1 * slope[i];
                v[i] = 0.999 * v[i] + 0.001 * slope[i] * slope[i];
                let m_hat = m[i] / (1.0 - 0.9f64.powi(t as i32));
                let v_hat: f64 = v[i] / (1.0 - 0.999f64.powi(t as i32));
                x[i] -= descent.rate * m_hat / (v_hat.sqrt() + 1e-8);
                if descent.projected {
                    x[i] = x[i].clamp(0.0, 1.0);
                }
            }
            let at = self.naive(loss, record, &x);
            slope = at.1;
            path.push((x.clone(), at.0));
        }
        path
    }
}

struct Plain {
    steps: u32,
    rate: f64,
    projected: bool,
    /// Added to every slope.
    nudge: f64,
}

fn small_world() -> impl Strategy<Value = World> {
    (2usize..7, 1usize..11, 2usize..20, any::<u64>())
        .prop_map(|(k, d, n, seed)| World::draw(k, d, n, seed))
}

// ---- golden vectors

#[derive(Deserialize)]
struct File {
    case: Case,
}

#[derive(Deserialize)]
struct Case {
    #[serde(rename = "W_act")]
    w_act: Vec<Vec<f64>>,
    #[serde(rename = "W_pas")]
    w_pas: Vec<Vec<f64>>,
    b: Vec<f64>,
    y_act: Vec<Vec<f64>>,
    x_pas: Vec<Vec<f64>>,
    c: Vec<Vec<f64>>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    loss: String,
    init: String,
    loss0: Vec<f64>,
    grad0: Vec<Vec<f64>>,
    #[serde(flatten)]
    ends: BTreeMap<String, End>,
}

#[derive(Deserialize)]
struct End {
    x: Vec<Vec<f64>>,
    loss: Vec<f64>,
    tol: f64,
}

/// `T=200,lr=0.01,project=true`
fn parse(key: &str) -> GradientInversion {
    let mut parts = key.split(',').map(|part| part.split_once('=').unwrap());
    let mut value = |name| parts.next().filter(|(n, _)| *n == name).unwrap().1;
    let (t, lr, project) = (value("T"), value("lr"), value("project"));
    steps(t.parse().unwrap(), lr.parse().unwrap()).with_projected(project.parse().unwrap())
}

fn close(got: f64, want: f64, tol: f64, what: &str) {
    assert!((got - want).abs() <= tol, "{what}: {got}, expected {want}");
}

fn check(name: &str) {
    let case = golden::<File>(name).case;
    let columns = |rows: &[Vec<f64>]| matrix(rows).transpose();
    let world = World {
        w_act: matrix(&case.w_act),
        w_pas: matrix(&case.w_pas),
        bias: DVector::from_vec(case.b),
        y: columns(&case.y_act),
        x: columns(&case.x_pas),
        c: columns(&case.c),
    };
    let mut ends = 0;
    for run in &case.runs {
        let (loss, start) = (Loss::named(&run.loss).unwrap(), Start::named(&run.init).unwrap());
        let origin = vec![if start == Start::Zero { 0.0 } else { 0.5 }; world.w_pas.ncols()];
        for record in 0..3 {
            let what = format!("{name}, {} from {}, record {record}", run.loss, run.init);
            let (value, slope) =
                loss.value_and_slope(&world.released(record), &world.logits(record, &origin));
            close(value, run.loss0[record], 1e-9, &what);
            let by_feature = world.w_pas.tr_mul(&DVector::from_vec(slope));
            for (got, want) in by_feature.iter().zip(&run.grad0[record]) {
                close(*got, *want, 1e-9, &what);
            }
        }
        for (key, end) in &run.ends {
            let what = format!("{name}, {} from {}, {key}", run.loss, run.init);
            let found = world.run(parse(key).with_loss(loss).with_start(start));
            assert_eq!(
                (found.estimates.ncols(), end.x.len(), found.status),
                (3, 3, Status::Descent)
            );
            for (got, want) in found.estimates.iter().zip(end.x.iter().flatten()) {
                close(*got, *want, end.tol, &what);
            }
            for (got, want) in objectives(&found).iter().zip(&end.loss) {
                close(*got, *want, end.tol, &what);
            }
            ends += 1;
        }
    }
    assert_eq!((case.runs.len(), ends), (8, 36), "{name}");
}

#[test]
fn robot_follows_the_golden_descents() {
    check("gia_robot.json");
}

#[test]
fn satellite_follows_the_golden_descents() {
    check("gia_satellite.json");
}

// ---- losses and slopes

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Against central differences of the loss itself, for scores that sum to 1 and for others.
    #[test]
    fn slopes_are_those_of_finite_differences(world in small_world(), total in 0.5f64..2.0) {
        let world = world.shuffled();
        for loss in Loss::ALL {
            let c: Vec<f64> = world.released(0).iter().map(|c| c * total).collect();
            let z = world.logits(0, &vec![0.5; world.w_pas.ncols()]);
            let (_, slope) = loss.value_and_slope(&c, &z);
            for class in 0..c.len() {
                let at = |h: f64| {
                    let mut z = z.clone();
                    z[class] += h;
                    loss.value_and_slope(&c, &z).0
                };
                let h = 1e-4;
                let difference = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
                let scale = 1.0 + slope[class].abs();
                prop_assert!(
                    (slope[class] - difference).abs() < 1e-8 * scale,
                    "{}: {} against {difference}", loss.as_str(), slope[class]
                );
            }
        }
    }

    /// The truth gives the released scores: loss and slope are 0 there, for every loss; and the loss is above 0 wherever
    /// the scores are others.
    #[test]
    fn the_truth_is_a_minimum(world in small_world()) {
        for loss in Loss::ALL {
            let truth: Vec<f64> = world.x.column(0).iter().copied().collect();
            let (value, slope) = loss.value_and_slope(&world.released(0), &world.logits(0, &truth));
            prop_assert!(value.abs() < 1e-13, "{}: {value}", loss.as_str());
            prop_assert!(slope.iter().all(|s| s.abs() < 1e-12), "{}: {slope:?}", loss.as_str());
            let mut elsewhere = world.logits(0, &truth);
            elsewhere[0] += 0.5;
            let (value, slope) = loss.value_and_slope(&world.released(0), &elsewhere);
            prop_assert!(value > 0.0 && slope.iter().any(|s| *s != 0.0), "{}: {value}", loss.as_str());
        }
    }

    /// D(c‖ĉ) is convex along every segment.
    #[test]
    fn kl_is_convex(world in small_world(), seed in any::<u64>()) {
        let world = world.shuffled();
        let excess = midpoint_excess(Loss::Kl, &world, seed);
        prop_assert!(excess < 1e-12, "{excess}");
    }
}

/// How far the loss at the middle of a random segment lies above the mean of its ends: above 0 only without convexity.
fn midpoint_excess(loss: Loss, world: &World, seed: u64) -> f64 {
    let mut rng = generator(seed);
    let d = world.w_pas.ncols();
    let mut point = || (0..d).map(|_| 4.0 * rng.random::<f64>() - 2.0).collect::<Vec<f64>>();
    let (a, b) = (point(), point());
    let middle: Vec<f64> = a.iter().zip(&b).map(|(a, b)| 0.5 * (a + b)).collect();
    let at = |x: &[f64]| loss.value_and_slope(&world.released(0), &world.logits(0, x)).0;
    at(&middle) - 0.5 * (at(&a) + at(&b))
}

/// R remark 7 calls D(ĉ‖c) convex; nearly half of random segments say otherwise.
#[test]
fn rkl_is_not_convex() {
    let violations = (0..500)
        .filter(|seed| {
            midpoint_excess(Loss::Rkl, &World::draw(4, 6, 2, *seed).shuffled(), *seed) > 1e-6
        })
        .count();
    assert!((100..400).contains(&violations), "{violations} of 500");
}

/// Logits far apart: ĉ is 0 as a number, and ln ĉ is not lost with it.
#[test]
fn far_logits_have_finite_losses() {
    let (c, z) = ([0.25, 0.75], [2000.0, 0.0]);
    for (loss, value, slope) in [
        (Loss::Kl, 0.25 * 0.25f64.ln() + 0.75 * (0.75f64.ln() + 2000.0), [0.75, -0.75]),
        (Loss::Rkl, 4.0f64.ln(), [0.0, 0.0]),
        (Loss::Mse, 0.5625, [0.0, 0.0]),
        (
            Loss::LogSq,
            4.0f64.ln().powi(2) + (2000.0 + 0.75f64.ln()).powi(2),
            [2.0 * (2000.0 + 0.75f64.ln()), -2.0 * (2000.0 + 0.75f64.ln())],
        ),
    ] {
        let (got, by_logit) = loss.value_and_slope(&c, &z);
        assert!(
            (got - value).abs() < 1e-9 * value.abs().max(1.0),
            "{}: {got}, expected {value}",
            loss.as_str()
        );
        for (got, want) in by_logit.iter().zip(slope) {
            assert!(
                (got - want).abs() < 1e-9 * want.abs().max(1.0),
                "{}: {got}, expected {want}",
                loss.as_str()
            );
        }
    }
}

// ---- descents

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Every record of a batch goes the way of the plain descent, to its end or to its best point.
    #[test]
    fn equals_the_plain_descent(
        world in small_world(), taken in 1u32..40, rate in 0.001f64..0.2, projected in any::<bool>(), half in any::<bool>(),
        foreign in any::<bool>(),
    ) {
        let world = if foreign { world.shuffled() } else { world };
        let plain = |nudge: f64| Plain { steps: taken, rate, projected, nudge };
        let start = if half { Start::Half } else { Start::Zero };
        let origin = vec![if half { 0.5 } else { 0.0 }; world.w_pas.ncols()];
        let mut compared = 0;
        for loss in Loss::ALL {
            let attack = steps(taken, rate).with_loss(loss).with_start(start).with_projected(projected);
            let last = world.run(attack);
            let best = world.run(attack.with_iterate(Iterate::Best));
            for record in 0..world.c.ncols() {
                let path = world.naive_descent(loss, record, &origin, &plain(0.0));
                // Adam divides by the size of the gradient: near its zeros round-off is magnified, step by step. How much, the
                // same descent shows from 1e-13 beside its start, and with slopes that are 1e-15 off to either side: a start
                // that is the solution, at an end of the box, is left by one of the sides only.
                let beside: Vec<f64> = origin.iter().zip(1..).map(|(x, i)| x + 1e-13 * f64::from(i)).collect();
                let others = [(&beside, 0.0), (&origin, 1e-15), (&origin, -1e-15)]
                    .map(|(from, nudge)| world.naive_descent(loss, record, from, &plain(nudge)));
                let moved = |t: usize| {
                    let all = others.iter().flat_map(|other| path[t].0.iter().zip(&other[t].0));
                    all.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
                };
                let tolerance = 1e-9 + 10.0 * (0..path.len()).map(moved).fold(0.0, f64::max);
                if tolerance > 1e-6 {
                    continue;
                }
                let (x, value) = &path[path.len() - 1];
                for (got, want) in last.estimates.column(record).iter().zip(x) {
                    prop_assert!((got - want).abs() < tolerance, "{}: {got}, expected {want}", loss.as_str());
                }
                let told = last.outcomes[record];
                let of_loss = 100.0 * tolerance * (1.0 + value);
                prop_assert!((told.objective - value).abs() < of_loss, "{told:?}, expected {value}");
                prop_assert_eq!((told.iterations, told.ended), (taken, Termination::Solved));
                let least = path.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
                let told = best.outcomes[record];
                prop_assert!((told.objective - least).abs() < of_loss, "{told:?}, expected {least}");
                compared += 1;
            }
        }
        prop_assume!(compared > 0);
    }

    /// The best point is that of the least loss of all descents of fewer steps, the start included, to the bit.
    #[test]
    fn best_is_the_least_of_all_points(world in small_world(), rate in 0.05f64..0.8, which in 0usize..4) {
        let taken = 9;
        let attack = steps(taken, rate).with_loss(Loss::ALL[which]).with_start(Start::Random);
        let best = world.run(attack.with_iterate(Iterate::Best));
        let mut least = world.run(attack.with_stop_loss(f64::MAX).unwrap());
        prop_assert!(least.outcomes.iter().all(|o| o.iterations == 0), "the start itself");
        for t in 1..=taken {
            let last = world.run(attack.with_steps(t).unwrap());
            for record in 0..world.c.ncols() {
                if last.outcomes[record].objective < least.outcomes[record].objective {
                    least.outcomes[record] = last.outcomes[record];
                    least.estimates.set_column(record, &last.estimates.column(record));
                }
            }
        }
        prop_assert_eq!(&best.estimates, &least.estimates);
        prop_assert_eq!(objectives(&best), objectives(&least));
    }

    /// A record that stops has reached the loss, and is where the same descent with as many steps would be; the others
    /// go on as if it had not stopped.
    #[test]
    fn records_stop_one_by_one(world in small_world(), stop in 1e-4f64..0.1, best in any::<bool>(), which in 0usize..4) {
        let iterate = if best { Iterate::Best } else { Iterate::Final };
        let attack = steps(60, 0.05).with_loss(Loss::ALL[which]).with_iterate(iterate);
        let found = world.run(attack.with_stop_loss(stop).unwrap());
        for (record, told) in found.outcomes.iter().enumerate() {
            prop_assert_eq!(told.ended == Termination::Solved, told.objective <= stop || told.iterations < 60);
            prop_assert!(told.iterations == 60 || told.objective <= stop, "{told:?}");
            if told.iterations > 0 {
                let last = world.run(attack.with_steps(told.iterations).unwrap());
                prop_assert_eq!(found.estimates.column(record), last.estimates.column(record));
                prop_assert_eq!(told.objective, last.outcomes[record].objective);
                // Not one step too late.
                if told.iterations > 1 {
                    let before = world.run(attack.with_steps(told.iterations - 1).unwrap());
                    prop_assert!(before.outcomes[record].objective > stop);
                }
            }
        }
    }

    /// Estimates stay in the box if they are to, and the loss told is the loss there.
    #[test]
    fn projected_estimates_stay_in_the_box(world in small_world(), rate in 0.01f64..1.0, which in 0usize..4) {
        let world = world.shuffled();
        for start in Start::ALL {
            let found = world.run(steps(50, rate).with_loss(Loss::ALL[which]).with_start(start));
            prop_assert!(found.estimates.iter().all(|x| (0.0..=1.0).contains(x)));
            for (record, told) in found.outcomes.iter().enumerate() {
                let x: Vec<f64> = found.estimates.column(record).iter().copied().collect();
                let (value, _) = world.naive(Loss::ALL[which], record, &x);
                prop_assert!((told.objective - value).abs() < 1e-9 * (1.0 + value), "{told:?}: {value}");
            }
        }
    }

    /// Records do not influence each other: any order and any part of them, on any number of threads, gives the same to
    /// the bit; and parts in order draw the starts that the whole draws.
    #[test]
    fn records_stand_alone(world in small_world(), cut in 0usize..20, best in any::<bool>(), stop in any::<bool>()) {
        let n = world.c.ncols();
        let iterate = if best { Iterate::Best } else { Iterate::Final };
        let attack = steps(15, 0.1).with_iterate(iterate).with_stop_loss(if stop { 0.05 } else { 0.0 }).unwrap();
        let all = world.run(attack);
        let reversed: Vec<usize> = (0..n).rev().collect();
        let backwards = world.pick(&reversed).run(attack);
        prop_assert_eq!(&backwards.estimates, &all.estimates.select_columns(&reversed));
        prop_assert!(backwards.outcomes.iter().eq(all.outcomes.iter().rev()));

        let attack = attack.with_start(Start::Random);
        let all = world.run(attack);
        let (first, rest): (Vec<usize>, Vec<usize>) = (0..n).partition(|r| *r < cut.min(n - 1));
        let mut rng = generator(5);
        for part in [first, rest] {
            let found = world.pick(&part).with(|view| attack.reconstruct(view, &mut rng).unwrap());
            prop_assert_eq!(&found.estimates, &all.estimates.select_columns(&part));
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(&pool.install(|| world.run(attack)), &all);
        }
    }
}

/// Without the box some estimate leaves it; with it none does, and 0 to 1 is used to its ends.
#[test]
fn projection_makes_a_difference() {
    let world = World::draw(4, 8, 40, 1).shuffled();
    let attack = steps(300, 0.05).with_loss(Loss::Kl);
    let free = world.run(attack.with_projected(false)).estimates;
    let boxed = world.run(attack).estimates;
    assert!(free.min() < -0.01 && free.max() > 1.01, "{} to {}", free.min(), free.max());
    assert!(boxed.min() == 0.0 && boxed.max() == 1.0, "{} to {}", boxed.min(), boxed.max());
}

/// At a rate that overshoots, the last point is not the best.
#[test]
fn best_is_below_final_where_it_matters() {
    let world = World::draw(5, 4, 40, 2);
    for loss in Loss::ALL {
        let attack = steps(25, 0.9).with_loss(loss);
        let (last, best) = (
            objectives(&world.run(attack)),
            objectives(&world.run(attack.with_iterate(Iterate::Best))),
        );
        assert!(best.iter().zip(&last).all(|(best, last)| best <= last));
        let lower = best.iter().zip(&last).filter(|(best, last)| *best < *last).count();
        assert!(lower > 10, "{}: {lower} of 40", loss.as_str());
    }
}

/// Random starts are uniform in [0, 1), another for every record and feature, and follow the generator.
#[test]
fn random_starts_are_drawn_per_record() {
    let world = World::draw(3, 6, 500, 3);
    let attack = steps(1, 0.1).with_start(Start::Random).with_stop_loss(f64::MAX).unwrap();
    let start = world.run(attack).estimates;
    assert!(start.iter().all(|v| (0.0..1.0).contains(v)));
    let mut sorted: Vec<f64> = start.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    assert_eq!(sorted.len(), 3000);
    // Four standard errors of 3000 uniform numbers; the seed is fixed.
    assert!((start.mean() - 0.5).abs() < 4.0 / (12.0f64 * 3000.0).sqrt());
    assert_eq!(world.run(attack).estimates, start);
    let other = world.with(|view| attack.reconstruct(view, &mut generator(6)).unwrap().estimates);
    assert_ne!(other, start);
}

/// With d ≤ k − 1 exact scores have one solution, and the default gets there from every start: the claim of J and R, which 1000 steps
/// do not bear out (errata J4).
#[test]
fn satellite_is_rebuilt_with_few_features() {
    let published = satellite();
    let released = undefended(&published.scores());
    for (first, d) in [(7, 3), (0, 5)] {
        let window = published.window(first, d);
        let view = window.view(&released);
        for start in Start::ALL {
            let found = reconstruct(GradientInversion::default().with_start(start), &view);
            let error = mse(&found.estimates, &window.truth).unwrap().overall;
            let most = found.outcomes.iter().map(|o| o.iterations).max().unwrap();
            println!("d = {d} from {}: MSE {error:e}, {most} steps at most", start.as_str());
            assert!(error < 1e-6, "d = {d} from {}: MSE {error:e}", start.as_str());
        }
    }
}

/// Of the losses, after as many steps each, the squared logarithms are nearest to the one solution: the others are flat in what classes of
/// small scores say.
#[test]
fn squared_logarithms_are_the_loss_that_gets_there() {
    let published = satellite();
    let window = published.window(7, 3);
    let released = undefended(&published.scores());
    let view = window.view(&released);
    let error = |loss: Loss| {
        let found = reconstruct(steps(1000, 0.01).with_loss(loss), &view);
        let error = mse(&found.estimates, &window.truth).unwrap().overall;
        println!("{}: MSE {error:e}", loss.as_str());
        error
    };
    let log_sq = error(Loss::LogSq);
    for loss in [Loss::Mse, Loss::Kl, Loss::Rkl] {
        assert!(log_sq < 0.01 * error(loss), "{}", loss.as_str());
    }
}

/// What stands in for a score of 0 says nothing that a logarithm should count.
#[test]
fn a_score_of_0_is_not_taken_by_its_logarithm() {
    let published = satellite();
    let window = published.window(0, 12);
    let scores = published.scores();
    // The two largest of each record, as `top_k` releases them.
    let mut top = scores.matrix().clone();
    for mut column in top.column_iter_mut() {
        let mut sorted: Vec<f64> = column.iter().copied().collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        column.iter_mut().for_each(|c| *c = if *c >= sorted[1] { *c } else { 0.0 });
    }
    let released = ReleasedScores::Numbers(top);
    let view = window.view(&released);
    let by = |attack: GradientInversion| reconstruct(attack, &view);
    let default = by(GradientInversion::default());
    assert_eq!(default, by(GradientInversion::default().with_loss(Loss::Kl)));
    let error = |found: &Reconstruction| mse(&found.estimates, &window.truth).unwrap().overall;
    let log_sq = by(GradientInversion::default().with_loss(Loss::LogSq));
    println!("kl {}, squared logarithms {}", error(&default), error(&log_sq));
    assert!(error(&default) < error(&log_sq));
    assert!(
        default.outcomes.iter().all(|o| o.iterations == 10_000),
        "scores that do not sum to 1 have no stop"
    );
}

/// With more features than equations every record has scores that some features have, and rounded to one decimal most have none: the
/// default says which.
#[test]
fn a_record_ends_by_its_loss_or_by_its_steps() {
    let published = satellite();
    let window = published.window(0, 12);
    let scores = published.scores();
    let exact = undefended(&scores);
    let rounded = ReleasedScores::Probabilities(
        scores.matrix().map(|c| ((10.0 * c).round() / 10.0).max(0.05)),
    );
    for (released, all) in [(exact, true), (rounded, false)] {
        let found = reconstruct(GradientInversion::default(), &window.view(&released));
        let solved = found.outcomes.iter().filter(|o| o.ended == Termination::Solved).count();
        let mean = found.outcomes.iter().map(|o| f64::from(o.iterations)).sum::<f64>()
            / found.outcomes.len() as f64;
        println!(
            "{solved} of {} records end by their loss, after {mean:.0} steps on average",
            found.outcomes.len()
        );
        assert_eq!(solved == found.outcomes.len(), all);
        for outcome in &found.outcomes {
            assert_eq!(
                outcome.ended == Termination::Solved,
                outcome.objective <= 1e-14,
                "{outcome:?}"
            );
            assert!(outcome.ended == Termination::Solved || outcome.iterations == 10_000);
        }
    }
}

/// J's settings, by name: not confined to the box, squared differences, 0.001.
#[test]
fn the_preset_of_the_paper_is_what_the_paper_says() {
    let read = |pairs: &[(&str, &str)]| {
        GradientInversion::from(&Settings::read(pairs.iter().copied()).unwrap())
    };
    let by_hand = [
        ("loss", "mse"),
        ("start", "zero"),
        ("projected", "false"),
        ("learning_rate", "0.001"),
        ("stop_loss", "0"),
        ("iterate", "final"),
        ("steps", "10000"),
    ];
    assert_eq!(read(&[("preset", "j")]), read(&by_hand));
    assert_eq!(read(&[("preset", "j")]), GradientInversion::of_paper_j());
    let by_hand = [
        ("loss", "mse"),
        ("steps", "500"),
        ("learning_rate", "0.001"),
        ("stop_loss", "0"),
        ("projected", "true"),
    ];
    assert_eq!(read(&[("preset", "p")]), read(&by_hand));
    assert_eq!(read(&[("preset", "own")]), GradientInversion::default());
    // What is given one by one goes before the preset.
    assert_eq!(
        read(&[("steps", "7"), ("preset", "j")]),
        GradientInversion::of_paper_j().with_steps(7).unwrap()
    );
    assert!(Settings::read([("preset", "J")]).is_err());
}

/// What the default learning rate is there for: after 1000 steps J's own is not through, and one ten times as large is no closer.
#[test]
fn default_rate_gets_farther_than_that_of_the_paper() {
    let published = satellite();
    let window = published.window(0, 12);
    let released = undefended(&published.scores());
    let view = window.view(&released);
    let loss = |rate: f64| {
        let found = reconstruct(steps(1000, rate).with_loss(Loss::Kl), &view);
        let error = mse(&found.estimates, &window.truth).unwrap().overall;
        let mean = objectives(&found).iter().sum::<f64>() / found.outcomes.len() as f64;
        println!("rate {rate}: mean loss {mean:e}, MSE {error:.4}");
        mean
    };
    let (paper, ours, coarse) = (loss(0.001), loss(0.01), loss(0.1));
    assert!(ours < 0.1 * paper && ours < coarse, "{paper:e}, {ours:e}, {coarse:e}");
}

// ---- inputs that are not plain scores, and settings

#[test]
fn labels_and_rounded_scores_give_finite_estimates() {
    let world = World::draw(4, 5, 30, 4);
    let model = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), world.w_pas.clone())
        .unwrap();
    let y = FeatureBlock::new(world.y.clone()).unwrap();
    let labels = undefended(&scores(&world.w_pas, &world.bias, &world.x)).predicted_labels();
    for released in [
        ReleasedScores::Labels { classes: 4, labels },
        ReleasedScores::Probabilities(world.c.map(f64::round)),
        ReleasedScores::Numbers(world.c.map(|c| 7.0 * c - 2.0)),
    ] {
        let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
        for loss in Loss::ALL {
            for projected in [true, false] {
                let found =
                    reconstruct(steps(300, 0.05).with_loss(loss).with_projected(projected), &view);
                assert!(found.estimates.iter().all(|x| x.is_finite()), "{}", loss.as_str());
                assert!(
                    found.outcomes.iter().all(|o| o.objective.is_finite()),
                    "{}",
                    loss.as_str()
                );
                assert_eq!(found.solved.unwrap().residuals.len(), 30);
            }
        }
    }
}

#[test]
fn a_hidden_model_is_refused() {
    let world = World::draw(3, 4, 5, 5);
    let model = KnownModel::black_box(world.w_act.clone(), world.bias.clone(), 4).unwrap();
    let y = FeatureBlock::new(world.y.clone()).unwrap();
    let released = ReleasedScores::Probabilities(world.c.clone());
    let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
    let attack = GradientInversion::default();
    assert!(attack.needs().white_box());
    assert_eq!(attack.reconstruct(&view, &mut generator(0)), Err(AttackError::NeedsParameters));
}

#[test]
fn no_record_is_no_estimate() {
    let found = World::draw(3, 4, 9, 6).pick(&[]).run(GradientInversion::default());
    assert_eq!((found.estimates.shape(), found.outcomes.len()), ((4, 0), 0));
}

#[test]
fn settings_by_name_are_the_settings() {
    let pairs = [
        ("loss", "rkl"),
        ("start", "random"),
        ("projected", "false"),
        ("steps", "7"),
        ("learning_rate", "0.25"),
        ("stop_loss", "1e-3"),
        ("iterate", "best"),
    ];
    let read = Settings::read(pairs).unwrap();
    let built = steps(7, 0.25)
        .with_loss(Loss::Rkl)
        .with_start(Start::Random)
        .with_projected(false)
        .with_stop_loss(1e-3)
        .unwrap()
        .with_iterate(Iterate::Best);
    assert_eq!(GradientInversion::from(&read), built);
    // The settings reach the attack that the name builds.
    let world = World::draw(3, 4, 12, 7);
    let method: Method = "gradient_inversion".parse().unwrap();
    let by_name =
        world.with(|view| method.build(&read).reconstruct(view, &mut generator(5)).unwrap());
    assert_eq!(by_name, world.run(built));
    assert_ne!(by_name, world.run(GradientInversion::default()));
    // Each changes something on its own.
    for pair in pairs {
        let read = Settings::read([pair]).unwrap();
        assert_ne!(GradientInversion::from(&read), GradientInversion::default(), "{pair:?}");
    }
}

#[test]
fn other_values_are_refused_with_what_is_taken() {
    for (key, value, taken) in [
        ("loss", "KL", "`mse`, `kl`, `rkl` or `logsq`"),
        ("start", "ones", "`zero`, `half`, `random` or `normal`"),
        ("projected", "yes", "`true` or `false`"),
        ("steps", "0", "from 1 to 1000000"),
        ("steps", "1000001", "from 1 to 1000000"),
        ("steps", "1.5", "from 1 to 1000000"),
        ("learning_rate", "0", "above 0 and at most 1"),
        ("learning_rate", "NaN", "above 0 and at most 1"),
        ("learning_rate", "1.5", "above 0 and at most 1"),
        ("stop_loss", "-1", "at least 0"),
        ("stop_loss", "inf", "at least 0"),
        ("iterate", "last", "`final` or `best`"),
    ] {
        let error = Settings::read([(key, value)]).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(value) && error.contains(taken), "{error}");
    }
    let attack = GradientInversion::default();
    assert_eq!(attack.with_steps(0), Err(GradientInversionError::Steps { got: 0 }));
    assert!(attack.with_steps(MAX_STEPS).is_ok());
    assert_eq!(attack.with_stop_loss(-1.0), Err(GradientInversionError::StopLoss { got: -1.0 }));
}
