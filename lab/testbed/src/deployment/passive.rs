//! The passive parties of a deployment: their release settings, and their start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use vfl_core::types::PartyName;
use vfl_features::features::Features;
use vfl_passive_party::collusion::Collusion;
use vfl_passive_party::config as passive;
use vfl_passive_party::record_outputs::RecordOutputs;
use vfl_server::monitoring::Monitoring;
use vfl_server::service::{Credentials, Limits};

use super::running::{RunningParty, listen, run};
use super::spec::{AlignmentRuns, active_name};

/// The settings that all passive parties of a deployment share.
#[derive(Clone)]
pub(super) struct PassiveSettings {
    pub(super) release: passive::ReleasePolicy,
    pub(super) serving: passive::ServingPolicy,
    pub(super) training: passive::TrainingPolicy,
    pub(super) audits: bool,
    pub(super) colluding: Vec<PartyName>,
    pub(super) moments: bool,
    pub(super) alignment: Option<AlignmentRuns>,
    pub(super) monitoring: BTreeMap<PartyName, Monitoring>,
    /// The party with outputs of another program, and these.
    pub(super) outputs: Option<(PartyName, Arc<RecordOutputs>)>,
}

/// Starts a passive party on its own features, at an address.
pub(super) async fn start_passive(
    name: &PartyName,
    credentials: Credentials,
    state_dir: PathBuf,
    features: Features,
    shown: PassiveSettings,
    address: SocketAddr,
) -> anyhow::Result<RunningParty> {
    let (listener, address) = listen(address).await?;
    let settings = passive::Settings {
        credentials,
        limits: Limits::default(),
        monitoring: shown.monitoring.get(name).cloned().unwrap_or_default(),
        state_dir: (&state_dir).into(),
        features,
        release: shown.release,
        serving: shown.serving,
        training: shown.training,
        // The auditor is this very program, and a report must be the same for the same seed. It
        // scores every attack on every defense, and each attack that has a control twice.
        audit: passive::AuditPolicy {
            allowed: shown.audits,
            mode: passive::AuditMode::Trusted,
            moments: shown.moments,
            max_scorings: 1024,
            ..Default::default()
        },
        collusion: match shown.colluding.contains(name) {
            true => Collusion::new(vec![active_name()], None),
            false => Collusion::default(),
        },
        outputs: shown.outputs.filter(|(of, _)| of == name).map(|(_, outputs)| outputs),
        alignment: shown.alignment.map_or_else(passive::AlignmentTable::default, |runs| {
            passive::AlignmentTable {
                allowed: true,
                active_party: Some(active_name()),
                max_runs: runs.max_runs,
                least_common: runs.least_common,
                ..Default::default()
            }
        }),
    };
    Ok(run(address, move |stop| async move {
        vfl_passive_party::service::run(settings, listener, stop.cancelled_owned())
            .await
            .map_err(|e| e.to_string())
    }))
}
