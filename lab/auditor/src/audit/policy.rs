//! The remarks on a policy for the report.

use vfl_defense::policy::ReleaseKind;
use vfl_defense::{DefenseConfig, Policy};

/// Returns the value that replaces a score of 0 in attacks that take the release for the true
/// scores, with the last defense of the policy that sets one.
pub(super) fn zero_floor(policy: &Policy) -> Option<(&DefenseConfig, f64)> {
    policy.defenses.iter().rev().find_map(|defense| Some((defense, defense.zero_floor()?)))
}

/// Returns remarks on the attacks behind a policy. `no_divergence` is true if the cost of the
/// policy is known but has no divergence.
pub(super) fn remarks(policy: &Policy, no_divergence: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some((defense, floor)) = zero_floor(policy) {
        match defense.leaves() {
            ReleaseKind::Rounded => {
                remarks.push(format!("a score rounded to 0 was taken for {floor}, half a step"));
                if no_divergence {
                    remarks.push("KL is infinite: some positive scores were rounded to 0".into());
                }
            }
            ReleaseKind::Label | ReleaseKind::NoisyLabel => {
                remarks.push(format!(
                    "a label was taken for scores of {floor} everywhere but at the label"
                ));
            }
            ReleaseKind::Everything
            | ReleaseKind::Scaled
            | ReleaseKind::Projected
            | ReleaseKind::Word
            | ReleaseKind::Purified
            | ReleaseKind::Ciphertexts
            | ReleaseKind::Order
            | ReleaseKind::Largest
            | ReleaseKind::Noised
            | ReleaseKind::OrderNoised
            | ReleaseKind::Unstudied => remarks.push(format!("a score of 0 was taken for {floor}")),
        }
    }
    for defense in
        policy.defenses.iter().filter(|defense| defense.leaves() == ReleaseKind::Unstudied)
    {
        remarks.push(format!(
            "no attack here knows `{}`: an adversary that does may find more",
            defense.name()
        ));
    }
    remarks
}
