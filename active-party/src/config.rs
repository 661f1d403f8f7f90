//! The active party's config file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use vfl_core::data::table::FeatureTable;
use vfl_core::data::{self, CsvDialect};
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{
    GENERALIZED_LINEAR, ModelConfig, TrainingConfig, TrainingMode, TrainingValues,
};
use vfl_features::features::Features;
use vfl_features::id_forms;
use vfl_features::stores::DataConfig;
use vfl_party::alignment::{OwnIds, common_ids};
use vfl_protocol::alignment::{MAX_RECORDS, Rules};
use vfl_server::cli::PartySettings;
use vfl_server::config::{ConfigError, ConfigFile, PeerAddress};
use vfl_server::monitoring::traces::TracesTable;
use vfl_server::monitoring::{MetricsTable, Monitoring};
use vfl_server::service::{Credentials, Limits, Peer, Role, TlsFiles};
use vfl_state::common_rules::CommonRules;
use vfl_state::state_dir::StateDir;
use vfl_state::{ShareStore, StateConfig, place_of_state};

use crate::fallback::{Fallback, FallbackTable};
use crate::own_service::OwnService;
use crate::training_labels::NumberSource;

/// The values in the config file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The directory of this party's parameters and records, unless there is `[state]`.
    pub state_dir: Option<PathBuf>,
    /// The database that several processes of this party share, in place of `state_dir`.
    pub state: Option<StateConfig>,
    /// The longest time that a peer may take to answer, in milliseconds. Default 30 000.
    #[serde(default = "default_peer_timeout_ms")]
    pub peer_timeout_ms: u64,
    /// The files of the certificates and the key.
    pub tls: TlsFiles,
    /// The limits on callers of this service.
    #[serde(default)]
    pub limits: Limits,
    /// The endpoint that serves metrics. Default none.
    #[serde(default)]
    pub metrics: MetricsTable,
    /// The receiver of the spans of predictions. Default none.
    #[serde(default)]
    pub traces: TracesTable,
    /// The features and labels.
    pub data: DataConfig,
    /// The coordinator.
    pub coordinator: PeerAddress,
    /// Passive parties that may be asked for the parameters they release, in an audit. Default
    /// none.
    #[serde(default)]
    pub passive_parties: Vec<PeerAddress>,
    /// The rights of auditors here.
    #[serde(default)]
    pub audit: AuditTable,
    /// The rules for alignments with passive parties.
    #[serde(default)]
    pub alignment: AlignmentTable,
    /// The training configuration.
    #[serde(default)]
    pub training: TrainingTable,
    /// The sub-model of each party, and the coordinator's combiner. Default softmax regression,
    /// summed.
    #[serde(default)]
    pub model: ModelConfig,
    /// The model of this party's own features, or the other service, that answers where the parties
    /// together cannot. Default none.
    pub fallback: Option<FallbackTable>,
    /// The running service, for the commands `train` and `predict`. Default: the address it listens
    /// on.
    pub client: Option<OwnService>,
}

fn default_peer_timeout_ms() -> u64 {
    30_000
}

/// The `[audit]` table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditTable {
    /// True if auditors may have attacks run here. Default false: an auditor learns which records
    /// this party holds, and uses its cores.
    pub allowed: bool,
    /// The minutes of attacks after which a call begins no further one: 1 to 10080. Default 240. An
    /// attack that has begun ends by itself, within an hour of one core.
    pub max_minutes: u64,
    /// Passive features of some records that this party knows, for attacks that learn from such
    /// records: ids and the features of all passive parties, in the order of the parties' names.
    /// `separator` and `decimal` of `[data]` are those of this file too. Default none.
    pub known_csv: Option<PathBuf>,
    /// The schema of `known_csv`, with the ranges that the owners of the columns declare.
    pub known_schema: Option<PathBuf>,
}

impl Default for AuditTable {
    fn default() -> Self {
        Self { allowed: false, max_minutes: 240, known_csv: None, known_schema: None }
    }
}

impl AuditTable {
    /// Returns the time that the attacks of a call may take.
    fn time(&self) -> Result<Duration, String> {
        match self.max_minutes {
            minutes @ 1..=10_080 => Ok(Duration::from_secs(60 * minutes)),
            minutes => Err(format!("max_minutes is {minutes}; it takes 1 to 10080")),
        }
    }

    /// Reads the known passive features, if there are any.
    fn known(&self, dialect: CsvDialect) -> Result<Option<FeatureTable>, String> {
        let (csv, schema) = match (&self.known_csv, &self.known_schema) {
            (None, None) => return Ok(None),
            (Some(csv), Some(schema)) => (csv, schema),
            _ => return Err("`known_csv` and `known_schema` come together".into()),
        };
        let table = FeatureTable::from_csv_with(schema, csv, dialect, &data::Limits::default());
        let table = table.map_err(|e| e.to_string())?;
        if table.labels().is_some() {
            return Err(
                "`known_schema` declares a label; known records are passive features alone".into(),
            );
        }
        Ok(Some(table))
    }
}

/// The `[alignment]` table: finding the records that a passive party holds too. The passive party
/// learns the same.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlignmentTable {
    /// True if this party aligns when its operator asks for it (`active-party align`). Default
    /// false: each run tells the passive party which ids of a list of its own choice are held here.
    pub allowed: bool,
    /// The number of runs with each passive party over the life of the state directory. A run that
    /// was cut off counts if it sent anything that depends on this party's ids. Default 1.
    pub max_runs: u32,
    /// The largest number of ids of either party. Default 10 000 000.
    pub max_records: u64,
    /// A file with the only ids that may be aligned, one a line. Default all records; if the
    /// features are behind an HTTP feature service, which cannot list them, the ids that
    /// `active-party align --ids` names. The file is read when a run begins.
    pub ids: Option<PathBuf>,
}

impl Default for AlignmentTable {
    fn default() -> Self {
        Self { allowed: false, max_runs: 1, max_records: MAX_RECORDS, ids: None }
    }
}

impl AlignmentTable {
    /// Returns the rules of a run. There is no least number of common ids here: the passive party
    /// has the result first and may ask for one.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules { max_runs: self.max_runs, max_records: self.max_records, least_common: 0, out: None }
    }

    /// Returns the ids to align, of the records with these features.
    #[must_use]
    pub fn own_ids(&self, features: &Features) -> OwnIds {
        OwnIds::new(features.clone(), self.ids.clone())
    }

    /// Checks the table, for a party with these features.
    ///
    /// # Errors
    /// A message that says what is wrong and how to mend it.
    pub fn check(&self, features: &Features) -> Result<(), String> {
        self.own_ids(features).check()?;
        self.rules().check()
    }
}

/// The `[training]` table: the values of a training configuration, and the records.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingTable {
    /// A file with the ids of the training records, one a line. Default: all records that have a
    /// label.
    pub train_ids: Option<PathBuf>,
    /// The way of computing: `"private"`, the default, on secret shares; or `"plain"`, to which
    /// every passive party must consent.
    pub mode: Option<TrainingMode>,
    /// As in [`TrainingValues`].
    pub epochs: u32,
    /// As in [`TrainingValues`].
    pub batch_size: u32,
    /// As in [`TrainingValues`].
    pub learning_rate: f64,
    /// As in [`TrainingValues`].
    pub l2: f64,
    /// As in [`TrainingValues`].
    pub validation_share: f64,
    /// As in [`TrainingValues`].
    pub patience: u32,
    /// As in [`TrainingValues`].
    pub seed: u64,
    /// As in [`TrainingValues`].
    pub shuffle_block: u32,
    /// Differential privacy of this party's parameters: see
    /// [`privacy`](vfl_core::model::privacy). Default none.
    pub privacy: Option<PrivacyConfig>,
}

impl Default for TrainingTable {
    fn default() -> Self {
        let v = TrainingValues::default();
        Self {
            train_ids: None,
            mode: None,
            epochs: v.epochs,
            batch_size: v.batch_size,
            learning_rate: v.learning_rate,
            l2: v.l2,
            validation_share: v.validation_share,
            patience: v.patience,
            seed: v.seed,
            shuffle_block: v.shuffle_block,
            privacy: None,
        }
    }
}

impl TrainingTable {
    /// Returns a notice if the table has settings of plain trainings and no mode, as tables were
    /// written before there were modes. `model` is what they train.
    #[must_use]
    pub fn notice(&self, model: &ModelConfig) -> Option<String> {
        let plain = TrainingValues::default();
        let network = matches!(model.private_layers(), Ok(Some(_)));
        let of_plain = [
            ("batch_size", self.batch_size != plain.batch_size && !network),
            ("learning_rate", (self.learning_rate - plain.learning_rate).abs() > 0.0),
            ("shuffle_block", self.shuffle_block != plain.shuffle_block),
        ];
        let unused: Vec<&str> =
            of_plain.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
        (self.mode.is_none() && !unused.is_empty()).then(|| {
            format!(
                "[training] names no `mode`, which is `private` by default: {} not used, and `l2` is of whitened features. \
                 `mode = \"private\"` says so; `mode = \"plain\"` trains as before, if every passive party consents",
                match &unused[..] {
                    [one] => format!("`{one}` is"),
                    several => format!("`{}` are", several.join("`, `")),
                }
            )
        })
    }

    fn checked(
        &self,
        model: &ModelConfig,
    ) -> Result<TrainingConfig, vfl_core::model::TrainingConfigError> {
        TrainingConfig::try_from(TrainingValues {
            mode: self.mode.unwrap_or(TrainingMode::Private),
            epochs: self.epochs,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            l2: self.l2,
            validation_share: self.validation_share,
            patience: self.patience,
            seed: self.seed,
            shuffle_block: self.shuffle_block,
            label_scale: None,
            model: model.clone(),
        })
    }
}

/// The checked settings of the active party. Tests and the demo build them without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The identity of this party, with its certificates.
    pub credentials: Credentials,
    /// The limits on callers of this service.
    pub limits: Limits,
    /// The metrics and traces of this party.
    pub monitoring: Monitoring,
    /// The place of this party's parameters and records.
    pub state_dir: StateDir,
    /// The features and labels.
    pub features: Features,
    /// The source of labels that are numbers, for trainings.
    pub numbers: Option<NumberSource>,
    /// The coordinator.
    pub coordinator: Peer,
    /// Passive parties that may be asked for the parameters they release.
    pub passive_parties: Vec<Peer>,
    /// The longest time that a peer may take to answer.
    pub peer_timeout: Duration,
    /// True if auditors may have attacks run.
    pub audits_allowed: bool,
    /// The time of attacks after which a call begins no further one.
    pub audit_time: Duration,
    /// Passive features of some records that this party knows: those of all passive parties, in the
    /// order of the parties' names.
    pub known: Option<Arc<FeatureTable>>,
    /// The differential privacy of this party's parameters in trainings.
    pub privacy: Option<PrivacyConfig>,
    /// The rules for alignments with passive parties.
    pub alignment: AlignmentTable,
    /// The model or the service that answers where the parties together cannot.
    pub fallback: Option<Arc<Fallback>>,
}

/// The settings of the commands `train` and `predict`, which are clients of the running service.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The identity of this party, with its certificates.
    pub credentials: Credentials,
    /// The running service.
    pub service: Peer,
    /// The training configuration.
    pub training: TrainingConfig,
    /// True if answers may be those of a fallback.
    pub fallback: bool,
    /// A notice on the training configuration, for who wrote it before there were modes.
    pub notice: Option<String>,
    /// The file with the ids of the training records.
    pub train_ids: Option<PathBuf>,
}

impl Settings {
    /// Reads and checks a config file and the data it names. Returns the address to listen on, too.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key, or the data file, line and column.
    pub fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError> {
        let file = ConfigFile::<ConfigValues>::read(path)?;
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::ActiveParty)?;
        let features = v.data.open().map_err(|e| file.error(format!("[data]: {e}")))?;
        let outputs = features.schema().output_names();
        if outputs.is_empty() {
            return Err(file
                .error("[data]: the schema declares no label; the active party holds the labels"));
        }
        let classes = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        v.model.sub_model(classes).map_err(|e| file.error(format!("[model]: {e}")))?;
        v.training.checked(&v.model).map_err(|e| file.error(format!("[training]: {e}")))?;
        v.alignment.check(&features).map_err(|e| file.error(format!("[alignment]: {e}")))?;
        let known =
            v.audit.known(v.data.dialect()).map_err(|e| file.error(format!("[audit]: {e}")))?;
        let name = credentials.identity().name().clone();
        let own = |address| Peer { role: Role::ActiveParty, name, address };
        let fallback =
            v.fallback.as_ref().map(|table| Fallback::read(table, features.schema(), own));
        let fallback = fallback.transpose().map_err(|e| file.error(format!("[fallback]: {e}")))?;
        let service = v.fallback.as_ref().and_then(|table| table.service.as_ref());
        if service.is_some_and(|service| service.address == v.listen.to_string()) {
            return Err(file.error("[fallback] service: it is this very service's address"));
        }
        let state_dir =
            place_of_state(v.state_dir.as_deref(), v.state.as_ref(), credentials.identity().name());
        let state_dir = state_dir.map_err(|e| file.error(e))?;
        if v.peer_timeout_ms == 0 {
            return Err(file.error("peer_timeout_ms must be at least 1"));
        }
        let settings = Self {
            credentials,
            limits: file.limits(&v.limits)?,
            monitoring: file.monitoring(&v.metrics, &v.traces, v.listen)?,
            state_dir,
            features,
            coordinator: v.coordinator.peer(Role::Coordinator),
            passive_parties: v.passive_parties.iter().map(|p| p.peer(Role::PassiveParty)).collect(),
            peer_timeout: Duration::from_millis(v.peer_timeout_ms),
            audits_allowed: v.audit.allowed,
            audit_time: v.audit.time().map_err(|e| file.error(format!("[audit] {e}")))?,
            known: known.map(Arc::new),
            privacy: v.training.privacy,
            alignment: v.alignment.clone(),
            fallback: fallback.map(Arc::new),
            numbers: (v.model.kind() == GENERALIZED_LINEAR)
                .then(|| NumberSource::Data(Box::new(v.data.clone()))),
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

    fn state_dir(&self) -> StateDir {
        self.state_dir.clone()
    }

    fn remarks(&self) -> Vec<String> {
        let warnings = ShareStore::of_other_schemas(&self.state_dir, self.features.schema());
        let warnings = warnings.iter().map(|line| format!("warning: {line}"));
        let forms = self.features.memory().map(|table| id_forms(table.ids()));
        warnings.chain(forms).chain(common_ids(&self.state_dir)).collect()
    }

    /// Returns everything but addresses, certificates and files, of which each process has its own.
    fn rules(&self) -> CommonRules {
        let alignment = AlignmentTable { ids: None, ..self.alignment.clone() };
        let fallback = self.fallback.as_ref().map(|fallback| ("[fallback]", fallback.rules()));
        let rules = [
            ("the schema of [data]", format!("{:?}", self.features.schema())),
            ("[audit] allowed", format!("{:?}", self.audits_allowed)),
            ("[training.privacy]", format!("{:?}", self.privacy)),
            ("[alignment]", format!("{alignment:?}")),
        ];
        CommonRules::new(rules.into_iter().chain(fallback))
    }

    async fn reach(&self) -> Result<(), String> {
        self.features.check().await.map_err(|e| format!("[data]: {e}"))?;
        match &self.numbers {
            Some(numbers) => numbers.check().await.map_err(|e| format!("[data]: the label: {e}")),
            None => Ok(()),
        }
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
        let training =
            v.training.checked(&v.model).map_err(|e| file.error(format!("[training]: {e}")))?;
        Ok(Self {
            service: Peer { role: Role::ActiveParty, name, address },
            credentials,
            training,
            fallback: v.fallback.is_some(),
            notice: v.training.notice(&v.model),
            train_ids: v.training.train_ids.clone(),
        })
    }
}
