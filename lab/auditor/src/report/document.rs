//! The report's document: plain data, read strictly and written in a fixed order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vfl_core::metrics::{Direction, Unit};
use vfl_core::model::privacy::PrivacyStatement;

use super::attack_result::AttackResult;
use super::errors::Baselines;
use super::inference_rows::Inference;
use super::policy_verdict::PolicyVerdict;
use super::surface::{Surface, disclosure};
use super::threat::ThreatModel;
use super::thresholds::{ThresholdResult, Thresholds};

/// The version of the document's schema. It increases with any change that an old reader would
/// misread or refuse.
///
/// - 2: audits of records without a score; parties state which parameters they show.
/// - 3: a model may be imported, errors may carry noise with its sigma, attacks may run without
///   being scored, and the report states how each party scores.
/// - 4: attacks state which of many solutions they take, and the reason that they did not run.
///   Errors have a list of further metrics, shares within a tolerance among them, which the report
///   describes. Threat models state the knowledge of the features.
/// - 5: an adversary may know moments of the features from records; its attacks state their added
///   risk over a control without scores.
/// - 6: the policy in service and thresholds, with the compliance of audits.
/// - 7: the variant of the data set.
/// - 8: models that were trained with noise.
/// - 9: the mismatch between the scores at the estimates and the released ones, and rows of other
///   inferences.
/// - 10: figures by attribute, records that attacks are certain of, and verdicts, which go by the
///   worst attribute.
pub const SCHEMA_VERSION: u32 = 10;

/// The versions that can be read. A report of version 9 has no figures by attribute: its thresholds
/// apply to the mean over features.
pub(super) const READ_VERSIONS: std::ops::RangeInclusive<u64> = 9..=SCHEMA_VERSION as u64;

/// The report on one deployment: its audits, their settings and their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The schema version: [`SCHEMA_VERSION`] in a new report; older reports that are read keep
    /// theirs.
    pub schema_version: u32,
    /// The title, one line for people.
    pub title: String,
    /// The program that made the report.
    pub tool: Tool,
    /// The command that makes this report again (no secret, no path that only exists here).
    pub command: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The settings of the run.
    pub generated: Generated,
    /// The data set and its split.
    pub data: DataFacts,
    /// The parties and their model.
    pub deployment: Deployment,
    /// Every release surface, audited or not; each kind exactly once.
    pub surfaces: Vec<Surface>,
    /// The policy in service, if known: the one that the coordinator applies to live requests. In a
    /// demonstration it is the first policy named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_service: Option<Policy>,
    /// The thresholds for the policy in service, if any; see [`Report::judged`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// The audits, one per defense (and threat model).
    pub audits: Vec<Audit>,
    /// The facts on the scoring by the passive parties, if known: one entry per party and set of
    /// records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoring: Vec<ScoringFacts>,
    /// The metrics of this report beside the mean squared error, in the order in which they are to
    /// be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricFacts>,
    /// The errors by number of passive features, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// The models of the same data that were trained with noise, if any, in the order in which they
    /// were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_trainings: Vec<PrivateTraining>,
    /// The results of other inferences, if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inferences: Vec<Inference>,
    /// The verdict on each policy whose scores were attacked, since version 10. It follows from the
    /// rest of the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<PolicyVerdict>,
    /// Further notes that a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The description of a metric, for readers that do not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricFacts {
    /// The name in `errors.metrics`.
    pub name: String,
    /// The heading of the metric's column.
    pub title: String,
    /// The meaning of a figure, in words.
    pub meaning: String,
    /// The unit of the figures.
    pub unit: Unit,
    /// The direction of figures that are better for the adversary.
    pub direction: Direction,
}

/// The program that made a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name of the program.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The revision of the sources, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// The settings that a report was made with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    /// The whole configuration, without secrets.
    pub config: Value,
    /// The hexadecimal SHA-256 of the configuration as compact JSON with sorted keys.
    pub config_sha256: String,
}

/// The data set and its split, in records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFacts {
    /// The short name, as in `--dataset`.
    pub name: String,
    /// The variant, which selects the columns, as in `--variant`. Absent for the records of a
    /// deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The number of selected columns; a column may become several features. Absent for the records
    /// of a deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<usize>,
    /// The source of the data, in words.
    pub source: String,
    /// The number of records in all.
    pub records: usize,
    /// The number of training records.
    pub training: usize,
    /// The number of records that decided when training stopped.
    pub validation: usize,
    /// The number of records that accuracy was measured on.
    pub test: usize,
    /// The number of features of all parties together, after encoding.
    pub features: usize,
    /// The number k of classes.
    pub classes: usize,
    /// The hexadecimal SHA-256 of the data.
    pub sha256: String,
}

/// The deployment under audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// The parties, with their roles.
    pub parties: Vec<Party>,
    /// The version of the model that served.
    pub model_version: String,
    /// The number of the active party's features.
    pub n_active: usize,
    /// The number of the passive parties' features together (d_target if all of them are attacked).
    pub d_passive: usize,
    /// The number k of classes.
    pub classes: usize,
    /// The facts on the model's training.
    pub training: TrainingFacts,
    /// True if answers are computed on secret shares: the coordinator sees no logit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private_release: bool,
    /// The share of test records whose undefended arg max is the label, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_accuracy: Option<f64>,
}

/// The scoring mode of a passive party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoringMode {
    /// With noise, under a budget for each record.
    Noised,
    /// Without noise: the party trusts the auditor.
    Trusted,
}

/// The facts on one passive party's scoring of the attacks on one set of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoringFacts {
    /// The name of the party.
    pub party: String,
    /// The number of records in the set.
    pub records: usize,
    /// The kind of records: "audited" or "training".
    pub what: String,
    /// The scoring mode of the party.
    pub mode: ScoringMode,
    /// The spending of this audit from the records' budget, in ρ of zero-concentrated differential
    /// privacy, if there is a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_spent: Option<f64>,
    /// The budget that the records have left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_left: Option<f64>,
    /// The total budget of the records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_total: Option<f64>,
}

/// The role of a party in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Holds labels, queries predictions, and is the adversary of the audit.
    Active,
    /// Holds the private features under attack.
    Passive,
    /// Sums logit shares and applies the defense.
    Coordinator,
}

/// The facts on one party.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// The name of the party.
    pub name: String,
    /// The role of the party.
    pub role: Role,
    /// The number of its features.
    pub features: usize,
    /// The names of its features in order; empty if they are not published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_names: Vec<String>,
    /// The parameters that a passive party shows the active party, in words, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_shown: Option<String>,
}

/// The facts on the training. No wall-clock time: it would differ from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFacts {
    /// The number of epochs.
    pub epochs: u64,
    /// The number of optimiser steps.
    pub steps: u64,
    /// True if the parameters were imported, not trained here: there are no epochs and no steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// True if the parties trained on secret shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

impl TrainingFacts {
    /// Returns the disclosure by the training.
    #[must_use]
    pub fn disclosure(&self) -> &'static str {
        disclosure(self.private)
    }
}

/// A defense policy: its name and parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "StoredPolicy")]
pub struct Policy {
    /// The name, as in the configuration.
    pub name: String,
    /// The settings, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
    /// The policy itself, which the document has by name and parameters alone. `None` if no score
    /// was asked for, or if this version does not know the policy of a document.
    #[serde(skip)]
    pub(super) policy: Option<vfl_defense::Policy>,
}

/// A policy as the document has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredPolicy {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: BTreeMap<String, Value>,
}

/// The audit of one defense.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The defense that was active.
    pub policy: Policy,
    /// The knowledge and actions of the adversary.
    pub threat_model: ThreatModel,
    /// The number of records attacked and scored.
    pub records: usize,
    /// The cost of the defense in use.
    pub utility: Utility,
    /// The errors of guessing on the same records.
    pub baselines: Baselines,
    /// The attacks, in the order in which they are to be shown.
    pub attacks: Vec<AttackResult>,
    /// The compliance with each of the report's thresholds, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdResult>,
    /// Remarks on this audit, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The remaining utility of a release. A figure that is not defined for the kind of release (KL of
/// a label) is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Utility {
    /// The share of test records whose released class is the label, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// `accuracy` minus the undefended accuracy, in [−1, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_change: Option<f64>,
    /// The mean Kullback-Leibler divergence of the released from the undefended scores, in nats, at
    /// least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_kl_nats: Option<f64>,
    /// The mean total variation distance between released and undefended scores, in [0, 1] for
    /// probability vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_variation: Option<f64>,
    /// The most bits that the release of one record reveals, if the defense bounds it, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<f64>,
    /// The share of records whose arg max the defense keeps, in [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg_max_kept: Option<f64>,
    /// The mean relative change of a released number, |v − p| / (|v| + |p|), in [0, 1]; for models
    /// of a number alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_change: Option<f64>,
}

/// The errors by number of passive features, for one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The defense that was active.
    pub policy: Policy,
    /// The knowledge and actions of the adversary; `target` may be empty, since the split changes
    /// from point to point.
    pub threat_model: ThreatModel,
    /// The number of records scored at each point.
    pub records: usize,
    /// The points, by increasing d.
    pub points: Vec<SweepPoint>,
}

/// The errors with d passive features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    /// The number of passive features, at least 1.
    pub d: usize,
    /// The MSE of guessing ½.
    pub half: f64,
    /// The MSE of guessing each feature's mean.
    pub column_mean: f64,
    /// The MSE of each attack.
    pub attacks: Vec<SweepError>,
}

/// The error of one attack at one point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepError {
    /// The name of the attack.
    pub name: String,
    /// The MSE of the attack; absent if it could not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mse: Option<f64>,
}

/// A model of the same data and split that was trained with differential privacy of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateTraining {
    /// The parties' privacy statement: clip, noise, ε, δ, updates.
    pub privacy: PrivacyStatement,
    /// The accuracy on the test records, 0 to 1.
    pub test_accuracy: f64,
    /// The audits of its exact scores, by the adversaries of the report.
    pub audits: Vec<Audit>,
}
