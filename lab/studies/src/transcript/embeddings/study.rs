//! The measurement: errors of the estimates by attack and number of epochs, beside the control.

use anyhow::{Context, ensure};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use vfl_core::metrics::{Attribute, AttributeFigures, attributes};
use vfl_core::model::{Combiner, Schedule, TrainingConfig, TrainingValues};
use vfl_datasets::vertical_split;
use vfl_numerics::KernelRidge;

use super::super::{Accuracy, Adversary, Owner, TranscriptPlan, accuracy};
use super::attacks::{Attack, KnownRecords};
use super::observe::{EmbeddingsAfter, observe};
use crate::estimate::NORMAL_95;
use crate::study::{Event, Listener, Study};
use crate::subject::{Subject, SubjectFacts};

/// The occasion on which embeddings arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// The steps of a training: the records under attack are those of its list.
    Training,
    /// Predictions of the trained model: the records under attack are those of the test part.
    Prediction,
}

/// The feature that an attack tells most about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstFeature {
    /// Its name.
    pub feature: String,
    /// The share of the control's squared error that the attack removes, at most 1. The feature is
    /// chosen on one half of the records under attack, and the share is that of the other half.
    pub removed: f64,
    /// The lower end of the share's 95 % interval over records.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The figures of an attack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttackResult {
    /// The accuracy of the estimates.
    #[serde(flatten)]
    pub accuracy: Accuracy,
    /// The feature of which most is told. `None` with fewer than 100 records under attack, or where
    /// the control leaves no error.
    pub worst: Option<WorstFeature>,
    /// The figures of every feature, beside the control.
    pub features: Vec<AttributeFigures>,
}

/// An attack after some epochs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttackRow {
    /// The attack.
    pub attack: Attack,
    /// The number of epochs. In a training an attack takes the embeddings of the first measured
    /// epoch, of this one, or of all from one to the other side by side, whichever do best on known
    /// records left out.
    pub epochs: u32,
    /// The figures. `None`: the attack needs known records, and there are none.
    pub result: Option<AttackResult>,
}

/// The results on the embeddings of one occasion.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OccasionResults {
    /// The occasion.
    pub occasion: Occasion,
    /// The number of records under attack; none of them is known.
    pub records: usize,
    /// The accuracy of ½ everywhere.
    pub half: Accuracy,
    /// The accuracy of the true column means, which the adversary does not know.
    pub column_means: Accuracy,
    /// The accuracy of the means of the known records; `None` without any.
    pub known_means: Option<Accuracy>,
    /// The accuracy of the control: a regression from the known records without embeddings, on the
    /// labels that the coordinator of a training has; for predictions it has no input and gives the
    /// means of the known records. `None` without known records.
    pub control: Option<Accuracy>,
    /// The attacks, by number of epochs.
    pub attacks: Vec<AttackRow>,
}

/// The results of the attacks on the features of one party.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetResults {
    /// The owner of the features.
    pub features_of: Owner,
    /// The number of features.
    pub attacked_features: usize,
    /// The numbers of an embedding.
    pub embedding_width: usize,
    /// The results by occasion.
    pub occasions: Vec<OccasionResults>,
}

/// The results of a run under `concat`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbeddingReport {
    /// The data set and its split.
    #[serde(flatten)]
    pub subject: SubjectFacts,
    /// Number of passive parties.
    pub passive_parties: usize,
    /// Records in steps of the training, without those set aside for validation.
    pub training_records: usize,
    /// The party that attacks: the coordinator.
    pub chair: Adversary,
    /// The number of training records whose features the adversary knows.
    pub known_records: usize,
    /// The settings of the training.
    pub training: TrainingValues,
    /// Seed of the choice of known records and of the inverse networks.
    pub seed: u64,
    /// The results by party.
    pub targets: Vec<TargetResults>,
}

/// A checked plan under `concat`, and its records.
pub struct EmbeddingExperiment {
    plan: TranscriptPlan,
    config: TrainingConfig,
    /// The records of the training's list, and after them those of the test part.
    subject: Subject,
    /// The features of each party, the active party's first.
    attributes: Vec<Vec<Attribute>>,
    /// The number of records of the training's list.
    listed: usize,
    /// The records of steps whose features the adversary knows.
    known: Vec<usize>,
    /// The other records of steps.
    others: Vec<usize>,
}

impl EmbeddingExperiment {
    /// Loads the data, draws the known records, and checks the plan before the training.
    ///
    /// # Errors
    /// If the model is not under `concat`, the adversary is not the coordinator, data cannot be
    /// loaded or split, the configuration is out of its range, or there are not enough records for
    /// the known ones.
    pub fn prepare(plan: &TranscriptPlan) -> anyhow::Result<Self> {
        ensure!(
            plan.training.model.combiner() == Combiner::Concat,
            "attacks on embeddings take a model under `concat`"
        );
        ensure!(
            plan.adversary == Adversary::Coordinator,
            "under `concat` the coordinator alone receives embeddings of others: take --chair coordinator"
        );
        let config = plan.config()?;
        let (mut listed, mut specs) = (0, Vec::new());
        let of = &plan.subject;
        let subject = Subject::load(of, |set| {
            let split =
                vertical_split(set, of.first_column, of.passive_features, of.passive_parties)?;
            let passive = split.passive().iter().map(|party| party.columns.as_slice());
            specs = std::iter::once(split.active())
                .chain(passive)
                .map(|columns| columns.iter().map(|&c| set.features()[c].clone()).collect())
                .collect::<Vec<Vec<_>>>();
            listed = set.split().train.len();
            Ok([set.split().train.as_slice(), &set.split().test].concat())
        })?;
        let schedule = Schedule::new(&config, listed);
        let mut known: Vec<usize> = schedule.training().iter().map(|&p| p as usize).collect();
        known.sort_unstable();
        known.shuffle(&mut ChaCha20Rng::seed_from_u64(plan.seed));
        ensure!(
            plan.known < known.len(),
            "known records: {} is not in 0 to {}",
            plan.known,
            known.len().saturating_sub(1)
        );
        let others = known.split_off(plan.known);
        let attributes = specs.iter().map(|specs| attributes(specs)).collect();
        Ok(Self { plan: plan.clone(), config, subject, attributes, listed, known, others })
    }

    /// Returns the parties with features to attack.
    fn owners(&self) -> impl Iterator<Item = Owner> {
        let passive = (1..=self.subject.passive_parties()).map(Owner::Passive);
        let all = std::iter::once(Owner::Active).chain(passive);
        all.filter(|owner| self.subject.blocks[owner.block()].features() > 0)
    }
}

impl Study for EmbeddingExperiment {
    type Report = EmbeddingReport;
    const TITLE: &'static str = "measuring what embeddings tell";

    fn parts(&self) -> usize {
        2 * self.owners().count() * self.plan.ordered_epochs().len()
    }

    /// Trains once in this process, and attacks the embeddings after each of the numbers of epochs.
    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<EmbeddingReport> {
        let Self { plan, config, subject, listed, known, others, .. } = self;
        let training_records = known.len() + others.len();
        if let Some((set, _)) = &subject.set {
            let epochs = config.values().epochs;
            tell(Event::Start(&format!(
                "{set}; training {epochs} epochs on {training_records} records"
            )));
        }
        let labels = &subject.labels[..*listed];
        let epochs = plan.ordered_epochs();
        let (classes, blocks) = (subject.classes(), &subject.blocks);
        let after = observe(config, classes, blocks, labels, &epochs)?;
        let targets = self.owners().map(|owner| self.attack(owner, &after, tell));
        Ok(EmbeddingReport {
            subject: subject.facts(),
            passive_parties: subject.passive_parties(),
            training_records,
            chair: plan.adversary,
            known_records: known.len(),
            training: config.values().clone(),
            seed: plan.seed,
            targets: targets.collect::<anyhow::Result<_>>()?,
        })
    }
}

impl EmbeddingExperiment {
    /// Attacks the embeddings of one party on both occasions.
    fn attack(
        &self,
        owner: Owner,
        after: &[EmbeddingsAfter],
        tell: &Listener<'_>,
    ) -> anyhow::Result<TargetResults> {
        let first = after.first().and_then(|after| after.steps.get(owner.block()));
        let first = first.context("there is no party to attack")?;
        let occasions = [Occasion::Training, Occasion::Prediction];
        let results = occasions.map(|occasion| self.attack_on(owner, occasion, after, tell));
        Ok(TargetResults {
            features_of: owner,
            attacked_features: self.subject.blocks[owner.block()].features(),
            embedding_width: first.nrows(),
            occasions: results.into_iter().collect::<anyhow::Result<_>>()?,
        })
    }

    fn attack_on(
        &self,
        owner: Owner,
        occasion: Occasion,
        after: &[EmbeddingsAfter],
        tell: &Listener<'_>,
    ) -> anyhow::Result<OccasionResults> {
        let Self { plan, subject, listed, known, .. } = self;
        let party = owner.block();
        let all = subject.blocks[party].matrix();
        let held_out: Vec<usize> = match occasion {
            Occasion::Training => self.others.clone(),
            Occasion::Prediction => (*listed..subject.labels.len()).collect(),
        };
        let truth = all.select_columns(&held_out);
        let known_truth = all.select_columns(known);
        let (d, n) = truth.shape();
        let everyone: Vec<usize> = (0..n).collect();
        let measure = |x: &DMatrix<f64>| accuracy(x, &truth, &everyone);
        let constant = |of: &DMatrix<f64>| {
            let means = of.column_mean();
            DMatrix::from_fn(d, n, |i, _| means[i])
        };
        let known_means = (!known.is_empty()).then(|| constant(&known_truth));
        let control = match (&known_means, occasion) {
            (Some(_), Occasion::Training) => Some(self.by_label(&known_truth, &held_out)?),
            (means, _) => means.clone(),
        };
        let mut attacks = Vec::new();
        for (at, EmbeddingsAfter { epochs, .. }) in after.iter().enumerate() {
            let epochs = *epochs;
            let name = match occasion {
                Occasion::Training => "embeddings of a training",
                Occasion::Prediction => "embeddings of predictions",
            };
            tell(Event::Start(&format!("{owner}, {name}, {epochs} epochs")));
            let seen = seen(occasion, party, &after[..=at]);
            let of = |records: &[usize]| -> Vec<DMatrix<f64>> {
                seen.iter().map(|each| side_by_side(each, records)).collect()
            };
            let embeddings = of(&held_out);
            let told = KnownRecords { embeddings: of(known), features: known_truth.clone() };
            for attack in Attack::ALL {
                let result = match &control {
                    None => None,
                    Some(control) => {
                        let most = u32::try_from(plan.iterations).unwrap_or(u32::MAX);
                        let found = attack
                            .estimate(&told, &embeddings, most, plan.seed)
                            .with_context(|| format!("{attack} on {name} of the {owner}"))?;
                        Some(self.result(party, &truth, &found, control))
                    }
                };
                attacks.push(AttackRow { attack, epochs, result });
            }
            tell(Event::End(""));
        }
        Ok(OccasionResults {
            occasion,
            records: n,
            half: measure(&DMatrix::from_element(d, n, 0.5)),
            column_means: measure(&constant(&truth)),
            known_means: known_means.as_ref().map(measure),
            control: control.as_ref().map(measure),
            attacks,
        })
    }

    /// Regresses the features of the known records (d × N) on their labels, and estimates those of
    /// `records` from theirs.
    fn by_label(&self, known: &DMatrix<f64>, records: &[usize]) -> anyhow::Result<DMatrix<f64>> {
        let labels = |of: &[usize]| {
            DMatrix::from_fn(self.subject.classes(), of.len(), |class, record| {
                let label = self.subject.labels[of[record]] as usize;
                f64::from(u8::from(label == class))
            })
        };
        Ok(KernelRidge::fit(&labels(&self.known), known)?.predict(&labels(records)))
    }

    /// Measures estimates (d × n) of the features of one party beside those of the control.
    fn result(
        &self,
        party: usize,
        truth: &DMatrix<f64>,
        estimates: &DMatrix<f64>,
        control: &DMatrix<f64>,
    ) -> AttackResult {
        let everyone: Vec<usize> = (0..truth.ncols()).collect();
        let of = |attribute| AttributeFigures::of(attribute, truth, estimates, control);
        let features: Vec<AttributeFigures> = self.attributes[party].iter().map(of).collect();
        AttackResult {
            accuracy: accuracy(estimates, truth, &everyone),
            worst: worst(&features),
            features,
        }
    }
}

/// Returns the feature of which the first half of the records says that most is told, with the
/// share and the interval of the other half.
fn worst(features: &[AttributeFigures]) -> Option<WorstFeature> {
    let halves = features.iter().filter_map(|of| Some((of, of.removed?.halves?)));
    let (of, [_, second]) =
        halves.max_by(|(_, [a, _]), (_, [b, _])| a.value.total_cmp(&b.value))?;
    let away = NORMAL_95 * second.deviation;
    Some(WorstFeature {
        feature: of.attribute.clone(),
        removed: second.value,
        low: second.value - away,
        high: (second.value + away).min(1.0),
    })
}

/// Returns the embeddings of a party between which an attack chooses: for predictions those after
/// the last of these epochs; for a training those of the first epoch, of the last, or of all, side
/// by side.
fn seen(occasion: Occasion, party: usize, after: &[EmbeddingsAfter]) -> Vec<Vec<&DMatrix<f64>>> {
    match (occasion, after) {
        (Occasion::Prediction, [.., last]) => vec![vec![&last.predictions[party]]],
        (Occasion::Training, [first, .., last]) => {
            let all = after.iter().map(|after| &after.steps[party]);
            vec![vec![&first.steps[party]], vec![&last.steps[party]], all.collect()]
        }
        (_, after) => vec![after.iter().map(|after| &after.steps[party]).collect()],
    }
}

/// Returns the embeddings of these records, those of several epochs one below the other.
fn side_by_side(seen: &[&DMatrix<f64>], records: &[usize]) -> DMatrix<f64> {
    let rows = seen.iter().map(|m| m.nrows()).sum();
    let mut all = DMatrix::zeros(rows, records.len());
    let mut from = 0;
    for embeddings in seen {
        let here = embeddings.select_columns(records);
        all.rows_mut(from, here.nrows()).copy_from(&here);
        from += here.nrows();
    }
    all
}
