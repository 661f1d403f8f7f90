//! Cases of kind `shadow_model`: estimates the passive parameters from auxiliary records.

use serde::{Deserialize, Serialize};
use vfl_attack::{
    AttackError, AuxiliaryRecords, DescentEnd, KnownModel, Settings, ShadowBias, ShadowEstimate,
    ShadowFit,
};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::answer::output;
use super::case::{columns, own_parameters};

/// A case file. Fields that an attack must not see are ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "schema")]
    _schema: serde::de::IgnoredAny,
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    w_act: Vec<Vec<f64>>,
    b: Vec<f64>,
    auxiliary: Vec<Record>,
    #[serde(default, rename = "truth")]
    _truth: serde::de::IgnoredAny,
    #[serde(default, rename = "expected")]
    _expected: serde::de::IgnoredAny,
}

/// A record. The output does not mention it, so ids may repeat.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(rename = "id")]
    _id: String,
    y_act: Vec<f64>,
    x_pas: Vec<f64>,
    c: Vec<f64>,
}

#[derive(Serialize)]
struct Output {
    w_pas: Vec<Vec<f64>>,
    /// The correction of the bias, if it was estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    b_shift: Option<Vec<f64>>,
    rank: usize,
    unknowns: usize,
    condition_number: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    descent: Option<Descent>,
}

#[derive(Serialize)]
struct Descent {
    converged: bool,
    steps: u32,
    loss: f64,
}

/// Estimates the parameters of a case and returns the output file.
pub(super) fn run(text: &str, settings: &Settings) -> Result<Vec<u8>, String> {
    let case: Case = serde_json::from_str(text).map_err(|e| vfl_core::json::json_error(&e))?;
    let (w_act, bias) = own_parameters(&case.w_act, case.b)?;
    let (k, d_act) = w_act.shape();
    let Some(first) = case.auxiliary.first() else { return Err("`auxiliary` is empty".into()) };
    let d = first.x_pas.len();
    if d == 0 {
        return Err("`x_pas` of record 0 is empty, so there is nothing to estimate".into());
    }
    let block =
        |name: &'static str, rows| FeatureBlock::new(rows).map_err(|e| format!("`{name}`: {e}"));
    let y = block("y_act", columns("y_act", d_act, case.auxiliary.iter().map(|r| &r.y_act))?)?;
    let x = block("x_pas", columns("x_pas", d, case.auxiliary.iter().map(|r| &r.x_pas))?)?;
    let released = ReleasedScores::Numbers(columns("c", k, case.auxiliary.iter().map(|r| &r.c))?);
    let told = |e: AttackError| e.to_string();
    let auxiliary = AuxiliaryRecords::new(y, x, released, settings.replacement()).map_err(told)?;
    let model = KnownModel::black_box(w_act, bias, d).map_err(told)?;
    let found =
        ShadowEstimate::fit(&model, &auxiliary, ShadowFit::of(settings), ShadowBias::of(settings))
            .map_err(told)?;
    let estimates_bias = found.system.unknowns > d;
    output(&Output {
        w_pas: found.w_pas.row_iter().map(|row| row.iter().copied().collect()).collect(),
        b_shift: estimates_bias.then(|| found.bias_shift.iter().copied().collect()),
        rank: found.system.rank,
        unknowns: found.system.unknowns,
        condition_number: found.system.condition_number,
        descent: found.descent.map(|DescentEnd { converged, steps, loss }| Descent {
            converged,
            steps,
            loss,
        }),
    })
}
