//! Attacks as they are requested, with their settings.

use vfl_attack::{AttackConfig, GRID_SETTINGS, Method};
use vfl_defense::Policy;
use vfl_protocol::reconstruct::AttackSpec;

use super::plan::Plan;
use super::policy::zero_floor;

/// Returns an attack with the known settings of the features, followed by its own.
pub(super) fn spec(attack: &AttackConfig, plan: &Plan) -> AttackSpec {
    // The schema's grid is in shares of the schema's own ranges, and covers the features of all
    // parties.
    let own = attack.settings();
    let ranges = own.pairs().any(|(key, _)| key == "lower" || key == "upper");
    let apart = plan.schema && (ranges || attack.method() == Method::Coalition);
    let known = plan.features.pairs().filter(|(key, _)| !(apart && GRID_SETTINGS.contains(key)));
    let all = known.chain(own.pairs());
    let settings = all.map(|(key, value)| (key.to_owned(), value.to_string())).collect();
    AttackSpec { name: attack.method().as_str().to_owned(), settings }
}

/// Returns an attack that takes the release of a policy for the true scores, with the value
/// that replaces a score of 0.
pub(super) fn spec_behind(attack: &AttackConfig, plan: &Plan, policy: &Policy) -> AttackSpec {
    let spec = spec(attack, plan);
    match zero_floor(policy) {
        Some((_, floor)) if spec.settings.iter().all(|(key, _)| key != "zero_floor") => {
            spec.with("zero_floor", floor)
        }
        _ => spec,
    }
}
