use nalgebra::DVector;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::interior_point::InteriorPoint;
use super::*;

/// A system with a right side, and a point of the box that satisfies it if there is one.
struct Case {
    a: DMatrix<f64>,
    b: DMatrix<f64>,
    truth: Option<DMatrix<f64>>,
}

impl Case {
    /// All that is known to be hard: repeated rows and columns, columns of zeros, small integers, one dominant column, one
    /// sign, equal entries; truths at vertices, on faces and at the centre; right sides that nothing satisfies.
    fn draw(seed: u64, most_rows: usize, most_columns: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (m, d) = (rng.random_range(1..=most_rows), rng.random_range(1..=most_columns));
        let scale = 10f64.powf(rng.random_range(-1.0..2.0));
        let mut a = DMatrix::from_fn(m, d, |_, _| scale * rng.sample::<f64, _>(StandardNormal));
        match rng.random_range(0..10) {
            0 => (0..d).for_each(|j| a[(m - 1, j)] = a[(0, j)]),
            1 => a.column_mut(0).fill(0.0),
            2 => (0..m).for_each(|i| a[(i, d - 1)] = a[(i, 0)]),
            3 => a.column_mut(0).scale_mut(1e3),
            4 => a.apply(|v| *v = (*v / scale).round()),
            5 => a.apply(|v| *v = v.abs()),
            6 => a.fill(if rng.random_bool(0.1) { 0.0 } else { 1.0 }),
            _ => {}
        }
        let kind = rng.random_range(0..6);
        let truth = DMatrix::from_fn(d, 1, |_, _| {
            let inner: f64 = rng.random();
            match kind {
                0 => inner.round(),
                1 if rng.random_bool(0.5) => inner.round(),
                2 => 0.0,
                3 => 0.5,
                _ => inner,
            }
        });
        let mut b = &a * &truth;
        let defended = rng.random_bool(0.4);
        if defended {
            let size = scale * 10f64.powf(rng.random_range(-6.0..1.5));
            b.apply(|b| *b += size * rng.sample::<f64, _>(StandardNormal));
        }
        Self { a, b, truth: (!defended).then_some(truth) }
    }

    /// A scale on which errors of A x are of order 1.
    fn scale(&self) -> f64 {
        self.a.amax().max(self.b.amax()).max(1e-100)
    }
}

fn only(solution: &BoxSolution) -> (&DMatrix<f64>, BoxOutcome) {
    (&solution.x, solution.outcomes[0])
}

/// Every pattern of coordinates at 0, at 1 and free, the free ones by least squares: the least ‖A x − b‖, and of those
/// points the one nearest to ½.
fn by_enumeration(a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    let d = a.ncols();
    let mut best: Option<(f64, f64, DMatrix<f64>)> = None;
    for pattern in 0..3usize.pow(d as u32) {
        let digit = |i: usize| pattern / 3usize.pow(i as u32) % 3;
        let free: Vec<usize> = (0..d).filter(|&i| digit(i) == 2).collect();
        let mut x = DMatrix::from_fn(d, 1, |i, _| if digit(i) == 1 { 1.0 } else { 0.0 });
        let mut half = x.clone();
        free.iter().for_each(|&i| half[i] = 0.5);
        let columns = DMatrix::from_fn(a.nrows(), free.len(), |r, c| a[(r, free[c])]);
        let inverse = crate::PseudoInverse::new(&columns).unwrap().matrix;
        let step = inverse * (b - a * &half);
        free.iter().enumerate().for_each(|(c, &i)| x[i] = 0.5 + step[c]);
        if x.iter().any(|v| !(-1e-12..=1.0 + 1e-12).contains(v)) {
            continue;
        }
        let (misfit, distance) = ((a * &x - b).norm_squared(), x.map(|v| v - 0.5).norm_squared());
        let better = best.as_ref().is_none_or(|(m, s, _)| {
            let slack = 1e-11 * (1.0 + b.norm_squared());
            misfit < m - slack || (misfit < m + slack && distance < *s)
        });
        if better {
            best = Some((misfit, distance, x));
        }
    }
    best.unwrap().2
}

#[test]
fn the_nearest_fit_is_what_enumeration_finds() {
    for seed in 0..400 {
        let case = Case::draw(seed, 4, 5);
        let want = by_enumeration(&case.a, &case.b);
        let system = BoxSystem::new(&case.a).unwrap();
        for solution in [system.project_half(&case.b), system.least_squares(&case.b)] {
            let (x, outcome) = only(&solution);
            assert!(
                (x - &want).amax() < 1e-6,
                "seed {seed}: {} off, {outcome:?}",
                (x - &want).amax()
            );
            assert!(
                outcome.converged && (outcome.consistent || case.truth.is_none()),
                "seed {seed}: {outcome:?}"
            );
        }
    }
}

#[test]
fn hard_cases_satisfy_the_optimality_conditions() {
    for seed in 0..6000 {
        let case = Case::draw(seed, 10, 24);
        let scale = case.scale();
        let system = BoxSystem::new(&case.a).unwrap();
        let fit = system.least_squares(&case.b);
        let nearest = system.project_half(&case.b);
        let centre = system.relaxed_chebyshev(&case.b);
        for solution in [&fit, &nearest, &centre] {
            let (x, outcome) = only(solution);
            assert!(x.iter().all(|v| (0.0..=1.0).contains(v)), "seed {seed}: outside the box");
            assert!(outcome.converged, "seed {seed}: {outcome:?}");
            assert!(outcome.consistent || case.truth.is_none(), "seed {seed}: {outcome:?}");
            // One A x for all: that of the nearest right side that can be satisfied.
            assert!((&case.a * (x - &fit.x)).amax() / scale < 1e-9, "seed {seed}");
        }
        // The gradient of ‖A x − b‖² pushes against the bounds alone.
        let gradient = case.a.transpose() * (&case.b - &case.a * &fit.x) / (scale * scale);
        for (x, g) in fit.x.iter().zip(gradient.iter()) {
            let wrong = if *x == 0.0 {
                g.max(0.0)
            } else if *x == 1.0 {
                (-g).max(0.0)
            } else {
                g.abs()
            };
            assert!(wrong < 1e-9, "seed {seed}: gradient {g:e} at {x}");
        }
        if let Some(truth) = &case.truth {
            // R (15), (16), (22): the truth is no further off than the bound says, in either relaxation.
            for solution in [&nearest, &centre] {
                let (x, outcome) = only(solution);
                let distance = (x - truth).norm_squared();
                assert!(
                    distance <= outcome.objective + 1e-8,
                    "seed {seed}: {distance} > {outcome:?}"
                );
            }
        }
        let (first, second) = (centre.outcomes[0].objective, nearest.outcomes[0].objective);
        assert!(first <= second + 1e-8, "seed {seed}: {first} above {second}");
    }
}

/// The two interior point methods and the certificates are three ways to the same point.
#[test]
fn all_ways_to_the_first_relaxation_agree() {
    let (mut agreed, mut apart) = (0, 0);
    for seed in 10_000..10_600 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (m, d) = (rng.random_range(1..=6), rng.random_range(2..=16));
        let a = DMatrix::from_fn(m, d, |_, _| rng.sample::<f64, _>(StandardNormal));
        let truth = DMatrix::from_fn(d, 1, |_, _| rng.random::<f64>());
        let system = BoxSystem::new(&a).unwrap();
        let b = &a * truth;
        let nearest = system.project_half(&b);
        let face = &system.moving;
        // Without an interior the methods below have nothing to work in.
        if face.n < 2
            || face.index.len() < d
            || nearest.x.iter().any(|v| !(1e-3..=0.999).contains(v))
        {
            continue;
        }
        let centre = system.relaxed_chebyshev(&b);
        let (mut one, mut two) = (nearest.x.as_slice().to_vec(), nearest.x.as_slice().to_vec());
        let first = InteriorPoint::default().solve(&face.nt, face.n, &mut one);
        let second = InteriorPoint::default().solve_by_barrier(&face.nt, face.n, &mut two);
        assert!(first.converged && second.converged, "seed {seed}");
        let bound = centre.outcomes[0].objective;
        assert!((first.bound - bound).abs() < 1e-8, "seed {seed}: {} against {bound}", first.bound);
        assert!(
            (second.bound - bound).abs() < 1e-8,
            "seed {seed}: {} against {bound}",
            second.bound
        );
        for x in [one, two] {
            assert!((DMatrix::from_vec(d, 1, x) - &centre.x).amax() < 1e-6, "seed {seed}");
        }
        if (&centre.x - &nearest.x).amax() < 1e-9 { agreed += 1 } else { apart += 1 }
    }
    assert!(
        agreed > 50 && apart > 50,
        "{agreed} agreed, {apart} apart: both kinds are meant to be here"
    );
}

/// One dimension of freedom: S(u) = min (x_i (1 − x_i)) / a_i² along the line, on a fine grid.
#[test]
fn a_line_of_solutions() {
    for seed in 20_000..20_200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let d = rng.random_range(2..=7);
        let a = DMatrix::from_fn(d - 1, d, |_, _| rng.sample::<f64, _>(StandardNormal));
        let truth = DMatrix::from_fn(d, 1, |_, _| rng.random::<f64>());
        let system = BoxSystem::new(&a).unwrap();
        let found = system.relaxed_chebyshev(&(&a * &truth));
        let (x, outcome) = only(&found);
        let along = &system.moving.nt;
        let value = |u: f64| {
            (0..d)
                .map(|i| (x[i] + u * along[i]) * (1.0 - x[i] - u * along[i]) / along[i].powi(2))
                .fold(f64::INFINITY, f64::min)
        };
        let here = value(0.0);
        assert!((here - outcome.objective).abs() < 1e-9, "seed {seed}: {here} against {outcome:?}");
        for step in 1..4000 {
            let u = f64::from(step) * 5e-4;
            assert!(
                value(u) <= here + 1e-9 && value(-u) <= here + 1e-9,
                "seed {seed}: better at {u}"
            );
        }
    }
}

/// The unconstrained estimate against its formula with the pseudo-inverse, and against the norm: it is a solution, and no
/// other solution is nearer to ½.
#[test]
fn half_star_is_the_solution_nearest_to_one_half() {
    for seed in 30_000..30_200 {
        let case = Case::draw(seed, 10, 24);
        let half = DMatrix::from_element(case.a.ncols(), 1, 0.5);
        let found = BoxSystem::new(&case.a).unwrap().half_star(&case.b);
        let inverse = crate::PseudoInverse::new(&case.a).unwrap().matrix;
        let want = &half + &inverse * (&case.b - &case.a * &half);
        assert!((&found - &want).amax() <= 1e-9 * want.amax().max(1.0), "seed {seed}");
        if let Some(truth) = &case.truth {
            assert!((&case.a * &found - &case.b).amax() <= 1e-9 * case.scale(), "seed {seed}");
            assert!((&found - &half).norm() <= (truth - &half).norm() + 1e-9, "seed {seed}");
        }
    }
    let none = BoxSystem::new(&DMatrix::zeros(0, 3)).unwrap();
    assert_eq!(none.half_star(&DMatrix::zeros(0, 2)), DMatrix::from_element(3, 2, 0.5));
}

#[test]
fn right_sides_that_are_not_finite_come_to_an_end() {
    let system = BoxSystem::new(&DMatrix::from_fn(2, 5, |i, j| (i * j) as f64 - 1.0)).unwrap();
    for value in [f64::NAN, f64::INFINITY, 1e300] {
        let b = DMatrix::from_element(2, 1, value);
        for solve in
            [BoxSystem::project_half, BoxSystem::least_squares, BoxSystem::relaxed_chebyshev]
        {
            assert!(!solve(&system, &b).outcomes[0].consistent, "{value}");
        }
    }
}

#[test]
fn a_right_side_does_not_see_its_neighbours() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let a = DMatrix::from_fn(4, 11, |_, _| rng.sample::<f64, _>(StandardNormal));
    let x = DMatrix::from_fn(11, 100, |_, _| rng.random::<f64>().mul_add(1.4, -0.2));
    let b = &a * x;
    let system = BoxSystem::new(&a).unwrap();
    for solve in [BoxSystem::project_half, BoxSystem::least_squares, BoxSystem::relaxed_chebyshev] {
        let all = solve(&system, &b);
        for i in [0, 31, 32, 77, 99] {
            let alone = solve(&system, &b.columns(i, 1).into_owned());
            assert_eq!(alone.x.column(0), all.x.column(i));
            assert_eq!(alone.outcomes[0], all.outcomes[i]);
        }
    }
}

#[test]
fn what_has_no_equations_or_no_unknowns() {
    let open = BoxSystem::new(&DMatrix::zeros(2, 3)).unwrap();
    let b = DMatrix::from_column_slice(2, 2, &[0.0, 0.0, 1.0, 0.0]);
    for solution in [open.project_half(&b), open.relaxed_chebyshev(&b)] {
        assert_eq!(solution.x, DMatrix::from_element(3, 2, 0.5));
        assert_eq!(
            solution.outcomes.iter().map(|o| o.consistent).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(solution.outcomes[0].objective, 0.75);
    }
    assert_eq!(open.least_squares(&b).outcomes[1].objective, 1.0);
    let empty = BoxSystem::new(&DMatrix::zeros(2, 0)).unwrap();
    assert_eq!(empty.project_half(&b).x.shape(), (0, 2));
    let nan = DMatrix::from_element(1, 1, f64::NAN);
    assert_eq!(BoxSystem::new(&nan).unwrap_err(), DecompositionError::NotFinite);
    let unit = BoxSystem::new(&DMatrix::from_diagonal(&DVector::from_element(2, 2.0))).unwrap();
    let settled = unit.relaxed_chebyshev(&DMatrix::from_column_slice(2, 1, &[0.5, 2.0]));
    assert_eq!(
        (settled.x.as_slice(), settled.outcomes[0].objective),
        ([0.25, 1.0].as_slice(), 0.0)
    );
}
