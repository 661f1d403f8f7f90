//! Correlation of estimates, or of the active party's own features, with the passive features.

use nalgebra::DMatrix;

use super::error::{comparable, finite, same};
use super::{Direction, Metric, MetricError, Reconstruction, Unit};

/// [`feature_correlation`] in an audit: the mean over the features.
///
/// No bound is proved for it: if a feature hardly varies, one record decides.
#[derive(Debug)]
pub struct Correlation;

impl Metric for Correlation {
    fn name(&self) -> &'static str {
        "correlation"
    }

    fn title(&self) -> &'static str {
        "correlation"
    }

    fn meaning(&self) -> &'static str {
        "mean over the features of the absolute Pearson correlation of estimates and truth; 0 where either is constant"
    }

    fn unit(&self) -> Unit {
        Unit::Coefficient
    }

    fn direction(&self) -> Direction {
        Direction::Higher
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        let correlations = feature_correlation(of.estimates, of.truth)?;
        Ok(Some(correlations.iter().sum::<f64>() / correlations.len() as f64))
    }

    fn sensitivity(&self, _: &DMatrix<f64>) -> Option<f64> {
        None
    }
}

/// Returns |ρ(x̂_i, x_i)| of each feature i over the records, in [0, 1]; both blocks are d × n. ρ
/// of a constant is not defined. Here it is 0, since a constant carries no information. The sign is
/// left out, since an adversary who knows that estimates are inverted inverts them.
///
/// # Errors
/// [`MetricError`] if the shapes differ, there is no feature or no record, or a value is not
/// finite.
pub fn feature_correlation(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
) -> Result<Vec<f64>, MetricError> {
    comparable(estimates, truth)?;
    finite("the estimates", estimates)?;
    finite("the truth", truth)?;
    let (estimates, truth) = (standard_columns(estimates), standard_columns(truth));
    // Rounding can lift a ρ just above 1.
    Ok(estimates
        .column_iter()
        .zip(truth.column_iter())
        .map(|(e, x)| e.dot(&x).abs().min(1.0))
        .collect())
}

/// Computes the mean absolute Pearson correlation of each passive feature with the active ones, in
/// [0, 1]: (1 / d_act) Σ_j |ρ(x_pas^i, x_act^j)| (J equation 25). `passive` is d_pas × n, `active`
/// d_act × n, the same records in the same order. J finds that features with a higher correlation
/// are reconstructed better.
///
/// ρ of a feature that is constant over the records is not defined. Here it is 0, since a constant
/// carries no information, and the pair still counts in d_act. The features of both parties are
/// needed; only a lab has them.
///
/// # Errors
/// [`MetricError`] if the numbers of records differ, a side has no feature or no record, or a value
/// is not finite.
pub fn active_correlation(
    passive: &DMatrix<f64>,
    active: &DMatrix<f64>,
) -> Result<Vec<f64>, MetricError> {
    same("the active features", "records", passive.ncols(), active.ncols())?;
    for (what, features) in [("the passive block", passive), ("the active block", active)] {
        match features.shape() {
            (0, _) => return Err(MetricError::Empty { what, unit: "features" }),
            (_, 0) => return Err(MetricError::Empty { what, unit: "records" }),
            _ => finite(what, features)?,
        }
    }
    let correlations = standard_columns(passive).tr_mul(&standard_columns(active));
    let mean = |row: usize| {
        // Rounding can lift a ρ just above 1.
        correlations.row(row).iter().map(|rho| rho.abs().min(1.0)).sum::<f64>()
            / active.nrows() as f64
    };
    Ok((0..passive.nrows()).map(mean).collect())
}

/// Standardises the features, one per column, to mean 0 and length 1, so that products of columns
/// are correlations. Constant ones become 0.
fn standard_columns(features: &DMatrix<f64>) -> DMatrix<f64> {
    let mut columns = features.transpose();
    for mut column in columns.column_iter_mut() {
        // Scale to magnitude at most 1 first: squares of very large or small values would be lost.
        let (scale, first) = (column.amax(), column[0]);
        if column.iter().all(|&v| v == first) {
            column.fill(0.0);
            continue;
        }
        column.apply(|v| *v /= scale);
        let mean = column.mean();
        column.apply(|v| *v -= mean);
        let norm = column.norm();
        if norm > 0.0 {
            column /= norm;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equals_the_closed_forms() {
        let passive =
            DMatrix::from_row_slice(3, 4, &[0., 1., 0., 1., 0., 0., 1., 1., 0.1, 0.1, 0.1, 0.1]);
        // The same, turned over, independent of the first passive feature, constant.
        let active = DMatrix::from_row_slice(
            4,
            4,
            &[0., 1., 0., 1., 3., 1., 3., 1., 0., 0., 1., 1., 5., 5., 5., 5.],
        );
        let found = active_correlation(&passive, &active).unwrap();
        for (found, want) in found.iter().zip([0.5, 0.25, 0.0]) {
            assert!((found - want).abs() < 1e-15, "{found} {want}");
        }
        // ρ of (0, 0, 1) and (0, 1, 1) is ½.
        let (a, b) = (
            DMatrix::from_row_slice(1, 3, &[0., 0., 1.]),
            DMatrix::from_row_slice(1, 3, &[0., 1., 1.]),
        );
        assert!((active_correlation(&a, &b).unwrap()[0] - 0.5).abs() < 1e-15);
    }

    #[test]
    fn a_feature_is_compared_with_its_own_estimates() {
        let truth = DMatrix::from_row_slice(
            4,
            3,
            &[0., 0., 1., 0.2, 0.4, 0.9, 0.5, 0.5, 0.5, 0.1, 0.7, 0.3],
        );
        let mut estimates = truth.clone();
        estimates.set_row(0, &nalgebra::RowDVector::from_vec(vec![0., 1., 1.]));
        estimates.row_mut(1).iter_mut().for_each(|e| *e = 0.9 - 0.5 * *e);
        estimates.row_mut(3).fill(0.5);
        let found = feature_correlation(&estimates, &truth).unwrap();
        // ½; upside down; the truth is constant; the estimates are.
        for (found, want) in found.iter().zip([0.5, 1.0, 0.0, 0.0]) {
            assert!((found - want).abs() < 1e-12, "{found} {want}");
        }
        assert!(feature_correlation(&estimates.transpose(), &truth).is_err());
        estimates[(0, 0)] = f64::NAN;
        let refused = feature_correlation(&estimates, &truth);
        assert_eq!(refused, Err(MetricError::NotFinite { what: "the estimates" }));
    }

    #[test]
    fn bad_input_is_refused() {
        let block = DMatrix::from_element(2, 3, 0.5);
        let refused = |what, unit| Err(MetricError::Empty { what, unit });
        let no_feature = DMatrix::zeros(0, 3);
        assert_eq!(
            active_correlation(&no_feature, &block),
            refused("the passive block", "features")
        );
        assert_eq!(
            active_correlation(&block, &no_feature),
            refused("the active block", "features")
        );
        let no_record = DMatrix::zeros(2, 0);
        assert_eq!(
            active_correlation(&no_record, &no_record),
            refused("the passive block", "records")
        );
        let size =
            MetricError::Size { what: "the active features", unit: "records", expected: 3, got: 2 };
        assert_eq!(active_correlation(&block, &block.transpose()), Err(size));
        let bad = block.map(|_| f64::NAN);
        assert_eq!(
            active_correlation(&block, &bad),
            Err(MetricError::NotFinite { what: "the active block" })
        );
    }

    proptest! {
        /// Against the textbook's sums; units and signs of either side do not matter.
        #[test]
        fn equals_the_sums_written_out(p in 1usize..4, a in 1usize..4, n in 3usize..9, values in proptest::collection::vec(0.0f64..1.0, 64), scale in prop_oneof![Just(1e-200), Just(-3.0), Just(1e200)]) {
            let passive = DMatrix::from_fn(p, n, |i, j| values[i * 8 + j]);
            let active = DMatrix::from_fn(a, n, |i, j| values[63 - i * 8 - j]);
            let found = active_correlation(&passive, &active).unwrap();
            let m = n as f64;
            for (i, &found) in found.iter().enumerate() {
                let mut sum = 0.0;
                for j in 0..a {
                    let (x, y) = (passive.row(i), active.row(j));
                    let (mx, my) = (x.sum() / m, y.sum() / m);
                    let cov: f64 = (0..n).map(|r| (x[r] - mx) * (y[r] - my)).sum();
                    let (vx, vy): (f64, f64) = ((0..n).map(|r| (x[r] - mx).powi(2)).sum(), (0..n).map(|r| (y[r] - my).powi(2)).sum());
                    sum += (cov / (vx * vy).sqrt()).abs();
                }
                prop_assert!((found - sum / a as f64).abs() < 1e-10, "{found} {}", sum / a as f64);
                prop_assert!((0.0..=1.0).contains(&found));
            }
            let scaled = active_correlation(&passive, &(active * scale)).unwrap();
            for (s, f) in scaled.iter().zip(&found) {
                prop_assert!((s - f).abs() < 1e-10);
            }
        }
    }
}
