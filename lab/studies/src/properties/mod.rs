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
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use vfl_core::model::{SOFTMAX_REGRESSION, TrainingConfig};
use vfl_datasets::Dataset;
use vfl_transform::{TransformConfig, rewrite};

use self::meta::{CONTROL, OWN, RELEASED, RegressionEstimates, SCORES, infer};
pub use self::population::Group;
use self::population::{Draw, place_of};
pub use self::report::{AdversaryRow, Interval, PropertiesReport, Verdict};
use self::views::{Recipe, View};
use crate::runs::{Seeds, check_range, check_work, repeat, sample_learners, work_of_record};
use crate::study::{Listener, Study};
use crate::subject::{Subject, SubjectSpec};

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
    subject: Subject,
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
    pub fn prepare(spec: &SubjectSpec, plan: &PropertiesPlan) -> anyhow::Result<Self> {
        let all = |dataset: &Dataset| Ok((0..dataset.records()).collect());
        Self::on(Subject::load(spec, all)?, plan)
    }

    /// Checks the plan on the caller's own records, with as many columns in each block as labels.
    ///
    /// # Errors
    /// As [`Experiment::prepare`].
    pub fn on(subject: Subject, plan: &PropertiesPlan) -> anyhow::Result<Self> {
        let n = subject.labels.len();
        ensure!(
            subject.blocks.iter().all(|block| block.records() == n),
            "blocks and labels are not of the same records"
        );
        let &PropertiesPlan { feature, group, records, shadows, targets, tilt, seed, .. } = plan;
        check_range("--shadows", shadows, &SHADOWS)?;
        check_range("--targets", targets, &TARGETS)?;
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
        let (active, passive) = (subject.active_features(), subject.passive_features());
        ensure!(
            feature < passive,
            "--feature is {feature}: there are {passive} passive features, counted from 0"
        );
        let (given, there, things) = match group {
            Group::All => (0, 1, ""),
            Group::Class(class) => (class as usize, subject.classes(), "classes"),
            Group::Above(at) => (at, active, "active features"),
        };
        ensure!(given < there, "--group {group}: there are {there} {things}, counted from 0");
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
        let theirs = order.split_off(n / 2);
        ensure!(
            2 * records <= order.len() / 2,
            "--records is {records}: each quarter of the {n} records is to have twice as many, so at most {}",
            order.len() / 4
        );
        let members = group.members(&subject);
        let least =
            [&order, &theirs].map(|pool| pool.iter().filter(|record| members[**record]).count());
        ensure!(
            least.iter().all(|count| *count >= LEAST_GROUP),
            "--group {group}: {} and {} records of the halves are of it, at least {LEAST_GROUP} are needed",
            least[0],
            least[1]
        );
        let standard = standardised(&subject, feature, &members, &order)?;
        let pools = [order, theirs];
        let experiment = Self { plan: plan.clone(), subject, members, standard, pools };
        experiment.check_transforms()?;
        experiment.check_work()?;
        Ok(experiment)
    }

    fn check_transforms(&self) -> anyhow::Result<()> {
        ensure!(!self.plan.transforms.is_empty(), "--transform: name at least one; `none` is one");
        let weights = self.subject.sample_weights();
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
        let PropertiesPlan { training, records, .. } = &self.plan;
        let (models, epochs) = (self.parts(), training.values().epochs);
        let of_record = work_of_record(&sample_learners(training, &self.subject)?);
        check_work(
            models as f64 * f64::from(epochs) * *records as f64 * of_record,
            format_args!("{models} models of {epochs} epochs on {records} records"),
            "--shadows, --targets, --epochs or --records",
        )
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

impl Study for Experiment {
    type Report = PropertiesReport;

    fn parts(&self) -> usize {
        self.plan.shadows + self.plan.targets
    }

    fn ending(&self) -> String {
        format!("{} models trained", self.parts())
    }

    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<PropertiesReport> {
        let plan = &self.plan;
        let seeds = Seeds { study: "properties", seed: plan.seed };
        let recipe = Recipe {
            training: plan.training.values(),
            feature: plan.feature,
            transforms: &plan.transforms,
            subject: &self.subject,
            members: &self.members,
            seeds,
        };
        // The first half of the models draws from the first pool, the others from the second.
        let views = |what: &str, pools: [&[usize]; 2], count: usize| {
            let name = |at: usize| format!("{what} {at}");
            repeat(count, tell, name, |at| {
                let draw = Draw {
                    pool: pools[usize::from(at >= count / 2)],
                    standard: &self.standard,
                    size: plan.records,
                    tilt: plan.tilt,
                };
                let seed = seeds.of(format_args!("records of {}", name(at)));
                recipe.view(&name(at), &draw.records(&mut ChaCha20Rng::from_seed(seed)))
            })
        };
        let [own, theirs] = &self.pools;
        let (first, second) = own.split_at(own.len() / 2);
        let shadows = views("shadow", [first, second], plan.shadows)?;
        let targets = views("target", [theirs, theirs], plan.targets)?;
        let n = targets.len() as f64;
        let mean = targets.iter().map(|view| view.property).sum::<f64>() / n;
        let about: Vec<f64> = targets.iter().map(|view| (view.property - mean).powi(2)).collect();
        let deviation = (about.iter().sum::<f64>() / n).sqrt();
        ensure!(
            deviation > 1e-9,
            "the property is {mean:.3} in every training set: raise --tilt, or take another --feature or --group"
        );
        Ok(PropertiesReport {
            adversaries: self.adversaries(&shadows, &targets, &about)?,
            subject: self.subject.facts(),
            feature: plan.feature,
            group: plan.group.to_string(),
            records: plan.records,
            shadows: shadows.len(),
            targets: targets.len(),
            tilt: plan.tilt,
            training: plan.training.values().clone(),
            seed: plan.seed,
            mean,
            deviation,
        })
    }
}

/// Standardises the feature of each record by the group's mean and deviation in the adversary's
/// pool; 0 outside of the group.
fn standardised(
    subject: &Subject,
    feature: usize,
    members: &[bool],
    pool: &[usize],
) -> anyhow::Result<Vec<f64>> {
    let (place, row) =
        place_of(&subject.blocks, feature).context("there is no such passive feature")?;
    let block = subject.blocks[place].matrix();
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
    Ok((0..subject.labels.len()).map(of).collect())
}
