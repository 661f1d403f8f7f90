//! Division of the records into training, validation and test parts.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::random_streams::{Purpose, generator};

/// The part of a data set that a record was published in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The official training part.
    Train,
    /// The official test part.
    Test,
}

/// The shares of training, validation and test records. They are shares of all records and sum
/// to 1. With `official_test`, the official test part replaces the test share if the set has one,
/// and the other two keep their proportion within the training part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SplitFields")]
pub struct SplitSpec {
    train: f64,
    validation: f64,
    test: f64,
    official_test: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitFields {
    train: f64,
    validation: f64,
    test: f64,
    #[serde(default = "yes")]
    official_test: bool,
}

fn yes() -> bool {
    true
}

/// Errors from checking or applying a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// Shares that are not valid; see [`SplitSpec::new`].
    #[error("shares of a split are at least 0, sum to 1, and leave something to train on")]
    Shares,
    /// Too few records for these shares.
    #[error("with {records} records this split leaves its {part} part empty")]
    Empty {
        /// The number of records to divide.
        records: usize,
        /// The part without a record.
        part: &'static str,
    },
}

impl SplitSpec {
    /// Checks shares of training, validation and test records.
    ///
    /// # Errors
    /// [`SplitError::Shares`] if one is negative or not finite, the first is 0, or they do not sum
    /// to 1 within 1e-9.
    pub fn new(
        train: f64,
        validation: f64,
        test: f64,
        official_test: bool,
    ) -> Result<Self, SplitError> {
        let shares = [train, validation, test];
        let valid = shares.iter().all(|s| (0.0..=1.0).contains(s))
            && (shares.iter().sum::<f64>() - 1.0).abs() <= 1e-9;
        if valid && train > 0.0 {
            Ok(Self { train, validation, test, official_test })
        } else {
            Err(SplitError::Shares)
        }
    }

    /// Divides `records` records, and keeps the official test part if the specification says so.
    /// The same seed gives the same split.
    ///
    /// # Errors
    /// [`SplitError::Empty`] if a part with a share above 0 would get no record.
    pub fn split(
        &self,
        records: usize,
        parts: Option<&[Part]>,
        seed: u64,
    ) -> Result<Split, SplitError> {
        let parts = parts.filter(|parts| self.official_test && parts.contains(&Part::Test));
        let in_part = |part: Part| -> Vec<usize> {
            let parts = parts.unwrap_or_default();
            (0..parts.len().min(records)).filter(|&r| parts[r] == part).collect()
        };
        let (mut pool, mut test, test_share) = match parts {
            Some(_) => (in_part(Part::Train), in_part(Part::Test), 0.0),
            None => ((0..records).collect(), Vec::new(), self.test),
        };
        let count = pool.len();
        pool.shuffle(&mut generator(seed, Purpose::Split, 0));
        let take = |share: f64| ((count as f64 * share).round() as usize).min(count);
        let drawn = pool.split_off(count - take(test_share));
        if parts.is_none() {
            test = drawn;
        }
        let validation_share = if parts.is_some() {
            self.validation / (self.train + self.validation)
        } else {
            self.validation
        };
        let mut validation = pool.split_off(pool.len() - take(validation_share).min(pool.len()));
        for (part, share, list) in [
            ("training", self.train, &pool),
            ("validation", self.validation, &validation),
            ("test", self.test, &test),
        ] {
            if share > 0.0 && list.is_empty() {
                return Err(SplitError::Empty { records, part });
            }
        }
        pool.sort_unstable();
        validation.sort_unstable();
        test.sort_unstable();
        Ok(Split { train: pool, validation, test })
    }
}

impl Default for SplitSpec {
    /// Returns 80 % training, 10 % validation and 10 % test, with the official test part if there
    /// is one.
    fn default() -> Self {
        Self { train: 0.8, validation: 0.1, test: 0.1, official_test: true }
    }
}

impl TryFrom<SplitFields> for SplitSpec {
    type Error = SplitError;
    fn try_from(f: SplitFields) -> Result<Self, SplitError> {
        Self::new(f.train, f.validation, f.test, f.official_test)
    }
}

/// Positions of the records of each part, ascending and disjoint; together they are all records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Records to fit parameters on.
    pub train: Vec<usize>,
    /// Records that decide when training stops.
    pub validation: Vec<usize>,
    /// Records never seen in training: those that are served and attacked.
    pub test: Vec<usize>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn official_test_parts_are_kept_whole() {
        let parts: Vec<Part> =
            (0..100).map(|r| if r < 60 { Part::Train } else { Part::Test }).collect();
        let split = SplitSpec::default().split(100, Some(&parts), 1).unwrap();
        assert_eq!(split.test, (60..100).collect::<Vec<_>>());
        assert_eq!((split.train.len(), split.validation.len()), (53, 7));
        let own =
            SplitSpec::new(0.8, 0.1, 0.1, false).unwrap().split(100, Some(&parts), 1).unwrap();
        assert_eq!((own.train.len(), own.validation.len(), own.test.len()), (80, 10, 10));
    }

    #[test]
    fn bad_shares_are_refused() {
        for (a, b, c) in [(0.8, 0.1, 0.2), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1), (f64::NAN, 0.5, 0.5)]
        {
            assert_eq!(SplitSpec::new(a, b, c, true), Err(SplitError::Shares));
        }
        let json = r#"{"train": 0.5, "validation": 0.1, "test": 0.1}"#;
        assert!(
            serde_json::from_str::<SplitSpec>(json).unwrap_err().to_string().contains("sum to 1")
        );
        assert_eq!(
            SplitSpec::default().split(3, None, 1),
            Err(SplitError::Empty { records: 3, part: "validation" })
        );
    }

    proptest! {
        #[test]
        fn parts_are_disjoint_and_complete(records in 10usize..500, seed in any::<u64>(), a in 0.3f64..0.6) {
            let spec = SplitSpec::new(a, 0.2, 0.8 - a, true).unwrap();
            let split = spec.split(records, None, seed).unwrap();
            let mut all = [split.train.clone(), split.validation.clone(), split.test.clone()].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..records).collect::<Vec<_>>());
            prop_assert_eq!(split.validation.len(), (0.2 * records as f64).round() as usize);
            prop_assert_eq!(&spec.split(records, None, seed).unwrap(), &split);
            if records > 100 {
                prop_assert_ne!(&spec.split(records, None, seed ^ 1).unwrap(), &split);
            }
        }
    }
}
