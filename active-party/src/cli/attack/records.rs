//! Cases of kind `attack`: records of a model whose parameters are known, and the attacks on them that were asked for.

use serde::{Deserialize, Serialize};
use vfl_shared::types::{FeatureBlock, RecordIds, ReleasedScores};

use super::answer::{Answer, output};
use super::case::{columns, own_parameters, weights};
use super::own_records::{self, Auxiliary, Labelled, Moments, Observed};
use crate::attack::{
    self, AdversaryFit, AdversaryView, AgnosticSettings, AttackError, AuxiliaryRecords, Colluders, EstimatedScores,
    KnownModel, LabelledRecords, Method, Need, Prior, Reconstruction, Seen, Settings, SideInformation,
};

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
    /// For `agnostic`: labelled records of the adversary's own.
    #[serde(default)]
    training: Vec<Labelled>,
    /// For `agnostic`: records asked about before.
    #[serde(default)]
    observed: Vec<Observed>,
    /// For `coalition`: positions of the passive features, from 0, that colluding parties hold. Each record has their values in
    /// `x_colluders`.
    #[serde(default)]
    colluders: Vec<usize>,
    /// For `undo_transform` and `shadow_model`: records whose passive features are known.
    #[serde(default)]
    auxiliary: Vec<Auxiliary>,
    /// For `imputation`, `conditional_mean`, `gaussian` and `posterior_mean`: moments of the features. Without them those of the
    /// `auxiliary` records count.
    #[serde(default)]
    prior: Option<Moments>,
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
    /// Not there for records that were never asked about.
    #[serde(default)]
    c: Option<Vec<f64>>,
    /// The features of colluding parties, in the order of `colluders`.
    #[serde(default)]
    x_colluders: Vec<f64>,
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
    /// What the attack has to say in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    /// Of the adversary's own model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Model>,
    estimates: Vec<Estimate>,
}

#[derive(Serialize)]
struct Model {
    objective: f64,
    iterations: u32,
    converged: bool,
    /// Of its scores and those of the `observed` records.
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
    /// Scores as estimated, where they were.
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
}

/// A case, checked.
struct Given {
    model: KnownModel,
    y: FeatureBlock,
    /// What was released of the records; `Err` with the record that has no score.
    released: Result<ReleasedScores, usize>,
    training: Option<LabelledRecords>,
    seen: Option<(FeatureBlock, ReleasedScores)>,
    auxiliary: Option<AuxiliaryRecords>,
    colluders: Option<Colluders>,
    prior: Option<Prior>,
}

/// Runs the attacks.
pub(super) fn run(text: &str, methods: &[Method], settings: &Settings, seed: u64) -> Result<Answer, String> {
    let case: Case = serde_json::from_str(text).map_err(|e| vfl_shared::cli::json_error(&e))?;
    let ids = RecordIds::new(case.records.iter().map(|r| &r.id)).map_err(|e| format!("`records`: {e}"))?;
    let given = Given::read(case, settings)?;
    let mut attacks = Vec::with_capacity(methods.len());
    let mut said = Vec::new();
    for method in methods {
        let found = given.attack(*method, settings, seed).map_err(|e| format!("{method}: {e}"))?;
        let (scores, model) =
            (found.estimated.as_ref().map(|e| &e.scores), found.estimated.as_deref().map(Model::from));
        let estimates = ids.iter().zip(found.estimates.column_iter()).enumerate().map(|(i, (id, x))| Estimate {
            id: id.to_owned(),
            x: x.iter().copied().collect(),
            c: scores.map(|c| c.column(i).iter().copied().collect()),
            residual: found.solved.as_ref().map(|s| s.residuals[i]),
            ended: found.outcomes.get(i).map(|o| o.ended.as_str()),
            iterations: found.outcomes.get(i).map(|o| o.iterations),
            objective: found.outcomes.get(i).map(|o| o.objective),
        });
        said.extend(found.remarks.iter().map(|remark| format!("{method}: {remark}")));
        attacks.push(AttackOutput {
            name: method.as_str(),
            status: found.status.as_str(),
            rank: found.solved.as_ref().map(|s| s.rank),
            nullity: found.solved.as_ref().map(|s| s.nullity),
            condition_number: found.solved.as_ref().map(|s| s.condition_number),
            model,
            estimates: estimates.collect(),
            remarks: found.remarks.clone(),
        });
    }
    Ok(Answer { content: output(&Output { attacks })?, remarks: said })
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

impl Given {
    fn read(case: Case, settings: &Settings) -> Result<Self, String> {
        let (w_act, bias) = own_parameters(&case.w_act, case.b)?;
        let (k, d_act) = w_act.shape();
        let w_pas = weights("w_pas", k, &case.w_pas)?;
        if w_pas.ncols() == 0 {
            return Err("`w_pas` has no column, so there is nothing to attack".into());
        }
        if case.records.is_empty() {
            return Err("`records` is empty".into());
        }
        let y = columns("y_act", d_act, case.records.iter().map(|r| &r.y_act))?;
        let y = FeatureBlock::new(y).map_err(|e| format!("`y_act`: {e}"))?;
        let released = match case.records.iter().position(|r| r.c.is_none()) {
            Some(at) => Err(at),
            None => {
                let scores: Vec<_> = case.records.iter().filter_map(|r| r.c.as_ref()).collect();
                Ok(ReleasedScores::Numbers(columns("c", k, scores.into_iter())?))
            }
        };
        let colluders = match case.colluders.as_slice() {
            [] => None,
            positions => Some(own_records::colluders(positions, &w_pas, case.records.iter().map(|r| &r.x_colluders))?),
        };
        let mut observed = case.observed;
        let most = AgnosticSettings::from(settings).observed;
        if most > 0 {
            observed.truncate(most);
        }
        let seen = if observed.is_empty() { None } else { Some(own_records::observed(k, d_act, &observed)?) };
        let sizes = (k, d_act, w_pas.ncols());
        let auxiliary = match case.auxiliary.as_slice() {
            [] => None,
            records => Some(own_records::auxiliary(sizes, records, settings.replacement())?),
        };
        let training = match case.training.as_slice() {
            [] => None,
            records => Some(own_records::training(k, d_act, records)?),
        };
        let prior = match (case.prior, &auxiliary) {
            (Some(moments), _) => Some(moments.read(w_pas.ncols(), d_act)?),
            (None, Some(records)) => Some(records.prior().map_err(|e| e.to_string())?),
            (None, None) => None,
        };
        let model = KnownModel::white_box(w_act, bias, w_pas).map_err(|e| e.to_string())?;
        Ok(Self { model, y, released, training, seen, auxiliary, colluders, prior })
    }

    fn attack(&self, method: Method, settings: &Settings, seed: u64) -> Result<Reconstruction, String> {
        let told = |e: AttackError| e.to_string();
        let attack = method.build(settings);
        let view = match (attack.needs().release, &self.released) {
            (Need::Yes, Err(at)) => {
                return Err(format!(
                    "record {at} of `records` has no scores `c`; without them only agnostic runs, on `training` records"
                ));
            }
            (Need::No, _) | (_, Err(_)) => {
                AdversaryView::without_scores(&self.model, &self.y, settings.replacement()).map_err(told)?
            }
            (_, Ok(released)) => {
                AdversaryView::new(&self.model, &self.y, released, settings.replacement()).map_err(told)?
            }
        };
        let beside = SideInformation {
            labelled: self.training.as_ref(),
            seen: self.seen.as_ref().map(|(y, released)| Seen { y, released }),
            auxiliary: self.auxiliary.as_ref(),
            colluders: self.colluders.as_ref(),
            prior: self.prior.as_ref(),
            ..SideInformation::default()
        };
        attack::run(&*attack, &view.with_side_information(beside), seed).map_err(told)
    }
}
