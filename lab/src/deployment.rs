//! All parties in one process, over real sockets on loopback with mutual TLS: what the demo runs and the tests start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nalgebra::{DMatrix, DVector};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vfl_active_party::config::AlignmentTable;
use vfl_coordinator::config as coordinator;
use vfl_coordinator::defense::DefenseConfig;
use vfl_coordinator::registry::{Manifest, PartyEntry, Registry, TrainingSummary};
use vfl_passive_party::collusion::Collusion;
use vfl_passive_party::config as passive;
use vfl_passive_party::transform::TransformConfig;
use vfl_shared::data::{Dataset, FeatureStore, FeatureTable, Features, PartyTables, VerticalSplit};
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::model::{Combiner, LinearParameters, MAX_WIDTH, ModelSpec, ShareStore, TrainingConfig, kinds};
use vfl_shared::monitoring::Monitoring;
use vfl_shared::rpc::Refusal;
use vfl_shared::service::{Credentials, Limits, Peer, Role, TlsPem};
use vfl_shared::training::messages::{Progress, Published};
use vfl_shared::types::{ModelVersion, PartyName, RecordIds};

use crate::audit::Targets;
use crate::certs::Authority;
use crate::client::ActiveParty;

/// The trust domain of embedded deployments.
const TRUST_DOMAIN: &str = "cloison.demo";

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

type Task = JoinHandle<Result<(), String>>;

/// What passive parties show, and what of.
#[derive(Clone)]
struct Shown {
    release: passive::ReleasePolicy,
    training: passive::TrainingPolicy,
    audits: bool,
    colluding: Vec<PartyName>,
    moments: bool,
    alignment: Option<AlignmentRuns>,
    monitoring: BTreeMap<PartyName, Monitoring>,
}

/// What the papers' threat model needs: the true parameters to the active party, and to the coordinator for noise at the logits.
#[must_use]
pub fn white_box() -> passive::ReleasePolicy {
    let all = passive::Grant::TrueParameters;
    passive::ReleasePolicy { to_active_party: all.clone(), to_coordinator: all, disclosed: true }
}

/// What the coordinator shows of a top model: all of it where the passive parties show their true parameters.
fn top_grant(release: &passive::ReleasePolicy) -> coordinator::TopGrant {
    match release.to_active_party {
        passive::Grant::TrueParameters => coordinator::TopGrant::TrueParameters,
        _ => coordinator::TopGrant::Nothing,
    }
}

/// One running party.
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: Task,
}

/// Three or more parties, running.
pub struct Deployment {
    authority: Authority,
    auditor: Credentials,
    /// The active party's own credentials, for its clients.
    pub active_credentials: Credentials,
    state_dir: PathBuf,
    coordinator_name: PartyName,
    active_name: PartyName,
    coordinator: Running,
    active: Running,
    passive: Vec<(PartyName, Features, Running)>,
    shown: Shown,
    active_features: usize,
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

async fn listen(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Deployment {
    /// Starts all parties on free ports.
    ///
    /// # Errors
    /// Whatever keeps a party from starting, named.
    pub async fn start(spec: DeploymentSpec) -> anyhow::Result<Self> {
        Self::start_with(spec, |_, _| Ok(())).await
    }

    /// Starts all parties on free ports, the coordinator with settings that `adjust` has changed: policies, timeouts, or
    /// further passive parties, for whose certificates it is given the authority.
    ///
    /// # Errors
    /// Whatever keeps a party from starting, named.
    pub async fn start_with(
        spec: DeploymentSpec,
        adjust: impl FnOnce(&Authority, &mut coordinator::Settings) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        Self::start_from(spec, adjust, |_, table| Ok(table.into())).await
    }

    /// The same with every party's features where `place` puts them, which is given the party's name and table.
    ///
    /// # Errors
    /// Whatever keeps a party from starting, named.
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
        let training = passive::TrainingPolicy { transform: spec.training_transform, ..spec.consent };
        let Help { known, colluding, moments } = spec.help;
        let (audits, alignment, monitoring) = (spec.audits, spec.alignment, spec.monitoring);
        let monitors = |name: &PartyName| monitoring.get(name).cloned().unwrap_or_default();
        let (for_coordinator, for_active) = (monitors(&coordinator_name), monitors(&active_name));
        let release = spec.release.clone();
        let shown = Shown { release, training, audits, colluding, moments, alignment, monitoring };
        let mut parties = Vec::new();
        for (name, table) in spec.tables.passive {
            let table = place(&name, table)?;
            let credentials = credentials(Role::PassiveParty, &name)?;
            let dir = spec.state_dir.join(name.as_str());
            let running = start_passive(&name, credentials, dir, table.clone(), shown.clone(), ANY_PORT).await?;
            parties.push((name, table, running));
        }
        parties.sort_by(|a, b| a.0.cmp(&b.0));
        let peers: Vec<Peer> = parties.iter().map(|(n, _, r)| peer(Role::PassiveParty, n, r.address)).collect();

        let (listener, address) = listen(ANY_PORT).await?;
        let mut settings = coordinator::Settings {
            credentials: credentials(Role::Coordinator, &coordinator_name)?,
            limits: Limits::default(),
            monitoring: for_coordinator,
            state_dir: spec.state_dir.join("coordinator"),
            passive_parties: peers.clone(),
            peer_timeout: Duration::from_secs(10),
            active_party: Some(active_name.clone()),
            training: coordinator::TrainingPolicy { allowed: true, ..Default::default() },
            publishing: coordinator::PublishingPolicy::default(),
            defenses: spec.defenses,
            serving: coordinator::ServingPolicy::default(),
            release: coordinator::TopRelease { to_active_party: top_grant(&spec.release) },
            ledger: coordinator::LedgerValues::default()
                .config(&spec.state_dir.join("coordinator"), coordinator::Budgets::default()),
            // Adversaries that ask again and again are part of what is measured.
            audit: coordinator::AuditPolicy { allowed: spec.audits, rows_per_record: 300, ..Default::default() },
        };
        adjust(&authority, &mut settings)?;
        let coordinator = run(address, move |stop| async move {
            vfl_coordinator::service::run(settings, listener, stop.cancelled_owned()).await.map_err(|e| e.to_string())
        });

        let (listener, address) = listen(ANY_PORT).await?;
        let active_features = spec.tables.active.schema().len();
        let settings = vfl_active_party::config::Settings {
            credentials: active_credentials.clone(),
            limits: Limits::default(),
            monitoring: for_active,
            state_dir: spec.state_dir.join("active"),
            features: place(&active_name, spec.tables.active)?,
            coordinator: peer(Role::Coordinator, &coordinator_name, coordinator.address),
            passive_parties: peers,
            peer_timeout: Duration::from_secs(30),
            audits_allowed: spec.audits,
            known: known.map(Arc::new),
            privacy: spec.active_privacy,
            alignment: spec.alignment.map_or_else(AlignmentTable::default, |runs| AlignmentTable {
                allowed: true,
                max_runs: runs.max_runs,
                ..Default::default()
            }),
        };
        let active = run(address, move |stop| async move {
            vfl_active_party::service::run(settings, listener, stop.cancelled_owned()).await.map_err(|e| e.to_string())
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

    /// The coordinator, as a peer.
    #[must_use]
    pub fn coordinator_peer(&self) -> Peer {
        peer(Role::Coordinator, &self.coordinator_name, self.coordinator.address)
    }

    /// The active party, as a peer.
    #[must_use]
    pub fn active_peer(&self) -> Peer {
        peer(Role::ActiveParty, &self.active_name, self.active.address)
    }

    /// The passive parties, as peers, in the order of summation.
    #[must_use]
    pub fn passive_peers(&self) -> Vec<Peer> {
        self.passive.iter().map(|(n, _, r)| peer(Role::PassiveParty, n, r.address)).collect()
    }

    /// Credentials of any role and name in this deployment: for tests of who may do what.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn credentials(&self, role: Role, name: &str) -> anyhow::Result<Credentials> {
        Ok(Credentials::new(&self.authority.issue(role, &PartyName::new(name)?)?)?)
    }

    /// The files behind such credentials: for a party in a process of its own.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn pem(&self, role: Role, name: &str) -> anyhow::Result<TlsPem> {
        Ok(self.authority.issue(role, &PartyName::new(name)?)?)
    }

    /// What an auditor needs to reach everyone.
    #[must_use]
    pub fn targets(&self) -> Targets {
        Targets {
            credentials: self.auditor.clone(),
            coordinator: self.coordinator_peer(),
            active: self.active_peer(),
            passive: self.passive_peers(),
        }
    }

    /// A client of the active party's own service.
    ///
    /// # Errors
    /// If the address is malformed.
    pub fn active_client(&self) -> anyhow::Result<ActiveParty> {
        Ok(ActiveParty::new(&self.active_credentials, self.active_peer())?)
    }

    /// Has a model trained on these records, telling `on_progress` each epoch.
    ///
    /// # Errors
    /// [`Refusal`] with what the parties said.
    pub async fn train(
        &self,
        config: &TrainingConfig,
        ids: &RecordIds,
        on_progress: impl FnMut(&Progress),
    ) -> Result<Published, Refusal> {
        let mut client = self.active_client().map_err(|e| Refusal::internal(e.to_string()))?;
        client.train(config, ids, on_progress).await
    }

    /// The whole model of a version, W (k × d_t, in the order of the data set's columns) and b (k), from the parties' own files.
    /// Only the lab can: it made them all.
    ///
    /// # Errors
    /// A share that is missing or damaged.
    pub fn whole_model(
        &self,
        dataset: &Dataset,
        split: &VerticalSplit,
        version: &ModelVersion,
    ) -> anyhow::Result<(DMatrix<f64>, DVector<f64>)> {
        let load = |name: &str| anyhow::Ok(ShareStore::open(&self.party_dir(name))?.load(version)?.linear()?.clone());
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
        let bias = active.bias().cloned().ok_or_else(|| anyhow::anyhow!("the active party's share has no bias"))?;
        Ok((weights, bias))
    }

    /// Where a party keeps its state.
    #[must_use]
    pub fn party_dir(&self, name: &str) -> PathBuf {
        self.state_dir.join(name)
    }

    /// Stops a passive party: its port closes, its calls under way end, its connections break.
    pub async fn stop_passive(&mut self, index: usize) {
        if let Some((_, _, running)) = self.passive.get_mut(index) {
            running.stop.cancel();
            let _ = (&mut running.task).await;
        }
    }

    /// Starts a stopped passive party again, at its old address and with its old state.
    ///
    /// # Errors
    /// Whatever keeps it from starting.
    pub async fn restart_passive(&mut self, index: usize) -> anyhow::Result<()> {
        let (name, table, running) = self.passive.get(index).ok_or_else(|| failed("there is no such passive party"))?;
        let credentials = self.credentials(Role::PassiveParty, name.as_str())?;
        let dir = self.party_dir(name.as_str());
        let running = start_passive(name, credentials, dir, table.clone(), self.shown.clone(), running.address).await?;
        self.passive[index].2 = running;
        Ok(())
    }

    /// Stops all parties and waits for them.
    ///
    /// # Errors
    /// Whatever a party died of.
    pub async fn stop(self) -> anyhow::Result<()> {
        let all = [self.active, self.coordinator].into_iter().chain(self.passive.into_iter().map(|(_, _, r)| r));
        // To the last one, whatever one of them died of: none may go on holding its directory.
        let mut first = Ok(());
        for running in all {
            running.stop.cancel();
            let ended = running.task.await.map_err(anyhow::Error::from).and_then(|ended| ended.map_err(failed));
            first = first.and(ended);
        }
        first
    }

    /// Number of the active party's features.
    #[must_use]
    pub fn active_features(&self) -> usize {
        self.active_features
    }
}

fn peer(role: Role, name: &PartyName, address: SocketAddr) -> Peer {
    Peer { role, name: name.clone(), address: address.to_string() }
}

fn run<F>(address: SocketAddr, start: impl FnOnce(CancellationToken) -> F) -> Running
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let stop = CancellationToken::new();
    let task = tokio::spawn(start(stop.clone()));
    Running { address, stop, task }
}

async fn start_passive(
    name: &PartyName,
    credentials: Credentials,
    state_dir: PathBuf,
    features: Features,
    shown: Shown,
    address: SocketAddr,
) -> anyhow::Result<Running> {
    let (listener, address) = listen(address).await?;
    let settings = passive::Settings {
        credentials,
        limits: Limits::default(),
        monitoring: shown.monitoring.get(name).cloned().unwrap_or_default(),
        state_dir: (&state_dir).into(),
        features,
        release: shown.release,
        training: shown.training,
        // The auditor is this very program, and a report is the same for the same seed.
        // It scores every attack on every defense there is, and each attack that has a control twice.
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
        alignment: shown.alignment.map_or_else(passive::AlignmentTable::default, |runs| passive::AlignmentTable {
            allowed: true,
            active_party: Some(active_name()),
            max_runs: runs.max_runs,
            least_common: runs.least_common,
            ..Default::default()
        }),
    };
    Ok(run(address, move |stop| async move {
        vfl_passive_party::service::run(settings, listener, stop.cancelled_owned()).await.map_err(|e| e.to_string())
    }))
}

/// A whole model in one place: what the lab, which made all the data, may put together to deploy the same model under
/// another split of the columns.
pub struct WholeModel {
    /// k × D, in the data set's column order.
    pub weights: DMatrix<f64>,
    /// k.
    pub bias: DVector<f64>,
    /// Class names.
    pub class_names: Vec<String>,
    /// How it was trained.
    pub summary: TrainingSummary,
    /// The records it saw.
    pub training_ids: RecordIds,
}

impl WholeModel {
    /// Stores the model in the directories of a deployment that is about to start, split by columns.
    ///
    /// # Errors
    /// If a directory cannot be written.
    pub fn publish(
        &self,
        state_dir: &std::path::Path,
        active: (&[usize], &[String]),
        passive: &[(PartyName, Vec<usize>, Vec<String>)],
    ) -> anyhow::Result<()> {
        let put = |name: &str, columns: &[usize], names: &[String], bias: Option<DVector<f64>>| {
            let store = ShareStore::open(&state_dir.join(name))?;
            let parameters = LinearParameters::new(self.weights.select_columns(columns), bias)?;
            let share = store.put(&parameters, names)?;
            let entry =
                PartyEntry { name: PartyName::new(name)?, features: columns.len() as u32, share, privacy: None };
            anyhow::Ok((store, entry))
        };
        let (active_store, active_entry) = put("active", active.0, active.1, Some(self.bias.clone()))?;
        let mut stores = vec![(active_store, active_entry.share.clone())];
        let mut entries = Vec::new();
        for (name, columns, names) in passive {
            let (store, entry) = put(name.as_str(), columns, names, None)?;
            stores.push((store, entry.share.clone()));
            entries.push(entry);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let manifest = Manifest::new(
            ModelSpec::softmax_regression(self.class_names.len() as u32, entries.len())?,
            self.class_names.clone(),
            active_entry,
            entries,
            Some(self.summary.clone()),
            &self.training_ids,
        )?;
        for (store, share) in stores {
            store.bind(&manifest.version, &share)?;
        }
        Registry::open(&state_dir.join("coordinator"))?.commit(manifest, None)?;
        Ok(())
    }
}
