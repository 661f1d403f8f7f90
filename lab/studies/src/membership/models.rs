//! The models of the experiment: the records each is trained on, and its releases for all records.

use anyhow::Context;
use nalgebra::DMatrix;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use vfl_core::metrics::accuracy;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{PartyLearner, TrainingValues};
use vfl_core::types::{ConfidenceScores, Logits};
use vfl_datasets::local_training::{LocalTraining, learners, start};
use vfl_defense::{DefenseConfig, Grants, Noise, Pipeline, Policy};

use super::ratio::{Likelihood, statistics};
use crate::runs::{Seeds, passive_weights};
use crate::subject::Subject;

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
    /// All records.
    pub(super) subject: &'a Subject,
    /// The policies to measure.
    pub(super) policies: &'a [Policy],
    /// The seeds of everything random.
    pub(super) seeds: Seeds,
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
        let seed_of = |what: &str| self.seeds.of(format_args!("model {model}, {what}"));
        let config = self.seeds.config(self.training, format_args!("model {model}, training"))?;
        let classes = self.subject.classes();
        // Members come first: `LocalTraining` expects this order.
        let (inside, outside): (Vec<usize>, Vec<usize>) =
            (0..members.len()).partition(|&record| members[record]);
        let order: Vec<usize> = inside.iter().chain(&outside).copied().collect();
        let labels: Vec<u32> = order.iter().map(|&record| self.subject.labels[record]).collect();
        let (own_labels, other_labels) = labels.split_at(inside.len());
        let blocks = self.subject.blocks.iter().map(|block| block.select(&order));
        let noise_seed = |party: usize| seed_of(&format!("privacy of party {party}"));
        let privacy =
            self.privacy.map(|privacy| (privacy, &noise_seed as &dyn Fn(usize) -> [u8; 32]));
        let parties = learners(&config, classes, blocks, privacy)?;
        let mut trained =
            LocalTraining::train(&config, classes, parties, own_labels, start(&config))?;

        let positions: Vec<u32> = (0..order.len() as u32).collect();
        let mut logits = DMatrix::<f64>::zeros(classes, order.len());
        for (at, chunk) in positions.chunks(CHUNK).enumerate() {
            let found = trained.logits(chunk, true)?;
            logits.columns_mut(at * CHUNK, chunk.len()).copy_from(found.matrix());
        }
        // As in a training over sockets, defenses are fitted on scores of the training records.
        let own = Logits::new(logits.columns(0, inside.len()).into_owned())?;
        let calibration = ConfidenceScores::softmax(own);
        let logits = Logits::new(logits)?;
        let weights = if self.policies.iter().any(needs_weights) {
            let weights = passive_weights(&trained.sub_models()?);
            let failed = "a policy takes the weights of a linear model, and this is a network";
            Some(weights.context(failed)?)
        } else {
            None
        };

        let mut releases = Vec::with_capacity(self.policies.len());
        for policy in self.policies {
            let name = policy.to_string();
            let seed = seed_of(&format!("fit of {name}"));
            let grants =
                Grants { passive_weights: weights.as_ref(), calibration: Some(&calibration), seed };
            let failed = || format!("policy `{name}`");
            let pipeline =
                Pipeline::build(&policy.defenses, classes, &grants).with_context(failed)?;
            let noise = Noise::fresh(seed_of(&format!("noise of {name}")));
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
}

/// Returns true if a policy needs the weights of the passive parties.
pub(super) fn needs_weights(policy: &Policy) -> bool {
    policy.defenses.iter().any(DefenseConfig::needs_passive_weights)
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
}
