//! The coordinator's config file.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use vfl_shared::config::{ConfigError, ConfigFile, PeerAddress, TlsFiles};
use vfl_shared::service::{Credentials, Peer, Role};

use crate::defense::DefenseConfig;

/// The file as it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Where published models are kept.
    pub state_dir: PathBuf,
    /// How long a passive party may take to answer, in milliseconds. Default 10 000.
    #[serde(default = "default_peer_timeout_ms")]
    pub peer_timeout_ms: u64,
    /// Certificates.
    pub tls: TlsFiles,
    /// The passive parties, at least one.
    pub passive_parties: Vec<PeerAddress>,
    /// What training is allowed.
    #[serde(default)]
    pub training: TrainingPolicy,
    /// The defense of the live service. Default none.
    #[serde(default)]
    pub defense: DefenseConfig,
    /// What serving allows.
    #[serde(default)]
    pub serving: ServingPolicy,
    /// What audits are allowed.
    #[serde(default)]
    pub audit: AuditPolicy,
}

fn default_peer_timeout_ms() -> u64 {
    10_000
}

/// `[training]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingPolicy {
    /// Whether the active party may train at all. Default false: training tells passive parties the labels of the training
    /// records and the active party their scores.
    pub allowed: bool,
    /// How long a party may take for one step, in seconds. Default 30.
    pub step_timeout_s: u64,
}

impl Default for TrainingPolicy {
    fn default() -> Self {
        Self { allowed: false, step_timeout_s: 30 }
    }
}

/// `[serving]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServingPolicy {
    /// Whether records that the model was trained on are served. Default false.
    pub training_records: bool,
}

/// `[audit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditPolicy {
    /// Whether the auditor may open sessions. Default false: a session lets the active party see the named records under
    /// the named defense, which may be none.
    pub allowed: bool,
    /// Sessions open at once. Default 16.
    pub max_sessions: usize,
    /// Records of one session, at least 100. Default 100 000.
    pub max_records: usize,
    /// Rows a session answers, as a multiple of its records. Default 4.
    pub rows_per_record: u64,
    /// How long a session stays open, in seconds. Default 3600.
    pub session_lifetime_s: u64,
}

impl Default for AuditPolicy {
    fn default() -> Self {
        Self { allowed: false, max_sessions: 16, max_records: 100_000, rows_per_record: 4, session_lifetime_s: 3600 }
    }
}

/// Everything the coordinator needs, checked. Tests and the demo build it without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who we are.
    pub credentials: Credentials,
    /// Where published models are kept.
    pub state_dir: PathBuf,
    /// The passive parties, ordered by name: the order in which shares are summed.
    pub passive_parties: Vec<Peer>,
    /// How long a passive party may take to answer.
    pub peer_timeout: Duration,
    /// What training is allowed.
    pub training: TrainingPolicy,
    /// The defense of the live service.
    pub defense: DefenseConfig,
    /// What serving allows.
    pub serving: ServingPolicy,
    /// What audits are allowed.
    pub audit: AuditPolicy,
}

impl Settings {
    /// Reads and checks a config file, and gives the address to listen on with it.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key.
    pub fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError> {
        let file = ConfigFile::<ConfigValues>::read(path)?;
        let credentials = file.credentials(&file.values.tls, Role::Coordinator)?;
        let v = &file.values;
        if v.passive_parties.is_empty() {
            return Err(file.error("[[passive_parties]] is empty; name at least one"));
        }
        let mut names = HashSet::new();
        if let Some(twice) = v.passive_parties.iter().find(|p| !names.insert(&p.name)) {
            return Err(file.error(format!("passive party `{}` stands in [[passive_parties]] twice", twice.name)));
        }
        v.defense.build().map_err(|e| file.error(format!("[defense]: {e}")))?;
        if v.peer_timeout_ms == 0 || v.training.step_timeout_s == 0 {
            return Err(file.error("peer_timeout_ms and step_timeout_s must be at least 1"));
        }
        let mut passive_parties: Vec<Peer> = v.passive_parties.iter().map(|p| p.peer(Role::PassiveParty)).collect();
        passive_parties.sort_by(|a, b| a.name.cmp(&b.name));
        let settings = Self {
            credentials,
            state_dir: v.state_dir.clone(),
            passive_parties,
            peer_timeout: Duration::from_millis(v.peer_timeout_ms),
            training: v.training,
            defense: v.defense.clone(),
            serving: v.serving,
            audit: v.audit,
        };
        Ok((v.listen, settings))
    }
}
