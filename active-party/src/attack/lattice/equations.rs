//! The equations of a view in the coordinates of a grid, with the precision of each.

use nalgebra::{DMatrix, DVector};

use super::axes::Axes;
use super::precision::{Precision, arithmetic};
use crate::attack::{AdversaryView, AttackError};

/// Scores of one class are as precise as those of another record if their widths differ by no more
/// than this factor.
const ALIKE: f64 = 4.0;

/// A t = b for each record, and how far b may be from what it would be without rounding.
pub(super) struct ScoreEquations {
    /// (k − 1) × p.
    pub(super) a: DMatrix<f64>,
    /// (k − 1) × n.
    pub(super) b: DMatrix<f64>,
    /// Half the width of each logarithm of a score, k × n, in units of the logits.
    widths: DMatrix<f64>,
}

impl ScoreEquations {
    /// `stretch` is the factor that takes differences of logarithms to differences of logits;
    /// `least` is the least half width of a logarithm, for parameters that are estimates.
    pub(super) fn new(
        view: &AdversaryView<'_>,
        scores: &DMatrix<f64>,
        axes: &Axes,
        stretch: f64,
        least: f64,
    ) -> Result<Self, AttackError> {
        let (origin, slopes) = axes.map();
        let system = view.linear()?.matrix();
        let known = view.known_logits();
        let mut b = view.b_prime()?.clone();
        let logs = scores.map(|c| view.replacement().of(c).ln());
        let start = system * &origin;
        for (j, mut column) in b.column_iter_mut().enumerate() {
            for m in 0..column.len() {
                column[m] += (stretch - 1.0) * (logs[(m + 1, j)] - logs[(m, j)]) - start[m];
            }
        }
        let precision = Precision::of(scores);
        let model = view.model();
        let passive: Vec<f64> = view.weights()?.row_iter().map(|row| row.iter().map(|w| w.abs()).sum()).collect();
        let own = model.active_weights().map(f64::abs) * view.active().matrix().map(f64::abs);
        let widths = DMatrix::from_fn(scores.nrows(), scores.ncols(), |m, j| {
            let terms = passive[m] + own[(m, j)] + model.bias()[m].abs() + known[(m, j)].abs();
            let rounding = precision.half_width(scores[(m, j)]) + arithmetic(terms, logs[(m, j)]);
            (stretch * rounding).max(least)
        });
        Ok(Self { a: system * slopes, b, widths })
    }

    /// How far the entries of b of a record may be off.
    pub(super) fn off(&self, record: usize) -> Vec<f64> {
        let w = self.widths.column(record);
        (0..self.a.nrows()).map(|m| w[m] + w[m + 1]).collect()
    }

    /// The least ‖D (A t − b)‖² that the true t of a record may have is 0, the largest is this.
    pub(super) fn reach(&self) -> f64 {
        3.0 * self.widths.nrows() as f64 * 1.05
    }

    /// The weights of the equations if all records are alike, those of the least precise.
    pub(super) fn common_weights(&self) -> (DMatrix<f64>, bool) {
        let most = DVector::from_iterator(self.widths.nrows(), self.widths.row_iter().map(|row| row.max()));
        let least = self.widths.row_iter().map(|row| row.min());
        let alike = most.iter().zip(least).all(|(most, least)| *most <= ALIKE * least);
        if alike {
            return (weights(&most), true);
        }
        // A typical record, to reduce from.
        let typical = self.widths.row_iter().map(|row| {
            let logs: f64 = row.iter().map(|w| w.ln()).sum();
            (logs / row.len().max(1) as f64).exp()
        });
        (weights(&DVector::from_iterator(self.widths.nrows(), typical)), false)
    }

    /// The weights of the equations of a record.
    pub(super) fn weights(&self, record: usize) -> DMatrix<f64> {
        weights(&self.widths.column(record).into_owned())
    }
}

/// D for differences of neighbouring logarithms with independent errors of these half widths, as
/// uniform ones: ‖D J δ‖² ≤ Σ 3 (δ/w)².
///
/// The differences are taken to those from the most precise logarithm first, whose covariance
/// diag(s²) + s_r² 1 1ᵀ has a stable factor; that of neighbours loses the precise ones behind an
/// imprecise one.
fn weights(widths: &DVector<f64>) -> DMatrix<f64> {
    let k = widths.len();
    let deviation = |m: usize| widths[m] / 3f64.sqrt();
    let reference = (0..k).min_by(|&a, &b| widths[a].total_cmp(&widths[b])).unwrap_or(0);
    let others: Vec<usize> = (0..k).filter(|&m| m != reference).collect();
    // ln c_m − ln c_r as sums of differences of neighbours, divided by the deviation of ln c_m.
    let scaled = DMatrix::from_fn(k - 1, k - 1, |i, j| {
        let m = others[i];
        let between = if m > reference { (reference..m).contains(&j) } else { (m..reference).contains(&j) };
        let sign = if m > reference { 1.0 } else { -1.0 };
        if between { sign / deviation(m) } else { 0.0 }
    });
    // The covariance is now I + v vᵀ; its inverse square root is I − v vᵀ (1 − 1/√(1 + |v|²))/|v|².
    let v = DVector::from_iterator(k - 1, others.iter().map(|&m| deviation(reference) / deviation(m)));
    let square = v.norm_squared();
    let factor = (1.0 - 1.0 / (1.0 + square).sqrt()) / square;
    let along = v.transpose() * &scaled;
    scaled - (&v * along) * factor
}

#[cfg(test)]
mod tests {
    use vfl_shared::numerics::row_differences;

    use super::*;

    /// DᵀD is the inverse of the covariance of the differences.
    #[test]
    fn weights_are_an_inverse_square_root_of_the_covariance() {
        for widths in [vec![1.0, 2.0, 0.5, 3.0], vec![0.1, 0.1], vec![1e-3, 40.0, 2e-3, 0.5, 1e-2]] {
            let widths = DVector::from_vec(widths);
            let k = widths.len();
            let j = row_differences(&DMatrix::identity(k, k));
            let covariance = &j * DMatrix::from_diagonal(&widths.map(|w| w * w / 3.0)) * j.transpose();
            let d = weights(&widths);
            let product = &d * covariance * d.transpose();
            assert!((product - DMatrix::identity(k - 1, k - 1)).amax() < 1e-6);
        }
    }
}
