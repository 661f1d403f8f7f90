//! The plan of an audit: its targets, attacks and policies.

use vfl_attack::{AttackConfig, Settings};
use vfl_core::metrics::Metric;
use vfl_core::types::{PartyName, RecordIds};
use vfl_defense::Policy;
use vfl_server::service::{Credentials, Peer};

/// The addresses of the parties, and the auditor's credentials.
#[derive(Debug, Clone)]
pub struct Targets {
    /// The auditor's own credentials.
    pub credentials: Credentials,
    /// The address of the coordinator.
    pub coordinator: Peer,
    /// The address of the active party.
    pub active: Peer,
    /// The addresses of the passive parties.
    pub passive: Vec<Peer>,
}

/// The plan of an audit.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The records to audit: at least 100, held by all parties, not used in training.
    pub ids: RecordIds,
    /// The policies to audit, each in a session of its own.
    pub policies: Vec<Policy>,
    /// The attacks that take a release for the true scores. `agnostic` is an exception: it is run
    /// once without asking for any record, and once after asking for some without a defense.
    pub attacks: Vec<AttackConfig>,
    /// The settings that all attacks take: the adversaries' knowledge of the passive features
    /// beyond [0, 1] and the schema.
    pub features: Settings,
    /// True if every adversary knows the passive parties' public schema.
    pub schema: bool,
    /// Training records, at least 100, on which `agnostic` is run as well; no score of them is
    /// asked for.
    pub training_ids: Option<RecordIds>,
    /// True if each policy is also attacked by an adversary that knows it.
    pub aware: bool,
    /// The number of times that this adversary asks for each record, where averaging could help it.
    pub queries: u32,
    /// The most ρ that the audit may spend on the records at each passive party that answers with
    /// noise; `None`: all that is left.
    pub rho: Option<f64>,
    /// The metrics beside the mean squared error. `None`: attack accuracy and correlation if all
    /// parties answer without noise, else none, since each metric costs a part of the budget there.
    pub metrics: Option<Vec<&'static dyn Metric>>,
    /// The help for the adversaries of further audits, one each behind each policy.
    pub help: Help,
    /// The seed of attacks that draw random numbers.
    pub seed: u64,
}

impl Plan {
    /// Returns a plan with minimal other settings: no help and no knowledge beyond the schema, one
    /// question a record, no adversary that knows the policy.
    #[must_use]
    pub fn of(
        ids: RecordIds,
        policies: Vec<Policy>,
        attacks: Vec<AttackConfig>,
        seed: u64,
    ) -> Self {
        Self {
            ids,
            policies,
            attacks,
            features: Settings::default(),
            schema: true,
            training_ids: None,
            aware: false,
            queries: 1,
            rho: None,
            metrics: None,
            help: Help::default(),
            seed,
        }
    }

    /// Returns true if the plan states ranges of its own, which override the schema.
    pub(super) fn ranges(&self) -> bool {
        self.features.pairs().any(|(key, _)| key == "lower" || key == "upper")
    }

    /// Returns the adversaries' knowledge of the passive features, in words.
    pub(super) fn knows(&self) -> Vec<String> {
        let schema = (self.schema && !self.ranges()).then(|| "the public schema".to_owned());
        let stated = self.features.pairs().map(|(key, value)| format!("{key} = {value}"));
        schema.into_iter().chain(stated).collect()
    }
}

/// The help for the adversary. The default is none.
#[derive(Debug, Clone, Default)]
pub struct Help {
    /// Records whose passive features the active party knows (`known_csv` in its config), distinct
    /// from the audited records and not used in training. `shadow_model` and `shadow_network`
    /// estimate the parameters from them, and `undo_transform` looks at them too.
    pub auxiliary_ids: Option<RecordIds>,
    /// Passive parties that lend the active party their logit shares (`[collusion]` in their
    /// configs): `coalition` attacks the features of the others.
    pub colluding: Vec<PartyName>,
}

/// The number of audited records that `agnostic` asks for in its refined form.
pub const OBSERVED: usize = 100;

/// The fewest audited records for the refined form: most of them must not have been asked for.
pub const REFINED_FROM: usize = 200;
