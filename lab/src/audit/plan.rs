//! What to audit, and where.

use vfl_active_party::attack::{AttackConfig, Settings};
use vfl_shared::metrics::Metric;
use vfl_shared::policy::Policy;
use vfl_shared::service::{Credentials, Peer};
use vfl_shared::types::{PartyName, RecordIds};

/// Whom the auditor talks to, and as whom.
#[derive(Debug, Clone)]
pub struct Targets {
    /// The auditor's own credentials.
    pub credentials: Credentials,
    /// The coordinator.
    pub coordinator: Peer,
    /// The active party.
    pub active: Peer,
    /// The passive parties.
    pub passive: Vec<Peer>,
}

/// What to audit.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The records: at least 100, held by all parties, not used in training.
    pub ids: RecordIds,
    /// The policies, each in a session of its own.
    pub policies: Vec<Policy>,
    /// The attacks that take a release for the true scores. `agnostic` stands apart: it is run once on the records without
    /// asking for any of them, and once having asked for some without a defense.
    pub attacks: Vec<AttackConfig>,
    /// What every adversary knows of the passive features beside [0, 1] and the schema: settings that all attacks take.
    pub features: Settings,
    /// Whether every adversary knows the passive parties' public schema.
    pub schema: bool,
    /// Records of the training, at least 100, which `agnostic` is run on as well; no score of them is asked for.
    pub training_ids: Option<RecordIds>,
    /// Whether each policy also meets an adversary that knows it.
    pub aware: bool,
    /// How often that adversary asks for each record, where averaging could help it.
    pub queries: u32,
    /// The most of each passive party's budget that the audit may spend on the records, in ρ; `None`: all that is left. For parties
    /// that answer with noise.
    pub rho: Option<f64>,
    /// What attacks are measured by beside the mean squared error; `None`: attack accuracy and correlation where all parties answer
    /// without noise, nothing where one does not, since each metric costs a part of the budget there.
    pub metrics: Option<Vec<&'static dyn Metric>>,
    /// Who helps the adversary of further audits, each behind each policy.
    pub help: Help,
    /// Seed of attacks that draw random numbers.
    pub seed: u64,
}

impl Plan {
    /// What is left is the least: nobody knows or helps, each record is asked for once, and no adversary knows the policy.
    #[must_use]
    pub fn of(ids: RecordIds, policies: Vec<Policy>, attacks: Vec<AttackConfig>, seed: u64) -> Self {
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

    /// Whether it states ranges of its own. Whoever does knows better than the schema.
    pub(super) fn ranges(&self) -> bool {
        self.features.pairs().any(|(key, _)| key == "lower" || key == "upper")
    }

    /// What every adversary knows of the passive features, in words.
    pub(super) fn knows(&self) -> Vec<String> {
        let schema = (self.schema && !self.ranges()).then(|| "the public schema".to_owned());
        let stated = self.features.pairs().map(|(key, value)| format!("{key} = {value}"));
        schema.into_iter().chain(stated).collect()
    }
}

/// Who helps the adversary. The default is nobody.
#[derive(Debug, Clone, Default)]
pub struct Help {
    /// Records whose passive features the active party knows (`known_csv` in its config), other than those audited and not used in
    /// training: `shadow_model` and `shadow_network` estimate the parameters from them, and `undo_transform` looks at them too.
    pub auxiliary_ids: Option<RecordIds>,
    /// Passive parties that lend the active party their logit shares (`[collusion]` in their configs): `coalition` attacks the
    /// features of the others.
    pub colluding: Vec<PartyName>,
}

/// How many of the audited records `agnostic` asks for in its refined form.
pub const OBSERVED: usize = 100;

/// The fewest audited records at which that form is run: most of them must not have been asked for.
pub const REFINED_FROM: usize = 200;
