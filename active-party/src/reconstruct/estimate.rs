//! The attack on records whose scores are not asked for: labelled records of this party's own stand in for them.

use std::collections::HashSet;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_shared::data::{FeatureStore, FeatureTable};
use vfl_shared::rpc::Refusal;
use vfl_shared::types::{FeatureBlock, RecordIds, ReleasedScores};

use super::{Reconstructor, Task};
use crate::attack::{Agnostic, AttackError, KnownModel, LabelledRecords, Reconstruction, Seen};

impl Reconstructor {
    /// This party's records that have a label and are not under attack.
    pub(super) fn own_records(&self, targets: &RecordIds) -> Result<LabelledRecords, Refusal> {
        labelled(&self.scorer.table, targets)
    }

    /// Runs the attack that estimates the scores of the records instead of asking for them. The first ones, which were asked
    /// about, are attacked by the scores that came back: the adversary has them, and would not estimate what it knows.
    pub(super) async fn estimate_scores(
        &self,
        own: Arc<LabelledRecords>,
        known: Arc<KnownModel>,
        y: Arc<FeatureBlock>,
        released: Arc<ReleasedScores>,
        task: &Task,
        seed: u64,
    ) -> Result<Result<Reconstruction, AttackError>, Refusal> {
        let attack = Agnostic { seen_are_targets: true, ..Agnostic::from(&task.settings) };
        let (observed, replacement) = (attack.settings.observed, task.settings.replacement);
        let turn = self.turn.clone().lock_owned().await;
        let run = move || -> Result<Reconstruction, AttackError> {
            let _turn = turn;
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let seen = match observed {
                0 => None,
                n => Some((FeatureBlock::new(y.matrix().columns(0, n).into_owned())?, first(&released, n))),
            };
            let shown = seen.as_ref().map(|(y, released)| Seen { y, released });
            let mut found = attack.reconstruct(&known, &own, shown, replacement, &y, &mut rng)?.reconstruction;
            found
                .remarks
                .insert(0, remark(own.labels.len(), observed, seen.map(|(_, released)| released), y.records()));
            Ok(found)
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::internal("an attack panicked"))
    }
}

/// Where the scores that were attacked come from.
fn remark(labelled: usize, observed: usize, seen: Option<ReleasedScores>, records: usize) -> String {
    let own = match seen {
        Some(ReleasedScores::Probabilities(_) | ReleasedScores::Numbers(_)) => observed,
        _ => 0,
    };
    format!(
        "scores estimated by a model of the adversary's own features, fitted to {labelled} labelled records and {observed} \
         records seen; {own} of the {records} records under attack had their own score, which was attacked instead"
    )
}

/// The records of a table that have a label and are not among the targets; none where there are no labels.
fn labelled(table: &FeatureTable, targets: &RecordIds) -> Result<LabelledRecords, Refusal> {
    let targets: HashSet<usize> = targets.iter().filter_map(|id| table.position(id)).collect();
    let labels = table.labels().unwrap_or_default();
    let own: Vec<usize> = (0..labels.len()).filter(|p| !targets.contains(p)).collect();
    let y = table.fetch_at(&own).map_err(|e| Refusal::internal(e.to_string()))?;
    Ok(LabelledRecords { y, labels: own.iter().map(|&p| labels[p]).collect() })
}

/// What was released of the first `n` records.
fn first(released: &ReleasedScores, n: usize) -> ReleasedScores {
    match released {
        ReleasedScores::Probabilities(m) => ReleasedScores::Probabilities(m.columns(0, n).into_owned()),
        ReleasedScores::Numbers(m) => ReleasedScores::Numbers(m.columns(0, n).into_owned()),
        ReleasedScores::Ciphertexts(m) => ReleasedScores::Ciphertexts(m.columns(0, n).into_owned()),
        ReleasedScores::Labels { classes, labels } => {
            ReleasedScores::Labels { classes: *classes, labels: labels.iter().take(n).copied().collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, DVector};
    use vfl_shared::data::{FeatureSchema, FeatureSpec};

    use super::*;

    fn block(records: usize) -> FeatureBlock {
        FeatureBlock::new(DMatrix::from_element(1, records, 0.5)).unwrap()
    }

    #[test]
    fn a_table_without_labels_has_no_labelled_record() {
        let ids = RecordIds::new(["a", "b"]).unwrap();
        let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f", 0.0, 1.0)], None).unwrap();
        let table = FeatureTable::new(schema, ids.clone(), block(2), None).unwrap();
        let own = labelled(&table, &ids.slice(0, 1)).unwrap();
        let known =
            KnownModel::white_box(DMatrix::zeros(2, 1), DVector::zeros(2), DMatrix::from_element(2, 1, 1.0)).unwrap();
        let rng = &mut ChaCha20Rng::seed_from_u64(0);
        let replacement = crate::attack::Replacement::default();
        let error = Agnostic::default().reconstruct(&known, &own, None, replacement, &block(1), rng).unwrap_err();
        assert_eq!(error, AttackError::NoLabelled { attack: "agnostic" });
    }

    #[test]
    fn the_remark_counts_the_scores_that_were_not_estimated() {
        let scores = ReleasedScores::Probabilities(DMatrix::from_element(2, 3, 0.5));
        assert!(remark(7, 3, Some(scores), 9).contains("3 of the 9 records under attack had their own score"));
        let labels = ReleasedScores::Labels { classes: 2, labels: vec![0; 3] };
        assert!(remark(7, 3, Some(labels), 9).contains("0 of the 9 records"));
        assert!(remark(7, 0, None, 9).contains("labelled records and 0 records seen; 0 of the 9 records"));
    }
}
