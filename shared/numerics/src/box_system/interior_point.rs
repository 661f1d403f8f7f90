//! A primal-dual interior point method for the semidefinite relaxation, in (β, S, m).
//!
//! With B = Nᵀ diag(β) N, α = 1 + β, Q = Nᵀ diag(α) N and x(β) = q − N Q⁻¹ Nᵀ(α∘(q − ½)) for any
//! solution q, the optimum has
//!
//! - x∘(1 − x) = diag(N S Nᵀ) + m,  B S = 0,  α∘m = 0,  B ⪰ 0, S ⪰ 0, α ≥ 0, m ≥ 0.
//!
//! Newton's method on B S = σI, α∘m = σ with the HKM direction leaves a d × d system for dβ,
//!
//! - \[2 diag(x − ½) N Q⁻¹ Nᵀ diag(x − ½) + (N S Nᵀ)∘(N B⁻¹ Nᵀ) + diag(m/α)\] dβ = −x∘(1 − x) + σ
//!   diag(N B⁻¹ Nᵀ) + σ/α,
//!
//! and dS = σB⁻¹ − S − sym(S dB B⁻¹), dm = σ/α − m − m∘dβ/α. α is kept as a variable of its own, so
//! that it never cancels to 0. The value Σ α_i x_i (1 − x_i) at any β that keeps B ⪰ 0 is an upper
//! bound of the optimum.

use crate::dense::{axpy, cholesky, dot, forward, least_eigenvalue, solve, weighted_gram};

/// Steps before the method is given up. Observed: 8 to 30, and more only where the solutions have
/// next to no interior.
const MAX_STEPS: u32 = 50;

/// Mean complementarity at which the method stops: the objective is then right to about 1e-10, the
/// point to about 1e-7.
const TARGET: f64 = 1e-12;

/// Below this complementarity, steps cut short by round-off end the method as well.
const STALLED: f64 = 1e-10;

/// Share of the way to the boundary that a step takes at most.
const FRACTION: f64 = 0.95;

/// The result of a search for the centre of the semidefinite relaxation: its value, which bounds
/// the squared Chebyshev radius from above, whether the stopping rule was met, and the Newton
/// steps.
pub(super) struct CentreOutcome {
    pub(super) bound: f64,
    pub(super) converged: bool,
    pub(super) iterations: u32,
}

/// The workspace for one solve. Nothing is allocated once it has grown to size.
#[derive(Default)]
pub(super) struct InteriorPoint {
    alpha: Vec<f64>,
    beta: Vec<f64>,
    m: Vec<f64>,
    s: Vec<f64>,
    b: Vec<f64>,
    chol_b: Vec<f64>,
    chol_s: Vec<f64>,
    chol_q: Vec<f64>,
    inverse_b: Vec<f64>,
    inverse_l: Vec<f64>,
    t_b: Vec<f64>,
    t_s: Vec<f64>,
    t_q: Vec<f64>,
    h: Vec<f64>,
    factor: Vec<f64>,
    x: Vec<f64>,
    scaled: Vec<f64>,
    diagonal: Vec<f64>,
    d_beta: Vec<f64>,
    d_b: Vec<f64>,
    d_s: Vec<f64>,
    d_m: Vec<f64>,
    n_a: Vec<f64>,
    n_b: Vec<f64>,
    g: Vec<f64>,
    eigen: Vec<f64>,
}

impl InteriorPoint {
    fn resize(&mut self, n: usize, d: usize) {
        for v in [
            &mut self.alpha,
            &mut self.beta,
            &mut self.m,
            &mut self.x,
            &mut self.scaled,
            &mut self.diagonal,
        ] {
            v.resize(d, 0.0);
        }
        self.d_beta.resize(d, 0.0);
        self.d_m.resize(d, 0.0);
        for v in [
            &mut self.s,
            &mut self.b,
            &mut self.chol_b,
            &mut self.chol_s,
            &mut self.chol_q,
            &mut self.inverse_b,
            &mut self.inverse_l,
            &mut self.d_b,
            &mut self.d_s,
            &mut self.n_a,
            &mut self.n_b,
        ] {
            v.resize(n * n, 0.0);
        }
        for v in [&mut self.t_b, &mut self.t_s, &mut self.t_q] {
            v.resize(n * d, 0.0);
        }
        self.h.resize(d * d, 0.0);
        self.factor.resize(d * d, 0.0);
        self.g.resize(n, 0.0);
        self.eigen.resize(3 * n, 0.0);
    }

    /// Moves `q` (d entries), any solution of the equations with null-space basis `nt` (n × d,
    /// row-major), to the centre.
    pub(super) fn solve(&mut self, nt: &[f64], n: usize, q: &mut [f64]) -> CentreOutcome {
        let d = q.len();
        self.resize(n, d);
        self.alpha.fill(2.0);
        self.beta.fill(1.0);
        self.m.fill(0.1);
        self.s.fill(0.0);
        for a in 0..n {
            self.s[a * n + a] = 0.1;
        }
        let mut best = CentreOutcome { bound: f64::INFINITY, converged: false, iterations: 0 };
        let mut last_step = 0.5;
        for iteration in 0..MAX_STEPS {
            best.iterations = iteration;
            if !self.evaluate(nt, n, q) {
                break;
            }
            let bound = self.bound();
            let complementarity =
                (dot(&self.b, &self.s) + dot(&self.alpha, &self.m)) / (n + d) as f64;
            if bound < best.bound {
                best.bound = bound;
            }
            if complementarity <= TARGET || (complementarity <= STALLED && last_step < 0.1) {
                best.converged = true;
                break;
            }
            let sigma = complementarity * (1.0f64 - last_step).powi(2).clamp(0.02, 0.9);
            if !self.direction(nt, n, d, sigma) {
                best.converged = complementarity <= STALLED;
                break;
            }
            let step = (FRACTION * self.longest_step(n)).min(1.0);
            axpy(&mut self.alpha, step, &self.d_beta);
            axpy(&mut self.beta, step, &self.d_beta);
            axpy(&mut self.m, step, &self.d_m);
            axpy(&mut self.s, step, &self.d_s);
            last_step = step;
        }
        if best.converged {
            q.copy_from_slice(&self.x);
        }
        best
    }

    /// Like [`Self::solve`], by a plain logarithmic barrier, which is slower and more robust: for
    /// the few records whose solutions have next to no interior, where the primal part starts so
    /// far off that steps stay short. Newton's method on f(β) − σ (ln det B + Σ ln α), σ → 0; with
    /// S = σB⁻¹ and m = σ/α its system is the one above.
    pub(super) fn solve_by_barrier(
        &mut self,
        nt: &[f64],
        n: usize,
        q: &mut [f64],
    ) -> CentreOutcome {
        let d = q.len();
        self.resize(n, d);
        self.alpha.fill(2.0);
        self.beta.fill(1.0);
        let mut best = CentreOutcome { bound: f64::INFINITY, converged: false, iterations: 0 };
        let mut sigma = 1.0;
        while sigma > TARGET {
            sigma *= 0.2;
            for _ in 0..MAX_STEPS {
                best.iterations += 1;
                let Some(merit) = self.merit(nt, n, q, sigma) else { return best };
                self.invert_b(n);
                for (s, b) in self.s.iter_mut().zip(&self.inverse_b) {
                    *s = sigma * b;
                }
                self.chol_s.copy_from_slice(&self.s);
                for (m, a) in self.m.iter_mut().zip(&self.alpha) {
                    *m = sigma / a;
                }
                if !cholesky(&mut self.chol_s, n) || !self.direction(nt, n, d, sigma) {
                    break;
                }
                // Half the decrease that the model predicts.
                let slope: f64 = (0..d)
                    .map(|i| {
                        let x = self.x[i];
                        self.d_beta[i]
                            * (x * (1.0 - x) - sigma * (self.diagonal[i] + 1.0 / self.alpha[i]))
                    })
                    .sum();
                if slope.is_nan() || slope >= -1e-9 * sigma {
                    break;
                }
                let mut step = (FRACTION * self.longest_step(n)).min(1.0);
                let (alpha, beta) = (self.alpha.clone(), self.beta.clone());
                loop {
                    axpy(&mut self.alpha, step, &self.d_beta);
                    axpy(&mut self.beta, step, &self.d_beta);
                    if self.merit(nt, n, q, sigma).is_some_and(|m| m <= merit + 0.01 * step * slope)
                        || step < 1e-9
                    {
                        break;
                    }
                    self.alpha.copy_from_slice(&alpha);
                    self.beta.copy_from_slice(&beta);
                    step *= 0.5;
                }
                if step < 1e-9 {
                    break;
                }
            }
        }
        if self.merit(nt, n, q, sigma).is_some() {
            best.bound = self.bound();
            best.converged = true;
            q.copy_from_slice(&self.x);
        }
        best
    }

    /// Returns f(β) − σ (ln det B + Σ ln α), with x(β) and the factors; `None` outside the cone.
    fn merit(&mut self, nt: &[f64], n: usize, q: &[f64], sigma: f64) -> Option<f64> {
        self.s.fill(0.0);
        for a in 0..n {
            self.s[a * n + a] = 1.0;
        }
        if !self.alpha.iter().all(|a| *a > 0.0) || !self.evaluate(nt, n, q) {
            return None;
        }
        let log_det: f64 = (0..n).map(|a| 2.0 * self.chol_b[a * n + a].ln()).sum();
        Some(self.bound() - sigma * (log_det + self.alpha.iter().map(|a| a.ln()).sum::<f64>()))
    }

    /// Returns Σ α_i x_i (1 − x_i).
    fn bound(&self) -> f64 {
        self.alpha.iter().zip(&self.x).map(|(a, x)| a * x * (1.0 - x)).sum()
    }

    /// Computes x(β), and the factors of B, S and Q with N B⁻¹ Nᵀ = t_bᵀ t_b and so on. Returns
    /// false if one of them is not positive definite.
    fn evaluate(&mut self, nt: &[f64], n: usize, q: &[f64]) -> bool {
        let d = q.len();
        weighted_gram(nt, n, d, &self.beta, &mut self.scaled, &mut self.b);
        self.chol_b.copy_from_slice(&self.b);
        self.chol_q.copy_from_slice(&self.b);
        for a in 0..n {
            self.chol_q[a * n + a] += 1.0;
        }
        self.chol_s.copy_from_slice(&self.s);
        if !(cholesky(&mut self.chol_b, n)
            && cholesky(&mut self.chol_s, n)
            && cholesky(&mut self.chol_q, n))
        {
            return false;
        }
        for ((s, a), q) in self.scaled.iter_mut().zip(&self.alpha).zip(q) {
            *s = a * (q - 0.5);
        }
        for (a, g) in self.g.iter_mut().enumerate() {
            *g = dot(&nt[a * d..][..d], &self.scaled);
        }
        solve(&self.chol_q, n, &mut self.g);
        self.x.copy_from_slice(q);
        for (a, g) in self.g.iter().enumerate() {
            axpy(&mut self.x, -g, &nt[a * d..][..d]);
        }
        true
    }

    /// Computes the Newton direction towards complementarity σ.
    fn direction(&mut self, nt: &[f64], n: usize, d: usize, sigma: f64) -> bool {
        self.t_b.copy_from_slice(nt);
        forward(&self.chol_b, n, &mut self.t_b, d);
        self.t_q.copy_from_slice(nt);
        forward(&self.chol_q, n, &mut self.t_q, d);
        // N S Nᵀ = t_sᵀ t_s with t_s = Kᵀ Nᵀ, S = K Kᵀ.
        self.t_s.fill(0.0);
        for a in 0..n {
            for b in 0..=a {
                axpy(&mut self.t_s[b * d..][..d], self.chol_s[a * n + b], &nt[a * d..][..d]);
            }
        }
        // Row by row: three Gram matrices, multiplied as they are made.
        for i in 0..d {
            let row = &mut self.h[i * d..][..=i];
            // `d_m` and `scaled` are free until the system is solved.
            let (nb, ns) = (&mut self.d_m[..=i], &mut self.scaled[..=i]);
            nb.fill(0.0);
            ns.fill(0.0);
            row.fill(0.0);
            for a in 0..n {
                let (tb, ts, tq) =
                    (&self.t_b[a * d..][..=i], &self.t_s[a * d..][..=i], &self.t_q[a * d..][..=i]);
                let (fb, fs, fq) = (tb[i], ts[i], tq[i]);
                for j in 0..=i {
                    nb[j] += fb * tb[j];
                    ns[j] += fs * ts[j];
                    row[j] += fq * tq[j];
                }
            }
            let xi = 2.0 * (self.x[i] - 0.5);
            for (((h, x), nb), ns) in row.iter_mut().zip(&self.x).zip(nb.iter()).zip(ns.iter()) {
                *h = *h * xi * (x - 0.5) + nb * ns;
            }
            row[i] += self.m[i] / self.alpha[i];
            self.diagonal[i] = nb[i];
        }
        for i in 0..d {
            let x = self.x[i];
            self.d_beta[i] = -x * (1.0 - x) + sigma * self.diagonal[i] + sigma / self.alpha[i];
        }
        if !self.solve_system(d) {
            return false;
        }
        for i in 0..d {
            self.d_m[i] = (sigma - self.m[i] * self.d_beta[i]) / self.alpha[i] - self.m[i];
        }
        weighted_gram(nt, n, d, &self.d_beta, &mut self.scaled, &mut self.d_b);
        self.invert_b(n);
        // S dB B⁻¹: both factors are symmetric, so rows serve as columns.
        for a in 0..n {
            for b in 0..n {
                self.n_a[a * n + b] = dot(&self.d_b[a * n..][..n], &self.inverse_b[b * n..][..n]);
            }
        }
        for a in 0..n {
            let row = &mut self.n_b[a * n..][..n];
            row.fill(0.0);
            for c in 0..n {
                axpy(row, self.s[a * n + c], &self.n_a[c * n..][..n]);
            }
        }
        for a in 0..n {
            for b in 0..=a {
                let half = 0.5 * (self.n_b[a * n + b] + self.n_b[b * n + a]);
                let value = sigma * self.inverse_b[a * n + b] - self.s[a * n + b] - half;
                self.d_s[a * n + b] = value;
                self.d_s[b * n + a] = value;
            }
        }
        true
    }

    /// Computes B⁻¹ = L⁻ᵀ L⁻¹.
    fn invert_b(&mut self, n: usize) {
        self.inverse_l.fill(0.0);
        for a in 0..n {
            self.inverse_l[a * n + a] = 1.0;
        }
        lower_inverse(&self.chol_b, n, &mut self.inverse_l);
        self.inverse_b.fill(0.0);
        for c in 0..n {
            let row = &self.inverse_l[c * n..][..=c];
            for a in 0..=c {
                axpy(&mut self.inverse_b[a * n..][..=a], row[a], &row[..=a]);
            }
        }
        for a in 0..n {
            for b in 0..a {
                self.inverse_b[b * n + a] = self.inverse_b[a * n + b];
            }
        }
    }

    /// Solves for dβ from the lower triangle of its system. Where several β are optimal, the matrix
    /// tends to a singular one: then a little is added to its diagonal.
    fn solve_system(&mut self, d: usize) -> bool {
        self.factor.copy_from_slice(&self.h);
        if !cholesky(&mut self.factor, d) {
            let largest = (0..d).map(|i| self.h[i * d + i]).fold(0.0, f64::max);
            let mut delta = 1e-15 * largest;
            loop {
                delta *= 100.0;
                if delta.is_nan() || delta >= 1e-4 * largest {
                    return false;
                }
                self.factor.copy_from_slice(&self.h);
                (0..d).for_each(|i| self.factor[i * d + i] += delta);
                if cholesky(&mut self.factor, d) {
                    break;
                }
            }
        }
        solve(&self.factor, d, &mut self.d_beta);
        true
    }

    /// Returns the longest step that keeps α, m, B and S in their cones.
    fn longest_step(&mut self, n: usize) -> f64 {
        let mut most = f64::INFINITY;
        for (v, dv) in self.alpha.iter().zip(&self.d_beta).chain(self.m.iter().zip(&self.d_m)) {
            if *dv < 0.0 {
                most = most.min(-v / dv);
            }
        }
        for (factor, change) in [(&self.chol_b, &self.d_b), (&self.chol_s, &self.d_s)] {
            // L⁻¹ D L⁻ᵀ, by two forward substitutions.
            self.n_a.copy_from_slice(change);
            forward(factor, n, &mut self.n_a, n);
            for a in 0..n {
                for b in 0..n {
                    self.n_b[a * n + b] = self.n_a[b * n + a];
                }
            }
            forward(factor, n, &mut self.n_b, n);
            let least = least_eigenvalue(&mut self.n_b, n, 1e-3, &mut self.eigen);
            if least < 0.0 {
                most = most.min(-1.0 / least);
            }
        }
        most
    }
}

/// Turns the identity in `out` into L⁻¹ (lower triangle).
fn lower_inverse(l: &[f64], n: usize, out: &mut [f64]) {
    for i in 0..n {
        let (done, rest) = out.split_at_mut(i * n);
        let row = &mut rest[..=i];
        for (j, above) in done.chunks_exact(n).enumerate() {
            axpy(&mut row[..=j], -l[i * n + j], &above[..=j]);
        }
        let scale = 1.0 / l[i * n + i];
        row.iter_mut().for_each(|v| *v *= scale);
    }
}
