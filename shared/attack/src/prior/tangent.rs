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

/// The squared misfit, in nats, that a start which has the scores may leave them by, so that it can
/// move to a likelier point.
const LEAVE: f64 = 1.0;

/// Returns estimates (d × n) of the records of a view whose model is a network. They begin at the
/// `starts` of each record, one or more, and `solve` computes each next one from the record's
/// tangent. Of the ends that have the scores the one of the least `distance` is taken.
///
/// # Errors
/// [`AttackError::Features`] for too many features; as [`AdversaryView::differentiable`] and
/// [`AdversaryView::b_prime`]; those of `solve`.
pub(super) fn through_network(
    view: &AdversaryView<'_>,
    starts: impl Fn(usize) -> Vec<DVector<f64>> + Sync,
    distance: impl Fn(usize, &DVector<f64>) -> f64 + Sync,
    solve: impl Fn(usize, &Tangent) -> Result<DVector<f64>, AttackError> + Sync,
) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
    let (d, k) = (view.target_features(), view.model().classes());
    if d > MOST_FEATURES {
        return Err(AttackError::Features { got: d, limit: MOST_FEATURES });
    }
    let (model, known) = (view.differentiable()?, view.known_logits());
    // b' has the known part of the logits taken out, which is 0 under a top model.
    let mut scores = view.b_prime()?.clone();
    for (mut b, known) in scores.column_iter_mut().zip(known.column_iter()) {
        b.iter_mut().zip(known.as_slice().windows(2)).for_each(|(b, pair)| *b += pair[1] - pair[0]);
    }
    let found: Vec<_> = (0..view.records())
        .into_par_iter()
        .map(|record| {
            let mut newton = Newton::new(&*model, record, scores.column(record).into_owned(), k, d);
            let ends = starts(record).into_iter();
            let ends = ends.map(|start| newton.run(start, |tangent| solve(record, tangent)));
            let ends = ends.collect::<Result<Vec<_>, AttackError>>()?;
            // Those that have the scores first, by likelihood; then the others, by misfit.
            let key = |(x, outcome): &(DVector<f64>, RecordOutcome)| match outcome.ended {
                Termination::Solved => (0, distance(record, x)),
                _ => (1, outcome.objective),
            };
            Ok(ends.into_iter().min_by(|a, b| {
                let (a, b) = (key(a), key(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            }))
        })
        .collect::<Result<_, AttackError>>()?;
    let (columns, outcomes): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
    let estimates =
        if columns.is_empty() { DMatrix::zeros(d, 0) } else { DMatrix::from_columns(&columns) };
    Ok((estimates, outcomes))
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
        let mut allowed = misfit.max(LEAVE);
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
