//! A logarithmic axis for errors, with a band below it for errors that are zero or nearly zero.
//!
//! Errors of one report span thirty decades when an attack is exact (1e-27 beside 0.1), and all
//! that separates a good defense from a bad one happens in the last two. So the axis covers the
//! decades of the errors that matter, and everything at or below [`FLOOR`] is drawn in one band at
//! its end.

/// The largest mean squared error that counts as round-off and is drawn in the band.
pub(crate) const FLOOR: f64 = 1e-16;

/// The label of the band.
pub const FLOOR_LABEL: &str = "0 or below 1e-16";

/// The share of the axis that the band takes.
const BAND: f64 = 0.16;

/// A logarithmic axis of errors, with a band for errors that are 0 or nearly so.
pub struct ErrorAxis {
    /// The decimal logarithms of the ends.
    low: f64,
    high: f64,
    /// True if any error lies in the band.
    band: bool,
}

impl ErrorAxis {
    /// Creates an axis that covers all given errors (finite and not negative; others are ignored).
    pub fn covering(errors: impl IntoIterator<Item = f64>) -> Self {
        let (mut least, mut most, mut band) = (f64::INFINITY, 0.0_f64, false);
        for error in errors.into_iter().filter(|e| e.is_finite() && *e >= 0.0) {
            if error <= FLOOR {
                band = true;
            } else {
                least = least.min(error);
                most = most.max(error);
            }
        }
        if most == 0.0 {
            (least, most) = (1e-3, 1.0);
        }
        // A little room at both ends, then out to the next tick.
        let (mut low, mut high) = (step_down(least * 0.93), step_up(most * 1.07));
        if high - low < 0.9 {
            low = step_down(10f64.powf(low) * 0.5);
            high = step_up(10f64.powf(high) * 1.5);
        }
        Self { low, high, band }
    }

    /// Returns the position of an error on the axis, from 0 at the low end to 1. `spread` in [0, 1]
    /// places it inside the band, where position has no meaning and overlapping series would hide
    /// each other.
    pub fn position(&self, error: f64, spread: f64) -> f64 {
        if error <= FLOOR {
            return if self.band { BAND * (0.75 - 0.6 * spread.clamp(0.0, 1.0)) } else { 0.0 };
        }
        let start = self.band_end();
        let share = (error.log10() - self.low) / (self.high - self.low);
        start + (1.0 - start) * share.clamp(0.0, 1.0)
    }

    /// Returns the end of the band, where the logarithmic part begins; 0 without a band.
    pub fn band_end(&self) -> f64 {
        if self.band { BAND } else { 0.0 }
    }

    /// Returns the ticks of the logarithmic part: position and label.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let span = self.high - self.low;
        let factors: &[f64] = if span <= 2.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = ((span / 9.0).ceil() as i32).max(1);
        let mut ticks = Vec::new();
        for decade in self.low.floor() as i32..=self.high.ceil() as i32 {
            if decade.rem_euclid(every) != 0 {
                continue;
            }
            for factor in factors {
                let error = factor * 10f64.powi(decade);
                if (self.low - 1e-9..=self.high + 1e-9).contains(&error.log10()) {
                    ticks.push((self.position(error, 0.0), label(*factor, decade)));
                }
            }
        }
        ticks
    }
}

fn label(factor: f64, decade: i32) -> String {
    match decade {
        -3..=-1 => format!("{:.*}", decade.unsigned_abs() as usize, factor * 10f64.powi(decade)),
        0..=3 => format!("{:.0}", factor * 10f64.powi(decade)),
        _ => format!("{factor:.0}e{decade}"),
    }
}

/// Returns the logarithm of the largest of 1, 2, 5 × 10ⁿ that is not above `x`.
fn step_down(x: f64) -> f64 {
    let decade = x.log10().floor();
    let mantissa = x / 10f64.powf(decade);
    let step = [5.0, 2.0].into_iter().find(|s| *s <= mantissa).unwrap_or(1.0);
    decade + f64::log10(step)
}

/// Returns the logarithm of the smallest of 1, 2, 5 × 10ⁿ that is not below `x`.
fn step_up(x: f64) -> f64 {
    let decade = x.log10().floor();
    let mantissa = x / 10f64.powf(decade);
    let step = [1.0, 2.0, 5.0].into_iter().find(|s| *s >= mantissa).unwrap_or(10.0);
    decade + f64::log10(step)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn order_is_kept_and_everything_is_on_the_axis() {
        let errors = [0.0, 3e-27, 1e-16, 2e-9, 4e-3, 0.0436, 0.286, 17.0];
        let axis = ErrorAxis::covering(errors);
        let positions: Vec<f64> = errors.iter().map(|e| axis.position(*e, 0.0)).collect();
        assert!(positions.is_sorted(), "{positions:?}");
        assert!(positions.iter().all(|p| (0.0..=1.0).contains(p)), "{positions:?}");
        assert!(positions[2] < axis.band_end() && positions[3] > axis.band_end());
    }

    #[test]
    fn ticks_are_where_they_say() {
        for errors in [
            vec![0.004, 0.04],
            vec![1e-14, 1.0],
            vec![0.0],
            vec![],
            vec![0.03, 0.03],
            vec![1e-15, 1e12],
        ] {
            let axis = ErrorAxis::covering(errors.iter().copied());
            let ticks = axis.ticks();
            assert!((2..=12).contains(&ticks.len()), "{errors:?}: {ticks:?}");
            for (position, label) in &ticks {
                let error: f64 = label.parse().unwrap();
                assert!((axis.position(error, 0.0) - position).abs() < 1e-9, "{label}");
            }
        }
    }

    #[test]
    fn the_band_is_there_only_when_needed() {
        assert_eq!(ErrorAxis::covering([0.1, 0.2]).band_end(), 0.0);
        assert!(ErrorAxis::covering([0.1, 0.0]).band_end() > 0.0);
        let axis = ErrorAxis::covering([0.0, 1.0]);
        assert!(
            (0..=10)
                .map(|i| axis.position(0.0, f64::from(i) / 10.0))
                .all(|p| p > 0.0 && p < axis.band_end())
        );
    }
}
