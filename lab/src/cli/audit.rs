//! `cloison audit`: the auditor of a running deployment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use vfl_active_party::attack::{AttackConfig, Method, Settings, StatedKnowledge};
use vfl_coordinator::defense::{DefenseConfig, Pipeline};
use vfl_shared::cli::CliError;
use vfl_shared::config::{ConfigFile, PeerAddress, TlsFiles};
use vfl_shared::hex;
use vfl_shared::policy::Policy;
use vfl_shared::service::Role;
use vfl_shared::types::{PartyName, RecordIds};

use super::deliver::OutputArgs;
use super::thresholds::{ThresholdArgs, measured};
use crate::audit::{Help, Plan, Targets, facts, run};
use crate::demo::{deployment_facts, surfaces};
use crate::progress::Progress;
use crate::report::{DataFacts, Generated, MetricFacts, Policy as PolicyFacts, Report, Thresholds};

/// `cloison audit`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison audit --config audit.toml --out out

The config names the auditor's certificate, the three kinds of parties, a file with at least 100 record ids that were not
used in training, the attacks and the defenses; see examples/local/audit.toml. The features of the records never leave
their owner: it scores the reconstructions itself. By default it adds noise to what it tells and keeps a budget for these records; the
audit then shows the best attack of each session and its error with sigma, and `rho` in the config bounds what it spends.

Two kinds of help make further audits behind each policy. `auxiliary_ids` names a file with ids of records whose passive features
the active party knows (`known_csv` in its config): `shadow_model` estimates the parameters from them; `shadow_network`
trains a network in place of one that is hidden; `gaussian` and `posterior_mean` take their means and covariances. The last three stand
beside `imputation`, which has no score. `colluding` lists passive
parties that lend the active party their logit shares (`[collusion]` in their configs): `coalition` attacks the others.

Thresholds (`--max-added-risk`, `--max-exact-share`, or `max_added_risk` and `max_exact_share` in the config) are demanded of the
policy that the coordinator has in service, or if that is not audited of the first policy audited.")]
pub struct AuditArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = super::metrics::metrics_help("Overrides `metrics` in the config. "))]
    metrics: Option<Vec<String>>,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The config file as it stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// A file with record ids, one a line.
    ids: PathBuf,
    /// A file with ids of training records, which `agnostic` is run on too.
    training_ids: Option<PathBuf>,
    seed: u64,
    /// Attacks by name, or tables with a `name` and settings.
    attacks: Vec<AttackConfig>,
    /// What every adversary knows of the passive features: `binary = "all"`, `levels`, `lower`, `upper`, `discrete`.
    #[serde(default)]
    features: BTreeMap<String, toml::Value>,
    tls: TlsFiles,
    coordinator: PeerAddress,
    active_party: PeerAddress,
    passive_parties: Vec<PeerAddress>,
    /// Policies of one defense each.
    #[serde(default)]
    defenses: Vec<DefenseConfig>,
    /// Further policies, in words: `temperature (temperature = 2.0) then rounding (decimals = 1)`.
    #[serde(default)]
    policies: Vec<String>,
    /// Whether each policy also meets an adversary that knows it. Default true.
    #[serde(default = "yes")]
    aware: bool,
    /// How often that adversary asks for each record where averaging could help it. Default 3.
    #[serde(default = "three")]
    queries: u32,
    /// A file with ids of records whose passive features the active party knows, for `shadow_model`, `shadow_network`, `undo_transform`, `gaussian` and `posterior_mean`.
    auxiliary_ids: Option<PathBuf>,
    /// Passive parties that lend the active party their logit shares, for `coalition`.
    #[serde(default)]
    colluding: Vec<PartyName>,
    /// The most that the audit may spend of the budget of its records at each passive party, in rho. Default all that is left.
    rho: Option<f64>,
    /// Metrics beside the mean squared error, as `--metrics` has them.
    metrics: Option<Vec<String>>,
    /// As `--max-added-risk`.
    max_added_risk: Option<f64>,
    /// As `--max-exact-share`. Without `metrics` the audit then measures `records_within` alone.
    max_exact_share: Option<f64>,
}

/// A scalar as text; anything else as it is written, which no setting takes.
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
    /// What it says of the features, and its policies; there must be an attack and a policy.
    ///
    /// # Errors
    /// Which name or policy is wrong, and how to mend it.
    pub fn check(&self) -> Result<(Settings, Vec<Policy>), String> {
        let features: Vec<(&str, String)> = self.features.iter().map(|(key, v)| (key.as_str(), scalar(v))).collect();
        if let Some((key, _)) = features.iter().find(|(key, _)| !StatedKnowledge::is_setting(key)) {
            return Err(format!(
                "features: `{key}` is nothing that is known of features; there are: lower, upper, binary, levels, discrete"
            ));
        }
        let features = Settings::read(features.iter().map(|(key, value)| (*key, value.as_str())));
        let features = features.map_err(|e| format!("features: {e}"))?;
        let mut policies: Vec<Policy> = self.defenses.iter().cloned().map(Policy::of).collect();
        for text in &self.policies {
            policies.push(text.parse().map_err(|e| format!("policies: {e}"))?);
        }
        if self.attacks.is_empty() || policies.is_empty() {
            return Err("name at least one attack and one of [[defenses]] or `policies`".into());
        }
        if let Some(names) = &self.metrics {
            super::metrics::metrics_of(names).map_err(|e| e.to_string())?;
        }
        Thresholds::new(self.max_added_risk, self.max_exact_share)?;
        self.check_help()?;
        for policy in &policies {
            Pipeline::check(&policy.defenses).map_err(|e| format!("policy `{policy}`: {e}"))?;
        }
        Ok((features, policies))
    }

    fn check_help(&self) -> Result<(), String> {
        let named = |method: Method| self.attacks.iter().any(|a| a.method() == method);
        let shadows = [Method::ShadowModel, Method::ShadowNetwork];
        if let Some(shadow) = shadows.into_iter().find(|shadow| named(*shadow) && self.auxiliary_ids.is_none()) {
            return Err(format!(
                "`{shadow}` learns from records whose passive features the active party knows: name a file with their ids as \
                 `auxiliary_ids`"
            ));
        }
        if named(Method::Coalition) && self.colluding.is_empty() {
            return Err("`coalition` needs passive parties that collude: list their names as `colluding`".into());
        }
        if let Some(name) = self.colluding.iter().find(|name| !self.passive_parties.iter().any(|p| p.name == **name)) {
            return Err(format!("`colluding` names `{name}`, which is not among [[passive_parties]]"));
        }
        if self.passive_parties.iter().all(|p| self.colluding.contains(&p.name)) {
            return Err("`colluding` names all passive parties: nobody is left to be attacked".into());
        }
        Ok(())
    }
}

/// What a config file says is to be audited, read and checked.
pub(super) struct Audited {
    /// Whom to talk to.
    pub(super) targets: Targets,
    /// What to audit.
    pub(super) plan: Plan,
    /// What is demanded of the policy in service.
    pub(super) thresholds: Thresholds,
    /// The text of the file with the ids of the records.
    text: String,
}

impl Audited {
    /// Reads a config file and those that it names; `metrics` and `thresholds` stand above what it says of them.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the file and what is wrong in it.
    pub(super) fn read(config: &Path, metrics: Option<&[String]>, thresholds: ThresholdArgs) -> Result<Self, CliError> {
        let file = ConfigFile::<AuditConfig>::read(config).map_err(CliError::input)?;
        let v = &file.values;
        let credentials = file.credentials(&v.tls, Role::Auditor).map_err(CliError::input)?;
        let (features, policies) = v.check().map_err(|e| CliError::input(file.error(e)))?;
        if v.rho.is_some_and(|rho| !(rho.is_finite() && rho > 0.0)) {
            return Err(CliError::input(file.error("`rho` must be above 0; leave it out to spend all that is left")));
        }
        let (text, ids) = read_ids(&v.ids)?;
        let targets = Targets {
            credentials,
            coordinator: v.coordinator.peer(Role::Coordinator),
            active: v.active_party.peer(Role::ActiveParty),
            passive: v.passive_parties.iter().map(|p| p.peer(Role::PassiveParty)).collect(),
        };
        let training_ids = v.training_ids.as_deref().map(read_ids).transpose()?.map(|(_, ids)| ids);
        if training_ids.is_some() && !v.attacks.iter().any(|a| a.method() == Method::Agnostic) {
            return Err(CliError::input(file.error("`training_ids` is for `agnostic`, which is not among `attacks`")));
        }
        let auxiliary_ids = v.auxiliary_ids.as_deref().map(read_ids).transpose()?.map(|(_, ids)| ids);
        let help = Help { auxiliary_ids, colluding: v.colluding.clone() };
        let metrics = metrics.or(v.metrics.as_deref()).map(super::metrics::metrics_of).transpose()?;
        let thresholds = thresholds.or(ThresholdArgs::of_config(v.max_added_risk, v.max_exact_share))?;
        // Whether a party answers with noise, and which metrics it would refuse, is not known yet.
        let metrics = measured(&thresholds, metrics, &[]);
        let plan = Plan {
            ids,
            policies,
            attacks: v.attacks.clone(),
            features,
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

impl AuditArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let Audited { targets, plan, thresholds, text } =
            Audited::read(&self.config, self.metrics.as_deref(), self.thresholds)?;
        let mut bar = Progress::start("auditing", (plan.policies.len() * plan.attacks.len()) as u64);
        let findings = run(&targets, &plan, |done, _, stage| bar.at(done as u64, stage)).await;
        let findings = findings.map_err(CliError::failed)?;
        bar.done(&format!("{} attacks against {} defenses", plan.attacks.len(), plan.policies.len()));

        let none = findings.audits.iter().find(|a| a.policy.name == "none");
        let accuracy = none.or(findings.audits.first()).and_then(|a| a.utility.accuracy).unwrap_or(0.0);
        let deployment = deployment_facts(&findings, accuracy);
        let training = findings.model.training;
        let facts = DataFacts {
            name: "deployment".into(),
            variant: None,
            columns: None,
            source: "the parties' own records; the hash is that of the audited ids".into(),
            records: plan.ids.len() + (training.training_records + training.validation_records) as usize,
            training: training.training_records as usize,
            validation: training.validation_records as usize,
            test: plan.ids.len(),
            features: deployment.n_active + deployment.d_passive,
            classes: deployment.classes,
            sha256: hex(Sha256::digest(text.as_bytes())),
        };
        let config = serde_json::json!({
            "seed": plan.seed,
            "records": plan.ids.len(),
            "policies": plan.policies.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "attacks": plan.attacks.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "features": plan.features.pairs().collect::<BTreeMap<_, _>>(),
            "rho": plan.rho,
            "max_added_risk": thresholds.max_added_risk,
            "max_exact_share": thresholds.max_exact_share,
            "metrics": findings.metrics.iter().map(|m| m.name()).collect::<Vec<_>>(),
            "auxiliary_records": plan.help.auxiliary_ids.as_ref().map(RecordIds::len),
            "colluding": plan.help.colluding.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        let title = format!("Cloison audit of model {}", deployment.model_version);
        let command = "cloison audit --config audit.toml";
        let mut report = Report::new(title, command, plan.seed, Generated::new(config), facts, deployment);
        report.surfaces = surfaces(&findings);
        report.in_service = Some(in_service(&findings.model.policy, &plan.policies));
        report.audits = findings.audits;
        report.scoring = findings.scoring;
        report.metrics = findings.metrics.iter().map(|m| MetricFacts::of(*m)).collect();
        if none_missing(&report) {
            report.notes.push("No audit without a defense was made: accuracy is that of the first defense.".into());
        }
        report.demand(thresholds);
        if !thresholds.is_empty() && report.judged() != report.in_service.as_ref() {
            let live = report.in_service.as_ref().map(PolicyFacts::label).unwrap_or_default();
            report.notes.push(format!(
                "The coordinator has `{live}` in service, which this audit does not have: the thresholds are demanded of the first policy \
                 audited instead."
            ));
        }
        self.output.deliver(&report)
    }
}

/// A file with record ids, one a line.
fn read_ids(path: &Path) -> Result<(String, RecordIds), CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| CliError::Input(format!("cannot read the ids in {}: {e}", path.display())))?;
    let ids = RecordIds::new(text.lines().filter(|l| !l.is_empty()))
        .map_err(|e| CliError::Input(format!("{}: {e}", path.display())))?;
    Ok((text, ids))
}

/// The policy in service as the report has it: as it stands among the audited ones, so that the two can be compared.
fn in_service(live: &Policy, audited: &[Policy]) -> PolicyFacts {
    let same = |policy: &&Policy| **policy == *live || (policy.is_none() && live.is_none());
    match audited.iter().find(same) {
        Some(policy) => facts(policy),
        // In words, which no audited policy of one defense goes by.
        None => PolicyFacts::new(live.to_string()),
    }
}

fn none_missing(report: &Report) -> bool {
    report.audits.iter().all(|a| a.policy.name != "none")
}
