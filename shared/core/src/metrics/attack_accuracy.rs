//! The share of reconstructions that a classifier puts in the class of the true record.

use nalgebra::DMatrix;

use super::error::{comparable, same};
use super::{Direction, Metric, MetricError, Reconstruction, Unit};

/// [`attack_accuracy`] in an audit. The classifier is the passive party's own share of the served
/// model, arg max W x. J trains a classifier on features and labels, but no party holds both.
///
/// It has no bound: the share of the model was trained on records, so one record may change the
/// classes of all.
#[derive(Debug)]
pub struct AttackAccuracy;

impl Metric for AttackAccuracy {
    fn name(&self) -> &'static str {
        "attack_accuracy"
    }

    fn title(&self) -> &'static str {
        "attack accuracy"
    }

    fn meaning(&self) -> &'static str {
        "share of records whose estimates get the same class as their true features, by the passive party's share of the model"
    }

    fn unit(&self) -> Unit {
        Unit::Share
    }

    fn direction(&self) -> Direction {
        Direction::Higher
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        comparable(of.estimates, of.truth)?;
        attack_accuracy(&(of.classify)(of.truth)?, &(of.classify)(of.estimates)?).map(Some)
    }

    fn sensitivity(&self, _: &DMatrix<f64>) -> Option<f64> {
        None
    }
}

/// Returns the share of records, in [0, 1], that an evaluation classifier puts in the same class
/// from the true features and from the reconstructed ones (J equation 24, without its stray "=":
/// (1/b) Σ 1[arg max M(x) = arg max M(x̂)]).
///
/// The true label is not used: `of_truth` and `of_estimates` are the classifier's own answers. A
/// classifier that cannot tell the classes apart by these features answers the same for anything,
/// and then the share says nothing about a leak (J section 7): compare it with the share of a
/// guess.
///
/// # Errors
/// [`MetricError`] if the numbers of records differ or there is none.
pub fn attack_accuracy(of_truth: &[u32], of_estimates: &[u32]) -> Result<f64, MetricError> {
    same("the classes of the estimates", "records", of_truth.len(), of_estimates.len())?;
    if of_truth.is_empty() {
        return Err(MetricError::Empty { what: "the classes of the truth", unit: "records" });
    }
    let equal = of_truth.iter().zip(of_estimates).filter(|(t, e)| t == e).count();
    Ok(equal as f64 / of_truth.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_records_of_one_class() {
        assert_eq!(attack_accuracy(&[0, 1, 2, 2], &[0, 1, 1, 2]), Ok(0.75));
        assert_eq!(attack_accuracy(&[3], &[0]), Ok(0.0));
        let what = "the classes of the estimates";
        let size = MetricError::Size { what, unit: "records", expected: 2, got: 1 };
        assert_eq!(attack_accuracy(&[0, 1], &[0]), Err(size));
        assert!(matches!(attack_accuracy(&[], &[]), Err(MetricError::Empty { .. })));
    }
}
