//! What a release says of one record's logits, as a set of features.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use vfl_shared::numerics::{ActiveSet, Nearest, Polytope, Walk, arg_max};

use super::{Answer, Centre};
use crate::attack::{AdversaryView, AttackError, Ended, Evidence, Reconstruction, RecordOutcome, Status};

/// Steps of hit and run for each record.
const STEPS: u32 = 400;

/// Standard deviation of a feature that is uniform in [0, 1].
const PRIOR: f64 = 0.288_675_134_594_812_9;

/// `lower` ≤ z_i − z_j ≤ `upper`, in nats; an end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The one class.
    pub i: usize,
    /// The other.
    pub j: usize,
    /// The least difference.
    pub lower: f64,
    /// The greatest difference.
    pub upper: f64,
    /// Whether the bound is on the differences with the noise of the cell in them.
    pub(super) noisy: bool,
}

/// Noise of unknown length along a known direction of the logits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Noise {
    /// k entries.
    pub(super) direction: Vec<f64>,
    /// The least length and the greatest.
    pub(super) ends: (f64, f64),
}

impl Noise {
    /// One unit of the unknown that stands for the length: so large that its distance to the middle counts for little
    /// beside those of the features.
    pub(super) const SCALE: f64 = 1e3;

    /// The length where it is known.
    fn fixed(&self) -> Option<f64> {
        (self.ends.1 - self.ends.0 <= 1e-12 * (1.0 + self.ends.0.abs())).then_some(self.ends.0)
    }
}

/// What more is known than the bounds on differences say: the shape of the likelihood within.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Likelihood {
    /// Nothing.
    #[default]
    Flat,
    /// Each score within its ends, and each as likely as 1/c to the power of `weight`: 1 where c was multiplied by a
    /// uniform number.
    Scores { lower: Vec<f64>, upper: Vec<f64>, stretch: f64, weight: f64 },
    /// The word of this number is the nearest of its arg max.
    Word(usize),
}

/// What is known of one record's logits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// Bounds of differences.
    pub bounds: Vec<Bound>,
    pub(super) likelihood: Likelihood,
    pub(super) noise: Option<Noise>,
    /// What is likely of the logarithm of each score: mean and standard deviation. Empty where nothing is.
    pub(super) likely: Vec<(f64, f64)>,
    /// Differences of logits over those of these logarithms.
    pub(super) stretch: f64,
}

impl Cell {
    /// z_i − z_j lies between these.
    pub(super) fn certain(&mut self, i: usize, j: usize, lower: f64, upper: f64) {
        self.bounds.push(Bound { i, j, lower, upper, noisy: false });
    }
}

/// Logarithms of words (k × m) with the arg max of each, where cells are those of a codebook.
#[derive(Clone, PartialEq)]
pub(super) struct Words {
    pub(super) logs: DMatrix<f64>,
    pub(super) tops: Vec<usize>,
}

/// The cells of all records over the features of a linear model. `Debug` shows shapes.
#[derive(Clone, PartialEq)]
pub struct Cells {
    /// W_pas, k × d.
    weights: DMatrix<f64>,
    /// The known part of the logits, k × n.
    known: DMatrix<f64>,
    pub(super) cells: Vec<Cell>,
    pub(super) words: Option<Words>,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((k, d), n) = (self.weights.shape(), self.cells.len());
        write!(f, "Cells({k} × {d}, {n} records, values withheld)")
    }
}

/// Room for one record at a time.
#[derive(Default)]
struct Work {
    active: ActiveSet,
    walk: Walk,
}

impl Cells {
    pub(super) fn new(view: &AdversaryView<'_>, cells: Vec<Cell>) -> Result<Self, AttackError> {
        Ok(Self { weights: view.weights()?.clone(), known: view.known_logits(), cells, words: None })
    }

    /// The cells of features x, where these are of u = (x − lower) / (upper − lower); `weights` (k × d) are W_pas of x.
    pub(in crate::attack) fn in_terms_of(mut self, weights: &DMatrix<f64>, lower: &DVector<f64>) -> Self {
        let offset = weights * lower;
        self.known.column_iter_mut().for_each(|mut column| column -= &offset);
        self.weights = weights.clone();
        self
    }

    /// Number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.cells.len()
    }

    /// The polytope of one record's features, in which the truth lies; the length of the noise is the last unknown where it is
    /// not known.
    ///
    /// # Panics
    /// If there is no such record.
    #[must_use]
    pub fn polytope(&self, record: usize) -> Polytope {
        let d = self.weights.ncols();
        let known = self.known.column(record);
        let mut set = Polytope::unit_box(d);
        let noise = self.cells[record].noise.as_ref();
        let open = noise.filter(|noise| noise.fixed().is_none());
        let mut row = vec![0.0; d];
        if let Some(noise) = open {
            set.add_unknown(noise.ends.0 / Noise::SCALE, noise.ends.1 / Noise::SCALE);
            row.push(0.0);
        }
        for bound in &self.cells[record].bounds {
            let (i, j) = (bound.i, bound.j);
            for (to, w) in row.iter_mut().zip(self.weights.column_iter()) {
                *to = w[i] - w[j];
            }
            let mut by = known[i] - known[j];
            if let Some(noise) = noise {
                let along = if bound.noisy { noise.direction[i] - noise.direction[j] } else { 0.0 };
                match noise.fixed() {
                    Some(length) => by += length * along,
                    None => row[d] = Noise::SCALE * along,
                }
            }
            set.add(&row, bound.lower - by, bound.upper - by);
        }
        set
    }

    /// The estimates, with the cells as evidence.
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
                .map_init(Work::default, |work, (record, x)| self.one(record, centre, seed, work, x))
                .collect_into_vec(&mut outcomes);
        } else {
            outcomes = vec![RecordOutcome { ended: Ended::Solved, iterations: 0, objective: 0.0 }; n];
        }
        let solved = view.linear()?.solved(&estimates, view.b_prime()?);
        let status = Status::Centre { rank: solved.rank };
        let evidence = Evidence::Cells(self);
        Ok(Reconstruction { solved: Some(solved), outcomes, evidence, ..Reconstruction::new(estimates, status) })
    }

    /// `objective` is the distance by which the estimate misses the set.
    fn one(&self, record: usize, centre: Centre, seed: u64, work: &mut Work, features: &mut [f64]) -> RecordOutcome {
        let set = self.polytope(record);
        let mut half = vec![0.5; features.len()];
        if set.unknowns() > features.len() {
            // The length of the noise: the middle of what it can be, or its least.
            let (least, most) = self.cells[record].noise.as_ref().map_or((0.0, 0.0), |noise| noise.ends);
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
            Nearest::Found => Ended::Solved,
            Nearest::Empty => Ended::NearestConsistent,
            Nearest::StepLimit => Ended::StepLimit,
        };
        if ended != Ended::Solved && set.nearest_misfit(&half, &mut work.active, x) == Nearest::StepLimit {
            ended = Ended::StepLimit;
            x.copy_from_slice(&half);
        }
        let mut iterations = 0;
        if ended == Ended::Solved && centre != Centre::Half {
            // Where the set has no inside the point nearest to ½ stays.
            let nearest = x.to_vec();
            let found = match centre {
                Centre::Half | Centre::Analytic | Centre::Likely => set.analytic_centre(&mut work.walk, x),
                Centre::Posterior => {
                    iterations = STEPS;
                    // One stream of numbers for each record, whatever thread it falls to.
                    let mut rng = ChaCha8Rng::seed_from_u64(seed);
                    rng.set_stream(record as u64);
                    match self.log_likelihood(record) {
                        None => set.mean(STEPS, None, &mut rng, &mut work.walk, x),
                        Some(density) => set.mean(STEPS, Some(&density), &mut rng, &mut work.walk, x),
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

    /// The likeliest point of the set, where there is a set and something is likely.
    fn likeliest(&self, record: usize, set: &Polytope, work: &mut Work, x: &mut [f64]) -> Option<Ended> {
        let (d, cell) = (x.len(), &self.cells[record]);
        if cell.likely.is_empty() || set.unknowns() != d {
            return None;
        }
        // What the logits have in common is one unknown more, and free.
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
        if set.nearest(&half, &mut work.active, &mut point) != Nearest::Found {
            return None;
        }
        x.copy_from_slice(&point[..d]);
        Some(Ended::Solved)
    }

    /// The logarithm of the likelihood of features, where there is more to it than the polytope.
    fn log_likelihood(&self, record: usize) -> Option<impl Fn(&[f64]) -> f64> {
        /// What a nat outside of the ends costs: the walk finds back from where only the polytope holds.
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
            let stretch = if let Likelihood::Scores { stretch, .. } = &cell.likelihood { *stretch } else { 1.0 };
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
                    let likeness = |m: usize| (0..k).map(|j| logs[j].exp() * words.logs[(j, m)]).sum::<f64>();
                    let own = likeness(*word);
                    let rival = (0..words.tops.len()).filter(|&m| words.tops[m] == words.tops[*word]);
                    -OUTSIDE * rival.map(|m| (likeness(m) - own).max(0.0)).fold(0.0, f64::max)
                }
                _ => 0.0,
            }
        })
    }
}

/// The class that an answer predicts.
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

/// Words from the distinct columns of vectors (k × n), and the word of each column.
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
    let logs = DMatrix::from_fn(scores.nrows(), columns.len(), |j, m| columns[m][j].max(1e-12).ln());
    (Words { logs, tops }, of)
}
