use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;
use crate::box_system::BoxSystem;

/// A prior, equations and right sides of points that the prior and the box allow, unless `defended`.
struct Case {
    a: DMatrix<f64>,
    covariance: DMatrix<f64>,
    means: DMatrix<f64>,
    b: DMatrix<f64>,
    defended: bool,
}

impl Case {
    fn draw(seed: u64, most: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (m, d) = (rng.random_range(1..=5usize), rng.random_range(1..=most));
        let mut normal = |rows, columns| {
            DMatrix::from_fn(rows, columns, |_, _| rng.sample::<f64, _>(StandardNormal))
        };
        let (a, spread, wander) = (normal(m, d), normal(d, d), normal(d, 3));
        let mut a = 3.0 * a;
        let rank = if seed.is_multiple_of(4) { d.div_ceil(2) } else { d };
        let spread = 0.25 * spread.columns(0, rank).clone_owned() / (rank as f64).sqrt();
        if seed.is_multiple_of(5) {
            let first = a.row(0).clone_owned();
            a.row_mut(m - 1).copy_from(&first);
        }
        let means = (0.5 + 0.1 * seed.rem_euclid(3) as f64) * DMatrix::from_element(d, 3, 1.0)
            + 0.2 * wander;
        // In the support and the box, as far as clipping leaves it there.
        let truth = DMatrix::from_fn(d, 3, |_, _| rng.random::<f64>());
        let truth = if rank == d {
            truth
        } else {
            let mut inside = means.clone();
            let away =
                &spread * DMatrix::from_fn(rank, 3, |_, _| rng.sample::<f64, _>(StandardNormal));
            inside += away;
            inside
        };
        let mut b = &a * &truth;
        let defended = seed % 6 == 1;
        if defended {
            b.apply(|b| *b += rng.sample::<f64, _>(StandardNormal));
        }
        Self { a, covariance: &spread * spread.transpose(), means, b, defended }
    }
}

/// Every pattern of coordinates at 0, at 1 and free: the least (x − m)ᵀS⁻¹(x − m) with A x = b in the box.
fn by_enumeration(case: &Case, record: usize) -> Option<(f64, DVector<f64>)> {
    let d = case.a.ncols();
    let inverse = case.covariance.clone().try_inverse()?;
    let mean = case.means.column(record).clone_owned();
    let mut best: Option<(f64, DVector<f64>)> = None;
    for pattern in 0..3usize.pow(d as u32) {
        let digit = |i: usize| pattern / 3usize.pow(i as u32) % 3;
        let held: Vec<usize> = (0..d).filter(|&i| digit(i) != 2).collect();
        let rows = case.a.nrows() + held.len();
        // All that is known, as one system: conditioned on it the mean is the candidate.
        let system = DMatrix::from_fn(rows, d, |i, j| match i.checked_sub(case.a.nrows()) {
            None => case.a[(i, j)],
            Some(at) => f64::from(u8::from(held[at] == j)),
        });
        let right = DVector::from_fn(rows, |i, _| match i.checked_sub(case.a.nrows()) {
            None => case.b[(i, record)],
            Some(at) => digit(held[at]) as f64,
        });
        let cross = &case.covariance * system.transpose();
        let known = crate::PseudoInverse::new(&(&system * &cross)).unwrap();
        let x = &mean + cross * known.matrix * (&right - &system * &mean);
        if (&system * &x - right).amax() > 1e-8
            || x.iter().any(|v| !(-1e-9..=1.0 + 1e-9).contains(v))
        {
            continue;
        }
        let away = &x - &mean;
        let distance = away.dot(&(&inverse * &away));
        if best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, x));
        }
    }
    best
}

#[test]
fn the_likeliest_point_is_that_of_an_enumeration() {
    let mut compared = 0;
    for seed in (0..400).filter(|s| s % 4 != 0) {
        let case = Case::draw(seed, 5);
        let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
        let found = system.likeliest_in_box(&case.means, &case.b);
        for record in 0..3 {
            let outcome = found.outcomes[record];
            let Some((distance, x)) = by_enumeration(&case, record) else {
                assert!(!outcome.consistent, "seed {seed}: no point, yet one was found");
                continue;
            };
            // Enumeration cannot tell apart what conditioning magnifies.
            if !x.iter().all(|v| v.is_finite()) {
                continue;
            }
            compared += 1;
            let got = found.x.column(record);
            assert!(
                outcome.consistent && outcome.converged,
                "seed {seed}, record {record}: {outcome:?}"
            );
            assert!(
                outcome.objective <= distance * (1.0 + 1e-6) + 1e-8,
                "seed {seed}: {} > {distance}",
                outcome.objective
            );
            let away = (got - x).amax();
            assert!(away < 1e-4, "seed {seed}, record {record}: {away}");
        }
    }
    assert!(compared > 600, "{compared}");
}

#[test]
fn estimates_stay_in_the_box_the_equations_and_the_support() {
    for seed in 0..600 {
        let case = Case::draw(seed, 24);
        let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
        for (name, found) in [
            ("likeliest", system.likeliest_in_box(&case.means, &case.b)),
            ("posterior", system.posterior_mean(&case.means, &case.b)),
        ] {
            for record in 0..3 {
                let (x, outcome) = (found.x.column(record), found.outcomes[record]);
                assert!(x.iter().all(|v| (0.0..=1.0).contains(v)), "{name}, seed {seed}: {x}");
                assert!(outcome.converged, "{name}, seed {seed}, record {record}: {outcome:?}");
                if outcome.consistent {
                    let misfit = (&case.a * x - case.b.column(record)).amax();
                    assert!(misfit < 1e-7 * (1.0 + case.b.amax()), "{name}, seed {seed}: {misfit}");
                    let away = x - case.means.column(record);
                    let kept = crate::PseudoInverse::new(&case.covariance).unwrap();
                    let outside = &away - &case.covariance * (kept.matrix * &away);
                    assert!(
                        outside.amax() < 1e-6,
                        "{name}, seed {seed}: off the support by {}",
                        outside.amax()
                    );
                }
            }
        }
        // With full rank and scores as they are there is always a point.
        if seed % 4 != 0 && !case.defended {
            let found = system.likeliest_in_box(&case.means, &case.b);
            assert!(found.outcomes.iter().all(|o| o.consistent), "seed {seed}");
        }
    }
}

/// Multipliers prove the likeliest point: x − x₀ = T (λ₀ − λ₁) with λ ≥ 0 on the coordinates at their bounds.
#[test]
fn the_likeliest_point_meets_the_optimality_conditions() {
    let mut bound = 0;
    for seed in (0..800).filter(|s| s % 6 != 1 && s % 4 != 0) {
        let case = Case::draw(seed, 20);
        let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
        let found = system.likeliest_in_box(&case.means, &case.b);
        let start = system.conditional_mean(&case.means, &case.b);
        for record in 0..3 {
            let x = found.x.column(record);
            let held: Vec<usize> =
                (0..x.len()).filter(|&i| x[i] < 1e-9 || x[i] > 1.0 - 1e-9).collect();
            if held.is_empty() {
                assert!((x - start.column(record)).amax() < 1e-9, "seed {seed}");
                continue;
            }
            bound += 1;
            let columns = system.covariance_left().select_columns(&held);
            let pushes =
                crate::PseudoInverse::new(&columns).unwrap().matrix * (x - start.column(record));
            let rest = (&columns * &pushes - (x - start.column(record))).amax();
            assert!(rest < 1e-8, "seed {seed}: pushed from elsewhere, {rest}");
            let trace = columns.amax();
            for (push, &i) in pushes.iter().zip(&held) {
                let outward = if x[i] < 0.5 { -push } else { *push };
                // With as many bounds as directions multipliers are not unique: only clear contradictions count.
                if held.len() <= x.len().saturating_sub(case.a.nrows()) {
                    assert!(outward <= 1e-6 / trace, "seed {seed}: bound {i} pulls ({outward})");
                }
            }
        }
    }
    assert!(bound > 200, "{bound}");
}

/// Mean over a fine grid, for two unknowns.
fn on_a_grid(
    mean: [f64; 2],
    covariance: &DMatrix<f64>,
    inside: impl Fn(f64, f64) -> bool,
) -> [f64; 2] {
    let inverse = covariance.clone().try_inverse().unwrap();
    let n = 1500;
    let (mut mass, mut sum) = (0.0, [0.0; 2]);
    for i in 0..n {
        for j in 0..n {
            let (x, y) = ((i as f64 + 0.5) / n as f64, (j as f64 + 0.5) / n as f64);
            if !inside(x, y) {
                continue;
            }
            let (u, v) = (x - mean[0], y - mean[1]);
            let form =
                inverse[(0, 0)] * u * u + 2.0 * inverse[(0, 1)] * u * v + inverse[(1, 1)] * v * v;
            let weight = (-0.5 * form).exp();
            mass += weight;
            sum[0] += weight * x;
            sum[1] += weight * y;
        }
    }
    sum.map(|s| s / mass)
}

#[test]
fn two_unknowns_agree_with_a_grid() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut worst = 0.0f64;
    for case in 0..24 {
        let correlation: f64 = rng.random_range(-0.95..0.95);
        let deviations = [rng.random_range(0.05..0.8), rng.random_range(0.05..0.8)];
        let covariance = DMatrix::from_fn(2, 2, |i, j| {
            deviations[i] * deviations[j] * if i == j { 1.0 } else { correlation }
        });
        let mean: [f64; 2] = [rng.random_range(-0.5..1.5), rng.random_range(-0.2..1.2)];
        let slope: f64 = rng.random_range(-2.0..2.0);
        let mut confined =
            ConfinedGaussian::new(DVector::from_row_slice(&mean), covariance.clone());
        confined.confine_to_unit_box();
        let with_row = case % 2 == 1;
        if with_row {
            confined.confine(&[1.0, slope], 0.3, 0.9);
        }
        let want = on_a_grid(mean, &covariance, |x, y| {
            !with_row || (0.3..=0.9).contains(&(x + slope * y))
        });
        let found = confined.mean();
        assert!(found.converged, "{case}");
        let sampled = confined.sampled_mean(40_000, &mut rng).unwrap();
        for i in 0..2 {
            worst = worst.max((found.x[i] - want[i]).abs());
            assert!(
                (sampled[i] - want[i]).abs() < 0.006,
                "case {case}: sampled {} for {}",
                sampled[i],
                want[i]
            );
            assert!(
                (found.x[i] - want[i]).abs() < 0.02,
                "case {case}: {} for {}",
                found.x[i],
                want[i]
            );
        }
    }
    println!("expectation propagation, two unknowns: at most {worst:.1e} from a grid");
}

/// Expectation propagation against long runs of the sampler, under equations.
#[test]
fn the_posterior_mean_agrees_with_a_long_run() {
    let (mut worst, mut compared) = (0.0f64, 0);
    for seed in [2, 3, 5, 9, 11, 14] {
        let case = Case::draw(seed, 18);
        let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
        let found = system.posterior_mean(&case.means, &case.b);
        let start = system.conditional_mean(&case.means, &case.b);
        for record in 0..3 {
            let mut confined = ConfinedGaussian::new(
                start.column(record).clone_owned(),
                system.covariance_left().clone(),
            );
            confined.confine_to_unit_box();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let Some(sampled) = confined.sampled_mean(20_000, &mut rng) else { continue };
            let deviation = system.covariance_left().diagonal().max().sqrt().max(1e-9);
            let away = (found.x.column(record) - sampled).amax() / deviation;
            compared += 1;
            worst = worst.max(away);
            assert!(away < 0.1, "seed {seed}, record {record}: {away} deviations");
        }
    }
    assert!(compared >= 12, "{compared}");
    println!("expectation propagation: at most {worst:.1e} deviations from a long run");
}

#[test]
fn the_posterior_mean_has_the_least_error() {
    // x from the prior, confined to the box by rejection.
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let (d, n) = (4, 4000);
    let mut normal = |rows, columns| {
        DMatrix::from_fn(rows, columns, |_, _| rng.sample::<f64, _>(StandardNormal))
    };
    let (a, spread) = (normal(1, d), 0.3 * normal(d, d));
    let covariance = &spread * spread.transpose();
    let mean = DVector::from_row_slice(&[0.2, 0.7, 0.5, 0.9]);
    let mut truth = DMatrix::zeros(d, n);
    for mut column in truth.column_iter_mut() {
        loop {
            let x =
                &mean + &spread * DVector::from_fn(d, |_, _| rng.sample::<f64, _>(StandardNormal));
            if x.iter().all(|v| (0.0..=1.0).contains(v)) {
                column.copy_from(&x);
                break;
            }
        }
    }
    let means = DMatrix::from_fn(d, n, |i, _| mean[i]);
    let b = &a * &truth;
    let system = GaussianSystem::new(&a, &covariance).unwrap();
    let error = |x: &DMatrix<f64>| (x - &truth).norm_squared() / (d * n) as f64;
    let posterior = error(&system.posterior_mean(&means, &b).x);
    let likeliest = error(&system.likeliest_in_box(&means, &b).x);
    let half = error(&BoxSystem::new(&a).unwrap().project_half(&b).x);
    let conditional = error(&system.conditional_mean(&means, &b));
    assert!(
        posterior < 0.98 * likeliest && likeliest < conditional,
        "{posterior} {likeliest} {conditional}"
    );
    assert!(posterior < half, "{posterior} {half}");
}

#[test]
fn a_covariance_with_a_negative_variance_is_refused() {
    let a = DMatrix::from_element(1, 2, 1.0);
    let negative = DMatrix::from_row_slice(2, 2, &[1.0, 2.0, 2.0, 1.0]);
    assert!(matches!(GaussianSystem::new(&a, &negative), Err(GaussianError::Negative { .. })));
    let infinite = DMatrix::from_element(2, 2, f64::INFINITY);
    assert!(GaussianSystem::new(&a, &infinite).is_err());
}

#[test]
fn no_equations_and_no_variance_are_cases_like_others() {
    let means = DMatrix::from_row_slice(2, 1, &[0.3, 1.4]);
    let none = GaussianSystem::new(&DMatrix::zeros(0, 2), &DMatrix::identity(2, 2)).unwrap();
    let found = none.likeliest_in_box(&means, &DMatrix::zeros(0, 1));
    assert_eq!(found.x.as_slice(), [0.3, 1.0]);
    // A prior that is sure of itself is not moved.
    let sure =
        GaussianSystem::new(&DMatrix::from_element(1, 2, 1.0), &DMatrix::zeros(2, 2)).unwrap();
    let found = sure.posterior_mean(&means, &DMatrix::from_element(1, 1, 0.5));
    assert_eq!(found.x.as_slice(), [0.3, 1.0]);
    assert!(!found.outcomes[0].consistent);
}

#[test]
fn observing_without_noise_is_conditioning() {
    for seed in [1, 2, 3, 6, 7] {
        let case = Case::draw(seed, 9);
        let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
        let want = system.conditional_mean(&case.means, &case.b);
        let mut confined =
            ConfinedGaussian::new(case.means.column(0).clone_owned(), case.covariance.clone());
        for (row, b) in case.a.row_iter().zip(case.b.column(0).iter()) {
            let row: Vec<f64> = row.iter().copied().collect();
            confined.observe(&row, *b, 1e-9);
        }
        let x = confined.likeliest(&mut crate::ActiveSet::default()).unwrap().0;
        if !case.defended {
            assert!((x - want.column(0)).amax() < 1e-5, "seed {seed}");
        }
    }
}

#[test]
fn the_likeliest_point_between_bounds_is_that_in_the_box() {
    for seed in (0..60).filter(|s| s % 6 != 1 && s % 4 != 0) {
        let case = Case::draw(seed, 12);
        let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
        let want = system.likeliest_in_box(&case.means, &case.b);
        let mut confined = ConfinedGaussian::new(
            system.conditional_mean(&case.means, &case.b).column(0).clone_owned(),
            system.covariance_left().clone(),
        );
        confined.confine_to_unit_box();
        let (x, ended) = confined.likeliest(&mut crate::ActiveSet::default()).unwrap();
        assert_eq!(ended, crate::NearestOutcome::Found, "seed {seed}");
        assert!((x - want.x.column(0)).amax() < 1e-7, "seed {seed}");
    }
}
