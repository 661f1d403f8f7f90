//! The decoder of a view's records on one grid.

use std::f64::consts::TAU;

use nalgebra::{Cholesky, DMatrix, DVector};
use rayon::prelude::*;
use vfl_numerics::{GridLattice, GridPoint, LatticeError, Matching};

use super::axes::Axes;
use super::equations::ScoreEquations;

/// A record is certain if fewer wrong grid points than this are expected to fit as well as the one
/// that was found.
const CERTAIN: f64 = 1e-6;
/// The most steps of a search for one record.
const NODES: u64 = 30_000;
/// The most comparisons in lists of combinations, for one record and for all of a view: some ten
/// seconds of work.
const COMPARISONS: u64 = 20_000_000;
const ALL_COMPARISONS: u64 = 2_000_000_000;
/// The most points of one record that are weighed against each other.
const MOST_POINTS: usize = 20_000;
/// The most combinations for which lists are matched in the middle, as a logarithm (10¹¹).
const LN_MATCHED: f64 = 25.3;
/// Factors of the finer grids on which weights must not be related. A half, a third and a tenth
/// hold the values that people round to.
const FINER: [i64; 3] = [2, 3, 10];
/// A vector is no chance if fewer than this are expected to be as short.
const BY_CHANCE: f64 = 1e-3;
/// A ball in which more points than this are expected is not searched.
const HOPELESS: f64 = 1e6;
/// The most coordinates for which a lattice is reduced for each record.
const MOST_APART: usize = 64;
/// The range of points beside the best one: they may be less likely by a factor of e to minus half
/// of this.
const BESIDE: f64 = 24.0;

/// The prior moments of the coordinates of each record.
pub(super) struct CoordinateMoments {
    /// The means, p × n.
    pub(super) means: DMatrix<f64>,
    /// The covariance, p × p.
    pub(super) covariance: DMatrix<f64>,
}

/// The result of decoding one record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DecodedRecord {
    /// The features of the likeliest point of the grid, d, if one was found.
    pub(super) point: Option<DVector<f64>>,
    /// True if no other point of the grid fits.
    pub(super) certain: bool,
    /// The probability of the point among those that fit; 1 if it is certain.
    pub(super) probability: f64,
    /// The mean over all points that fit, if the list of them is complete.
    pub(super) mean: Option<DVector<f64>>,
    /// ‖D (A t − b)‖² of the point.
    pub(super) misfit: f64,
}

impl DecodedRecord {
    /// A record that was not decoded.
    pub(super) const NOTHING: Self =
        Self { point: None, certain: false, probability: 0.0, mean: None, misfit: f64::INFINITY };
}

/// The search for the points of one grid.
pub(super) struct Decoder<'a> {
    axes: &'a Axes,
    equations: &'a ScoreEquations,
    moments: Option<&'a CoordinateMoments>,
    /// The lattice in the metric of the grid itself.
    even: GridLattice,
    centre: Vec<f64>,
    /// The lattice in the metric of the moments.
    informed: Option<GridLattice>,
    matching: Option<(Matching, Vec<Vec<Vec<i64>>>)>,
    /// True if all records have the precision that the lattices were reduced for.
    alike: bool,
    /// ln of the expected number of wrong points that fit, for the precision of all records.
    ln_false: f64,
    /// The covariance of A t over the grid, by axis.
    images: Vec<DMatrix<f64>>,
    /// The number of grids tried for these records.
    tries: f64,
    /// True if a record off the grid may look like one on it.
    related: bool,
}

impl<'a> Decoder<'a> {
    /// Reduces the lattices. `tries` is the number of grids that are tried in all.
    pub(super) fn new(
        axes: &'a Axes,
        equations: &'a ScoreEquations,
        moments: Option<&'a CoordinateMoments>,
        tries: usize,
    ) -> Result<Self, LatticeError> {
        let (centre, metric, covariance) = axes.spread();
        let (weights, alike) = equations.common_weights();
        let image = |range: std::ops::Range<usize>| {
            let (from, width) = (range.start, range.len());
            let a = equations.a.columns(from, width);
            a * covariance.view((from, from), (width, width)) * a.transpose()
        };
        let images = axes.ranges().map(image).collect();
        let even = GridLattice::new(&equations.a, &weights, &metric)?;
        let informed = match moments.and_then(|known| inverse_root(&known.covariance)) {
            Some(root) => Some(GridLattice::new(&equations.a, &weights, &root)?),
            None => None,
        };
        // If several grids are tried, preparing lists for each takes longer than the search.
        let few = axes.ln_points() <= LN_MATCHED && tries == 1 && axes.free().is_empty();
        let few = if few { axes.options(2000.0) } else { None };
        let matching =
            few.and_then(|options| Some((matching(&options, axes, &equations.a)?, options)));
        let tries = tries.max(1) as f64;
        let mut decoder = Self {
            axes,
            equations,
            moments,
            even,
            centre,
            informed,
            matching,
            alike,
            ln_false: 0.0,
            images,
            tries,
            related: false,
        };
        decoder.ln_false = decoder.ln_false_points(&weights);
        decoder.related = decoder.ln_false < CERTAIN.ln() && decoder.is_related(&weights)?;
        Ok(decoder)
    }

    /// Returns ln of the number of grid points that fit by chance: those of the grid, times the
    /// share of the space of scores that fits, taken as Gaussian with the grid's own covariance.
    ///
    /// One axis that outweighs the others makes clusters, denser than a Gaussian of the same
    /// covariance. A sum of independent parts is nowhere denser than without one of them. So each
    /// axis is left out in turn and the largest share counts.
    fn ln_false_points(&self, weights: &DMatrix<f64>) -> f64 {
        let (m, k) = (weights.nrows(), self.images.len());
        let all = self.images.iter().fold(DMatrix::zeros(m, m), |sum, image| sum + image);
        let whole = self.ln_share(weights, &all);
        let without = self.images.iter().map(|image| self.ln_share(weights, &(&all - image)));
        let share = if k > 1 { without.fold(whole, f64::max) } else { whole };
        self.axes.ln_points() + share + self.tries.ln()
    }

    /// Returns ln of the largest share of a Gaussian of this covariance that a ball of scores
    /// holds.
    fn ln_share(&self, weights: &DMatrix<f64>, image: &DMatrix<f64>) -> f64 {
        let radius = self.equations.reach().sqrt();
        let spread = weights * image * weights.transpose();
        let of =
            |variance: &f64| (2.0 * radius / (TAU * variance.max(1e-300)).sqrt()).min(1.0).ln();
        spread.symmetric_eigenvalues().iter().map(of).sum()
    }

    /// Returns true if points of a finer grid have the same scores, and not by chance: the weights
    /// are related, as (2, 1) are, and a record off the grid may look like one on it.
    fn is_related(&self, weights: &DMatrix<f64>) -> Result<bool, LatticeError> {
        let alike = 4.0 * self.equations.reach();
        for factor in FINER {
            let Some(finer) = self.axes.finer(factor) else { return Ok(false) };
            let (shares, whole) = (self.axes.shares(factor), &self.equations.a);
            let a =
                DMatrix::from_fn(whole.nrows(), whole.ncols(), |i, j| whole[(i, j)] * shares[j]);
            let lattice = GridLattice::new(&a, weights, &finer.spread().1)?;
            let by_chance =
                |(misfit, away): (f64, f64)| lattice.points_expected(misfit + away) >= BY_CHANCE;
            if lattice.basis().any(|(v, of)| of.0 <= alike && finer.spans(v) && !by_chance(of)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if two points of the grid itself may have the same scores, and not by chance:
    /// columns are related, as those of two categories of equal weight are. A search that lists all
    /// points finds both of them.
    pub(super) fn has_twins(&self) -> bool {
        let alike = 4.0 * self.equations.reach();
        self.even.basis().any(|(v, (misfit, away))| {
            misfit <= alike
                && self.axes.spans(v)
                && self.even.points_expected(misfit + away) < BY_CHANCE
        })
    }

    /// Returns true if even the typical record has more points than its scores can tell apart.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.ln_false >= CERTAIN.ln() || self.related
    }

    /// Decodes the first `records` records.
    pub(super) fn decode(&self, records: usize) -> Vec<DecodedRecord> {
        (0..records).into_par_iter().map(|record| self.record(record)).collect()
    }

    fn record(&self, record: usize) -> DecodedRecord {
        if let Some(decoded) = self.matched(record) {
            return decoded;
        }
        if self.alike {
            return self.searched(record, &self.even, self.informed.as_ref(), self.ln_false);
        }
        if self.axes.coordinates() > MOST_APART {
            return DecodedRecord::NOTHING;
        }
        let weights = self.equations.weights(record);
        let ln_false = self.ln_false_points(&weights);
        let own = |lattice: &GridLattice| lattice.with_weights(&weights);
        match (own(&self.even), self.informed.as_ref().map(own).transpose()) {
            (Ok(even), Ok(informed)) => self.searched(record, &even, informed.as_ref(), ln_false),
            _ => DecodedRecord::NOTHING,
        }
    }

    /// Lists all combinations of few options that fit, by meeting in the middle.
    fn matched(&self, record: usize) -> Option<DecodedRecord> {
        let records = self.equations.b.ncols().max(1) as u64;
        let (matching, options) = self.matching.as_ref()?;
        let b: Vec<f64> = self.equations.b.column(record).iter().copied().collect();
        let off = self.equations.off(record);
        let found =
            matching.matches(&b, &off, MOST_POINTS, COMPARISONS.min(ALL_COMPARISONS / records))?;
        let coordinates = |choices: &[usize]| -> Vec<i64> {
            choices
                .iter()
                .zip(options)
                .flat_map(|(&choice, list)| list[choice].iter().copied())
                .collect()
        };
        let reach = self.equations.reach();
        let lattice = if self.alike {
            None
        } else {
            self.even.with_weights(&self.equations.weights(record)).ok()
        };
        let measured = lattice.as_ref().unwrap_or(&self.even);
        let points = found.iter().map(|m| {
            let t = coordinates(&m.choices);
            let (misfit, _) = measured.distances(&b, &self.centre, &t);
            let away = self.away(record, &t);
            GridPoint { t, misfit, away }
        });
        let points: Vec<GridPoint> = points.filter(|point| point.misfit <= reach).collect();
        let ln_false = if self.alike {
            self.ln_false
        } else {
            self.ln_false_points(&self.equations.weights(record))
        };
        Some(self.weighed(record, &points, true, ln_false))
    }

    /// Returns minus twice the logarithm of the prior density of a point; 0 without moments.
    fn away(&self, record: usize, t: &[i64]) -> f64 {
        match (&self.informed, self.moments) {
            (Some(lattice), Some(known)) => {
                let mean: Vec<f64> = known.means.column(record).iter().copied().collect();
                let b: Vec<f64> = self.equations.b.column(record).iter().copied().collect();
                lattice.distances(&b, &mean, t).1
            }
            _ => 0.0,
        }
    }

    /// Searches the points of the lattice that fit.
    fn searched(
        &self,
        record: usize,
        even: &GridLattice,
        informed: Option<&GridLattice>,
        ln_false: f64,
    ) -> DecodedRecord {
        let b: Vec<f64> = self.equations.b.column(record).iter().copied().collect();
        let reach = self.equations.reach();
        let fits = |point: &GridPoint| point.misfit <= reach && self.axes.contains(&point.t);
        let listed = ln_false < CERTAIN.ln();
        if listed {
            // Every point that fits lies in the ball around the grid. So if the list is complete, a
            // single point is a proof.
            let square = reach + self.axes.reach();
            let list =
                even.points_near(&b, &self.centre, square, NODES, |p| fits(p).then_some(square));
            if list.complete || !list.points.is_empty() {
                let points: Vec<GridPoint> = list
                    .points
                    .into_iter()
                    .map(|point| GridPoint { away: self.away(record, &point.t), ..point })
                    .collect();
                return self.weighed(record, &points, list.complete, ln_false);
            }
        }
        if let (Some(lattice), Some(known)) = (informed, self.moments) {
            let mean: Vec<f64> = known.means.column(record).iter().copied().collect();
            let typical = self.axes.coordinates() as f64;
            let decoded = self.likeliest(record, &mean, lattice, typical, ln_false);
            if decoded.point.is_some() {
                return decoded;
            }
            // A record far from the prior mean may still be the only one that fits.
        }
        if listed {
            DecodedRecord::NOTHING
        } else {
            self.likeliest(record, &self.centre, even, self.axes.reach(), ln_false)
        }
    }

    /// Searches the likeliest points around a centre.
    fn likeliest(
        &self,
        record: usize,
        centre: &[f64],
        lattice: &GridLattice,
        typical: f64,
        ln_false: f64,
    ) -> DecodedRecord {
        let reach = self.equations.reach();
        if lattice.points_expected(reach + typical) > HOPELESS {
            return DecodedRecord::NOTHING;
        }
        let b: Vec<f64> = self.equations.b.column(record).iter().copied().collect();
        let square = reach + typical + 4.0 * (2.0 * typical).sqrt() + BESIDE;
        let mut best = f64::INFINITY;
        let list = lattice.points_near(&b, centre, square, NODES, |point| {
            if point.misfit > reach || !self.axes.contains(&point.t) {
                return None;
            }
            best = best.min(point.away);
            Some(if self.moments.is_some() { (best + BESIDE + reach).min(square) } else { square })
        });
        let mut points = list.points;
        if self.moments.is_none() {
            // All points of the grid are equally likely: their order here is only the shape of the
            // ball.
            points.iter_mut().for_each(|point| point.away = 0.0);
        }
        let mut decoded = self.weighed(record, &points, list.complete, ln_false);
        // The ball is around the usual records: points outside may fit.
        decoded.certain = false;
        if !list.complete && decoded.point.is_some() {
            // The rest of the ball was not searched: it has as many points as its volume holds.
            let expected = lattice.points_expected(best + decoded.misfit);
            decoded.probability = decoded.probability.min(1.0 / (1.0 + expected));
        }
        decoded
    }

    /// Weighs points by their prior density.
    fn weighed(
        &self,
        record: usize,
        points: &[GridPoint],
        complete: bool,
        ln_false: f64,
    ) -> DecodedRecord {
        let Some(best) = points.iter().min_by(|a, b| a.away.total_cmp(&b.away)) else {
            return DecodedRecord::NOTHING;
        };
        let weight = |point: &GridPoint| (-0.5 * (point.away - best.away)).exp();
        let total: f64 = points.iter().map(weight).sum();
        let mean = complete.then(|| {
            let features = points.iter().map(|p| self.features(record, &p.t).0 * weight(p));
            let sum = features.reduce(|a, b| a + b);
            sum.map(|sum| sum / total)
        });
        let (point, determined) = self.features(record, &best.t);
        let single = complete && points.len() == 1 && ln_false < CERTAIN.ln() && !self.related;
        DecodedRecord {
            point: Some(point),
            certain: single && determined,
            probability: 1.0 / total,
            mean: mean.flatten(),
            misfit: best.misfit,
        }
    }

    /// Returns the features of a grid point of a record, those on no grid among them, and true if
    /// the equations determine the latter.
    fn features(&self, record: usize, t: &[i64]) -> (DVector<f64>, bool) {
        let mut x = self.axes.features(t);
        let free = self.axes.free();
        if free.is_empty() {
            return (x, true);
        }
        let (places, determined) = self.equations.solve_free(record, t);
        for (&(feature, lower, upper), place) in free.iter().zip(&places) {
            x[feature] = 0.5 * (lower + upper) + 0.5 * (upper - lower) * place;
        }
        (x, determined)
    }
}

/// Returns the inverse of a square root of a covariance; `None` if it has none.
fn inverse_root(covariance: &DMatrix<f64>) -> Option<DMatrix<f64>> {
    let root = Cholesky::new(covariance.clone())?.l();
    let identity = DMatrix::identity(root.nrows(), root.ncols());
    root.solve_lower_triangular(&identity)
}

/// Prepares the lists of options as sums of the equations; `None` if they are too many.
fn matching(options: &[Vec<Vec<i64>>], axes: &Axes, a: &DMatrix<f64>) -> Option<Matching> {
    let lists: Vec<Vec<Vec<f64>>> = options
        .iter()
        .zip(axes.ranges())
        .map(|(list, range)| {
            let sum = |t: &Vec<i64>| {
                (0..a.nrows())
                    .map(|m| range.clone().zip(t).map(|(c, t)| a[(m, c)] * *t as f64).sum())
                    .collect()
            };
            list.iter().map(sum).collect()
        })
        .collect();
    Matching::new(&lists).ok()
}
