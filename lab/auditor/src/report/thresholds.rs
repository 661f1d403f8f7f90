//! The user's thresholds for a defense, and compliance with them: plain data.

use serde::{Deserialize, Serialize};

/// The thresholds for the policy that a report judges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// The largest added risk of any attribute of any passive party, in [0, 1]: the share of the
    /// squared error without scores that the strongest informed attack removes. The upper end of
    /// its 95 % interval must not be above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_added_risk: Option<f64>,
    /// The largest share of records for which an attack estimates every value to within 0.1 (the
    /// metric `records_within`), in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_exact_share: Option<f64>,
    /// The largest share of records that any attack is certain to have rebuilt exactly, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_exact: Option<f64>,
    /// The most bits that the policy may reveal of a record to any attacker, above 0. A policy
    /// without a finite bound meets no such threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bits: Option<f64>,
}

/// The default of [`Thresholds::max_exact`] if another threshold is given.
pub const MAX_EXACT: f64 = 0.01;

/// The kinds of thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// The threshold [`Thresholds::max_added_risk`].
    MaxAddedRisk,
    /// The threshold [`Thresholds::max_exact_share`].
    MaxExactShare,
    /// The threshold [`Thresholds::max_exact`].
    MaxExact,
    /// The threshold [`Thresholds::max_bits`].
    MaxBits,
}

/// The compliance with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compliance {
    /// The figure is not above the threshold.
    Met,
    /// The figure is above the threshold, or the noise leaves it without a bound.
    NotMet,
    /// No figure of the audit measures it.
    NotMeasured,
}

/// The result for one threshold of one audit, or of all audits of one policy together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdResult {
    /// The kind of threshold.
    pub threshold: Threshold,
    /// The compliance with the threshold.
    pub compliance: Compliance,
    /// The figure that was compared with the threshold: the upper end of the 95 % interval of the
    /// worst attribute's added risk, the largest share of records, or the most bits that the policy
    /// reveals of a record. If the share carries noise, 1.96 standard deviations of it are added.
    /// Absent if nothing was measured or noise leaves it without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<f64>,
    /// The attack that the figure belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<String>,
    /// The attribute that the figure belongs to, with the passive party if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
}

impl Thresholds {
    /// Creates thresholds within their range; if one is given, `max_exact` is [`MAX_EXACT`].
    ///
    /// # Errors
    /// The threshold that is no number from 0 to 1.
    pub fn new(max_added_risk: Option<f64>, max_exact_share: Option<f64>) -> Result<Self, String> {
        Self { max_added_risk, max_exact_share, ..Self::default() }.checked()
    }

    /// Checks the ranges, and sets `max_exact` to [`MAX_EXACT`] if it is not given but another
    /// threshold measured by attacks is.
    ///
    /// # Errors
    /// The threshold that is no number from 0 to 1, or no number of bits above 0.
    pub fn checked(self) -> Result<Self, String> {
        let is_attacked = self.max_added_risk.or(self.max_exact_share).is_some();
        let max_exact = self.max_exact.or(is_attacked.then_some(MAX_EXACT));
        let thresholds = Self { max_exact, ..self };
        for (threshold, limit) in thresholds.given() {
            if threshold == Threshold::MaxBits {
                if !(limit > 0.0 && limit.is_finite()) {
                    return Err(format!(
                        "max_bits is {limit}; give a number of bits above 0, as 4"
                    ));
                }
                continue;
            }
            if !(0.0..=1.0).contains(&limit) {
                return Err(format!(
                    "{} is {limit}; give a number from 0 to 1, as 0.1 for 10 %",
                    threshold.name()
                ));
            }
        }
        Ok(thresholds)
    }

    /// Returns the given thresholds, with their limits.
    pub fn given(&self) -> impl Iterator<Item = (Threshold, f64)> {
        let all = [
            (Threshold::MaxAddedRisk, self.max_added_risk),
            (Threshold::MaxExactShare, self.max_exact_share),
            (Threshold::MaxExact, self.max_exact),
            (Threshold::MaxBits, self.max_bits),
        ];
        all.into_iter().filter_map(|(threshold, limit)| Some((threshold, limit?)))
    }

    /// Returns true if no threshold is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given().next().is_none()
    }
}

impl Threshold {
    /// Returns the name in options, configurations and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxAddedRisk => "max_added_risk",
            Self::MaxExactShare => "max_exact_share",
            Self::MaxExact => "max_exact",
            Self::MaxBits => "max_bits",
        }
    }
}

impl Compliance {
    /// Returns the label for a table.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::NotMeasured => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn thresholds_are_shares() {
        for good in [0.0, 0.1, 1.0] {
            assert!(!Thresholds::new(Some(good), Some(good)).unwrap().is_empty());
        }
        for bad in [-0.1, 1.001, f64::NAN, f64::INFINITY] {
            let refused = Thresholds::new(None, Some(bad)).unwrap_err();
            assert!(
                refused.starts_with("max_exact_share is ") && refused.contains("from 0 to 1"),
                "{refused}"
            );
            assert!(
                Thresholds::new(Some(bad), None).unwrap_err().starts_with("max_added_risk is ")
            );
        }
        assert!(Thresholds::new(None, None).unwrap().is_empty());
    }

    #[test]
    fn bits_are_above_0_and_bring_no_other_threshold() {
        let bits = |bits| Thresholds { max_bits: Some(bits), ..Thresholds::default() }.checked();
        assert_eq!(bits(14.5).unwrap().given().collect::<Vec<_>>(), [(Threshold::MaxBits, 14.5)]);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(bits(bad).unwrap_err().contains("a number of bits above 0"), "{bad}");
        }
    }
}
