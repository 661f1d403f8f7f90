//! Squared errors of estimates of features against the truth.

use nalgebra::DMatrix;

use super::MetricError;
use super::error::{comparable, not_empty};

/// Mean squared error per feature (R equation 7): over all entries, and of each feature over the
/// records.
#[derive(Debug, Clone, PartialEq)]
pub struct SquaredError {
    /// (1 / dn) Σ (x̂ − x)², over all d features and n records: the mean of `by_feature`.
    pub overall: f64,
    /// (1 / n) Σ (x̂ − x)² of each of the d features.
    pub by_feature: Vec<f64>,
}

impl SquaredError {
    /// Sums the squares of each feature in the order of the records, so that equal input has equal
    /// bytes.
    fn of(
        truth: &DMatrix<f64>,
        estimate: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, MetricError> {
        let (d, n) = not_empty(truth)?;
        let mut by_feature = vec![0.0; d];
        for (record, column) in truth.as_slice().chunks_exact(d).enumerate() {
            for (feature, (sum, x)) in by_feature.iter_mut().zip(column).enumerate() {
                let error = estimate(feature, record) - x;
                *sum += error * error;
            }
        }
        by_feature.iter_mut().for_each(|sum| *sum /= n as f64);
        Ok(Self { overall: by_feature.iter().sum::<f64>() / d as f64, by_feature })
    }
}

/// Computes the mean squared error of `estimates` against `truth`, both d × n.
///
/// # Errors
/// [`MetricError`] if the shapes differ or there is no feature or no record.
pub fn mse(estimates: &DMatrix<f64>, truth: &DMatrix<f64>) -> Result<SquaredError, MetricError> {
    comparable(estimates, truth)?;
    SquaredError::of(truth, |feature, record| estimates[(feature, record)])
}

/// Computes the error of ½ everywhere, an estimate that needs only the knowledge that features lie
/// in [0, 1] (R section III).
///
/// # Errors
/// [`MetricError::Empty`] without a feature or a record.
pub fn half_error(truth: &DMatrix<f64>) -> Result<SquaredError, MetricError> {
    SquaredError::of(truth, |_, _| 0.5)
}

/// Computes the error of each feature's mean over these records: the features' variances (with
/// divisor n). The means require the truth, so this is the scorer's baseline. It is the least error
/// of any estimate that is the same for every record.
///
/// # Errors
/// [`MetricError::Empty`] without a feature or a record.
pub fn column_mean_error(truth: &DMatrix<f64>) -> Result<SquaredError, MetricError> {
    not_empty(truth)?;
    let mean = truth.column_mean();
    SquaredError::of(truth, |feature, _| mean[feature])
}

/// Computes (1 / d) Σ (x̂ − x)² of each record, for statements that hold record by record (R
/// theorem 1).
///
/// # Errors
/// [`MetricError`] if the shapes differ or there is no feature or no record.
pub fn squared_error_by_record(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
) -> Result<Vec<f64>, MetricError> {
    let (d, _) = comparable(estimates, truth)?;
    let columns = estimates.as_slice().chunks_exact(d).zip(truth.as_slice().chunks_exact(d));
    let error = |(e, x): (&[f64], &[f64])| {
        e.iter().zip(x).map(|(e, x)| (e - x) * (e - x)).sum::<f64>() / d as f64
    };
    Ok(columns.map(error).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two features, three records.
    fn truth() -> DMatrix<f64> {
        DMatrix::from_row_slice(2, 3, &[0.0, 0.5, 1.0, 0.25, 0.25, 0.25])
    }

    #[test]
    fn equals_the_closed_forms() {
        let estimates = DMatrix::from_row_slice(2, 3, &[0.5, 0.5, 0.0, 0.25, 0.75, 0.0]);
        let error = mse(&estimates, &truth()).unwrap();
        assert_eq!(error.by_feature, [1.25 / 3.0, 0.3125 / 3.0]);
        assert_eq!(error.overall, (1.25 / 3.0 + 0.3125 / 3.0) / 2.0);
        assert_eq!(squared_error_by_record(&estimates, &truth()).unwrap(), [0.125, 0.125, 0.53125]);
        assert_eq!(half_error(&truth()).unwrap().by_feature, [0.5 / 3.0, 0.0625]);
        // Variances: of 0, ½, 1 it is 1/6; a constant has none.
        let mean = column_mean_error(&truth()).unwrap();
        assert_eq!(mean, SquaredError { overall: 1.0 / 12.0, by_feature: vec![1.0 / 6.0, 0.0] });
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let size =
            |unit, expected, got| MetricError::Size { what: "estimates", unit, expected, got };
        // Of the same number of entries, so that only the shape can tell.
        let turned = truth().transpose();
        assert_eq!(mse(&turned, &truth()), Err(size("features", 2, 3)));
        assert_eq!(squared_error_by_record(&turned, &truth()), Err(size("features", 2, 3)));
        assert_eq!(mse(&truth().columns(0, 2).into_owned(), &truth()), Err(size("records", 3, 2)));
        for (shape, unit) in [((0, 3), "features"), ((3, 0), "records")] {
            let empty = DMatrix::zeros(shape.0, shape.1);
            let refused = MetricError::Empty { what: "the truth", unit };
            assert_eq!(half_error(&empty), Err(refused.clone()));
            assert_eq!(column_mean_error(&empty), Err(refused.clone()));
            assert_eq!(mse(&empty, &empty), Err(refused));
        }
    }

    proptest! {
        /// Three ways to the same mean, and the column mean is the best of all constants.
        #[test]
        fn means_agree(d in 1usize..5, n in 1usize..9, values in proptest::collection::vec(0.0f64..1.0, 64), c in 0.0f64..1.0) {
            let truth = DMatrix::from_fn(d, n, |i, j| values[i * 8 + j]);
            let estimates = DMatrix::from_fn(d, n, |i, j| values[63 - i * 8 - j]);
            let error = mse(&estimates, &truth).unwrap();
            let of_records = squared_error_by_record(&estimates, &truth).unwrap();
            prop_assert!((error.overall - (&estimates - &truth).norm_squared() / (d * n) as f64).abs() < 1e-14);
            prop_assert!((error.overall - of_records.iter().sum::<f64>() / n as f64).abs() < 1e-14);
            prop_assert_eq!(half_error(&truth).unwrap(), mse(&DMatrix::from_element(d, n, 0.5), &truth).unwrap());
            let constant = mse(&DMatrix::from_element(d, n, c), &truth).unwrap();
            for (mean, constant) in column_mean_error(&truth).unwrap().by_feature.iter().zip(&constant.by_feature) {
                prop_assert!(*mean <= constant + 1e-14);
            }
        }
    }
}
