//! A fallback without one passive party: the knowledge in two answers about one record.
//!
//! A record may be scored twice: while a passive party is away, by a fallback model of the others,
//! and later by the model of all parties. Exact scores of k classes are k − 1 equations in the
//! passive features. Two answers are two systems in the features of the parties that are in both,
//! so that the adversary has 2 (k − 1) equations, of which k − 1 are in their features alone.
//!
//! The difference of two models is no model, but both answers together are: [`stacked`] writes them
//! as one softmax regression, and every attack on exact scores runs on it.

mod stacked;
mod text;

use anyhow::{Context, bail, ensure};
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use serde::Serialize;
use vfl_attack::{
    AdversaryView, AuxiliaryRecords, KnownModel, Method, Prior, Reconstruction, Replacement,
    Settings, SideInformation, run, schema_settings,
};
use vfl_core::data::schema::FeatureSpec;
use vfl_core::metrics::{AttributeFigures, accuracy, attributes, mse, records_within};
use vfl_core::model::{CentralFit, TrainingConfig, TrainingValues, train_central};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, PartyName, ReleasedScores};
use vfl_datasets::set_facts::SetFacts;
use vfl_datasets::{Dataset, VerticalSplit, vertical_split};
use vfl_numerics::arg_max;

pub use self::stacked::{LinearModel, stacked};
use crate::runs::Seeds;
use crate::study::{Listener, Study};
use crate::subject::SubjectSpec;

/// The fewest records to attack.
pub const LEAST_RECORDS: usize = 30;
/// The most records to attack.
pub const MOST_RECORDS: usize = 2000;
/// The most training records whose features the adversary knows, for its control and its moments.
const KNOWN_RECORDS: usize = 1000;
/// The distance within which a value counts as reconstructed, as a share of its range.
const EXACT: f64 = 1e-6;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub struct FallbackPlan {
    /// The data set and its split.
    pub subject: SubjectSpec,
    /// The passive party that the fallback does without; `None`: the last one.
    pub without: Option<PartyName>,
    /// The settings of both softmax regressions' trainings.
    pub training: TrainingConfig,
    /// The number of test records to attack; all of them if there are fewer.
    pub records: usize,
    /// Seed of everything random.
    pub seed: u64,
}

/// The answers that an adversary has of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The scores of the model of all parties.
    All,
    /// The scores of the fallback.
    Fallback,
    /// Both.
    Both,
}

/// The result of one attack on some answers, in the features of some parties.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerRow {
    /// The answers that are attacked.
    pub answers: Answers,
    /// The name of the attack.
    pub attack: String,
    /// The number of equations that exact scores are.
    pub equations: usize,
    /// The number of unknown features in them.
    pub unknowns: usize,
    /// The parties whose features the figures below are of.
    pub parties: Vec<PartyName>,
    /// The mean squared error of the estimates.
    pub error: f64,
    /// The mean squared error of the control, which uses no score.
    pub control: f64,
    /// The share of records of which all these features are reconstructed, 0 to 1.
    pub exact_records: f64,
    /// The attribute of which the scores tell most; `None`: no attribute varies.
    pub most_told: Option<MostTold>,
}

/// The attribute of which scores tell most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MostTold {
    /// The name of the attribute.
    pub attribute: String,
    /// The share of the control's error that the attack removes. From 100 records on the attribute
    /// is chosen on half of them, and this is the share on the others, so that the choice does not
    /// flatter it.
    pub share: f64,
}

/// The results of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FallbackReport {
    /// The data set.
    #[serde(flatten)]
    pub set: SetFacts,
    /// SHA-256 of the loaded data.
    pub data_hash: String,
    /// Number of classes.
    pub classes: usize,
    /// The passive parties in both models.
    pub parties: Vec<PartyName>,
    /// The passive party that the fallback does without.
    pub without: PartyName,
    /// Number of features of the parties in both models.
    pub shared_features: usize,
    /// Number of features of the party that the fallback does without.
    pub missing_features: usize,
    /// Number of records attacked.
    pub records: usize,
    /// The settings of the trainings.
    pub training: TrainingValues,
    /// Share of the test records that the model of all parties classifies correctly.
    pub accuracy: f64,
    /// The same share of the fallback.
    pub fallback_accuracy: f64,
    /// The results.
    pub rows: Vec<AnswerRow>,
}

/// A checked plan, and its records.
pub struct Experiment {
    plan: FallbackPlan,
    dataset: Dataset,
    /// Positions of the columns of the active party, of the passive parties in both models, and of
    /// the one that the fallback does without.
    columns: [Vec<usize>; 3],
    parties: Vec<PartyName>,
    without: PartyName,
    /// The records to attack.
    targets: Vec<usize>,
}

impl Experiment {
    /// Loads the data, and checks the plan.
    ///
    /// # Errors
    /// If there are fewer than two passive parties, none of the name that is to be left out, or too
    /// few test records.
    pub fn prepare(plan: &FallbackPlan) -> anyhow::Result<Self> {
        let dataset = plan.subject.data.load()?;
        let SubjectSpec { first_column, passive_features, passive_parties, .. } = plan.subject;
        let split = vertical_split(&dataset, first_column, passive_features, passive_parties)?;
        let (without, parties, columns) = divided(&split, plan.without.as_ref())?;
        ensure!(
            (LEAST_RECORDS..=MOST_RECORDS).contains(&plan.records),
            "--records is {}: give {LEAST_RECORDS} to {MOST_RECORDS}",
            plan.records
        );
        let mut targets = dataset.split().test.clone();
        ensure!(
            targets.len() >= LEAST_RECORDS,
            "{} has {} test records, at least {LEAST_RECORDS} are attacked: take another data set",
            dataset.name(),
            targets.len()
        );
        let seeds = Seeds { study: "fallback", seed: plan.seed };
        targets.shuffle(&mut ChaCha20Rng::from_seed(seeds.of("records")));
        targets.truncate(plan.records);
        Ok(Self { plan: plan.clone(), dataset, columns, parties, without, targets })
    }

    /// Returns the columns of these records, of some columns of the data set.
    fn part(&self, columns: &[usize], records: &[usize]) -> DMatrix<f64> {
        self.dataset.x().select_rows(columns).select_columns(records)
    }

    fn labels(&self, records: &[usize]) -> Vec<u32> {
        records.iter().map(|&at| self.dataset.labels()[at]).collect()
    }

    /// Trains on the training records with these columns, and returns the model and its accuracy on
    /// the test records.
    fn train(&self, columns: &[usize]) -> anyhow::Result<(LinearModel, f64)> {
        let split = self.dataset.split();
        let training: Vec<usize> = split.train.iter().chain(&split.validation).copied().collect();
        let x = self.part(columns, &training);
        let classes = self.dataset.class_names().len();
        let fit = train_central(&self.plan.training, classes, &x, &self.labels(&training));
        let CentralFit { weights, bias, best_epoch, .. } = fit;
        ensure!(
            best_epoch > 0 && weights.iter().chain(bias.iter()).all(|w| w.is_finite()),
            "the training diverged: lower --learning-rate"
        );
        let model = LinearModel { weights, bias };
        let logits = model.logits(&self.part(columns, &split.test));
        let predicted: Vec<u32> =
            logits.column_iter().map(|z| arg_max(z.as_slice()) as u32).collect();
        let accuracy = accuracy(&predicted, &self.labels(&split.test))?;
        Ok((model, accuracy))
    }
}

/// Returns the party that is left out, the others, and the columns: of the active party, of the
/// others, and of the party that is left out.
fn divided(
    split: &VerticalSplit,
    without: Option<&PartyName>,
) -> anyhow::Result<(PartyName, Vec<PartyName>, [Vec<usize>; 3])> {
    let passive = split.passive();
    let names = || passive.iter().map(|party| party.name.as_str()).collect::<Vec<_>>().join(", ");
    if passive.len() < 2 {
        bail!(
            "there is one passive party, and without it the fallback is a model of the active party alone, which tells nothing: \
             give --passive-parties 2, or a table of each party"
        );
    }
    let named = |name: &PartyName| passive.iter().find(|party| party.name == *name);
    let missing = match without {
        None => passive.last(),
        Some(name) => named(name),
    };
    let missing = missing.with_context(|| {
        let given = without.map_or("", PartyName::as_str);
        format!("--without {given}: the passive parties are {}", names())
    })?;
    let others = || passive.iter().filter(|party| party.name != missing.name);
    let columns = others().flat_map(|party| party.columns.iter().copied()).collect();
    Ok((
        missing.name.clone(),
        others().map(|party| party.name.clone()).collect(),
        [split.active().to_vec(), columns, missing.columns.clone()],
    ))
}

/// One model to attack, with its release of the records.
struct Case {
    answers: Answers,
    equations: usize,
    model: LinearModel,
    released: DMatrix<f64>,
}

impl Study for Experiment {
    type Report = FallbackReport;
    const TITLE: &'static str = "attacking two answers";

    fn parts(&self) -> usize {
        0
    }

    fn run(&self, _: &Listener<'_>) -> anyhow::Result<FallbackReport> {
        let [active, shared, missing] = &self.columns;
        let both: Vec<usize> = [&active[..], shared].concat();
        let all: Vec<usize> = [&both[..], missing].concat();
        let (model, model_accuracy) = self.train(&all)?;
        let (fallback, fallback_accuracy) = self.train(&both)?;
        let scores = |model: &LinearModel, columns: &[usize]| -> anyhow::Result<DMatrix<f64>> {
            let logits = Logits::new(model.logits(&self.part(columns, &self.targets)))?;
            Ok(ConfidenceScores::softmax(logits).into_matrix())
        };
        let (of_all, of_fallback) = (scores(&model, &all)?, scores(&fallback, &both)?);
        let k = self.dataset.class_names().len();
        let (both_models, both_scores) = stacked((&model, &of_all), (&fallback, &of_fallback));
        let case =
            |answers, equations, model, released| Case { answers, equations, model, released };
        let cases = [
            case(Answers::All, k - 1, model, of_all),
            case(Answers::Fallback, k - 1, fallback, of_fallback),
            case(Answers::Both, 2 * (k - 1), both_models, both_scores),
        ];
        let known = self.known_records();
        let control = self.control(&known)?;
        let attacks = [Method::PosteriorMean, Method::InformedLattice];
        let runs: Vec<(&Case, Method)> =
            cases.iter().flat_map(|case| attacks.map(|attack| (case, attack))).collect();
        let rows =
            runs.par_iter().map(|(case, attack)| self.attack(case, *attack, &known, &control));
        let rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(FallbackReport {
            set: SetFacts::of(&self.dataset),
            data_hash: self.dataset.data_hash(),
            classes: k,
            parties: self.parties.clone(),
            without: self.without.clone(),
            shared_features: shared.len(),
            missing_features: missing.len(),
            records: self.targets.len(),
            training: self.plan.training.values().clone(),
            accuracy: model_accuracy,
            fallback_accuracy,
            rows: rows.into_iter().flatten().collect(),
        })
    }
}

impl Experiment {
    /// Returns the training records that the adversary knows whole.
    fn known_records(&self) -> Vec<usize> {
        let seeds = Seeds { study: "fallback", seed: self.plan.seed };
        let mut known = self.dataset.split().train.clone();
        known.shuffle(&mut ChaCha20Rng::from_seed(seeds.of("known records")));
        known.truncate(KNOWN_RECORDS);
        known
    }

    /// Returns the features in these columns.
    fn specs(&self, columns: &[usize]) -> Vec<FeatureSpec> {
        columns.iter().map(|&column| self.dataset.features()[column].clone()).collect()
    }

    /// Returns estimates (d × n) of the features of all passive parties, without any score.
    fn control(&self, known: &[usize]) -> anyhow::Result<DMatrix<f64>> {
        let [active, shared, missing] = &self.columns;
        let passive = [&shared[..], missing].concat();
        let classes = self.dataset.class_names().len();
        let own = DMatrix::zeros(classes, active.len());
        let model = KnownModel::black_box(own, DVector::zeros(classes), passive.len())?;
        // The control uses no score.
        let uniform = DMatrix::from_element(classes, known.len(), 1.0 / classes as f64);
        let records = AuxiliaryRecords::new(
            FeatureBlock::new(self.part(active, known))?,
            FeatureBlock::new(self.part(&passive, known))?,
            ReleasedScores::Probabilities(uniform),
            Replacement::default(),
        )?;
        let y = FeatureBlock::new(self.part(active, &self.targets))?;
        let side = SideInformation { auxiliary: Some(&records), ..SideInformation::default() };
        let view = AdversaryView::without_scores(&model, &y, Replacement::default())?;
        let attack = Method::BestImputation.build(&self.settings(&passive)?);
        Ok(run(&*attack, &view.with_side_information(side), self.plan.seed)?.estimates)
    }

    /// Returns the settings of attacks on these passive features: their public schema.
    fn settings(&self, passive: &[usize]) -> anyhow::Result<Settings> {
        let pairs = schema_settings(&self.specs(passive));
        Ok(Settings::read(pairs.iter().map(|(key, value)| (*key, value.as_str())))?)
    }

    /// Attacks one release, and measures the estimates: those of the parties in both models, and
    /// those of the party that the fallback does without.
    fn attack(
        &self,
        case: &Case,
        attack: Method,
        known: &[usize],
        control: &DMatrix<f64>,
    ) -> anyhow::Result<Vec<AnswerRow>> {
        let [active, shared, missing] = &self.columns;
        let passive: Vec<usize> = match case.answers {
            Answers::Fallback => shared.clone(),
            Answers::All | Answers::Both => [&shared[..], missing].concat(),
        };
        let (own, d) = (active.len(), passive.len());
        let weights = &case.model.weights;
        let model = KnownModel::white_box(
            weights.columns(0, own).into_owned(),
            case.model.bias.clone(),
            weights.columns(own, d).into_owned(),
        )?;
        let prior = Prior::of_records(&self.part(&passive, known), &self.part(active, known))?;
        let y = FeatureBlock::new(self.part(active, &self.targets))?;
        let released = ReleasedScores::Probabilities(case.released.clone());
        let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
        let view = AdversaryView::new(&model, &y, &released, Replacement::default())?;
        let built = attack.build(&self.settings(&passive)?);
        let found = run(&*built, &view.with_side_information(side), self.plan.seed);
        let Reconstruction { estimates, .. } = found.with_context(|| attack.to_string())?;
        let row = |parties: &[PartyName], columns: &[usize], from: usize| {
            let part = |of: &DMatrix<f64>| of.rows(from, columns.len()).into_owned();
            let (estimates, control) = (part(&estimates), part(control));
            let truth = self.part(columns, &self.targets);
            let told = attributes(&self.specs(columns)).into_iter().filter_map(|attribute| {
                let figures = AttributeFigures::of(&attribute, &truth, &estimates, &control);
                let removed = figures.removed?;
                let all = removed.value?;
                let (chosen_by, share) = removed
                    .halves
                    .map_or((all, all), |[first, second]| (first.value, second.value));
                Some((chosen_by, MostTold { attribute: attribute.name, share }))
            });
            anyhow::Ok(AnswerRow {
                answers: case.answers,
                attack: attack.to_string(),
                equations: case.equations,
                unknowns: d,
                parties: parties.to_vec(),
                error: mse(&estimates, &truth)?.overall,
                control: mse(&control, &truth)?.overall,
                exact_records: records_within(&estimates, &truth, EXACT)?,
                most_told: told.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, most)| most),
            })
        };
        let mut rows = vec![row(&self.parties, shared, 0)?];
        if case.answers != Answers::Fallback {
            rows.push(row(std::slice::from_ref(&self.without), missing, shared.len())?);
        }
        Ok(rows)
    }
}
