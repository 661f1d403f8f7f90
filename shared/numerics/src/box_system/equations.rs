//! The equations A x = b in the form Vᵀx = t, computed once for all right sides.

use faer::Mat;
use nalgebra::DMatrix;

use crate::dense::{axpy, dot};
use crate::pseudo_inverse::{DecompositionError, RANK_TOLERANCE};

/// The decomposition A = U Σ Vᵀ, m × d of rank r, and matrices computed from it.
#[derive(Clone)]
pub(super) struct Equations {
    pub(super) m: usize,
    pub(super) d: usize,
    pub(super) r: usize,
    /// Σ⁻¹ Uᵀ, r × m, row-major: t = `to_t` b.
    to_t: Vec<f64>,
    /// U, as r rows of m.
    u: Vec<f64>,
    /// The r singular values, largest first.
    pub(super) sigma: Vec<f64>,
    /// Vᵀ, r × d, row-major.
    pub(super) vt: Vec<f64>,
    /// Σ Vᵀ / σ₁, r × d, row-major.
    pub(super) scaled: Vec<f64>,
    /// Vᵀ ½·1.
    pub(super) half: Vec<f64>,
}

impl Equations {
    /// Decomposes `a`, m × d.
    pub(super) fn new(a: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        if a.iter().any(|v| !v.is_finite()) {
            return Err(DecompositionError::NotFinite);
        }
        let (m, d) = a.shape();
        let (mut sigma, mut u, mut vt) = (Vec::new(), Vec::new(), Vec::new());
        if m > 0 && d > 0 {
            let svd = Mat::from_fn(m, d, |i, j| a[(i, j)])
                .thin_svd()
                .map_err(|_| DecompositionError::NoConvergence)?;
            let values = svd.S().column_vector();
            let cut = RANK_TOLERANCE * values[0];
            sigma.extend(values.iter().copied().filter(|&s| s > cut));
            for a in 0..sigma.len() {
                u.extend((0..m).map(|i| svd.U()[(i, a)]));
                vt.extend((0..d).map(|i| svd.V()[(i, a)]));
            }
            // The decomposition leaves round-off in place of a column of zeros. A long step would
            // magnify it.
            for i in 0..d {
                if (0..sigma.len()).all(|a| sigma[a] * vt[a * d + i].abs() < 1e-14 * sigma[0]) {
                    (0..sigma.len()).for_each(|a| vt[a * d + i] = 0.0);
                }
            }
        }
        let r = sigma.len();
        let to_t = u
            .chunks_exact(m.max(1))
            .zip(&sigma)
            .flat_map(|(u, s)| u.iter().map(move |u| u / s))
            .collect();
        let largest = sigma.first().copied().unwrap_or(1.0);
        let scaled = vt
            .chunks_exact(d.max(1))
            .zip(&sigma)
            .flat_map(|(v, s)| v.iter().map(move |v| v * s / largest));
        let scaled = scaled.collect();
        let half = vt.chunks_exact(d.max(1)).map(|v| 0.5 * v.iter().sum::<f64>()).collect();
        Ok(Self { m, d, r, to_t, u, sigma, vt, scaled, half })
    }

    /// Returns row a of Vᵀ.
    pub(super) fn row(&self, a: usize) -> &[f64] {
        &self.vt[a * self.d..][..self.d]
    }

    /// Returns σ₁, or 1 for A = 0.
    pub(super) fn largest(&self) -> f64 {
        self.sigma.first().copied().unwrap_or(1.0)
    }

    /// Writes t = Σ⁻¹Uᵀ b to `t` (r entries).
    pub(super) fn turned(&self, b: &[f64], t: &mut Vec<f64>) {
        t.clear();
        t.extend((0..self.r).map(|a| dot(&self.to_t[a * self.m..][..self.m], b)));
    }

    /// Returns Σ t / σ₁: the right side that belongs to `scaled`.
    pub(super) fn scaled_right_side(&self, t: &[f64]) -> Vec<f64> {
        t.iter().zip(&self.sigma).map(|(t, s)| t * s / self.sigma[0]).collect()
    }

    /// Returns ‖A x − b‖².
    pub(super) fn misfit(&self, b: &[f64], x: &[f64]) -> f64 {
        let mut residual: Vec<f64> = b.iter().map(|b| -b).collect();
        for a in 0..self.r {
            axpy(
                &mut residual,
                self.sigma[a] * dot(self.row(a), x),
                &self.u[a * self.m..][..self.m],
            );
        }
        dot(&residual, &residual)
    }
}
