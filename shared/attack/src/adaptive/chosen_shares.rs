//! An adversary that does not send its honest logit share.
//!
//! z = p + s, where p is the passive part that the adversary wants and s is its own share, which it
//! may choose. Two methods find p:
//! - **Bisection.** Every class but two is pushed far down, so the predicted class tells the sign
//!   of p_i − p_j + s_i − s_j. The model's weights bound p_i − p_j over the box. Halving takes some
//!   30 questions for each of k − 1 pairs. It works on every policy that keeps the arg max.
//! - **Cancelling.** Gaussian noise that is keyed by the record is the same for every question. If
//!   one class is pushed far up, the scores are known, 1 and 0, and the release less them is the
//!   noise. Subtracted from the honest answer, it leaves the scores.
//!
//! A coordinator that binds the first share refuses all others. Then nothing beyond the first
//! answer is gained, and the result says so.

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_defense::policy::NoiseMode;
use vfl_defense::{DefenseConfig, Policy};
use vfl_numerics::arg_max;

use super::cones::label_cone;
use super::estimate::label_of;
use super::{Centre, KnownPolicy, strongest_on};
use crate::{
    AdversaryView, Answer, Attack, AttackError, Base, BaseChoice, Cell, Cells, ChosenQuestions,
    Entry, Group, KnownModel, Need, Needs, OracleError, Rcc2, Reconstruction, Replacement,
    Settings, ShareOracle,
};

/// The result of the questions.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenSharesResult {
    /// The estimates. Records that were refused are estimated from the first answer alone.
    pub reconstruction: Reconstruction,
    /// The number of questions asked. All records of one question count once.
    pub questions: usize,
    /// The number of rows asked for.
    pub asked: usize,
    /// The number of rows refused.
    pub refused: usize,
    /// The most answers about one record.
    pub most_answers: usize,
    /// For each record, true if more was learnt than its first answer tells.
    pub gained: Vec<bool>,
    /// Differences p_j − p_0 of the passive logits (k − 1 × n); NaN where none was found.
    pub differences: DMatrix<f64>,
}

impl ChosenSharesResult {
    /// Returns true if the questions after the first told nothing, which a coordinator that binds
    /// shares ensures.
    #[must_use]
    pub fn stopped(&self) -> bool {
        !self.gained.iter().any(|g| *g)
    }
}

/// The attack with logit shares of the adversary's own choice.
#[derive(Debug, Clone)]
pub struct ChosenShares {
    /// The known policy.
    pub known: KnownPolicy,
    /// The width, in nats, at which the bisection of a difference of logits stops.
    pub precision: f64,
    /// The attack on records of which only the first answer is known: the strongest on one release
    /// under the policy.
    pub fall_back: Arc<dyn Attack>,
}

impl Default for ChosenShares {
    fn default() -> Self {
        Self { known: KnownPolicy::default(), precision: 1e-7, fall_back: Arc::new(Rcc2) }
    }
}

pub(crate) static CHOSEN_SHARES: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::upon(
        "chosen_shares",
        Group::Adaptive,
        Base { name: fall_back, chosen: BaseChoice::Fixed, unclipped: false },
        |settings, base| {
            Box::new(ChosenShares {
                known: settings.into(),
                fall_back: base.into(),
                ..ChosenShares::default()
            })
        },
    )
};

/// Returns the name of the strongest attack on one release under the known policy; `rcc2` if there
/// is none.
fn fall_back(settings: &Settings) -> &'static str {
    let policy = Policy { unbound_shares: false, ..KnownPolicy::from(settings).policy };
    strongest_on(&policy).unwrap_or("rcc2")
}

impl Attack for ChosenShares {
    fn needs(&self) -> Needs {
        // It moves the logits of classes past each other.
        Needs { release: Need::No, chosen_shares: Need::Yes, ..Needs::WHITE_BOX }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let oracle = view
            .side_information()
            .oracle
            .ok_or(AttackError::NeedsOracle { attack: "chosen_shares" })?;
        let gathered = self.gather(view.model(), view.active(), oracle, rng)?;
        let questions = ChosenQuestions {
            questions: gathered.questions,
            asked: gathered.asked,
            refused: gathered.refused,
            most_answers: gathered.most_answers,
            gained: gathered.gained.iter().filter(|gained| **gained).count(),
            records: gathered.gained.len(),
        };
        Ok(Reconstruction {
            questions: Some(crate::Questions::Chosen(questions)),
            ..gathered.reconstruction
        })
    }
}

/// The margin by which the other classes are pushed below the range of the passive part.
const PUSH: f64 = 1e3;

/// An oracle that counts what it is asked.
struct CountingOracle<'a> {
    oracle: &'a dyn ShareOracle,
    questions: usize,
    asked: usize,
    refused: usize,
    /// The number of answers about each record.
    answered: Vec<usize>,
}

impl CountingOracle<'_> {
    fn ask(
        &mut self,
        records: &[usize],
        shares: &DMatrix<f64>,
    ) -> Result<Vec<Answer>, AttackError> {
        let answers = self.oracle.ask(records, shares)?;
        if answers.len() != records.len() {
            return Err(OracleError(format!(
                "{} answers for {} records",
                answers.len(),
                records.len()
            ))
            .into());
        }
        self.questions += 1;
        self.asked += records.len();
        self.refused += answers.iter().filter(|a| **a == Answer::Refused).count();
        for (&record, answer) in records.iter().zip(&answers) {
            self.answered[record] += usize::from(*answer != Answer::Refused);
        }
        Ok(answers)
    }
}

impl ChosenShares {
    /// Asks honestly first, then with chosen shares, and estimates the features.
    ///
    /// # Errors
    /// [`AttackError::Oracle`] if a question does not get through; [`AttackError::NeedsParameters`]
    /// in the black box; [`AttackError::Refused`] if even the honest question is refused for every
    /// record.
    pub fn gather(
        &self,
        model: &KnownModel,
        active: &FeatureBlock,
        oracle: &dyn ShareOracle,
        rng: &mut dyn Rng,
    ) -> Result<ChosenSharesResult, AttackError> {
        let w_pas = model.passive_weights()?;
        let (k, n) = (model.classes(), active.records());
        let mut honest = model.active_weights() * active.matrix();
        honest.column_iter_mut().for_each(|mut c| c += model.bias());
        let mut questions =
            CountingOracle { oracle, questions: 0, asked: 0, refused: 0, answered: vec![0; n] };
        let all: Vec<usize> = (0..n).collect();
        let first = questions.ask(&all, &honest)?;
        if n > 0 && first.iter().all(|a| *a == Answer::Refused) {
            return Err(AttackError::Refused);
        }
        let mut cells: Vec<Cell> = first
            .iter()
            .map(|a| {
                label_of(a)
                    .filter(|l| *l < k)
                    .map_or_else(Cell::default, |label| label_cone(label, k))
            })
            .collect();
        let mut gained = vec![false; n];
        let mut differences = DMatrix::from_element(k - 1, n, f64::NAN);
        if self.keyed_gaussian() {
            self.cancel(
                &mut questions,
                &honest,
                &first,
                &mut cells,
                &mut gained,
                &mut differences,
            )?;
        } else {
            self.bisect(
                &mut questions,
                w_pas,
                &mut cells,
                &mut gained,
                &mut differences,
                &first,
                &honest,
            )?;
        }
        let CountingOracle { questions, asked, refused, answered, .. } = questions;
        let most_answers = answered.into_iter().max().unwrap_or(0);
        let label = ReleasedScores::Labels {
            classes: k,
            labels: first
                .iter()
                .map(|a| label_of(a).filter(|l| *l < k).unwrap_or(0) as u32)
                .collect(),
        };
        let view = AdversaryView::new(model, active, &label, Replacement::default())?;
        let centre = self.known.centre.unwrap_or(if gained.iter().any(|g| *g) {
            Centre::Half
        } else {
            Centre::Analytic
        });
        let mut reconstruction = Cells::new(&view, cells)?.estimate(&view, centre, rng)?;
        self.fall_back(model, active, &first, &gained, &mut reconstruction, rng)?;
        Ok(ChosenSharesResult {
            reconstruction,
            questions,
            asked,
            refused,
            most_answers,
            gained,
            differences,
        })
    }

    fn keyed_gaussian(&self) -> bool {
        let (at_logits, at_scores) = self.known.stages();
        let gaussian = matches!(
            at_scores.as_slice(),
            [DefenseConfig::GaussianNoise { .. } | DefenseConfig::DpGaussian { .. }]
        );
        gaussian && at_logits.is_empty() && self.known.policy.noise == NoiseMode::Keyed
    }

    /// Runs the fall-back attack on the first answer about records of which nothing more was
    /// learnt.
    fn fall_back(
        &self,
        model: &KnownModel,
        active: &FeatureBlock,
        first: &[Answer],
        gained: &[bool],
        into: &mut Reconstruction,
        rng: &mut dyn Rng,
    ) -> Result<(), AttackError> {
        let left: Vec<usize> = (0..gained.len())
            .filter(|&r| !gained[r] && matches!(first[r], Answer::Scores(_)))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        let k = model.classes();
        let columns: Vec<_> = left
            .iter()
            .filter_map(|&r| match &first[r] {
                Answer::Scores(s) if s.len() == k => Some(nalgebra::DVector::from_column_slice(s)),
                _ => None,
            })
            .collect();
        if columns.len() != left.len() {
            return Err(OracleError("an answer has another number of classes".into()).into());
        }
        let released = ReleasedScores::Numbers(DMatrix::from_columns(&columns));
        let y = FeatureBlock::new(active.matrix().select_columns(&left))?;
        let view = AdversaryView::new(model, &y, &released, Replacement::default())?;
        let found = self.fall_back.reconstruct(&view, rng)?;
        for (at, &record) in left.iter().enumerate() {
            into.estimates.column_mut(record).copy_from(&found.estimates.column(at));
            if let (Some(to), Some(from)) = (into.outcomes.get_mut(record), found.outcomes.get(at))
            {
                *to = *from;
            }
        }
        Ok(())
    }

    /// Bisects the range of p_j − p_0 for every j, all records at once.
    #[allow(clippy::too_many_arguments, reason = "one private step of the attack")]
    fn bisect(
        &self,
        questions: &mut CountingOracle<'_>,
        w_pas: &DMatrix<f64>,
        cells: &mut [Cell],
        gained: &mut [bool],
        differences: &mut DMatrix<f64>,
        first: &[Answer],
        honest: &DMatrix<f64>,
    ) -> Result<(), AttackError> {
        let (k, n) = (w_pas.nrows(), cells.len());
        let range = |i: usize, j: usize| {
            w_pas
                .column_iter()
                .map(|w| w[i] - w[j])
                .fold((0.0f64, 0.0f64), |(l, h), w| (l + w.min(0.0), h + w.max(0.0)))
        };
        let widest = (1..k).map(|j| range(j, 0)).fold(0.0f64, |m, (l, h)| m.max(-l).max(h));
        let mut alive: Vec<usize> = (0..n).filter(|&r| first[r] != Answer::Refused).collect();
        for j in 1..k {
            let (low, high) = range(j, 0);
            // Slightly wider, so that round-off in the sums of weights does not exclude the truth.
            let slack = 1e-9 * (1.0 + widest);
            let mut ends = vec![(low - slack, high + slack); n];
            while !alive.is_empty() && alive.iter().any(|&r| ends[r].1 - ends[r].0 > self.precision)
            {
                let mut shares = DMatrix::from_element(k, alive.len(), -(PUSH + 4.0 * widest));
                for (at, &r) in alive.iter().enumerate() {
                    shares[(0, at)] = 0.5 * (ends[r].0 + ends[r].1);
                    shares[(j, at)] = 0.0;
                }
                let answers = questions.ask(&alive, &shares)?;
                let mut left = Vec::with_capacity(alive.len());
                for (at, &r) in alive.iter().enumerate() {
                    let middle = shares[(0, at)];
                    match label_of(&answers[at]) {
                        // p_0 + middle ≥ p_j: ties go to the lower class.
                        Some(0) => ends[r].1 = middle,
                        Some(label) if label == j => ends[r].0 = middle,
                        _ => continue,
                    }
                    gained[r] = true;
                    left.push(r);
                }
                alive = left;
            }
            for r in 0..n {
                if ends[r].1 - ends[r].0 <= self.precision {
                    differences[(j - 1, r)] = 0.5 * (ends[r].0 + ends[r].1);
                }
                if gained[r] {
                    // As a bound on z of the honest question.
                    let by = honest[(j, r)] - honest[(0, r)];
                    cells[r].certain(j, 0, ends[r].0 + by, ends[r].1 + by);
                }
            }
        }
        Ok(())
    }

    /// Measures the noise where the scores are known, and subtracts it from the honest answer.
    fn cancel(
        &self,
        questions: &mut CountingOracle<'_>,
        honest: &DMatrix<f64>,
        first: &[Answer],
        cells: &mut [Cell],
        gained: &mut [bool],
        differences: &mut DMatrix<f64>,
    ) -> Result<(), AttackError> {
        let k = honest.nrows();
        let alive: Vec<usize> =
            (0..first.len()).filter(|&r| matches!(first[r], Answer::Scores(_))).collect();
        if alive.is_empty() {
            return Ok(());
        }
        let mut shares = honest.select_columns(&alive);
        shares.row_mut(0).add_scalar_mut(1e6);
        let answers = questions.ask(&alive, &shares)?;
        for (&r, answer) in alive.iter().zip(&answers) {
            let (Answer::Scores(noisy), Answer::Scores(at_corner)) = (&first[r], answer) else {
                continue;
            };
            if noisy.len() != k || at_corner.len() != k {
                continue;
            }
            let noise = |j: usize| at_corner[j] - f64::from(j == 0);
            let scores: Vec<f64> = (0..k).map(|j| noisy[j] - noise(j)).collect();
            // If the noise is drawn anew, both draws are left in the sum, which then misses 1.
            if (scores.iter().sum::<f64>() - 1.0).abs() > 1e-9 || scores.iter().any(|c| *c < -1e-9)
            {
                continue;
            }
            gained[r] = true;
            // The round-off of a difference of two doubles of the noise's size.
            let size = 1.0 + (0..k).map(|j| noisy[j].abs().max(noise(j).abs())).fold(0.0, f64::max);
            let slack = 4.0 * f64::EPSILON * size;
            let top = arg_max(&scores);
            let mut cell = Cell::default();
            for j in (0..k).filter(|&j| j != top) {
                let lower =
                    ((scores[top] - slack).max(1e-300) / (scores[j] + slack).max(1e-300)).ln();
                let upper = if scores[j] > slack {
                    ((scores[top] + slack) / (scores[j] - slack)).ln()
                } else {
                    f64::INFINITY
                };
                cell.certain(top, j, lower, upper);
            }
            cells[r] = cell;
            for j in 1..k {
                let ratio = scores[j].max(1e-300).ln() - scores[0].max(1e-300).ln();
                differences[(j - 1, r)] = ratio - (honest[(j, r)] - honest[(0, r)]);
            }
        }
        Ok(())
    }
}
