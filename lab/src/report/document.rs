//! The report's document: plain data, strict on the way in, in one order on the way out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vfl_shared::metrics::{Direction, Unit};
use vfl_shared::model::privacy::PrivacyStatement;

use super::attack_result::AttackResult;
use super::errors::Baselines;
use super::inferred::Inference;
use super::policy_verdict::PolicyVerdict;
use super::surface::Surface;
use super::threat::ThreatModel;
use super::thresholds::{ThresholdResult, Thresholds};

/// Version of the document's schema. It goes up with any change that an old reader would misread or refuse. Since 2 there are
/// audits of records without a score, and parties say what they show of their parameters. Since 3 a model may be imported, errors
/// may carry noise and say its sigma, attacks may have run without being scored, and the report says how each party scores. Since 4
/// attacks say which of many solutions they take and what kept them from running, and errors have a list of metrics beside the
/// mean squared error, which the report describes; shares within a tolerance are among them.
/// Threat models say what is known of the features. Since 5 an adversary may know moments of the features from records, and its
/// attacks say what they add to a control that has no scores. Since 6 a report may name the policy in service and thresholds, and its
/// audits say whether they meet them. Since 7 a report names the variant of its data set. Since 8 it may hold
/// models that were trained with noise. Since 9 attacks may say how far the scores at their estimates are from those released, and
/// there may be rows of other inferences. Since 10 attacks have figures by attribute and may be certain of records, verdicts go by the worst
/// attribute and are in the document.
pub const SCHEMA_VERSION: u32 = 10;

/// The versions that are read. A report of version 9 has no figures by attribute: its thresholds are on the mean over features.
pub(super) const READ_VERSIONS: std::ops::RangeInclusive<u64> = 9..=SCHEMA_VERSION as u64;

/// The audit of one deployment: what was run, against what, and what it gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of a new report; older ones that are read keep theirs.
    pub schema_version: u32,
    /// One line for people.
    pub title: String,
    /// The program that made the report.
    pub tool: Tool,
    /// The command that makes this report again (no secret, no path that only exists here).
    pub command: String,
    /// The seed everything random was drawn from.
    pub seed: u64,
    /// The settings the run came from.
    pub generated: Generated,
    /// The data set.
    pub data: DataFacts,
    /// The parties and their model.
    pub deployment: Deployment,
    /// Every release surface, audited or not; each kind exactly once.
    pub surfaces: Vec<Surface>,
    /// The policy in service, where the report knows: the one that the coordinator applies to live requests. Of a demonstration it
    /// is the first policy named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_service: Option<Policy>,
    /// What is demanded of the policy in service, if anything; see [`Report::judged`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// One entry per defense (and threat model).
    pub audits: Vec<Audit>,
    /// How the passive parties scored the attacks, where the report knows: one entry per party and set of records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoring: Vec<ScoringFacts>,
    /// The metrics that figures of this report are of, beside the mean squared error, in the order they are to be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricFacts>,
    /// Error by number of passive features, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Models of the same data that were trained with noise, if any were, in the order they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_trainings: Vec<PrivateTraining>,
    /// What else was inferred, if anything was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inferences: Vec<Inference>,
    /// The verdict on each policy whose scores were attacked, since version 10. It follows from the rest of the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<PolicyVerdict>,
    /// Whatever else a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A metric, for readers that do not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricFacts {
    /// Its name in `errors.metrics`.
    pub name: String,
    /// The heading of its column.
    pub title: String,
    /// What a figure says, in words.
    pub meaning: String,
    /// What figures are counted in.
    pub unit: Unit,
    /// Which way figures go as the adversary does better.
    pub direction: Direction,
}

/// The program that made a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Program name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Revision of the sources, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// The settings a report came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    /// The whole configuration, free of secrets.
    pub config: Value,
    /// Hexadecimal SHA-256 of the configuration as compact JSON with sorted keys.
    pub config_sha256: String,
}

/// The data set and how it was split, in records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFacts {
    /// Short name, as in `--dataset`.
    pub name: String,
    /// Which of its columns were taken, as in `--variant`. Absent for the records of a deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// How many columns that is; a column may become several features. Absent for the records of a deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<usize>,
    /// Where it comes from, in words.
    pub source: String,
    /// Records in all.
    pub records: usize,
    /// Records the model was trained on.
    pub training: usize,
    /// Records that decided when training stopped.
    pub validation: usize,
    /// Records accuracy was measured on.
    pub test: usize,
    /// Features of all parties together, after encoding.
    pub features: usize,
    /// Classes k.
    pub classes: usize,
    /// Hexadecimal SHA-256 of the data.
    pub sha256: String,
}

/// The deployment under audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// All parties.
    pub parties: Vec<Party>,
    /// The model version that served.
    pub model_version: String,
    /// Features of the active party.
    pub n_active: usize,
    /// Features of the passive parties together (d_target where all of them are attacked).
    pub d_passive: usize,
    /// Classes k.
    pub classes: usize,
    /// How the model was trained.
    pub training: TrainingFacts,
    /// Share of test records whose undefended arg max is the label, in [0, 1].
    pub test_accuracy: f64,
}

/// How a passive party scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoringMode {
    /// With noise, under a budget for each record.
    Noised,
    /// Without noise: it trusts the auditor.
    Trusted,
}

/// How one passive party scored the attacks on one set of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoringFacts {
    /// The party.
    pub party: String,
    /// How many records the set has.
    pub records: usize,
    /// Which records: "audited" or "training".
    pub what: String,
    /// How it scores.
    pub mode: ScoringMode,
    /// What this audit has spent of the records' budget, in ρ of zero-concentrated differential privacy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_spent: Option<f64>,
    /// What they have left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_left: Option<f64>,
    /// All of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_total: Option<f64>,
}

/// A party's part in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Holds labels, queries predictions, is the adversary of the audit.
    Active,
    /// Holds the private features under attack.
    Passive,
    /// Sums logit shares and applies the defense.
    Coordinator,
}

/// One party.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Its name.
    pub name: String,
    /// Its part.
    pub role: Role,
    /// How many features it holds.
    pub features: usize,
    /// Their names in order, or none (names are public by agreement; leave them out where they are not).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_names: Vec<String>,
    /// What a passive party shows the active party of its parameters, in words, where the report knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_shown: Option<String>,
}

/// What training did. No wall-clock time: it would differ from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFacts {
    /// Epochs run.
    pub epochs: u64,
    /// Optimiser steps run.
    pub steps: u64,
    /// The parameters were imported, not trained here: there are no epochs and no steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

/// A defense policy: its name and parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Name as in the configuration.
    pub name: String,
    /// Settings by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
}

/// One defense, attacked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The defense that was on.
    pub policy: Policy,
    /// What the adversary knows and does.
    pub threat_model: ThreatModel,
    /// Records attacked and scored.
    pub records: usize,
    /// What the defense costs in use.
    pub utility: Utility,
    /// What guessing achieves on the same records.
    pub baselines: Baselines,
    /// The attacks, in the order they are to be shown.
    pub attacks: Vec<AttackResult>,
    /// Whether it meets each of the report's thresholds, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdResult>,
    /// Remarks on this audit, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What a release is still worth. A figure that is not defined for the kind of release (KL of a label) is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Utility {
    /// Share of test records whose released class is the label, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// `accuracy` minus the undefended accuracy, in [−1, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_change: Option<f64>,
    /// Mean Kullback-Leibler divergence of the released from the undefended scores, in nats, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_kl_nats: Option<f64>,
    /// Mean total variation distance between released and undefended scores, in [0, 1] for probability vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_variation: Option<f64>,
    /// What the release of one record tells at most, in bits, where the defense bounds it, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<f64>,
    /// Share of records whose arg max the defense keeps, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg_max_kept: Option<f64>,
}

/// Error by number of passive features, for one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The defense that was on.
    pub policy: Policy,
    /// What the adversary knows and does; `target` may be empty, since the split changes from point to point.
    pub threat_model: ThreatModel,
    /// Records scored at each point.
    pub records: usize,
    /// The points, by increasing d.
    pub points: Vec<SweepPoint>,
}

/// Errors with d passive features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    /// Number of passive features, at least 1.
    pub d: usize,
    /// MSE of guessing ½.
    pub half: f64,
    /// MSE of guessing each feature's mean.
    pub column_mean: f64,
    /// MSE of each attack.
    pub attacks: Vec<SweepError>,
}

/// One attack at one point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepError {
    /// Name of the attack.
    pub name: String,
    /// Its MSE, absent where it could not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mse: Option<f64>,
}

/// A model of the same data and split that was trained with differential privacy of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateTraining {
    /// What the parties state: clip, noise, ε, δ, updates.
    pub privacy: PrivacyStatement,
    /// Accuracy on the test records, 0 to 1.
    pub test_accuracy: f64,
    /// Audits of its exact scores, by the adversaries of the report.
    pub audits: Vec<Audit>,
}
