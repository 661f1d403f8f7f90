//! The models of the experiment: the records each is trained on, and its releases for all records.

use anyhow::{Context, bail};
use nalgebra::DMatrix;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use sha2::{Digest, Sha256};
use vfl_core::metrics::accuracy;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{LinearParameters, PartyLearner, TrainingConfig, TrainingValues};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits};
use vfl_datasets::local_training::{LocalTraining, start};
use vfl_defense::{DefenseConfig, Grants, Noise, Pipeline, Policy};

use super::ratio::{Likelihood, statistics};

/// The number of records scored at once.
const CHUNK: usize = 1024;

/// The assignment of records to models.
pub(super) struct Membership {
    models: usize,
    /// Record by record, true for each model that is trained with it.
    flags: Vec<bool>,
}

impl Membership {
    /// Draws one half of the models for each record. `models` is even and above 0.
    pub(super) fn draw(records: usize, models: usize, rng: &mut ChaCha20Rng) -> Self {
        let mut order: Vec<usize> = (0..models).collect();
        let mut flags = vec![false; records * models];
        for row in flags.chunks_exact_mut(models.max(1)) {
            order.shuffle(rng);
            order[..models / 2].iter().for_each(|&model| row[model] = true);
        }
        Self { models, flags }
    }

    /// Returns, record by record, true for each model that is trained with it.
    pub(super) fn flags(&self) -> &[bool] {
        &self.flags
    }

    /// Returns, for each record, true if this model is trained with it.
    pub(super) fn of_model(&self, model: usize) -> Vec<bool> {
        self.flags.iter().skip(model).step_by(self.models.max(1)).copied().collect()
    }

    /// Returns the number of records that each model is trained with.
    pub(super) fn sizes(&self) -> Vec<usize> {
        (0..self.models)
            .map(|model| self.of_model(model).into_iter().filter(|member| *member).count())
            .collect()
    }
}

/// The settings of all trainings, and the policies applied to their scores.
pub(super) struct Recipe<'a> {
    /// The training settings except the seed, of which each model has its own.
    pub(super) training: &'a TrainingValues,
    /// The differential privacy of every party's training; `None`: no privacy.
    pub(super) privacy: Option<PrivacyConfig>,
    pub(super) classes: usize,
    /// The features of all records for each party, the active party's first.
    pub(super) blocks: &'a [DMatrix<f64>],
    /// The class of each record.
    pub(super) labels: &'a [u32],
    /// The policies to measure.
    pub(super) policies: &'a [Policy],
    /// Seed of everything random.
    pub(super) seed: u64,
}

/// The release of one model under one policy.
pub(super) struct Release {
    /// The attacks' statistic for each record.
    pub(super) statistics: Vec<f64>,
    /// The distribution of the statistic.
    pub(super) likelihood: Likelihood,
    /// The share of the records whose class is released correctly, for members and for others.
    pub(super) accuracy: (f64, f64),
}

/// The releases of one model.
pub(super) struct ModelReleases {
    /// The release under each policy.
    pub(super) releases: Vec<Release>,
    /// The privacy statement of its passive party.
    pub(super) privacy: Option<PrivacyStatement>,
}

impl Recipe<'_> {
    /// Trains a model with the records marked in `members`, and releases its scores of all records
    /// under each policy.
    ///
    /// Everything random derives from the seed, the number of the model and the text of the policy:
    /// neither the order of the work nor the other policies change a number.
    ///
    /// # Errors
    /// If the training diverges, or a policy does not apply to the scores.
    pub(super) fn train_and_score(
        &self,
        model: usize,
        members: &[bool],
    ) -> anyhow::Result<ModelReleases> {
        let seed = number(self.seed_of("training", model));
        let config = TrainingConfig::try_from(TrainingValues { seed, ..self.training.clone() })?;
        // Members come first: `LocalTraining` expects this order.
        let (inside, outside): (Vec<usize>, Vec<usize>) =
            (0..members.len()).partition(|&record| members[record]);
        let order: Vec<usize> = inside.iter().chain(&outside).copied().collect();
        let labels: Vec<u32> = order.iter().map(|&record| self.labels[record]).collect();
        let (own_labels, other_labels) = labels.split_at(inside.len());
        let parties = self.parties(&config, model, &order)?;
        let mut trained =
            LocalTraining::train(&config, self.classes, parties, own_labels, start(&config))?;

        let positions: Vec<u32> = (0..order.len() as u32).collect();
        let mut logits = DMatrix::<f64>::zeros(self.classes, order.len());
        for (at, chunk) in positions.chunks(CHUNK).enumerate() {
            let found = trained.logits(chunk, true)?;
            logits.columns_mut(at * CHUNK, chunk.len()).copy_from(found.matrix());
        }
        // As in a training over sockets, defenses are fitted on scores of the training records.
        let own = Logits::new(logits.columns(0, inside.len()).into_owned())?;
        let calibration = ConfidenceScores::softmax(own);
        let logits = Logits::new(logits)?;
        let weights = self.passive_weights(&trained)?;

        let mut releases = Vec::with_capacity(self.policies.len());
        for policy in self.policies {
            let name = policy.to_string();
            let seed = self.seed_of(&format!("fit of {name}"), model);
            let grants =
                Grants { passive_weights: weights.as_ref(), calibration: Some(&calibration), seed };
            let failed = || format!("policy `{name}`");
            let pipeline =
                Pipeline::build(&policy.defenses, self.classes, &grants).with_context(failed)?;
            let noise = Noise::fresh(self.seed_of(&format!("noise of {name}"), model));
            let released = pipeline.release(logits.clone(), noise).with_context(failed)?.released;
            let (in_order, likelihood) = statistics(&released, &labels);
            let mut by_record = vec![0.0; order.len()];
            order.iter().zip(in_order).for_each(|(&record, value)| by_record[record] = value);
            let predicted = released.predicted_labels();
            let (of_own, of_others) = predicted.split_at(inside.len());
            let accuracy = (accuracy(of_own, own_labels)?, accuracy(of_others, other_labels)?);
            releases.push(Release { statistics: by_record, likelihood, accuracy });
        }
        let privacy = trained.parties().last().and_then(PartyLearner::privacy);
        Ok(ModelReleases { releases, privacy })
    }

    /// Returns the learners of all parties, with the records in this order.
    fn parties(
        &self,
        config: &TrainingConfig,
        model: usize,
        order: &[usize],
    ) -> anyhow::Result<Vec<PartyLearner>> {
        let mut parties = Vec::with_capacity(self.blocks.len());
        for (place, block) in self.blocks.iter().enumerate() {
            let block = FeatureBlock::new(block.select_columns(order))?;
            let learner = PartyLearner::new(config, self.classes, block, place == 0)?;
            parties.push(match self.privacy {
                Some(privacy) => {
                    let seed = self.seed_of(&format!("privacy of party {place}"), model);
                    learner.with_privacy(privacy, config, seed)?
                }
                None => learner,
            });
        }
        Ok(parties)
    }

    /// Returns the weights of all passive parties side by side, if a policy needs them.
    fn passive_weights(&self, trained: &LocalTraining) -> anyhow::Result<Option<DMatrix<f64>>> {
        if !self.policies.iter().any(needs_weights) {
            return Ok(None);
        }
        let sub_models = trained.sub_models()?;
        let passive: Option<Vec<&LinearParameters>> =
            sub_models.iter().skip(1).map(|party| party.linear()).collect();
        let Some(passive) = passive else {
            bail!("a policy takes the weights of a linear model, and this is a network")
        };
        let features: usize = passive.iter().map(|party| party.features()).sum();
        let mut side_by_side = DMatrix::<f64>::zeros(self.classes, features);
        let mut at = 0;
        for party in passive {
            side_by_side.columns_mut(at, party.features()).copy_from(party.weights());
            at += party.features();
        }
        Ok(Some(side_by_side))
    }

    /// Derives a seed of 32 bytes that no other use and no other model has.
    fn seed_of(&self, what: &str, model: usize) -> [u8; 32] {
        Sha256::digest(format!("membership, seed {}, model {model}, {what}", self.seed)).into()
    }
}

/// Returns true if a policy needs the weights of the passive parties.
pub(super) fn needs_weights(policy: &Policy) -> bool {
    policy.defenses.iter().any(DefenseConfig::needs_passive_weights)
}

/// Returns the first eight bytes as a number.
fn number([a, b, c, d, e, f, g, h, ..]: [u8; 32]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_record_is_in_half_of_the_models() {
        let (records, models) = (3000, 16);
        let draw = |seed| Membership::draw(records, models, &mut ChaCha20Rng::seed_from_u64(seed));
        let membership = draw(1);
        for row in membership.flags().chunks_exact(models) {
            assert_eq!(row.iter().filter(|member| **member).count(), models / 2);
        }
        // Of 3000 records a model has 1500, with a standard deviation of 27.
        let sizes = membership.sizes();
        assert_eq!(sizes.iter().sum::<usize>(), records * models / 2);
        assert!(sizes.iter().all(|size| size.abs_diff(1500) < 140), "{sizes:?}");
        // Two models share about as many records as chance predicts: 3000 · ½ · 7/15.
        let (first, second) = (membership.of_model(0), membership.of_model(1));
        let shared = first.iter().zip(&second).filter(|(a, b)| **a && **b).count();
        assert!(shared.abs_diff(700) < 120, "{shared}");
        for (record, row) in membership.flags().chunks_exact(models).enumerate() {
            assert_eq!((row[0], row[1]), (first[record], second[record]));
        }
        assert_eq!(draw(1).flags(), membership.flags());
        assert_ne!(draw(2).flags(), membership.flags());
    }

    /// No two draws of a run are alike, and none depends on what else is done.
    #[test]
    fn seeds_are_of_their_use() {
        let training = TrainingValues::default();
        let of = |seed| Recipe {
            training: &training,
            privacy: None,
            classes: 2,
            blocks: &[],
            labels: &[],
            policies: &[],
            seed,
        };
        let first = of(7).seed_of("training", 3);
        assert_eq!(first, of(7).seed_of("training", 3));
        assert_ne!(first, of(7).seed_of("training", 4));
        assert_ne!(first, of(7).seed_of("noise of none", 3));
        assert_ne!(first, of(8).seed_of("training", 3));
        assert_eq!(number([1; 32]), 0x0101_0101_0101_0101);
    }
}
