//! The expected calibration error of scores.

use nalgebra::DMatrix;
use vfl_numerics::arg_max;

use super::MetricError;
use super::error::same;

/// The number of bins of equal width for the largest score.
const BINS: usize = 15;

/// Computes the expected calibration error. Records are put in 15 bins of equal width by their
/// largest score, [0, 1/15), …, [14/15, 1]; the error is the Σ over bins of (share of the records)
/// · |share right − mean largest score|. In [0, 1]; 0 is perfect.
///
/// `scores` are `k × n`, one record per column. `None` if a largest score is outside [0, 1] and so
/// is not a probability.
///
/// # Errors
/// [`MetricError`] if the numbers of records differ or there is none, or no class.
pub fn expected_calibration_error(
    scores: &DMatrix<f64>,
    labels: &[u32],
) -> Result<Option<f64>, MetricError> {
    same("the prediction", "records", labels.len(), scores.ncols())?;
    if labels.is_empty() {
        return Err(MetricError::Empty { what: "the prediction", unit: "records" });
    }
    if scores.nrows() == 0 {
        return Err(MetricError::Empty { what: "the prediction", unit: "classes" });
    }
    // Σ (right − largest score) of each bin.
    let mut gaps = [0.0; BINS];
    for (column, &label) in scores.as_slice().chunks_exact(scores.nrows()).zip(labels) {
        let class = arg_max(column);
        let top = column[class];
        // Round-off may leave a one-hot vector a little above 1.
        if !(0.0..=1.0 + 1e-9).contains(&top) {
            return Ok(None);
        }
        let bin = ((top * BINS as f64) as usize).min(BINS - 1);
        gaps[bin] += f64::from(class == label as usize) - top;
    }
    Ok(Some(gaps.iter().map(|gap| gap.abs()).sum::<f64>() / labels.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tops: &[f64], right: &[bool]) -> Option<f64> {
        let scores =
            DMatrix::from_fn(2, tops.len(), |i, j| if i == 0 { tops[j] } else { 1.0 - tops[j] });
        let labels: Vec<u32> = right.iter().map(|right| u32::from(!right)).collect();
        expected_calibration_error(&scores, &labels).unwrap()
    }

    #[test]
    fn equals_its_closed_forms() {
        assert_eq!(of(&[1.0, 1.0], &[true, true]), Some(0.0));
        assert_eq!(of(&[1.0, 1.0], &[true, false]), Some(0.5));
        // One bin: errors of opposite sign cancel within it, 0.75 right three times of four.
        assert!(of(&[0.75; 4], &[true, true, true, false]).unwrap() < 1e-15);
        // Two bins: they do not cancel between bins. |1 − 0.6| / 2 + |0 − 0.9| / 2.
        assert!((of(&[0.6, 0.9], &[true, false]).unwrap() - 0.65).abs() < 1e-15);
        // 9/15 and just below it are in different bins: ½ (|1 − 0.6| + |0 − 0.6|), not |1 − 1.2|
        // / 2.
        assert!((of(&[0.6, 0.6f64.next_down()], &[true, false]).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_probability_has_none() {
        let wide = DMatrix::from_column_slice(2, 1, &[4.0, -3.0]);
        assert_eq!(expected_calibration_error(&wide, &[0]), Ok(None));
        assert!(expected_calibration_error(&wide, &[]).is_err());
        assert!(expected_calibration_error(&DMatrix::zeros(0, 1), &[0]).is_err());
        assert!(expected_calibration_error(&DMatrix::zeros(2, 0), &[]).is_err());
    }
}
