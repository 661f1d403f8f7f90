//! What is to be deployed, and what its parties agree to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use vfl_coordinator::config as coordinator;
use vfl_coordinator::defense::DefenseConfig;
use vfl_passive_party::config as passive;
use vfl_passive_party::transform::TransformConfig;
use vfl_shared::data::{FeatureTable, PartyTables};
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::model::{Combiner, MAX_WIDTH, kinds};
use vfl_shared::monitoring::Monitoring;
use vfl_shared::types::PartyName;

/// What to deploy.
pub struct DeploymentSpec {
    /// Each party's data.
    pub tables: PartyTables,
    /// Where the parties keep their state, in a directory each.
    pub state_dir: PathBuf,
    /// The defenses of the live service.
    pub defenses: Vec<DefenseConfig>,
    /// What passive parties show of their parameters, each of its own. Under their true parameters the coordinator shows a top model.
    pub release: passive::ReleasePolicy,
    /// What passive parties do to their features before training.
    pub training_transform: TransformConfig,
    /// Which trainings they take part in; see [`consent`].
    pub consent: passive::TrainingPolicy,
    /// Whether all parties allow audits.
    pub audits: bool,
    /// What an adversary has beside releases and parameters.
    pub help: Help,
    /// How the active party keeps its parameters private; `consent` says it of the passive parties.
    pub active_privacy: Option<PrivacyConfig>,
    /// Alignments of the active party with any of them; `None`: none is allowed.
    pub alignment: Option<AlignmentRuns>,
    /// Who is told how a party does, by the party's name. Of those that are not here nobody is told.
    pub monitoring: BTreeMap<PartyName, Monitoring>,
}

/// What all parties allow of alignments.
#[derive(Debug, Clone, Copy)]
pub struct AlignmentRuns {
    /// Runs at each party.
    pub max_runs: u32,
    /// The fewest common ids that a passive party tells of.
    pub least_common: u64,
}

/// What the active party of a deployment has beside releases and parameters. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Help {
    /// The passive features that it knows of some records: those of all passive parties, in the order of their names.
    pub known: Option<FeatureTable>,
    /// Passive parties that collude with it.
    pub colluding: Vec<PartyName>,
    /// Whether passive parties play, for the auditor, an adversary that knows their means and covariances.
    pub moments: bool,
}

/// The consent that a passive party needs to give for an ordinary training: the active party by its name, the number of
/// classes, every kind of model, and first parameters from the seed. Everything else is the default.
#[must_use]
pub fn consent(active_party: &PartyName, classes: usize) -> passive::TrainingPolicy {
    passive::TrainingPolicy {
        allowed: true,
        active_party: Some(active_party.clone()),
        max_classes: u32::try_from(classes).unwrap_or(u32::MAX),
        kinds: kinds::names().map(str::to_owned).collect(),
        combiners: vec![Combiner::Sum, Combiner::Concat],
        max_width: MAX_WIDTH,
        // The same seed gives the same model.
        start: passive::StartFrom::Seed,
        ..Default::default()
    }
}

/// The name of the active party of an embedded deployment.
///
/// # Panics
/// Never: the name is valid.
#[must_use]
pub fn active_name() -> PartyName {
    PartyName::new("active").unwrap_or_else(|_| unreachable!("a plain word is a valid name"))
}

/// What the papers' threat model needs: the true parameters to the active party, and to the coordinator for noise at the logits.
#[must_use]
pub fn white_box() -> passive::ReleasePolicy {
    let all = passive::Grant::TrueParameters;
    passive::ReleasePolicy { to_active_party: all.clone(), to_coordinator: all, disclosed: true }
}

/// What the coordinator shows of a top model: all of it where the passive parties show their true parameters.
pub(super) fn top_grant(release: &passive::ReleasePolicy) -> coordinator::TopGrant {
    match release.to_active_party {
        passive::Grant::TrueParameters => coordinator::TopGrant::TrueParameters,
        _ => coordinator::TopGrant::Nothing,
    }
}
