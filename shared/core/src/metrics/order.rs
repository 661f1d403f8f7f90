//! Preservation of the order of a record's scores in its release.

use std::ops::AddAssign;

use super::MetricError;
use super::error::same;
use crate::types::{ConfidenceScores, ReleasedScores};

/// Counts of releases that keep the order of the scores, summed over records like
/// [`super::UtilityTotals`]. Ciphertexts have an order; a label has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrderTotals {
    /// Records whose release has an order.
    records: u64,
    ranks_kept: u64,
    top_kept: u64,
}

impl OrderTotals {
    /// Compares the order of a release with that of the scores it stands for; `top` is the size of
    /// the set of largest scores to compare, cut to the number of classes.
    ///
    /// # Errors
    /// [`MetricError::Size`] if the numbers of classes or records differ.
    pub fn of(
        scores: &ConfidenceScores,
        released: &ReleasedScores,
        top: usize,
    ) -> Result<Self, MetricError> {
        same("the release", "classes", scores.classes(), released.classes())?;
        same("the release", "records", scores.records(), released.records())?;
        let k = scores.classes();
        let scores = scores.matrix().as_slice().chunks_exact(k);
        let mut totals = Self::default();
        match released {
            ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
                scores.zip(m.as_slice().chunks_exact(k)).for_each(|(c, p)| totals.add(c, p, top));
            }
            ReleasedScores::Ciphertexts(m) => {
                scores.zip(m.as_slice().chunks_exact(k)).for_each(|(c, p)| totals.add(c, p, top));
            }
            ReleasedScores::Labels { .. } => {}
        }
        Ok(totals)
    }

    fn add<T: PartialOrd>(&mut self, c: &[f64], p: &[T], top: usize) {
        let order = descending(c);
        // Strictly larger than the best of all that are strictly smaller.
        let mut kept = true;
        let mut smaller: Option<usize> = None;
        for group in order.chunk_by(|&i, &j| c[i] == c[j]).rev() {
            let above = |i: usize, other: Option<usize>| other.is_none_or(|j| p[i] > p[j]);
            kept &= group.iter().all(|&i| above(i, smaller));
            for &i in group {
                if above(i, smaller) {
                    smaller = Some(i);
                }
            }
        }
        let mut largest = [order, descending(p)].map(|mut order| {
            order.truncate(top);
            order
        });
        largest.iter_mut().for_each(|set| set.sort_unstable());
        self.records += 1;
        self.ranks_kept += u64::from(kept);
        self.top_kept += u64::from(largest[0] == largest[1]);
    }

    /// Returns the number of records whose release has an order.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the share of records in which every strictly larger score is released strictly
    /// larger. `None` without a record that has an order.
    #[must_use]
    pub fn ranks_kept(&self) -> Option<f64> {
        (self.records > 0).then(|| self.ranks_kept as f64 / self.records as f64)
    }

    /// Returns the share of records whose set of largest scores is that of the release (ties: the
    /// lowest index). `None` without a record that has an order.
    #[must_use]
    pub fn top_kept(&self) -> Option<f64> {
        (self.records > 0).then(|| self.top_kept as f64 / self.records as f64)
    }
}

impl AddAssign for OrderTotals {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.ranks_kept += other.ranks_kept;
        self.top_kept += other.top_kept;
    }
}

/// Returns positions in descending order of value, with the lowest index first among equal values.
fn descending<T: PartialOrd>(values: &[T]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[j].partial_cmp(&values[i]).unwrap_or(std::cmp::Ordering::Equal));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;
    use proptest::prelude::*;

    fn of(c: &[f64], released: ReleasedScores, top: usize) -> (Option<f64>, Option<f64>) {
        let k = released.classes();
        let scores = ConfidenceScores::new(DMatrix::from_column_slice(k, c.len() / k, c)).unwrap();
        let totals = OrderTotals::of(&scores, &released, top).unwrap();
        (totals.ranks_kept(), totals.top_kept())
    }

    #[test]
    fn ranks_and_top_sets_are_counted() {
        let numbers =
            |p: &[f64]| ReleasedScores::Numbers(DMatrix::from_column_slice(3, p.len() / 3, p));
        let c = [0.5, 0.3, 0.2];
        assert_eq!(of(&c, numbers(&[9.0, 5.0, -1.0]), 2), (Some(1.0), Some(1.0)));
        // A tie where there was none keeps no rank, and the set only if the lower index is in it.
        assert_eq!(of(&c, numbers(&[0.5, 0.0, 0.0]), 2), (Some(0.0), Some(1.0)));
        assert_eq!(of(&[0.5, 0.2, 0.3], numbers(&[0.5, 0.0, 0.0]), 2), (Some(0.0), Some(0.0)));
        // Equal scores may part.
        assert_eq!(of(&[0.25, 0.5, 0.25], numbers(&[0.2, 0.5, 0.3]), 1), (Some(1.0), Some(1.0)));
        // 0.5 is above one of the two equal ones only.
        assert_eq!(of(&[0.25, 0.5, 0.25], numbers(&[0.2, 0.5, 0.6]), 3), (Some(0.0), Some(1.0)));
        let two = [c, c].concat();
        assert_eq!(of(&two, numbers(&[3.0, 2.0, 1.0, 1.0, 2.0, 3.0]), 1), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn ciphertexts_have_an_order_and_labels_none() {
        let c = [0.5, 0.3, 0.2];
        // Beyond the doubles that tell neighbours apart.
        let ciphers = DMatrix::from_column_slice(3, 1, &[(1u64 << 60) + 1, 1 << 60, 7]);
        assert_eq!(of(&c, ReleasedScores::Ciphertexts(ciphers), 2), (Some(1.0), Some(1.0)));
        assert_eq!(of(&c, ReleasedScores::Labels { classes: 3, labels: vec![0] }, 2), (None, None));
        let scores = ConfidenceScores::new(DMatrix::from_column_slice(3, 1, &c)).unwrap();
        assert!(
            OrderTotals::of(&scores, &ReleasedScores::Labels { classes: 2, labels: vec![0] }, 1)
                .is_err()
        );
        let mut totals = OrderTotals::default();
        totals +=
            OrderTotals::of(&scores, &ReleasedScores::Numbers(scores.matrix().clone()), 1).unwrap();
        assert_eq!((totals.records(), totals.ranks_kept()), (1, Some(1.0)));
    }

    proptest! {
        #[test]
        fn all_pairs_are_the_oracle(pairs in proptest::collection::vec((0u8..4, 0u8..4), 2..8)) {
            let sum: f64 = pairs.iter().map(|p| f64::from(p.0)).sum();
            prop_assume!(sum > 0.0);
            let c: Vec<f64> = pairs.iter().map(|p| f64::from(p.0) / sum).collect();
            let p: Vec<f64> = pairs.iter().map(|p| f64::from(p.1)).collect();
            let expected = (0..c.len()).all(|i| (0..c.len()).all(|j| c[i] <= c[j] || p[i] > p[j]));
            let released = ReleasedScores::Numbers(DMatrix::from_column_slice(c.len(), 1, &p));
            prop_assert_eq!(of(&c, released, 1).0, Some(f64::from(expected)));
        }
    }
}
