//! One fixed score vector, assigned by rank.

use std::fmt;

use nalgebra::DMatrix;
use vfl_core::types::{ConfidenceScores, ReleasedScores};
use vfl_numerics::permutation_bits;

use super::definition::{Definition, OwnBound};
use super::order::{Order, each_column};
use super::{Contract, Defense, DefenseError, Noise, Output};
use crate::DefenseConfig;
use crate::policy::{Facts, ReleaseKind};

const NAME: &str = "ranking";
/// Fewest calibration records: with fewer, the vector would say much about single ones.
const LEAST_RECORDS: usize = 1000;
/// Weight of the ramp that breaks ties of the mean.
const RAMP: f64 = 1e-9;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    examples: |_| vec![DefenseConfig::Ranking {}],
    within_bits: |classes, bits| {
        (permutation_bits(classes) <= bits).then_some(DefenseConfig::Ranking {})
    },
    fitted: true,
    ..Facts::PLAIN
};

pub(super) fn definition() -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Order,
        bits: Box::new(|classes, _| OwnBound::Bits(permutation_bits(classes))),
        ..Definition::at_scores(
            &FACTS,
            Output::Probabilities,
            || Ok(()),
            |classes, grants| Ranking::fit(grants.calibration(NAME)?, classes),
        )
    }
}

/// Releases the same k values for every record, the largest where the record's largest score is: at
/// most k! outputs, log2 k! bits a record, whatever is asked and however often. Every rank stays;
/// of equal scores the lower index gets the larger value. Only the order of the input matters, so
/// the input may be any numbers.
///
/// The values are the mean of the sorted calibration vectors. They must fall strictly to carry the
/// ranks: where two neighbours of the mean are equal (scores that are 0 in every record), 1e-9 of
/// the whole is put on the ramp 2(k − r)/(k(k + 1)), r = 0 … k − 1, which leaves it on the simplex.
#[derive(Clone)]
pub struct Ranking {
    values: Vec<f64>,
}

/// Withholds the values, which are averages of scores.
impl fmt::Debug for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ranking({} classes, values withheld)", self.values.len())
    }
}

impl Ranking {
    /// Fits the vector on at least 1000 records of `classes` classes.
    ///
    /// # Errors
    /// [`DefenseError::Needs`] for fewer, or scores of another number of classes.
    pub fn fit(calibration: &ConfidenceScores, classes: usize) -> Result<Self, DefenseError> {
        let (n, k) = (calibration.records(), calibration.classes());
        if n < LEAST_RECORDS || k != classes {
            let what = format!(
                "calibration scores of at least {LEAST_RECORDS} records and {classes} classes; there are {n} records of {k} classes"
            );
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        Ok(Self { values: falling(mean_sorted(calibration.matrix())) })
    }
}

/// Returns the mean of the columns, each sorted, largest first.
pub(super) fn mean_sorted(scores: &DMatrix<f64>) -> Vec<f64> {
    let (k, n) = scores.shape();
    let mut mean = vec![0.0; k];
    let mut sorted = vec![0.0; k];
    for column in scores.as_slice().chunks_exact(k) {
        sorted.copy_from_slice(column);
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        mean.iter_mut().zip(&sorted).for_each(|(mean, c)| *mean += c);
    }
    mean.iter_mut().for_each(|mean| *mean /= n as f64);
    mean
}

/// Makes values that do not rise strictly falling, with sum 1.
fn falling(mut values: Vec<f64>) -> Vec<f64> {
    let k = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let tied = values.windows(2).any(|pair| pair[0] <= pair[1]);
    for (rank, value) in values.iter_mut().enumerate() {
        *value /= sum;
        if tied {
            *value = (1.0 - RAMP) * *value + RAMP * 2.0 * (k - rank as f64) / (k * (k + 1.0));
        }
    }
    // Round-off may have left equal neighbours.
    for rank in (1..values.len()).rev() {
        values[rank - 1] = values[rank - 1].max(values[rank].next_up());
    }
    values
}

impl Defense for Ranking {
    fn contract(&self) -> Contract {
        let bits = (1..=self.values.len()).map(|i| (i as f64).log2()).sum();
        let output = Output::Probabilities;
        Contract {
            output,
            keeps_arg_max: true,
            keeps_ranking: true,
            randomised: false,
            bits: Some(bits),
        }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let k = scores.nrows();
        if k != self.values.len() {
            let what = format!("scores of {} classes; these have {k}", self.values.len());
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        each_column(scores.as_mut_slice(), k, Order::default, |order, _, column| {
            order.sort(column);
            order.best_first().zip(&self.values).for_each(|(at, value)| column[at] = *value);
        });
        Ok(ReleasedScores::Probabilities(scores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    #[test]
    fn the_mean_of_sorted_vectors_is_dealt_out() {
        let scores = DMatrix::from_fn(3, 1000, |i, j| [[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]][j % 2][i]);
        let ranking = Ranking::fit(&ConfidenceScores::new(scores).unwrap(), 3).unwrap();
        close(&ranking.values, &[0.65, 0.2, 0.15], 1e-12);
        let released = ranking
            .apply(DMatrix::from_column_slice(3, 1, &[0.0, 0.0, 9.0]), &Noise::fresh([0; 32]))
            .unwrap();
        let ReleasedScores::Probabilities(p) = released else { panic!("kind") };
        close(p.as_slice(), &[0.2, 0.15, 0.65], 1e-12);
        assert!((ranking.contract().bits.unwrap() - 6f64.log2()).abs() < 1e-12);
    }

    #[test]
    fn ties_of_the_mean_are_broken_on_the_simplex() {
        for k in [2, 3, 50, 1000] {
            for same in [true, false] {
                let scores = DMatrix::from_fn(k, 1000, |i, _| match same {
                    true => 1.0 / k as f64,
                    false => f64::from(i == 0),
                });
                let ranking = Ranking::fit(&ConfidenceScores::new(scores).unwrap(), k).unwrap();
                assert!(
                    ranking.values.windows(2).all(|pair| pair[0] > pair[1])
                        && ranking.values[k - 1] >= 0.0
                );
                assert!((ranking.values.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn few_records_are_refused() {
        let scores = ConfidenceScores::new(DMatrix::from_element(2, 999, 0.5)).unwrap();
        assert!(Ranking::fit(&scores, 2).unwrap_err().to_string().contains("1000"));
        let scores = ConfidenceScores::new(DMatrix::from_element(2, 1000, 0.5)).unwrap();
        assert!(Ranking::fit(&scores, 3).unwrap_err().to_string().contains("3 classes"));
    }
}
