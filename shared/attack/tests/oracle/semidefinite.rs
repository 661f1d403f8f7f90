//! RCC1 against Clarabel's semidefinite cone.

use nalgebra::{DMatrix, DVector};
use rand::RngExt;
use rayon::prelude::*;
use vfl_numerics::BoxSystem;

use crate::cases::Case;
use crate::quadratic::columns;
use crate::second_solver::{Found, centre, centre_lifted, room, tight_settings};
use crate::subspace::Subspaces;

const SEED: u64 = 0x000C_1015_0001;
const CASES: u64 = 500;
const MAX_D: usize = 16;

/// Coordinates with less room than this are 0 or 1 in every point of the box that satisfies the equations.
const NO_ROOM: f64 = 1e-6;

/// (16) for the equations that `feasible`, a point of the box, satisfies.
///
/// Coordinates that cannot leave their face are dropped first, and their columns with them. The answer is the same, for S is
/// 0 in their directions; but with them the program has no interior, and an interior point solver loses half its digits.
pub(crate) fn solve(a: &DMatrix<f64>, feasible: &DVector<f64>, lifted: bool) -> Found {
    let rows = Subspaces::of(a).rows.transpose();
    let room = room(&rows, (&rows * feasible).as_slice());
    let free: Vec<usize> = (0..feasible.len()).filter(|&i| room[i] > NO_ROOM).collect();
    let spaces = Subspaces::of(&a.select_columns(&free));
    let mut x = feasible.as_slice().to_vec();
    if spaces.null.is_empty() {
        return Found { x, primal: 0.0, dual: 0.0, solved: true };
    }
    let q = &spaces.rows * (spaces.rows.transpose() * feasible.select_rows(&free));
    let form = if lifted { centre_lifted } else { centre };
    let found = form(&q, &spaces.null, tight_settings(1e-11));
    for (&i, &value) in free.iter().zip(&found.x) {
        x[i] = value;
    }
    Found { x, ..found }
}

/// A point of the box that satisfies the equations, with the optimal value of (16) between Clarabel's primal and dual, and
/// Clarabel's x. How far two ways to state the program are apart says how accurate Clarabel is on it.
#[test]
fn relaxed_chebyshev() {
    let accurate: usize = (0..CASES).into_par_iter().map(|index| usize::from(check(index))).sum();
    assert!(
        accurate * 10 >= CASES as usize * 9,
        "the second solver is accurate on {accurate} of {CASES} only"
    );
}

/// Whether Clarabel's own value is good to 1e-8.
fn check(index: u64) -> bool {
    let mut case = Case::draw(SEED, index, MAX_D);
    let system = BoxSystem::new(&case.a).unwrap();
    // One in four out of reach: then (16) is that of the nearest right side, which the least squares test vouches for.
    let noise = (index % 4 == 3).then(|| 10f64.powf(case.rng.random_range(-4.0..1.0)));
    let what = format!("{}, noise {noise:?}", case.name);
    let (b, feasible) = match noise {
        None => (case.b.clone(), case.truth.column(0).into_owned()),
        Some(size) => {
            let b = case.noisy(size);
            let nearest = system.least_squares(&b).x.column(0).into_owned();
            (b, nearest)
        }
    };
    let (x, outcome) = columns(&system.relaxed_chebyshev(&b)).next().unwrap();
    assert!(outcome.converged, "{what}: {outcome:?}");
    assert!(noise.is_some() || outcome.consistent, "{what}: {outcome:?}");
    assert!(x.iter().all(|v| (0.0..=1.0).contains(v)), "{what}: outside the box\n{x}");
    let residual = (&case.a * (&x - &feasible)).amax() / case.scale;
    assert!(residual <= 1e-9, "{what}: A x − b = {residual:e}");
    let (rcc2, _) = columns(&system.project_half(&b)).next().unwrap();
    let loosest: f64 = rcc2.iter().map(|v| v * (1.0 - v)).sum();
    assert!(
        outcome.objective <= loosest + 1e-8,
        "{what}: {} above RCC2's {loosest}",
        outcome.objective
    );

    let (first, second) = (solve(&case.a, &feasible, false), solve(&case.a, &feasible, true));
    let values = [first.primal, first.dual, second.primal, second.dual];
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    let value = outcome.objective;
    assert!(
        low - 1e-8 <= value && value <= high + 1e-8,
        "{what}: value {value:e}, Clarabel {low:e} to {high:e}"
    );

    let (first, second) = (DVector::from_vec(first.x), DVector::from_vec(second.x));
    let (off, own) = ((&x - &first).amax().min((&x - &second).amax()), (first - second).amax());
    assert!(off <= 1e-6 + 2.0 * own, "{what}: x off by {off:e}, Clarabel's two by {own:e}\n{x}");
    high - low <= 1e-8
}
