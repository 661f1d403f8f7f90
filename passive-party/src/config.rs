//! The passive party's config file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use vfl_shared::config::{ConfigError, ConfigFile, TlsFiles};
use vfl_shared::data::FeatureTable;
use vfl_shared::service::{Credentials, Role};

/// The file as it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Where parameters and the record of scorings are kept.
    pub state_dir: PathBuf,
    /// Certificates.
    pub tls: TlsFiles,
    /// Features.
    pub data: DataFiles,
    /// What parameters are released.
    #[serde(default)]
    pub release: ReleasePolicy,
    /// What audits are allowed.
    #[serde(default)]
    pub audit: AuditPolicy,
}

/// `[data]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFiles {
    /// Record ids and features.
    pub csv: PathBuf,
    /// What the columns are, and their public ranges.
    pub schema: PathBuf,
}

/// What a party is told of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Nothing: to that role the party is a black box.
    #[default]
    Nothing,
    /// The true parameters: a white box.
    TrueParameters,
}

/// `[release]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReleasePolicy {
    /// What the active party is told. Default nothing.
    pub to_active_party: Grant,
    /// What the coordinator is told, which needs the true parameters to place noise at the logits (`logit_noise`) and sees all
    /// scores anyway. Default nothing.
    pub to_coordinator: Grant,
}

/// `[audit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditPolicy {
    /// Whether the auditor may have reconstructions scored. Default false.
    pub allowed: bool,
    /// Scorings of one set of records, over the life of the state directory. Default 256.
    pub max_scorings: u32,
}

impl Default for AuditPolicy {
    fn default() -> Self {
        Self { allowed: false, max_scorings: 256 }
    }
}

/// Everything the passive party needs, checked. Tests and the demo build it without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who we are.
    pub credentials: Credentials,
    /// Where parameters and the record of scorings are kept.
    pub state_dir: PathBuf,
    /// The features.
    pub table: Arc<FeatureTable>,
    /// What parameters are released.
    pub release: ReleasePolicy,
    /// What audits are allowed.
    pub audit: AuditPolicy,
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
        let table =
            FeatureTable::from_csv(&v.data.schema, &v.data.csv).map_err(|e| file.error(format!("[data]: {e}")))?;
        if table.labels().is_some() {
            return Err(file.error("[data]: the schema declares a label; a passive party holds no labels"));
        }
        let settings = Self {
            credentials,
            state_dir: v.state_dir.clone(),
            table: Arc::new(table),
            release: v.release,
            audit: v.audit,
        };
        Ok((v.listen, settings))
    }
}
