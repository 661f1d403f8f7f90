//! RCC2 and the constrained least squares against Clarabel and the optimality conditions.

use nalgebra::{DMatrix, DVector};
use rand::RngExt;
use rayon::prelude::*;
use vfl_numerics::{BoxOutcome, BoxSolution, BoxSystem, GaussianSystem};

use crate::cases::Case;
use crate::optimality::{off_least_squares, off_nearest_half};
use crate::second_solver::{least_squares_residual, likeliest, nearest_half, tight_settings};
use crate::subspace::Subspaces;

const SEED: u64 = 0x000C_1015_0002;
const CASES: u64 = 500;
const MAX_D: usize = 30;

/// A point of the box exactly, found as the method promises, with the objective it claims.
pub(crate) fn check_answer(
    x: &DVector<f64>,
    outcome: BoxOutcome,
    objective: f64,
    scale: f64,
    what: &str,
) {
    assert!(x.iter().all(|v| (0.0..=1.0).contains(v)), "{what}: outside the box\n{x}");
    assert!(outcome.converged, "{what}: {outcome:?}");
    let off = (outcome.objective - objective).abs();
    assert!(
        off <= 1e-9 * scale,
        "{what}: objective {:e}, at x it is {objective:e}",
        outcome.objective
    );
}

/// Each column with its outcome.
pub(crate) fn columns(solution: &BoxSolution) -> impl Iterator<Item = (DVector<f64>, BoxOutcome)> {
    assert_eq!(solution.x.ncols(), solution.outcomes.len(), "one outcome per record");
    solution.x.column_iter().map(|x| x.into_owned()).zip(solution.outcomes.iter().copied())
}

fn squares_left(x: &DVector<f64>) -> f64 {
    x.iter().map(|v| v * (1.0 - v)).sum()
}

/// RCC2 where the equations hold somewhere in the box: on the equations, nearest to ½ by its own conditions, and no farther
/// from it than Clarabel's point.
#[test]
fn nearest_to_half() {
    (0..CASES).into_par_iter().for_each(|index| {
        let case = Case::draw(SEED, index, MAX_D);
        let what = &case.name;
        let found = BoxSystem::new(&case.a).unwrap().project_half(&case.b);
        let (x, outcome) = columns(&found).next().unwrap();
        check_answer(&x, outcome, squares_left(&x), 1.0, what);
        assert!(outcome.consistent, "{what}: {outcome:?}");
        let residual = (&case.a * &x - case.b.column(0)).amax() / case.scale;
        assert!(residual <= 1e-9, "{what}: A x − b = {residual:e}");

        let spaces = Subspaces::of(&case.a);
        let off = off_nearest_half(&spaces, &x);
        assert!(off <= 1e-8, "{what}: {off:e} off the optimality conditions\n{x}");

        // For Clarabel the equations with orthonormal rows: redundant ones cost it accuracy.
        let rows = spaces.rows.transpose();
        let second = nearest_half(&rows, (&rows * &case.truth).as_slice(), tight_settings(1e-12));
        assert!(
            squares_left(&x) >= second.primal - 1e-8,
            "{what}: {} < {}",
            squares_left(&x),
            second.primal
        );
        // Its x is as good as the square root of its gap; where it stops early only the value is compared.
        if second.solved {
            let off = (&x - DVector::from_vec(second.x)).amax();
            assert!(off <= 1e-5, "{what}: {off:e} away from Clarabel's point");
        }
    });
}

/// The likeliest point of the box under a Gaussian with a full covariance: the same as Clarabel's.
#[test]
fn likeliest_in_the_box() {
    let at_faces: usize = (0..CASES).into_par_iter().map(check_likeliest).sum();
    // Were the conditional means all inside the box, the test would say nothing about its faces.
    assert!(at_faces > CASES as usize / 2, "{at_faces} points on a face");
}

fn check_likeliest(index: u64) -> usize {
    let mut case = Case::draw(SEED + 2, index, MAX_D);
    let (what, d) = (&case.name, case.a.ncols());
    let mean = DMatrix::from_fn(d, 1, |_, _| case.rng.random_range(-0.2..1.2));
    let mix = DMatrix::from_fn(d, d, |_, _| case.rng.random_range(-1.0..1.0));
    // Eigenvalues from 0.05 to about 2 d / 3: correlated, and as good as any for a second solver.
    let covariance = &mix * mix.transpose() + DMatrix::identity(d, d) * 0.05;
    let precision = covariance.clone().try_inverse().unwrap();
    let found = GaussianSystem::new(&case.a, &covariance).unwrap().likeliest_in_box(&mean, &case.b);
    let (x, outcome) = columns(&found).next().unwrap();
    let off = &x - mean.column(0);
    let objective = off.dot(&(&precision * &off));
    let scale = objective.max(1.0);
    check_answer(&x, outcome, objective, scale, what);
    assert!(outcome.consistent, "{what}: {outcome:?}");

    let rows = Subspaces::of(&case.a).rows.transpose();
    let right = &rows * &case.truth;
    let second =
        likeliest(&precision, mean.as_slice(), &rows, right.as_slice(), tight_settings(1e-12));
    let difference = (objective - second.primal).abs();
    assert!(difference <= 1e-7 * scale, "{what}: {objective} and {}", second.primal);
    if second.solved {
        let off = (&x - DVector::from_vec(second.x)).amax();
        assert!(off <= 1e-5, "{what}: {off:e} away from Clarabel's point");
    }
    usize::from(x.iter().any(|v| *v <= 0.0 || *v >= 1.0))
}

/// The right sides tried on each system: one that is met, and noise from far below the weights to far above them.
fn right_sides(case: &mut Case) -> DMatrix<f64> {
    let sizes = [1e-4, 1e-2, 10f64.powf(case.rng.random_range(-3.0..0.0)), 30.0];
    let mut all = vec![case.b.column(0).into_owned()];
    all.extend(sizes.map(|size| case.noisy(size).column(0).into_owned()));
    DMatrix::from_columns(&all)
}

/// CLS: its gradient has the right signs, no other point of the box with the same A x is nearer to ½, and Clarabel does no
/// better. RCC2 takes the same point where no point of the box satisfies the equations.
#[test]
fn constrained_least_squares() {
    let inconsistent: usize = (0..CASES).into_par_iter().map(check_least_squares).sum();
    // Were they all met, the test would say nothing about the rest.
    assert!(inconsistent > CASES as usize, "{inconsistent} right sides out of reach");
}

fn check_least_squares(index: u64) -> usize {
    let mut case = Case::draw(SEED + 1, index, MAX_D);
    let all = right_sides(&mut case);
    let system = BoxSystem::new(&case.a).unwrap();
    let (found, centres) = (system.least_squares(&all), system.project_half(&all));
    let spaces = Subspaces::of(&case.a);
    let mut inconsistent = 0;
    for (i, ((x, outcome), (centre, at_centre))) in
        columns(&found).zip(columns(&centres)).enumerate()
    {
        let what = format!("{}, right side {i}", case.name);
        let a = &case.a / case.scale;
        let b = all.column(i) / case.scale;
        // Values of order 1 from here on; b is not, with the largest noise.
        let size = b.norm().max(1.0);
        let residual = &a * &x - &b;
        let scaled = BoxOutcome { objective: outcome.objective / case.scale.powi(2), ..outcome };
        check_answer(&x, scaled, residual.norm_squared(), size.powi(2), &what);
        let off = off_least_squares(&a, &b, &x) / size;
        assert!(off <= 1e-9, "{what}: {off:e} off the optimality conditions");
        let off = off_nearest_half(&spaces, &x);
        assert!(off <= 1e-8, "{what}: {off:e} off the minimiser nearest to ½\n{x}");

        let second = least_squares_residual(&a, b.as_slice(), tight_settings(1e-12));
        let theirs = DVector::from_vec(second.x.iter().map(|v| v.clamp(0.0, 1.0)).collect());
        let their_residual = &a * &theirs - &b;
        let (ours_is, theirs_is) = (residual.norm_squared(), their_residual.norm_squared());
        assert!(
            ours_is <= theirs_is + 1e-8 * size.powi(2),
            "{what}: {ours_is:e}, Clarabel {theirs_is:e}"
        );
        if second.solved {
            // ‖A x − A x*‖² is at most the gap, which is relative to the value.
            let off = (&residual - their_residual).amax() / size;
            assert!(off <= 1e-6, "{what}: A x off by {off:e}");
        }

        // Between the two, neither flag is wrong.
        if i == 0 {
            assert!(
                outcome.consistent && at_centre.consistent,
                "{what}: {outcome:?}, {at_centre:?}"
            );
        }
        if second.dual.max(0.0).sqrt() > 1e-6 && ours_is.sqrt() > 1e-6 {
            assert!(
                !outcome.consistent && !at_centre.consistent,
                "{what}: {outcome:?}, {at_centre:?}"
            );
            inconsistent += 1;
        }
        check_answer(&centre, at_centre, squares_left(&centre), 1.0, &what);
        let off = (&centre - &x).amax();
        assert!(off <= 1e-7, "{what}: RCC2 is {off:e} away from the minimiser nearest to ½");
    }
    inconsistent
}
