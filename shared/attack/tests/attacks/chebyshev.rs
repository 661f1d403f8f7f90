//! The exact Chebyshev centre against corners found by trying every basis, a ball found by another method, closed forms,
//! and the golden vectors of its two relaxations.

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use vfl_attack::{
    AdversaryView, AttackError, KnownModel, LinearSystem, MAX_NULLITY, Method, Reconstruction,
    Replacement, Settings, Status, Termination,
};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::fixture::{column, golden, matrix, run, scores, undefended};

/// A model whose A is `a`: the first class weighs 0, each next class one row of A more.
pub(crate) fn weights(a: &DMatrix<f64>) -> DMatrix<f64> {
    let mut w = DMatrix::zeros(a.nrows() + 1, a.ncols());
    for i in 0..a.nrows() {
        let next = w.row(i) + a.row(i);
        w.row_mut(i + 1).copy_from(&next);
    }
    w
}

/// An attack on exact scores of these records under A, by an adversary without features.
fn attack(
    a: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    method: Method,
) -> Result<Reconstruction, AttackError> {
    let (w, bias) = (weights(a), DVector::zeros(a.nrows() + 1));
    let released = undefended(&scores(&w, &bias, truth));
    let model = KnownModel::white_box(DMatrix::zeros(w.nrows(), 0), bias, w).unwrap();
    let active = FeatureBlock::new(DMatrix::zeros(0, truth.ncols())).unwrap();
    let view = AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
    method.build(&Settings::default()).reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(0))
}

fn centre(a: &DMatrix<f64>, truth: &DMatrix<f64>) -> Reconstruction {
    attack(a, truth, Method::ChebyshevExact).unwrap()
}

/// All corners of {x in [0, 1]^d : A x = A truth}, by trying every choice of n features at 0 or 1 and solving for the
/// others.
fn corners_by_trial(a: &DMatrix<f64>, truth: &DVector<f64>, nullity: usize) -> Vec<DVector<f64>> {
    let (d, b) = (a.ncols(), a * truth);
    let mut corners = Vec::new();
    for held in (0u32..1 << d).filter(|h| h.count_ones() as usize == nullity) {
        let (at, solved): (Vec<usize>, Vec<usize>) = (0..d).partition(|i| (held >> i) & 1 == 1);
        let (a_s, a_h) = (a.select_columns(&solved), a.select_columns(&at));
        let normal = a_s.transpose() * &a_s;
        let Some(inverse) = normal.clone().try_inverse() else { continue };
        if inverse.amax() * normal.amax() > 1e12 {
            continue;
        }
        for ends in 0u32..1 << nullity {
            let x_h = DVector::from_fn(nullity, |i, _| f64::from((ends >> i) & 1));
            let rest = &b - &a_h * &x_h;
            let mut x_s = &inverse * (a_s.transpose() * &rest);
            x_s += &inverse * (a_s.transpose() * (&rest - &a_s * &x_s));
            if x_s.iter().all(|v| (-1e-9..=1.0 + 1e-9).contains(v))
                && (&a_s * &x_s - rest).amax() < 1e-9
            {
                let mut x = DVector::zeros(d);
                at.iter()
                    .zip(x_h.iter())
                    .chain(solved.iter().zip(x_s.iter()))
                    .for_each(|(&i, &v)| x[i] = v);
                corners.push(x);
            }
        }
    }
    corners
}

/// The squared radius of the smallest ball, by Frank and Wolfe's method with away steps on the dual; the gap at the end is
/// returned too: the true value lies between `value` and `value` + gap.
fn ball_by_descent(points: &[DVector<f64>]) -> (f64, f64) {
    let n = points.len();
    let mut lambda = vec![1.0 / n as f64; n];
    let (mut value, mut gap) = (0.0, f64::INFINITY);
    for _ in 0..20_000 {
        let c = points
            .iter()
            .zip(&lambda)
            .fold(DVector::zeros(points[0].len()), |c, (p, l)| c + p * *l);
        let reach: Vec<f64> = points.iter().map(|p| (p - &c).norm_squared()).collect();
        value = reach.iter().zip(&lambda).map(|(r, l)| r * l).sum::<f64>();
        let far = (0..n).max_by(|&i, &j| reach[i].total_cmp(&reach[j])).unwrap();
        gap = reach[far] - value;
        if gap < 1e-13 {
            break;
        }
        let near = (0..n)
            .filter(|&i| lambda[i] > 0.0)
            .min_by(|&i, &j| reach[i].total_cmp(&reach[j]))
            .unwrap();
        // Along λ + t z the dual changes by t (slope) − t² ‖Σ z p‖².
        let (z, most): (Vec<f64>, f64) = if gap >= value - reach[near] {
            ((0..n).map(|i| f64::from(u8::from(i == far)) - lambda[i]).collect(), 1.0)
        } else {
            let most = lambda[near] / (1.0 - lambda[near]);
            ((0..n).map(|i| lambda[i] - f64::from(u8::from(i == near))).collect(), most)
        };
        let way = points.iter().zip(&z).fold(DVector::zeros(c.len()), |s, (p, z)| s + p * *z);
        let slope: f64 = reach.iter().zip(&z).map(|(r, z)| r * z).sum();
        let t = (slope / (2.0 * way.norm_squared())).min(most);
        lambda.iter_mut().zip(&z).for_each(|(l, z)| *l = (*l + t * z).max(0.0));
        let total: f64 = lambda.iter().sum();
        lambda.iter_mut().for_each(|l| *l /= total);
    }
    (value, gap.max(0.0))
}

/// The largest squared distance from a point.
fn worst(points: &[DVector<f64>], from: &DVector<f64>) -> f64 {
    points.iter().map(|p| (p - from).norm_squared()).fold(0.0, f64::max)
}

/// A drawn system: general entries, or 0, ±1 so that corners coincide; records inside, on faces and at corners of the box.
#[derive(Debug, Clone)]
struct Drawn {
    rank: usize,
    nullity: usize,
    coarse: bool,
    edge: u8,
    seed: u64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (0usize..4, 0usize..5, any::<bool>(), 0u8..3, any::<u64>())
        .prop_filter("a feature", |(rank, nullity, ..)| rank + nullity > 0)
        .prop_map(|(rank, nullity, coarse, edge, seed)| Drawn { rank, nullity, coarse, edge, seed })
}

impl Drawn {
    fn system(&self) -> (DMatrix<f64>, DVector<f64>) {
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed);
        let d = self.rank + self.nullity;
        let a = DMatrix::from_fn(self.rank.max(1), d, |_, _| {
            let v = 2.0 * rng.random::<f64>() - 1.0;
            if self.rank == 0 {
                0.0
            } else if self.coarse {
                (1.5 * v).round()
            } else {
                v
            }
        });
        let x = DVector::from_fn(d, |_, _| {
            let v: f64 = rng.random();
            match self.edge {
                0 => v,
                1 => (3.0 * v - 1.0).clamp(0.0, 1.0),
                _ => v.round(),
            }
        });
        (a, x)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn is_the_centre_of_the_smallest_ball_around_all_corners(drawn in drawn()) {
        let (a, truth) = drawn.system();
        let system = LinearSystem::new(&weights(&a)).unwrap();
        let conditioning = system.singular_values().first().copied().unwrap_or(0.0)
            / system.singular_values()[..system.rank()].last().copied().unwrap_or(1.0);
        prop_assume!(conditioning < 1e3);
        let corners = corners_by_trial(&a, &truth, system.nullity());
        prop_assume!(!corners.is_empty());
        let found = centre(&a, &column(truth.as_slice()));
        let x = found.estimates.column(0).into_owned();
        let outcome = found.outcomes[0];
        prop_assert_eq!(outcome.ended, Termination::Solved);

        // The corners found span what those of the trial span: the squared radius is the worst of either.
        let reach = worst(&corners, &x);
        prop_assert!((reach - outcome.objective).abs() < 1e-8, "{reach} {}", outcome.objective);
        // No ball is smaller.
        let (least, gap) = ball_by_descent(&corners);
        // How close the other method comes differs; what it has shown by then is what counts.
        prop_assert!(gap < 1e-4, "the other method came to rest at a gap of {gap:e}");
        prop_assert!(outcome.objective <= least + gap + 1e-8, "{} above {least} + {gap}", outcome.objective);
        prop_assert!(outcome.objective >= least - 1e-8, "{} below {least}", outcome.objective);
        // It solves the equations in the box.
        prop_assert!((&a * &x - &a * &truth).amax() < 1e-8);
        prop_assert!(x.iter().all(|v| (0.0..=1.0).contains(v)));

        // No other estimate has a smaller worst case; the ball around any y also reaches ‖y − x̂‖² farther.
        let mut others = vec![DVector::from_element(a.ncols(), 0.5), truth.clone(), corners[0].clone()];
        for method in [
            Method::HalfStar,
            Method::ClampedHalfStar,
            Method::ClampedLeastSquares,
            Method::ConstrainedLeastSquares,
            Method::Rcc1,
            Method::Rcc2,
        ] {
            others.push(attack(&a, &column(truth.as_slice()), method).unwrap().estimates.column(0).into_owned());
        }
        for other in others {
            let excess = worst(&corners, &other) - outcome.objective - (&other - &x).norm_squared();
            prop_assert!(excess > -1e-7, "{excess:e}");
        }
    }

    /// The order of classes and of features is a matter of writing.
    #[test]
    fn order_does_not_matter(drawn in drawn()) {
        let (a, truth) = drawn.system();
        let (w, d) = (weights(&a), a.ncols());
        let truth = column(truth.as_slice());
        let x = centre(&a, &truth);
        prop_assume!(x.solved.as_ref().unwrap().condition_number < 1e3);
        let classes: Vec<usize> = (0..w.nrows()).rev().collect();
        let turned: Vec<usize> = (0..d).map(|i| (i + 1) % d).collect();
        let w = w.select_rows(&classes).select_columns(&turned);
        let other = DMatrix::from_fn(w.nrows() - 1, d, |i, j| w[(i + 1, j)] - w[(i, j)]);
        let y = centre(&other, &truth.select_rows(&turned));
        prop_assert!((y.estimates - x.estimates.select_rows(&turned)).amax() < 1e-7);
        prop_assert!((y.outcomes[0].objective - x.outcomes[0].objective).abs() < 1e-8);
    }
}

/// Scores of a point outside the box: the centre of the points whose scores are nearest, which the best fit names.
#[test]
fn scores_that_nothing_in_the_box_gives() {
    let mut out_of_reach = 0;
    for seed in 0..50 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let a = DMatrix::from_fn(3, 6, |_, _| 2.0 * rng.random::<f64>() - 1.0);
        let outside = DMatrix::from_fn(6, 1, |_, _| if rng.random::<bool>() { 2.0 } else { -1.0 });
        let fit = attack(&a, &outside, Method::ConstrainedLeastSquares).unwrap();
        let centre = attack(&a, &outside, Method::ChebyshevExact).unwrap();
        // Some points of the box may give the same scores as one outside.
        assert_eq!(centre.outcomes[0].ended, fit.outcomes[0].ended, "seed {seed}");
        out_of_reach += usize::from(fit.outcomes[0].ended == Termination::NearestConsistent);
        assert!((&a * (&centre.estimates - &fit.estimates)).amax() < 1e-8, "seed {seed}");
        assert!(centre.estimates.iter().all(|v| (-1e-9..=1.0 + 1e-9).contains(v)), "seed {seed}");
    }
    assert!(out_of_reach > 25, "{out_of_reach} of 50");
}

/// As many dimensions as are allowed, against all corners by trial.
#[test]
fn the_most_dimensions() {
    for seed in 0..3 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let (rank, d) = (1 + seed as usize, 1 + seed as usize + MAX_NULLITY);
        let a = DMatrix::from_fn(rank, d, |_, _| rng.random::<f64>() - 0.5);
        let truth = DVector::from_fn(d, |_, _| rng.random::<f64>());
        let corners = corners_by_trial(&a, &truth, MAX_NULLITY);
        let found = centre(&a, &column(truth.as_slice()));
        let (x, outcome) = (found.estimates.column(0).into_owned(), found.outcomes[0]);
        assert_eq!(outcome.iterations as usize, corners.len(), "seed {seed}");
        assert!((worst(&corners, &x) - outcome.objective).abs() < 1e-9, "seed {seed}");
        let (least, gap) = ball_by_descent(&corners);
        assert!(
            gap < 1e-6 && (outcome.objective - least).abs() < 1e-6 + gap,
            "seed {seed}: {gap:e}"
        );
    }
}

#[test]
fn one_free_dimension_gives_the_middle_of_an_interval() {
    // x₁ + 2 x₂ = 1: from (1, 0) to (0, ½).
    let found = centre(&matrix(&[vec![1.0, 2.0]]), &column(&[0.4, 0.3]));
    assert!((found.estimates - column(&[0.5, 0.25])).amax() < 1e-12);
    assert!((found.outcomes[0].objective - (0.25 + 0.0625)).abs() < 1e-12);
    assert_eq!(found.status, Status::Centre { rank: 1 });
}

#[test]
fn without_equations_it_is_the_centre_of_the_box() {
    for d in 1..=MAX_NULLITY {
        let found = centre(&DMatrix::zeros(2, d), &DMatrix::from_element(d, 1, 0.1));
        assert!(found.estimates.iter().all(|x| (x - 0.5).abs() < 1e-12));
        assert!((found.outcomes[0].objective - d as f64 / 4.0).abs() < 1e-12);
        assert_eq!(found.outcomes[0].iterations, 1 << d);
    }
}

/// Σ x = s: for s ≤ 1 the simplex with corners s e_i, whose centre is s/d with squared radius s² (1 − 1/d).
#[test]
fn simplices() {
    for d in 2..=MAX_NULLITY {
        for s in [0.3, 1.0] {
            let found = centre(
                &DMatrix::from_element(1, d, 1.0),
                &DMatrix::from_element(d, 1, s / d as f64),
            );
            assert!(found.estimates.iter().all(|x| (x - s / d as f64).abs() < 1e-9), "{d} {s}");
            let squared = s * s * (1.0 - 1.0 / d as f64);
            assert!((found.outcomes[0].objective - squared).abs() < 1e-9, "{d} {s}");
        }
    }
}

/// 0 and 1 are where the solutions shrink to one point, and where round-off leaves none.
#[test]
fn one_point_is_found_though_round_off_leaves_none() {
    for seed in 0..200 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let d = 2 + seed as usize % 6;
        let truth = DMatrix::from_fn(d, 1, |_, _| f64::from(u8::from(rng.random::<bool>())));
        // All weights draw away from the truth, so that no other point of the box has its score.
        let a = DMatrix::from_fn(1, d, |_, j| {
            (0.2 + rng.random::<f64>()) * (1.0 - 2.0 * truth[(j, 0)])
        });
        let found = centre(&a, &truth);
        assert!((found.estimates - &truth).amax() < 1e-9, "seed {seed}");
        assert!(
            found.outcomes[0].objective < 1e-17,
            "seed {seed}: {}",
            found.outcomes[0].objective
        );
        assert_eq!(found.outcomes[0].ended, Termination::Solved);
    }
}

/// As many independent equations as features: the features themselves.
#[test]
fn determined_records_come_back() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let a = DMatrix::from_fn(5, 4, |_, _| rng.random::<f64>() - 0.5);
    let truth = DMatrix::from_fn(4, 20, |i, j| if (i + j) % 3 == 0 { 1.0 } else { rng.random() });
    let found = centre(&a, &truth);
    assert!((found.estimates - truth).amax() < 1e-10);
    assert_eq!(found.status, Status::Unique);
    assert!(found.outcomes.iter().all(|o| o.ended == Termination::Solved && o.objective < 1e-20));
}

#[test]
fn too_many_dimensions_are_refused() {
    let d = MAX_NULLITY + 2;
    let refused =
        attack(&DMatrix::from_element(1, d, 1.0), &DMatrix::zeros(d, 1), Method::ChebyshevExact);
    let expected = AttackError::Nullity { features: d, nullity: d - 1, limit: MAX_NULLITY };
    assert_eq!(refused.err(), Some(expected));
}

#[derive(Deserialize)]
struct Windows {
    #[serde(rename = "W")]
    w: Vec<Vec<f64>>,
    b: Vec<f64>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    passive_index: Vec<usize>,
    active_index: Vec<usize>,
    nullity: usize,
    records: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    x_pas: Vec<f64>,
    y_act: Vec<f64>,
    c: Vec<f64>,
    rcc1: Vec<f64>,
    rcc1_bound: f64,
    rcc1_tol: f64,
    rcc2: Vec<f64>,
    rcc2_bound: f64,
}

/// The relaxations bound the squared radius from above, and no estimate, theirs least of all, has a smaller worst case
/// (R section V-B). The largest squared distance from y to S is at least r² + ‖y − x̂‖².
#[test]
fn relaxations_bound_the_radius() {
    let mut seen = 0;
    for file in ["attacks_robot.json", "attacks_satellite.json"] {
        let windows: Windows = golden(file);
        let (w, bias) = (matrix(&windows.w), DVector::from_vec(windows.b));
        for case in windows.cases.iter().filter(|c| c.nullity <= MAX_NULLITY) {
            let (w_act, w_pas) =
                (w.select_columns(&case.active_index), w.select_columns(&case.passive_index));
            let model = KnownModel::white_box(w_act, bias.clone(), w_pas).unwrap();
            for record in &case.records {
                let active = FeatureBlock::new(column(&record.y_act)).unwrap();
                let released = ReleasedScores::Probabilities(column(&record.c));
                let view =
                    AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
                let found = run(Method::ChebyshevExact, &view);
                let (x, outcome) = (&found.estimates, found.outcomes[0]);
                assert_eq!(outcome.ended, Termination::Solved);
                assert!(found.solved.unwrap().residuals[0] < 1e-8);
                let from = |y: &[f64]| (column(y) - x).norm_squared();
                assert!(
                    from(&record.x_pas) <= outcome.objective + 1e-9,
                    "the truth lies outside the ball"
                );
                // The optimum of each relaxation bounds the squared distance of its own point from all of S.
                let slack = 1e-8 + record.rcc1_tol;
                assert!(outcome.objective + from(&record.rcc1) <= record.rcc1_bound + slack);
                assert!(outcome.objective + from(&record.rcc2) <= record.rcc2_bound + slack);
                seen += 1;
            }
        }
    }
    assert!(seen >= 24, "{seen} records");
}
