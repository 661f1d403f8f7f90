//! Estimates from the set of features that a release allows for each record: a point of that set.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use vfl_numerics::{ActiveSet, ConfinedGaussian, NearestOutcome, Polytope, Walk, arg_max};

use super::Centre;
use crate::cells::{Likelihood, Noise, Words, confine};
use crate::{
    AdversaryView, Answer, AttackError, Cell, Cells, Evidence, Reconstruction, RecordOutcome,
    Status, Termination,
};

/// The number of hit-and-run steps for each record.
const STEPS: u32 = 400;

/// Standard deviation of a feature that is uniform in [0, 1].
const PRIOR: f64 = 0.288_675_134_594_812_9;

/// Working memory for one record at a time.
#[derive(Default)]
struct Work {
    active: ActiveSet,
    walk: Walk,
}

impl Cells {
    pub(super) fn new(view: &AdversaryView<'_>, cells: Vec<Cell>) -> Result<Self, AttackError> {
        Ok(Self {
            // Cells of orders hold whatever the link; attacks with others ask for a softmax first.
            weights: view.model().output_weights()?.clone(),
            known: view.known_logits(),
            cells,
            words: None,
        })
    }

    /// Estimates all records, with the cells as evidence.
    pub(super) fn estimate(
        self,
        view: &AdversaryView<'_>,
        centre: Centre,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let (d, n) = (self.weights.ncols(), self.cells.len());
        let mut estimates = DMatrix::from_element(d, n, 0.5);
        let mut outcomes = Vec::new();
        let seed = rng.next_u64();
        if d > 0 {
            estimates
                .as_mut_slice()
                .par_chunks_mut(d)
                .enumerate()
                .map_init(Work::default, |work, (record, x)| {
                    self.one(record, centre, seed, work, x)
                })
                .collect_into_vec(&mut outcomes);
        } else {
            outcomes =
                vec![
                    RecordOutcome { ended: Termination::Solved, iterations: 0, objective: 0.0 };
                    n
                ];
        }
        let solved = match view.model().needs_tangents() {
            true => None,
            false => Some(view.linear()?.solved(&estimates, view.b_prime()?)),
        };
        let rank = solved.as_ref().map_or(d.min(view.model().classes() - 1), |of| of.rank);
        let status = Status::Centre { rank };
        let evidence = Evidence::Cells(self);
        Ok(Reconstruction { solved, outcomes, evidence, ..Reconstruction::new(estimates, status) })
    }

    /// Estimates one record. `objective` is the distance by which the estimate misses the set.
    fn one(
        &self,
        record: usize,
        centre: Centre,
        seed: u64,
        work: &mut Work,
        features: &mut [f64],
    ) -> RecordOutcome {
        let set = self.polytope(record);
        if let Some(ended) = self.observed(record, &set, work, features) {
            return RecordOutcome { ended, iterations: 0, objective: 0.0 };
        }
        let mut half = vec![0.5; features.len()];
        if set.unknowns() > features.len() {
            // The length of the noise: the middle of its range, or its least if the range is
            // unbounded.
            let (least, most) =
                self.cells[record].noise.as_ref().map_or((0.0, 0.0), |noise| noise.ends);
            half.push(if most.is_finite() { 0.5 * (least + most) } else { least } / Noise::SCALE);
        }
        let mut point = half.clone();
        let x = point.as_mut_slice();
        if centre == Centre::Likely
            && let Some(ended) = self.likeliest(record, &set, work, features)
        {
            return RecordOutcome { ended, iterations: 0, objective: set.misfit(features) };
        }
        let mut ended = match set.nearest(&half, &mut work.active, x) {
            NearestOutcome::Found => Termination::Solved,
            NearestOutcome::Empty => Termination::NearestConsistent,
            NearestOutcome::StepLimit => Termination::StepLimit,
        };
        if ended != Termination::Solved
            && set.nearest_misfit(&half, &mut work.active, x) == NearestOutcome::StepLimit
        {
            ended = Termination::StepLimit;
            x.copy_from_slice(&half);
        }
        let mut iterations = 0;
        if ended == Termination::Solved && centre != Centre::Half {
            // If the set has no interior, the point nearest to ½ stays.
            let nearest = x.to_vec();
            let found = match centre {
                Centre::Half | Centre::Analytic | Centre::Likely => {
                    set.analytic_centre(&mut work.walk, x)
                }
                Centre::Posterior => {
                    iterations = STEPS;
                    // One random stream for each record, whatever thread it runs on.
                    let mut rng = ChaCha8Rng::seed_from_u64(seed);
                    rng.set_stream(record as u64);
                    match self.log_likelihood(record) {
                        None => set.mean(STEPS, None, &mut rng, &mut work.walk, x),
                        Some(density) => {
                            set.mean(STEPS, Some(&density), &mut rng, &mut work.walk, x)
                        }
                    }
                }
            };
            if !found || x.iter().any(|v| !v.is_finite()) {
                x.copy_from_slice(&nearest);
            }
        }
        for (to, x) in features.iter_mut().zip(x.iter()) {
            *to = x.clamp(0.0, 1.0);
        }
        RecordOutcome { ended, iterations, objective: set.misfit(x) }
    }

    /// Finds the mean under the noise of an observed number and features that are normal around ½
    /// with the variance of uniform ones. Returns `None` without an observation, or if no point is
    /// found.
    fn observed(
        &self,
        record: usize,
        set: &Polytope,
        work: &mut Work,
        x: &mut [f64],
    ) -> Option<Termination> {
        let d = x.len();
        let half = DVector::from_element(d, 0.5);
        let mut prior = ConfinedGaussian::new(half, DMatrix::identity(d, d) * (PRIOR * PRIOR));
        if !self.observe(record, &mut prior) || set.unknowns() > d {
            return None;
        }
        confine(&mut prior, set);
        let (likeliest, _) = prior.likeliest(&mut work.active)?;
        let mean = prior.mean();
        let found = if mean.converged { mean.x } else { likeliest };
        found.iter().zip(x).for_each(|(found, x)| *x = found.clamp(0.0, 1.0));
        Some(Termination::Solved)
    }

    /// Finds the likeliest point of the set. Returns `None` if the cell calls no scores likely, the
    /// set has more unknowns than the features, or the search fails.
    fn likeliest(
        &self,
        record: usize,
        set: &Polytope,
        work: &mut Work,
        x: &mut [f64],
    ) -> Option<Termination> {
        let (d, cell) = (x.len(), &self.cells[record]);
        if cell.likely.is_empty() || set.unknowns() != d {
            return None;
        }
        // The common part of the logits is one more unknown, without bounds.
        let mut set = set.clone();
        set.add_unknown(f64::NEG_INFINITY, f64::INFINITY);
        let known = self.known.column(record);
        let mut row = vec![-Noise::SCALE; d + 1];
        for (class, (mean, deviation)) in cell.likely.iter().enumerate() {
            for (to, w) in row.iter_mut().zip(self.weights.column_iter()) {
                *to = w[class];
            }
            let target = cell.stretch * mean - known[class];
            set.add_giving(&row, target, target, cell.stretch * deviation / PRIOR);
        }
        let mut half = vec![0.5; d];
        half.push(0.0);
        let mut point = half.clone();
        if set.nearest(&half, &mut work.active, &mut point) != NearestOutcome::Found {
            return None;
        }
        x.copy_from_slice(&point[..d]);
        Some(Termination::Solved)
    }

    /// Returns the logarithm of the likelihood of features, if there is more to it than the
    /// polytope.
    fn log_likelihood(&self, record: usize) -> Option<impl Fn(&[f64]) -> f64> {
        /// The cost of a nat outside the ends. It lets the walk find back from points where only
        /// the polytope holds.
        const OUTSIDE: f64 = 1e3;
        let cell = &self.cells[record];
        let words = self.words.as_ref();
        match (&cell.likelihood, words) {
            (Likelihood::Flat, _) | (Likelihood::Word(_), None) => return None,
            _ => {}
        }
        Some(move |x: &[f64]| {
            let k = self.weights.nrows();
            let mut logs: Vec<f64> = self.known.column(record).iter().copied().collect();
            for (w, x) in self.weights.column_iter().zip(x) {
                logs.iter_mut().zip(w.iter()).for_each(|(z, w)| *z += w * x);
            }
            let stretch = if let Likelihood::Scores { stretch, .. } = &cell.likelihood {
                *stretch
            } else {
                1.0
            };
            let top = logs.iter().fold(f64::NEG_INFINITY, |m, z| m.max(*z));
            let total: f64 = logs.iter().map(|z| ((z - top) / stretch).exp()).sum::<f64>().ln();
            logs.iter_mut().for_each(|z| *z = (*z - top) / stretch - total);
            match (&cell.likelihood, words) {
                (Likelihood::Scores { lower, upper, weight, .. }, _) => (0..k)
                    .map(|j| {
                        let (low, high) = (lower[j].max(1e-300).ln(), upper[j].max(1e-300).ln());
                        let below = if lower[j] > 0.0 { (low - logs[j]).max(0.0) } else { 0.0 };
                        -weight * logs[j] - OUTSIDE * (below + (logs[j] - high).max(0.0))
                    })
                    .sum(),
                (Likelihood::Word(word), Some(words)) => {
                    let likeness =
                        |m: usize| (0..k).map(|j| logs[j].exp() * words.logs[(j, m)]).sum::<f64>();
                    let own = likeness(*word);
                    let rival =
                        (0..words.tops.len()).filter(|&m| words.tops[m] == words.tops[*word]);
                    -OUTSIDE * rival.map(|m| (likeness(m) - own).max(0.0)).fold(0.0, f64::max)
                }
                _ => 0.0,
            }
        })
    }
}

/// Returns the class that an answer predicts.
pub(super) fn label_of(answer: &Answer) -> Option<usize> {
    match answer {
        Answer::Label(label) => Some(*label as usize),
        Answer::Scores(scores) if !scores.is_empty() => Some(arg_max(scores)),
        Answer::Ciphertexts(c) if !c.is_empty() => {
            Some((1..c.len()).fold(0, |best, i| if c[i] > c[best] { i } else { best }))
        }
        _ => None,
    }
}

/// Returns the distinct columns of vectors (k × n) as words, and the word of each column.
pub(super) fn words_of(scores: &DMatrix<f64>) -> (Words, Vec<usize>) {
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut index = std::collections::HashMap::new();
    let of = scores
        .column_iter()
        .map(|c| {
            let bits: Vec<u64> = c.iter().map(|v| v.to_bits()).collect();
            *index.entry(bits).or_insert_with(|| {
                columns.push(c.iter().copied().collect());
                columns.len() - 1
            })
        })
        .collect();
    let tops = columns.iter().map(|c| arg_max(c)).collect();
    let logs =
        DMatrix::from_fn(scores.nrows(), columns.len(), |j, m| columns[m][j].max(1e-12).ln());
    (Words { logs, tops }, of)
}
