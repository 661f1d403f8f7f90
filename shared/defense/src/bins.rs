//! Bins of a number: the middle of the bin that it lies in.

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;

use super::definition::{Definition, OwnBound};
use super::{Contract, Defense, DefenseError, MAX_SCALE, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "bins";
/// The most bins.
const MOST: u32 = 1_000_000;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[
        Parameter::required("lower", ParameterKind::Number, "finite", 0.0),
        Parameter::required("upper", ParameterKind::Number, "above `lower`", 1.0),
        Parameter::required("count", ParameterKind::Whole, "1 to 1000000", 10.0),
    ],
    examples: |outputs| match outputs {
        1 => vec![DefenseConfig::Bins { lower: 0.0, upper: 1.0, count: 10 }],
        _ => Vec::new(),
    },
    ..Facts::PLAIN
};

pub(super) fn definition(lower: f64, upper: f64, count: u32) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Rounded,
        bits: Box::new(move |_, _| OwnBound::Bits(f64::from(count.max(1)).log2())),
        ..Definition::at_scores(
            &FACTS,
            Output::Numbers,
            move || Bins::new(lower, upper, count).map(drop),
            move |outputs, _| match outputs {
                1 => Bins::new(lower, upper, count),
                _ => Err(DefenseError::Needs {
                    defense: NAME,
                    what: "a model of a number; scores of classes have `rounding` and `codebook`"
                        .to_owned(),
                }),
            },
        )
    }
}

/// Replaces a number by the middle of its bin, of `count` bins of equal width from `lower` to
/// `upper`. Numbers outside count as the nearest end, so that one of `count` numbers is released:
/// at most log2 count bits, for any model.
#[derive(Debug, Clone, Copy)]
pub struct Bins {
    lower: f64,
    width: f64,
    count: u32,
}

impl Bins {
    /// Creates `count` bins, 1 to 1 000 000, from `lower` to `upper`.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for ends that are not finite, not in order or beyond 1e12, and for
    /// another number of bins.
    pub fn new(lower: f64, upper: f64, count: u32) -> Result<Self, DefenseError> {
        let finite = |v: f64| v.abs() <= MAX_SCALE;
        checked(finite(lower), NAME, "lower", lower, "at most 1e12 in magnitude")?;
        let above = finite(upper) && upper > lower;
        checked(above, NAME, "upper", upper, "above `lower`, at most 1e12 in magnitude")?;
        checked((1..=MOST).contains(&count), NAME, "count", count, "1 to 1000000")?;
        let width = (upper - lower) / f64::from(count);
        checked(width > 0.0, NAME, "count", count, "no more bins than numbers between the ends")?;
        Ok(Self { lower, width, count })
    }

    /// Returns the place of a number's bin, from 0.
    fn place(&self, number: f64) -> f64 {
        ((number - self.lower) / self.width).floor().clamp(0.0, f64::from(self.count - 1))
    }

    /// Returns the number that is released for a bin, by its place from 0.
    #[must_use]
    pub fn middle(&self, place: u32) -> f64 {
        self.lower + (f64::from(place) + 0.5) * self.width
    }

    /// Returns the numbers at which a bin ends and the next one begins, one less than there are
    /// bins.
    pub fn edges(&self) -> impl Iterator<Item = f64> + '_ {
        (1..self.count).map(|place| self.lower + f64::from(place) * self.width)
    }

    /// Returns the ends of the numbers that are released as `number`: of its bin, and infinite
    /// beyond the first and the last. An end may be off by round-off.
    #[must_use]
    pub fn ends(&self, number: f64) -> (f64, f64) {
        let place = self.place(number);
        let first = place == 0.0;
        let last = place == f64::from(self.count - 1);
        let low = if first { f64::NEG_INFINITY } else { self.lower + place * self.width };
        let high = if last { f64::INFINITY } else { self.lower + (place + 1.0) * self.width };
        (low, high)
    }
}

impl Defense for Bins {
    fn contract(&self) -> Contract {
        Contract {
            output: Output::Numbers,
            keeps_arg_max: false,
            keeps_ranking: false,
            randomised: false,
            bits: Some(f64::from(self.count).log2()),
        }
    }

    fn apply(
        &self,
        mut numbers: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        numbers.apply(|v| *v = self.lower + (self.place(*v) + 0.5) * self.width);
        Ok(ReleasedScores::Numbers(numbers))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn released(bins: Bins, values: &[f64]) -> Vec<f64> {
        let numbers = DMatrix::from_row_slice(1, values.len(), values);
        match bins.apply(numbers, &Noise::fresh([0; 32])).unwrap() {
            ReleasedScores::Numbers(m) => m.as_slice().to_vec(),
            _ => panic!("kind"),
        }
    }

    #[test]
    fn numbers_become_the_middles_of_their_bins() {
        let bins = Bins::new(0.0, 10.0, 5).unwrap();
        let values = [-3.0, 0.0, 1.99, 2.0, 9.99, 10.0, 1e300];
        assert_eq!(released(bins, &values), [1.0, 1.0, 1.0, 3.0, 9.0, 9.0, 9.0]);
        assert_eq!(bins.ends(3.0), (2.0, 4.0));
        assert_eq!(bins.ends(1.0), (f64::NEG_INFINITY, 2.0));
        assert_eq!(released(Bins::new(-1.0, 1.0, 1).unwrap(), &[7.0]), [0.0]);
        for (lower, upper, count) in [
            (0.0, 0.0, 3),
            (1.0, 0.0, 3),
            (f64::NAN, 1.0, 3),
            (0.0, f64::INFINITY, 3),
            (0.0, 1.0, 0),
        ] {
            assert!(Bins::new(lower, upper, count).is_err(), "{lower} {upper} {count}");
        }
        // Between neighbouring doubles there is no room.
        assert!(Bins::new(1.0, 1.0 + f64::EPSILON, 1_000_000).is_ok_and(|b| b.width > 0.0));
    }

    proptest! {
        /// No more numbers than are counted, and the number lies between the ends of its release.
        #[test]
        fn there_are_as_many_releases_as_bins(
            lower in -1e6f64..1e6,
            width in 1e-3f64..1e6,
            count in 1u32..40,
            values in proptest::collection::vec(-3e6f64..3e6, 200),
        ) {
            let bins = Bins::new(lower, lower + width, count).unwrap();
            let out = released(bins, &values);
            let distinct: std::collections::HashSet<u64> = out.iter().map(|v| v.to_bits()).collect();
            prop_assert!(distinct.len() <= count as usize);
            for (v, r) in values.iter().zip(&out) {
                let (low, high) = bins.ends(*r);
                let slack = 1e-9 * (1.0 + v.abs() + lower.abs());
                prop_assert!(low - slack <= *v && *v <= high + slack, "{v} {r}: {low} {high}");
            }
        }
    }
}
