//! The coordinator's config file.

mod one_or_many;

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use vfl_core::model::MAX_PASSIVE_PARTIES;
use vfl_core::types::PartyName;
use vfl_defense::policy::BOUND_ASSUMES;
use vfl_party::computation::release::{PrivateRelease, ServingMode};
use vfl_server::cli::PartySettings;
use vfl_server::config::{ConfigError, ConfigFile, PeerAddress};
use vfl_server::monitoring::traces::TracesTable;
use vfl_server::monitoring::{MetricsTable, Monitoring};
use vfl_server::service::{Credentials, Limits, Peer, Role, TlsFiles};
use vfl_state::state_dir::StateDir;

pub use crate::ledger::{Budgets, LedgerConfig};
use vfl_defense::{DefenseConfig, Pipeline, Policy};

use one_or_many::one_or_many;

/// The values of the config file, not yet checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigValues {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Directory of the published models.
    pub state_dir: PathBuf,
    /// Longest time for a passive party to answer, in milliseconds. Default 10 000.
    #[serde(default = "default_peer_timeout_ms")]
    pub peer_timeout_ms: u64,
    /// The files of the party's certificate, its key and its certificate authority.
    pub tls: TlsFiles,
    /// The limits on what callers may hold of this service.
    #[serde(default)]
    pub limits: Limits,
    /// The endpoint that serves metrics. Default none.
    #[serde(default)]
    pub metrics: MetricsTable,
    /// The collector that receives spans of predictions. Default none.
    #[serde(default)]
    pub traces: TracesTable,
    /// The passive parties, at least one.
    pub passive_parties: Vec<PeerAddress>,
    /// The active party this coordinator serves, by the name in its certificate. Default: the first
    /// one to publish a model.
    pub active_party: Option<PartyName>,
    /// Permission and limits of training.
    #[serde(default)]
    pub training: TrainingPolicy,
    /// Permission to publish imported parameters.
    #[serde(default)]
    pub publishing: PublishingPolicy,
    /// The defenses of the live service: one table, `[defense]`, or several in order,
    /// `[[defense]]`. Default none.
    #[serde(default, deserialize_with = "one_or_many")]
    pub defense: Vec<DefenseConfig>,
    /// Restrictions on the live service.
    #[serde(default)]
    pub serving: ServingPolicy,
    /// The settings of the query ledger.
    #[serde(default)]
    pub ledger: LedgerValues,
    /// The budgets of each active party. Each limit has a default; `"unlimited"` lifts it.
    #[serde(default)]
    pub budget: Budgets,
    /// The release of the coordinator's own parameters.
    #[serde(default)]
    pub release: TopRelease,
    /// Permission and limits of audits.
    #[serde(default)]
    pub audit: AuditPolicy,
}

fn default_peer_timeout_ms() -> u64 {
    10_000
}

/// The `[training]` table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingPolicy {
    /// True if the active party may train. Default false: a training uses the records of all
    /// parties, and a plain one tells them much.
    pub allowed: bool,
    /// Longest time for one step of a party, in seconds. Default 30.
    pub step_timeout_s: u64,
    /// The passive party that computes in private trainings and private releases, with the active
    /// party and this coordinator. Default the first.
    pub computing_party: Option<PartyName>,
    /// True to ask for logit shares of some records at the end of a private training: `ranking`,
    /// `codebook` and `purifier` are fitted on them. Every passive party must consent. Default
    /// false.
    pub calibration: bool,
}

impl Default for TrainingPolicy {
    fn default() -> Self {
        Self { allowed: false, step_timeout_s: 30, computing_party: None, calibration: false }
    }
}

/// The `[publishing]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PublishingPolicy {
    /// True if the active party may have imported parameters published, without any training.
    /// Default true: publishing reveals nothing, and every passive party's operator must have
    /// staged its part for this active party.
    pub allowed: bool,
}

impl Default for PublishingPolicy {
    fn default() -> Self {
        Self { allowed: true }
    }
}

/// The `[serving]` table.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServingPolicy {
    /// The way in which answers are computed. Default `"plain"`: the coordinator sums the logits of
    /// all parties. Under `"private"` it sees none: the active party, this coordinator and one
    /// passive party (`computing_party` in `[training]`) compute on shares.
    pub mode: ServingMode,
    /// True if records that the model was trained on are served. Default false.
    pub training_records: bool,
    /// Most bits of a record that `[defense]` may tell ([`Policy::leakage`]), above 0. Default no
    /// limit. A policy without a finite bound, or with a greater one for the classes of the model,
    /// is not served.
    pub max_bits: Option<f64>,
    /// `bits_per_record` in `[budget]`: no answer would be granted under a policy beyond it.
    #[serde(skip)]
    pub budget: Option<f64>,
}

impl ServingPolicy {
    /// Returns these restrictions with the budget of bits of `budgets`.
    #[must_use]
    pub fn within(self, budgets: &Budgets) -> Self {
        Self { budget: budgets.bits_per_record, ..self }
    }

    /// Checks that a policy keeps to `max_bits`, and to the budget of bits, for a model of
    /// `classes` classes.
    ///
    /// # Errors
    /// A message with the bits that the policy tells, the limit, and settings that keep to it.
    pub fn check_bits(&self, policy: &Policy, classes: usize) -> Result<(), String> {
        let told = policy.leakage(classes);
        let limits = [
            ("max_bits", "[serving]", self.max_bits),
            ("bits_per_record", "[budget]", self.budget),
        ];
        let beyond = limits.iter().find_map(|(key, section, most)| {
            most.filter(|most| told.bits().is_none_or(|bits| bits > *most))
                .map(|most| (key, section, most))
        });
        let Some((key, section, most)) = beyond else { return Ok(()) };
        let fits = DefenseConfig::all_within_bits(classes, most);
        let fits = match fits.as_slice() {
            [] if classes == 1 => format!(
                "`bins` with a `count` of at most {} does",
                most.exp2().clamp(1.0, 1e6).floor()
            ),
            [] => "no defense does; raise it".to_owned(),
            some => format!(
                "these do: {}",
                some.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            ),
        };
        let of = if classes == 1 { "a number".to_owned() } else { format!("{classes} classes") };
        Err(format!(
            "[defense] `{policy}` does not keep to `{key} = {most}` in {section} for {of}: {told}; {fits}"
        ))
    }
}

/// The part of a top model that a role is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopGrant {
    /// The role is shown nothing.
    #[default]
    Nothing,
    /// The role is shown all parameters, as they are.
    TrueParameters,
}

/// The `[release]` table: the release of the top model, the coordinator's own part of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopRelease {
    /// The grant to the active party. Default nothing. With the passive parties' parameters, the
    /// top model turns scores back into features (SECURITY.md).
    pub to_active_party: TopGrant,
}

/// The `[ledger]` table.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerValues {
    /// True if a ledger is kept. Default true: without one there are no budgets, and shares are not
    /// bound.
    pub kept: bool,
    /// The ledger's URL, `sqlite:PATH` or `postgres://…`. Default a SQLite file in the state
    /// directory.
    pub url: Option<String>,
    /// Time for which a request id is remembered, in hours. Default 24.
    pub request_memory_h: u64,
    /// True if several coordinators of one name use the ledger at the same time, PostgreSQL only.
    /// Default false.
    pub shared: bool,
}

impl std::fmt::Debug for LedgerValues {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerValues(kept: {}, request ids for {} h)", self.kept, self.request_memory_h)
    }
}

impl Default for LedgerValues {
    fn default() -> Self {
        Self { kept: true, url: None, request_memory_h: 24, shared: false }
    }
}

impl LedgerValues {
    /// Returns the ledger's config; `None` if no ledger is kept.
    #[must_use]
    pub fn config(&self, state_dir: &Path, budgets: Budgets) -> Option<LedgerConfig> {
        let url = self
            .url
            .clone()
            .unwrap_or_else(|| format!("sqlite:{}", state_dir.join("ledger.sqlite").display()));
        let request_memory = Duration::from_secs(self.request_memory_h.saturating_mul(3600));
        let state_dir = Some(state_dir.to_owned());
        let shared = self.shared;
        self.kept.then_some(LedgerConfig {
            budgets,
            request_memory,
            state_dir,
            shared,
            ..LedgerConfig::new(url)
        })
    }
}

/// The `[audit]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditPolicy {
    /// True if the auditor may open sessions. Default false: a session lets the active party see
    /// the named records under the named defense, which may be none.
    pub allowed: bool,
    /// Most sessions open at once. Default 16.
    pub max_sessions: usize,
    /// Most records of one session, at least 100. Default 100 000.
    pub max_records: usize,
    /// Rows that a session answers, as a multiple of its records. Default 4.
    pub rows_per_record: u64,
    /// Lifetime of a session, in seconds. Default 3600.
    pub session_lifetime_s: u64,
}

impl AuditPolicy {
    /// Returns all settings as text.
    fn words(&self) -> String {
        let Self { allowed, max_sessions, max_records, rows_per_record, session_lifetime_s } = self;
        format!(
            "allowed = {allowed}, max_sessions = {max_sessions}, max_records = {max_records}, rows_per_record = {rows_per_record}, \
             session_lifetime_s = {session_lifetime_s}"
        )
    }
}

impl Default for AuditPolicy {
    fn default() -> Self {
        Self {
            allowed: false,
            max_sessions: 16,
            max_records: 100_000,
            rows_per_record: 4,
            session_lifetime_s: 3600,
        }
    }
}

/// The checked settings of a coordinator. Tests and the demo build them without a file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The credentials of this party.
    pub credentials: Credentials,
    /// The limits on what callers may hold of this service.
    pub limits: Limits,
    /// The destinations of metrics and spans.
    pub monitoring: Monitoring,
    /// Directory of the published models.
    pub state_dir: PathBuf,
    /// The passive parties, ordered by name: the order in which shares are summed.
    pub passive_parties: Vec<Peer>,
    /// Longest time for a passive party to answer.
    pub peer_timeout: Duration,
    /// The active party this coordinator serves; `None`: the first one to publish a model.
    pub active_party: Option<PartyName>,
    /// Permission and limits of training.
    pub training: TrainingPolicy,
    /// Permission to publish imported parameters.
    pub publishing: PublishingPolicy,
    /// The defenses of the live service, in order.
    pub defenses: Vec<DefenseConfig>,
    /// Restrictions on the live service.
    pub serving: ServingPolicy,
    /// The query ledger; `None`: nothing is recorded, for measurements only.
    pub ledger: Option<LedgerConfig>,
    /// The release of the coordinator's own parameters.
    pub release: TopRelease,
    /// Permission and limits of audits.
    pub audit: AuditPolicy,
}

impl Settings {
    /// Returns the policy of the live service.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy { defenses: self.defenses.clone(), ..Policy::default() }
    }

    /// Returns name and text of each setting that all replicas must share, besides budgets, so that
    /// a caller gets the same from each.
    #[must_use]
    pub fn terms(&self) -> BTreeMap<String, String> {
        let parties =
            self.passive_parties.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
        let active = self.active_party.as_ref().map_or("the first to publish", PartyName::as_str);
        [
            ("[defense]", self.policy().to_string()),
            ("[serving] mode", format!("{:?}", self.serving.mode)),
            ("[serving] training_records", self.serving.training_records.to_string()),
            (
                "[serving] max_bits",
                self.serving.max_bits.map_or("no limit".to_owned(), |bits| bits.to_string()),
            ),
            ("[release] to_active_party", format!("{:?}", self.release.to_active_party)),
            ("[[passive_parties]]", parties),
            ("active_party", active.to_owned()),
            (
                "[training] computing_party",
                self.training
                    .computing_party
                    .as_ref()
                    .map_or("the first", PartyName::as_str)
                    .into(),
            ),
            ("[training] allowed", self.training.allowed.to_string()),
            ("[publishing] allowed", self.publishing.allowed.to_string()),
            ("[audit]", self.audit.words()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Reads and checks a config file; also returns the address to listen on.
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
        if v.passive_parties.len() > MAX_PASSIVE_PARTIES {
            let named = v.passive_parties.len();
            let message = format!(
                "[[passive_parties]] names {named} parties; a model has at most {MAX_PASSIVE_PARTIES}"
            );
            return Err(file.error(message));
        }
        let mut names = HashSet::new();
        if let Some(twice) = v.passive_parties.iter().find(|p| !names.insert(&p.name)) {
            return Err(file.error(format!(
                "passive party `{}` stands in [[passive_parties]] twice",
                twice.name
            )));
        }
        if let Some(name) = v.training.computing_party.as_ref().filter(|name| !names.contains(name))
        {
            return Err(file.error(format!(
                "[training] computing_party is `{name}`, which [[passive_parties]] does not name"
            )));
        }
        Pipeline::check(&v.defense).map_err(|e| file.error(format!("[defense]: {e}")))?;
        if let Some(bits) = v.serving.max_bits.filter(|bits| !(*bits > 0.0 && bits.is_finite())) {
            return Err(file
                .error(format!("[serving] max_bits is {bits}; expected a finite number above 0")));
        }
        // Two is the fewest classes of a model. The limit for a model's own classes is checked when
        // it is served.
        let policy = Policy { defenses: v.defense.clone(), ..Policy::default() };
        v.serving.within(&v.budget).check_bits(&policy, 2).map_err(|e| file.error(e))?;
        if v.serving.mode == ServingMode::Private {
            PrivateRelease::check(&policy).map_err(|e| {
                file.error(format!("[defense] under `mode = \"private\"` in [serving]: {e}"))
            })?;
        }
        if !v.ledger.kept && v.budget != Budgets::default() {
            return Err(file.error(
                "[budget] needs the ledger, which `kept = false` in [ledger] switches off",
            ));
        }
        if let Some(url) = &v.ledger.url {
            LedgerConfig::new(url.as_str())
                .check()
                .map_err(|e| file.error(format!("[ledger] url: {e}")))?;
        }
        if v.ledger.shared && !v.ledger.kept {
            return Err(file.error(
                "`shared = true` in [ledger] needs the ledger, which `kept = false` switches off",
            ));
        }
        if let Some(ledger) = v.ledger.config(&v.state_dir, v.budget) {
            ledger.check().map_err(|e| file.error(e.to_string()))?;
        }
        if v.peer_timeout_ms == 0 || v.training.step_timeout_s == 0 {
            return Err(file.error("peer_timeout_ms and step_timeout_s must be at least 1"));
        }
        let mut passive_parties: Vec<Peer> =
            v.passive_parties.iter().map(|p| p.peer(Role::PassiveParty)).collect();
        passive_parties.sort_by(|a, b| a.name.cmp(&b.name));
        let settings = Self {
            credentials,
            limits: file.limits(&v.limits)?,
            monitoring: file.monitoring(&v.metrics, &v.traces, v.listen)?,
            state_dir: v.state_dir.clone(),
            passive_parties,
            peer_timeout: Duration::from_millis(v.peer_timeout_ms),
            active_party: v.active_party.clone(),
            training: v.training.clone(),
            publishing: v.publishing,
            defenses: v.defense.clone(),
            serving: v.serving,
            ledger: v.ledger.config(&v.state_dir, v.budget),
            release: v.release,
            audit: v.audit,
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
        (&self.state_dir).into()
    }

    fn remarks(&self) -> Vec<String> {
        // The model in service is not looked up: its classes may not be known yet.
        vec![policy_in_bits(&self.policy(), &[2, 10])]
    }
}

/// Describes in bits, for these numbers of classes, what a policy tells of a record, or warns that
/// there is no bound.
#[must_use]
pub fn policy_in_bits(policy: &Policy, classes: &[usize]) -> String {
    let told: Vec<String> = classes
        .iter()
        .filter_map(|k| {
            let of = if *k == 1 { "a number".to_owned() } else { format!("{k} classes") };
            policy.leakage(*k).bits().map(|bits| format!("{bits:.2} bits for {of}"))
        })
        .collect();
    match (told.is_empty(), policy.leakage(classes.first().copied().unwrap_or(2))) {
        (true, told) => format!("warning: [defense] `{policy}`: {told}"),
        (false, _) => format!(
            "[defense] `{policy}` tells at most {} of a record; {BOUND_ASSUMES}",
            told.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests;
