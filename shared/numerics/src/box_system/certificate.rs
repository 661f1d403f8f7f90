//! A sufficient condition for both relaxations of the Chebyshev centre to agree.
//!
//! With v = x∘(1 − x) at the projection x of ½, the semidefinite relaxation has the same optimum
//! exactly when a matrix M ⪰ 0 exists with A M = 0 and diag M = v (its dual then has a feasible
//! point of the same value). There is one of the form M = P⊥ diag(s) P⊥ if (P⊥∘P⊥) s = v has a
//! solution s ≥ 0: one solve with a matrix that depends on A alone. Where x lies on the boundary of
//! the box, v_i = 0 forces row i of M to vanish; the same then holds with A restricted to the other
//! columns.

use crate::dense::{axpy, cholesky, dot, forward, solve, weighted_gram};

/// Returns the Cholesky factor of P⊥∘P⊥ (d × d, lower triangle), P⊥ = I − V Vᵀ; `None` if it is
/// singular, or nearly so.
pub(super) fn hadamard_factor(vt: &[f64], r: usize, d: usize) -> Option<Vec<f64>> {
    let mut p = vec![0.0; d * d];
    for i in 0..d {
        p[i * d + i] = 1.0;
    }
    for v in vt.chunks_exact(d.max(1)).take(r) {
        for (i, vi) in v.iter().enumerate() {
            axpy(&mut p[i * d..][..d], -vi, v);
        }
    }
    factor_of_squares(&mut p, d).then_some(p)
}

/// Squares every entry and factors the result. Returns false if it is not safely positive definite.
fn factor_of_squares(p: &mut [f64], d: usize) -> bool {
    p.iter_mut().for_each(|p| *p *= *p);
    let largest = (0..d).map(|i| p[i * d + i]).fold(0.0, f64::max);
    cholesky(p, d) && (0..d).all(|i| p[i * d + i] * p[i * d + i] > 1e-10 * largest)
}

/// Returns true if the solution of (P⊥∘P⊥) s = v makes M = P⊥ diag(s) P⊥ = N (Nᵀ diag(s) N) Nᵀ
/// positive semidefinite: if s ≥ 0, or else if the n × n matrix in the middle has a Cholesky
/// factor. `s` holds v on entry.
pub(super) fn certified(
    factor: &[f64],
    nt: &[f64],
    s: &mut [f64],
    scaled: &mut Vec<f64>,
    middle: &mut Vec<f64>,
) -> bool {
    let d = s.len();
    solve(factor, d, s);
    if s.iter().all(|s| *s >= 0.0) {
        return true;
    }
    let n = nt.len() / d;
    scaled.resize(d, 0.0);
    middle.resize(n * n, 0.0);
    weighted_gram(nt, n, d, s, scaled, middle);
    cholesky(middle, n)
}

/// The workspace for the certificate on some of the coordinates.
#[derive(Default)]
pub(super) struct RestrictedCertificate {
    /// The coordinates strictly between 0 and 1.
    free: Vec<usize>,
    /// Vᵀ on the free coordinates, r × |F|.
    rows: Vec<f64>,
    p: Vec<f64>,
    squares: Vec<f64>,
    s: Vec<f64>,
    w: Vec<f64>,
    gram: Vec<f64>,
}

impl RestrictedCertificate {
    /// Like [`certified`], where x has coordinates at 0 or 1: P⊥ is then the projector on the null
    /// space of A's other columns.
    pub(super) fn certified(
        &mut self,
        vt: &[f64],
        r: usize,
        d: usize,
        x: &[f64],
        v: &[f64],
    ) -> bool {
        self.free.clear();
        self.free.extend((0..d).filter(|&i| x[i] > 0.0 && x[i] < 1.0));
        let f = self.free.len();
        if f == 0 {
            return true;
        }
        if f <= r {
            return false;
        }
        self.rows.clear();
        for a in 0..r {
            self.rows.extend(self.free.iter().map(|&i| vt[a * d + i]));
        }
        // P⊥ = I − Wᵀ W with W = L⁻¹ V_F, L Lᵀ = V_F V_Fᵀ.
        self.gram.clear();
        self.gram.resize(r * r, 0.0);
        for a in 0..r {
            for b in 0..=a {
                self.gram[a * r + b] = dot(&self.rows[a * f..][..f], &self.rows[b * f..][..f]);
            }
        }
        if !cholesky(&mut self.gram, r) || (0..r).any(|a| self.gram[a * r + a] < 1e-6) {
            return false;
        }
        self.w.clear();
        self.w.extend_from_slice(&self.rows);
        forward(&self.gram, r, &mut self.w, f);
        self.p.clear();
        self.p.resize(f * f, 0.0);
        for i in 0..f {
            self.p[i * f + i] = 1.0;
        }
        for w in self.w.chunks_exact(f) {
            for (i, wi) in w.iter().enumerate() {
                axpy(&mut self.p[i * f..][..f], -wi, w);
            }
        }
        self.squares.clear();
        self.squares.extend_from_slice(&self.p);
        self.s.clear();
        self.s.extend(self.free.iter().map(|&i| v[i]));
        if !factor_of_squares(&mut self.squares, f) {
            return false;
        }
        solve(&self.squares, f, &mut self.s);
        if self.s.iter().all(|s| *s >= 0.0) {
            return true;
        }
        // P⊥ diag(s) P⊥ + (I − P⊥) is positive definite exactly when the first term is on the null
        // space.
        self.squares.resize(f * f, 0.0);
        let mut scaled = std::mem::take(&mut self.gram);
        scaled.clear();
        scaled.resize(f, 0.0);
        weighted_gram(&self.p, f, f, &self.s, &mut scaled, &mut self.squares);
        self.gram = scaled;
        for w in self.w.chunks_exact(f) {
            for (i, wi) in w.iter().enumerate() {
                axpy(&mut self.squares[i * f..][..=i], *wi, &w[..=i]);
            }
        }
        cholesky(&mut self.squares, f)
    }
}
