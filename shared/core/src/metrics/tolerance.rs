//! The share of estimates that are near the truth.

use nalgebra::DMatrix;

use super::error::comparable;
use super::{Direction, Metric, MetricError, Reconstruction, Unit};

/// The distance that counts as near in an audit: a tenth of a feature's range.
pub const TOLERANCE: f64 = 0.1;

/// Returns the share of entries, in [0, 1], whose estimate lies within `tolerance` of the truth (in
/// units of the features; the bound itself counts as within). An estimate that is not a number is
/// not within anything.
///
/// # Errors
/// [`MetricError`] if the shapes differ, there is no feature or no record, or the tolerance is
/// negative or not a number.
pub fn share_within(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    tolerance: f64,
) -> Result<f64, MetricError> {
    let (d, n) = comparable(estimates, truth)?;
    if tolerance.is_nan() || tolerance < 0.0 {
        return Err(MetricError::Tolerance { got: tolerance });
    }
    let within =
        estimates.iter().zip(truth.iter()).filter(|(e, x)| (*e - *x).abs() <= tolerance).count();
    Ok(within as f64 / (d * n) as f64)
}

/// Returns the share of records, in [0, 1], of which *every* entry lies within `tolerance` of the
/// truth, as [`share_within`] counts them.
///
/// # Errors
/// As [`share_within`].
pub fn records_within(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    tolerance: f64,
) -> Result<f64, MetricError> {
    let (_, n) = comparable(estimates, truth)?;
    if tolerance.is_nan() || tolerance < 0.0 {
        return Err(MetricError::Tolerance { got: tolerance });
    }
    let columns = estimates.column_iter().zip(truth.column_iter());
    let within = columns
        .filter(|(e, x)| e.iter().zip(x.iter()).all(|(e, x)| (*e - *x).abs() <= tolerance))
        .count();
    Ok(within as f64 / n as f64)
}

/// Returns the sensitivity 1/n. One record changes a share of n records by 1/n at most. It changes
/// the share of d n values by as much, since it holds d of them. Both are reached: for each
/// estimate in [0, 1] there is a value within 0.1 of it, and one farther off.
fn one_record(estimates: &DMatrix<f64>) -> Option<f64> {
    Some(1.0 / estimates.ncols().max(1) as f64)
}

/// [`share_within`] a tenth of the range, in an audit.
#[derive(Debug)]
pub struct ValuesWithin;

impl Metric for ValuesWithin {
    fn name(&self) -> &'static str {
        "values_within"
    }

    fn title(&self) -> &'static str {
        "values within 0.1"
    }

    fn meaning(&self) -> &'static str {
        "share of single values whose estimate is within 0.1 of the truth, a tenth of the range"
    }

    fn unit(&self) -> Unit {
        Unit::Share
    }

    fn direction(&self) -> Direction {
        Direction::Higher
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        share_within(of.estimates, of.truth, TOLERANCE).map(Some)
    }

    fn sensitivity(&self, estimates: &DMatrix<f64>) -> Option<f64> {
        one_record(estimates)
    }
}

/// [`records_within`] a tenth of the range, in an audit.
#[derive(Debug)]
pub struct RecordsWithin;

impl Metric for RecordsWithin {
    fn name(&self) -> &'static str {
        "records_within"
    }

    fn title(&self) -> &'static str {
        "records within 0.1"
    }

    fn meaning(&self) -> &'static str {
        "share of records of which every value is estimated to within 0.1, a tenth of the range"
    }

    fn unit(&self) -> Unit {
        Unit::Share
    }

    fn direction(&self) -> Direction {
        Direction::Higher
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        records_within(of.estimates, of.truth, TOLERANCE).map(Some)
    }

    fn sensitivity(&self, estimates: &DMatrix<f64>) -> Option<f64> {
        one_record(estimates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two features, three records.
    fn truth() -> DMatrix<f64> {
        DMatrix::from_row_slice(2, 3, &[0.0, 0.5, 1.0, 0.25, 0.25, 0.25])
    }

    #[test]
    fn shares_count_the_bound() {
        let estimates = DMatrix::from_row_slice(2, 3, &[0.5, 0.5, 0.0, 0.25, 0.75, f64::NAN]);
        let values = |tolerance| share_within(&estimates, &truth(), tolerance).unwrap();
        assert_eq!(
            (values(0.0), values(0.5), values(0.49), values(f64::INFINITY)),
            (2. / 6., 4. / 6., 2. / 6., 5. / 6.)
        );
        let records = |tolerance| records_within(&estimates, &truth(), tolerance).unwrap();
        assert_eq!(
            (records(0.0), records(0.5), records(0.49), records(f64::INFINITY)),
            (0.0, 2. / 3., 0.0, 2. / 3.)
        );
        for bad in [-1e-300, f64::NAN] {
            assert!(matches!(
                share_within(&estimates, &truth(), bad),
                Err(MetricError::Tolerance { .. })
            ));
            assert!(matches!(
                records_within(&estimates, &truth(), bad),
                Err(MetricError::Tolerance { .. })
            ));
        }
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let turned = truth().transpose();
        let refused =
            Err(MetricError::Size { what: "estimates", unit: "features", expected: 2, got: 3 });
        assert_eq!(share_within(&turned, &truth(), 0.1), refused);
        assert_eq!(records_within(&turned, &truth(), 0.1), refused);
        for (shape, unit) in [((0, 3), "features"), ((3, 0), "records")] {
            let empty = DMatrix::zeros(shape.0, shape.1);
            let refused = Err(MetricError::Empty { what: "the truth", unit });
            assert_eq!(share_within(&empty, &empty, 0.0), refused);
            assert_eq!(records_within(&empty, &empty, 0.0), refused);
        }
    }
}
