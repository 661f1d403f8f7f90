//! Creates, reads and writes the document.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::metrics::Metric;
use vfl_protocol::reconstruct::Refused;

use super::ReportError;
use super::attack_result::{AddedRisk, AttackResult, AttributeResult, Outcome, Status};
use super::document::{
    Audit, DataFacts, Deployment, Generated, MetricFacts, Party, Policy, READ_VERSIONS, Report,
    Role, SCHEMA_VERSION, StoredPolicy, Tool, Utility,
};
use super::errors::{Baselines, Errors, PartyError};
use super::level::EXACT_MSE;
use super::surface::{Surface, SurfaceKind};
use super::threat::ThreatModel;

impl Report {
    /// Creates a report with no audit; all surfaces are listed as not audited. Fill `surfaces` (see
    /// [`Surface::list`]), `audits`, `sweep` and `notes`.
    #[must_use]
    pub fn new(
        title: impl Into<String>,
        command: impl Into<String>,
        seed: u64,
        generated: Generated,
        data: DataFacts,
        deployment: Deployment,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            title: title.into(),
            tool: Tool::this(None),
            command: command.into(),
            seed,
            generated,
            data,
            deployment,
            surfaces: Surface::list(&[]),
            in_service: None,
            thresholds: None,
            audits: Vec::new(),
            scoring: Vec::new(),
            metrics: Vec::new(),
            sweep: None,
            private_trainings: Vec::new(),
            inferences: Vec::new(),
            verdicts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the document as in `report.json`: pretty-printed, keys in a fixed order, one newline
    /// at the end.
    ///
    /// # Errors
    /// [`ReportError::Invalid`] if [`Report::check`] finds something (JSON has no NaN and would
    /// lose it silently).
    pub fn to_json(&self) -> Result<String, ReportError> {
        self.check()?;
        let mut sorted = self.clone();
        sorted.generated.config = canonical(&self.generated.config);
        let mut text = serde_json::to_string_pretty(&sorted)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a document and checks it.
    ///
    /// # Errors
    /// [`ReportError::Version`] on another schema version, [`ReportError::Json`] on a text that is
    /// not a report (unknown fields included), [`ReportError::Invalid`] if [`Report::check`] finds
    /// something.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        // The version first: a newer report should be refused for being newer, not for its first
        // new field.
        let value: Value = serde_json::from_str(text)?;
        match value.get("schema_version").and_then(Value::as_u64) {
            Some(got) if !READ_VERSIONS.contains(&got) => return Err(ReportError::Version { got }),
            _ => {}
        }
        // Parsed from the text again, not from the value, so that the error names line and column.
        let report: Self = serde_json::from_str(text)?;
        report.check()?;
        Ok(report)
    }

    /// Returns the passive parties, in the order of the document.
    pub fn passive_parties(&self) -> impl Iterator<Item = &Party> {
        self.deployment.parties.iter().filter(|p| p.role == Role::Passive)
    }

    /// Returns true if any attack has figures by attribute. Reports before version 10 have none.
    #[must_use]
    pub fn has_attributes(&self) -> bool {
        self.audits
            .iter()
            .flat_map(|audit| &audit.attacks)
            .any(|attack| !attack.attributes.is_empty())
    }

    /// Returns the parties attacked under a threat model: those it names, or if it names none, all
    /// passive parties that do not help the adversary.
    #[must_use]
    pub fn targets(&self, threat_model: &ThreatModel) -> Vec<&Party> {
        self.passive_parties()
            .filter(|p| match threat_model.target.is_empty() {
                true => !threat_model.colluding.contains(&p.name),
                false => threat_model.target.contains(&p.name),
            })
            .collect()
    }
}

impl Tool {
    /// Returns this program: `cloison` and its version.
    #[must_use]
    pub fn this(revision: Option<String>) -> Self {
        Self { name: "cloison".into(), version: env!("CARGO_PKG_VERSION").into(), revision }
    }
}

impl MetricFacts {
    /// Returns the document's description of a metric.
    #[must_use]
    pub fn of(metric: &dyn Metric) -> Self {
        Self {
            name: metric.name().into(),
            title: metric.title().into(),
            meaning: metric.meaning().into(),
            unit: metric.unit(),
            direction: metric.direction(),
        }
    }
}

impl Generated {
    /// Wraps a configuration and hashes it. The caller keeps secrets, ports and paths out of it.
    #[must_use]
    pub fn new(config: Value) -> Self {
        let config = canonical(&config);
        let config_sha256 = config_sha256(&config);
        Self { config, config_sha256 }
    }
}

impl Party {
    /// Creates a party whose features are not named.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role, features: usize) -> Self {
        Self {
            name: name.into(),
            role,
            features,
            feature_names: Vec::new(),
            parameters_shown: None,
        }
    }

    /// Creates a party with named features.
    #[must_use]
    pub fn with_feature_names(
        name: impl Into<String>,
        role: Role,
        feature_names: Vec<String>,
    ) -> Self {
        Self {
            name: name.into(),
            role,
            features: feature_names.len(),
            feature_names,
            parameters_shown: None,
        }
    }
}

impl Policy {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), parameters: BTreeMap::new(), policy: None }
    }

    /// Creates the entry of an audit that asks for no score of the records attacked, in the place
    /// of a policy.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new("nothing")
    }

    /// Creates a policy whose name is its text, with all parameters in it.
    #[must_use]
    pub fn in_words(policy: &vfl_defense::Policy) -> Self {
        Self { policy: Some(policy.clone()), ..Self::new(policy.to_string()) }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// Returns true if scores are released unchanged.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.policy.as_ref().is_some_and(vfl_defense::Policy::is_none)
    }

    /// Returns the surface of the scores behind the policy. If this version does not know its
    /// parameters, the names of its defenses decide.
    #[must_use]
    pub fn surface(&self) -> SurfaceKind {
        match &self.policy {
            Some(policy) => SurfaceKind::of_policy(policy),
            None => SurfaceKind::of_text(&self.name),
        }
    }

    /// Formats the policy for people: `rounding (decimals = 2)`.
    #[must_use]
    pub fn label(&self) -> String {
        if self.parameters.is_empty() {
            return self.name.clone();
        }
        let settings: Vec<String> =
            self.parameters.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!("{} ({})", self.name, settings.join(", "))
    }
}

/// Compares what the document has; options of noise and shares beside a single defense are not in
/// it.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.parameters) == (&other.name, &other.parameters)
    }
}

impl From<&vfl_defense::Policy> for Policy {
    fn from(policy: &vfl_defense::Policy) -> Self {
        let [defense] = policy.defenses.as_slice() else { return Self::in_words(policy) };
        let parameters = match serde_json::to_value(defense) {
            Ok(Value::Object(fields)) => {
                fields.into_iter().filter(|(key, _)| key != "name").collect()
            }
            _ => BTreeMap::new(),
        };
        Self { name: defense.name().to_owned(), parameters, policy: Some(policy.clone()) }
    }
}

impl From<StoredPolicy> for Policy {
    fn from(StoredPolicy { name, parameters }: StoredPolicy) -> Self {
        let mut stored = Self { name, parameters, policy: None };
        stored.policy = stored.label().parse().ok();
        stored
    }
}

impl Audit {
    /// Creates an audit with no attack.
    #[must_use]
    pub fn new(
        policy: Policy,
        threat_model: ThreatModel,
        records: usize,
        utility: Utility,
        baselines: Baselines,
    ) -> Self {
        Self {
            policy,
            threat_model,
            records,
            utility,
            baselines,
            attacks: Vec::new(),
            thresholds: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Returns the number of attacked features, if the scorer gave errors by feature.
    #[must_use]
    pub fn features(&self) -> Option<usize> {
        Some(self.baselines.half.per_feature.len()).filter(|&d| d > 0)
    }

    /// Returns the attacks that ran and are more than a guess, with their errors.
    pub fn scored(&self) -> impl Iterator<Item = (&str, &Errors)> {
        self.attacks.iter().filter_map(|attack| match &attack.outcome {
            Outcome::Ran { status, errors, .. } if *status != Status::Guess => {
                Some((attack.name.as_str(), errors))
            }
            _ => None,
        })
    }

    /// Returns the attack with the smallest overall error among those of [`Audit::scored`]. Of
    /// equals the first is taken; all errors up to [`EXACT_MSE`] count as equal, since they differ
    /// only by round-off.
    #[must_use]
    pub fn strongest(&self) -> Option<(&str, &Errors)> {
        let weight = |errors: &Errors| if errors.mse <= EXACT_MSE { 0.0 } else { errors.mse };
        self.scored().min_by(|a, b| weight(a.1).total_cmp(&weight(b.1)))
    }
}

impl Errors {
    /// Returns true if the features are rebuilt to [`EXACT_MSE`]. With noise this cannot be known.
    pub(super) fn is_exact(&self) -> bool {
        self.mse <= EXACT_MSE && self.sigma.is_none()
    }

    /// Creates the overall and per-feature errors of one target.
    #[must_use]
    pub fn new(mse: f64, per_feature: Vec<f64>) -> Self {
        Self {
            mse,
            sigma: None,
            per_feature,
            per_feature_sigma: Vec::new(),
            per_party: Vec::new(),
            metrics: Vec::new(),
        }
    }

    /// Adds the errors by party.
    #[must_use]
    pub fn with_parties(mut self, per_party: Vec<PartyError>) -> Self {
        self.per_party = per_party;
        self
    }
}

impl AttackResult {
    fn new(name: impl Into<String>, outcome: Outcome) -> Self {
        Self {
            name: name.into(),
            outcome,
            nearest_consistent: 0,
            step_limit: 0,
            score_mismatch: None,
            certain: None,
            added_risk: None,
            attributes: Vec::new(),
        }
    }

    /// Sets the added risk over its control.
    #[must_use]
    pub fn with_added_risk(mut self, added_risk: Option<AddedRisk>) -> Self {
        self.added_risk = added_risk;
        self
    }

    /// Sets the figures by attribute.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Vec<AttributeResult>) -> Self {
        self.attributes = attributes;
        self
    }

    /// Sets the number of records that the attack is certain of, if it can tell.
    #[must_use]
    pub fn with_certain(mut self, certain: Option<u64>) -> Self {
        self.certain = certain;
        self
    }

    /// Sets the number of records on which the equations had no solution, and on which it ran out
    /// of steps.
    #[must_use]
    pub fn with_limits(mut self, nearest_consistent: u64, step_limit: u64) -> Self {
        (self.nearest_consistent, self.step_limit) = (nearest_consistent, step_limit);
        self
    }

    /// Sets the difference between the scores at the estimates and the released ones, if the
    /// adversary can tell.
    #[must_use]
    pub fn with_score_mismatch(mut self, score_mismatch: Option<f64>) -> Self {
        self.score_mismatch = score_mismatch;
        self
    }

    /// Creates the result of an attack that ran.
    #[must_use]
    pub fn ran(name: impl Into<String>, status: Status, errors: Errors) -> Self {
        Self::new(name, Outcome::Ran { status, errors })
    }

    /// Creates the result of an attack that ran but was not scored, with the reason.
    #[must_use]
    pub fn not_scored(name: impl Into<String>, status: Status, reason: impl Into<String>) -> Self {
        Self::new(name, Outcome::NotScored { status, reason: reason.into() })
    }

    /// Creates the result of an attack that could not run, with the reason.
    #[must_use]
    pub fn not_run(name: impl Into<String>, why: Refused, reason: impl Into<String>) -> Self {
        Self::new(name, Outcome::NotRun { why, reason: reason.into() })
    }

    /// Returns true if the attack ran, scored or not.
    #[must_use]
    pub fn has_run(&self) -> bool {
        !matches!(self.outcome, Outcome::NotRun { .. })
    }

    /// Returns the overall error, if the attack ran and was scored.
    #[must_use]
    pub fn mse(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Ran { errors, .. } => Some(errors.mse),
            Outcome::NotScored { .. } | Outcome::NotRun { .. } => None,
        }
    }
}

/// Sorts the keys of every object, whatever order the map type keeps.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(
                entries.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

/// Returns the hexadecimal SHA-256 of a configuration as compact JSON with sorted keys.
pub(super) fn config_sha256(config: &Value) -> String {
    let digest = Sha256::digest(canonical(config).to_string().as_bytes());
    hex(digest)
}
