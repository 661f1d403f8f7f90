//! The nearest point of a polytope against Clarabel: wide rows and narrow ones, cones through the origin as ranks give them,
//! repeated and dependent rows, equalities, and truths at corners of the box.

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use vfl_numerics::{ActiveSet, NearestOutcome, Polytope};

use crate::second_solver::{nearest_between, tight_settings};

const SEED: u64 = 0x000C_1015_0003;
const CASES: u64 = 500;

struct Case {
    b: DMatrix<f64>,
    ends: Vec<(f64, f64)>,
    set: Polytope,
}

fn draw(index: u64) -> Case {
    let mut rng = ChaCha20Rng::seed_from_u64(SEED.wrapping_add(index));
    let d = rng.random_range(1..51);
    let k = rng.random_range(2..9);
    let spread = |u: f64| (1.6 * u - 0.3).clamp(0.0, 1.0);
    let truth = DMatrix::from_fn(d, 1, |_, _| spread(rng.random::<f64>()));
    let w = DMatrix::from_fn(k, d, |_, _| 4.0 * rng.random::<f64>() - 2.0);
    let kind = rng.random_range(0..4);
    let pairs: Vec<(usize, usize)> = (0..k).flat_map(|i| (i + 1..k).map(move |j| (i, j))).collect();
    let mut b = DMatrix::zeros(pairs.len(), d);
    let (mut ends, mut set) = (Vec::new(), Polytope::unit_box(d));
    for (row, &(i, j)) in pairs.iter().enumerate() {
        b.set_row(row, &(w.row(i) - w.row(j)));
        let value = (b.row(row) * &truth)[0];
        let (below, above) = match kind {
            // Intervals of all pairs.
            0 => (0.3 * rng.random::<f64>(), 0.3 * rng.random::<f64>()),
            // Narrow ones, some of them touched.
            1 => (1e-3 * rng.random::<f64>(), if rng.random::<bool>() { 0.0 } else { 1e-3 }),
            // An order: one-sided, the truth anywhere.
            2 if value > 0.0 => (value, f64::INFINITY),
            2 => (f64::INFINITY, -value),
            // Equalities, as many of them dependent as pairs are more than classes.
            _ => (0.0, 0.0),
        };
        ends.push((value - below, value + above));
        set.add(b.row(row).transpose().as_slice(), value - below, value + above);
    }
    Case { b, ends, set }
}

#[test]
fn nearest_points_are_clarabels() {
    let solved: usize = (0..CASES)
        .into_par_iter()
        .map(|index| {
            let case = draw(index);
            let d = case.b.ncols();
            let mut x = vec![0.0; d];
            assert_eq!(
                case.set.nearest(&vec![0.5; d], &mut ActiveSet::default(), &mut x),
                NearestOutcome::Found,
                "{index}"
            );
            assert!(case.set.misfit(&x) < 1e-9, "case {index}: misfit {:e}", case.set.misfit(&x));
            let second = nearest_between(&case.b, &case.ends, tight_settings(1e-12));
            let value = x.iter().map(|x| 0.5 * x * x - 0.5 * x).sum::<f64>();
            assert!(
                value <= second.primal + 1e-8,
                "case {index}: {value}, Clarabel {}",
                second.primal
            );
            if second.solved {
                let off = x.iter().zip(&second.x).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(off < 1e-5, "case {index}: {off:e} away from Clarabel's point");
            }
            usize::from(second.solved)
        })
        .sum();
    // Were none solved, the points would not have been compared.
    assert!(solved > CASES as usize / 2, "Clarabel solved {solved}");
}
