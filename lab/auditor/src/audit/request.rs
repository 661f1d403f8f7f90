//! The requests for attacks to the active party.

use vfl_attack::{AttackConfig, GRID_SETTINGS, Method};
use vfl_core::types::{ModelVersion, RecordIds};
use vfl_defense::Policy;

use super::plan::Plan;
use super::policy::zero_floor;

/// Attacks on a set of records.
#[derive(Clone)]
pub(super) struct Request {
    /// The session that answers for the records; empty without one.
    pub(super) session: String,
    pub(super) version: ModelVersion,
    pub(super) ids: RecordIds,
    /// The attacks, in the order in which they are to be run.
    pub(super) attacks: Vec<Spec>,
    /// The seed of attacks that draw random numbers.
    pub(super) seed: u64,
    /// The number of questions a record; 0 means one.
    pub(super) queries: u32,
    /// Records whose passive features the adversary knows.
    pub(super) auxiliary: Option<Auxiliary>,
    /// Passive parties that lend the adversary their shares.
    pub(super) colluders: Vec<String>,
}

/// Records whose passive features the adversary knows.
#[derive(Clone)]
pub(super) struct Auxiliary {
    pub(super) ids: RecordIds,
    /// The session that answers for these records.
    pub(super) session: String,
}

/// An attack with its settings, as requested.
#[derive(Clone)]
pub(super) struct Spec {
    pub(super) method: Method,
    /// The settings; the later of two with the same name counts.
    pub(super) settings: Vec<(String, String)>,
}

impl Spec {
    /// Returns an attack with the known settings of the features, followed by its own.
    pub(super) fn of(attack: &AttackConfig, plan: &Plan) -> Self {
        // The schema's grid is in shares of the schema's own ranges, and covers the features of all
        // parties.
        let own = attack.settings();
        let ranges = own.pairs().any(|(key, _)| key == "lower" || key == "upper");
        let apart = plan.schema && (ranges || attack.method() == Method::Coalition);
        let known =
            plan.features.pairs().filter(|(key, _)| !(apart && GRID_SETTINGS.contains(key)));
        let all = known.chain(own.pairs());
        let settings = all.map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        Self { method: attack.method(), settings }
    }

    /// Returns an attack that takes the release of a policy for the true scores, with the value
    /// that replaces a score of 0.
    pub(super) fn behind(attack: &AttackConfig, plan: &Plan, policy: &Policy) -> Self {
        let spec = Self::of(attack, plan);
        match zero_floor(policy) {
            Some((_, floor)) if spec.settings.iter().all(|(key, _)| key != "zero_floor") => {
                spec.with("zero_floor", floor)
            }
            _ => spec,
        }
    }

    /// Adds a setting.
    pub(super) fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }
}
