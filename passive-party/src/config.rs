//! The passive party's config file.

mod alignment;
mod audit;
mod release;
mod serving;
mod training;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use vfl_features::features::Features;
use vfl_features::id_forms;
use vfl_features::stores::DataConfig;
use vfl_party::alignment::common_ids;
use vfl_server::cli::PartySettings;
use vfl_server::config::{ConfigError, ConfigFile};
use vfl_server::monitoring::traces::TracesTable;
use vfl_server::monitoring::{MetricsTable, Monitoring};
use vfl_server::service::{Credentials, Limits, Role, TlsFiles};
use vfl_state::common_rules::CommonRules;
use vfl_state::state_dir::StateDir;
use vfl_state::{ShareStore, StateConfig, place_of_state};

pub use alignment::AlignmentTable;
pub use audit::{AuditMode, AuditPolicy};
pub use release::{Grant, ReleasePolicy, check_release};
pub use serving::ServingPolicy;
pub use training::{PLAIN_CONSENT, StartFrom, TrainingPolicy, check_training};

use crate::collusion::{Collusion, CollusionTable};
use crate::record_outputs::RecordOutputs;
use crate::training_map;

/// The values in the config file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The folder of the parameters and of the record of scorings, for one process. Needed without
    /// `state`.
    pub state_dir: Option<PathBuf>,
    /// The database of the same, which several processes share.
    pub state: Option<StateConfig>,
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
    /// The features of this party.
    pub data: DataConfig,
    /// The rules for the release of parameters.
    #[serde(default)]
    pub release: ReleasePolicy,
    /// The part that this party takes in predictions.
    #[serde(default)]
    pub serving: ServingPolicy,
    /// The rules for trainings, and the transform of the features.
    #[serde(default)]
    pub training: TrainingPolicy,
    /// The rules for audits.
    #[serde(default)]
    pub audit: AuditPolicy,
    /// The active parties that get logit shares of this party's records.
    #[serde(default)]
    pub collusion: CollusionTable,
    /// The rules for alignments.
    #[serde(default)]
    pub alignment: AlignmentTable,
}

/// The checked settings of the passive party. Tests and the demo build them without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The identity of this party, with its certificates.
    pub credentials: Credentials,
    /// The limits on callers of this service.
    pub limits: Limits,
    /// The metrics and traces of this party.
    pub monitoring: Monitoring,
    /// The place of the parameters and of the record of scorings.
    pub state_dir: StateDir,
    /// The features of this party.
    pub features: Features,
    /// The rules for the release of parameters.
    pub release: ReleasePolicy,
    /// The part that this party takes in predictions.
    pub serving: ServingPolicy,
    /// The rules for trainings, and the transform of the features.
    pub training: TrainingPolicy,
    /// The rules for audits.
    pub audit: AuditPolicy,
    /// The active parties that get logit shares of this party's records.
    pub collusion: Collusion,
    /// The rules for alignments.
    pub alignment: AlignmentTable,
    /// Outputs that another program computed; in processes of the lab alone.
    pub outputs: Option<Arc<RecordOutputs>>,
}

impl Settings {
    /// Reads and checks a config file and the data it names. Returns the address to listen on, too.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key, or the data file, line and column.
    pub fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError> {
        let file = ConfigFile::<ConfigValues>::read(path)?;
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::PassiveParty)?;
        let features = v.data.open().map_err(|e| file.error(format!("[data]: {e}")))?;
        if !features.schema().output_names().is_empty() {
            return Err(
                file.error("[data]: the schema declares a label; a passive party holds no labels")
            );
        }
        let width = features.schema().len();
        if width == 0 {
            return Err(file.error(
                "[data]: the schema declares no feature; a passive party has at least one",
            ));
        }
        check_release(&v.release, width).map_err(|e| file.error(format!("[release]: {e}")))?;
        v.serving.check().map_err(|e| file.error(format!("[serving]: {e}")))?;
        check_training(&v.training).map_err(|e| file.error(format!("[training]: {e}")))?;
        v.audit.check().map_err(|e| file.error(format!("[audit]: {e}")))?;
        v.alignment.check(&features).map_err(|e| file.error(format!("[alignment]: {e}")))?;
        let state_dir =
            place_of_state(v.state_dir.as_deref(), v.state.as_ref(), credentials.identity().name());
        let state_dir = state_dir.map_err(|e| file.error(e))?;
        // The service checks a database: its content changes without this file.
        let map = match state_dir.folder() {
            Some(folder) => training_map::check(folder, &v.training.transform, width),
            None => training_map::possible(&v.training.transform, width).map_err(Into::into),
        };
        map.map_err(|e| file.error(format!("[training]: {e}")))?;
        let settings = Self {
            credentials,
            limits: file.limits(&v.limits)?,
            monitoring: file.monitoring(&v.metrics, &v.traces, v.listen)?,
            state_dir,
            features,
            release: v.release.clone(),
            serving: v.serving.clone(),
            training: v.training.clone(),
            audit: v.audit,
            collusion: v.collusion.read().map_err(|e| file.error(format!("[collusion]: {e}")))?,
            alignment: v.alignment.clone(),
            outputs: None,
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
        let alignment = AlignmentTable { out: None, ids: None, ..self.alignment.clone() };
        CommonRules::new([
            ("the schema of [data]", format!("{:?}", self.features.schema())),
            ("[release]", format!("{:?}", self.release)),
            ("[serving]", format!("{:?}", self.serving)),
            ("[training]", format!("{:?}", self.training)),
            ("[audit]", format!("{:?}", self.audit)),
            ("[collusion]", self.collusion.words()),
            ("[alignment]", format!("{alignment:?}")),
        ])
    }

    async fn reach(&self) -> Result<(), String> {
        if self.state_dir.folder().is_none() {
            let (transform, width) = (&self.training.transform, self.features.schema().len());
            training_map::check(&self.state_dir, transform, width)
                .map_err(|e| format!("[training]: {e}"))?;
        }
        self.features.check().await.map_err(|e| format!("[data]: {e}"))
    }
}
