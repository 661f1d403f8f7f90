//! The passive party's config file.

mod alignment;
mod audit;
mod release;
mod training;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vfl_shared::alignment::common_ids;
use vfl_shared::cli::PartySettings;
use vfl_shared::common_rules::CommonRules;
use vfl_shared::config::{ConfigError, ConfigFile, Limits, MetricsTable, TlsFiles, TracesTable};
use vfl_shared::data::{Features, id_forms};
use vfl_shared::model::ShareStore;
use vfl_shared::monitoring::Monitoring;
use vfl_shared::service::{Credentials, Role};
use vfl_shared::state_dir::StateDir;
use vfl_stores::{DataConfig, StateConfig, place_of_state};

pub use alignment::AlignmentTable;
pub use audit::{AuditMode, AuditPolicy};
pub use release::{Grant, ReleasePolicy, check_release};
pub use training::{StartFrom, TrainingPolicy, check_training};

use crate::collusion::{Collusion, CollusionTable};
use crate::training_map;

/// The file as it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Where parameters and the record of scorings are kept: a folder, which one process has. Needed without `state`.
    pub state_dir: Option<PathBuf>,
    /// The same in a database, which several processes share.
    pub state: Option<StateConfig>,
    /// Certificates.
    pub tls: TlsFiles,
    /// What callers may hold of this service.
    #[serde(default)]
    pub limits: Limits,
    /// Where metrics are served. Default nowhere.
    #[serde(default)]
    pub metrics: MetricsTable,
    /// Where spans of predictions are sent. Default nowhere.
    #[serde(default)]
    pub traces: TracesTable,
    /// Features.
    pub data: DataConfig,
    /// What parameters are released.
    #[serde(default)]
    pub release: ReleasePolicy,
    /// What trainings this party takes part in, and on what.
    #[serde(default)]
    pub training: TrainingPolicy,
    /// What audits are allowed.
    #[serde(default)]
    pub audit: AuditPolicy,
    /// Who gets logit shares of this party's records.
    #[serde(default)]
    pub collusion: CollusionTable,
    /// With whom records are aligned.
    #[serde(default)]
    pub alignment: AlignmentTable,
}

/// Everything the passive party needs, checked. Tests and the demo build it without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who we are.
    pub credentials: Credentials,
    /// What callers may hold of this service.
    pub limits: Limits,
    /// Who is told how this party does.
    pub monitoring: Monitoring,
    /// Where parameters and the record of scorings are kept.
    pub state_dir: StateDir,
    /// The features.
    pub features: Features,
    /// What parameters are released.
    pub release: ReleasePolicy,
    /// What trainings this party takes part in, and on what.
    pub training: TrainingPolicy,
    /// What audits are allowed.
    pub audit: AuditPolicy,
    /// Who gets logit shares of this party's records.
    pub collusion: Collusion,
    /// With whom records are aligned.
    pub alignment: AlignmentTable,
}

impl Settings {
    /// Reads and checks a config file and the data it names, and gives the address to listen on with it.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key, or the data file, line and column.
    pub fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError> {
        let file = ConfigFile::<ConfigValues>::read(path)?;
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::PassiveParty)?;
        let features = v.data.open().map_err(|e| file.error(format!("[data]: {e}")))?;
        if features.schema().label().is_some() {
            return Err(file.error("[data]: the schema declares a label; a passive party holds no labels"));
        }
        let width = features.schema().len();
        if width == 0 {
            return Err(file.error("[data]: the schema declares no feature; a passive party has at least one"));
        }
        check_release(&v.release, width).map_err(|e| file.error(format!("[release]: {e}")))?;
        check_training(&v.training).map_err(|e| file.error(format!("[training]: {e}")))?;
        v.audit.check().map_err(|e| file.error(format!("[audit]: {e}")))?;
        v.alignment.check(&features).map_err(|e| file.error(format!("[alignment]: {e}")))?;
        let state_dir = place_of_state(v.state_dir.as_deref(), v.state.as_ref(), credentials.identity().name());
        let state_dir = state_dir.map_err(|e| file.error(e))?;
        // A database is looked at by the service: what is there changes without this file.
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
            training: v.training.clone(),
            audit: v.audit,
            collusion: v.collusion.read().map_err(|e| file.error(format!("[collusion]: {e}")))?,
            alignment: v.alignment.clone(),
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

    /// All but addresses, certificates and files, of which each process has its own.
    fn rules(&self) -> CommonRules {
        let alignment = AlignmentTable { out: None, ids: None, ..self.alignment.clone() };
        CommonRules::new([
            ("the schema of [data]", format!("{:?}", self.features.schema())),
            ("[release]", format!("{:?}", self.release)),
            ("[training]", format!("{:?}", self.training)),
            ("[audit]", format!("{:?}", self.audit)),
            ("[collusion]", self.collusion.words()),
            ("[alignment]", format!("{alignment:?}")),
        ])
    }

    async fn reach(&self) -> Result<(), String> {
        if self.state_dir.folder().is_none() {
            let (transform, width) = (&self.training.transform, self.features.schema().len());
            training_map::check(&self.state_dir, transform, width).map_err(|e| format!("[training]: {e}"))?;
        }
        self.features.check().await.map_err(|e| format!("[data]: {e}"))
    }
}
