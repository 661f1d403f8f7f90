//! Cases of kind `attack`: records of a model whose parameters are known, and the attacks on them that were asked for.

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use vfl_shared::types::{FeatureBlock, RecordIds, ReleasedScores};

use super::case::{columns, own_parameters, weights};
use super::output;
use crate::attack::{AdversaryView, AttackError, KnownModel, Method, Settings};

/// A case file. What an attack must not see has no place to go to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "schema")]
    _schema: serde::de::IgnoredAny,
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    w_act: Vec<Vec<f64>>,
    w_pas: Vec<Vec<f64>>,
    b: Vec<f64>,
    records: Vec<CaseRecord>,
    #[serde(default, rename = "truth")]
    _truth: serde::de::IgnoredAny,
    #[serde(default, rename = "expected")]
    _expected: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRecord {
    id: String,
    y_act: Vec<f64>,
    c: Vec<f64>,
}

#[derive(Serialize)]
struct Output {
    attacks: Vec<AttackOutput>,
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
    estimates: Vec<Estimate>,
}

#[derive(Serialize)]
struct Estimate {
    id: String,
    x: Vec<f64>,
    /// ‖A x − b'‖₂
    #[serde(skip_serializing_if = "Option::is_none")]
    residual: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
}

/// Runs the attacks.
pub(super) fn run(text: &str, methods: &[Method], settings: &Settings, seed: u64) -> Result<Vec<u8>, String> {
    let case: Case = serde_json::from_str(text).map_err(|e| vfl_shared::cli::json_error(&e))?;
    let (w_act, bias) = own_parameters(&case.w_act, case.b)?;
    let k = bias.len();
    let w_pas = weights("w_pas", k, &case.w_pas)?;
    if w_pas.ncols() == 0 {
        return Err("`w_pas` has no column, so there is nothing to attack".into());
    }
    if case.records.is_empty() {
        return Err("`records` is empty".into());
    }
    let ids = RecordIds::new(case.records.iter().map(|r| &r.id)).map_err(|e| format!("`records`: {e}"))?;
    let y = columns("y_act", w_act.ncols(), case.records.iter().map(|r| &r.y_act))?;
    let c = columns("c", k, case.records.iter().map(|r| &r.c))?;
    let y = FeatureBlock::new(y).map_err(|e| format!("`y_act`: {e}"))?;
    let model = KnownModel::white_box(w_act, bias, w_pas).map_err(|e| e.to_string())?;
    let released = ReleasedScores::Numbers(c);
    let view =
        AdversaryView::new(&model, &y, &released, settings.replacement).map_err(|e: AttackError| e.to_string())?;
    let mut attacks = Vec::with_capacity(methods.len());
    for method in methods {
        let found = method.build(settings).reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(seed));
        let found = found.map_err(|e| format!("{method}: {e}"))?;
        let estimates = ids.iter().zip(found.estimates.column_iter()).enumerate().map(|(i, (id, x))| Estimate {
            id: id.to_owned(),
            x: x.iter().copied().collect(),
            residual: found.solved.as_ref().map(|s| s.residuals[i]),
            ended: found.outcomes.get(i).map(|o| o.ended.as_str()),
            iterations: found.outcomes.get(i).map(|o| o.iterations),
            objective: found.outcomes.get(i).map(|o| o.objective),
        });
        attacks.push(AttackOutput {
            name: method.as_str(),
            status: found.status.as_str(),
            rank: found.solved.as_ref().map(|s| s.rank),
            nullity: found.solved.as_ref().map(|s| s.nullity),
            condition_number: found.solved.as_ref().map(|s| s.condition_number),
            estimates: estimates.collect(),
        });
    }
    output(&Output { attacks })
}
