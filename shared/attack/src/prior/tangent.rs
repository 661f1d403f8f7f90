//! Gauss-Newton steps through networks: each record's tangent at its estimate is a linear system,
//! whose solution is the next estimate.
//!
//! With h(x) the differences of neighbouring logits and b those of the logarithms of the scores,
//! the tangent at x̂ says J x = b − h(x̂) + J x̂, with J the slopes of h at x̂. If this comes to
//! rest at a point with h(x̂) = b, the estimate is the one that the equations of its own tangent
//! give.

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;
use vfl_core::model::{LANES, Lanes};

use super::mixture::Mixture;
use crate::second_order::Fit;
use crate::{AdversaryView, AttackError, Differentiable, LogitBlock, RecordOutcome, Termination};

/// The most passive features: each step of each record solves a system of this size.
const MOST_FEATURES: usize = 128;

/// The most steps of a record.
const STEPS: u32 = 60;

/// A step that moves no feature farther than this is the last one.
const AT_REST: f64 = 1e-9;

/// A record is solved if its squared misfit is below this share of 1 + ‖b‖².
const SOLVED: f64 = 1e-14;

/// The equations of one record at one point.
pub(super) struct Tangent {
    /// The slopes J, (k − 1) × d.
    pub(super) slopes: DMatrix<f64>,
    /// The right side b − h(x̂) + J x̂, (k − 1) × 1.
    pub(super) right: DMatrix<f64>,
}

/// The squared misfit that a start which has the scores may leave them by, so that it can move to a
/// likelier point.
const ALLOWED: f64 = 1.0;

/// A function that computes the next point of a record from a tangent.
pub(super) type Solver<'a> =
    dyn Fn(usize, &Tangent) -> Result<DVector<f64>, AttackError> + Sync + 'a;

/// A function that computes a cost of a point of a record, from the tangent there.
pub(super) type Cost<'a> = dyn Fn(usize, &DVector<f64>, &Tangent) -> f64 + Sync + 'a;

/// The descents of a record, and the choice among their ends.
pub(super) struct Descents<'a> {
    /// Computes the points to begin at, one or more.
    pub(super) starts: &'a (dyn Fn(usize) -> Vec<DVector<f64>> + Sync),
    /// Computes the next point from a tangent.
    pub(super) solve: &'a Solver<'a>,
    /// Computes minus twice the logarithm of the weight of an end that has the scores.
    pub(super) cost: &'a Cost<'a>,
    /// True if the estimate is the weighted mean of such ends, and not the one of least cost.
    pub(super) mixes: bool,
}

/// Returns estimates (d × n) of the records of a view whose model is a network, from the fits to
/// their exact scores.
///
/// # Errors
/// [`AttackError::Features`] for too many features; as [`AdversaryView::differentiable`]; those of
/// the steps.
pub(super) fn through_network(
    view: &AdversaryView<'_>,
    fits: &[Fit],
    descents: &Descents<'_>,
) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
    let (d, k) = (view.target_features(), view.model().classes());
    check_features(d)?;
    let model = view.differentiable()?;
    let one = |(record, fit): (usize, &Fit)| {
        let scores = DVector::from_vec(fit.differences().ok_or(AttackError::NoEvidence)?);
        let mut newton = Newton::new(&*model, record, scores, k, d);
        let mut ends: Vec<(DVector<f64>, RecordOutcome)> = Vec::new();
        for start in (descents.starts)(record) {
            ends.push(newton.run(start, |tangent| (descents.solve)(record, tangent))?);
        }
        let (solved, others): (Vec<_>, Vec<_>) =
            ends.into_iter().partition(|(_, outcome)| outcome.ended == Termination::Solved);
        let nearest = |a: &(_, RecordOutcome), b: &(_, RecordOutcome)| {
            a.1.objective.total_cmp(&b.1.objective)
        };
        if solved.is_empty() {
            return Ok(others.into_iter().min_by(nearest));
        }
        let mut mixture = Mixture::default();
        let outcome = solved.iter().min_by(|a, b| nearest(a, b)).map(|(_, outcome)| *outcome);
        for (x, _) in solved {
            let (tangent, _) = newton.tangent(&x);
            let cost = (descents.cost)(record, &x, &tangent);
            mixture.add(x, cost);
        }
        let x = if descents.mixes { mixture.mean() } else { mixture.likeliest() };
        Ok(x.zip(outcome))
    };
    let found: Vec<_> = fits.par_iter().enumerate().map(one).collect::<Result<_, AttackError>>()?;
    let (columns, outcomes): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
    let estimates =
        if columns.is_empty() { DMatrix::zeros(d, 0) } else { DMatrix::from_columns(&columns) };
    Ok((estimates, outcomes))
}

/// Checks the number of features: each step of each record solves a system of this size.
///
/// # Errors
/// [`AttackError::Features`] for more than 128.
pub(super) fn check_features(d: usize) -> Result<(), AttackError> {
    match d > MOST_FEATURES {
        true => Err(AttackError::Features { got: d, limit: MOST_FEATURES }),
        false => Ok(()),
    }
}

/// The descent of one record. The places of its block are steps of different lengths.
struct Newton<'a> {
    block: Box<dyn LogitBlock + 'a>,
    /// The differences of the logarithms of the scores, b.
    scores: DVector<f64>,
    x: Vec<Lanes>,
    logits: Vec<Lanes>,
    slopes: Vec<Lanes>,
    gradient: Vec<Lanes>,
}

impl<'a> Newton<'a> {
    fn new(
        model: &'a dyn Differentiable,
        record: usize,
        scores: DVector<f64>,
        k: usize,
        d: usize,
    ) -> Self {
        let zeros = |n| vec![Lanes::all(0.0); n];
        let block = model.block([record; LANES]);
        Self { block, scores, x: zeros(d), logits: zeros(k), slopes: zeros(k), gradient: zeros(d) }
    }

    /// Returns the squared misfits ‖b − h‖² at the points that `x` holds.
    fn misfits(&mut self) -> [f64; LANES] {
        self.block.logits(&self.x, &mut self.logits);
        std::array::from_fn(|l| {
            let h = self.logits.windows(2).map(|pair| pair[1].0[l] - pair[0].0[l]);
            h.zip(&self.scores).map(|(h, b)| (b - h) * (b - h)).sum()
        })
    }

    fn place(&mut self, x: &DVector<f64>) {
        self.x.iter_mut().zip(x).for_each(|(to, x)| *to = Lanes::all(*x));
    }

    /// Returns the tangent at a point, and the squared misfit there.
    fn tangent(&mut self, x: &DVector<f64>) -> (Tangent, f64) {
        self.place(x);
        let misfit = self.misfits()[0];
        let (equations, d) = (self.scores.len(), x.len());
        let h: Vec<f64> = self.logits.windows(2).map(|pair| pair[1].0[0] - pair[0].0[0]).collect();
        let mut slopes = DMatrix::zeros(equations, d);
        for row in 0..equations {
            self.slopes.fill(Lanes::all(0.0));
            (self.slopes[row], self.slopes[row + 1]) = (Lanes::all(-1.0), Lanes::all(1.0));
            self.block.pull_back(&self.slopes, &mut self.gradient);
            slopes
                .row_mut(row)
                .iter_mut()
                .zip(&self.gradient)
                .for_each(|(to, slope)| *to = slope.0[0]);
        }
        let mut right = DMatrix::from_column_slice(equations, 1, self.scores.as_slice());
        let linear = &slopes * x;
        right.iter_mut().zip(&h).zip(&linear).for_each(|((b, h), linear)| *b += linear - h);
        (Tangent { slopes, right }, misfit)
    }

    fn run(
        &mut self,
        mut x: DVector<f64>,
        solve: impl Fn(&Tangent) -> Result<DVector<f64>, AttackError>,
    ) -> Result<(DVector<f64>, RecordOutcome), AttackError> {
        let solved = SOLVED * (1.0 + self.scores.norm_squared());
        let (mut tangent, mut misfit) = self.tangent(&x);
        // A step may worsen the fit for a likelier point, but each step less than the one before.
        let mut allowed = misfit.max(ALLOWED);
        for iterations in 0..STEPS {
            let step = solve(&tangent)? - &x;
            // Lengths 1, ½, ¼, … side by side: the longest that is good enough.
            for (feature, to) in self.x.iter_mut().enumerate() {
                *to = Lanes(std::array::from_fn(|l| {
                    x[feature] + step[feature] * 0.5f64.powi(l as i32)
                }));
            }
            let misfits = self.misfits();
            allowed /= 4.0;
            let enough = solved.max(allowed).max(0.99 * misfit);
            let length = misfits.iter().position(|found| *found <= enough);
            let Some(length) = length else {
                return Ok(ended(x, iterations, misfit, misfit <= solved));
            };
            let step = step * 0.5f64.powi(length as i32);
            x += &step;
            (tangent, misfit) = self.tangent(&x);
            if step.amax() <= AT_REST {
                return Ok(ended(x, iterations + 1, misfit, misfit <= solved));
            }
        }
        let solved = misfit <= solved;
        let (x, outcome) = ended(x, STEPS, misfit, solved);
        Ok((
            x,
            if solved {
                outcome
            } else {
                RecordOutcome { ended: Termination::StepLimit, ..outcome }
            },
        ))
    }
}

fn ended(
    x: DVector<f64>,
    iterations: u32,
    misfit: f64,
    solved: bool,
) -> (DVector<f64>, RecordOutcome) {
    let ended = if solved { Termination::Solved } else { Termination::NearestConsistent };
    (x, RecordOutcome { ended, iterations, objective: misfit })
}
