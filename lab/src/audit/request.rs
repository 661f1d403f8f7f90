//! What the active party is asked to run.

use vfl_active_party::attack::{AttackConfig, Method};
use vfl_shared::policy::Policy;
use vfl_shared::types::{ModelVersion, RecordIds};

use super::plan::Plan;
use super::policy::zero_floor;
use super::schema::GRID;

/// Attacks on a set of records.
#[derive(Clone)]
pub(super) struct Request {
    /// The session that answers for the records; empty without one.
    pub(super) session: String,
    /// The version under attack.
    pub(super) version: ModelVersion,
    /// The records under attack.
    pub(super) ids: RecordIds,
    /// The attacks, in the order in which they are to be run.
    pub(super) attacks: Vec<Spec>,
    /// Seed of attacks that draw random numbers.
    pub(super) seed: u64,
    /// How often every record is asked for; 0 is once.
    pub(super) queries: u32,
    /// Records whose passive features the adversary knows.
    pub(super) auxiliary: Option<Auxiliary>,
    /// Passive parties that lend the adversary their shares.
    pub(super) colluders: Vec<String>,
}

/// Records whose passive features the adversary knows.
#[derive(Clone)]
pub(super) struct Auxiliary {
    /// The records.
    pub(super) ids: RecordIds,
    /// The session that answers for them.
    pub(super) session: String,
}

/// An attack as it is asked for.
#[derive(Clone)]
pub(super) struct Spec {
    /// The attack.
    pub(super) method: Method,
    /// Its settings; of two of the same name the later one counts.
    pub(super) settings: Vec<(String, String)>,
}

impl Spec {
    /// An attack with what is known of the features, then its own settings.
    pub(super) fn of(attack: &AttackConfig, plan: &Plan) -> Self {
        // The schema's grid is in shares of its own ranges, and of the features of all parties.
        let own = attack.settings();
        let ranges = own.pairs().any(|(key, _)| key == "lower" || key == "upper");
        let apart = plan.schema && (ranges || attack.method() == Method::Coalition);
        let known = plan.features.pairs().filter(|(key, _)| !(apart && GRID.contains(key)));
        let all = known.chain(own.pairs());
        let settings = all.map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        Self { method: attack.method(), settings }
    }

    /// The same of an attack that takes what a policy releases for the true scores: it is told what stands for a score of 0.
    pub(super) fn behind(attack: &AttackConfig, plan: &Plan, policy: &Policy) -> Self {
        let spec = Self::of(attack, plan);
        match zero_floor(policy) {
            Some((_, floor)) if spec.settings.iter().all(|(key, _)| key != "zero_floor") => {
                spec.with("zero_floor", floor)
            }
            _ => spec,
        }
    }

    /// The same with one more setting.
    pub(super) fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }
}
