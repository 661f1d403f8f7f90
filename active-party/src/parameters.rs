//! The passive parameters that their owners release: as an adversary takes them, and with disclosed
//! transforms inverted.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use vfl_attack::{AttackError, KnownModel, KnownNetwork, as_difference};
use vfl_core::model::{Combiner, LinearParameters, Parameters, SubModel, kinds};
use vfl_protocol::{Refusal, ReleasedParameters, Statement};

use crate::invert_transform::inverted;
use crate::own_logits;
use crate::passive_party::{Part, PassiveParty};
use crate::scoring::{ModelDescription, Scorer};

/// The active party's knowledge of the model.
pub(crate) struct ModelKnowledge {
    /// The model with the parameters as released; a black box if one party releases none.
    pub(crate) released: Arc<KnownModel>,
    /// The model for an adversary that has the logit shares of the colluders, if there are any: the
    /// parameters as the other parties release them, a black box if one of these releases none. The
    /// colluders' columns are 0 and have no meaning.
    pub(crate) lent: Option<Arc<KnownModel>>,
    /// The model with the disclosed transforms inverted, if there are any and all can be inverted.
    pub(crate) undone: Option<InvertedModel>,
}

/// A model whose transforms were inverted.
#[derive(Clone)]
pub(crate) struct InvertedModel {
    pub(crate) model: Arc<KnownModel>,
    /// The disclosed transforms, party by party.
    pub(crate) told: String,
}

impl ModelKnowledge {
    /// Asks every passive party of the model for the parameters it releases.
    ///
    /// # Errors
    /// [`Refusal`] that names the party which is down or sends a malformed answer. A refusal to
    /// release is not an error.
    pub(crate) async fn ask(
        scorer: &Scorer,
        passive: &[PassiveParty],
        model: &ModelDescription,
        target: usize,
        colluders: &[String],
    ) -> Result<Self, Refusal> {
        let share = scorer.share(&model.version)?;
        let internal = |e: AttackError| Refusal::internal(e.to_string());
        let (w_act, bias) = own_logits::map(&share, model.combiner(), model.class_names.len())?;
        let (k, link) = (w_act.nrows(), model.link());
        // A number's predictor is the difference of two logits: attacks solve for its weights.
        let (w_act, bias) = match link.is_numeric() {
            true => (as_difference(&w_act), bias.insert_row(0, 0.0)),
            false => (w_act, bias),
        };
        let mut parts = Vec::with_capacity(model.passive_parties.len());
        // Without the top model, embeddings say nothing about the scores.
        let without_top = model.combiner() == Combiner::Concat && !model.top_shown;
        let mut specs = model.spec.iter().flat_map(|spec| spec.passive());
        for (name, features) in &model.passive_parties {
            let spec = specs.next();
            let part = match passive.iter().find(|party| party.name() == name) {
                Some(party) if !without_top => {
                    party.release_parameters(&model.version, *features, k, spec).await?
                }
                _ => None,
            };
            let part =
                part.map(|part| if link.is_numeric() { part.into_difference() } else { part });
            // If one party releases none, the model is a black box, whatever the others release.
            let hidden = part.is_none();
            parts.push((name, *features, part));
            if hidden && colluders.is_empty() {
                break;
            }
        }
        let lent = match colluders {
            [] => None,
            colluders => {
                let joined = joined(&w_act, &bias, &parts, colluders, target).map_err(internal)?;
                Some(Arc::new(joined.with_link(link)))
            }
        };
        let released = match networks(&parts, &bias).map_err(internal)? {
            None => joined(&w_act, &bias, &parts, &[], target),
            Some((bias, models)) => {
                let network = match model.spec.as_ref().and_then(|spec| spec.top()) {
                    None => Ok(KnownNetwork::summed(models)),
                    Some(spec) => {
                        let own = share.model().spec().width() as usize;
                        let inputs =
                            models.iter().map(|m| m.spec().width() as usize).sum::<usize>() + own;
                        let top =
                            scorer.coordinator().top_model(&model.version, spec, inputs).await?;
                        KnownNetwork::under_top(models, top.into())
                    }
                };
                network.and_then(|network| KnownModel::of_network(w_act.clone(), bias, network))
            }
        };
        let released = Arc::new(released.map_err(internal)?.with_link(link));
        let linear = |part: Option<Part>| match part {
            Some(Part::Linear(part)) => Some(part),
            Some(Part::Model(_)) | None => None,
        };
        let parts: Option<Vec<_>> =
            parts.into_iter().map(|(name, _, part)| Some((name, linear(part)?))).collect();
        let Some(parts) = parts else { return Ok(Self { released, lent, undone: None }) };
        let undone = turned_back(&w_act, &bias, &parts).map(|found| {
            let told = parts.iter().filter(|(_, p)| names_a_transform(&p.statement));
            let told: Vec<String> =
                told.map(|(name, p)| format!("{name}: {}", p.statement)).collect();
            found.map(|model| InvertedModel {
                model: Arc::new(model.with_link(link)),
                told: told.join("; "),
            })
        });
        let undone = undone.transpose().map_err(internal)?;
        Ok(Self { released, lent, undone })
    }
}

/// Builds the model from the parameters that the parties release, each with its number of features.
/// The terms of the colluders are known, so neither their weights nor their bias shifts count.
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
            _ if colluders.contains(*name) => {
                weights.push(DMatrix::zeros(w_act.nrows(), *features))
            }
            Some(Part::Linear(part)) => {
                if let Some(shift) = &part.bias_shift {
                    shifted += shift;
                }
                weights.push(part.weights.clone());
            }
            // Once the colluders' shares are subtracted, the rest of the sum is solved for linear
            // parts only.
            Some(Part::Model(_)) | None => {
                return KnownModel::black_box(w_act.clone(), bias.clone(), target);
            }
        }
    }
    KnownModel::white_box(w_act.clone(), shifted, side_by_side(w_act.nrows(), weights.iter()))
}

/// Returns the sub-models of all parties, with the bias for their weights; `None` unless all are
/// shown and one of them is nonlinear.
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

/// Returns the model with all transforms inverted; `None` if one of them cannot be, or if there are
/// none.
fn turned_back(
    w_act: &DMatrix<f64>,
    bias: &DVector<f64>,
    parts: &[(&String, ReleasedParameters)],
) -> Option<Result<KnownModel, AttackError>> {
    if !parts.iter().any(|(_, p)| names_a_transform(&p.statement)) {
        return None;
    }
    let found = parts
        .iter()
        .map(|(_, p)| inverted(&p.weights, &p.statement))
        .collect::<Option<Vec<_>>>()?;
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

    /// A colluder's logit share in the sum comes from its true features and its true weights. Its
    /// released weights and their bias shift must not count as well.
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
            let parts =
                [(&a, 1, Some(Part::Linear(released(3.0, 0.25)))), (&b, 1, of_b.map(Part::Linear))];
            joined(&w_act, &bias, &parts, colluders, 2).unwrap()
        };
        let all = model(Some(released(5.0, 8.0)), &[]);
        assert_eq!(all.bias()[0], 8.75);
        for of_b in [Some(released(5.0, 8.0)), None] {
            let lent = model(of_b, std::slice::from_ref(&b));
            assert_eq!(lent.bias()[0], 0.75);
            assert_eq!(
                lent.passive_weights().unwrap().row(0).iter().copied().collect::<Vec<_>>(),
                [3.0, 0.0]
            );
        }
        let hidden = model(None, &[]);
        assert!(hidden.passive_weights().is_err());
        assert_eq!(hidden.bias()[0], 0.5, "nobody's shift counts in a black box");
    }
}
