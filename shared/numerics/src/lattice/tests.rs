use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::*;

fn normal(rng: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// m × d coefficients, and the metric of d unknowns that are uniform on 0 to n.
fn system(m: usize, d: usize, n: f64, seed: u64) -> (DMatrix<f64>, DMatrix<f64>) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let a = DMatrix::from_fn(m, d, |_, _| normal(&mut rng) / n);
    (a, DMatrix::from_diagonal_element(d, d, (12.0 / (n * (n + 2.0))).sqrt()))
}

fn precise(m: usize, deviation: f64) -> DMatrix<f64> {
    DMatrix::from_diagonal_element(m, m, 1.0 / deviation)
}

fn right_side(a: &DMatrix<f64>, t: &[i64]) -> Vec<f64> {
    let t = DMatrix::from_fn(t.len(), 1, |i, _| t[i] as f64);
    (a * t).as_slice().to_vec()
}

fn draw(d: usize, n: i64, rng: &mut impl Rng) -> Vec<i64> {
    (0..d).map(|_| rng.random_range(0..=n)).collect()
}

#[test]
fn few_exact_equations_give_back_many_whole_numbers() {
    for (m, d, n) in
        [(5, 6, 100), (5, 18, 100), (5, 24, 100), (3, 6, 4000), (1, 6, 40), (9, 12, 16)]
    {
        let (a, metric) = system(m, d, n as f64, d as u64);
        let lattice = GridLattice::new(&a, &precise(m, 1e-14), &metric).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        for _ in 0..50 {
            let t = draw(d, n, &mut rng);
            let found = lattice.nearest_plane(&right_side(&a, &t), &vec![n as f64 / 2.0; d]);
            assert_eq!(found, t, "{m} × {d}, 0 to {n}");
        }
    }
}

/// With 30 unknowns of 101 values the equations tell little more than there is to know: rounding misses some, the list does not.
#[test]
fn the_list_finds_what_rounding_misses() {
    let (m, d, n) = (5, 27, 100);
    let (a, metric) = system(m, d, n as f64, 1);
    let lattice = GridLattice::new(&a, &precise(m, 1e-14), &metric).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    for _ in 0..20 {
        let t = draw(d, n, &mut rng);
        let centre = vec![n as f64 / 2.0; d];
        let valid = |p: &GridPoint| {
            (p.t.iter().all(|t| (0..=n).contains(t)) && p.misfit < 100.0).then_some(f64::INFINITY)
        };
        let list = lattice.points_near(
            &right_side(&a, &t),
            &centre,
            50.0 + 3.0 * d as f64,
            2_000_000,
            valid,
        );
        assert!(list.complete);
        assert_eq!(list.points.iter().map(|p| &p.t).collect::<Vec<_>>(), [&t]);
    }
}

/// A precision that differs from record to record starts from the common reduction and comes to the same points.
#[test]
fn another_precision_lists_the_same_points() {
    let (a, metric) = system(2, 4, 9.0, 3);
    let common = GridLattice::new(&a, &precise(2, 1e-6), &metric).unwrap();
    let weights = DMatrix::from_row_slice(2, 2, &[1e3, 0.0, 4e2, 2e5]);
    let (own, fresh) =
        (common.with_weights(&weights).unwrap(), GridLattice::new(&a, &weights, &metric).unwrap());
    let b = right_side(&a, &[3, 1, 9, 4]);
    let list = |lattice: &GridLattice| {
        let mut points =
            lattice.points_near(&b, &[4.5; 4], 16.0, 100_000, |_| Some(f64::INFINITY)).points;
        points.sort_by(|a, b| a.t.cmp(&b.t));
        points.into_iter().map(|p| p.t).collect::<Vec<_>>()
    };
    assert_eq!(list(&own), list(&fresh));
    assert!(list(&own).contains(&vec![3, 1, 9, 4]));
}

proptest! {
    /// All points near a target, against trying all small vectors.
    #[test]
    fn the_list_is_that_of_all_small_vectors(
        a in prop::collection::vec(-1.0..1.0f64, 6),
        b in prop::collection::vec(-2.0..2.0f64, 2),
        square in 1.0..30.0f64,
    ) {
        let a = DMatrix::from_row_slice(2, 3, &a);
        let (weights, metric) = (precise(2, 0.2), DMatrix::identity(3, 3));
        let lattice = GridLattice::new(&a, &weights, &metric).unwrap();
        let c = [0.3, -0.2, 1.4];
        let list = lattice.points_near(&b, &c, square, 1_000_000, |_| Some(f64::INFINITY));
        prop_assert!(list.complete);
        let mut got: Vec<_> = list.points.into_iter().map(|p| p.t).collect();
        got.sort();
        let mut want = Vec::new();
        for x in -8i64..=8 { for y in -8i64..=8 { for z in -8i64..=8 {
            let (t, v) = ([x, y, z], right_side(&a, &[x, y, z]));
            let misfit: f64 = v.iter().zip(&b).map(|(v, b)| 25.0 * (v - b).powi(2)).sum();
            let away: f64 = t.iter().zip(&c).map(|(t, c)| (*t as f64 - c).powi(2)).sum();
            if misfit + away <= square { want.push(t.to_vec()); }
        } } }
        prop_assert_eq!(got, want);
    }
}

#[test]
fn what_cannot_be_reduced_is_refused() {
    let (a, metric) = system(2, 3, 9.0, 1);
    let nan = DMatrix::from_element(2, 3, f64::NAN);
    let new = |a: &DMatrix<f64>, w: &DMatrix<f64>, m: &DMatrix<f64>| {
        GridLattice::new(a, w, m).map(|_| ()).unwrap_err()
    };
    assert_eq!(new(&nan, &precise(2, 1.0), &metric), LatticeError::NotFinite);
    assert_eq!(new(&a, &precise(3, 1.0), &metric), LatticeError::Shape);
    assert_eq!(new(&a, &precise(2, 1.0), &DMatrix::identity(2, 3)), LatticeError::Shape);
}
