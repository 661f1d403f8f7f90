//! The lattice attack on scores of one-vs-rest models, c_i = σ(z_i) / Σ_j σ(z_j).
//!
//! The sum s = ln Σ_j σ(z_j) of a record is not released. For a given s the outputs are known,
//! z_i(s) = l_i − ln(1 − e^{l_i}) with l_i = ln c_i + s, and linear in the features. Over a short
//! interval of s they are a tangent, z_i(m) + v_i (s − m) with v_i = 1 / (1 − σ_i), and an error of
//! second order. The differences of z_i / v_i do not depend on s then: they are k − 1 equations of a
//! lattice. Intervals that have too many points are halved, until each has a complete list.

use nalgebra::{Cholesky, DMatrix, DVector};
use rayon::prelude::*;
use vfl_core::model::ln_sigmoid;
use vfl_numerics::{GridLattice, row_differences};

use super::axes::Axes;
use super::decoder::{CoordinateMoments, DecodedRecord, Decoder};
use super::equations::{InterpretedRelease, ScoreEquations};
use super::precision::arithmetic;
use crate::{AdversaryView, AttackError};

/// The most coordinates of a grid: each interval reduces a lattice of this size.
const MOST_COORDINATES: usize = 48;
/// The most intervals of one record, and of all records of a view.
const INTERVALS: usize = 4096;
const ALL_INTERVALS: usize = 100_000;
/// The most steps of the search in one interval.
const NODES: u64 = 2000;
/// An interval in which more points than this are expected is halved without a search.
const CROWDED: f64 = 300.0;
/// The most points of one record.
const MOST_POINTS: usize = 1000;
/// The half width of the logarithm of a score from which it says nothing.
const OPEN: f64 = 30.0;

/// The scores of one record.
struct Scores {
    /// The logarithms of the scores that say something, in units of the logits.
    logs: DVector<f64>,
    /// Half their widths.
    widths: DVector<f64>,
    /// Their weights of the features, m × d.
    passive: DMatrix<f64>,
    /// The known parts of their outputs.
    known: DVector<f64>,
}

/// An interval of s.
#[derive(Clone, Copy)]
struct Interval {
    low: f64,
    high: f64,
}

/// Returns the decoded records of a view, in order; the first `records` of them, if it is stated.
///
/// # Errors
/// A grid with too many coordinates, in words; as [`AdversaryView::differentiable`].
pub(super) fn decode(
    view: &AdversaryView<'_>,
    reading: InterpretedRelease<'_>,
    axes: &Axes,
    moments: Option<&CoordinateMoments>,
    tries: usize,
    records: Option<usize>,
) -> Result<Vec<DecodedRecord>, String> {
    if axes.coordinates() > MOST_COORDINATES {
        return Err(format!(
            "the grid has {} coordinates, at most {MOST_COORDINATES} are decoded from scores of one-vs-rest models",
            axes.coordinates()
        ));
    }
    let failed = |e: AttackError| e.to_string();
    let (logs, rounding) = reading.logarithms(|c| view.replacement().of(c));
    let passive = view.model().output_weights().map_err(failed)?;
    let known = view.known_logits();
    let terms: Vec<f64> = passive.row_iter().map(|row| row.iter().map(|w| w.abs()).sum()).collect();
    let own = view.model().active_weights().map(f64::abs) * view.active().matrix().map(f64::abs);
    let bias = view.model().bias();
    let scores = |record: usize| {
        let said: Vec<usize> =
            (0..logs.nrows()).filter(|&m| rounding[(m, record)] < OPEN).collect();
        let of = |f: &dyn Fn(usize) -> f64| {
            DVector::from_iterator(said.len(), said.iter().map(|&m| f(m)))
        };
        Scores {
            logs: of(&|m| reading.stretch * logs[(m, record)]),
            widths: of(&|m| {
                let terms = terms[m] + own[(m, record)] + bias[m].abs() + known[(m, record)].abs();
                reading.stretch * (rounding[(m, record)] + arithmetic(terms, logs[(m, record)]))
            }),
            passive: passive.select_rows(&said),
            known: of(&|m| known[(m, record)]),
        }
    };
    let count = records.unwrap_or(view.records()).min(view.records());
    let budget = (ALL_INTERVALS / count.max(1)).clamp(1, INTERVALS);
    Ok((0..count)
        .into_par_iter()
        .map(|record| {
            scores(record).decode(axes, moments.map(|known| (known, record)), tries, budget)
        })
        .collect())
}

impl Scores {
    /// Returns the values of s for which every output lies in its range over the box; `None` if
    /// there are none.
    fn interval(&self) -> Option<Interval> {
        let mut all = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        for (m, row) in self.passive.row_iter().enumerate() {
            let sum = |end: fn(f64, f64) -> f64| -> f64 { row.iter().map(|w| end(*w, 0.0)).sum() };
            let (least, most) = (self.known[m] + sum(f64::min), self.known[m] + sum(f64::max));
            let slack = self.widths[m] + 1e-12;
            all.low = all.low.max(ln_sigmoid(least) - self.logs[m] - slack);
            all.high = all.high.min(ln_sigmoid(most) - self.logs[m] + slack);
        }
        (all.low <= all.high && all.low.is_finite() && all.high.is_finite()).then_some(all)
    }

    /// Returns the equations on a grid that hold for all s of an interval: with the tangent at its
    /// middle, and the largest error of it. `None` if an output is infinite at an end.
    fn equations(&self, axes: &Axes, interval: Interval) -> Option<ScoreEquations> {
        let middle = 0.5 * (interval.low + interval.high);
        let half = 0.5 * (interval.high - interval.low);
        let n = self.logs.len();
        let (mut rows, mut right) = (self.passive.clone(), DMatrix::zeros(n, 1));
        let mut widths = DMatrix::zeros(n, 1);
        for m in 0..n {
            // No σ is above 1.
            let at = |s: f64| (self.logs[m] + s).min(-f64::MIN_POSITIVE);
            // 1 − σ at the middle and at the upper end.
            let (l, open, open_high) =
                (at(middle), -at(middle).exp_m1(), -at(interval.high).exp_m1());
            if open <= 0.0 || open_high <= 0.0 {
                return None;
            }
            rows.row_mut(m).scale_mut(open);
            right[m] = (l - open.ln() - self.known[m]) * open;
            // The second derivative of z in s is σ / (1 − σ)², and grows with s.
            let bend = at(interval.high).exp() / (open_high * open_high);
            widths[m] = self.widths[m] + 0.5 * half * half * bend * open;
        }
        let (origin, slopes) = axes.map();
        let a = row_differences(&rows);
        let mut b = row_differences(&right);
        b.column_mut(0).zip_apply(&(&a * origin), |b, start| *b -= start);
        Some(ScoreEquations::of(a * slopes, b, widths))
    }

    /// Returns the s at which a grid point has these scores; `None` if it does not have them.
    fn sum_at(&self, axes: &Axes, t: &[i64]) -> Option<f64> {
        let z = &self.passive * axes.features(t) + &self.known;
        let sums = z.map(ln_sigmoid) - &self.logs;
        let low =
            sums.iter().zip(&self.widths).map(|(s, w)| s - w).fold(f64::NEG_INFINITY, f64::max);
        let high = sums.iter().zip(&self.widths).map(|(s, w)| s + w).fold(f64::INFINITY, f64::min);
        (low <= high).then_some(0.5 * (low + high))
    }

    /// Returns all grid points that have these scores, with their s; `None` if the list may lack
    /// some.
    fn points(&self, axes: &Axes, budget: usize) -> Option<Vec<(Vec<i64>, f64)>> {
        let (centre, metric, _) = axes.spread();
        let mut found: Vec<(Vec<i64>, f64)> = Vec::new();
        let mut open: Vec<Interval> = self.interval().into_iter().collect();
        let mut intervals = 0;
        while let Some(interval) = open.pop() {
            intervals += 1;
            if intervals > budget || found.len() > MOST_POINTS {
                return None;
            }
            if let Some(points) = self.points_in(axes, interval, &centre, &metric) {
                for t in points {
                    let new = !found.iter().any(|(other, _)| *other == t);
                    found.extend(self.sum_at(axes, &t).filter(|_| new).map(|s| (t, s)));
                }
                continue;
            }
            let Interval { low, high } = interval;
            let middle = 0.5 * (low + high);
            if !(low < middle && middle < high) {
                return None;
            }
            open.extend([Interval { low: middle, high }, Interval { low, high: middle }]);
        }
        Some(found)
    }

    /// Returns the grid points that fit the equations of an interval; `None` if they are too many
    /// to list.
    fn points_in(
        &self,
        axes: &Axes,
        interval: Interval,
        centre: &[f64],
        metric: &DMatrix<f64>,
    ) -> Option<Vec<Vec<i64>>> {
        let equations = self.equations(axes, interval)?;
        let lattice = GridLattice::new(&equations.a, &equations.weights(0), metric).ok()?;
        let reach = equations.reach();
        let square = reach + axes.reach();
        if lattice.points_expected(square) > CROWDED {
            return None;
        }
        let b: Vec<f64> = equations.b.iter().copied().collect();
        let list = lattice.points_near(&b, centre, square, NODES, |point| {
            (point.misfit <= reach && axes.contains(&point.t)).then_some(square)
        });
        list.complete.then(|| list.points.into_iter().map(|point| point.t).collect())
    }

    fn decode(
        &self,
        axes: &Axes,
        moments: Option<(&CoordinateMoments, usize)>,
        tries: usize,
        budget: usize,
    ) -> DecodedRecord {
        if self.logs.len() < 2 {
            return DecodedRecord::NOTHING;
        }
        let Some(points) = self.points(axes, budget) else { return DecodedRecord::NOTHING };
        let distances = distances(&points, moments);
        let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
        let Some(best) = distances.iter().position(|d| *d == least) else {
            return DecodedRecord::NOTHING;
        };
        let shares: Vec<f64> = distances.iter().map(|d| (-0.5 * (d - least)).exp()).collect();
        let total: f64 = shares.iter().sum();
        let mean =
            points.iter().zip(&shares).map(|((t, _), share)| axes.features(t) * (share / total));
        let (t, s) = &points[best];
        DecodedRecord {
            t: Some(t.clone()),
            certain: points.len() == 1 && self.is_no_chance(axes, *s, tries),
            probability: shares[best] / total,
            mean: mean.reduce(|a, b| a + b),
            misfit: 0.0,
        }
    }

    /// Returns true if no other grid point is expected to have the scores of the one at s by chance.
    fn is_no_chance(&self, axes: &Axes, s: f64, tries: usize) -> bool {
        let Some(equations) = self.equations(axes, Interval { low: s, high: s }) else {
            return false;
        };
        // With two tries no lists are prepared, which this does not read.
        Decoder::new(axes, &equations, None, tries.max(2))
            .is_ok_and(|decoder| !decoder.is_ambiguous())
    }
}

/// Returns minus twice the logarithm of the prior density of each point; 0 without moments.
fn distances(points: &[(Vec<i64>, f64)], moments: Option<(&CoordinateMoments, usize)>) -> Vec<f64> {
    let prior = moments.and_then(|(known, record)| {
        Some((Cholesky::new(known.covariance.clone())?, known.means.column(record)))
    });
    let Some((covariance, mean)) = prior else { return vec![0.0; points.len()] };
    let of = |t: &Vec<i64>| {
        let away = DVector::from_iterator(t.len(), t.iter().map(|t| *t as f64)) - mean;
        away.dot(&covariance.solve(&away))
    };
    points.iter().map(|(t, _)| of(t)).collect()
}
