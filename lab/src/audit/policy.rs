//! What an audit says of a policy.

use vfl_shared::policy::{DefenseConfig, Leaves, Policy};

use crate::report::Policy as PolicyFacts;

/// The report's form of a policy.
#[must_use]
pub fn facts(policy: &Policy) -> PolicyFacts {
    let [defense] = policy.defenses.as_slice() else { return PolicyFacts::new(policy.to_string()) };
    let parameters = match serde_json::to_value(defense) {
        Ok(serde_json::Value::Object(fields)) => fields.into_iter().filter(|(key, _)| key != "name").collect(),
        _ => serde_json::Map::new(),
    };
    parameters.into_iter().fold(PolicyFacts::new(defense.name()), |facts, (key, value)| facts.with(key, value))
}

/// What stands for a score of 0 behind a policy, for attacks that take the release for the true scores, and behind which
/// defense: the last that says.
pub(super) fn zero_floor(policy: &Policy) -> Option<(&DefenseConfig, f64)> {
    policy.defenses.iter().rev().find_map(|defense| Some((defense, defense.zero_floor()?)))
}

/// What a reader must know of the attacks behind a policy. `no_divergence`: the cost of the policy is told, and no divergence is
/// among it.
pub(super) fn remarks(policy: &Policy, no_divergence: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some((defense, floor)) = zero_floor(policy) {
        match defense.leaves() {
            Leaves::Rounded => {
                remarks.push(format!("a score rounded to 0 was taken for {floor}, half a step"));
                if no_divergence {
                    remarks.push("KL is infinite: some positive scores were rounded to 0".into());
                }
            }
            Leaves::Label | Leaves::NoisyLabel => {
                remarks.push(format!("a label was taken for scores of {floor} everywhere but at the label"));
            }
            Leaves::Everything
            | Leaves::Scaled
            | Leaves::Projected
            | Leaves::Word
            | Leaves::Purified
            | Leaves::Ciphertexts
            | Leaves::Order
            | Leaves::Largest
            | Leaves::Noised
            | Leaves::OrderNoised
            | Leaves::Unstudied => remarks.push(format!("a score of 0 was taken for {floor}")),
        }
    }
    for defense in policy.defenses.iter().filter(|defense| defense.leaves() == Leaves::Unstudied) {
        remarks.push(format!("no attack here knows `{}`: an adversary that does may find more", defense.name()));
    }
    remarks
}
