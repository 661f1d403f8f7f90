//! Increasing functions of a feature's values, for heavy tails.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most quantiles of a feature.
const MAX_QUANTILES: usize = 1000;

/// The largest error, as a share of the range, of a value that went through a scale and back.
const COMES_BACK: f64 = 1e-3;

/// A strictly increasing function φ of a feature's values. A model takes φ(v), normalised by φ of
/// the declared ends, in place of v.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// ln v, for v > 0.
    Log,
    /// (v^λ − 1)/λ, or ln v if λ = 0, for v > 0 (Box and Cox, 1964).
    BoxCox(f64),
    /// ((1 + v)^λ − 1)/λ for v ≥ 0 and −((1 − v)^(2 − λ) − 1)/(2 − λ) for v < 0, each with its
    /// limit ln(1 + v) or −ln(1 − v) (Yeo and Johnson, 2000). With λ = 0 it is ln(1 + v) for v ≥ 0.
    YeoJohnson(f64),
    /// The piecewise linear function that divides [0, 1] evenly at these values, from the least to
    /// the greatest.
    Quantiles(Vec<f64>),
}

impl Scale {
    /// Returns φ(v) for v in the range of a feature whose schema was accepted.
    #[must_use]
    pub fn apply(&self, value: f64) -> f64 {
        match self {
            Self::Log => value.ln(),
            Self::BoxCox(power) => power_of_log(*power, value.ln()),
            Self::YeoJohnson(power) if value >= 0.0 => power_of_log(*power, value.ln_1p()),
            Self::YeoJohnson(power) => -power_of_log(2.0 - power, (-value).ln_1p()),
            Self::Quantiles(at) => {
                let part = at.partition_point(|q| *q <= value).clamp(1, at.len() - 1);
                let (low, high) = (at[part - 1], at[part]);
                ((part - 1) as f64 + (value - low) / (high - low)) / (at.len() - 1) as f64
            }
        }
    }

    /// Returns the value v with φ(v) = t, for t between φ of the ends of a feature's range.
    #[must_use]
    pub fn invert(&self, t: f64) -> f64 {
        match self {
            Self::Log => t.exp(),
            Self::BoxCox(power) => log_of_power(*power, t).exp(),
            Self::YeoJohnson(power) if t >= 0.0 => log_of_power(*power, t).exp_m1(),
            Self::YeoJohnson(power) => -log_of_power(2.0 - power, -t).exp_m1(),
            Self::Quantiles(at) => {
                let place = t * (at.len() - 1) as f64;
                let part = (place.floor().max(0.0) as usize).min(at.len() - 2);
                at[part] + (place - part as f64) * (at[part + 1] - at[part])
            }
        }
    }

    /// Checks that φ is finite and increasing on the range of a feature.
    ///
    /// # Errors
    /// The reason and its fix.
    pub(crate) fn check(&self, min: f64, max: f64) -> Result<(), &'static str> {
        match self {
            Self::Log | Self::BoxCox(_) if min <= 0.0 => {
                return Err(
                    "the scales log and box_cox are of numbers above 0: raise `min`, or take `scale = { yeo_johnson = 0 }`, which is ln(1 + v)",
                );
            }
            Self::Quantiles(at) if !(2..=MAX_QUANTILES).contains(&at.len()) => {
                return Err("its quantiles are 2 to 1000 numbers");
            }
            Self::Quantiles(at) if !at.iter().is_sorted_by(|a, b| a < b) => {
                return Err("its quantiles must increase");
            }
            Self::Quantiles(at) if at.first() != Some(&min) || at.last() != Some(&max) => {
                return Err("its quantiles begin with its `min` and end with its `max`");
            }
            _ => {}
        }
        if !self.tells_apart(min, max) {
            return Err(
                "its scale is not finite, or it presses part of its range into one value: take another power",
            );
        }
        Ok(())
    }

    /// Returns true if φ is finite at the ends of a range, and values between them come back from
    /// it.
    fn tells_apart(&self, min: f64, max: f64) -> bool {
        let (low, high) = (self.apply(min), self.apply(max));
        if min == max {
            return low.is_finite();
        }
        let between = |step: u32| min + (max - min) * f64::from(step) / 16.0;
        let comes_back =
            |value: f64| (self.invert(self.apply(value)) - value).abs() <= COMES_BACK * (max - min);
        low.is_finite()
            && (high - low).is_finite()
            && low < high
            && (1..16).map(between).all(comes_back)
    }
}

/// The configuration file's spelling.
impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str("log"),
            Self::BoxCox(power) => write!(f, "box_cox {power}"),
            Self::YeoJohnson(power) => write!(f, "yeo_johnson {power}"),
            Self::Quantiles(at) => write!(f, "quantiles {at:?}"),
        }
    }
}

/// Returns (e^(λ l) − 1)/λ, or l if λ = 0, without cancellation.
fn power_of_log(power: f64, log: f64) -> f64 {
    if power == 0.0 { log } else { (power * log).exp_m1() / power }
}

/// Returns l with [`power_of_log`] of it equal to `t`.
fn log_of_power(power: f64, t: f64) -> f64 {
    if power == 0.0 { t } else { (power * t).ln_1p() / power }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// The right sides are worked out by hand from the definitions.
    #[test]
    fn functions_are_those_of_their_papers() {
        let quantiles = Scale::Quantiles(vec![0.0, 1.0, 10.0, 1000.0]);
        for (scale, value, expected) in [
            (Scale::Log, std::f64::consts::E, 1.0),
            (Scale::BoxCox(0.5), 9.0, 4.0),
            (Scale::BoxCox(-1.0), 4.0, 0.75),
            (Scale::BoxCox(0.0), 10.0, std::f64::consts::LN_10),
            (Scale::YeoJohnson(0.0), 9.0, std::f64::consts::LN_10),
            (Scale::YeoJohnson(0.5), 8.0, 4.0),
            (Scale::YeoJohnson(0.5), -3.0, -14.0 / 3.0),
            (Scale::YeoJohnson(2.0), -9.0, -std::f64::consts::LN_10),
            (Scale::YeoJohnson(3.0), -3.0, -0.75),
            (quantiles.clone(), 0.0, 0.0),
            (quantiles.clone(), 5.5, 0.5),
            (quantiles.clone(), 10.0, 2.0 / 3.0),
            (quantiles, 1000.0, 1.0),
        ] {
            let got = scale.apply(value);
            assert!(
                (got - expected).abs() < 1e-14 * (1.0 + expected.abs()),
                "{scale} {value} {got}"
            );
        }
    }

    #[test]
    fn a_scale_that_does_not_fit_its_range_is_refused() {
        for (scale, (min, max)) in [
            (Scale::Log, (0.0, 1.0)),
            (Scale::BoxCox(1.0), (-1.0, 1.0)),
            (Scale::BoxCox(f64::NAN), (1.0, 2.0)),
            (Scale::BoxCox(1e6), (1.0, 2.0)),
            (Scale::BoxCox(-1e6), (2.0, 3.0)),
            (Scale::BoxCox(-20.0), (1.0, 100.0)),
            (Scale::YeoJohnson(1e-322), (0.0, 2.0)),
            (Scale::YeoJohnson(f64::INFINITY), (0.0, 2.0)),
            (Scale::Quantiles(vec![0.0]), (0.0, 0.0)),
            (Scale::Quantiles(vec![0.0, 1.0, 1.0, 2.0]), (0.0, 2.0)),
            (Scale::Quantiles(vec![0.0, f64::NAN, 2.0]), (0.0, 2.0)),
            (Scale::Quantiles(vec![0.0, 1.0]), (0.0, 2.0)),
        ] {
            assert!(scale.check(min, max).is_err(), "{scale}");
        }
        Scale::Log.check(1e-300, 1e300).unwrap();
        Scale::YeoJohnson(0.0).check(-1e6, 1e6).unwrap();
    }

    proptest! {
        #[test]
        fn the_inverse_gives_back_what_went_in(
            power in -2.0f64..4.0, low in -50.0f64..50.0, width in 0.1f64..1e3, at in 0.0f64..=1.0,
        ) {
            let (min, max) = (low, low + width);
            let mut scales = vec![
                Scale::YeoJohnson(power),
                Scale::YeoJohnson(0.0),
                Scale::YeoJohnson(2.0),
                Scale::Quantiles(vec![min, min + 0.01 * width, min + 0.5 * width, max]),
            ];
            if min > 0.0 {
                scales.extend([Scale::Log, Scale::BoxCox(power)]);
            }
            let value = min + at * width;
            for scale in scales {
                // A power that presses the upper end together loses digits, and then is refused.
                if scale.check(min, max).is_err() {
                    continue;
                }
                let (t, next) = (scale.apply(value), scale.apply(value + 1e-9 * width));
                prop_assert!(next >= t, "{scale}");
                let slope = (next - t) / (1e-9 * width);
                let back = scale.invert(t);
                let lost = 1e-12 * (1.0 + value.abs() + t.abs() / slope.max(1e-300));
                prop_assert!((back - value).abs() <= lost, "{scale}: {value} became {back}");
            }
        }
    }
}
