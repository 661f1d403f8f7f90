//! A deployment on synthetic data, and what the tests ask of it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use vfl_coordinator::config::Budgets;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets as data;
use vfl_datasets::{Dataset, DatasetName, DatasetSpec, PassiveColumns, VerticalSplit, partition};
use vfl_passive_party::config::TrainingPolicy;
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_protocol::{MAX_MESSAGE_BYTES, pb};
use vfl_server::service::{Credentials, Peer, Role, channel};
use vfl_testbed::deployment::{
    AlignmentRuns, Deployment, DeploymentSpec, active_name, consent, white_box,
};
use vfl_transform::TransformConfig;

/// An address that nobody listens on. Its port is not of those that the system gives (on Linux by default 32768 and up), which may be taken by a test beside
/// this one before it is used here.
pub fn free_address() -> SocketAddr {
    const PORTS: std::ops::Range<u16> = 10_240..32_768;
    static ASKED: AtomicU16 = AtomicU16::new(0);
    // Tests in another process begin elsewhere.
    let first = std::process::id() as u16;
    for _ in PORTS {
        let step = first.wrapping_mul(61).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from(([127, 0, 0, 1], PORTS.start + step % PORTS.len() as u16));
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {PORTS:?} can be bound");
}

pub fn dataset() -> Dataset {
    data::load(&DatasetSpec::new(DatasetName::Synthetic, None, 3)).unwrap()
}

/// `parties` passive parties that share the last columns, `each` a piece.
pub fn split(dataset: &Dataset, parties: usize, each: usize) -> VerticalSplit {
    let total = dataset.features().len();
    let passive = (0..parties)
        .map(|p| PassiveColumns {
            name: PartyName::new(format!("passive-{}", p + 1)).unwrap(),
            columns: (total - (p + 1) * each..total - p * each).collect(),
        })
        .collect();
    VerticalSplit::new(total, passive).unwrap()
}

pub fn config(epochs: u32) -> TrainingConfig {
    TrainingConfig::try_from(TrainingValues {
        epochs,
        learning_rate: 0.02,
        patience: 4,
        seed: 5,
        ..Default::default()
    })
    .unwrap()
}

pub fn training_ids(dataset: &Dataset) -> RecordIds {
    dataset.ids().select(&dataset.split().train)
}

/// Records that no training saw.
pub fn test_ids(dataset: &Dataset, from: usize, to: usize) -> RecordIds {
    dataset.ids().select(&dataset.split().test[from..to])
}

pub fn spec(dir: &Path, dataset: &Dataset, split: &VerticalSplit) -> DeploymentSpec {
    DeploymentSpec {
        tables: partition::divide(dataset, split, 9).unwrap(),
        state_dir: dir.to_owned(),
        defenses: Vec::new(),
        release: white_box(),
        training_transform: TransformConfig::None {},
        // Tests train often, and some never stop by themselves.
        consent: TrainingPolicy {
            max_epochs: 100_000,
            max_per_day: 1000,
            max_total: 1000,
            ..consent(&active_name(), dataset.class_names().len())
        },
        audits: true,
        help: Default::default(),
        active_privacy: None,
        alignment: Some(AlignmentRuns { max_runs: 100_000, least_common: 0 }),
        serving: Default::default(),
        outputs: None,
        monitoring: Default::default(),
    }
}

pub async fn deploy(dir: &Path, dataset: &Dataset, split: &VerticalSplit) -> Deployment {
    Deployment::start(spec(dir, dataset, split)).await.unwrap()
}

/// A deployment with a model in service.
pub struct Trained {
    /// Removed when the test ends.
    pub dir: TempDir,
    pub dataset: Dataset,
    pub split: VerticalSplit,
    pub deployment: Deployment,
    pub version: String,
}

pub async fn trained(parties: usize, each: usize, epochs: u32) -> Trained {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset();
    let split = split(&dataset, parties, each);
    let deployment = deploy(dir.path(), &dataset, &split).await;
    let version = deployment
        .train(&config(epochs), &training_ids(&dataset), |_| ())
        .await
        .unwrap()
        .version
        .into();
    Trained { dir, dataset, split, deployment, version }
}

impl Trained {
    /// The same parties with the same state, started again with another spec.
    pub async fn again(self, change: impl FnOnce(&mut DeploymentSpec)) -> Self {
        self.deployment.stop().await.unwrap();
        let mut spec = spec(self.dir.path(), &self.dataset, &self.split);
        change(&mut spec);
        Self { deployment: Deployment::start(spec).await.unwrap(), ..self }
    }

    /// The same, with budgets of the live service.
    pub async fn with_budgets(
        self,
        budgets: Budgets,
        change: impl FnOnce(&mut DeploymentSpec),
    ) -> Self {
        self.deployment.stop().await.unwrap();
        let mut spec = spec(self.dir.path(), &self.dataset, &self.split);
        change(&mut spec);
        let deployment = Deployment::start_with(spec, |_, settings| {
            settings.ledger.as_mut().unwrap().budgets = budgets;
            Ok(())
        });
        Self { deployment: deployment.await.unwrap(), ..self }
    }
}

/// The peer that serves an RPC; of several passive parties the first.
pub fn server_of(deployment: &Deployment, path: &str) -> Peer {
    match path {
        p if p.starts_with("/vfl.v1.PassiveParty/") => deployment.passive_peers().remove(0),
        p if p.starts_with("/vfl.v1.ActiveParty/") || p.starts_with("/inference.") => {
            deployment.active_peer()
        }
        _ => deployment.coordinator_peer(),
    }
}

/// Credentials of a role. The active party's are its own: sessions are for a party, not for a role.
pub fn credentials(deployment: &Deployment, role: Role) -> Credentials {
    match role {
        Role::ActiveParty => deployment.active_credentials.clone(),
        Role::Coordinator => deployment.credentials(role, "coordinator").unwrap(),
        Role::PassiveParty => deployment.credentials(role, "passive-1").unwrap(),
        Role::Auditor => deployment.credentials(role, "auditor").unwrap(),
    }
}

pub fn coordinator_client(deployment: &Deployment, role: Role) -> CoordinatorClient<Channel> {
    CoordinatorClient::new(
        channel(&credentials(deployment, role), &deployment.coordinator_peer()).unwrap(),
    )
    .max_decoding_message_size(MAX_MESSAGE_BYTES)
    .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// A client of the active party that takes bare messages.
pub fn active_client(deployment: &Deployment) -> ActivePartyClient<Channel> {
    ActivePartyClient::new(
        channel(&deployment.active_credentials, &deployment.active_peer()).unwrap(),
    )
    .max_decoding_message_size(MAX_MESSAGE_BYTES)
    .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// Asks the active party for scores.
pub async fn score(
    deployment: &Deployment,
    ids: &RecordIds,
) -> Result<pb::ScoreResponse, tonic::Status> {
    let request = pb::ScoreRequest { ids: Some(ids.into()), ..Default::default() };
    Ok(active_client(deployment).predict(request).await?.into_inner())
}

/// One process of a party that has several.
pub struct Process {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    pub task: tokio::task::JoinHandle<Result<(), String>>,
}

impl Process {
    pub async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}
