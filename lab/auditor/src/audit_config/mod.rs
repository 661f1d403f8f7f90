//! An audit as configured by a file: reads and checks the file, and reports the findings. `cloison
//! audit`, `cloison recommend` and the dashboard use it.

pub(crate) mod metrics;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vfl_attack::{AttackConfig, Method, Settings, StatedKnowledge};
use vfl_core::types::{PartyName, RecordIds};
use vfl_defense::{DefenseConfig, Pipeline, Policy};
use vfl_server::cli::CliError;
use vfl_server::config::{ConfigFile, PeerAddress};
use vfl_server::service::{Role, TlsFiles};

pub(crate) use metrics::{measured, metrics_of};

use crate::audit::{Help, Plan, Targets};
use crate::report::Thresholds;

/// The config file of an audit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// A file with record ids, one a line.
    pub(crate) ids: PathBuf,
    /// A file with ids of training records, on which `agnostic` is run too.
    pub(crate) training_ids: Option<PathBuf>,
    pub(crate) seed: u64,
    /// Attacks by name, or tables with a `name` and settings.
    pub(crate) attacks: Vec<AttackConfig>,
    /// The knowledge of every adversary about the passive features beside their public schema:
    /// `binary = "all"`, `levels`, `lower`, `upper`, `discrete`, `step`, `groups`, `width`.
    /// `"nothing"`: not even the schema.
    #[serde(default)]
    pub(crate) features: ConfiguredFeatures,
    pub(crate) tls: TlsFiles,
    pub(crate) coordinator: PeerAddress,
    pub(crate) active_party: PeerAddress,
    pub(crate) passive_parties: Vec<PeerAddress>,
    /// Policies of one defense each.
    #[serde(default)]
    pub(crate) defenses: Vec<DefenseConfig>,
    /// Further policies as text: `temperature (temperature = 2.0) then rounding (decimals = 1)`.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    /// True if each policy is also attacked by an adversary that knows it. Default true.
    #[serde(default = "yes")]
    pub(crate) aware: bool,
    /// The number of times that this adversary asks for each record where averaging could help it.
    /// Default 3.
    #[serde(default = "three")]
    pub(crate) queries: u32,
    /// A file with ids of records whose passive features the active party knows, for
    /// `shadow_model`, `shadow_network`, `undo_transform`, `gaussian` and `posterior_mean`.
    pub(crate) auxiliary_ids: Option<PathBuf>,
    /// Passive parties that lend the active party their logit shares, for `coalition`.
    #[serde(default)]
    pub(crate) colluding: Vec<PartyName>,
    /// The most ρ that the audit may spend of the budget of its records at each passive party.
    /// Default all that is left.
    pub(crate) rho: Option<f64>,
    /// Metrics beside the mean squared error, as in `--metrics`.
    pub(crate) metrics: Option<Vec<String>>,
    /// The same threshold as `--max-added-risk`.
    pub(crate) max_added_risk: Option<f64>,
    /// The same threshold as `--max-exact-share`. Without `metrics` the audit then measures only
    /// `records_within`.
    pub(crate) max_exact_share: Option<f64>,
    /// The same threshold as `--max-exact`.
    pub(crate) max_exact: Option<f64>,
    /// The same threshold as `--max-bits`.
    pub(crate) max_bits: Option<f64>,
}

/// The `features` of a config file.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "`features` takes the word \"nothing\" or a table of settings")]
pub(crate) enum ConfiguredFeatures {
    /// The word `nothing`.
    Word(String),
    Settings(BTreeMap<String, toml::Value>),
}

impl Default for ConfiguredFeatures {
    fn default() -> Self {
        Self::Settings(BTreeMap::new())
    }
}

impl ConfiguredFeatures {
    /// The word for an adversary that does not know the schema.
    const NOTHING: &'static str = "nothing";

    /// Returns true if every adversary knows the public schema.
    fn schema(&self) -> bool {
        matches!(self, Self::Settings(_))
    }

    /// Returns the settings beside the schema.
    fn settings(&self) -> Result<Settings, String> {
        let stated = match self {
            Self::Word(word) if word == Self::NOTHING => return Ok(Settings::default()),
            Self::Word(word) => {
                return Err(format!(
                    "features: {word:?} is no word for it; say \"{}\" or name settings under [features]",
                    Self::NOTHING
                ));
            }
            Self::Settings(stated) => stated,
        };
        let features: Vec<(&str, String)> =
            stated.iter().map(|(key, v)| (key.as_str(), scalar(v))).collect();
        if let Some((key, _)) = features.iter().find(|(key, _)| !StatedKnowledge::is_setting(key)) {
            return Err(format!(
                "features: `{key}` is nothing that is known of features; there are: lower, upper, binary, levels, discrete, step, groups, \
                 width"
            ));
        }
        let features = Settings::read(features.iter().map(|(key, value)| (*key, value.as_str())));
        features.map_err(|e| format!("features: {e}"))
    }
}

/// Formats a scalar as text. Other values keep their TOML form, which no setting takes.
fn scalar(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn three() -> u32 {
    3
}

fn yes() -> bool {
    true
}

impl AuditConfig {
    /// Returns the thresholds of the file, not yet checked.
    fn thresholds(&self) -> Thresholds {
        let Self { max_added_risk, max_exact_share, max_exact, max_bits, .. } = *self;
        Thresholds { max_added_risk, max_exact_share, max_exact, max_bits }
    }

    /// Checks the config and returns the settings of the features and the policies. There must be
    /// an attack and a policy.
    ///
    /// # Errors
    /// The wrong name or policy, and how to correct it.
    pub fn check(&self) -> Result<(Settings, Vec<Policy>), String> {
        let features = self.features.settings()?;
        let mut policies: Vec<Policy> = self.defenses.iter().cloned().map(Policy::of).collect();
        for text in &self.policies {
            policies.push(text.parse().map_err(|e| format!("policies: {e}"))?);
        }
        if self.attacks.is_empty() || policies.is_empty() {
            return Err("name at least one attack and one of [[defenses]] or `policies`".into());
        }
        if let Some(names) = &self.metrics {
            metrics_of(names).map_err(|e| e.to_string())?;
        }
        self.thresholds().checked()?;
        if self.rho.is_some_and(|rho| !(rho.is_finite() && rho > 0.0)) {
            return Err("`rho` must be above 0; leave it out to spend all that is left".into());
        }
        self.check_help()?;
        for policy in &policies {
            Pipeline::check(&policy.defenses).map_err(|e| format!("policy `{policy}`: {e}"))?;
        }
        Ok((features, policies))
    }

    fn check_help(&self) -> Result<(), String> {
        let named = |method: Method| self.attacks.iter().any(|a| a.method() == method);
        let shadows = [Method::ShadowModel, Method::ShadowNetwork];
        if let Some(shadow) =
            shadows.into_iter().find(|shadow| named(*shadow) && self.auxiliary_ids.is_none())
        {
            return Err(format!(
                "`{shadow}` learns from records whose passive features the active party knows: name a file with their ids as \
                 `auxiliary_ids`"
            ));
        }
        if self.training_ids.is_some() && !named(Method::Agnostic) {
            return Err("`training_ids` is for `agnostic`, which is not among `attacks`".into());
        }
        if named(Method::Coalition) && self.colluding.is_empty() {
            return Err(
                "`coalition` needs passive parties that collude: list their names as `colluding`"
                    .into(),
            );
        }
        if let Some(name) = self
            .colluding
            .iter()
            .find(|name| !self.passive_parties.iter().any(|p| p.name == **name))
        {
            return Err(format!(
                "`colluding` names `{name}`, which is not among [[passive_parties]]"
            ));
        }
        if self.passive_parties.iter().all(|p| self.colluding.contains(&p.name)) {
            return Err(
                "`colluding` names all passive parties: nobody is left to be attacked".into()
            );
        }
        Ok(())
    }
}

/// The configured audit, read and checked.
pub struct ConfiguredAudit {
    /// The servers of the deployment.
    pub targets: Targets,
    /// The attacks, records and policies.
    pub plan: Plan,
    /// The thresholds for the policy in service.
    pub thresholds: Thresholds,
    /// The text of the file with the ids of the records.
    pub(super) text: String,
}

impl ConfiguredAudit {
    /// Reads a config file and the files that it names; `metrics` and `thresholds` take precedence
    /// over its own.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the file and what is wrong in it.
    pub fn read(
        config: &Path,
        metrics: Option<&[String]>,
        thresholds: Thresholds,
    ) -> Result<Self, CliError> {
        Self::of(&ConfigFile::read(config).map_err(CliError::input)?, metrics, thresholds)
    }

    /// Reads the files that a config file names.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the file and what is wrong in it.
    pub(crate) fn of(
        file: &ConfigFile<AuditConfig>,
        metrics: Option<&[String]>,
        thresholds: Thresholds,
    ) -> Result<Self, CliError> {
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::Auditor).map_err(CliError::input)?;
        let (features, policies) = v.check().map_err(|e| CliError::input(file.error(e)))?;
        let (text, ids) = read_ids(&v.ids)?;
        let targets = Targets {
            credentials,
            coordinator: v.coordinator.peer(Role::Coordinator),
            active: v.active_party.peer(Role::ActiveParty),
            passive: v.passive_parties.iter().map(|p| p.peer(Role::PassiveParty)).collect(),
        };
        let training_ids = v.training_ids.as_deref().map(read_ids).transpose()?.map(|(_, ids)| ids);
        let auxiliary_ids =
            v.auxiliary_ids.as_deref().map(read_ids).transpose()?.map(|(_, ids)| ids);
        let help = Help { auxiliary_ids, colluding: v.colluding.clone() };
        let metrics = metrics.or(v.metrics.as_deref()).map(metrics_of).transpose()?;
        let configured = v.thresholds();
        let thresholds = Thresholds {
            max_added_risk: thresholds.max_added_risk.or(configured.max_added_risk),
            max_exact_share: thresholds.max_exact_share.or(configured.max_exact_share),
            max_exact: thresholds.max_exact.or(configured.max_exact),
            max_bits: thresholds.max_bits.or(configured.max_bits),
        };
        let thresholds = thresholds.checked().map_err(CliError::Input)?;
        // It is not known yet if a party answers with noise, and which metrics it would refuse.
        let metrics = measured(&thresholds, metrics, &[]);
        let plan = Plan {
            ids,
            policies,
            attacks: v.attacks.clone(),
            features,
            schema: v.features.schema(),
            training_ids,
            aware: v.aware,
            queries: v.queries,
            rho: v.rho,
            metrics,
            help,
            seed: v.seed,
        };
        Ok(Self { targets, plan, thresholds, text })
    }
}

/// Reads a file with record ids, one a line.
fn read_ids(path: &Path) -> Result<(String, RecordIds), CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| CliError::Input(format!("cannot read the ids in {}: {e}", path.display())))?;
    let ids = RecordIds::new(text.lines().filter(|l| !l.is_empty()))
        .map_err(|e| CliError::Input(format!("{}: {e}", path.display())))?;
    Ok((text, ids))
}
