//! Reads and checks a case of kind `attack`: the model, the records and the adversary's side
//! information. Runs attacks on it.

use nalgebra::DMatrix;
use serde::Deserialize;
use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, AgnosticSettings, AttackError, AuxiliaryRecords, Colluders, KnownModel,
    LabelledRecords, Method, Need, ObservedRecords, Prior, Reconstruction, Settings,
    SideInformation,
};
use vfl_core::types::{FeatureBlock, RecordIds, ReleasedScores};

use super::case::{columns, own_parameters, weights};
use super::networks::{Networks, OwnSubModel};
use super::own_records::{self, AuxiliaryRecord, LabelledRecord, Moments, ObservedRecord};

/// A case file of kind `attack`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    #[serde(rename = "schema")]
    _schema: serde::de::IgnoredAny,
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    #[serde(default)]
    w_act: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    w_pas: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    b: Option<Vec<f64>>,
    /// Replaces the three fields above.
    #[serde(default)]
    networks: Option<Networks>,
    records: Vec<CaseRecord>,
    /// For `agnostic`: the adversary's own labelled records.
    #[serde(default)]
    training: Vec<LabelledRecord>,
    /// For `agnostic`: records with scores from earlier requests.
    #[serde(default)]
    observed: Vec<ObservedRecord>,
    /// For `coalition`: the positions of the passive features, from 0, that colluding parties hold.
    /// Each record has their values in `x_colluders`.
    #[serde(default)]
    colluders: Vec<usize>,
    /// For `undo_transform` and `shadow_model`: records whose passive features are known.
    #[serde(default)]
    auxiliary: Vec<AuxiliaryRecord>,
    /// For `imputation`, `conditional_mean`, `gaussian` and `posterior_mean`: moments of the
    /// features. Default: the moments of the `auxiliary` records.
    #[serde(default)]
    prior: Option<Moments>,
    /// The grid that the passive features lie on, in units of their ranges.
    #[serde(default)]
    grid: Option<Grid>,
    /// Groups of adjacent passive columns of which exactly one is 1.
    #[serde(default)]
    groups: Vec<Vec<usize>>,
    /// For scoring. [`Case::split`] removes it before an attack runs.
    #[serde(default)]
    truth: Option<Vec<TruthRecord>>,
    #[serde(default, rename = "expected")]
    _expected: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRecord {
    id: String,
    y_act: Vec<f64>,
    /// Missing for records without a released score.
    #[serde(default)]
    c: Option<Vec<f64>>,
    /// The features of colluding parties, in the order of `colluders`.
    #[serde(default)]
    x_colluders: Vec<f64>,
}

/// The distance between neighbouring values of each passive feature; 0 if unknown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grid {
    step: Vec<f64>,
}

/// The passive features of a record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TruthRecord {
    pub(super) id: String,
    pub(super) x_pas: Vec<f64>,
}

/// The model of a case.
struct Model {
    known: KnownModel,
    /// The adversary's own sub-model, if the sub-models are networks.
    own: Option<OwnSubModel>,
}

impl Model {
    fn read(case: &mut Case) -> Result<Self, String> {
        let linear = (case.w_act.take(), case.w_pas.take(), case.b.take());
        match (linear, case.networks.take()) {
            ((None, None, None), Some(networks)) => {
                let (known, own) = networks.read()?;
                Ok(Self { known, own: Some(own) })
            }
            (_, Some(_)) => {
                Err("`networks` stands in place of `w_act`, `w_pas` and `b`: leave these out"
                    .into())
            }
            ((Some(w_act), Some(w_pas), Some(bias)), None) => {
                let (w_act, bias) = own_parameters(&w_act, bias)?;
                let w_pas = weights("w_pas", bias.len(), &w_pas)?;
                if w_pas.ncols() == 0 {
                    return Err("`w_pas` has no column, so there is nothing to attack".into());
                }
                let known = KnownModel::white_box(w_act, bias, w_pas).map_err(|e| e.to_string())?;
                Ok(Self { known, own: None })
            }
            ((w_act, w_pas, _), None) => {
                let missing = if w_act.is_none() {
                    "w_act"
                } else {
                    ["w_pas", "b"][usize::from(w_pas.is_some())]
                };
                Err(format!(
                    "missing field `{missing}`: a case holds `w_act`, `w_pas` and `b`, or `networks`"
                ))
            }
        }
    }

    /// Returns the number of the adversary's features of a record, and the number of outputs of its
    /// own network below them.
    fn own(&self) -> (usize, usize) {
        match &self.own {
            Some(own) => (own.features(), own.outputs()),
            None => (self.known.active_weights().ncols(), 0),
        }
    }

    /// Returns the adversary's input for records with these features (d_act × n): the features,
    /// with the outputs of its own network below them.
    fn whole(&self, y: DMatrix<f64>) -> Result<DMatrix<f64>, String> {
        match &self.own {
            Some(own) => own.with_outputs(y),
            None => Ok(y),
        }
    }
}

/// A checked case.
pub(super) struct CheckedCase {
    pub(super) ids: RecordIds,
    model: Model,
    /// The adversary's features of the records, d_act × n.
    active: DMatrix<f64>,
    /// The same, with the outputs of the adversary's own network below.
    y: FeatureBlock,
    /// The released scores of the records; `Err` with the position of the first record without a
    /// score.
    released: Result<ReleasedScores, usize>,
    training: Option<LabelledRecords>,
    seen: Option<(FeatureBlock, ReleasedScores)>,
    auxiliary: Option<AuxiliaryRecords>,
    colluders: Option<Colluders>,
    prior: Option<Prior>,
    /// The settings that describe the grid and the groups.
    grid: Vec<(&'static str, String)>,
}

/// Writes a grid and groups of columns as settings.
fn stated(
    grid: Option<&Grid>,
    groups: &[Vec<usize>],
) -> Result<Vec<(&'static str, String)>, String> {
    let mut pairs = Vec::new();
    if let Some(grid) = grid {
        let steps: Vec<String> = grid.step.iter().map(f64::to_string).collect();
        pairs.push(("step", steps.join(",")));
    }
    let mut ranges = Vec::with_capacity(groups.len());
    for (at, columns) in groups.iter().enumerate() {
        let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
            return Err(format!("group {at} of `groups` has no column"));
        };
        if columns.windows(2).any(|pair| pair[1] != pair[0].saturating_add(1)) {
            return Err(format!(
                "the columns of group {at} of `groups` are expected side by side, in rising order"
            ));
        }
        ranges.push(format!("{first}-{last}"));
    }
    if !ranges.is_empty() {
        pairs.push(("groups", ranges.join(",")));
    }
    Ok(pairs)
}

impl Case {
    /// Separates the checked input of the attacks from the truth, which they must not see.
    pub(super) fn split(
        mut self,
        settings: &Settings,
    ) -> Result<(CheckedCase, Option<Vec<TruthRecord>>), String> {
        let truth = self.truth.take();
        Ok((CheckedCase::read(self, settings)?, truth))
    }
}

impl CheckedCase {
    fn read(mut case: Case, settings: &Settings) -> Result<Self, String> {
        let ids = RecordIds::new(case.records.iter().map(|r| &r.id))
            .map_err(|e| format!("`records`: {e}"))?;
        let model = Model::read(&mut case)?;
        let (k, d, (d_act, outputs)) =
            (model.known.classes(), model.known.target_features(), model.own());
        let whole = |y| model.whole(y);
        if case.records.is_empty() {
            return Err("`records` is empty".into());
        }
        let active = columns("y_act", d_act, case.records.iter().map(|r| &r.y_act))?;
        let y = FeatureBlock::new(whole(active.clone())?).map_err(|e| format!("`y_act`: {e}"))?;
        let released = match case.records.iter().position(|r| r.c.is_none()) {
            Some(at) => Err(at),
            None => {
                let scores: Vec<_> = case.records.iter().filter_map(|r| r.c.as_ref()).collect();
                Ok(ReleasedScores::Numbers(columns("c", k, scores.into_iter())?))
            }
        };
        let colluders = match case.colluders.as_slice() {
            [] => None,
            positions => {
                let w_pas = model.known.passive_weights();
                let w_pas = w_pas
                    .map_err(|_| "`colluders` are of a case with weights, not with `networks`")?;
                Some(own_records::colluders(
                    positions,
                    w_pas,
                    case.records.iter().map(|r| &r.x_colluders),
                )?)
            }
        };
        let mut observed = case.observed;
        let most = AgnosticSettings::from(settings).observed;
        if most > 0 {
            observed.truncate(most);
        }
        let seen = if observed.is_empty() {
            None
        } else {
            Some(own_records::observed(k, d_act, &observed, whole)?)
        };
        let auxiliary = match case.auxiliary.as_slice() {
            [] => None,
            records => {
                Some(own_records::auxiliary((k, d_act, d), records, settings.replacement(), whole)?)
            }
        };
        let training = match case.training.as_slice() {
            [] => None,
            records => Some(own_records::training(k, d_act, records, whole)?),
        };
        let prior = match (case.prior, &auxiliary) {
            (Some(moments), _) => Some(moments.read(d, d_act, outputs)?),
            (None, Some(records)) => Some(records.prior().map_err(|e| e.to_string())?),
            (None, None) => None,
        };
        let grid = stated(case.grid.as_ref(), &case.groups)?;
        Ok(Self {
            ids,
            model,
            active,
            y,
            released,
            training,
            seen,
            auxiliary,
            colluders,
            prior,
            grid,
        })
    }

    /// Runs an attack on the records of the case.
    pub(super) fn attack(
        &self,
        method: Method,
        settings: &Settings,
        seed: u64,
    ) -> Result<Reconstruction, String> {
        let told = |e: AttackError| e.to_string();
        // The grid of the case comes first, so that a setting of the same name overrides it.
        let grid: Vec<(&str, &str)> =
            self.grid.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let stated = settings.pairs().collect::<Vec<(&str, &str)>>();
        let settings =
            &Settings::read(grid.into_iter().chain(stated)).map_err(|e| format!("`grid`: {e}"))?;
        let attack = method.build(settings);
        let view = match (attack.needs().release, &self.released) {
            (Need::Yes, Err(at)) => {
                return Err(format!(
                    "record {at} of `records` has no scores `c`; without them only agnostic runs, on `training` records"
                ));
            }
            (Need::No, _) | (_, Err(_)) => {
                AdversaryView::without_scores(&self.model.known, &self.y, settings.replacement())
                    .map_err(told)?
            }
            (_, Ok(released)) => {
                AdversaryView::new(&self.model.known, &self.y, released, settings.replacement())
                    .map_err(told)?
            }
        };
        let beside = SideInformation {
            labelled: self.training.as_ref(),
            seen: self.seen.as_ref().map(|(y, released)| ObservedRecords { y, released }),
            auxiliary: self.auxiliary.as_ref(),
            colluders: self.colluders.as_ref(),
            prior: self.prior.as_ref(),
            ..SideInformation::default()
        };
        attack::run(&*attack, &view.with_side_information(beside), seed).map_err(told)
    }

    /// Returns the adversary's features of the records, d_act × n.
    pub(super) fn active(&self) -> &DMatrix<f64> {
        &self.active
    }

    /// Returns the model that the adversary knows.
    pub(super) fn model(&self) -> &KnownModel {
        &self.model.known
    }

    /// Returns the squared error between the model's scores at the estimates (d × n) and the
    /// released scores; `None` if no scores were released.
    pub(super) fn score_mismatch(
        &self,
        estimates: &DMatrix<f64>,
        settings: &Settings,
    ) -> Option<f64> {
        let released = self.released.as_ref().ok()?;
        let view = AdversaryView::new(&self.model.known, &self.y, released, settings.replacement())
            .ok()?;
        view.score_mismatch(estimates).ok()?.squared_error
    }
}
