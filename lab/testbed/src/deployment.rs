//! All parties in one process, over real sockets on loopback with mutual TLS. The demo and the
//! tests start such deployments.

mod passive;
mod running;
mod spec;
mod whole_model;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nalgebra::{DMatrix, DVector};
use vfl_active_party::config::AlignmentTable;
use vfl_active_party::training_labels::NumberSource;
use vfl_coordinator::config as coordinator;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::model::TrainingConfig;
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_features::features::Features;
use vfl_passive_party::config::TrainingPolicy;
use vfl_protocol::Refusal;
use vfl_protocol::training::messages::{Progress, PublishedVersion};
use vfl_server::service::{Credentials, Limits, Peer, Role, TlsPem};
use vfl_state::ShareStore;

use passive::{PassiveSettings, start_passive};
use running::{ANY_PORT, RunningParty, listen, run};
use spec::top_grant;
pub use spec::{AlignmentRuns, DeploymentSpec, Help, active_name, consent, white_box};
pub use whole_model::{WholeModel, WholeParameters};

use vfl_auditor::audit::Targets;
use vfl_auditor::client::ActiveParty;

use crate::certs::Authority;

/// The trust domain of embedded deployments.
const TRUST_DOMAIN: &str = "cloison.demo";

/// A running deployment of three or more parties.
pub struct Deployment {
    authority: Authority,
    auditor: Credentials,
    /// The active party's own credentials, for its clients.
    pub active_credentials: Credentials,
    state_dir: PathBuf,
    coordinator_name: PartyName,
    active_name: PartyName,
    coordinator: RunningParty,
    active: RunningParty,
    passive: Vec<(PartyName, Features, RunningParty)>,
    shown: PassiveSettings,
    active_features: usize,
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

impl Deployment {
    /// Starts all parties on free ports.
    ///
    /// # Errors
    /// An error that names the party that did not start.
    pub async fn start(spec: DeploymentSpec) -> anyhow::Result<Self> {
        Self::start_with(spec, |_, _| Ok(())).await
    }

    /// Starts all parties on free ports. `adjust` may change the coordinator's settings: policies,
    /// timeouts, or further passive parties, for whose certificates it gets the authority.
    ///
    /// # Errors
    /// An error that names the party that did not start.
    pub async fn start_with(
        spec: DeploymentSpec,
        adjust: impl FnOnce(&Authority, &mut coordinator::Settings) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        Self::start_from(spec, adjust, |_, table| Ok(table.into())).await
    }

    /// Starts all parties as [`Deployment::start_with`] does. `place` gets each party's name and
    /// table, and returns the features in the store of its choice.
    ///
    /// # Errors
    /// An error that names the party that did not start.
    pub async fn start_from(
        spec: DeploymentSpec,
        adjust: impl FnOnce(&Authority, &mut coordinator::Settings) -> anyhow::Result<()>,
        mut place: impl FnMut(&PartyName, FeatureTable) -> anyhow::Result<Features>,
    ) -> anyhow::Result<Self> {
        let authority = Authority::new(TRUST_DOMAIN, 30)?;
        let (coordinator_name, active_name) = (PartyName::new("coordinator")?, active_name());
        let credentials = |role, name: &PartyName| -> anyhow::Result<Credentials> {
            Ok(Credentials::new(&authority.issue(role, name)?)?)
        };
        let auditor = credentials(Role::Auditor, &PartyName::new("auditor")?)?;
        let active_credentials = credentials(Role::ActiveParty, &active_name)?;
        let training = TrainingPolicy { transform: spec.training_transform, ..spec.consent };
        let Help { known, colluding, moments } = spec.help;
        let (audits, alignment, monitoring) = (spec.audits, spec.alignment, spec.monitoring);
        let monitors = |name: &PartyName| monitoring.get(name).cloned().unwrap_or_default();
        let (for_coordinator, for_active) = (monitors(&coordinator_name), monitors(&active_name));
        let release = spec.release.clone();
        let first = spec.tables.passive.iter().map(|(name, _)| name).min().cloned();
        let shown = PassiveSettings {
            outputs: first.zip(spec.outputs),
            release,
            serving: spec.serving.clone(),
            training,
            audits,
            colluding,
            moments,
            alignment,
            monitoring,
        };
        let mut parties = Vec::new();
        for (name, table) in spec.tables.passive {
            let table = place(&name, table)?;
            let credentials = credentials(Role::PassiveParty, &name)?;
            let dir = spec.state_dir.join(name.as_str());
            let running =
                start_passive(&name, credentials, dir, table.clone(), shown.clone(), ANY_PORT)
                    .await?;
            parties.push((name, table, running));
        }
        parties.sort_by(|a, b| a.0.cmp(&b.0));
        let peers: Vec<Peer> =
            parties.iter().map(|(n, _, r)| peer(Role::PassiveParty, n, r.address)).collect();

        let (listener, address) = listen(ANY_PORT).await?;
        let mut settings = coordinator::Settings {
            credentials: credentials(Role::Coordinator, &coordinator_name)?,
            limits: Limits::default(),
            monitoring: for_coordinator,
            state_dir: spec.state_dir.join("coordinator"),
            passive_parties: peers.clone(),
            peer_timeout: Duration::from_secs(10),
            active_party: Some(active_name.clone()),
            training: coordinator::TrainingPolicy {
                allowed: true,
                calibration: true,
                ..Default::default()
            },
            publishing: coordinator::PublishingPolicy::default(),
            defenses: spec.defenses,
            serving: coordinator::ServingPolicy { mode: spec.serving.mode, ..Default::default() },
            release: coordinator::TopRelease { to_active_party: top_grant(&spec.release) },
            ledger: coordinator::LedgerValues::default()
                .config(&spec.state_dir.join("coordinator"), coordinator::Budgets::default()),
            // Adversaries that ask repeatedly are part of the measurement.
            audit: coordinator::AuditPolicy {
                allowed: spec.audits,
                rows_per_record: 300,
                ..Default::default()
            },
        };
        adjust(&authority, &mut settings)?;
        let coordinator = run(address, move |stop| async move {
            vfl_coordinator::service::run(settings, listener, stop.cancelled_owned())
                .await
                .map_err(|e| e.to_string())
        });

        let (listener, address) = listen(ANY_PORT).await?;
        let active_features = spec.tables.active.schema().len();
        let numbers = spec.tables.numbers;
        let numbers = numbers.map(|table| NumberSource::Features(Arc::new(table).into()));
        let settings =
            vfl_active_party::config::Settings {
                credentials: active_credentials.clone(),
                limits: Limits::default(),
                monitoring: for_active,
                state_dir: (&spec.state_dir.join("active")).into(),
                features: place(&active_name, spec.tables.active)?,
                numbers,
                coordinator: peer(Role::Coordinator, &coordinator_name, coordinator.address),
                passive_parties: peers,
                peer_timeout: Duration::from_secs(30),
                audits_allowed: spec.audits,
                fallback: None,
                // Whoever asks owns the cores.
                audit_time: Duration::MAX,
                known: known.map(Arc::new),
                privacy: spec.active_privacy,
                alignment: spec.alignment.map_or_else(AlignmentTable::default, |runs| {
                    AlignmentTable { allowed: true, max_runs: runs.max_runs, ..Default::default() }
                }),
            };
        let active = run(address, move |stop| async move {
            vfl_active_party::service::run(settings, listener, stop.cancelled_owned())
                .await
                .map_err(|e| e.to_string())
        });
        Ok(Self {
            authority,
            auditor,
            active_credentials,
            state_dir: spec.state_dir,
            coordinator_name,
            active_name,
            coordinator,
            active,
            passive: parties,
            shown,
            active_features,
        })
    }

    /// Returns the coordinator as a peer.
    #[must_use]
    pub fn coordinator_peer(&self) -> Peer {
        peer(Role::Coordinator, &self.coordinator_name, self.coordinator.address)
    }

    /// Returns the active party as a peer.
    #[must_use]
    pub fn active_peer(&self) -> Peer {
        peer(Role::ActiveParty, &self.active_name, self.active.address)
    }

    /// Returns the passive parties as peers, in the order of summation.
    #[must_use]
    pub fn passive_peers(&self) -> Vec<Peer> {
        self.passive.iter().map(|(n, _, r)| peer(Role::PassiveParty, n, r.address)).collect()
    }

    /// Issues credentials for any role and name in this deployment: for tests of access control.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn credentials(&self, role: Role, name: &str) -> anyhow::Result<Credentials> {
        Ok(Credentials::new(&self.authority.issue(role, &PartyName::new(name)?)?)?)
    }

    /// Issues the files of such credentials: for a party in a process of its own.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn pem(&self, role: Role, name: &str) -> anyhow::Result<TlsPem> {
        Ok(self.authority.issue(role, &PartyName::new(name)?)?)
    }

    /// Returns the addresses and credentials that an auditor needs.
    #[must_use]
    pub fn targets(&self) -> Targets {
        Targets {
            credentials: self.auditor.clone(),
            coordinator: self.coordinator_peer(),
            active: self.active_peer(),
            passive: self.passive_peers(),
        }
    }

    /// Creates a client of the active party's own service.
    ///
    /// # Errors
    /// If the address is malformed.
    pub fn active_client(&self) -> anyhow::Result<ActiveParty> {
        Ok(ActiveParty::new(&self.active_credentials, self.active_peer())?)
    }

    /// Trains a model on these records, and calls `on_progress` after each epoch.
    ///
    /// # Errors
    /// [`Refusal`] with the parties' messages.
    pub async fn train(
        &self,
        config: &TrainingConfig,
        ids: &RecordIds,
        on_progress: impl FnMut(&Progress),
    ) -> Result<PublishedVersion, Refusal> {
        let mut client = self.active_client().map_err(|e| Refusal::internal(e.to_string()))?;
        client.train(config, ids, on_progress).await
    }

    /// Returns the whole model of a version, W (k × d_t, in the order of the data set's columns)
    /// and b (k), from the parties' own files. Only the lab can, as it made them all.
    ///
    /// # Errors
    /// If a share is missing or damaged.
    pub fn whole_model(
        &self,
        dataset: &Dataset,
        split: &VerticalSplit,
        version: &ModelVersion,
    ) -> anyhow::Result<(DMatrix<f64>, DVector<f64>)> {
        let load = |name: &str| {
            anyhow::Ok(ShareStore::open(&self.party_dir(name))?.load(version)?.linear()?.clone())
        };
        let active = load("active")?;
        let mut weights = DMatrix::zeros(dataset.class_names().len(), dataset.features().len());
        let mut put = |columns: &[usize], from: &DMatrix<f64>| {
            for (&to, column) in columns.iter().zip(from.column_iter()) {
                weights.set_column(to, &column);
            }
        };
        put(split.active(), active.weights());
        for party in split.passive() {
            put(&party.columns, load(party.name.as_str())?.weights());
        }
        let bias = active
            .bias()
            .cloned()
            .ok_or_else(|| anyhow::anyhow!("the active party's share has no bias"))?;
        Ok((weights, bias))
    }

    /// Returns the state directory of a party.
    #[must_use]
    pub fn party_dir(&self, name: &str) -> PathBuf {
        self.state_dir.join(name)
    }

    /// Stops a passive party: closes its port, ends its running calls, breaks its connections.
    pub async fn stop_passive(&mut self, index: usize) {
        if let Some((_, _, running)) = self.passive.get_mut(index) {
            running.stop.cancel();
            let _ = (&mut running.task).await;
        }
    }

    /// Restarts a stopped passive party at its old address and with its old state.
    ///
    /// # Errors
    /// If it cannot start.
    pub async fn restart_passive(&mut self, index: usize) -> anyhow::Result<()> {
        let (name, table, running) =
            self.passive.get(index).ok_or_else(|| failed("there is no such passive party"))?;
        let credentials = self.credentials(Role::PassiveParty, name.as_str())?;
        let dir = self.party_dir(name.as_str());
        let running = start_passive(
            name,
            credentials,
            dir,
            table.clone(),
            self.shown.clone(),
            running.address,
        )
        .await?;
        self.passive[index].2 = running;
        Ok(())
    }

    /// Stops all parties and waits for them.
    ///
    /// # Errors
    /// The first error that a party ended with.
    pub async fn stop(self) -> anyhow::Result<()> {
        let all = [self.active, self.coordinator]
            .into_iter()
            .chain(self.passive.into_iter().map(|(_, _, r)| r));
        // Stop all of them, even if one ended with an error: none may go on holding its directory.
        let mut first = Ok(());
        for running in all {
            running.stop.cancel();
            let ended = running
                .task
                .await
                .map_err(anyhow::Error::from)
                .and_then(|ended| ended.map_err(failed));
            first = first.and(ended);
        }
        first
    }

    /// Returns the number of the active party's features.
    #[must_use]
    pub fn active_features(&self) -> usize {
        self.active_features
    }
}

fn peer(role: Role, name: &PartyName, address: SocketAddr) -> Peer {
    Peer { role, name: name.clone(), address: address.to_string() }
}
