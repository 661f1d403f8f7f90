//! The measurement: how many features come out, by number of epochs, beside a control.

use anyhow::{Context, bail};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use vfl_core::model::{Schedule, TrainingConfig, TrainingValues};

use super::super::{
    Accuracy, Adversary, LabelReading, NEAR, Owner, Target, TranscriptPlan, accuracy,
};
use super::{Recovery, Step, Transcript, factors, features_of};
use crate::study::{Event, Listener, Study};
use crate::subject::{Subject, SubjectFacts};

/// The features of a recovery beside the true ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matching {
    /// The number of features that the attack says it found.
    pub features_found: usize,
    /// The number of these within a root mean square error of 0.01 of a true feature.
    pub features_recovered: usize,
    /// The root mean square error over the features recovered, for features in [0, 1]. `None` if
    /// there are none.
    pub root_mean_square_error: Option<f64>,
}

/// The results at one number of epochs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AfterEpochs {
    /// The number of epochs of the training.
    pub epochs: u32,
    /// The number of steps of the training.
    pub steps: usize,
    /// The accuracy of the estimates; features that were not found count as ½.
    #[serde(flatten)]
    pub accuracy: Accuracy,
    /// The rank of the logits: the most features to find.
    pub rank: usize,
    /// The features found.
    #[serde(flatten)]
    pub matching: Matching,
    /// The largest misfit of a feature found; 0 if there is none.
    pub misfit: f64,
    /// The features found where the attack must find none: in every step, the gradients of the
    /// records are handed to other records.
    pub control: Matching,
}

/// The results of a run without known records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OptimiserReport {
    /// The data set and its split.
    #[serde(flatten)]
    pub subject: SubjectFacts,
    /// Number of passive parties.
    pub passive_parties: usize,
    /// Records in steps of the training, without those set aside for validation.
    pub training_records: usize,
    /// The party that attacks.
    pub chair: Adversary,
    /// The labels that the adversary reads. `None`: the active party has them.
    pub labels: Option<LabelReading>,
    /// The number of known records: 0.
    pub known_records: usize,
    /// The settings of the training.
    pub training: TrainingValues,
    /// Seed of the attack's starts and of the control.
    pub seed: u64,
    /// The results by target: the coordinator attacks each party by itself.
    pub targets: Vec<TargetResults>,
}

/// The results of the attack on the features of one party, or of several that the adversary sees as
/// a sum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetResults {
    /// The owners of the features.
    pub features_of: Vec<Owner>,
    /// The number of features.
    pub attacked_features: usize,
    /// The accuracy of ½ everywhere.
    pub half: Accuracy,
    /// The accuracy of the true column means, which the adversary does not know.
    pub column_means: Accuracy,
    /// The results of the attack by number of epochs.
    pub attack: Vec<AfterEpochs>,
}

/// A checked plan without known records, and its records.
pub struct UnaidedExperiment {
    plan: TranscriptPlan,
    config: TrainingConfig,
    subject: Subject,
    /// The records of steps.
    trained: Vec<usize>,
}

impl UnaidedExperiment {
    /// Loads the data and checks the plan before the training.
    ///
    /// # Errors
    /// If data cannot be loaded or split, the configuration is out of its range, the plan has known
    /// records.
    pub fn prepare(plan: &TranscriptPlan) -> anyhow::Result<Self> {
        if plan.known != 0 {
            bail!("known records: {} is not 0", plan.known);
        }
        let (subject, config) = plan.load()?;
        let schedule = Schedule::new(&config, subject.labels.len());
        let trained: Vec<usize> = schedule.training().iter().map(|&p| p as usize).collect();
        Ok(Self { plan: plan.clone(), config, subject, trained })
    }
}

impl Study for UnaidedExperiment {
    type Report = OptimiserReport;
    const TITLE: &'static str = "measuring what a training tells";

    fn parts(&self) -> usize {
        let targets = match self.plan.adversary {
            Adversary::Coordinator => self.subject.blocks.len(),
            _ => 1,
        };
        targets * self.plan.epochs.len()
    }

    /// Trains once in this process, and attacks the transcript after each of the numbers of epochs.
    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<OptimiserReport> {
        let Self { plan, config, subject, trained } = self;
        if let Some((set, _)) = &subject.set {
            let (epochs, records) = (config.values().epochs, trained.len());
            tell(Event::Start(&format!("{set}; training {epochs} epochs on {records} records")));
        }
        let (classes, blocks, labels) = (subject.classes(), &subject.blocks, &subject.labels);
        let targets = plan.adversary.observe(config, classes, blocks, labels)?;
        let first = targets.first().context("there is no party to attack")?;
        let read = LabelReading::of(&first.transcript, labels, trained);
        Ok(OptimiserReport {
            subject: subject.facts(),
            passive_parties: subject.passive_parties(),
            training_records: trained.len(),
            chair: plan.adversary,
            labels: (plan.adversary != Adversary::Active).then_some(read),
            known_records: 0,
            training: config.values().clone(),
            seed: plan.seed,
            targets: targets.iter().map(|target| self.attack(target, tell)).collect(),
        })
    }
}

impl UnaidedExperiment {
    /// Attacks the transcript of a target after each of the numbers of epochs.
    fn attack(&self, target: &Target, tell: &Listener<'_>) -> TargetResults {
        let Self { plan, subject, trained, .. } = self;
        let Target { owners, transcript } = target;
        let truth = super::super::features_of(owners, &subject.blocks);
        let (d, n) = truth.shape();
        let whose: Vec<String> = owners.iter().map(ToString::to_string).collect();
        let whose = whose.join(" and ");
        let measure = |x: &DMatrix<f64>| accuracy(x, &truth, trained);
        let mut attack = Vec::new();
        for epochs in plan.ordered_epochs() {
            tell(Event::Start(&format!("{whose}: attacking the first {epochs} epochs")));
            let steps = transcript.first(epochs as usize);
            let span = factors(transcript, steps, d, plan.iterations, plan.seed);
            let run = |steps: &[Step]| {
                let span = span.as_ref()?;
                Some(features_of(span, transcript, steps, plan.iterations, plan.seed))
            };
            let found = run(steps);
            let (matching, estimates) = found.as_ref().map_or_else(
                || (Matching::none(), DMatrix::from_element(d, n, 0.5)),
                |found| matched(found, &truth),
            );
            let control = run(&reassigned(transcript, steps, plan.seed));
            let control = control.map_or_else(Matching::none, |found| matched(&found, &truth).0);
            let count = matching.features_recovered;
            tell(Event::End(&format!("{whose}, {epochs} epochs: {count} of {d} features")));
            attack.push(AfterEpochs {
                epochs,
                steps: steps.len(),
                accuracy: measure(&estimates),
                rank: found.as_ref().map_or(0, |found| found.rank),
                matching,
                misfit: found.map_or(0.0, |found| found.misfit),
                control,
            });
        }
        let means = truth.select_columns(trained).column_mean();
        TargetResults {
            features_of: owners.clone(),
            attacked_features: d,
            half: measure(&DMatrix::from_element(d, n, 0.5)),
            column_means: measure(&DMatrix::from_fn(d, n, |i, _| means[i])),
            attack,
        }
    }
}

impl Matching {
    fn none() -> Self {
        Self { features_found: 0, features_recovered: 0, root_mean_square_error: None }
    }
}

/// Assigns the features found to the true ones (d × n), the closest pair first. Which is which is
/// the evaluator's privilege: the attack leaves the order open. Returns the counts, and estimates
/// of all features (d × n) that are ½ where nothing was found.
pub(super) fn matched(found: &Recovery, truth: &DMatrix<f64>) -> (Matching, DMatrix<f64>) {
    let at = truth.select_columns(&found.records);
    let count = found.features.nrows();
    let mut pairs: Vec<(f64, usize, usize)> = (0..count)
        .flat_map(|i| (0..at.nrows()).map(move |j| (i, j)))
        .map(|(i, j)| {
            let error = (found.features.row(i) - at.row(j)).norm_squared();
            (error / at.ncols().max(1) as f64, i, j)
        })
        .collect();
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut estimates = DMatrix::from_element(truth.nrows(), truth.ncols(), 0.5);
    let (mut taken, mut assigned) = (vec![false; count], vec![false; at.nrows()]);
    let mut squares = Vec::new();
    for (error, i, j) in pairs {
        if taken[i] || assigned[j] {
            continue;
        }
        (taken[i], assigned[j]) = (true, true);
        for (column, &position) in found.records.iter().enumerate() {
            estimates[(j, position)] = found.features[(i, column)];
        }
        if error.sqrt() < NEAR {
            squares.push(error);
        }
    }
    let recovered = squares.len();
    let mean = squares.iter().sum::<f64>() / recovered.max(1) as f64;
    let matching = Matching {
        features_found: count,
        features_recovered: recovered,
        root_mean_square_error: (recovered > 0).then_some(mean.sqrt()),
    };
    (matching, estimates)
}

/// Returns the steps with the gradients of each batch handed to its records in another order: one
/// order of all records, drawn from `seed`, in every step.
pub(super) fn reassigned(transcript: &Transcript, steps: &[Step], seed: u64) -> Vec<Step> {
    let mut keys: Vec<usize> = (0..transcript.labels.len()).collect();
    keys.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
    let changed = steps.iter().map(|step| {
        let mut by_position: Vec<usize> = (0..step.positions.len()).collect();
        let mut by_key = by_position.clone();
        by_position.sort_unstable_by_key(|&i| step.positions[i]);
        by_key.sort_unstable_by_key(|&i| keys[step.positions[i] as usize]);
        let mut gradient = step.gradient.clone();
        for (&to, &from) in by_position.iter().zip(&by_key) {
            gradient.set_column(to, &step.gradient.column(from));
        }
        Step { gradient, ..step.clone() }
    });
    changed.collect()
}
