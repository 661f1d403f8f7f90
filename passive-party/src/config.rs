//! The passive party's config file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vfl_shared::alignment::{MAX_RECORDS, OwnIds, Rules};
use vfl_shared::cli::PartySettings;
use vfl_shared::config::{ConfigError, ConfigFile, Limits, MetricsTable, TlsFiles, TracesTable};
use vfl_shared::data::Features;
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::model::{Combiner, EMBEDDING_WIDTH, SOFTMAX_REGRESSION, kinds};
use vfl_shared::monitoring::Monitoring;
use vfl_shared::service::{Credentials, Role};
use vfl_shared::state_dir::StateDir;
use vfl_shared::types::PartyName;
use vfl_stores::{DataConfig, StateConfig};

use crate::collusion::{Collusion, CollusionTable};
use crate::evaluation::accountant::{LEAST_RHO, RHO};
use crate::training_map;
use crate::transform::{FeatureMap, TransformConfig, TransformError, check_search};

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

/// `[alignment]`: with whom this party finds out which records both hold.
///
/// Each run tells the other party which ids of a list of its own choice are held here, so nothing is allowed by default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlignmentTable {
    /// Whether this party aligns at all. Default false.
    pub allowed: bool,
    /// The active party it aligns with, by the name in its certificate. No default: needed where alignment is allowed.
    pub active_party: Option<PartyName>,
    /// Runs over the life of the state directory. One that was cut off counts once anything depends on this party's ids. Default 1.
    pub max_runs: u32,
    /// The most ids of either party. Default 10 000 000.
    pub max_records: u64,
    /// With fewer ids in common, the active party is not told which they are, and the run counts. Default 100.
    pub least_common: u64,
    /// A file for the ids in common, one a line, beside the one in the state directory (`alignments/`). Default none.
    pub out: Option<PathBuf>,
    /// A file with the ids of the only records that are aligned, one a line. Default all records; needed where the features are behind an
    /// HTTP feature service, which cannot list them. It is read when a run begins.
    pub ids: Option<PathBuf>,
}

impl Default for AlignmentTable {
    fn default() -> Self {
        Self {
            allowed: false,
            active_party: None,
            max_runs: 1,
            max_records: MAX_RECORDS,
            least_common: 100,
            out: None,
            ids: None,
        }
    }
}

impl AlignmentTable {
    /// The rules of a run.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            max_runs: self.max_runs,
            max_records: self.max_records,
            least_common: self.least_common,
            out: self.out.clone(),
        }
    }

    /// The ids that are aligned, of these features.
    #[must_use]
    pub fn own_ids(&self, features: &Features) -> OwnIds {
        OwnIds::new(features.clone(), self.ids.clone())
    }

    /// Checks the table, for a party of these features.
    ///
    /// # Errors
    /// What is wrong and how to mend it.
    pub fn check(&self, features: &Features) -> Result<(), String> {
        if self.allowed && self.active_party.is_none() {
            return Err("`allowed = true` needs `active_party`, the name of the one active party it is for".into());
        }
        let own = self.own_ids(features);
        if self.allowed && !own.known() {
            return Err("`allowed = true` needs `ids`, a file with the ids to align, one a line: the feature service of [data.http] \
                        cannot list its records"
                .into());
        }
        own.check()?;
        self.rules().check()
    }
}

/// What a party is told of the parameters: `"nothing"`, `"true_parameters"`, or
/// `{ transformed = { name = "stiefel", epsilon = 0.1 } }`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Nothing: to that role the party is a black box.
    #[default]
    Nothing,
    /// The true parameters: a white box.
    TrueParameters,
    /// Parameters rewritten by a transform, once for each share (R remark 6, V section V-B). Predictions still come from
    /// the true ones.
    Transformed(TransformConfig),
}

impl Grant {
    /// How what is released is made from the true parameters: [`TransformConfig::None`] where it is these, `None` where nothing
    /// is released.
    #[must_use]
    pub fn transform(&self) -> Option<TransformConfig> {
        match self {
            Self::Nothing => None,
            Self::TrueParameters => Some(TransformConfig::None {}),
            Self::Transformed(config) => Some(config.clone()),
        }
    }
}

/// `[release]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReleasePolicy {
    /// What the active party is told. Default nothing.
    pub to_active_party: Grant,
    /// What the coordinator is told, which needs the true parameters to place noise at the logits (`logit_noise`) and sees all
    /// scores anyway: nothing, or the true ones. Default nothing.
    pub to_coordinator: Grant,
    /// Whether the active party is told which transform its parameters went through, and how far from the true ones they are
    /// where that gives away nothing secret. If not, it is told that they may be transformed, whatever they are (V remark 10),
    /// and gets no bias shift, which would tell it. Default true.
    pub disclosed: bool,
}

impl Default for ReleasePolicy {
    fn default() -> Self {
        Self { to_active_party: Grant::Nothing, to_coordinator: Grant::Nothing, disclosed: true }
    }
}

/// `[training]`: what trainings this party takes part in, and on what.
///
/// A training shows the active party the scores of its records at every step, whatever the defense (SECURITY.md), so nothing is
/// allowed by default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingPolicy {
    /// What is done to this party's features before a model is trained on them, and before every prediction (R section VII-A):
    /// a map that needs no trained parameters, made once for the life of the state directory. Default none.
    pub transform: TransformConfig,
    /// Whether this party takes part in trainings at all. Default false.
    pub allowed: bool,
    /// The active party it trains for, by the name in its certificate. No default: needed where training is allowed.
    pub active_party: Option<PartyName>,
    /// Kinds of sub-models it trains. Default: softmax regression alone. What a training of another kind shows the active party is not
    /// measured.
    pub kinds: Vec<String>,
    /// How the coordinator may combine the outputs. Default: `sum` alone. Under `concat` the coordinator sees an embedding of each
    /// record in place of a logit share, mostly with more numbers.
    pub combiners: Vec<Combiner>,
    /// The most numbers of an embedding, under `concat`. Default 64.
    pub max_width: u32,
    /// What first parameters are drawn from, where a kind draws them. Default `"private"`.
    pub start: StartFrom,
    /// The classes, in the order of the model. Default: any, up to `max_classes`.
    pub class_names: Vec<String>,
    /// The most classes of a model. With more classes than features a single step shows a record exactly. Default 2.
    pub max_classes: u32,
    /// The fewest records of a training. Default 1000.
    pub min_records: u32,
    /// The fewest records of a batch, and of the records set aside for validation. Default 64.
    pub min_batch: u32,
    /// The largest step size of Adam. Default 0.1.
    pub max_learning_rate: f64,
    /// The most passes over the records: each shows them once more. Default 200.
    pub max_epochs: u32,
    /// The largest weight of the penalty. Default 0.1.
    pub max_l2: f64,
    /// Trainings in a day, those among them that were refused because of records that are not held here. Default 4.
    pub max_per_day: u32,
    /// Trainings over the life of the state directory, whether or not a model came of them. Default 20.
    pub max_total: u32,
    /// Differential privacy of this party's parameters: see [`privacy`](vfl_shared::model::privacy). Default none.
    pub privacy: Option<PrivacyConfig>,
}

/// What first parameters are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFrom {
    /// Random bytes of this party's own, new for each training. From a known start the first step would show the active party
    /// k − 1 equations of a record's features, in every training others.
    #[default]
    Private,
    /// The seed of the training, which the active party chooses: the same seed gives the same model.
    Seed,
}

impl Default for TrainingPolicy {
    fn default() -> Self {
        Self {
            transform: TransformConfig::None {},
            allowed: false,
            active_party: None,
            kinds: vec![SOFTMAX_REGRESSION.to_owned()],
            combiners: vec![Combiner::Sum],
            max_width: EMBEDDING_WIDTH,
            start: StartFrom::Private,
            class_names: Vec::new(),
            max_classes: 2,
            min_records: 1000,
            min_batch: 64,
            max_learning_rate: 0.1,
            max_epochs: 200,
            max_l2: 0.1,
            max_per_day: 4,
            max_total: 20,
            privacy: None,
        }
    }
}

/// Checks the rules for trainings.
///
/// # Errors
/// What is wrong and how to mend it.
pub fn check_training(policy: &TrainingPolicy) -> Result<(), String> {
    if policy.allowed && policy.active_party.is_none() {
        return Err("`allowed = true` needs `active_party`, the name of the one active party it is for".into());
    }
    for kind in &policy.kinds {
        kinds::find(kind).map_err(|e| format!("`kinds` in [training]: {e}"))?;
    }
    if policy.class_names.len() == 1 {
        return Err("`class_names` lists all classes of the model, at least two".into());
    }
    for (name, value) in [("max_learning_rate", policy.max_learning_rate), ("max_l2", policy.max_l2)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(format!("`{name}` must be finite and at least 0"));
        }
    }
    Ok(())
}

/// How scorings are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// With Gaussian noise, under a budget of zero-concentrated differential privacy for each record.
    #[default]
    Noised,
    /// Without noise, to three significant digits. Whoever asks some hundred times reads the records: only for an auditor who may.
    Trusted,
}

impl AuditMode {
    /// As in the config file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Noised => "noised",
            Self::Trusted => "trusted",
        }
    }
}

/// `[audit]`. What is counted here is counted over the life of the state directory; `passive-party scorings renew` allows as much again.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditPolicy {
    /// Whether the auditor may have reconstructions scored. Default false.
    pub allowed: bool,
    /// Whether answers carry noise. Default noised.
    pub mode: AuditMode,
    /// Whether this party plays, for the auditor, an adversary that knows the means and covariances of its features: these
    /// are not sent, but figures that depend on them are told, and noise hides single records of the scored set alone. Default false.
    pub moments: bool,
    /// Noised: what all answers about a record may cost, in ρ of zCDP; above 0 and at most 0.0869. Default 0.0869, which leaves every
    /// feature of a record at least 0.9 of its standard deviation.
    pub rho: f64,
    /// Noised: what a scoring spends that does not say. Default 0.005.
    pub rho_per_scoring: f64,
    /// Trusted: candidates of one set of records that are scored. Default 256.
    pub max_scorings: u32,
    /// Trusted: candidates of all sets together. Default 1024.
    pub max_total_scorings: u32,
    /// Trusted: sets of records. Default 8.
    pub max_sets: u32,
    /// Either: openings that are refused because of their records, each of which tells something of who is held here. Default 20.
    pub max_refused_openings: u32,
}

impl Default for AuditPolicy {
    fn default() -> Self {
        Self {
            allowed: false,
            mode: AuditMode::Noised,
            moments: false,
            rho: RHO,
            rho_per_scoring: 0.005,
            max_scorings: 256,
            max_total_scorings: 1024,
            max_sets: 8,
            max_refused_openings: 20,
        }
    }
}

impl AuditPolicy {
    /// Checks the numbers.
    ///
    /// # Errors
    /// What is wrong and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        if !(LEAST_RHO..=RHO).contains(&self.rho) {
            return Err(format!(
                "`rho` is {}, it must be from {LEAST_RHO} to {RHO}; to allow more, renew the budget by `passive-party scorings renew`",
                self.rho
            ));
        }
        if !(LEAST_RHO..=self.rho).contains(&self.rho_per_scoring) {
            return Err(format!("`rho_per_scoring` is {}, it must be from {LEAST_RHO} to `rho`", self.rho_per_scoring));
        }
        Ok(())
    }
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
        check_release(&v.release, width).map_err(|e| file.error(format!("[release]: {e}")))?;
        check_training(&v.training).map_err(|e| file.error(format!("[training]: {e}")))?;
        v.audit.check().map_err(|e| file.error(format!("[audit]: {e}")))?;
        v.alignment.check(&features).map_err(|e| file.error(format!("[alignment]: {e}")))?;
        let state_dir: StateDir = match (&v.state_dir, &v.state) {
            (Some(folder), None) => folder.into(),
            (None, Some(state)) => {
                let table = state.open(credentials.identity().name());
                table.map_err(|e| file.error(format!("[state]: {e}")))?.into()
            }
            _ => return Err(file.error("name `state_dir`, or a database in [state], and not both")),
        };
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

    async fn reach(&self) -> Result<(), String> {
        if self.state_dir.folder().is_none() {
            let (transform, width) = (&self.training.transform, self.features.schema().len());
            training_map::check(&self.state_dir, transform, width).map_err(|e| format!("[training]: {e}"))?;
        }
        self.features.check().await.map_err(|e| format!("[data]: {e}"))
    }
}

/// Checks what can be known of a policy before there is a model, for a party of `features` features.
///
/// # Errors
/// What is wrong and how to mend it.
pub fn check_release(policy: &ReleasePolicy, features: usize) -> Result<(), String> {
    if let Grant::Transformed(config) = &policy.to_coordinator {
        return Err(format!(
            "`to_coordinator` grants parameters transformed by {}; the coordinator needs the true A = J W_pas to place noise at \
             the logits, and nothing else of them: grant \"true_parameters\" or \"nothing\"",
            config.name()
        ));
    }
    let Grant::Transformed(config) = &policy.to_active_party else { return Ok(()) };
    let refuse = |reason: &str| Err(format!("`to_active_party`: transform `{}`: {reason}", config.name()));
    let at_least_0 = |v: f64| v.is_finite() && v >= 0.0;
    match config {
        TransformConfig::SingleFeature { .. } if features != 1 => {
            return refuse(&format!("is for a party of one feature, this one holds {features}; take stiefel"));
        }
        TransformConfig::Stiefel { epsilon, .. }
        | TransformConfig::SingleFeature { epsilon, .. }
        | TransformConfig::Binary { epsilon, .. }
            if !at_least_0(*epsilon) =>
        {
            return refuse("`epsilon` must be finite and at least 0");
        }
        TransformConfig::Stiefel { penalty, starts, .. } => {
            check_search(*penalty, *starts).map_err(|e| format!("`to_active_party`: {e}"))?;
        }
        _ => {}
    }
    // A map of the features makes the same demands of them.
    match FeatureMap::new(config, features, &mut training_map::trial()) {
        Ok(_) | Err(TransformError::NotOfFeatures { .. }) => Ok(()),
        Err(error) => Err(format!("`to_active_party`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> ReleasePolicy {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn grants_read_as_documented() {
        assert_eq!(policy(""), ReleasePolicy::default());
        assert!(policy("").disclosed);
        let shown = policy("to_active_party = { transformed = { name = \"complement\" } }\ndisclosed = false");
        assert_eq!(shown.to_active_party, Grant::Transformed(TransformConfig::Complement {}));
        assert!(!shown.disclosed);
        let table = policy("[to_active_party.transformed]\nname = \"stiefel\"\nepsilon = 0.1");
        assert_eq!(table.to_active_party.transform().map(|t| t.name()), Some("stiefel"));
        for bad in [
            "to_active_party = \"all\"",
            "to_active_party = { transformed = { name = \"negate\", k = 1 } }",
            "told = 1",
        ] {
            assert!(toml::from_str::<ReleasePolicy>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn audits_are_noised_unless_trusted_by_name() {
        let read = |text: &str| toml::from_str::<AuditPolicy>(text);
        assert_eq!(read("allowed = true").unwrap().mode, AuditMode::Noised);
        assert_eq!(read("mode = \"trusted\"").unwrap().mode, AuditMode::Trusted);
        assert!(read("mode = \"exact\"").is_err() && read("noise = false").is_err());
        assert_eq!(AuditPolicy::default().check(), Ok(()));
        for (bad, says) in [
            ("rho = 0.1", "`rho` is 0.1"),
            ("rho = 0.0", "`rho` is 0"),
            ("rho = nan", "`rho` is NaN"),
            ("rho = 0.01\nrho_per_scoring = 0.02", "`rho_per_scoring` is 0.02"),
            ("rho_per_scoring = -1.0", "`rho_per_scoring` is -1"),
        ] {
            let refused = read(bad).unwrap().check().unwrap_err();
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }

    #[test]
    fn what_cannot_be_released_is_refused_with_the_reason() {
        let transformed = |what: &str| format!("{{ transformed = {{ {what} }} }}");
        for (features, key, grant, says) in [
            (3, "to_coordinator", "name = \"negate\"", "true A"),
            (3, "to_active_party", "name = \"single_feature\", epsilon = 0.1", "holds 3"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = -0.1", "`epsilon`"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = nan", "`epsilon`"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = 0.1, starts = 0", "`starts`"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = 0.1, starts = 100000", "1 to 1000"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = 0.1, penalty = -1.0", "`penalty`"),
        ] {
            let policy = policy(&format!("{key} = {}", transformed(grant)));
            let refused = check_release(&policy, features).unwrap_err();
            assert!(refused.contains(says) && refused.contains(key), "{grant}: {refused}");
        }
        for (features, grant) in [(1, "name = \"single_feature\", epsilon = 0.1"), (3, "name = \"complement\"")] {
            let policy = policy(&format!("to_active_party = {}", transformed(grant)));
            assert_eq!(check_release(&policy, features), Ok(()), "{grant}");
        }
    }
}
