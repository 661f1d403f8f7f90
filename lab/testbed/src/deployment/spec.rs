//! The specification of a deployment, and what its parties agree to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use vfl_coordinator::config as coordinator;
use vfl_core::data::table::FeatureTable;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{Combiner, MAX_WIDTH, TrainingMode, kinds};
use vfl_core::types::PartyName;
use vfl_datasets::{PartyTables, passive_names};
use vfl_defense::DefenseConfig;
use vfl_passive_party::config as passive;
use vfl_passive_party::record_outputs::RecordOutputs;
use vfl_server::monitoring::Monitoring;
use vfl_transform::TransformConfig;

/// The specification of a deployment.
pub struct DeploymentSpec {
    /// The data of each party.
    pub tables: PartyTables,
    /// The directory of the parties' state, with a directory for each.
    pub state_dir: PathBuf,
    /// The defenses of the live service.
    pub defenses: Vec<DefenseConfig>,
    /// The parameters that each passive party shows of its own. If these are the true ones, the
    /// coordinator shows its top model.
    pub release: passive::ReleasePolicy,
    /// The way in which the live service answers, and the consent of the passive parties to it.
    pub serving: passive::ServingPolicy,
    /// The transform of the passive features before training.
    pub training_transform: TransformConfig,
    /// The trainings that passive parties take part in; see [`consent`].
    pub consent: passive::TrainingPolicy,
    /// True if all parties allow audits.
    pub audits: bool,
    /// The side information of the adversary besides releases and parameters.
    pub help: Help,
    /// The differential privacy of the active party's training; `consent` has that of the passive
    /// parties.
    pub active_privacy: Option<PrivacyConfig>,
    /// The alignments that every passive party allows the active party; `None`: none.
    pub alignment: Option<AlignmentRuns>,
    /// Outputs that another program computed, which the first passive party adds to its own.
    pub outputs: Option<Arc<RecordOutputs>>,
    /// The monitoring of each party, by its name. Parties without an entry report to nobody.
    pub monitoring: BTreeMap<PartyName, Monitoring>,
}

/// The alignments that all parties allow.
#[derive(Debug, Clone, Copy)]
pub struct AlignmentRuns {
    /// The most runs at each party.
    pub max_runs: u32,
    /// The fewest common ids for which a passive party reveals them.
    pub least_common: u64,
}

/// The side information of the active party of a deployment. The default is none.
#[derive(Debug, Clone, Default)]
pub struct Help {
    /// The passive features that it knows of some records: those of all passive parties, in the
    /// order of their names.
    pub known: Option<FeatureTable>,
    /// The passive parties that collude with it.
    pub colluding: Vec<PartyName>,
    /// True if passive parties simulate, for the auditor, an adversary that knows their means and
    /// covariances.
    pub moments: bool,
}

/// Returns the consent that a passive party must give for a training of either mode: the active
/// party by its name, the number of classes, every kind of model, initial parameters from the seed,
/// and the first passive party as the one that computes.
/// Everything else is the default.
#[must_use]
pub fn consent(active_party: &PartyName, classes: usize) -> passive::TrainingPolicy {
    passive::TrainingPolicy {
        allowed: true,
        mode: TrainingMode::Plain,
        plain_consent: Some(passive::PLAIN_CONSENT.to_owned()),
        computing_party: passive_names(1).ok().and_then(|names| names.into_iter().next()),
        calibration: true,
        active_party: Some(active_party.clone()),
        max_classes: u32::try_from(classes).unwrap_or(u32::MAX),
        kinds: kinds::names().map(str::to_owned).collect(),
        combiners: vec![Combiner::Sum, Combiner::Concat],
        max_width: MAX_WIDTH,
        // The same seed must give the same model.
        start: passive::StartFrom::Seed,
        ..Default::default()
    }
}

/// Returns the name of the active party of an embedded deployment.
///
/// # Panics
/// Never: the name is valid.
#[must_use]
pub fn active_name() -> PartyName {
    PartyName::new("active").unwrap_or_else(|_| unreachable!("a plain word is a valid name"))
}

/// Returns the release policy of the papers' threat model: the true parameters for the active
/// party, and for the coordinator, which needs them for noise at the logits.
#[must_use]
pub fn white_box() -> passive::ReleasePolicy {
    let all = passive::Grant::TrueParameters;
    passive::ReleasePolicy { to_active_party: all.clone(), to_coordinator: all, disclosed: true }
}

/// Returns the grant of the top model: all of it if the passive parties show their true parameters.
pub(super) fn top_grant(release: &passive::ReleasePolicy) -> coordinator::TopGrant {
    match release.to_active_party {
        passive::Grant::TrueParameters => coordinator::TopGrant::TrueParameters,
        _ => coordinator::TopGrant::Nothing,
    }
}
