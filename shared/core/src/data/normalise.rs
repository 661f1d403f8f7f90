//! Min-max normalisation to [0, 1] by declared ranges.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

/// The rows that the minima and maxima of a data set are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// All rows of the set, test rows included (R section VIII, J section 5.1): the stand-in for
    /// ranges declared in advance.
    #[default]
    AllRows,
    /// The official training part and the official test part, each by its own minima and maxima, as
    /// the code behind R's and V's figures does for satellite. Only for sets that have official
    /// parts.
    PerPart,
}

/// Returns (v − min)/(max − min), or 0 if the range is one point. For min ≤ v ≤ max the result is
/// in [0, 1]: subtraction and division round monotonically. A negative zero becomes 0, so that
/// equal values have equal bytes.
#[must_use]
pub(super) fn unit(value: f64, min: f64, max: f64) -> f64 {
    if max > min { (value - min) / (max - min) + 0.0 } else { 0.0 }
}

/// Returns minimum and maximum of every row of `x` over the given records (columns), or (0, 0)
/// without any record.
pub fn ranges(x: &DMatrix<f64>, records: impl Iterator<Item = usize> + Clone) -> Vec<(f64, f64)> {
    (0..x.nrows())
        .map(|f| {
            let (min, max) = records
                .clone()
                .map(|r| x[(f, r)])
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
            if min <= max { (min, max) } else { (0.0, 0.0) }
        })
        .collect()
}

/// Normalises the given records of `x` by the ranges of its rows.
pub fn apply(x: &mut DMatrix<f64>, records: impl Iterator<Item = usize>, ranges: &[(f64, f64)]) {
    for record in records {
        for (value, &(min, max)) in x.column_mut(record).iter_mut().zip(ranges) {
            *value = unit(*value, min, max);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn constant_columns_become_zero() {
        let mut x = DMatrix::from_row_slice(2, 3, &[7.0, 7.0, 7.0, 1.0, 3.0, 2.0]);
        let ranges = ranges(&x, 0..3);
        apply(&mut x, 0..3, &ranges);
        assert_eq!(x, DMatrix::from_row_slice(2, 3, &[0.0, 0.0, 0.0, 0.0, 1.0, 0.5]));
    }

    #[test]
    fn the_unit_range_is_exact_and_has_no_negative_zero() {
        assert_eq!(unit(-0.0, 0.0, 1.0).to_bits(), 0.0f64.to_bits());
        assert_eq!(unit(5e-324, 0.0, 1.0).to_bits(), 5e-324f64.to_bits());
    }

    proptest! {
        #[test]
        fn values_in_range_stay_in_the_unit_interval(a in -1e300f64..1e300, b in -1e300f64..1e300, t in 0.0f64..=1.0) {
            let (min, max) = (a.min(b), a.max(b));
            let value = (min + t * (max / 2.0 - min / 2.0) * 2.0).clamp(min, max);
            let u = unit(value, min, max);
            prop_assert!((0.0..=1.0).contains(&u), "{u}");
            prop_assert_eq!(unit(value, 0.0, 1.0), value);
        }
    }
}
