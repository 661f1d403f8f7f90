//! The passive parameters as their owners release them: as an adversary takes them, and as what it is told makes of them.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use vfl_shared::model::{Combiner, LinearParameters, Parameters, SubModel, kinds};
use vfl_shared::rpc::Refusal;
use vfl_shared::transform::{ReleasedParameters, Statement};

use crate::attack::{AttackError, KnownModel, KnownNetwork};
use crate::invert_transform::inverted;
use crate::own_part;
use crate::passive_party::{Part, PassiveParty};
use crate::scoring::{ModelDescription, Scorer};

/// What the active party knows of the model.
pub(crate) struct Known {
    /// With the parameters as released; a black box if one party releases none.
    pub(crate) released: Arc<KnownModel>,
    /// The model for an adversary that has the logit shares of the colluders, if there are any: the parameters as the others release
    /// them, a black box if one of these releases none. The colluders' columns are 0, and stand for nothing.
    pub(crate) lent: Option<Arc<KnownModel>>,
    /// With what was told of their transforms turned back, if that is possible and there is any.
    pub(crate) undone: Option<Undone>,
}

/// A model whose transforms were turned back.
#[derive(Clone)]
pub(crate) struct Undone {
    pub(crate) model: Arc<KnownModel>,
    /// What was told, party by party.
    pub(crate) told: String,
}

impl Known {
    /// Asks every passive party of the model for the parameters it releases.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that is down or answers with nonsense. A refusal to release is no error.
    pub(crate) async fn ask(
        scorer: &Scorer,
        passive: &[PassiveParty],
        model: &ModelDescription,
        target: usize,
        colluders: &[String],
    ) -> Result<Self, Refusal> {
        let share = scorer.share(&model.version)?;
        let internal = |e: AttackError| Refusal::internal(e.to_string());
        let (w_act, bias) = own_part::map(&share, model.combiner(), model.class_names.len())?;
        let k = w_act.nrows();
        let mut parts = Vec::with_capacity(model.passive_parties.len());
        // Without the top model embeddings say nothing of the scores.
        let without_top = model.combiner() == Combiner::Concat && !model.top_shown;
        let mut specs = model.spec.iter().flat_map(|spec| spec.passive());
        for (name, features) in &model.passive_parties {
            let spec = specs.next();
            let part = match passive.iter().find(|party| party.name() == name) {
                Some(party) if !without_top => party.release_parameters(&model.version, *features, k, spec).await?,
                _ => None,
            };
            // Without one of them it is a black box, whatever the others release.
            let hidden = part.is_none();
            parts.push((name, *features, part));
            if hidden && colluders.is_empty() {
                break;
            }
        }
        let lent = match colluders {
            [] => None,
            colluders => Some(Arc::new(joined(&w_act, &bias, &parts, colluders, target).map_err(internal)?)),
        };
        let released = match networks(&parts, &bias).map_err(internal)? {
            None => joined(&w_act, &bias, &parts, &[], target),
            Some((bias, models)) => {
                let network = match model.spec.as_ref().and_then(|spec| spec.top()) {
                    None => Ok(KnownNetwork::summed(models)),
                    Some(spec) => {
                        let own = share.model().spec().width() as usize;
                        let inputs = models.iter().map(|m| m.spec().width() as usize).sum::<usize>() + own;
                        let top = scorer.coordinator().top_model(&model.version, spec, inputs).await?;
                        KnownNetwork::under_top(models, top.into())
                    }
                };
                network.and_then(|network| KnownModel::of_network(w_act.clone(), bias, network))
            }
        };
        let released = Arc::new(released.map_err(internal)?);
        let linear = |part: Option<Part>| match part {
            Some(Part::Linear(part)) => Some(part),
            Some(Part::Model(_)) | None => None,
        };
        let parts: Option<Vec<_>> = parts.into_iter().map(|(name, _, part)| Some((name, linear(part)?))).collect();
        let Some(parts) = parts else { return Ok(Self { released, lent, undone: None }) };
        let undone = turned_back(&w_act, &bias, &parts).map(|found| {
            let told = parts.iter().filter(|(_, p)| names_a_transform(&p.statement));
            let told: Vec<String> = told.map(|(name, p)| format!("{name}: {}", p.statement)).collect();
            found.map(|model| Undone { model: Arc::new(model), told: told.join("; ") })
        });
        let undone = undone.transpose().map_err(internal)?;
        Ok(Self { released, lent, undone })
    }
}

/// The model with the parameters that the parties release, each with its number of features; the terms of the colluders are known,
/// and neither their weights nor what they say of the bias counts.
fn joined(
    w_act: &DMatrix<f64>,
    bias: &DVector<f64>,
    parts: &[(&String, usize, Option<Part>)],
    colluders: &[String],
    target: usize,
) -> Result<KnownModel, AttackError> {
    let mut shifted = bias.clone();
    let mut weights = Vec::with_capacity(parts.len());
    for (name, features, part) in parts {
        match part {
            _ if colluders.contains(*name) => weights.push(DMatrix::zeros(w_act.nrows(), *features)),
            Some(Part::Linear(part)) => {
                if let Some(shift) = &part.bias_shift {
                    shifted += shift;
                }
                weights.push(part.weights.clone());
            }
            // What is left of a sum when colluders' shares are taken out is solved for linear parts alone.
            Some(Part::Model(_)) | None => return KnownModel::black_box(w_act.clone(), bias.clone(), target),
        }
    }
    KnownModel::white_box(w_act.clone(), shifted, side_by_side(w_act.nrows(), weights.iter()))
}

/// The sub-models of all parties, with the bias that their weights are read with, if all are shown and one of them is not linear.
#[allow(clippy::type_complexity, reason = "a bias and the models it goes with")]
fn networks(
    parts: &[(&String, usize, Option<Part>)],
    bias: &DVector<f64>,
) -> Result<Option<(DVector<f64>, Vec<Arc<dyn SubModel>>)>, AttackError> {
    if !parts.iter().any(|(_, _, part)| matches!(part, Some(Part::Model(_)))) {
        return Ok(None);
    }
    let (mut bias, mut models) = (bias.clone(), Vec::with_capacity(parts.len()));
    for (_, _, part) in parts {
        models.push(match part {
            None => return Ok(None),
            Some(Part::Model(model)) => model.clone(),
            Some(Part::Linear(part)) => {
                if let Some(shift) = &part.bias_shift {
                    bias += shift;
                }
                let linear = LinearParameters::new(part.weights.clone(), None)?;
                let restored = kinds::restore(&Parameters::from(&linear));
                restored.map_err(|e| AttackError::NotGranted { reason: e.to_string() })?.into()
            }
        });
    }
    Ok(Some((bias, models)))
}

/// The model with all transforms turned back; `None` if one is not told well enough, or if there are none.
fn turned_back(
    w_act: &DMatrix<f64>,
    bias: &DVector<f64>,
    parts: &[(&String, ReleasedParameters)],
) -> Option<Result<KnownModel, AttackError>> {
    if !parts.iter().any(|(_, p)| names_a_transform(&p.statement)) {
        return None;
    }
    let found = parts.iter().map(|(_, p)| inverted(&p.weights, &p.statement)).collect::<Option<Vec<_>>>()?;
    let shifted = found.iter().fold(bias.clone(), |bias, (_, shift)| bias + shift);
    let weights = side_by_side(w_act.nrows(), found.iter().map(|(weights, _)| weights));
    Some(KnownModel::white_box(w_act.clone(), shifted, weights))
}

fn names_a_transform(statement: &Statement) -> bool {
    statement.of_weights().is_some() || statement.of_features().is_some()
}

fn side_by_side<'a>(k: usize, blocks: impl Iterator<Item = &'a DMatrix<f64>>) -> DMatrix<f64> {
    let values: Vec<f64> = blocks.flat_map(|b| b.as_slice().iter().copied()).collect();
    DMatrix::from_vec(k, values.len() / k.max(1), values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colluder's own logit share is in the sum, made of its true features under its true weights: what it says of its released
    /// weights, a shift of the bias among it, must not count as well.
    #[test]
    fn what_a_colluder_releases_does_not_count_beside_its_share() {
        let released = |weight: f64, shift: f64| ReleasedParameters {
            weights: DMatrix::from_element(2, 1, weight),
            feature_names: vec!["f".into()],
            bias_shift: Some(DVector::from_element(2, shift)),
            statement: Statement::Undisclosed,
        };
        let (w_act, bias) = (DMatrix::zeros(2, 1), DVector::from_element(2, 0.5));
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let model = |of_b: Option<ReleasedParameters>, colluders: &[String]| {
            let parts = [(&a, 1, Some(Part::Linear(released(3.0, 0.25)))), (&b, 1, of_b.map(Part::Linear))];
            joined(&w_act, &bias, &parts, colluders, 2).unwrap()
        };
        let all = model(Some(released(5.0, 8.0)), &[]);
        assert_eq!(all.bias()[0], 8.75);
        for of_b in [Some(released(5.0, 8.0)), None] {
            let lent = model(of_b, std::slice::from_ref(&b));
            assert_eq!(lent.bias()[0], 0.75);
            assert_eq!(lent.passive_weights().unwrap().row(0).iter().copied().collect::<Vec<_>>(), [3.0, 0.0]);
        }
        let hidden = model(None, &[]);
        assert!(hidden.passive_weights().is_err());
        assert_eq!(hidden.bias()[0], 0.5, "nobody's shift counts in a black box");
    }
}
