//! The black-box attack of an honest party: how much the messages of a training tell it about the
//! features of the others.
//!
//! The [`Adversary`] follows the protocol: its shares are its own, labels are true. For every batch
//! it receives the gradient (c − e_y) / B, and hence the contribution of the others' features to
//! the logits of every record, up to a number per record. The coordinator receives the contribution
//! of each party by itself. It sees no parameter and no feature of others, except those of a few
//! known records. [`reconstruct`] is the attack; an [`Experiment`] measures it by number of epochs.
//! [`optimiser_gauge`] is the attack without any known record, and [`embeddings`] that of the
//! coordinator under the combiner `concat`.
//!
//! The negative entry of a record's gradient is that of its label, which a passive party and the
//! coordinator read; the coordinator of a plain training is sent the labels besides. The active
//! party's bias has the sum of the gradients as its own, so that every party can compute it and
//! take it off.

mod adversary;
pub mod embeddings;
mod factor;
mod gauge;
pub mod optimiser_gauge;
mod record;
mod text;

use anyhow::{Context, bail};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use vfl_core::model::{Combiner, Schedule, TrainingConfig, TrainingValues};
use vfl_core::types::FeatureBlock;

pub use self::adversary::{Adversary, Owner, Target, record};
use self::factor::{Factors, known_of};
pub use self::record::{Step, Transcript};
use crate::study::{Event, Listener, Study};
use crate::subject::{Subject, SubjectFacts, SubjectSpec};

/// The largest error of a feature that counts as a hit, for features in [0, 1].
pub const NEAR: f64 = 0.01;
/// The number of iterations between two looks at the noise.
const PATIENCE: usize = 20;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub struct TranscriptPlan {
    /// The data set and its split.
    pub subject: SubjectSpec,
    /// The settings of the training. Its epochs are the largest of [`epochs`](Self::epochs).
    pub training: TrainingValues,
    /// The party that attacks.
    pub adversary: Adversary,
    /// The number of training records whose attacked features the adversary knows.
    pub known: usize,
    /// The numbers of epochs to measure at.
    pub epochs: Vec<u32>,
    /// The most iterations of the attack.
    pub iterations: usize,
    /// The seed of the choice of known records.
    pub seed: u64,
}

impl TranscriptPlan {
    /// Loads the training records and checks the settings of the training.
    fn load(&self) -> anyhow::Result<(Subject, TrainingConfig)> {
        if self.training.model.combiner() != Combiner::Sum {
            bail!(
                "attacks on shares of logits take combiner `sum`: `embeddings` has those under `concat`"
            );
        }
        let subject = Subject::load(&self.subject, |set| Ok(set.split().train.clone()))?;
        Ok((subject, self.config()?))
    }

    /// Checks the settings of the training.
    fn config(&self) -> anyhow::Result<TrainingConfig> {
        let Some(&most) = self.epochs.iter().max() else { bail!("no number of epochs is given") };
        // The active party sets the patience, so the training ends when it decides.
        let values = TrainingValues { epochs: most, patience: most, ..self.training.clone() };
        Ok(TrainingConfig::try_from(values)?)
    }

    /// Returns the numbers of epochs, each once, in rising order.
    fn ordered_epochs(&self) -> Vec<u32> {
        let mut epochs = self.epochs.clone();
        epochs.sort_unstable();
        epochs.dedup();
        epochs
    }
}

/// The accuracy of estimates, over all features of all records that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Accuracy {
    /// The mean squared error of a feature, for features in [0, 1].
    pub mean_squared_error: f64,
    /// The same error over the mean variance of the features: the column means have 1.
    pub error_over_variance: f64,
    /// The share of the values within 0.01 of the truth.
    pub values_within_0_01: f64,
    /// The share of the records with all features within 0.01 of the truth.
    pub records_within_0_01: f64,
    /// The median over records of the largest error of a feature.
    pub median_largest_error: f64,
}

/// The results at one number of epochs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AfterEpochs {
    /// The number of epochs of the training.
    pub epochs: u32,
    /// The number of steps of the training.
    pub steps: usize,
    /// The accuracy of the attack's estimates.
    #[serde(flatten)]
    pub accuracy: Accuracy,
    /// The root mean square of the logits' residual after the factors.
    pub misfit: f64,
    /// The iterations of the attack.
    pub iterations: usize,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TranscriptReport {
    /// The data set and its split.
    #[serde(flatten)]
    pub subject: SubjectFacts,
    /// Number of passive parties.
    pub passive_parties: usize,
    /// Records in steps of the training, without those set aside for validation.
    pub training_records: usize,
    /// The party that attacks.
    pub chair: Adversary,
    /// The owners of the features that it attacks.
    pub features_of: Vec<Owner>,
    /// The number of these features.
    pub attacked_features: usize,
    /// The labels that the adversary reads. `None`: the active party has them.
    pub labels: Option<LabelReading>,
    /// The number of known records.
    pub known_records: usize,
    /// The settings of the training.
    pub training: TrainingValues,
    /// Seed of the choice of known records.
    pub seed: u64,
    /// The accuracy of ½ everywhere.
    pub half: Accuracy,
    /// The accuracy of the true column means, which the adversary does not know.
    pub column_means: Accuracy,
    /// The accuracy of the means of the known records.
    pub known_means: Accuracy,
    /// The accuracy of a regression on label and own features from the known records: the active
    /// party's inference without a training. A passive party would not have the labels.
    pub without_training: Accuracy,
    /// The results of the attack by number of epochs.
    pub attack: Vec<AfterEpochs>,
}

/// The labels of the training records that residuals tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LabelReading {
    /// The share of the training records whose label was read correctly.
    pub labels_read: f64,
    /// The share of the most frequent class: the control, which always names that class.
    pub most_frequent_class: f64,
}

impl LabelReading {
    /// Compares the labels that a transcript holds with the true ones, over these records.
    fn of(transcript: &Transcript, labels: &[u32], records: &[usize]) -> Self {
        let right = records.iter().filter(|&&r| transcript.labels[r] == Some(labels[r])).count();
        let of_class = |class| {
            let class = u32::try_from(class).unwrap_or(u32::MAX);
            records.iter().filter(|&&r| labels[r] == class).count()
        };
        let most = (0..transcript.classes).map(of_class).max().unwrap_or(0);
        let share = |count: usize| count as f64 / records.len().max(1) as f64;
        Self { labels_read: share(right), most_frequent_class: share(most) }
    }
}

/// Returns the features of these owners, one per row.
fn features_of(owners: &[Owner], blocks: &[FeatureBlock]) -> DMatrix<f64> {
    let blocks = owners.iter().filter_map(|owner| blocks.get(owner.block()));
    let rows: Vec<_> = blocks.flat_map(|block| block.matrix().row_iter()).collect();
    match rows.is_empty() {
        true => DMatrix::zeros(0, 0),
        false => DMatrix::from_rows(&rows),
    }
}

/// Estimates of the attacked features of all records of the training's list.
#[derive(Clone)]
pub struct Estimates {
    /// The estimates, d × n, in [0, 1]. Records that occur in no step have the regression's values.
    pub x: DMatrix<f64>,
    /// The root mean square of the logits' residual after the factors.
    pub misfit: f64,
    /// The number of iterations run.
    pub iterations: usize,
}

/// Runs the attack: estimates the features of all records from the steps (a prefix of the
/// transcript's) and the true features under attack (d × m) of the `known` records.
///
/// The contributions of these features to the logits are W_t x_r, a product of low rank:
/// `Factors` finds both factors, `gauge` chooses among the equivalent pairs. It runs at most
/// `iterations`, and ends when the noise has stopped falling.
#[must_use]
pub fn reconstruct(
    transcript: &Transcript,
    steps: &[Step],
    known: &[usize],
    truth: &DMatrix<f64>,
    iterations: usize,
) -> Estimates {
    let everyone: Vec<usize> = (0..transcript.labels.len()).collect();
    let z = known_of(transcript, &everyone);
    let mut x = gauge::regression(&z, known, truth);
    for (column, &position) in known.iter().enumerate() {
        x.set_column(position, &truth.column(column));
    }
    let mut factors = Factors::new(transcript, steps, &x);
    let (mut done, mut noise) = (0, f64::INFINITY);
    while done < iterations {
        factors.iterate();
        done += 1;
        if done % PATIENCE == 0 {
            if factors.noise > 0.98 * noise {
                break;
            }
            noise = factors.noise;
        }
    }
    let (seen, estimates) = factors.estimates(known);
    let their_truth: Vec<usize> =
        known.iter().enumerate().filter(|(_, p)| seen.contains(p)).map(|(i, _)| i).collect();
    let map = gauge::gauge(&truth.select_columns(&their_truth), &estimates, &factors.x);
    let mapped = map.tr_mul(&factors.x);
    for (column, &position) in factors.records.iter().enumerate() {
        x.column_mut(position)
            .iter_mut()
            .zip(mapped.column(column).iter())
            .for_each(|(to, v)| *to = v.clamp(0.0, 1.0));
    }
    for (column, &position) in known.iter().enumerate() {
        x.set_column(position, &truth.column(column));
    }
    Estimates { x, misfit: factors.noise.sqrt(), iterations: done }
}

/// Measures estimates (d × n) of the given records against the truth.
///
/// # Panics
/// If the shapes differ.
#[must_use]
pub fn accuracy(estimates: &DMatrix<f64>, truth: &DMatrix<f64>, records: &[usize]) -> Accuracy {
    let truth = truth.select_columns(records);
    let error = estimates.select_columns(records) - &truth;
    let count = error.len().max(1) as f64;
    let means = truth.column_mean();
    let variance = truth.column_iter().map(|c| (c - &means).norm_squared()).sum::<f64>() / count;
    let mean_squared_error = error.norm_squared() / count;
    let mut largest: Vec<f64> = error.column_iter().map(|c| c.amax()).collect();
    largest.sort_by(f64::total_cmp);
    let share = |n: usize, of: usize| n as f64 / of.max(1) as f64;
    Accuracy {
        mean_squared_error,
        error_over_variance: mean_squared_error / variance.max(f64::MIN_POSITIVE),
        values_within_0_01: share(error.iter().filter(|e| e.abs() <= NEAR).count(), error.len()),
        records_within_0_01: share(largest.iter().filter(|e| **e <= NEAR).count(), largest.len()),
        median_largest_error: largest.get(largest.len() / 2).copied().unwrap_or(0.0),
    }
}

/// A checked plan, and its records.
pub struct Experiment {
    plan: TranscriptPlan,
    /// The settings of the training, with all epochs.
    config: TrainingConfig,
    subject: Subject,
    /// The records that the training makes steps on.
    trained: Vec<usize>,
    /// The records whose attacked features the adversary knows.
    known: Vec<usize>,
    /// The other records of steps.
    others: Vec<usize>,
}

impl Experiment {
    /// Loads the data, draws the known records, and checks the plan before the training.
    ///
    /// # Errors
    /// If the adversary is the coordinator, data cannot be loaded or split, the configuration is
    /// out of its range, or there are not enough records for the known ones.
    pub fn prepare(plan: &TranscriptPlan) -> anyhow::Result<Self> {
        if plan.adversary == Adversary::Coordinator && plan.known > 0 {
            bail!("the coordinator's attack has no known records: take --known 0");
        }
        let (subject, config) = plan.load()?;
        let schedule = Schedule::new(&config, subject.labels.len());
        let trained: Vec<usize> = schedule.training().iter().map(|&p| p as usize).collect();
        let mut known = trained.clone();
        known.sort_unstable();
        known.shuffle(&mut ChaCha20Rng::seed_from_u64(plan.seed));
        if plan.known == 0 || plan.known >= known.len() {
            bail!("known records: {} is not in 1 to {}", plan.known, known.len().saturating_sub(1));
        }
        let others = known.split_off(plan.known);
        Ok(Self { plan: plan.clone(), config, subject, trained, known, others })
    }
}

impl Study for Experiment {
    type Report = TranscriptReport;
    const TITLE: &'static str = "measuring what a training tells";

    fn parts(&self) -> usize {
        self.plan.epochs.len()
    }

    /// Trains once in this process, and attacks the transcript after each of the numbers of epochs.
    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<TranscriptReport> {
        let Self { plan, config, subject, trained, known, others } = self;
        if let Some((set, _)) = &subject.set {
            let (epochs, records) = (config.values().epochs, trained.len());
            tell(Event::Start(&format!("{set}; training {epochs} epochs on {records} records")));
        }
        let (classes, blocks, labels) = (subject.classes(), &subject.blocks, &subject.labels);
        let targets = plan.adversary.observe(config, classes, blocks, labels)?;
        let target = targets.into_iter().next().context("there is no party to attack")?;
        let Target { owners, transcript } = target;
        let truth = features_of(&owners, blocks);
        let known_truth = truth.select_columns(known);
        let (d, n) = truth.shape();
        let constant = |v: &nalgebra::DVector<f64>| DMatrix::from_fn(d, n, |i, _| v[i]);
        let everyone: Vec<usize> = (0..n).collect();
        let measure = |x: &DMatrix<f64>| accuracy(x, &truth, others);
        let mut attack = Vec::new();
        for epochs in plan.ordered_epochs() {
            tell(Event::Start(&format!("attacking the first {epochs} epochs")));
            let steps = transcript.first(epochs as usize);
            let estimates = reconstruct(&transcript, steps, known, &known_truth, plan.iterations);
            let accuracy = measure(&estimates.x);
            let error = accuracy.error_over_variance;
            tell(Event::End(&format!("{epochs} epochs: error over variance {error:.2e}")));
            attack.push(AfterEpochs {
                epochs,
                steps: steps.len(),
                accuracy,
                misfit: estimates.misfit,
                iterations: estimates.iterations,
            });
        }
        Ok(TranscriptReport {
            subject: subject.facts(),
            passive_parties: subject.passive_parties(),
            training_records: trained.len(),
            chair: plan.adversary,
            attacked_features: d,
            labels: (plan.adversary != Adversary::Active)
                .then(|| LabelReading::of(&transcript, labels, trained)),
            features_of: owners,
            known_records: known.len(),
            training: config.values().clone(),
            seed: plan.seed,
            half: measure(&DMatrix::from_element(d, n, 0.5)),
            column_means: measure(&constant(&truth.select_columns(others).column_mean())),
            known_means: measure(&constant(&known_truth.column_mean())),
            without_training: measure(&gauge::regression(
                &known_of(&transcript, &everyone),
                known,
                &known_truth,
            )),
            attack,
        })
    }
}

#[cfg(test)]
mod tests;
