//! Membership inference from released scores, with and without each defense.
//!
//! Was a record in the training set? The adversary sees the released scores of one record and knows
//! its true class, the settings of the training and the policy. It can train its own models on
//! records of the same population, some with the record and some without. An [`Experiment`]
//! trains many models, each on a random half of the records. It takes each model in turn as the
//! target and the others as the adversary's, and measures two attacks:
//!
//! - the likelihood ratio in its online form (N. Carlini, S. Chien, M. Nasr, S. Song, A. Terzis, F.
//!   Tramèr, *Membership Inference Attacks From First Principles*, IEEE S&P 2022,
//!   arXiv:2112.03570); `ratio.rs` has the formulas;
//! - one threshold on the same statistic for all records, which is the loss threshold of S. Yeom,
//!   I. Giacomelli, M. Fredrikson, S. Jha, *Privacy Risk in Machine Learning: Analyzing the
//!   Connection to Overfitting*, CSF 2018, arXiv:1709.01604.
//!
//! A member is a record of the training's list. Records that the training holds back to choose the
//! epoch count as members too: a question about membership does not distinguish them from records
//! with gradients.
//!
//! Figures are means over targets. The standard errors treat targets as independent, although they
//! share records and shadow models.

mod curve;
mod models;
mod ratio;
mod report;
mod text;

use anyhow::{anyhow, bail, ensure};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{SOFTMAX_REGRESSION, TrainingConfig};
use vfl_core::types::{ConfidenceScores, Logits};
use vfl_defense::policy::NoiseMode;
use vfl_defense::{DefenseConfig, Grants, Pipeline, Policy};

use self::curve::{Figures, LEVELS, guessed_balanced_accuracy, guessed_tpr};
use self::models::{Membership, ModelReleases, Recipe, Release, needs_weights};
use self::ratio::{Likelihood, Shadows};
pub use self::report::{AttackFigures, Guessing, MembershipReport, PolicyRow, Verdict};
use crate::estimate::Estimate;
use crate::runs::{Seeds, check_work, repeat, sample_learners, work_of_record};
use crate::study::{Listener, Study};
use crate::subject::{LEAST_RECORDS, Subject, SubjectSpec};

/// The fewest models: each record then has three with it and three without it besides the target.
pub const LEAST_MODELS: usize = 8;
/// The most models.
pub const MOST_MODELS: usize = 1024;
/// The most numbers to keep, one for each model, record and policy: 256 MiB.
const MOST_NUMBERS: usize = 1 << 25;
/// The factor over guessing from which an attack counts as successful.
const CAUGHT_FROM: f64 = 5.0;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub struct MembershipPlan {
    /// The data set and its split.
    pub subject: SubjectSpec,
    /// The settings of each model's training. The seed is ignored: each model has its own.
    pub training: TrainingConfig,
    /// The differential privacy of every party's training; `None`: no privacy.
    pub privacy: Option<PrivacyConfig>,
    /// The number of records, drawn from the whole data set; all of them if there are fewer. Each
    /// model is trained on about half.
    pub records: usize,
    /// The number of models, which is even.
    pub models: usize,
    /// The policies. Scores without a defense are always measured first.
    pub policies: Vec<Policy>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Returns the policies that are measured if none is named.
#[must_use]
pub fn default_policies() -> Vec<Policy> {
    let defenses = [
        DefenseConfig::None {},
        DefenseConfig::Rounding { decimals: 1 },
        DefenseConfig::ClassLabel { softening: 0.0 },
        DefenseConfig::GaussianNoise { sigma: 0.1 },
        DefenseConfig::TopK { k: 1 },
    ];
    defenses.map(Policy::of).into()
}

/// A checked plan, and its records.
pub struct Experiment {
    plan: MembershipPlan,
    subject: Subject,
    policies: Vec<Policy>,
    membership: Membership,
}

impl Experiment {
    /// Loads the data, draws records and memberships, and checks the plan as far as possible before
    /// the first training.
    ///
    /// # Errors
    /// An error that names what is wrong with the plan and the option of `cloison membership` to
    /// change.
    pub fn prepare(plan: &MembershipPlan) -> anyhow::Result<Self> {
        let &MembershipPlan { models, records, seed, .. } = plan;
        if !(LEAST_MODELS..=MOST_MODELS).contains(&models) || !models.is_multiple_of(2) {
            bail!(
                "--models is {models}: give an even number from {LEAST_MODELS} to {MOST_MODELS}, as each record is in half of the models"
            );
        }
        ensure!(
            records >= LEAST_RECORDS,
            "--records is {records}: give at least {LEAST_RECORDS}, of which a model is trained on half"
        );
        if let Some(privacy) = &plan.privacy {
            privacy.check(&plan.training).map_err(|e| anyhow!("--privacy-noise: {e}"))?;
        }
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let subject = Subject::draw(&plan.subject, records, &mut rng)?;
        let experiment = Self {
            membership: Membership::draw(subject.labels.len(), models, &mut rng),
            policies: with_none_first(&plan.policies),
            subject,
            plan: plan.clone(),
        };
        experiment.check_size()?;
        plan.policies.iter().try_for_each(check_once)?;
        experiment.policies.iter().try_for_each(|policy| experiment.check_policy(policy))?;
        Ok(experiment)
    }

    /// Checks that time and memory suffice.
    fn check_size(&self) -> anyhow::Result<()> {
        let (models, records, policies) =
            (self.plan.models, self.subject.labels.len(), self.policies.len());
        let numbers = models.saturating_mul(records).saturating_mul(policies);
        ensure!(
            numbers <= MOST_NUMBERS,
            "{models} models, {records} records and {policies} policies make {numbers} numbers to keep, at most {MOST_NUMBERS} are: \
             lower --models or --records, or name fewer policies with --policy"
        );
        let epochs = self.plan.training.values().epochs;
        let of_record = work_of_record(&sample_learners(&self.plan.training, &self.subject)?);
        check_work(
            models as f64 * f64::from(epochs) * 0.5 * records as f64 * of_record,
            format_args!("{models} models of {epochs} epochs on half of {records} records"),
            "--models, --epochs or --records, or take a smaller model",
        )
    }

    /// Checks that a policy can be applied to models of this kind, trained on so many records.
    fn check_policy(&self, policy: &Policy) -> anyhow::Result<()> {
        let linear = self.plan.training.values().model.kind() == SOFTMAX_REGRESSION;
        if needs_weights(policy) && !linear {
            bail!(
                "--policy `{policy}`: logit_noise schemes 1 and 2 take the weights of a linear model, and this is a network"
            );
        }
        // Placeholders of the right shapes: any weights, and scores of the smallest training.
        let k = self.subject.classes();
        let weights = self.subject.sample_weights();
        let least = self.membership.sizes().into_iter().min().unwrap_or_default();
        let calibration = ConfidenceScores::softmax(Logits::new(DMatrix::zeros(k, least))?);
        let grants = Grants {
            passive_weights: Some(&weights),
            calibration: Some(&calibration),
            seed: [0; 32],
        };
        Pipeline::build(&policy.defenses, k, &grants).map(drop).map_err(|e| {
            let fitted = policy.defenses.iter().any(DefenseConfig::fitted);
            let hint = if fitted { "; a model is trained on half of --records" } else { "" };
            anyhow!("--policy `{policy}`: {e}{hint}")
        })
    }

    /// Measures both attacks against one policy, the one at index `at`.
    fn row(
        &self,
        at: usize,
        policy: &Policy,
        scored: &[ModelReleases],
        guessing: &Guessing,
    ) -> PolicyRow {
        let releases: Vec<&Release> =
            scored.iter().filter_map(|scored| scored.releases.get(at)).collect();
        let by_model: Vec<&[f64]> =
            releases.iter().map(|release| release.statistics.as_slice()).collect();
        let likelihood = releases.first().map_or(Likelihood::Normal, |release| release.likelihood);
        let shadows = Shadows::new(self.membership.flags(), &by_model, likelihood);
        let attacked = |target: usize| {
            let members = self.membership.of_model(target);
            (
                Figures::of(&shadows.ratios(target), &members),
                Figures::of(by_model[target], &members),
            )
        };
        let (ratio, threshold): (Vec<Figures>, Vec<Figures>) =
            (0..by_model.len()).into_par_iter().map(attacked).unzip();
        PolicyRow {
            policy: policy.to_string(),
            accuracy_on_members: Estimate::of(releases.iter().map(|release| release.accuracy.0)),
            accuracy_on_others: Estimate::of(releases.iter().map(|release| release.accuracy.1)),
            likelihood_ratio: figures(&ratio, guessing),
            threshold: figures(&threshold, guessing),
        }
    }

    /// Returns the expected results of guessing, as a mean over targets.
    fn guessing(&self) -> Guessing {
        let records = self.subject.labels.len();
        let sizes = self.membership.sizes();
        let mean = |of: &dyn Fn(usize) -> f64| {
            sizes.iter().map(|&size| of(size)).sum::<f64>() / sizes.len().max(1) as f64
        };
        let [often, seldom] = LEVELS;
        // The finest measurable rate is one false alarm among half of the records.
        let told = seldom * 0.5 * records as f64 >= 1.0;
        Guessing {
            tpr_at_1_percent: mean(&|size| guessed_tpr(often, records - size)),
            tpr_at_0_1_percent: told.then(|| mean(&|size| guessed_tpr(seldom, records - size))),
            balanced_accuracy: mean(&|size| guessed_balanced_accuracy(size, records - size)),
        }
    }
}

impl Study for Experiment {
    type Report = MembershipReport;

    fn parts(&self) -> usize {
        self.plan.models
    }

    fn ending(&self) -> String {
        format!("{} models trained and attacked", self.parts())
    }

    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<MembershipReport> {
        let recipe = Recipe {
            training: self.plan.training.values(),
            privacy: self.plan.privacy,
            subject: &self.subject,
            policies: &self.policies,
            seeds: Seeds { study: "membership", seed: self.plan.seed },
        };
        let scored = repeat(
            self.plan.models,
            tell,
            |model| format!("model {model}"),
            |model| recipe.train_and_score(model, &self.membership.of_model(model)),
        )?;
        let guessing = self.guessing();
        let rows = self
            .policies
            .iter()
            .enumerate()
            .map(|(at, policy)| self.row(at, policy, &scored, &guessing));
        let of_epsilon =
            |a: &PrivacyStatement, b: &PrivacyStatement| a.epsilon.total_cmp(&b.epsilon);
        let gap = scored
            .iter()
            .filter_map(|scored| scored.releases.first())
            .map(|r| r.accuracy.0 - r.accuracy.1);
        Ok(MembershipReport {
            subject: self.subject.facts(),
            passive_parties: self.subject.passive_parties(),
            records: self.subject.labels.len(),
            models: self.plan.models,
            training: self.plan.training.values().clone(),
            privacy: scored.iter().filter_map(|scored| scored.privacy).max_by(of_epsilon),
            seed: self.plan.seed,
            accuracy_gap: Estimate::of(gap),
            guessing,
            policies: rows.collect(),
        })
    }
}

/// Averages the figures over targets, and derives the verdict.
fn figures(of_targets: &[Figures], guessing: &Guessing) -> AttackFigures {
    let mean = |of: fn(&Figures) -> f64| Estimate::of(of_targets.iter().map(of));
    let tpr_at_1_percent = mean(|figures| figures.tpr[0]);
    let auc = mean(|figures| figures.auc);
    let guessed = guessing.tpr_at_1_percent;
    let verdict = if tpr_at_1_percent.low() >= CAUGHT_FROM * guessed {
        Verdict::Caught
    } else if tpr_at_1_percent.low() > guessed || auc.low() > 0.5 {
        Verdict::AboveGuessing
    } else {
        Verdict::LikeGuessing
    };
    AttackFigures {
        tpr_at_1_percent,
        times_guessing: tpr_at_1_percent.mean / guessed,
        tpr_at_0_1_percent: guessing.tpr_at_0_1_percent.map(|_| mean(|figures| figures.tpr[1])),
        auc,
        balanced_accuracy: mean(|figures| figures.balanced_accuracy),
        verdict,
    }
}

/// Returns the policies without duplicates, with no defense first.
fn with_none_first(policies: &[Policy]) -> Vec<Policy> {
    let mut all = vec![Policy::of(DefenseConfig::None {})];
    for policy in policies {
        if !policy.is_none() && !all.contains(policy) {
            all.push(policy.clone());
        }
    }
    all
}

/// Refuses a policy that differs only in its answer to repeated requests: each record is requested
/// once here.
fn check_once(policy: &Policy) -> anyhow::Result<()> {
    ensure!(
        policy.noise == NoiseMode::Keyed && !policy.unbound_shares,
        "--policy `{policy}`: each record is asked for once here; leave out `fresh noise` and `unbound shares`"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn one(tpr: f64, auc: f64) -> Figures {
        Figures { tpr: [tpr, tpr / 10.0], auc, balanced_accuracy: 0.6 }
    }

    const GUESSING: Guessing =
        Guessing { tpr_at_1_percent: 0.012, tpr_at_0_1_percent: None, balanced_accuracy: 0.52 };

    #[test]
    fn the_verdict_looks_at_the_lower_end() {
        let of = |each: &[Figures]| figures(each, &GUESSING).verdict;
        assert_eq!(of(&[one(0.10, 0.7), one(0.11, 0.7)]), Verdict::Caught);
        // Five times guessing on average is not enough.
        assert_eq!(of(&[one(0.02, 0.7), one(0.11, 0.7)]), Verdict::AboveGuessing);
        assert_eq!(of(&[one(0.02, 0.5), one(0.02, 0.5)]), Verdict::AboveGuessing);
        // Ties may leave no threshold at 1 %, and still reveal membership.
        assert_eq!(of(&[one(0.0, 0.58), one(0.0, 0.59)]), Verdict::AboveGuessing);
        assert_eq!(of(&[one(0.01, 0.49), one(0.013, 0.51)]), Verdict::LikeGuessing);
        assert_eq!(figures(&[one(0.024, 0.5)], &GUESSING).tpr_at_0_1_percent, None);
        assert!((figures(&[one(0.024, 0.5)], &GUESSING).times_guessing - 2.0).abs() < 1e-12);
    }

    #[test]
    fn no_defense_comes_first_and_each_policy_once() {
        let read = |text: &str| text.parse::<Policy>().unwrap();
        let texts = ["class_label", "none", "rounding (decimals = 1)", "class_label"].map(read);
        let shown: Vec<String> = with_none_first(&texts).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["none", "class_label", "rounding (decimals = 1)"]);
        assert_eq!(with_none_first(&default_policies()), default_policies());
        check_once(&texts[0]).unwrap();
        for idle in ["gaussian_noise (sigma = 0.1), fresh noise", "class_label, unbound shares"] {
            assert!(check_once(&read(idle)).unwrap_err().to_string().contains("--policy"));
        }
    }
}
