//! Cases of kind `attack`: runs the requested attacks on records of a model whose parameters are
//! known.

use serde::Serialize;
use vfl_attack::{AdversaryFit, EstimatedScores, Method, Settings};

use super::answer::{Answer, output};
use super::checked_case::Case;
use super::truth::{ActiveCorrelation, Errors, Truth};

#[derive(Serialize)]
struct Output {
    attacks: Vec<AttackOutput>,
    /// Only if the case has the truth.
    #[serde(skip_serializing_if = "Option::is_none")]
    active_correlation: Option<ActiveCorrelation>,
}

#[derive(Serialize)]
struct AttackOutput {
    name: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nullity: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition_number: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    /// The fit of the adversary's own model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Model>,
    /// The mean squared difference between the released scores and those that the model as shown
    /// gives at the estimates: P's loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    score_mismatch: Option<f64>,
    /// Only if the case has the truth.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Errors>,
    estimates: Vec<Estimate>,
}

#[derive(Serialize)]
struct Model {
    objective: f64,
    iterations: u32,
    converged: bool,
    /// The difference between the model's scores and those of the `observed` records.
    #[serde(skip_serializing_if = "Option::is_none")]
    mismatch: Option<Mismatch>,
}

#[derive(Serialize)]
struct Mismatch {
    records: u64,
    total_variation: Option<f64>,
    /// In nats; null where it is infinite.
    kl_divergence: Option<f64>,
    labels_differ: Option<f64>,
}

#[derive(Serialize)]
struct Estimate {
    id: String,
    x: Vec<f64>,
    /// The scores that the attack estimated, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<Vec<f64>>,
    /// ‖A x − b'‖₂
    #[serde(skip_serializing_if = "Option::is_none")]
    residual: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
    /// True if no other feature values give these scores. Missing if the attack does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    certain: Option<bool>,
}

/// Runs the attacks on the records of a case.
pub(super) fn run(
    text: &str,
    methods: &[Method],
    settings: &Settings,
    seed: u64,
) -> Result<Answer, String> {
    let case: Case = serde_json::from_str(text).map_err(|e| vfl_core::json::json_error(&e))?;
    let (given, truth) = case.split(settings)?;
    let mut attacks = Vec::with_capacity(methods.len());
    let mut said = Vec::new();
    let mut all_found = Vec::with_capacity(methods.len());
    for method in methods {
        all_found.push((
            method,
            given.attack(*method, settings, seed).map_err(|e| format!("{method}: {e}"))?,
        ));
    }
    // The truth is read only after all attacks have run.
    let truth = truth.map(|records| Truth::read(&records, &given)).transpose()?;
    for (method, found) in all_found {
        let (scores, model) = (
            found.estimated.as_ref().map(|e| &e.scores),
            found.estimated.as_deref().map(Model::from),
        );
        let estimates =
            given.ids.iter().zip(found.estimates.column_iter()).enumerate().map(|(i, (id, x))| {
                Estimate {
                    id: id.to_owned(),
                    x: x.iter().copied().collect(),
                    c: scores.map(|c| c.column(i).iter().copied().collect()),
                    residual: found.solved.as_ref().map(|s| s.residuals[i]),
                    ended: found.outcomes.get(i).map(|o| o.ended.as_str()),
                    iterations: found.outcomes.get(i).map(|o| o.iterations),
                    objective: found.outcomes.get(i).map(|o| o.objective),
                    certain: found.certain.get(i).copied(),
                }
            });
        said.extend(found.remarks.iter().map(|remark| format!("{method}: {remark}")));
        attacks.push(AttackOutput {
            name: method.as_str(),
            status: found.status.as_str(),
            rank: found.solved.as_ref().map(|s| s.rank),
            nullity: found.solved.as_ref().map(|s| s.nullity),
            condition_number: found.solved.as_ref().map(|s| s.condition_number),
            model,
            score_mismatch: given.score_mismatch(&found.estimates, settings),
            errors: truth.as_ref().and_then(|truth| truth.errors(&found.estimates)),
            estimates: estimates.collect(),
            remarks: found.remarks.clone(),
        });
    }
    let active_correlation = truth.and_then(|truth| truth.active_correlation(given.active()));
    Ok(Answer { content: output(&Output { attacks, active_correlation })?, remarks: said })
}

impl From<&EstimatedScores> for Model {
    fn from(estimated: &EstimatedScores) -> Self {
        let AdversaryFit { objective, iterations, converged, .. } = estimated.fit;
        let mismatch = estimated.mismatch.as_ref().map(|m| Mismatch {
            records: m.records,
            total_variation: m.total_variation,
            kl_divergence: m.kl_divergence,
            labels_differ: m.labels_differ,
        });
        Self { objective, iterations, converged, mismatch }
    }
}
