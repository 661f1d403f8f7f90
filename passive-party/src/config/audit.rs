//! `[audit]`: the scorings that the auditor may have, and their noise.

use serde::{Deserialize, Serialize};
use vfl_transform::scoring::accountant::{LEAST_RHO, RHO};

/// The mode of the answers to scorings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// With Gaussian noise, under a budget of zero-concentrated differential privacy for each
    /// record.
    #[default]
    Noised,
    /// Without noise, to three significant digits. An auditor who asks some hundred times can read
    /// the records: only for one who may.
    Trusted,
}

impl AuditMode {
    /// Returns the name in the config file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Noised => "noised",
            Self::Trusted => "trusted",
        }
    }
}

/// The `[audit]` table. All counts are over the life of the state directory; `passive-party
/// scorings renew` allows as much again.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditPolicy {
    /// True if the auditor may have reconstructions scored. Default false.
    pub allowed: bool,
    /// The mode of the answers. Default noised.
    pub mode: AuditMode,
    /// True if this party simulates, for the auditor, an adversary that knows the means and
    /// covariances of its features. These are not sent, but figures that depend on them are
    /// reported, and noise hides only single records of the scored set. Default false.
    pub moments: bool,
    /// Noised: the most that all answers about a record may cost, in ρ of zCDP; above 0 and at most
    /// 0.0869. Default 0.0869, which leaves every feature of a record at least 0.9 of its standard
    /// deviation.
    pub rho: f64,
    /// Noised: the cost of a scoring that does not name one. Default 0.005.
    pub rho_per_scoring: f64,
    /// Trusted: the most candidates that are scored on one set of records. Default 256.
    pub max_scorings: u32,
    /// Trusted: the most candidates on all sets together. Default 1024.
    pub max_total_scorings: u32,
    /// Trusted: the most sets of records. Default 8.
    pub max_sets: u32,
    /// In both modes: the most openings that are refused because of their records. Each of them
    /// reveals something about the records that are held here. Default 20.
    pub max_refused_openings: u32,
}

impl Default for AuditPolicy {
    fn default() -> Self {
        Self {
            allowed: false,
            mode: AuditMode::Noised,
            moments: false,
            rho: RHO,
            rho_per_scoring: 0.005,
            max_scorings: 256,
            max_total_scorings: 1024,
            max_sets: 8,
            max_refused_openings: 20,
        }
    }
}

impl AuditPolicy {
    /// Checks the numbers.
    ///
    /// # Errors
    /// A message that says what is wrong and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        if !(LEAST_RHO..=RHO).contains(&self.rho) {
            return Err(format!(
                "`rho` is {}, it must be from {LEAST_RHO} to {RHO}; to allow more, renew the budget by `passive-party scorings renew`",
                self.rho
            ));
        }
        if !(LEAST_RHO..=self.rho).contains(&self.rho_per_scoring) {
            return Err(format!(
                "`rho_per_scoring` is {}, it must be from {LEAST_RHO} to `rho`",
                self.rho_per_scoring
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audits_are_noised_unless_trusted_by_name() {
        let read = |text: &str| toml::from_str::<AuditPolicy>(text);
        assert_eq!(read("allowed = true").unwrap().mode, AuditMode::Noised);
        assert_eq!(read("mode = \"trusted\"").unwrap().mode, AuditMode::Trusted);
        assert!(read("mode = \"exact\"").is_err() && read("noise = false").is_err());
        assert_eq!(AuditPolicy::default().check(), Ok(()));
        for (bad, says) in [
            ("rho = 0.1", "`rho` is 0.1"),
            ("rho = 0.0", "`rho` is 0"),
            ("rho = nan", "`rho` is NaN"),
            ("rho = 0.01\nrho_per_scoring = 0.02", "`rho_per_scoring` is 0.02"),
            ("rho_per_scoring = -1.0", "`rho_per_scoring` is -1"),
        ] {
            let refused = read(bad).unwrap().check().unwrap_err();
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }
}
