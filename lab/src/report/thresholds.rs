//! What a user demands of a defense, and whether it is met: plain data.

use serde::{Deserialize, Serialize};

/// What is demanded of the policy that a report judges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// The largest added risk of any attribute of any passive party, in [0, 1]: the share of the squared error without scores that the
    /// strongest informed attack removes. The upper end of its interval of 95 % must not be above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_added_risk: Option<f64>,
    /// The largest share of records of which any attack estimates every value to within 0.1 (the metric `records_within`), in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_exact_share: Option<f64>,
    /// The largest share of records that any attack is certain to have rebuilt exactly, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_exact: Option<f64>,
    /// The most bits that the policy may tell of a record, whoever attacks it, above 0. A policy without a finite bound meets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bits: Option<f64>,
}

/// [`Thresholds::max_exact`] where another threshold is given and this one is not.
pub const MAX_EXACT: f64 = 0.01;

/// One of the demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// [`Thresholds::max_added_risk`].
    MaxAddedRisk,
    /// [`Thresholds::max_exact_share`].
    MaxExactShare,
    /// [`Thresholds::max_exact`].
    MaxExact,
    /// [`Thresholds::max_bits`].
    MaxBits,
}

/// Whether a demand is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compliance {
    /// The figure is not above the threshold.
    Met,
    /// The figure is above the threshold, or the noise sets it no bound.
    NotMet,
    /// Nothing in the audit measures it.
    NotMeasured,
}

/// How one audit, or all audits of one policy together, stand to one demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdResult {
    /// The demand.
    pub threshold: Threshold,
    /// Whether it is met.
    pub compliance: Compliance,
    /// What was compared with the threshold: the upper end of the 95 % interval of the worst attribute's added risk, the largest share of
    /// records, or the bits that the policy tells of a record at most.
    /// Where the share carries noise, 1.96 standard deviations of it are added. Absent where nothing was measured or noise sets no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<f64>,
    /// The attack that the figure is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<String>,
    /// The attribute that the figure is of, with the passive party where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
}

impl Thresholds {
    /// Thresholds within their range; if one is given, `max_exact` is [`MAX_EXACT`].
    ///
    /// # Errors
    /// Which of the two is no number from 0 to 1.
    pub fn new(max_added_risk: Option<f64>, max_exact_share: Option<f64>) -> Result<Self, String> {
        Self { max_added_risk, max_exact_share, ..Self::default() }.checked()
    }

    /// The same within their range, with [`MAX_EXACT`] for `max_exact` if another one is measured by attacks and it is not given.
    ///
    /// # Errors
    /// Which of them is no number from 0 to 1, or no number of bits above 0.
    pub fn checked(self) -> Result<Self, String> {
        let is_attacked = self.max_added_risk.or(self.max_exact_share).is_some();
        let max_exact = self.max_exact.or(is_attacked.then_some(MAX_EXACT));
        let thresholds = Self { max_exact, ..self };
        for (threshold, limit) in thresholds.given() {
            if threshold == Threshold::MaxBits {
                if !(limit > 0.0 && limit.is_finite()) {
                    return Err(format!("max_bits is {limit}; give a number of bits above 0, as 4"));
                }
                continue;
            }
            if !(0.0..=1.0).contains(&limit) {
                return Err(format!("{} is {limit}; give a number from 0 to 1, as 0.1 for 10 %", threshold.name()));
            }
        }
        Ok(thresholds)
    }

    /// Those that are given, with their limits.
    pub fn given(&self) -> impl Iterator<Item = (Threshold, f64)> {
        let all = [
            (Threshold::MaxAddedRisk, self.max_added_risk),
            (Threshold::MaxExactShare, self.max_exact_share),
            (Threshold::MaxExact, self.max_exact),
            (Threshold::MaxBits, self.max_bits),
        ];
        all.into_iter().filter_map(|(threshold, limit)| Some((threshold, limit?)))
    }

    /// Whether nothing is demanded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given().next().is_none()
    }
}

impl Threshold {
    /// Its name in options, configurations and documents.
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
    /// For a table.
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
            assert!(refused.starts_with("max_exact_share is ") && refused.contains("from 0 to 1"), "{refused}");
            assert!(Thresholds::new(Some(bad), None).unwrap_err().starts_with("max_added_risk is "));
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
