//! Equations over some of the coordinates of the box.

use faer::Mat;

use super::certificate::hadamard_factor;
use crate::pseudo_inverse::RANK_TOLERANCE;

/// Equations over some of the coordinates, none of which the equations determine alone.
#[derive(Clone, Default)]
pub(super) struct Face {
    pub(super) index: Vec<usize>,
    /// The rank of the equations.
    pub(super) r: usize,
    /// Dimension of the null space.
    pub(super) n: usize,
    /// Orthonormal rows, r × d.
    pub(super) vt: Vec<f64>,
    /// Orthonormal null-space basis, n × d.
    pub(super) nt: Vec<f64>,
    /// Cholesky factor of P⊥∘P⊥, if it has one.
    pub(super) hadamard: Option<Vec<f64>>,
}

impl Face {
    /// Creates the face of the equations with rows `g` (r × d, row-major) over the coordinates
    /// `index`, less those that the equations determine.
    pub(super) fn new(g: &[f64], r: usize, d: usize, mut index: Vec<usize>) -> Self {
        loop {
            let f = index.len();
            let decomposed = (r > 0 && f > 0)
                .then(|| Mat::from_fn(r, f, |a, i| g[a * d + index[i]]).svd().ok())
                .flatten();
            let (rank, v) = match &decomposed {
                Some(svd) => {
                    let values = svd.S().column_vector();
                    let rank = values
                        .iter()
                        .filter(|&&s| s > RANK_TOLERANCE * values[0] && s > 1e-14)
                        .count();
                    (rank, svd.V().to_owned())
                }
                None => (0, Mat::identity(f, f)),
            };
            let settled = |i: usize| (rank..f).map(|a| v[(i, a)] * v[(i, a)]).sum::<f64>() < 1e-20;
            let kept: Vec<usize> = (0..f).filter(|&i| !settled(i)).map(|i| index[i]).collect();
            if kept.len() < f {
                index = kept;
                continue;
            }
            let rows = |range: std::ops::Range<usize>| {
                range
                    .flat_map(|a| (0..f).map(|i| v[(i, a)]).collect::<Vec<_>>())
                    .collect::<Vec<f64>>()
            };
            let (vt, nt) = (rows(0..rank), rows(rank..f));
            let hadamard = hadamard_factor(&vt, rank, f);
            return Self { index, r: rank, n: f - rank, vt, nt, hadamard };
        }
    }
}
