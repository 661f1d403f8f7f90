//! The adversary who does not send its honest logit share.
//!
//! z = p + s with p the passive part that it is after and s its own to choose. Two ways lead to p:
//! - **Bisection.** With every class but two pushed far down, the predicted class tells the sign of p_i − p_j + s_i − s_j. The
//!   model's weights bound p_i − p_j over the box; halving takes some 30 questions for each of k − 1 pairs. It works on
//!   whatever keeps the arg max.
//! - **Cancelling.** Gaussian noise that is keyed by the record is the same for every question. With one class pushed far up
//!   the scores are known, 1 and 0, and the release less them is the noise; taken from the honest answer it leaves the scores.
//!
//! A coordinator that binds the first share refuses the rest: nothing beyond the first answer is gained, and it says so.

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_shared::numerics::arg_max;
use vfl_shared::policy::{DefenseConfig, NoiseMode, Policy};
use vfl_shared::types::{FeatureBlock, ReleasedScores};

use super::cones::label_cone;
use super::estimate::label_of;
use super::{Centre, KnownPolicy, strongest_on};
use crate::attack::cells::{Cell, Cells};
use crate::attack::entry::{Base, Chosen, Entry, Group};
use crate::attack::{
    AdversaryView, Answer, Attack, AttackError, ChosenQuestions, KnownModel, Need, Needs, OracleError, Rcc2,
    Reconstruction, Replacement, Settings, ShareOracle,
};

/// What the questions brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// The estimates; for records that were refused, from the first answer alone.
    pub reconstruction: Reconstruction,
    /// Questions asked, all records of one question counting once.
    pub questions: usize,
    /// Rows asked for.
    pub asked: usize,
    /// Rows refused.
    pub refused: usize,
    /// Answers about the record that had most.
    pub most_answers: usize,
    /// For each record whether anything beyond its first answer was learnt.
    pub gained: Vec<bool>,
    /// Differences p_j − p_0 of the passive logits as found (k − 1 × n); NaN where they were not.
    pub differences: DMatrix<f64>,
}

impl Gathered {
    /// Whether the questions after the first told nothing at all, as a coordinator that binds shares makes sure of.
    #[must_use]
    pub fn stopped(&self) -> bool {
        !self.gained.iter().any(|g| *g)
    }
}

/// The attack.
#[derive(Debug, Clone)]
pub struct ChosenShares {
    /// The policy, as known.
    pub known: KnownPolicy,
    /// How closely each difference of logits is wanted, in nats.
    pub precision: f64,
    /// The attack on records of which no more than the first answer is learnt: the strongest on one release under the policy.
    pub fall_back: Arc<dyn Attack>,
}

impl Default for ChosenShares {
    fn default() -> Self {
        Self { known: KnownPolicy::default(), precision: 1e-7, fall_back: Arc::new(Rcc2) }
    }
}

/// `chosen_shares`.
pub(in crate::attack) static CHOSEN_SHARES: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::upon(
        "chosen_shares",
        Group::Adaptive,
        Base { name: fall_back, chosen: Chosen::Fixed, unclipped: false },
        |settings, base| {
            Box::new(ChosenShares { known: settings.into(), fall_back: base.into(), ..ChosenShares::default() })
        },
    )
};

/// The strongest attack on one release under the policy that is known.
fn fall_back(settings: &Settings) -> &'static str {
    let policy = Policy { unbound_shares: false, ..KnownPolicy::from(settings).policy };
    strongest_on(&policy).unwrap_or("rcc2")
}

impl Attack for ChosenShares {
    fn needs(&self) -> Needs {
        Needs { release: Need::No, chosen_shares: Need::Yes, ..Needs::WHITE_BOX }
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let oracle = view.side_information().oracle.ok_or(AttackError::NeedsOracle { attack: "chosen_shares" })?;
        let gathered = self.gather(view.model(), view.active(), oracle, rng)?;
        let questions = ChosenQuestions {
            questions: gathered.questions,
            asked: gathered.asked,
            refused: gathered.refused,
            most_answers: gathered.most_answers,
            gained: gathered.gained.iter().filter(|gained| **gained).count(),
            records: gathered.gained.len(),
        };
        Ok(Reconstruction { questions: Some(crate::attack::Questions::Chosen(questions)), ..gathered.reconstruction })
    }
}

/// How far classes out of question are pushed beyond what the passive part can be.
const PUSH: f64 = 1e3;

/// The oracle, with what it was asked.
struct Asking<'a> {
    oracle: &'a dyn ShareOracle,
    questions: usize,
    asked: usize,
    refused: usize,
    /// Answers about each record.
    answered: Vec<usize>,
}

impl Asking<'_> {
    fn ask(&mut self, records: &[usize], shares: &DMatrix<f64>) -> Result<Vec<Answer>, AttackError> {
        let answers = self.oracle.ask(records, shares)?;
        if answers.len() != records.len() {
            return Err(OracleError(format!("{} answers for {} records", answers.len(), records.len())).into());
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
    /// [`AttackError::Oracle`] if a question does not get through; [`AttackError::NeedsParameters`] in the black box;
    /// [`AttackError::Refused`] if even the honest question is refused for every record.
    pub fn gather(
        &self,
        model: &KnownModel,
        active: &FeatureBlock,
        oracle: &dyn ShareOracle,
        rng: &mut dyn Rng,
    ) -> Result<Gathered, AttackError> {
        let w_pas = model.passive_weights()?;
        let (k, n) = (model.classes(), active.records());
        let mut honest = model.active_weights() * active.matrix();
        honest.column_iter_mut().for_each(|mut c| c += model.bias());
        let mut questions = Asking { oracle, questions: 0, asked: 0, refused: 0, answered: vec![0; n] };
        let all: Vec<usize> = (0..n).collect();
        let first = questions.ask(&all, &honest)?;
        if n > 0 && first.iter().all(|a| *a == Answer::Refused) {
            return Err(AttackError::Refused);
        }
        let mut cells: Vec<Cell> = first
            .iter()
            .map(|a| label_of(a).filter(|l| *l < k).map_or_else(Cell::default, |label| label_cone(label, k)))
            .collect();
        let mut gained = vec![false; n];
        let mut differences = DMatrix::from_element(k - 1, n, f64::NAN);
        if self.keyed_gaussian() {
            self.cancel(&mut questions, &honest, &first, &mut cells, &mut gained, &mut differences)?;
        } else {
            self.bisect(&mut questions, w_pas, &mut cells, &mut gained, &mut differences, &first, &honest)?;
        }
        let Asking { questions, asked, refused, answered, .. } = questions;
        let most_answers = answered.into_iter().max().unwrap_or(0);
        let label = ReleasedScores::Labels {
            classes: k,
            labels: first.iter().map(|a| label_of(a).filter(|l| *l < k).unwrap_or(0) as u32).collect(),
        };
        let view = AdversaryView::new(model, active, &label, Replacement::default())?;
        let centre =
            self.known.centre.unwrap_or(if gained.iter().any(|g| *g) { Centre::Half } else { Centre::Analytic });
        let mut reconstruction = Cells::new(&view, cells)?.estimate(&view, centre, rng)?;
        self.fall_back(model, active, &first, &gained, &mut reconstruction, rng)?;
        Ok(Gathered { reconstruction, questions, asked, refused, most_answers, gained, differences })
    }

    fn keyed_gaussian(&self) -> bool {
        let (at_logits, at_scores) = self.known.stages();
        let gaussian =
            matches!(at_scores.as_slice(), [DefenseConfig::GaussianNoise { .. } | DefenseConfig::DpGaussian { .. }]);
        gaussian && at_logits.is_empty() && self.known.policy.noise == NoiseMode::Keyed
    }

    /// Records of which nothing more was learnt get the strongest attack on their first answer.
    fn fall_back(
        &self,
        model: &KnownModel,
        active: &FeatureBlock,
        first: &[Answer],
        gained: &[bool],
        into: &mut Reconstruction,
        rng: &mut dyn Rng,
    ) -> Result<(), AttackError> {
        let left: Vec<usize> =
            (0..gained.len()).filter(|&r| !gained[r] && matches!(first[r], Answer::Scores(_))).collect();
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
            if let (Some(to), Some(from)) = (into.outcomes.get_mut(record), found.outcomes.get(at)) {
                *to = *from;
            }
        }
        Ok(())
    }

    /// Halves the range of p_j − p_0 for every j, all records at once.
    #[allow(clippy::too_many_arguments, reason = "one private step of the attack")]
    fn bisect(
        &self,
        questions: &mut Asking<'_>,
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
            // Somewhat beyond, so that round-off in the weights' sums does not shut the truth out.
            let slack = 1e-9 * (1.0 + widest);
            let mut ends = vec![(low - slack, high + slack); n];
            while !alive.is_empty() && alive.iter().any(|&r| ends[r].1 - ends[r].0 > self.precision) {
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
                    // In terms of all of z, as the honest question has it.
                    let by = honest[(j, r)] - honest[(0, r)];
                    cells[r].certain(j, 0, ends[r].0 + by, ends[r].1 + by);
                }
            }
        }
        Ok(())
    }

    /// Reads the noise off where the scores are known, and takes it from the honest answer.
    fn cancel(
        &self,
        questions: &mut Asking<'_>,
        honest: &DMatrix<f64>,
        first: &[Answer],
        cells: &mut [Cell],
        gained: &mut [bool],
        differences: &mut DMatrix<f64>,
    ) -> Result<(), AttackError> {
        let k = honest.nrows();
        let alive: Vec<usize> = (0..first.len()).filter(|&r| matches!(first[r], Answer::Scores(_))).collect();
        if alive.is_empty() {
            return Ok(());
        }
        let mut shares = honest.select_columns(&alive);
        shares.row_mut(0).add_scalar_mut(1e6);
        let answers = questions.ask(&alive, &shares)?;
        for (&r, answer) in alive.iter().zip(&answers) {
            let (Answer::Scores(noisy), Answer::Scores(at_corner)) = (&first[r], answer) else { continue };
            if noisy.len() != k || at_corner.len() != k {
                continue;
            }
            let noise = |j: usize| at_corner[j] - f64::from(j == 0);
            let scores: Vec<f64> = (0..k).map(|j| noisy[j] - noise(j)).collect();
            // With the noise drawn anew the sum would miss 1 by it, twice over.
            if (scores.iter().sum::<f64>() - 1.0).abs() > 1e-9 || scores.iter().any(|c| *c < -1e-9) {
                continue;
            }
            gained[r] = true;
            // The difference of two doubles of the noise's size.
            let size = 1.0 + (0..k).map(|j| noisy[j].abs().max(noise(j).abs())).fold(0.0, f64::max);
            let slack = 4.0 * f64::EPSILON * size;
            let top = arg_max(&scores);
            let mut cell = Cell::default();
            for j in (0..k).filter(|&j| j != top) {
                let lower = ((scores[top] - slack).max(1e-300) / (scores[j] + slack).max(1e-300)).ln();
                let upper =
                    if scores[j] > slack { ((scores[top] + slack) / (scores[j] - slack)).ln() } else { f64::INFINITY };
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
