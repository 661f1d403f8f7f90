//! The cost of a defense for those who use the scores.

use std::ops::AddAssign;

use nalgebra::DMatrix;
use vfl_numerics::arg_max;

use super::MetricError;
use super::error::same;
use crate::types::{ConfidenceScores, ReleasedScores};

/// Returns the share of records, in [0, 1], whose predicted class is the label.
///
/// # Errors
/// [`MetricError`] if the numbers of records differ or there is none.
pub fn accuracy(predicted: &[u32], labels: &[u32]) -> Result<f64, MetricError> {
    same("the prediction", "records", labels.len(), predicted.len())?;
    if labels.is_empty() {
        return Err(MetricError::Empty { what: "the prediction", unit: "records" });
    }
    let right = predicted.iter().zip(labels).filter(|(p, l)| p == l).count();
    Ok(right as f64 / labels.len() as f64)
}

/// Computes D(c‖p) = Σ c ln(c / p) of one record, in nats. 0 ln 0 = 0; the result is infinite if p
/// is 0 or negative where c is not. Released numbers are taken as they are: if they do not sum to
/// 1, the result may be negative.
///
/// # Errors
/// [`MetricError::Size`] if the numbers of classes differ.
pub fn kl_divergence(c: &[f64], p: &[f64]) -> Result<f64, MetricError> {
    same("the release", "classes", c.len(), p.len())?;
    Ok(kl(c, p))
}

/// Computes ½ Σ |c − p| of one record: for probability vectors the largest difference in the
/// probability of any set of classes.
///
/// # Errors
/// [`MetricError::Size`] if the numbers of classes differ.
pub fn total_variation(c: &[f64], p: &[f64]) -> Result<f64, MetricError> {
    same("the release", "classes", c.len(), p.len())?;
    Ok(variation(c, p))
}

fn kl(c: &[f64], p: &[f64]) -> f64 {
    let term = |(c, p): (&f64, &f64)| if *p > 0.0 { c * (c / p).ln() } else { f64::INFINITY };
    c.iter().zip(p).filter(|(c, _)| **c > 0.0).map(term).sum()
}

fn variation(c: &[f64], p: &[f64]) -> f64 {
    c.iter().zip(p).map(|(c, p)| (c - p).abs()).sum::<f64>() / 2.0
}

/// Utility of releases, summed over records, so that a stream of batches gives the means of the
/// whole.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UtilityTotals {
    records: u64,
    kept: u64,
    /// Records with a vector to compare; a label has none.
    vectors: u64,
    kl: f64,
    total_variation: f64,
    /// Records whose release is a number.
    numbers: u64,
    change: f64,
}

impl UtilityTotals {
    /// Measures the cost of releasing numbers (1 × n) in place of those that they stand for: the
    /// relative change |v − p| / (|v| + |p|) of each, in [0, 1], so that no record counts for more
    /// than 1 / n of the mean.
    ///
    /// # Errors
    /// [`MetricError::Size`] if the numbers of records differ or the release has classes.
    pub fn of_numbers(
        numbers: &DMatrix<f64>,
        released: &ReleasedScores,
    ) -> Result<Self, MetricError> {
        same("the release", "numbers", 1, released.classes())?;
        same("the release", "records", numbers.ncols(), released.records())?;
        let mut totals = Self { records: numbers.ncols() as u64, ..Self::default() };
        if let ReleasedScores::Probabilities(p) | ReleasedScores::Numbers(p) = released {
            totals.numbers = totals.records;
            let change = |(v, p): (&f64, &f64)| {
                // Halves, whose sum does not overflow.
                let size = 0.5 * v.abs() + 0.5 * p.abs();
                if size > 0.0 { (0.5 * v - 0.5 * p).abs() / size } else { 0.0 }
            };
            totals.change = numbers.iter().zip(p).map(change).sum();
        }
        Ok(totals)
    }

    /// Measures the cost of one release against the scores it stands for.
    ///
    /// # Errors
    /// [`MetricError::Size`] if the numbers of classes or records differ.
    pub fn of(scores: &ConfidenceScores, released: &ReleasedScores) -> Result<Self, MetricError> {
        same("the release", "classes", scores.classes(), released.classes())?;
        same("the release", "records", scores.records(), released.records())?;
        let mut totals = Self { records: scores.records() as u64, ..Self::default() };
        for (c, label) in scores.matrix().column_iter().zip(released.predicted_labels()) {
            totals.kept += u64::from(arg_max(c.as_slice()) == label as usize);
        }
        if let ReleasedScores::Probabilities(p) | ReleasedScores::Numbers(p) = released {
            for (c, p) in scores.matrix().column_iter().zip(p.column_iter()) {
                totals.kl += kl(c.as_slice(), p.as_slice());
                totals.total_variation += variation(c.as_slice(), p.as_slice());
            }
            totals.vectors = totals.records;
        }
        Ok(totals)
    }

    /// Measures the deviation of estimates from a release, which takes the place of the scores in
    /// [`UtilityTotals::of`].
    pub(super) fn of_estimates(
        released: &ReleasedScores,
        estimated: &ConfidenceScores,
    ) -> Result<Self, MetricError> {
        // The count of kept classes is symmetric, the divergence is not.
        let labels = Self::of(estimated, released)?;
        let mut totals = Self { records: labels.records, kept: labels.kept, ..Self::default() };
        if let ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) = released {
            for (c, p) in c.column_iter().zip(estimated.matrix().column_iter()) {
                totals.kl += kl(c.as_slice(), p.as_slice());
                totals.total_variation += variation(c.as_slice(), p.as_slice());
            }
            totals.vectors = totals.records;
        }
        Ok(totals)
    }

    /// Writes the sums as text, exact to the bit.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { records, kept, vectors, kl, total_variation, numbers, change } = self;
        let [kl, total_variation, change] = [kl, total_variation, change].map(|sum| sum.to_bits());
        let scores = format!("{records} {kept} {vectors} {kl:016x} {total_variation:016x}");
        match numbers {
            // As it was before there were numbers.
            0 => scores,
            _ => format!("{scores} {numbers} {change:016x}"),
        }
    }

    /// Reads the text of [`UtilityTotals::to_text`]; `None` if it is not valid.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let (scores, [numbers, change]) = match words.as_slice() {
            [scores @ .., numbers, change] if words.len() == 7 => (scores, [*numbers, *change]),
            scores => (scores, ["0", "0"]),
        };
        let &[records, kept, vectors, kl, total_variation] = scores else { return None };
        let real = |bits: &str| {
            u64::from_str_radix(bits, 16).ok().map(f64::from_bits).filter(|sum| !sum.is_nan())
        };
        Some(Self {
            records: records.parse().ok()?,
            kept: kept.parse().ok()?,
            vectors: vectors.parse().ok()?,
            kl: real(kl)?,
            total_variation: real(total_variation)?,
            numbers: numbers.parse().ok()?,
            change: real(change)?,
        })
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the mean D(c‖released), in nats, over the records released as vectors; infinite as
    /// soon as it is for one of them. `None` if there is no such record.
    #[must_use]
    pub fn kl_divergence(&self) -> Option<f64> {
        mean(self.kl, self.vectors)
    }

    /// Returns the mean total variation over the records released as vectors. `None` if there is no
    /// such record.
    #[must_use]
    pub fn total_variation(&self) -> Option<f64> {
        mean(self.total_variation, self.vectors)
    }

    /// Returns the share of records whose class is still the one that the scores give (ties: the
    /// lowest index). `None` without a record of classes.
    #[must_use]
    pub fn arg_max_kept(&self) -> Option<f64> {
        mean(self.kept as f64, self.records.saturating_sub(self.numbers))
    }

    /// Returns the mean relative change of the records released as numbers, in [0, 1]. `None` if
    /// there is no such record.
    #[must_use]
    pub fn mean_change(&self) -> Option<f64> {
        mean(self.change, self.numbers)
    }
}

impl AddAssign for UtilityTotals {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.kept += other.kept;
        self.vectors += other.vectors;
        self.kl += other.kl;
        self.total_variation += other.total_variation;
        self.numbers += other.numbers;
        self.change += other.change;
    }
}

fn mean(sum: f64, n: u64) -> Option<f64> {
    (n > 0).then(|| sum / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scores(columns: &[f64]) -> ConfidenceScores {
        ConfidenceScores::new(DMatrix::from_column_slice(2, columns.len() / 2, columns)).unwrap()
    }

    #[test]
    fn divergence_equals_its_closed_forms() {
        assert_eq!(kl_divergence(&[0.5, 0.5], &[0.5, 0.5]), Ok(0.0));
        assert!(
            (kl_divergence(&[0.5, 0.5], &[0.25, 0.75]).unwrap() - 0.5 * (4.0f64 / 3.0).ln()).abs()
                < 1e-15
        );
        assert_eq!(kl_divergence(&[1.0, 0.0], &[0.5, 0.5]), Ok(2f64.ln()));
        assert_eq!(kl_divergence(&[1.0, 0.0], &[1.0, 0.0]), Ok(0.0));
        for p in [[1.0, 0.0], [1.1, -0.1]] {
            assert_eq!(kl_divergence(&[0.5, 0.5], &p), Ok(f64::INFINITY));
        }
        assert_eq!(total_variation(&[1.0, 0.0], &[0.25, 0.75]), Ok(0.75));
        assert!(
            kl_divergence(&[1.0], &[0.5, 0.5]).is_err()
                && total_variation(&[1.0], &[0.5, 0.5]).is_err()
        );
    }

    #[test]
    fn sums_come_back_from_their_text() {
        let released =
            ReleasedScores::Numbers(DMatrix::from_column_slice(2, 2, &[1.0, 0.0, 0.3, 0.7]));
        let totals = UtilityTotals::of(&scores(&[0.5, 0.5, 0.1, 0.9]), &released).unwrap();
        assert!(totals.kl_divergence().is_some_and(f64::is_infinite));
        for totals in [totals, UtilityTotals::default()] {
            assert_eq!(UtilityTotals::from_text(&totals.to_text()), Some(totals));
        }
        for bad in ["", "1 2 3 4", "1 2 3 0 7ff8000000000000", "1 2 3 0 0 0", "-1 2 3 0 0"] {
            assert_eq!(UtilityTotals::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_change_by_their_distance_and_have_no_class() {
        let of = |values: &[f64]| DMatrix::from_row_slice(1, values.len(), values);
        let released = ReleasedScores::Numbers(of(&[3.0, -2.0, 0.0, 5.0]));
        let totals = UtilityTotals::of_numbers(&of(&[1.0, -2.0, 0.0, -1e300]), &released).unwrap();
        // ½, nothing, nothing, and all of it: an outlier counts as one record.
        assert_eq!((totals.records(), totals.mean_change()), (4, Some(1.5 / 4.0)));
        assert_eq!((totals.arg_max_kept(), totals.total_variation()), (None, None));
        assert_eq!(UtilityTotals::from_text(&totals.to_text()), Some(totals));
        let scores = ReleasedScores::Numbers(DMatrix::zeros(2, 4));
        assert!(UtilityTotals::of_numbers(&of(&[1.0; 4]), &scores).is_err());
        assert!(UtilityTotals::of_numbers(&of(&[1.0; 3]), &released).is_err());
    }

    #[test]
    fn accuracy_counts_records() {
        assert_eq!(accuracy(&[0, 1, 2, 2], &[0, 1, 2, 1]), Ok(0.75));
        assert_eq!(
            accuracy(&[], &[]),
            Err(MetricError::Empty { what: "the prediction", unit: "records" })
        );
        let refused =
            MetricError::Size { what: "the prediction", unit: "records", expected: 2, got: 1 };
        assert_eq!(accuracy(&[0], &[0, 1]), Err(refused));
    }

    #[test]
    fn batches_add_up_and_labels_have_no_divergence() {
        let c = scores(&[0.75, 0.25, 0.5, 0.5]);
        let vectors =
            ReleasedScores::Numbers(DMatrix::from_column_slice(2, 2, &[0.25, 0.75, 0.5, 0.5]));
        let mut totals = UtilityTotals::of(&c, &vectors).unwrap();
        // Ties go to class 0, in the scores as in the release.
        assert_eq!((totals.records(), totals.arg_max_kept()), (2, Some(0.5)));
        assert_eq!(totals.total_variation(), Some(0.25));
        assert!((totals.kl_divergence().unwrap() - 0.25 * 3f64.ln()).abs() < 1e-15);

        let labels =
            UtilityTotals::of(&c, &ReleasedScores::Labels { classes: 2, labels: vec![0, 1] })
                .unwrap();
        assert_eq!((labels.kl_divergence(), labels.total_variation()), (None, None));
        totals += labels;
        assert_eq!(
            (totals.records(), totals.arg_max_kept(), totals.total_variation()),
            (4, Some(0.5), Some(0.25))
        );
        assert_eq!(UtilityTotals::default().arg_max_kept(), None);
    }

    #[test]
    fn a_release_of_another_shape_is_refused() {
        let c = scores(&[0.75, 0.25, 0.5, 0.5]);
        let classes = ReleasedScores::Labels { classes: 3, labels: vec![0, 1] };
        let records = ReleasedScores::Numbers(DMatrix::zeros(2, 1));
        for (released, unit, expected, got) in
            [(classes, "classes", 2, 3), (records, "records", 2, 1)]
        {
            let refused = MetricError::Size { what: "the release", unit, expected, got };
            assert_eq!(UtilityTotals::of(&c, &released), Err(refused));
        }
    }

    proptest! {
        /// Gibbs' inequality, and Pinsker's: the divergence bounds the variation from above.
        #[test]
        fn pinsker(a in proptest::collection::vec(1e-3f64..1.0, 4), b in proptest::collection::vec(1e-3f64..1.0, 4)) {
            let unit = |v: Vec<f64>| { let s: f64 = v.iter().sum(); v.into_iter().map(|x| x / s).collect::<Vec<_>>() };
            let (c, p) = (unit(a), unit(b));
            let (kl, tv) = (kl_divergence(&c, &p).unwrap(), total_variation(&c, &p).unwrap());
            prop_assert!(kl >= -1e-15 && (kl.max(0.0) / 2.0).sqrt() >= tv - 1e-9, "{kl} {tv}");
            // Complements: the mass that c has above p is the mass it lacks elsewhere.
            let above: f64 = c.iter().zip(&p).map(|(c, p)| (c - p).max(0.0)).sum();
            prop_assert!((tv - above).abs() < 1e-14);
        }
    }
}
