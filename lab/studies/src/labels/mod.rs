//! Label inference: how much a training tells a passive party about the labels, which are the
//! active party's secret.
//!
//! All parties follow the protocol. In every step a passive party receives the gradient of the mean
//! loss with respect to its outputs, and the positions of the batch's records, whose ids it has.
//! Under the combiner `sum` the gradient is (c − e_y) / B, the same for all parties; under `concat`
//! it is the gradient that a top model passes on. The adversary is the first passive party. It may
//! know the labels of a few records of each class. An [`Experiment`] trains several times, with
//! different seeds and known records, and measures by number of epochs:
//!
//! - attacks on gradients (O. Li et al., *Label Leakage and Protection in Two-party Split
//!   Learning*, ICLR 2022, arXiv:2102.08504; C. Fu et al., *Label Inference Attacks Against
//!   Vertical Federated Learning*, USENIX Security 2022);
//! - attacks on the party's own parameters alone, as in a protocol that would withhold gradients:
//!   model completion of Fu et al., the largest of its own outputs, and the signs of its own
//!   weights.
//!
//! The references are guessing and the control, which infers labels from the party's own features
//! and the known records, without a training. `attacks.rs` has the formulas.

mod attacks;
mod passive_transcript;
mod report;
mod text;

use anyhow::{Context, anyhow, bail, ensure};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{Combiner, ModelConfig, Schedule, TrainingConfig, TrainingValues};
use vfl_core::types::FeatureBlock;

pub use self::attacks::{
    KnownLabel, PredictedLabels, completion, gradient_direction, gradient_norm, gradient_sides,
    gradient_sign, own_outputs, parameter_signs,
};
pub use self::passive_transcript::{
    ObservedTraining, PassiveTranscript, Step, SubModelSnapshot, observe,
};
pub use self::report::{
    Attack, AttackRow, LabelAccuracy, LabelsReport, MeanLabelAccuracy, ModelRows, Verdict,
};
use crate::runs::{Seeds, check_range, check_work, repeat, sample_learners, work_of_record};
use crate::study::{Listener, Study};
use crate::subject::{LEAST_RECORDS, Subject, SubjectSpec};

/// The allowed number of trainings of each model. Fewer give no usable standard error.
pub const TRAININGS: std::ops::RangeInclusive<usize> = 4..=1000;
/// The most known labels of a class.
pub const MOST_KNOWN: usize = 100;
/// The most gradient values of one training: 256 MiB.
const MOST_NUMBERS: usize = 1 << 25;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub struct LabelsPlan {
    /// The data set and its split.
    pub subject: SubjectSpec,
    /// The models to train.
    pub models: Vec<ModelConfig>,
    /// The settings of each training. Its model, epochs, patience and seed are ignored.
    pub training: TrainingValues,
    /// The differential privacy of every party's training; `None`: no privacy.
    pub privacy: Option<PrivacyConfig>,
    /// The number of records, drawn from the whole data set; all of them if there are fewer.
    pub records: usize,
    /// Labels of each class that the adversary knows.
    pub known: usize,
    /// The numbers of epochs to measure at.
    pub epochs: Vec<u32>,
    /// The number of trainings of each model.
    pub trainings: usize,
    /// Seed of everything random.
    pub seed: u64,
}

/// A checked plan, and its records.
pub struct Experiment {
    plan: LabelsPlan,
    /// The training settings of each model, with all epochs.
    configs: Vec<TrainingConfig>,
    subject: Subject,
    seeds: Seeds,
}

/// The result of one training.
struct LabelStudyResult {
    attacks: Vec<(Attack, u32, LabelAccuracy)>,
    privacy: Option<PrivacyStatement>,
}

impl Experiment {
    /// Loads the data, draws records, and checks the plan as far as possible before the first
    /// training.
    ///
    /// # Errors
    /// An error that names what is wrong with the plan and the option of `cloison labels` to
    /// change.
    pub fn prepare(plan: &LabelsPlan) -> anyhow::Result<Self> {
        let &LabelsPlan { records, trainings, known, seed, .. } = plan;
        check_range("--trainings", trainings, &TRAININGS)?;
        ensure!(records >= LEAST_RECORDS, "--records is {records}: give at least {LEAST_RECORDS}");
        ensure!(
            (1..=MOST_KNOWN).contains(&known),
            "--known is {known}: give 1 to {MOST_KNOWN} labels of each class"
        );
        ensure!(!plan.models.is_empty(), "--model: name at least one");
        let Some(&most) = plan.epochs.iter().max().filter(|_| !plan.epochs.contains(&0)) else {
            bail!("--epochs: give at least one number, each from 1");
        };
        let of_model = |model: &ModelConfig| -> anyhow::Result<TrainingConfig> {
            // The active party sets the patience, and all epochs are run.
            let values = TrainingValues {
                model: model.clone(),
                epochs: most,
                patience: most,
                ..plan.training.clone()
            };
            let config = TrainingConfig::try_from(values)?;
            if let Some(privacy) = &plan.privacy {
                privacy.check(&config).map_err(|e| anyhow!("--privacy-noise: {e}"))?;
            }
            Ok(config)
        };
        let configs = plan.models.iter().map(of_model).collect::<anyhow::Result<Vec<_>>>()?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let experiment = Self {
            subject: Subject::draw(&plan.subject, records, &mut rng)?,
            seeds: Seeds { study: "labels", seed },
            plan: plan.clone(),
            configs,
        };
        experiment.check_classes()?;
        experiment.check_size()?;
        Ok(experiment)
    }

    /// Shuffles the labels, so that they do not depend on the features. No attack on parameters
    /// should find them.
    #[must_use]
    pub fn with_shuffled_labels(mut self, seed: u64) -> Self {
        self.subject.labels.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
        self
    }

    /// Checks that each class has known records and others, even if a validation share is set
    /// aside.
    fn check_classes(&self) -> anyhow::Result<()> {
        let (known, labels) = (self.plan.known, &self.subject.labels);
        let least = 2 * known + 2;
        for (class, name) in (0u32..).zip(&self.subject.class_names) {
            let there = labels.iter().filter(|label| **label == class).count();
            ensure!(
                there >= least,
                "--known is {known}: class `{name}` has {there} of the {} records, at least {least} are needed; lower --known or raise \
                 --records",
                labels.len()
            );
        }
        Ok(())
    }

    /// Checks that time and memory suffice.
    fn check_size(&self) -> anyhow::Result<()> {
        let (trainings, records) = (self.plan.trainings, self.subject.labels.len());
        let mut work = 0.0;
        for config in &self.configs {
            let epochs = config.values().epochs;
            let learners = sample_learners(config, &self.subject)?;
            for learner in &learners {
                let numbers =
                    learner.width().saturating_mul(records).saturating_mul(epochs as usize);
                ensure!(
                    numbers <= MOST_NUMBERS,
                    "{epochs} epochs on {records} records give a party {numbers} numbers, at most {MOST_NUMBERS} are kept: lower \
                     --epochs, --records or --embedding"
                );
            }
            work +=
                trainings as f64 * f64::from(epochs) * records as f64 * work_of_record(&learners);
        }
        check_work(
            work,
            format_args!("{trainings} trainings of each model on {records} records"),
            "--trainings, --epochs or --records, or take smaller models",
        )
    }

    /// Runs one training of one model, observed and attacked by the first passive party.
    fn train_and_attack(&self, model: usize, training: usize) -> anyhow::Result<LabelStudyResult> {
        let config = self.config(model, training)?;
        let (known, targets) = self.known_and_targets(training);
        let Subject { blocks, labels, .. } = &self.subject;
        let (classes, records) = (self.subject.classes(), labels.len());
        let seed = |party: usize| {
            self.seeds.of(format_args!("training {training}, privacy of party {party}"))
        };
        let privacy =
            self.plan.privacy.map(|privacy| (privacy, &seed as &dyn Fn(usize) -> [u8; 32]));
        let observed = observe(&config, classes, blocks, labels, privacy, &self.plan.epochs)?;
        let received = &observed.received;
        let mut attacks = Vec::new();
        let mut note = |attack: Attack, epochs: u32, named: &PredictedLabels| {
            attacks.push((attack, epochs, LabelAccuracy::of(named, labels, &targets, classes)));
        };
        for after in &observed.after {
            let epochs = received.epochs(after.epochs as usize);
            match received.combiner {
                Combiner::Sum => {
                    note(Attack::GradientSign, after.epochs, &gradient_sign(received));
                    note(Attack::OwnOutputs, after.epochs, &own_outputs(&after.outputs));
                    if let (Some(weights), Some(own)) = (&after.weights, blocks.get(1)) {
                        note(
                            Attack::ParameterSigns,
                            after.epochs,
                            &parameter_signs(weights, own.matrix()),
                        );
                    }
                }
                Combiner::Concat => {
                    let direction = gradient_direction(&epochs, &known, classes, records);
                    note(Attack::GradientDirection, after.epochs, &direction);
                    if classes == 2 {
                        let (larger, share) = self.larger_of_two();
                        note(
                            Attack::GradientSides,
                            after.epochs,
                            &gradient_sides(&epochs, larger, records),
                        );
                        let norm = gradient_norm(&epochs, 1 - larger, 1.0 - share, records);
                        note(Attack::GradientNorm, after.epochs, &norm);
                    }
                }
            }
            note(
                Attack::ModelCompletion,
                after.epochs,
                &completion(&after.outputs, &known, classes)?,
            );
        }
        attacks.sort_by_key(|(attack, epochs, _)| (*attack as usize, *epochs));
        Ok(LabelStudyResult { attacks, privacy: observed.privacy })
    }

    /// Returns the configuration of one training, with its own seed.
    fn config(&self, model: usize, training: usize) -> anyhow::Result<TrainingConfig> {
        let values = self.configs[model].values();
        self.seeds.config(values, format_args!("training {training}, training"))
    }

    /// Measures the control: inference without a training, from the adversary's own features and
    /// the known records.
    fn control(&self, training: usize) -> anyhow::Result<LabelAccuracy> {
        let (known, targets) = self.known_and_targets(training);
        let Subject { blocks, labels, .. } = &self.subject;
        let classes = self.subject.classes();
        let own = blocks.get(1).context("there is no passive party")?;
        let named = completion(own.matrix(), &known, classes)?;
        Ok(LabelAccuracy::of(&named, labels, &targets, classes))
    }

    /// Returns the records of a training whose labels are known, the same number of each class, and
    /// those on which attacks are measured: all other records that the training makes steps on.
    /// Neither depends on the model.
    fn known_and_targets(&self, training: usize) -> (Vec<KnownLabel>, Vec<usize>) {
        let labels = &self.subject.labels;
        let trained: Vec<usize> = match self.config(0, training) {
            Ok(config) => Schedule::new(&config, labels.len())
                .training()
                .iter()
                .map(|&p| p as usize)
                .collect(),
            Err(_) => (0..labels.len()).collect(),
        };
        let mut order = trained;
        order.sort_unstable();
        let seed = self.seeds.of(format_args!("training {training}, known records"));
        order.shuffle(&mut ChaCha20Rng::from_seed(seed));
        let mut left = vec![self.plan.known; self.subject.classes()];
        let (mut known, mut targets) = (Vec::new(), Vec::new());
        for position in order {
            let label = labels[position];
            match &mut left[label as usize] {
                0 => targets.push(position),
                more => {
                    *more -= 1;
                    known.push((position, label));
                }
            }
        }
        targets.sort_unstable();
        (known, targets)
    }

    /// Returns the more frequent of two classes, and its share.
    fn larger_of_two(&self) -> (u32, f64) {
        let labels = &self.subject.labels;
        let ones = labels.iter().filter(|label| **label == 1).count();
        let share = ones as f64 / labels.len().max(1) as f64;
        if share >= 0.5 { (1, share) } else { (0, 1.0 - share) }
    }

    /// Measures guessing: the most frequent class for every record.
    fn guessing(&self) -> LabelAccuracy {
        let (labels, classes) = (&self.subject.labels, self.subject.classes());
        let mut counts = vec![0usize; classes];
        labels.iter().for_each(|label| counts[*label as usize] += 1);
        let most = counts.iter().max().copied().unwrap_or_default();
        LabelAccuracy {
            accuracy: most as f64 / labels.len().max(1) as f64,
            balanced_accuracy: 1.0 / classes.max(1) as f64,
        }
    }
}

impl Study for Experiment {
    type Report = LabelsReport;

    fn parts(&self) -> usize {
        self.configs.len() * self.plan.trainings
    }

    fn ending(&self) -> String {
        format!("{} trainings attacked", self.parts())
    }

    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<LabelsReport> {
        let trainings = self.plan.trainings;
        let name = |at: usize| {
            let model = model_name(&self.plan.models[at / trainings]);
            format!("{model}, training {}", at % trainings)
        };
        let found = repeat(self.parts(), tell, name, |at| {
            self.train_and_attack(at / trainings, at % trainings)
        })?;
        let control = (0..trainings)
            .map(|training| self.control(training))
            .collect::<anyhow::Result<Vec<LabelAccuracy>>>()?;
        let guessing = self.guessing();
        let best = |control: &LabelAccuracy| LabelAccuracy {
            accuracy: control.accuracy.max(guessing.accuracy),
            balanced_accuracy: control.balanced_accuracy.max(guessing.balanced_accuracy),
        };
        let (informed, uninformed): (Vec<LabelAccuracy>, Vec<LabelAccuracy>) =
            control.iter().map(|control| (best(control), guessing)).unzip();
        let rows = |(model, of_model): (&TrainingConfig, &[LabelStudyResult])| {
            let names = of_model.first().map_or(&[][..], |found| found.attacks.as_slice());
            let attacks = names.iter().enumerate().map(|(place, &(attack, epochs, _))| {
                let each: Vec<LabelAccuracy> =
                    of_model.iter().map(|found| found.attacks[place].2).collect();
                let without = if attack.needs_labels() { &informed } else { &uninformed };
                AttackRow::of(attack, epochs, self.plan.known, &each, without)
            });
            ModelRows {
                model: model_name(&model.values().model),
                training: model.values().clone(),
                privacy: of_model.first().and_then(|found| found.privacy),
                attacks: attacks.collect(),
            }
        };
        Ok(LabelsReport {
            subject: self.subject.facts(),
            passive_parties: self.subject.passive_parties(),
            adversary_features: self.subject.blocks.get(1).map_or(0, FeatureBlock::features),
            records: self.subject.labels.len(),
            trainings,
            known_labels: self.plan.known,
            seed: self.plan.seed,
            guessing,
            control: MeanLabelAccuracy::of(&control),
            models: self.configs.iter().zip(found.chunks(trainings)).map(rows).collect(),
        })
    }
}

/// Describes a model in words.
fn model_name(model: &ModelConfig) -> String {
    match model.combiner() {
        Combiner::Sum => format!("{}, summed", model.kind()),
        Combiner::Concat => format!("{} under a top model", model.kind()),
    }
}
