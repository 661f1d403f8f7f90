//! The bits of a record that each of the usual policies releases.

use serde::Serialize;
use vfl_defense::policy::Leakage;
use vfl_defense::{DefenseConfig, Policy};

/// The bits that a policy releases, for a number of classes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleasedBits {
    /// The policy as a text.
    pub policy: String,
    /// The most bits of a record that it releases; `None` without a finite bound.
    pub bits: Option<f64>,
    /// The reason why there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Returns the bits of the usual policies on a model of `classes` classes: policies without a bound
/// first, then from many bits to few.
#[must_use]
pub fn released_bits(classes: usize) -> Vec<ReleasedBits> {
    let mut policies: Vec<Policy> = vec![
        Policy::default(),
        DefenseConfig::Temperature { temperature: 4.0 }.into(),
        DefenseConfig::Ranking {}.into(),
        DefenseConfig::ClassLabel { softening: 0.0 }.into(),
    ];
    policies.extend((0..=4).map(|decimals| DefenseConfig::Rounding { decimals }.into()));
    policies
        .extend([0.01, 0.1, 0.3, 1.0].map(|sigma| DefenseConfig::GaussianNoise { sigma }.into()));
    policies
        .extend([1.0, 2.0, 4.0].map(|epsilon| DefenseConfig::RandomizedLabel { epsilon }.into()));
    let sizes = [16, 64, 256].into_iter().filter(|size| *size as usize >= classes);
    policies.extend(sizes.map(|size| DefenseConfig::Codebook { size }.into()));
    let mut all: Vec<ReleasedBits> =
        policies.iter().map(|policy| ReleasedBits::of(policy, classes)).collect();
    // A policy without a bound releases more than any with one.
    all.sort_by(|a, b| b.bits.unwrap_or(f64::INFINITY).total_cmp(&a.bits.unwrap_or(f64::INFINITY)));
    all
}

impl ReleasedBits {
    fn of(policy: &Policy, classes: usize) -> Self {
        let (bits, reason) = match policy.leakage(classes) {
            Leakage::Bits { bits, .. } => (Some(bits), None),
            Leakage::Unbounded { reason } => (None, Some(reason)),
        };
        Self { policy: policy.to_string(), bits, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_come_from_those_that_tell_most_to_those_that_tell_least() {
        for classes in [2, 6, 100] {
            let all = released_bits(classes);
            assert!(all[0].bits.is_none() && all[0].reason.is_some() && all[0].policy == "none");
            let bits: Vec<f64> = all.iter().filter_map(|r| r.bits).collect();
            assert!(bits.len() + 2 == all.len() && bits.is_sorted_by(|a, b| a >= b), "{bits:?}");
            assert!(!all.iter().any(|r| classes == 100 && r.policy.contains("size = 16")));
        }
    }
}
