//! The active party's config file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use vfl_shared::cli::PartySettings;
use vfl_shared::config::{ConfigError, ConfigFile, Limits, PeerAddress, TlsFiles};
use vfl_shared::data::{FeatureStore, FeatureTable};
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::model::{ModelConfig, TrainingConfig, TrainingValues};
use vfl_shared::service::{Credentials, Peer, Role};

/// The file as it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Where this party's parameters are kept.
    pub state_dir: PathBuf,
    /// How long a peer may take to answer, in milliseconds. Default 30 000.
    #[serde(default = "default_peer_timeout_ms")]
    pub peer_timeout_ms: u64,
    /// Certificates.
    pub tls: TlsFiles,
    /// What callers may hold of this service.
    #[serde(default)]
    pub limits: Limits,
    /// Features and labels.
    pub data: DataFiles,
    /// The coordinator.
    pub coordinator: PeerAddress,
    /// Passive parties that may be asked for the parameters they release, in an audit. Default none.
    #[serde(default)]
    pub passive_parties: Vec<PeerAddress>,
    /// What auditors may do here.
    #[serde(default)]
    pub audit: AuditTable,
    /// How models are trained.
    #[serde(default)]
    pub training: TrainingTable,
    /// What each party trains, and how the coordinator combines it. Default softmax regression, summed.
    #[serde(default)]
    pub model: ModelConfig,
    /// Where the commands `train` and `predict` find the running service. Default: the address it listens on.
    pub client: Option<ClientTable>,
}

fn default_peer_timeout_ms() -> u64 {
    30_000
}

/// `[data]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFiles {
    /// Record ids, features and labels.
    pub csv: PathBuf,
    /// What the columns are, and their public ranges.
    pub schema: PathBuf,
}

/// `[audit]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditTable {
    /// Whether auditors may have attacks run here. Default false: an auditor learns whom this party holds, and uses its cores.
    pub allowed: bool,
    /// Passive features that this party knows of some records, for attacks that learn from such records: ids and the features of all
    /// passive parties, in the order of the parties' names. Default none.
    pub known_csv: Option<PathBuf>,
    /// What the columns of `known_csv` are, with the ranges that their owners declare.
    pub known_schema: Option<PathBuf>,
}

impl AuditTable {
    /// Reads what this party knows.
    fn known(&self) -> Result<Option<FeatureTable>, String> {
        let (csv, schema) = match (&self.known_csv, &self.known_schema) {
            (None, None) => return Ok(None),
            (Some(csv), Some(schema)) => (csv, schema),
            _ => return Err("`known_csv` and `known_schema` come together".into()),
        };
        let table = FeatureTable::from_csv(schema, csv).map_err(|e| e.to_string())?;
        if table.labels().is_some() {
            return Err("`known_schema` declares a label; known records are passive features alone".into());
        }
        Ok(Some(table))
    }
}

/// `[training]`: the values of a training configuration, and the records.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingTable {
    /// A file with the ids of the training records, one a line. Default: all records that have a label.
    pub train_ids: Option<PathBuf>,
    /// See [`TrainingValues`].
    pub epochs: u32,
    /// See [`TrainingValues`].
    pub batch_size: u32,
    /// See [`TrainingValues`].
    pub learning_rate: f64,
    /// See [`TrainingValues`].
    pub l2: f64,
    /// See [`TrainingValues`].
    pub validation_share: f64,
    /// See [`TrainingValues`].
    pub patience: u32,
    /// See [`TrainingValues`].
    pub seed: u64,
    /// Differential privacy of this party's parameters: see [`privacy`](vfl_shared::model::privacy). Default none.
    pub privacy: Option<PrivacyConfig>,
}

impl Default for TrainingTable {
    fn default() -> Self {
        let v = TrainingValues::default();
        Self {
            train_ids: None,
            epochs: v.epochs,
            batch_size: v.batch_size,
            learning_rate: v.learning_rate,
            l2: v.l2,
            validation_share: v.validation_share,
            patience: v.patience,
            seed: v.seed,
            privacy: None,
        }
    }
}

impl TrainingTable {
    fn checked(&self, model: &ModelConfig) -> Result<TrainingConfig, vfl_shared::model::TrainingConfigError> {
        TrainingConfig::try_from(TrainingValues {
            epochs: self.epochs,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            l2: self.l2,
            validation_share: self.validation_share,
            patience: self.patience,
            seed: self.seed,
            model: model.clone(),
        })
    }
}

/// `[client]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTable {
    /// `host:port` of the running service.
    pub address: String,
}

/// Everything the active party needs, checked. Tests and the demo build it without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who we are.
    pub credentials: Credentials,
    /// What callers may hold of this service.
    pub limits: Limits,
    /// Where this party's parameters are kept.
    pub state_dir: PathBuf,
    /// Features and labels.
    pub table: Arc<FeatureTable>,
    /// The coordinator.
    pub coordinator: Peer,
    /// Passive parties that may be asked for the parameters they release.
    pub passive_parties: Vec<Peer>,
    /// How long a peer may take to answer.
    pub peer_timeout: Duration,
    /// Whether auditors may have attacks run.
    pub audits_allowed: bool,
    /// Passive features that this party knows of some records: of all passive parties, in the order of the parties' names.
    pub known: Option<Arc<FeatureTable>>,
    /// How this party keeps its parameters private in trainings.
    pub privacy: Option<PrivacyConfig>,
}

/// What the commands `train` and `predict` need: they are clients of the running service.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Who we are.
    pub credentials: Credentials,
    /// The running service.
    pub service: Peer,
    /// How models are trained.
    pub training: TrainingConfig,
    /// The file with the ids of the training records.
    pub train_ids: Option<PathBuf>,
}

impl Settings {
    /// Reads and checks a config file and the data it names, and gives the address to listen on with it.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key, or the data file, line and column.
    pub fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError> {
        let file = ConfigFile::<ConfigValues>::read(path)?;
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::ActiveParty)?;
        let table =
            FeatureTable::from_csv(&v.data.schema, &v.data.csv).map_err(|e| file.error(format!("[data]: {e}")))?;
        let (Some(_), Some(label)) = (table.labels(), table.schema().label()) else {
            return Err(file.error("[data]: the schema declares no label; the active party holds the labels"));
        };
        let classes = u32::try_from(label.classes.len()).unwrap_or(u32::MAX);
        v.model.sub_model(classes).map_err(|e| file.error(format!("[model]: {e}")))?;
        v.training.checked(&v.model).map_err(|e| file.error(format!("[training]: {e}")))?;
        let known = v.audit.known().map_err(|e| file.error(format!("[audit]: {e}")))?;
        if v.peer_timeout_ms == 0 {
            return Err(file.error("peer_timeout_ms must be at least 1"));
        }
        let settings = Self {
            credentials,
            limits: file.limits(&v.limits)?,
            state_dir: v.state_dir.clone(),
            table: Arc::new(table),
            coordinator: v.coordinator.peer(Role::Coordinator),
            passive_parties: v.passive_parties.iter().map(|p| p.peer(Role::PassiveParty)).collect(),
            peer_timeout: Duration::from_millis(v.peer_timeout_ms),
            audits_allowed: v.audit.allowed,
            known: known.map(Arc::new),
            privacy: v.training.privacy,
        };
        Ok((v.listen, settings))
    }
}

impl PartySettings for Settings {
    fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError> {
        Self::read(path)
    }

    fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    fn state_dir(&self) -> &Path {
        &self.state_dir
    }
}

impl ClientSettings {
    /// Reads what a client needs from the same config file, without the data.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = ConfigFile::<ConfigValues>::read(path)?;
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::ActiveParty)?;
        let address = v.client.as_ref().map_or_else(|| v.listen.to_string(), |c| c.address.clone());
        let name = credentials.identity().name().clone();
        let training = v.training.checked(&v.model).map_err(|e| file.error(format!("[training]: {e}")))?;
        Ok(Self {
            service: Peer { role: Role::ActiveParty, name, address },
            credentials,
            training,
            train_ids: v.training.train_ids.clone(),
        })
    }
}
