//! The adversary's inputs to the attacks of one request. Runs an attack on them.

use std::collections::HashSet;
use std::sync::Arc;

use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, Attack, AttackError, AuxiliaryRecords, Colluders, DisclosedModel, KnownModel,
    LabelledRecords, Need, ObservedRecords, Reconstruction, RepeatedQuestions, Replacement,
    SideInformation,
};
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::model::TrainingConfig;
use vfl_core::types::{FeatureBlock, RecordIds, ReleasedScores};
use vfl_protocol::Refusal;
use vfl_state::StoredShare;

use super::availability::{Available, KnownRecords};
use super::oracle::Session;
use crate::own_logits;
use crate::parameters::InvertedModel;

/// The adversary's inputs. Those that no attack of the request needs are missing.
#[derive(Clone)]
pub(super) struct AdversaryInputs {
    /// The model, with the parameters as released.
    pub(super) known: Arc<KnownModel>,
    /// The model with the parameters that the other parties release, if there are colluders.
    pub(super) lent: Option<Arc<KnownModel>>,
    /// The model with the disclosed transforms inverted.
    pub(super) undone: Option<InvertedModel>,
    /// The adversary's own features of the records.
    pub(super) y: Arc<FeatureBlock>,
    /// The first release, of all records or of the first ones.
    pub(super) released: Option<Arc<ReleasedScores>>,
    /// The mean of several releases of all records.
    pub(super) mean: Option<(Arc<ReleasedScores>, RepeatedQuestions)>,
    /// The adversary's own records with labels.
    pub(super) labelled: Option<Arc<LabelledRecords>>,
    /// The training configuration of the model.
    pub(super) recipe: Option<TrainingConfig>,
    /// The coordinator, for attacks that ask.
    pub(super) session: Arc<Session>,
    /// The records whose passive features the adversary knows.
    pub(super) auxiliary: Available<KnownRecords>,
    /// The logit shares that colluding passive parties lend.
    pub(super) colluders: Available<Colluders>,
}

/// The estimates of an attack, with their score mismatch.
#[derive(Debug)]
pub(crate) struct AttackEstimates {
    pub(crate) found: Reconstruction,
    /// The mean squared difference between the scores at the estimates and the released ones: the
    /// adversary's view of its own error. `None` without scores, without the whole model, and if
    /// colluders lend their shares.
    pub(crate) score_mismatch: Option<f64>,
}

/// Returns side information if the attack wants it. Fails if the attack needs it and it is not
/// available.
fn granted<T>(had: &Available<T>, need: Need) -> Result<Option<&T>, AttackError> {
    match had {
        Some(Ok(had)) => Ok(Some(had).filter(|_| need.wanted())),
        Some(Err(why)) if need == Need::Yes => Err(why.clone()),
        Some(Err(_)) | None => Ok(None),
    }
}

impl AdversaryInputs {
    /// Returns the number of records whose passive features are known.
    pub(super) fn auxiliary_records(&self) -> usize {
        self.auxiliary.as_ref().and_then(|had| had.as_ref().ok()).map_or(0, KnownRecords::len)
    }

    /// Runs an attack on those of the inputs that it needs. Blocking.
    pub(super) fn run(
        &self,
        attack: &dyn Attack,
        floor: Replacement,
        seed: u64,
    ) -> Result<AttackEstimates, AttackError> {
        let needs = attack.needs();
        let seen = match (&self.released, needs.seen) {
            (Some(released), n @ 1..) => Some((
                FeatureBlock::new(self.y.matrix().columns(0, n).into_owned())?,
                first(released, n),
            )),
            _ => None,
        };
        let mean = self.mean.as_ref().filter(|_| needs.repeated.wanted());
        let released = mean
            .map(|(mean, _)| mean)
            .or(self.released.as_ref())
            .filter(|_| needs.release.wanted());
        let auxiliary = granted(&self.auxiliary, needs.known_records())?
            .map(|known| known.records(floor))
            .transpose()?;
        // Complete records determine their moments.
        let prior = auxiliary
            .as_ref()
            .filter(|_| needs.prior.wanted())
            .map(AuxiliaryRecords::prior)
            .transpose()?;
        let colluders = granted(&self.colluders, needs.colluders)?;
        let model = self.lent.as_ref().filter(|_| colluders.is_some()).unwrap_or(&self.known);
        let view = match released {
            Some(released) => AdversaryView::new(model, &self.y, released, floor)?,
            None => AdversaryView::without_scores(model, &self.y, floor)?,
        };
        let beside = SideInformation {
            repeated: mean.map(|(_, averaged)| *averaged),
            oracle: needs.chosen_shares.wanted().then_some(&*self.session),
            labelled: self.labelled.as_deref().filter(|_| needs.labelled.wanted()),
            recipe: self.recipe.as_ref(),
            seen: seen.as_ref().map(|(y, released)| ObservedRecords { y, released }),
            // An adversary does not estimate the scores that it has.
            seen_are_targets: true,
            auxiliary: auxiliary.as_ref(),
            colluders,
            prior: prior.as_ref(),
            told: self
                .undone
                .as_ref()
                .map(|undone| DisclosedModel { model: &undone.model, by: &undone.told }),
        };
        let view = view.with_side_information(beside);
        let found = attack::run(attack, &view, seed)?;
        // The colluders' shares are about the sum of all parts; the estimates are of the other
        // features only.
        let scores =
            if colluders.is_none() { view.score_mismatch(&found.estimates).ok() } else { None };
        Ok(AttackEstimates {
            found,
            score_mismatch: scores.and_then(|mismatch| mismatch.squared_error),
        })
    }
}

/// Returns the records of a table that have a label and are not among the targets; none if the
/// table has no labels.
pub(super) fn labelled(
    table: &FeatureTable,
    share: &StoredShare,
    targets: &RecordIds,
) -> Result<LabelledRecords, Refusal> {
    let (y, labels) = labelled_rows(table, targets)?;
    Ok(LabelledRecords { y: own_logits::features(share, y)?, labels })
}

fn labelled_rows(
    table: &FeatureTable,
    targets: &RecordIds,
) -> Result<(FeatureBlock, Vec<u32>), Refusal> {
    let targets: HashSet<usize> = targets.iter().filter_map(|id| table.position(id)).collect();
    let labels = table.labels().unwrap_or_default();
    let own: Vec<usize> = (0..labels.len()).filter(|p| !targets.contains(p)).collect();
    let y = table.fetch_at(&own).map_err(|e| Refusal::internal(e.to_string()))?;
    Ok((y, own.iter().map(|&p| labels[p]).collect()))
}

/// Returns the release of the first `n` records.
fn first(released: &ReleasedScores, n: usize) -> ReleasedScores {
    match released {
        ReleasedScores::Probabilities(m) => {
            ReleasedScores::Probabilities(m.columns(0, n).into_owned())
        }
        ReleasedScores::Numbers(m) => ReleasedScores::Numbers(m.columns(0, n).into_owned()),
        ReleasedScores::Ciphertexts(m) => ReleasedScores::Ciphertexts(m.columns(0, n).into_owned()),
        ReleasedScores::Labels { classes, labels } => ReleasedScores::Labels {
            classes: *classes,
            labels: labels.iter().take(n).copied().collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;
    use vfl_core::data::schema::{FeatureSchema, FeatureSpec};

    use super::*;

    #[test]
    fn a_table_without_labels_has_no_labelled_record() {
        let ids = RecordIds::new(["a", "b"]).unwrap();
        let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f", 0.0, 1.0)], None).unwrap();
        let block = FeatureBlock::new(DMatrix::from_element(1, 2, 0.5)).unwrap();
        let table = FeatureTable::new(schema, ids.clone(), block, None).unwrap();
        let (y, labels) = labelled_rows(&table, &ids.slice(0, 1)).unwrap();
        assert!(labels.is_empty() && y.records() == 0);
    }
}
