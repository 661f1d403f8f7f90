//! The distance of a party's own model from the scores that the joint model released (V section I
//! and remark 18): the active party's gain from requests, and the quality of the scores with which
//! it attacks records that it did not request.

use super::{MetricError, UtilityTotals};
use crate::types::{ConfidenceScores, ReleasedScores};

/// Means over records. Without a record all are `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreMismatch {
    /// Number of records.
    pub records: u64,
    /// Mean ½ Σ |c − ĉ|, in [0, 1]. `None` for labels and ciphertexts, which are not comparable
    /// vectors.
    pub total_variation: Option<f64>,
    /// Mean D(c‖ĉ) in nats; infinite as soon as ĉ gives 0 to a class that c does not. `None` as
    /// above.
    pub kl_divergence: Option<f64>,
    /// Mean (c − ĉ)² over classes and records, which P's code prints as the error of an attack
    /// (errata P1). `None` as above.
    pub squared_error: Option<f64>,
    /// Share of records, in [0, 1], whose predicted class differs.
    pub labels_differ: Option<f64>,
}

/// Computes the mismatch of released scores c and estimates ĉ (k × n) of the same records. c is
/// taken as released, as in [`kl_divergence`](super::kl_divergence()).
///
/// # Errors
/// [`MetricError::Size`] if the numbers of classes or records differ.
pub fn score_mismatch(
    scores: &ReleasedScores,
    estimated: &ConfidenceScores,
) -> Result<ScoreMismatch, MetricError> {
    let totals = UtilityTotals::of_estimates(scores, estimated)?;
    Ok(ScoreMismatch {
        records: totals.records(),
        total_variation: totals.total_variation(),
        kl_divergence: totals.kl_divergence(),
        squared_error: squared_error(scores, estimated),
        labels_differ: totals.arg_max_kept().map(|kept| 1.0 - kept),
    })
}

/// Computes the mean squared difference of equal shapes; `None` if the scores are not vectors.
fn squared_error(scores: &ReleasedScores, estimated: &ConfidenceScores) -> Option<f64> {
    let (ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c)) = scores else {
        return None;
    };
    let squares = c.iter().zip(estimated.matrix().iter()).map(|(c, p)| (c - p) * (c - p));
    (!c.is_empty()).then(|| squares.sum::<f64>() / c.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;

    #[test]
    fn equals_its_closed_forms() {
        let estimated =
            ConfidenceScores::new(DMatrix::from_column_slice(2, 2, &[0.25, 0.75, 0.5, 0.5]))
                .unwrap();
        let released =
            ReleasedScores::Probabilities(DMatrix::from_column_slice(2, 2, &[0.5, 0.5, 0.0, 1.0]));
        let found = score_mismatch(&released, &estimated).unwrap();
        // Record 0: variation ¼, divergence ½ ln(4/3), class 0 (ties: the lowest) against 1; record
        // 1: ½, ln 2, 1 against 0.
        assert_eq!(
            (found.records, found.total_variation, found.labels_differ),
            (2, Some(0.375), Some(1.0))
        );
        let kl = 0.5 * (0.5 * (4.0f64 / 3.0).ln() + 2f64.ln());
        assert!((found.kl_divergence.unwrap() - kl).abs() < 1e-15);
        // Two differences of ¼, two of ½.
        assert_eq!(found.squared_error, Some(0.15625));
        let itself = ReleasedScores::Numbers(estimated.matrix().clone());
        let none = score_mismatch(&itself, &estimated).unwrap();
        assert_eq!(
            (none.total_variation, none.kl_divergence, none.labels_differ),
            (Some(0.0), Some(0.0), Some(0.0))
        );
    }

    #[test]
    fn labels_have_no_divergence_and_shapes_are_checked() {
        let estimated =
            ConfidenceScores::new(DMatrix::from_column_slice(2, 2, &[0.25, 0.75, 0.5, 0.5]))
                .unwrap();
        let found =
            score_mismatch(&ReleasedScores::Labels { classes: 2, labels: vec![1, 1] }, &estimated)
                .unwrap();
        assert_eq!(
            (found.total_variation, found.kl_divergence, found.labels_differ),
            (None, None, Some(0.5))
        );
        assert_eq!(found.squared_error, None);
        let ciphertexts =
            ReleasedScores::Ciphertexts(DMatrix::from_column_slice(2, 2, &[1, 2, 2, 1]));
        let found = score_mismatch(&ciphertexts, &estimated).unwrap();
        assert_eq!((found.total_variation, found.labels_differ), (None, Some(0.0)));
        assert!(
            score_mismatch(&ReleasedScores::Numbers(DMatrix::zeros(2, 1)), &estimated).is_err()
        );
        assert!(
            score_mismatch(&ReleasedScores::Numbers(DMatrix::zeros(3, 2)), &estimated).is_err()
        );
        let empty = ConfidenceScores::new(DMatrix::zeros(2, 0)).unwrap();
        let found = score_mismatch(&ReleasedScores::Numbers(DMatrix::zeros(2, 0)), &empty).unwrap();
        assert_eq!((found.records, found.total_variation, found.labels_differ), (0, None, None));
        assert_eq!(found.squared_error, None);
    }
}
