//! The attack on records whose scores are not asked for: labelled records of this party's own stand in for them.

use std::collections::HashSet;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_shared::data::FeatureStore;
use vfl_shared::rpc::Refusal;
use vfl_shared::types::{FeatureBlock, RecordIds, ReleasedScores};

use super::{Reconstructor, Task};
use crate::attack::{Agnostic, AttackError, KnownModel, LabelledRecords, Reconstruction, Seen};

impl Reconstructor {
    /// This party's records that have a label and are not under attack.
    pub(super) fn own_records(&self, targets: &RecordIds) -> Result<LabelledRecords, Refusal> {
        let table = &self.scorer.table;
        let targets: HashSet<usize> = targets.iter().filter_map(|id| table.position(id)).collect();
        let own: Vec<usize> = (0..table.len()).filter(|p| !targets.contains(p)).collect();
        let labels = table.labels().unwrap_or_default();
        let labels = own.iter().filter_map(|&p| labels.get(p).copied()).collect();
        let y = table.fetch_at(&own).map_err(|e| Refusal::internal(e.to_string()))?;
        Ok(LabelledRecords { y, labels })
    }

    /// Runs the attack that estimates the scores of the records instead of asking for them.
    pub(super) async fn estimate_scores(
        &self,
        own: Arc<LabelledRecords>,
        known: Arc<KnownModel>,
        y: Arc<FeatureBlock>,
        released: Arc<ReleasedScores>,
        task: &Task,
        seed: u64,
    ) -> Result<Result<Reconstruction, AttackError>, Refusal> {
        let attack = Agnostic::from(&task.settings);
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
            found.remarks.insert(
                0,
                format!(
                    "scores estimated by a model of the adversary's own features, fitted to {} labelled records and {observed} \
                     records seen",
                    own.labels.len()
                ),
            );
            Ok(found)
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::internal("an attack panicked"))
    }
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
