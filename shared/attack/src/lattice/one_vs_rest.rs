//! The lattice attack on scores of one-vs-rest models, c_i = σ(z_i) / Σ_j σ(z_j).
//!
//! The sum s = ln Σ_j σ(z_j) of a record is not released. For a given s the outputs are known,
//! z_i(s) = l_i − ln(1 − e^{l_i}) with l_i = ln c_i + s, and linear in the features. Over a short
//! interval of s they are a tangent, z_i(m) + v_i (s − m) with v_i = 1 / (1 − σ_i), and an error of
//! second order. The differences of z_i / v_i do not depend on s then: they are k − 1 equations of
//! a lattice. The likeliest intervals come first, and one that has too many points is halved.

use std::f64::consts::TAU;
use std::sync::atomic::{AtomicUsize, Ordering};

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
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
/// The most work of all records of a view: the reduction of a lattice of p coordinates counts p³.
/// It is some tens of seconds.
const WORK: usize = 100_000_000;
/// The most intervals of one record.
const INTERVALS: usize = 8192;
/// The most steps of the search in one interval.
const NODES: u64 = 2000;
/// The natural logarithm of the most grid points that are expected in an interval; one with more is
/// halved. The same for the lattice points near the grid, of which there are more.
const LN_CROWDED: f64 = 1.0;
const CROWDED: f64 = 3000.0;
/// The number of places at which s is tried for the likeliest one.
const PLACES: usize = 64;
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

impl Interval {
    fn middle(self) -> f64 {
        0.5 * (self.low + self.high)
    }

    /// Divides the interval into so many of the same length.
    fn divided(self, count: usize) -> impl Iterator<Item = Self> {
        let at = move |i: usize| self.low + (self.high - self.low) * (i as f64 / count as f64);
        (0..count).map(move |i| Self { low: at(i), high: at(i + 1) })
    }
}

/// The grid points that have the scores of a record, each with its s.
struct PointList {
    points: Vec<(Vec<i64>, f64)>,
    /// True if the first one is the only one, but for a chance of 10⁻⁶.
    certain: bool,
}

/// The outputs that the adversary expects of a record, before it sees the scores.
struct Expectation {
    mean: DVector<f64>,
    /// The factor of the covariance.
    factor: Cholesky<f64, Dyn>,
}

impl Expectation {
    /// Returns minus twice the logarithm of the density of outputs, up to a constant.
    fn surprise(&self, outputs: DVector<f64>) -> f64 {
        let away = outputs - &self.mean;
        away.dot(&self.factor.solve(&away))
    }
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
    if !axes.free().is_empty() {
        return Err("scores of one-vs-rest models decode features that are all on a grid".into());
    }
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
    let reduction = axes.coordinates().max(4).pow(3);
    let left = AtomicUsize::new(WORK / reduction);
    Ok((0..count)
        .into_par_iter()
        .map(|record| {
            scores(record).decode(axes, moments.map(|known| (known, record)), tries, &left)
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
    /// middle, the largest error of it, and as the last one that s lies within `reach` of the
    /// middle. An output that is infinite at the upper end says nothing.
    fn equations(&self, axes: &Axes, interval: Interval, reach: f64) -> ScoreEquations {
        let middle = interval.middle();
        let half = 0.5 * (interval.high - interval.low);
        let n = self.logs.len();
        // The row of s has no features.
        let mut rows = self.passive.clone().insert_row(n, 0.0);
        let (mut right, mut widths) = (DMatrix::zeros(n + 1, 1), DMatrix::zeros(n + 1, 1));
        widths[n] = reach.max(f64::EPSILON * (1.0 + middle.abs()));
        for m in 0..n {
            // No σ is above 1.
            let at = |s: f64| (self.logs[m] + s).min(-f64::MIN_POSITIVE);
            // 1 − σ at the middle and at the upper end.
            let (l, open, open_high) =
                (at(middle), -at(middle).exp_m1(), -at(interval.high).exp_m1());
            // The second derivative of z in s is σ / (1 − σ)², and grows with s. An error of the
            // logarithm moves the point at which the slope is taken.
            let bend = at(interval.high + self.widths[m]).exp() / (open_high * open_high);
            let width = self.widths[m] + 0.5 * (half + self.widths[m]).powi(2) * bend * open;
            // NaN where σ is 1 to a double.
            if self.widths[m] > 0.5 * open_high || width.is_nan() || width > OPEN {
                rows.row_mut(m).fill(0.0);
                widths[m] = OPEN;
                continue;
            }
            rows.row_mut(m).scale_mut(open);
            right[m] = (l - open.ln() - self.known[m]) * open;
            widths[m] = width;
        }
        let (origin, slopes) = axes.map();
        let a = row_differences(&rows);
        let mut b = row_differences(&right);
        b.column_mut(0).zip_apply(&(&a * origin), |b, start| *b -= start);
        ScoreEquations::of(a * slopes, b, widths)
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

    /// Returns the outputs at s.
    fn outputs(&self, s: f64) -> DVector<f64> {
        self.logs.map(|log| {
            let l = (log + s).min(-f64::MIN_POSITIVE);
            l - (-l.exp_m1()).ln()
        })
    }

    /// Returns the outputs that are expected before the scores are seen; `None` if their covariance
    /// has no factor.
    fn expected(
        &self,
        axes: &Axes,
        moments: Option<(&CoordinateMoments, usize)>,
    ) -> Option<Expectation> {
        let (origin, slopes) = axes.map();
        let (centre, _, spread) = axes.spread();
        let (mean, covariance) = match moments {
            Some((known, record)) => (known.means.column(record).into_owned(), &known.covariance),
            None => (DVector::from_vec(centre), &spread),
        };
        let weights = &self.passive * &slopes;
        let mut covariance = &weights * covariance * weights.transpose();
        // With more outputs than features it is singular.
        let least = 1e-6 * covariance.diagonal().max();
        (0..covariance.nrows()).for_each(|m| covariance[(m, m)] += least);
        let mean = &self.known + &self.passive * origin + weights * mean;
        Some(Expectation { mean, factor: Cholesky::new(covariance)? })
    }

    /// Returns ln of the number of grid points that are expected to fit the equations of an
    /// interval: those of the grid, times the share of a Gaussian of its covariance.
    fn ln_expected(&self, axes: &Axes, interval: Interval) -> f64 {
        let equations = self.equations(axes, interval, 0.5 * (interval.high - interval.low));
        let (_, _, covariance) = axes.spread();
        let a = equations.weights(0) * &equations.a;
        let radius = equations.reach().sqrt();
        let share =
            |variance: &f64| (2.0 * radius / (TAU * variance.max(1e-300)).sqrt()).min(1.0).ln();
        let image = &a * covariance * a.transpose();
        axes.ln_points() + image.symmetric_eigenvalues().iter().map(share).sum::<f64>()
    }

    /// Divides the values of s into intervals of few grid points, the likeliest first; `None` if
    /// even at one s there are too many, or the intervals are.
    fn intervals(
        &self,
        axes: &Axes,
        moments: Option<(&CoordinateMoments, usize)>,
    ) -> Option<Vec<Interval>> {
        let Some(all) = self.interval() else { return Some(Vec::new()) };
        let expected = self.expected(axes, moments)?;
        let surprise = |of: &Interval| expected.surprise(self.outputs(of.middle()));
        let likeliest = all.divided(PLACES).min_by(|a, b| surprise(a).total_cmp(&surprise(b)))?;
        let at = likeliest.middle();
        let mut count = 1;
        loop {
            let half = 0.5 * (all.high - all.low) / count as f64;
            let around = Interval { low: at - half, high: at + half };
            if self.ln_expected(axes, around) <= LN_CROWDED {
                break;
            }
            count *= 2;
            if count > INTERVALS {
                return None;
            }
        }
        let mut intervals: Vec<(f64, Interval)> =
            all.divided(count).map(|of| (surprise(&of), of)).collect();
        // The last one is taken first.
        intervals.sort_by(|a, b| b.0.total_cmp(&a.0));
        Some(intervals.into_iter().map(|(_, of)| of).collect())
    }

    /// Returns the grid points that have these scores: all of them, or the first one that no other
    /// is expected to be mistaken for. `None` if the list may lack some.
    fn points(
        &self,
        axes: &Axes,
        moments: Option<(&CoordinateMoments, usize)>,
        tries: usize,
        left: &AtomicUsize,
    ) -> Option<PointList> {
        let (centre, metric, _) = axes.spread();
        let mut points: Vec<(Vec<i64>, f64)> = Vec::new();
        let mut open = self.intervals(axes, moments)?;
        let (mut reduced, mut intervals) = (None, 0);
        let spend = |left: usize| left.checked_sub(1);
        while let Some(interval) = open.pop() {
            intervals += 1;
            let spent = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err();
            if spent || intervals > INTERVALS || points.len() > MOST_POINTS {
                return None;
            }
            let Some(found) = self.points_in(axes, interval, (&centre, &metric), &mut reduced)
            else {
                let Interval { low, high } = interval;
                let middle = interval.middle();
                if !(low < middle && middle < high) {
                    return None;
                }
                open.extend([Interval { low: middle, high }, Interval { low, high: middle }]);
                continue;
            };
            for t in found {
                if points.iter().any(|(other, _)| *other == t) {
                    continue;
                }
                let Some(s) = self.sum_at(axes, &t) else { continue };
                if self.is_no_chance(axes, s, tries) {
                    return Some(PointList { points: vec![(t, s)], certain: true });
                }
                points.push((t, s));
            }
        }
        Some(PointList { points, certain: false })
    }

    /// Returns the grid points that fit the equations of an interval; `None` if they are too many
    /// to list. `reduced` is the lattice of another interval, from which the reduction starts.
    fn points_in(
        &self,
        axes: &Axes,
        interval: Interval,
        (centre, metric): (&[f64], &DMatrix<f64>),
        reduced: &mut Option<GridLattice>,
    ) -> Option<Vec<Vec<i64>>> {
        let equations = self.equations(axes, interval, 0.5 * (interval.high - interval.low));
        let (a, weights) = (&equations.a, equations.weights(0));
        let lattice = match reduced {
            Some(near) => near.with_equations(a, &weights),
            None => GridLattice::new(a, &weights, metric),
        };
        let lattice = reduced.insert(lattice.ok()?);
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
        left: &AtomicUsize,
    ) -> DecodedRecord {
        if self.logs.len() < 2 {
            return DecodedRecord::NOTHING;
        }
        let Some(PointList { points, certain }) = self.points(axes, moments, tries, left) else {
            return DecodedRecord::NOTHING;
        };
        let distances = distances(&points, moments);
        let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
        let Some(best) = distances.iter().position(|d| *d == least) else {
            return DecodedRecord::NOTHING;
        };
        let shares: Vec<f64> = distances.iter().map(|d| (-0.5 * (d - least)).exp()).collect();
        let total: f64 = shares.iter().sum();
        let mean =
            points.iter().zip(&shares).map(|((t, _), share)| axes.features(t) * (share / total));
        DecodedRecord {
            point: Some(axes.features(&points[best].0)),
            certain,
            probability: shares[best] / total,
            mean: mean.reduce(|a, b| a + b),
            misfit: 0.0,
        }
    }

    /// Returns true if no other grid point is expected to have the scores of the one at s by
    /// chance.
    fn is_no_chance(&self, axes: &Axes, s: f64, tries: usize) -> bool {
        // Any s counts, and so do the other points of all of them.
        let equations = self.equations(axes, Interval { low: s, high: s }, OPEN);
        // With two tries no lists are prepared, which this does not read.
        Decoder::new(axes, &equations, None, tries.max(2))
            .is_ok_and(|decoder| !decoder.is_ambiguous() && !decoder.has_twins())
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
