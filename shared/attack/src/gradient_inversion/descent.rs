//! Adam on a block of records, each on its own.

use nalgebra::DMatrix;
use vfl_core::model::{LANES, Lanes};

use super::loss::{Loss, Target};
use super::{GradientInversion, Iterate};
use crate::{Differentiable, LogitBlock};

/// The decay rate of the mean of the gradients.
const BETA_1: f64 = 0.9;

/// The decay rate of the mean of their squares.
const BETA_2: f64 = 0.999;

/// Added to the root of that mean.
const EPSILON: f64 = 1e-8;

/// The part that the descents of all records share, and their inputs.
pub(super) struct DescentProblem<'a> {
    pub(super) settings: GradientInversion,
    /// The loss, chosen for these scores.
    pub(super) loss: Loss,
    /// The loss at which a record stops; with 0 none does.
    pub(super) stop_loss: f64,
    /// The weight of the squared distance to ½ beside the loss, at least 0. The reported losses do
    /// not include it.
    pub(super) pull: f64,
    /// The logits as a function of the features.
    pub(super) model: &'a dyn Differentiable,
    /// The released scores c, k × n.
    pub(super) scores: DMatrix<f64>,
    /// The start of each record, d × n.
    pub(super) start: DMatrix<f64>,
}

/// The results of the records of a block. The last block of all may have places that stand for no
/// record.
pub(super) struct Block {
    /// The estimates, per feature.
    pub(super) x: Vec<Lanes>,
    /// The losses of the estimates.
    pub(super) losses: Lanes,
    /// The number of steps taken.
    pub(super) iterations: [u32; LANES],
    /// True if `stop_loss` was reached.
    pub(super) stopped: [bool; LANES],
}

/// Memory of one descent, reused for the next one on the same thread.
pub(super) struct Workspace {
    target: Target,
    logits: Vec<Lanes>,
    c_hat: Vec<Lanes>,
    /// Adam's means of the gradient and of its square.
    moments: Vec<(Lanes, Lanes)>,
    gradient: Vec<Lanes>,
}

impl Workspace {
    /// Allocates the memory for d features and k classes.
    pub(super) fn new(features: usize, classes: usize) -> Self {
        let zeros = vec![Lanes::all(0.0); classes];
        Self {
            target: Target::new(classes),
            logits: zeros.clone(),
            c_hat: zeros,
            moments: vec![(Lanes::all(0.0), Lanes::all(0.0)); features],
            gradient: vec![Lanes::all(0.0); features],
        }
    }
}

impl DescentProblem<'_> {
    /// Returns the number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.scores.ncols().div_ceil(LANES)
    }

    /// Runs one block from its start to its end.
    pub(super) fn run(&self, block: usize, work: &mut Workspace) -> Block {
        let settings = &self.settings;
        let (low, high) =
            if settings.projected { (0.0, 1.0) } else { (f64::NEG_INFINITY, f64::INFINITY) };
        let record = |l: usize| (block * LANES + l).min(self.scores.ncols() - 1);
        let mut logits = self.model.block(std::array::from_fn(record));
        let mut x = self.open(record, work);
        let mut best =
            (settings.iterate == Iterate::Best).then(|| (x.clone(), Lanes::all(f64::INFINITY)));
        let records = (self.scores.ncols() - block * LANES).min(LANES);
        let mut moving: [bool; LANES] = std::array::from_fn(|l| l < records);
        let mut stopped = [false; LANES];
        let mut iterations = [0; LANES];
        let mut corrections = BiasCorrections::new(settings.learning_rate);
        let losses = loop {
            let losses = self.evaluate(&x, &mut *logits, work);
            if let Some((best, least)) = &mut best {
                keep_lower(best, least, &x, &losses);
            }
            if self.stop_loss > 0.0 {
                for l in 0..LANES {
                    stopped[l] = stopped[l] || moving[l] && losses.0[l] <= self.stop_loss;
                    moving[l] = moving[l] && !stopped[l];
                }
            }
            if corrections.steps == settings.steps || !moving.contains(&true) {
                break losses;
            }
            let (rate, scale) = corrections.next();
            for l in 0..LANES {
                iterations[l] += u32::from(moving[l]);
            }
            // A record that has stopped continues at a rate of 0, so that the loop over features
            // needs no branch.
            let rates = Lanes(moving.map(|moves| if moves { rate } else { 0.0 }));
            step(
                &mut x,
                &StepParameters { rates, scale, low, high, pull: self.pull },
                &mut *logits,
                work,
            );
        };
        let (x, losses) = best.unwrap_or((x, losses));
        Block { x, losses, iterations, stopped }
    }

    /// Loads a block's inputs and returns its start. Places beyond the last record repeat it.
    fn open(&self, record: impl Fn(usize) -> usize, work: &mut Workspace) -> Vec<Lanes> {
        work.target.fill(|class, l| self.scores[(class, record(l))]);
        work.moments.fill((Lanes::all(0.0), Lanes::all(0.0)));
        (0..self.start.nrows())
            .map(|feature| Lanes(std::array::from_fn(|l| self.start[(feature, record(l))])))
            .collect()
    }

    /// Returns the losses at `x`. Their slopes in the logits replace the logits.
    fn evaluate(&self, x: &[Lanes], logits: &mut dyn LogitBlock, work: &mut Workspace) -> Lanes {
        logits.logits(x, &mut work.logits);
        self.loss.evaluate(&work.target, &mut work.logits, &mut work.c_hat)
    }
}

/// Takes one step of every feature, from the slopes that `evaluate` left.
fn step(x: &mut [Lanes], pace: &StepParameters, logits: &mut dyn LogitBlock, work: &mut Workspace) {
    logits.pull_back(&work.logits, &mut work.gradient);
    if pace.pull > 0.0 {
        for (gradient, x) in work.gradient.iter_mut().zip(&*x) {
            gradient
                .0
                .iter_mut()
                .zip(&x.0)
                .for_each(|(slope, x)| *slope += 2.0 * pace.pull * (x - 0.5));
        }
    }
    for ((x, (m, v)), gradient) in x.iter_mut().zip(&mut work.moments).zip(&work.gradient) {
        move_along(x, (m, v), gradient, pace);
    }
}

/// The numbers of one step.
struct StepParameters {
    /// λ / (1 − β₁ᵗ) per record, or 0 for one that has stopped.
    rates: Lanes,
    /// 1 / √(1 − β₂ᵗ).
    scale: f64,
    /// The range of a feature.
    low: f64,
    high: f64,
    /// The weight of the squared distance to ½.
    pull: f64,
}

/// Takes Adam's step of one feature: m and v take in the gradient, and x goes to x − rate m /
/// (scale √v + ε).
///
/// Roots and quotients dominate the cost. They become vector instructions only if the compiler
/// knows that the arrays are distinct: hence the arguments, one simple loop per quantity, and the
/// hint.
#[inline(always)]
fn move_along(
    x: &mut Lanes,
    (m, v): (&mut Lanes, &mut Lanes),
    gradient: &Lanes,
    pace: &StepParameters,
) {
    for l in 0..LANES {
        m.0[l] = BETA_1 * m.0[l] + (1.0 - BETA_1) * gradient.0[l];
    }
    for l in 0..LANES {
        v.0[l] = BETA_2 * v.0[l] + (1.0 - BETA_2) * (gradient.0[l] * gradient.0[l]);
    }
    for l in 0..LANES {
        x.0[l] -= pace.rates.0[l] * m.0[l] / (pace.scale * v.0[l].sqrt() + EPSILON);
    }
    for l in 0..LANES {
        x.0[l] = if x.0[l] < pace.low { pace.low } else { x.0[l] };
    }
    for l in 0..LANES {
        x.0[l] = if x.0[l] > pace.high { pace.high } else { x.0[l] };
    }
}

/// Keeps, per record, the point of the lowest loss so far; the first of equals.
fn keep_lower(best: &mut [Lanes], least: &mut Lanes, x: &[Lanes], losses: &Lanes) {
    let lower: [bool; LANES] = std::array::from_fn(|l| losses.0[l] < least.0[l]);
    if !lower.contains(&true) {
        return;
    }
    for (best, x) in best.iter_mut().zip(x).chain([(least, losses)]) {
        for ((best, x), lower) in best.0.iter_mut().zip(&x.0).zip(&lower) {
            *best = if *lower { *x } else { *best };
        }
    }
}

/// Adam's corrections for means that start at 0, once per step: 1 − βᵗ by repeated multiplication.
struct BiasCorrections {
    learning_rate: f64,
    steps: u32,
    powers: (f64, f64),
}

impl BiasCorrections {
    fn new(learning_rate: f64) -> Self {
        Self { learning_rate, steps: 0, powers: (1.0, 1.0) }
    }

    /// Returns the factors of the next step: of m, λ / (1 − β₁ᵗ), and of √v, 1 / √(1 − β₂ᵗ).
    fn next(&mut self) -> (f64, f64) {
        self.steps += 1;
        self.powers = (self.powers.0 * BETA_1, self.powers.1 * BETA_2);
        (self.learning_rate / (1.0 - self.powers.0), 1.0 / (1.0 - self.powers.1).sqrt())
    }
}
