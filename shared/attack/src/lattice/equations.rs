//! The equations of a view in the coordinates of a grid, with the precision of each.

use nalgebra::{Cholesky, DMatrix, DVector};

use super::axes::Axes;
use vfl_core::model::Link;
use vfl_numerics::ThinSvd;

use super::precision::{HALF_ULP, Precision, arithmetic, half_distance, half_width};
use crate::numbers::predictor;
use crate::{AdversaryView, AttackError};

/// The width of the equations of estimated parameters, in spreads. The spread is that by which they
/// miss the scores of the known records; others miss by at most so many spreads.
const SPREADS: f64 = 4.0;
/// The largest factor of the correction for a fit of few records, which hides part of the squared
/// misfit.
const MOST_CORRECTED: f64 = 4.5;
/// The largest ratio of their widths at which scores of one class in two records count as equally
/// precise.
const ALIKE: f64 = 4.0;
/// The factor by which equations are wider if features are solved for, which loses digits.
const ELIMINATED: f64 = 4.0;
/// The precision, in units of the errors, to which half a range must be known for a feature on no
/// grid to count as determined.
const DETERMINED: f64 = 1e7;
/// The share of the largest singular value above which one counts for the rank.
const RANK: f64 = 1e-10;

/// A t = b for each record, and the largest error of b by rounding.
pub(super) struct ScoreEquations {
    /// The matrix A, (k − 1) × p.
    pub(super) a: DMatrix<f64>,
    /// The right sides b, (k − 1) × n.
    pub(super) b: DMatrix<f64>,
    /// Half the width of each logarithm of a score, k × n, in units of the logits.
    widths: DMatrix<f64>,
    /// The columns of the features that are on no grid, from the middle to the end of their
    /// ranges, (k − 1) × u.
    free: DMatrix<f64>,
    /// The orthonormal matrix by which A and b were multiplied, (k − 1) × (k − 1). The first rows
    /// of the products are without the features on no grid.
    rotation: DMatrix<f64>,
}

/// The release as the adversary reads it.
#[derive(Clone, Copy)]
pub(super) struct InterpretedRelease<'a> {
    /// The scores, k × n.
    pub(super) scores: &'a DMatrix<f64>,
    /// The factor from differences of logarithms to those of logits.
    pub(super) stretch: f64,
    /// The number of decimals that the policy states.
    pub(super) decimals: Option<i32>,
}

impl InterpretedRelease<'_> {
    /// Returns the logarithms of the scores and half their widths, k × n. A single missing score is
    /// computed as 1 less the sum of the others.
    pub(super) fn logarithms(&self, floor: impl Fn(f64) -> f64) -> (DMatrix<f64>, DMatrix<f64>) {
        let forms = Precision::of(self.scores, self.decimals);
        let mut logs = self.scores.map(|c| floor(c).ln());
        let mut widths = self.scores.map(|c| half_width(&forms, c));
        for (j, c) in self.scores.column_iter().enumerate() {
            let mut missing = (0..c.len()).filter(|m| c[*m] <= 0.0);
            let (Some(at), None) = (missing.next(), missing.next()) else { continue };
            let left = 1.0 - c.sum() + c[at];
            let slack: f64 = (0..c.len())
                .filter(|m| *m != at)
                .map(|m| c[m] * (widths[(m, j)].exp_m1() + 4e-16))
                .sum();
            if left > 2.0 * slack {
                (logs[(at, j)], widths[(at, j)]) = (left.ln(), (left / (left - slack)).ln());
            }
        }
        (logs, widths)
    }

    /// Returns b' of each record, (k − 1) × n, and half the width of each logarithm in units of the
    /// logits.
    fn right_sides(
        &self,
        view: &AdversaryView<'_>,
    ) -> Result<(DMatrix<f64>, DMatrix<f64>), AttackError> {
        if view.model().link().is_numeric() {
            return self.number_sides(view);
        }
        let replaced = |c: f64| view.replacement().of(c);
        let (logs, rounding) = self.logarithms(replaced);
        let mut b = view.b_prime()?.clone();
        for (j, mut column) in b.column_iter_mut().enumerate() {
            let read = |m: usize| replaced(self.scores[(m, j)]).ln();
            for m in 0..column.len() {
                column[m] +=
                    self.stretch * (logs[(m + 1, j)] - logs[(m, j)]) - (read(m + 1) - read(m));
            }
        }
        let (model, known) = (view.model(), view.known_logits());
        let passive: Vec<f64> =
            view.weights()?.row_iter().map(|row| row.iter().map(|w| w.abs()).sum()).collect();
        let own = model.active_weights().map(f64::abs) * view.active().matrix().map(f64::abs);
        let widths = DMatrix::from_fn(logs.nrows(), logs.ncols(), |m, j| {
            let terms = passive[m] + own[(m, j)] + model.bias()[m].abs() + known[(m, j)].abs();
            self.stretch * (rounding[(m, j)] + arithmetic(terms, logs[(m, j)]))
        });
        Ok((b, widths))
    }

    /// Returns the same of a number: b' as it is, and half the width of its predictor. The logit
    /// that is 0 has next to none.
    fn number_sides(
        &self,
        view: &AdversaryView<'_>,
    ) -> Result<(DMatrix<f64>, DMatrix<f64>), AttackError> {
        let (b, model, known) = (view.b_prime()?.clone(), view.model(), view.known_logits());
        let sizes = self.scores.map(f64::abs);
        let forms = Precision::of(&sizes, self.decimals);
        let passive: f64 = view.weights()?.row(1).iter().map(|w| w.abs()).sum();
        let own =
            model.active_weights().row(1).map(f64::abs) * view.active().matrix().map(f64::abs);
        let widths = DMatrix::from_fn(2, b.ncols(), |m, j| {
            let (v, eta) = (self.scores[j], b[(0, j)]);
            let terms = passive + own[j] + model.bias()[1].abs() + known[(1, j)].abs();
            let round_off = match model.link() {
                // There is no exponential and no logarithm.
                Link::Identity => HALF_ULP * (2.0 * terms + eta.abs()).max(f64::MIN_POSITIVE),
                _ => arithmetic(terms, eta),
            };
            if m == 0 {
                return 1e-3 * round_off;
            }
            let half = half_distance(&forms, v.abs())
                + match model.link() {
                    // 1 + e^−η and the quotient are rounded, each by half a unit of 1 at most.
                    Link::Logit => 2.0 * HALF_ULP,
                    _ => 0.0,
                };
            let at = |v: f64| predictor(model.link(), v, view.replacement());
            round_off + (at(v + half) - at(v)).max(at(v) - at(v - half))
        });
        Ok((b, widths))
    }

    /// Returns the factor by which equations with estimated parameters are wider than their
    /// rounding. Records with known features `x` (d × n) show it; the degrees of freedom that their
    /// fit spent are corrected for.
    pub(super) fn misfit(
        &self,
        known: &AdversaryView<'_>,
        x: &DMatrix<f64>,
    ) -> Result<f64, AttackError> {
        let (b, widths) = self.right_sides(known)?;
        let residual = known.linear()?.matrix() * x - b;
        let (mut sum, mut count) = (0.0, 0.0);
        for (j, column) in residual.column_iter().enumerate() {
            for (m, r) in column.iter().enumerate() {
                let off = widths[(m, j)] + widths[(m + 1, j)];
                let read = |m: usize| self.scores.get((m, j)).is_none_or(|c| *c > 0.0);
                if known.model().link().is_numeric() || (read(m) && read(m + 1)) {
                    sum += (r / off).powi(2);
                    count += 1.0;
                }
            }
        }
        let (n, spent) = (x.ncols() as f64, x.nrows() as f64 + 1.0);
        let corrected =
            if n > spent { (n / (n - spent)).min(MOST_CORRECTED) } else { MOST_CORRECTED };
        Ok(if count > 0.0 { (SPREADS * (corrected * sum / count).sqrt()).max(1.0) } else { 1.0 })
    }
}

impl ScoreEquations {
    /// Creates equations A t = b from differences of neighbouring numbers; `widths` are half the
    /// widths of these numbers, one row more than A has.
    pub(super) fn of(a: DMatrix<f64>, b: DMatrix<f64>, widths: DMatrix<f64>) -> Self {
        let (free, rotation) =
            (DMatrix::zeros(a.nrows(), 0), DMatrix::identity(a.nrows(), a.nrows()));
        Self { a, b, widths, free, rotation }
    }

    /// Builds the equations on a grid; `wider` is the factor by which they are wider than their
    /// rounding.
    pub(super) fn new(
        view: &AdversaryView<'_>,
        reading: InterpretedRelease<'_>,
        axes: &Axes,
        wider: f64,
    ) -> Result<Self, AttackError> {
        let (origin, slopes) = axes.map();
        let system = view.linear()?.matrix();
        let (mut b, widths) = reading.right_sides(view)?;
        let start = system * &origin;
        b.column_iter_mut().for_each(|mut column| column -= &start);
        let free = axes.free();
        let free = DMatrix::from_fn(system.nrows(), free.len(), |m, at| {
            let (feature, lower, upper) = free[at];
            0.5 * (upper - lower) * system[(m, feature)]
        });
        let (m, u) = free.shape();
        let a = system * slopes;
        if u == 0 || u >= m {
            return Ok(Self { free, ..Self::of(a, b, widths * wider) });
        }
        let (basis, r) = basis_from(&free);
        let rotation = DMatrix::from_fn(m, m, |i, j| basis[(j, (i + r) % m)]);
        let widths = widths * wider * ELIMINATED;
        Ok(Self { a: &rotation * a, b: &rotation * b, widths, free, rotation })
    }

    /// Returns the features on no grid for a grid point of a record, u numbers from −1 to 1 for
    /// the ends of their ranges, and true if the equations determine all of them.
    pub(super) fn solve_free(&self, record: usize, t: &[i64]) -> (DVector<f64>, bool) {
        let t = DVector::from_iterator(t.len(), t.iter().map(|t| *t as f64));
        let d = weights(&self.widths.column(record).into_owned());
        let left = &d * self.rotation.transpose() * (self.b.column(record) - &self.a * t);
        let Ok(columns) = ThinSvd::new(&(&d * &self.free)) else {
            return (DVector::zeros(self.free.ncols()), false);
        };
        let least = columns.singular_values.iter().copied().fold(f64::INFINITY, f64::min);
        // The middle where the equations say nothing: a uniform value has the variance 1/3.
        let shrunk = columns.singular_values.iter().map(|s| s / (s * s + 3.0));
        let shrunk = DVector::from_iterator(columns.singular_values.len(), shrunk);
        let x = &columns.right * shrunk.component_mul(&(columns.left.transpose() * left));
        (x.map(|x| x.clamp(-1.0, 1.0)), least >= DETERMINED)
    }

    /// Returns the largest errors of the entries of a record's b.
    pub(super) fn off(&self, record: usize) -> Vec<f64> {
        let w = self.widths.column(record);
        (0..self.a.nrows()).map(|m| w[m] + w[m + 1]).collect()
    }

    /// Returns the largest ‖D (A t − b)‖² that the true t of a record may have. The least is 0.
    pub(super) fn reach(&self) -> f64 {
        3.0 * (self.widths.nrows() + self.free.ncols()) as f64 * 1.05
    }

    /// Returns weights of the equations, and true if all records are alike. Then the weights are
    /// those of the least precise record; otherwise those of a typical one.
    pub(super) fn common_weights(&self) -> (DMatrix<f64>, bool) {
        let most = DVector::from_iterator(
            self.widths.nrows(),
            self.widths.row_iter().map(|row| row.max()),
        );
        let least = self.widths.row_iter().map(|row| row.min());
        let alike = most.iter().zip(least).all(|(most, least)| *most <= ALIKE * least);
        if alike {
            return (self.without_free(weights(&most)), true);
        }
        // A typical record, from which lattices are reduced.
        let typical = self.widths.row_iter().map(|row| {
            let logs: f64 = row.iter().map(|w| w.ln()).sum();
            (logs / row.len().max(1) as f64).exp()
        });
        (self.without_free(weights(&DVector::from_iterator(self.widths.nrows(), typical))), false)
    }

    /// Returns the weights of the equations of a record.
    pub(super) fn weights(&self, record: usize) -> DMatrix<f64> {
        self.without_free(weights(&self.widths.column(record).into_owned()))
    }

    /// Adds what is not known of the features on no grid to the errors of the equations with
    /// weights D: a value that is uniform in its range.
    ///
    /// The covariance of D times the errors is I + B Bᵀ, where B = D F / √3 and F are the columns
    /// of these features. In an orthonormal basis that begins with the span of B, the equations
    /// behind it stay as precise as they are, and those within say little. An inverse square root
    /// of the whole would lose the former behind the latter.
    fn without_free(&self, d: DMatrix<f64>) -> DMatrix<f64> {
        let (m, u) = self.free.shape();
        if u == 0 || u >= m {
            return d;
        }
        let spread = &d * &self.free / 3f64.sqrt();
        let (basis, r) = basis_from(&spread);
        let rotated = basis.transpose() * d * self.rotation.transpose();
        let image = basis.columns(0, r).transpose() * &spread;
        let covariance = DMatrix::identity(r, r) + &image * image.transpose();
        let mut weights = DMatrix::zeros(m, m);
        // The rest of these rows is 0 but for round-off.
        let precise = rotated.view((r, 0), (m - r, m - r));
        weights.view_mut((0, 0), (m - r, m - r)).copy_from(&precise);
        // Without a factor these equations say nothing.
        if let Some(factor) = Cholesky::new(covariance)
            && let Some(little) =
                factor.l().solve_lower_triangular(&rotated.rows(0, r).into_owned())
        {
            weights.rows_mut(m - r, r).copy_from(&little);
        }
        weights
    }
}

/// Returns an orthonormal basis of all directions, m × m, and the rank r of a matrix of m rows and
/// fewer columns: the first r of the basis span its columns.
fn basis_from(columns: &DMatrix<f64>) -> (DMatrix<f64>, usize) {
    let m = columns.nrows();
    let Ok(parts) = ThinSvd::new(columns) else { return (DMatrix::identity(m, m), 0) };
    let least = RANK * parts.singular_values.first().copied().unwrap_or_default();
    let r = parts.singular_values.iter().filter(|s| **s > least).count();
    let span = parts.left.columns(0, r).into_owned();
    (span.resize_horizontally(m, 0.0).qr().q(), r)
}

/// Returns D for differences of neighbouring logarithms whose errors are independent and uniform
/// with these half widths: ‖D J δ‖² ≤ Σ 3 (δ/w)².
///
/// The differences are first converted to those from the most precise logarithm, whose covariance
/// diag(s²) + s_r² 1 1ᵀ has a stable factor. The covariance of neighbours loses the precise ones
/// behind an imprecise one.
fn weights(widths: &DVector<f64>) -> DMatrix<f64> {
    let k = widths.len();
    let deviation = |m: usize| widths[m] / 3f64.sqrt();
    let reference = (0..k).min_by(|&a, &b| widths[a].total_cmp(&widths[b])).unwrap_or(0);
    let others: Vec<usize> = (0..k).filter(|&m| m != reference).collect();
    // ln c_m − ln c_r as sums of differences of neighbours, divided by the deviation of ln c_m.
    let scaled = DMatrix::from_fn(k - 1, k - 1, |i, j| {
        let m = others[i];
        let between =
            if m > reference { (reference..m).contains(&j) } else { (m..reference).contains(&j) };
        let sign = if m > reference { 1.0 } else { -1.0 };
        if between { sign / deviation(m) } else { 0.0 }
    });
    // The covariance is now I + v vᵀ; its inverse square root is I − v vᵀ (1 − 1/√(1 + |v|²))/|v|².
    let v =
        DVector::from_iterator(k - 1, others.iter().map(|&m| deviation(reference) / deviation(m)));
    let square = v.norm_squared();
    let factor = (1.0 - 1.0 / (1.0 + square).sqrt()) / square;
    let along = v.transpose() * &scaled;
    scaled - (&v * along) * factor
}

#[cfg(test)]
mod tests {
    use vfl_numerics::row_differences;

    use super::*;

    /// DᵀD is the inverse of the covariance of the differences.
    #[test]
    fn weights_are_an_inverse_square_root_of_the_covariance() {
        for widths in [vec![1.0, 2.0, 0.5, 3.0], vec![0.1, 0.1], vec![1e-3, 40.0, 2e-3, 0.5, 1e-2]]
        {
            let widths = DVector::from_vec(widths);
            let k = widths.len();
            let j = row_differences(&DMatrix::identity(k, k));
            let covariance =
                &j * DMatrix::from_diagonal(&widths.map(|w| w * w / 3.0)) * j.transpose();
            let d = weights(&widths);
            let product = &d * covariance * d.transpose();
            assert!((product - DMatrix::identity(k - 1, k - 1)).amax() < 1e-6);
        }
    }
}
