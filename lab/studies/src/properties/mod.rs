//! Property inference: how much released parameters tell about the training set as a whole.
//!
//! The property is the mean of a passive feature over the records of a training, or over a group of
//! them that the active party knows. The adversary is the active party. It has its own features and
//! the labels of the training set, all features of other records of the same population, and the
//! released form of the passive weights. It draws its own training sets with more or less of the
//! property, trains a shadow model on each, and fits a regression of the property on its view (G.
//! Ateniese et al., arXiv:1306.4447). The regression is kernel ridge regression, in place of their
//! decision trees. Against a secret order of the features it uses forms that are invariant to it,
//! as K. Ganju et al., CCS 2018, do for the units of networks.
//!
//! The control is the same adversary without parameters: statistics of its own data also depend on
//! passive features. Models are softmax regressions. Networks are left out.
//!
//! Targets are drawn from the half of the records that the adversary does not have. They share it,
//! so intervals are over targets, not over populations.

mod meta;
mod population;
mod report;
mod text;
mod views;

use anyhow::{Context, anyhow, ensure};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use vfl_core::model::{PartyLearner, SOFTMAX_REGRESSION, TrainingConfig};
use vfl_core::types::FeatureBlock;
use vfl_datasets as data;
use vfl_datasets::DatasetSpec;
use vfl_transform::{TransformConfig, rewrite};

use self::meta::{CONTROL, OWN, RELEASED, RegressionEstimates, SCORES, infer};
use self::population::Draw;
pub use self::population::{Group, Population};
pub use self::report::{AdversaryRow, Interval, PropertiesReport, Verdict};
use vfl_datasets::set_facts::SetFacts;
use vfl_datasets::vertical_split;

use self::views::{Recipe, View};

/// The fewest records of a training set.
pub const LEAST_RECORDS: usize = 100;
/// The allowed number of shadow models: a regression has one row for each.
pub const SHADOWS: std::ops::RangeInclusive<usize> = 50..=1000;
/// The allowed number of targets.
pub const TARGETS: std::ops::RangeInclusive<usize> = 30..=1000;
/// The largest allowed tilt: a factor of e⁶ between records one deviation apart.
pub const MOST_TILT: f64 = 3.0;
/// The fewest records of the group in each half of the population.
const LEAST_GROUP: usize = 50;
/// The most multiplications of all trainings: about a day of one core.
const MOST_WORK: f64 = 1e14;

/// The plan of a measurement on a population.
#[derive(Debug, Clone)]
pub struct PropertiesPlan {
    /// The settings of each model's training, a softmax regression. The seed is ignored: each model
    /// has its own.
    pub training: TrainingConfig,
    /// The passive feature whose mean is the property, from 0, counted over all passive parties.
    pub feature: usize,
    /// The group of records that the mean is over.
    pub group: Group,
    /// The number of records of a training set.
    pub records: usize,
    /// The number of shadow models.
    pub shadows: usize,
    /// The number of attacked models.
    pub targets: usize,
    /// The spread of the property between training sets, 0 to 3: records one deviation apart are
    /// drawn with odds of up to e^tilt to 1.
    pub tilt: f64,
    /// The transforms of the passive weights before they are shown.
    pub transforms: Vec<TransformConfig>,
    /// Seed of everything random.
    pub seed: u64,
}

/// The records of a data set, split between parties.
#[derive(Debug, Clone)]
pub struct PropertiesData {
    /// The data set.
    pub data: DatasetSpec,
    /// First passive column.
    pub first_column: usize,
    /// Number of passive features; `None`: one less than the classes.
    pub passive_features: Option<usize>,
    /// Number of passive parties that share them.
    pub passive_parties: usize,
}

/// Returns the transforms that are measured if none is named: those that need no records.
#[must_use]
pub fn default_transforms() -> Vec<TransformConfig> {
    vec![
        TransformConfig::None {},
        TransformConfig::Negate {},
        TransformConfig::Permute {},
        TransformConfig::RandomOrthonormal {},
    ]
}

/// A checked plan, and its records.
pub struct Experiment {
    plan: PropertiesPlan,
    set: Option<(SetFacts, String)>,
    population: Population,
    members: Vec<bool>,
    /// The standardised feature of each record; 0 outside of the group.
    standard: Vec<f64>,
    /// The adversary's records, and those that targets are drawn from.
    pools: [Vec<usize>; 2],
}

impl Experiment {
    /// Loads the data, and checks the plan as far as possible before the first training.
    ///
    /// # Errors
    /// An error that names what is wrong with the plan and the option of `cloison properties` to
    /// change.
    pub fn prepare(data: &PropertiesData, plan: &PropertiesPlan) -> anyhow::Result<Self> {
        let dataset = data::load(&data.data)?;
        let split = vertical_split(
            &dataset,
            data.first_column,
            data.passive_features,
            data.passive_parties,
        )?;
        let passive = split.passive().iter().map(|party| party.columns.as_slice());
        let parties = std::iter::once(split.active()).chain(passive);
        let population = Population {
            classes: dataset.class_names().len(),
            blocks: parties.map(|columns| dataset.x().select_rows(columns)).collect(),
            labels: dataset.labels().to_vec(),
        };
        let set = Some((SetFacts::of(&dataset), dataset.data_hash()));
        Ok(Self { set, ..Self::on(population, plan)? })
    }

    /// Checks the plan on the caller's own records, with as many columns in each block as labels.
    ///
    /// # Errors
    /// As [`Experiment::prepare`].
    pub fn on(population: Population, plan: &PropertiesPlan) -> anyhow::Result<Self> {
        let n = population.labels.len();
        ensure!(
            population.blocks.iter().all(|block| block.ncols() == n),
            "blocks and labels are not of the same records"
        );
        let &PropertiesPlan { feature, group, records, shadows, targets, tilt, seed, .. } = plan;
        let ranges = [("--shadows", shadows, SHADOWS), ("--targets", targets, TARGETS)];
        for (option, got, range) in ranges {
            ensure!(
                range.contains(&got),
                "{option} is {got}: give {} to {}",
                range.start(),
                range.end()
            );
        }
        ensure!(records >= LEAST_RECORDS, "--records is {records}: give at least {LEAST_RECORDS}");
        ensure!(
            (0.0..=MOST_TILT).contains(&tilt),
            "--tilt is {tilt}: give a number from 0 to {MOST_TILT}"
        );
        let kind = plan.training.values().model.kind();
        ensure!(
            kind == SOFTMAX_REGRESSION,
            "`{kind}`: properties are inferred from softmax regressions alone"
        );
        let passive = population.passive_features();
        ensure!(
            feature < passive,
            "--feature is {feature}: there are {passive} passive features, counted from 0"
        );
        match group {
            Group::Class(class) if class as usize >= population.classes => {
                return Err(anyhow!(
                    "--group {group}: there are {} classes, counted from 0",
                    population.classes
                ));
            }
            Group::Above(at) if at >= population.blocks.first().map_or(0, DMatrix::nrows) => {
                let active = population.blocks.first().map_or(0, DMatrix::nrows);
                return Err(anyhow!(
                    "--group {group}: there are {active} active features, counted from 0"
                ));
            }
            _ => {}
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
        let theirs = order.split_off(n / 2);
        ensure!(
            2 * records <= order.len() / 2,
            "--records is {records}: each quarter of the {n} records is to have twice as many, so at most {}",
            order.len() / 4
        );
        let members = group.members(&population);
        let least =
            [&order, &theirs].map(|pool| pool.iter().filter(|record| members[**record]).count());
        ensure!(
            least.iter().all(|count| *count >= LEAST_GROUP),
            "--group {group}: {} and {} records of the halves are of it, at least {LEAST_GROUP} are needed",
            least[0],
            least[1]
        );
        let standard = standardised(&population, feature, &members, &order)?;
        let experiment = Self {
            plan: plan.clone(),
            set: None,
            population,
            members,
            standard,
            pools: [order, theirs],
        };
        experiment.check_transforms()?;
        experiment.check_work()?;
        Ok(experiment)
    }

    fn check_transforms(&self) -> anyhow::Result<()> {
        ensure!(!self.plan.transforms.is_empty(), "--transform: name at least one; `none` is one");
        let passive = self.population.passive_features();
        let k = self.population.classes;
        let weights = DMatrix::from_fn(k, passive, |i, j| f64::from(u8::from(i == j % k)));
        for transform in &self.plan.transforms {
            let mut rng = ChaCha20Rng::seed_from_u64(0);
            rewrite(transform, &weights, None, &mut rng).map_err(|e| {
                anyhow!(
                    "--transform `{transform}`: {e}; those that need no records are measured here"
                )
            })?;
        }
        Ok(())
    }

    fn check_work(&self) -> anyhow::Result<()> {
        let PropertiesPlan { training, records, shadows, targets, .. } = &self.plan;
        let mut of_record = 0;
        for (place, block) in self.population.blocks.iter().enumerate() {
            let one = FeatureBlock::new(block.columns(0, 1).into_owned())?;
            of_record +=
                PartyLearner::new(training, self.population.classes, one, place == 0)?.work(1);
        }
        let models = shadows + targets;
        let epochs = training.values().epochs;
        let work = models as f64 * f64::from(epochs) * *records as f64 * of_record as f64;
        ensure!(
            work <= MOST_WORK,
            "{models} models of {epochs} epochs on {records} records take about {work:.0e} multiplications, at most {MOST_WORK:.0e} are \
             done: lower --shadows, --targets, --epochs or --records"
        );
        Ok(())
    }

    /// Returns the number of models to train.
    #[must_use]
    pub fn models(&self) -> usize {
        self.plan.shadows + self.plan.targets
    }

    /// Trains all models on all cores, fits the regressions, and returns the report. Calls `done`
    /// after each model. The figures depend on the plan alone, not on the number of cores.
    ///
    /// # Errors
    /// If a training diverges, or all targets have the same property.
    pub fn run(&self, done: impl Fn() + Sync) -> anyhow::Result<PropertiesReport> {
        let recipe = Recipe {
            training: self.plan.training.values(),
            population: &self.population,
            members: &self.members,
            feature: self.plan.feature,
            transforms: &self.plan.transforms,
            seed: self.plan.seed,
        };
        // The first half of the models draws from the first pool, the others from the second.
        let views = |what: &str, pools: [&[usize]; 2], count: usize| -> anyhow::Result<Vec<View>> {
            let one = |at: usize| -> anyhow::Result<View> {
                let name = format!("{what} {at}");
                let pool = pools[usize::from(at >= count / 2)];
                let draw = Draw {
                    pool,
                    standard: &self.standard,
                    size: self.plan.records,
                    tilt: self.plan.tilt,
                };
                let seed: [u8; 32] = Sha256::digest(format!(
                    "properties, seed {}, records of {name}",
                    self.plan.seed
                ))
                .into();
                let records = draw.records(&mut ChaCha20Rng::from_seed(seed));
                let view = recipe.view(&name, &records).with_context(|| name.clone())?;
                done();
                Ok(view)
            };
            (0..count).into_par_iter().map(one).collect()
        };
        let [own, theirs] = &self.pools;
        let (first, second) = own.split_at(own.len() / 2);
        let shadows = views("shadow", [first, second], self.plan.shadows)?;
        let targets = views("target", [theirs, theirs], self.plan.targets)?;
        let n = targets.len() as f64;
        let mean = targets.iter().map(|view| view.property).sum::<f64>() / n;
        let about: Vec<f64> = targets.iter().map(|view| (view.property - mean).powi(2)).collect();
        let deviation = (about.iter().sum::<f64>() / n).sqrt();
        ensure!(
            deviation > 1e-9,
            "the property is {mean:.3} in every training set: raise --tilt, or take another --feature or --group"
        );
        let adversaries = self.adversaries(&shadows, &targets, &about)?;
        let features: Vec<usize> = self.population.blocks.iter().map(DMatrix::nrows).collect();
        let (set, data_hash) = self.set.clone().unzip();
        Ok(PropertiesReport {
            set,
            data_hash,
            classes: self.population.classes,
            active_features: features.first().copied().unwrap_or_default(),
            passive_features: self.population.passive_features(),
            feature: self.plan.feature,
            group: self.plan.group.to_string(),
            records: self.plan.records,
            shadows: shadows.len(),
            targets: targets.len(),
            tilt: self.plan.tilt,
            training: self.plan.training.values().clone(),
            seed: self.plan.seed,
            mean,
            deviation,
            adversaries,
        })
    }

    /// Returns the results of each adversary. `about` has the squared deviations of the targets'
    /// property.
    fn adversaries(
        &self,
        shadows: &[View],
        targets: &[View],
        about: &[f64],
    ) -> anyhow::Result<Vec<AdversaryRow>> {
        let control = infer(CONTROL, 0, shadows, targets)?;
        let own = infer(OWN, 0, shadows, targets)?;
        let row = |sees: String, said: &RegressionEstimates| {
            let mse =
                said.squared_errors.iter().sum::<f64>() / said.squared_errors.len().max(1) as f64;
            let takes: Vec<&str> = said.parts.iter().map(|part| part.as_str()).collect();
            AdversaryRow {
                sees,
                takes: if takes.is_empty() { "the mean".into() } else { takes.join(", ") },
                error: mse.sqrt(),
                explained: Interval::explained(&said.squared_errors, about),
                added: None,
                added_to_own: None,
                verdict: None,
            }
        };
        let beside = |sees: String, said: &RegressionEstimates| {
            let added_to_own = Interval::explained(&said.squared_errors, &own.squared_errors);
            let added = Interval::explained(&said.squared_errors, &control.squared_errors);
            // Its own parameters may mislead it: it must do better than with them and than without.
            let verdict = if added.low > 0.0 && added_to_own.low > 0.0 {
                Verdict::Leaks
            } else {
                Verdict::NothingAdded
            };
            AdversaryRow {
                added: Some(added),
                added_to_own: Some(added_to_own),
                verdict: Some(verdict),
                ..row(sees, said)
            }
        };
        let mut rows = vec![row("nothing".into(), &control)];
        rows.push(AdversaryRow {
            added: Some(Interval::explained(&own.squared_errors, &control.squared_errors)),
            ..row("own parameters".into(), &own)
        });
        rows.push(beside("mean scores".into(), &infer(SCORES, 0, shadows, targets)?));
        for (place, transform) in self.plan.transforms.iter().enumerate() {
            rows.push(beside(
                format!("release: {transform}"),
                &infer(RELEASED, place, shadows, targets)?,
            ));
        }
        Ok(rows)
    }
}

/// Standardises the feature of each record by the group's mean and deviation in the adversary's
/// pool; 0 outside of the group.
fn standardised(
    population: &Population,
    feature: usize,
    members: &[bool],
    pool: &[usize],
) -> anyhow::Result<Vec<f64>> {
    let (place, row) = population.place_of(feature).context("there is no such passive feature")?;
    let block = &population.blocks[place];
    let values: Vec<f64> = pool
        .iter()
        .filter(|record| members[**record])
        .map(|&record| block[(row, record)])
        .collect();
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    ensure!(
        deviation > 1e-9,
        "--feature: it is the same in all records of the group; take another one"
    );
    let of = |record: usize| {
        if members[record] { (block[(row, record)] - mean) / deviation } else { 0.0 }
    };
    Ok((0..population.labels.len()).map(of).collect())
}
