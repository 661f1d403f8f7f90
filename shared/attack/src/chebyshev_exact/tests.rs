use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::*;

/// The best fit in the box, by projected gradient: slow and plain.
fn best_fit(a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    let step = 1.0 / (a.transpose() * a).trace();
    let mut x = DMatrix::from_element(a.ncols(), b.ncols(), 0.5);
    for _ in 0..200_000 {
        x -= a.transpose() * (a * &x - b) * step;
        super::super::contract::clamp(&mut x);
    }
    x
}

fn system(k: usize, d: usize, seed: u64) -> LinearSystem {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    LinearSystem::new(&DMatrix::from_fn(k, d, |_, _| rng.random::<f64>() - 0.5)).unwrap()
}

/// Scores that no point of the box gives are answered for the nearest that one does; those beside them are not touched.
#[test]
fn empty_sets_are_replaced_by_the_nearest() {
    for (k, d, seed) in [(2, 2, 1), (3, 4, 2), (3, 5, 3), (5, 3, 4)] {
        let system = system(k, d, seed);
        let a = system.matrix();
        // The second record is out of reach: twice as far as the farthest corner.
        let far = DMatrix::from_fn(d, 1, |i, _| if a[(0, i)] > 0.0 { 2.0 } else { -1.0 });
        let inside = DMatrix::from_element(d, 1, 0.4);
        let b = DMatrix::from_columns(&[
            (a * &inside).column(0),
            (a * far).column(0),
            (a * inside).column(0),
        ]);
        let asked = std::cell::Cell::new(0);
        let (x, outcomes) = centres(&system, &b, |b| {
            asked.set(asked.get() + b.ncols());
            Ok(best_fit(a, b))
        })
        .unwrap();
        assert_eq!(asked.get(), 1, "{k} {d}");
        let ended: Vec<Termination> = outcomes.iter().map(|o| o.ended).collect();
        assert_eq!(
            ended,
            [Termination::Solved, Termination::NearestConsistent, Termination::Solved],
            "{k} {d}"
        );
        let nearest = best_fit(a, &b.columns(1, 1).into_owned());
        assert!((a * x.column(1) - a * nearest).amax() < 1e-8, "{k} {d}");
        assert!(x.iter().all(|v| (0.0..=1.0).contains(v)));
        assert_eq!(x.column(0), x.column(2));
    }
}

/// More equations than rank, and scores out of their range by more than round-off: no solution even outside the box.
#[test]
fn contradictions_are_not_solved() {
    let w = DMatrix::from_row_slice(3, 2, &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    let system = LinearSystem::new(&w).unwrap();
    let b = DMatrix::from_row_slice(2, 1, &[0.9, 1.1]);
    let (x, outcomes) = centres(&system, &b, |b| Ok(best_fit(system.matrix(), b))).unwrap();
    assert_eq!(outcomes[0].ended, Termination::NearestConsistent);
    // The best fit is x₁ + x₂ = 1, whose middle is ½.
    assert!((x - DMatrix::from_element(2, 1, 0.5)).amax() < 1e-9);
    assert!((outcomes[0].objective - 0.5).abs() < 1e-9);
}

#[test]
fn too_many_corners_are_refused() {
    let system = system(4, MAX_NULLITY + 3, 6);
    let projector = system.pseudo_inverse() * system.matrix();
    let corners = Corners::new(&projector, system.rank());
    let mut walk = Walk::default();
    let q = vec![0.5; MAX_NULLITY + 3];
    assert_eq!(corners.find(&q, 100, &mut walk), Err(Stop::TooMany));
    let all = corners.find(&q, MAX_CORNERS, &mut walk).unwrap();
    assert!(all > 100, "{all}");
    assert_eq!(corners.find(&q, all, &mut walk), Ok(all));
    assert_eq!(corners.find(&q, all - 1, &mut walk), Err(Stop::TooMany));
}
