//! A lattice attack without parameters: differences of the logarithms of exact scores form a
//! lattice if few features lie on a grid.
//!
//! A x = b′ with d ≤ k − 1 features and x = lower + S t: between two records b′ differs by A S
//! times whole numbers. The shortest such vectors generate the lattice (Lenstra, Lenstra and Lovász
//! 1982; for more vectors than dimensions: Pohst 1987). In its basis every record is a vector of
//! whole numbers, whatever A is. The features are the functionals of these vectors that have the
//! public ranges. The width of a range identifies its feature if no other range is as wide. The
//! direction of a feature stays unknown.

use nalgebra::{Cholesky, DMatrix, DVector};
use rand::Rng;
use rayon::prelude::*;
use vfl_core::types::ReleasedScores;
use vfl_numerics::GridLattice;

mod generated_lattice;

use generated_lattice::{generated, share};

use super::entry::{Entry, Group};
use super::{
    AdversaryView, Attack, AttackError, FeatureKnowledge, Needs, Reconstruction, StatedKnowledge,
    Status,
};

/// The most features. With more there are too many functionals.
const MOST_FEATURES: usize = 16;
/// The number of records whose nearest neighbours are searched.
const NEIGHBOURS: usize = 1500;
/// A vector below this share of the shortest difference is round-off.
const ROUND_OFF: f64 = 1e-5;
/// A singular value below this share of the largest is 0.
const RANK: f64 = 1e-9;
/// The largest distance of a record from whole numbers.
const WHOLE: f64 = 0.05;
/// Larger whole numbers are round-off.
const LARGEST: f64 = 1e9;
/// The most steps of the search for functionals, for each width of a range, and the most
/// functionals kept.
const NODES: u64 = 300_000;
const MOST_CANDIDATES: usize = 2000;
/// The most steps by which the range of a functional is narrowed.
const NARROWINGS: usize = 200;
/// The number of records that ranges are taken over, and of those that are checked first.
const SEEN: usize = 20_000;
const FEW: usize = 200;
/// The most candidates for one feature, and for all choices together: a second of work at most.
const NEAREST: usize = 12;
const LOOKS: usize = 2_000_000;
/// Numbers this close count as equal.
const SAME: f64 = 1e-6;

/// The attack that decodes exact scores without parameters, if fewer features than classes lie on
/// known grids.
#[derive(Debug)]
pub struct BlackBoxLattice {
    /// The ranges and grids of the features.
    pub knowledge: StatedKnowledge,
}

pub(super) static BLACK_BOX_LATTICE: Entry = Entry {
    informed: true,
    ..Entry::new("black_box_lattice", Group::Special, |settings| {
        Box::new(BlackBoxLattice { knowledge: settings.into() })
    })
};

impl BlackBoxLattice {
    /// Returns true if it may find anything for this number of features, classes and records.
    #[must_use]
    pub fn fits(features: usize, classes: usize, records: usize) -> bool {
        (1..classes).contains(&features)
            && features <= MOST_FEATURES
            && records >= Self::records(features)
    }

    /// Returns the least number of records for so many features.
    fn records(features: usize) -> usize {
        3 * features + 10
    }
}

impl Attack for BlackBoxLattice {
    fn needs(&self) -> Needs {
        Needs::RELEASE
    }

    /// Sets records that are not decoded to the middle of the ranges: all of them if no lattice is
    /// found. A remark says how many were decoded, or why none was.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let known = self.knowledge.about(view.target_features())?;
        let mut estimates = DMatrix::from_fn(known.features(), view.records(), |i, _| {
            let (lower, upper) = known.ranges()[i];
            0.5 * (lower + upper)
        });
        let found = whole_scores(view).and_then(|(b, records)| Ok((decoded(&b, &known)?, records)));
        let (status, remark) = match found {
            Ok((Shares { shares, fitting, ways, complete }, records)) => {
                for (at, share) in fitting.iter().zip(shares.column_iter()) {
                    let units = share
                        .iter()
                        .zip(known.ranges())
                        .map(|(v, (lower, upper))| lower + v * (upper - lower));
                    estimates.set_column(records[*at], &DVector::from_iterator(share.len(), units));
                }
                (
                    Status::GridPoint { rank: known.features() },
                    remark(fitting.len(), view.records(), ways, complete),
                )
            }
            Err(why) => (Status::Baseline, format!("no lattice was found: {why}")),
        };
        Ok(Reconstruction { remarks: vec![remark], ..Reconstruction::new(estimates, status) })
    }
}

/// Describes a lattice that was found.
fn remark(decoded: usize, records: usize, ways: usize, complete: bool) -> String {
    let choices = match (ways, complete) {
        (1, true) => "one choice of features comes".into(),
        (_, true) => format!("{ways} choices of features come equally"),
        (_, false) => format!("at least {ways} choices of features come equally"),
    };
    format!(
        "the scores of {decoded} of {records} records decode to whole numbers without any parameter; {choices} near to the public ranges; \
         each feature's direction, and the order of those with ranges of one width, are guesses, so that the error is no bound"
    )
}

/// Returns b′ of the records without a score of 0, (k − 1) × m, and the positions of these records.
/// A score that was cut off at 0 lies off the lattice.
fn whole_scores(view: &AdversaryView<'_>) -> Result<(DMatrix<f64>, Vec<usize>), String> {
    let Ok(ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores)) =
        view.released()
    else {
        return Err("no scores were released".into());
    };
    let b = view.b_prime().map_err(|e| e.to_string())?;
    let there = |j: &usize| scores.column(*j).iter().all(|c| *c >= f64::MIN_POSITIVE);
    let records: Vec<usize> = (0..scores.ncols()).filter(there).collect();
    Ok((b.select_columns(&records), records))
}

/// The features of records as shares of their ranges.
struct Shares {
    /// The shares, d × m.
    shares: DMatrix<f64>,
    /// The m records that were decoded.
    fitting: Vec<usize>,
    /// The number of choices of features that come equally near to the public ranges.
    ways: usize,
    /// True if all choices were tried.
    complete: bool,
}

/// Returns the features of records, or the reason why they cannot be told. `b` is b′, (k − 1) × n.
fn decoded(b: &DMatrix<f64>, known: &FeatureKnowledge) -> Result<Shares, String> {
    let (d, n) = (known.features(), b.ncols());
    if !BlackBoxLattice::fits(d, b.nrows() + 1, n) {
        return Err(format!(
            "it takes fewer features than classes, at most {MOST_FEATURES}, and {} records",
            BlackBoxLattice::records(d)
        ));
    }
    let steps: Option<Vec<f64>> =
        known.steps().iter().map(|step| step.map(|step| (1.0 / step).round())).collect();
    let steps = steps.ok_or("not all features lie on a known grid")?;
    let (whole, fitting) = whole_numbers(&whitened(b, d)?)?;
    let FunctionalBasis { rows, ways, complete, .. } = functionals(&whole, &steps)?;
    let rows: Vec<_> = rows.iter().map(DVector::transpose).collect();
    let mut shares = DMatrix::from_rows(&rows) * whole;
    for (mut row, steps) in shares.row_iter_mut().zip(&steps) {
        let (least, most) = (row.min(), row.max());
        // If the records do not reach both ends of the range, it is taken to reach as far beyond
        // either.
        row.iter_mut().for_each(|v| *v = (*v - least + 0.5 * (steps - (most - least))) / steps);
        // Counts and amounts are small more often than large.
        if row.mean() > 0.5 {
            row.iter_mut().for_each(|v| *v = 1.0 - *v);
        }
    }
    Ok(Shares { shares, fitting, ways, complete })
}

/// Returns independent rows of b′ less its first column, with unit covariance, d × n.
fn whitened(b: &DMatrix<f64>, d: usize) -> Result<DMatrix<f64>, String> {
    let mut away = b.clone();
    let first = b.column(0).into_owned();
    away.column_iter_mut().for_each(|mut column| column -= &first);
    let pivoted = away.transpose().col_piv_qr();
    let r = pivoted.r();
    let length = |i: usize| r[(i, i)].abs();
    let rank = (0..r.nrows().min(r.ncols())).filter(|i| length(*i) > RANK * length(0)).count();
    if rank != d {
        return Err(format!("the scores move in {rank} directions, the features in {d}"));
    }
    let mut order = DMatrix::from_fn(1, b.nrows(), |_, i| i);
    pivoted.p().permute_columns(&mut order);
    let rows: Vec<usize> = order.iter().copied().take(d).collect();
    let points = away.select_rows(&rows);
    let root = Cholesky::new(covariance(&points)).ok_or("the scores do not vary enough")?.l();
    root.solve_lower_triangular(&points).ok_or_else(|| "the scores do not vary enough".into())
}

/// Returns the covariance of rows, with divisor n.
fn covariance(rows: &DMatrix<f64>) -> DMatrix<f64> {
    let mut away = rows.clone();
    let mean = rows.column_mean();
    away.column_iter_mut().for_each(|mut column| column -= &mean);
    &away * away.transpose() / rows.ncols().max(1) as f64
}

/// Returns the points in a basis of the lattice that their differences generate, as whole numbers
/// (d × m), and the positions of these m points. The other points lie off the lattice.
fn whole_numbers(points: &DMatrix<f64>) -> Result<(DMatrix<f64>, Vec<usize>), String> {
    let none = || {
        "their differences lie on no lattice that the digits of the scores tell from others"
            .to_owned()
    };
    let mut short = neighbours(points);
    short.sort_by(|a, b| a.norm_squared().total_cmp(&b.norm_squared()));
    let round_off = ROUND_OFF * short.first().map_or(0.0, DVector::norm);
    // Neighbours may all share the values of a narrow feature; all points together do not.
    let first = points.columns(0, points.ncols().min(NEIGHBOURS));
    let all = short.into_iter().chain(first.column_iter().map(|point| point - points.column(0)));
    let basis = generated(all, points.nrows(), round_off).ok_or_else(none)?;
    let whole = basis.lu().solve(points).ok_or_else(none)?;
    let fits = |v: &f64| (v - v.round()).abs() < WHOLE && v.abs() < LARGEST;
    let fitting: Vec<usize> =
        (0..whole.ncols()).filter(|j| whole.column(*j).iter().all(fits)).collect();
    if fitting.len() < whole.ncols().div_ceil(2) {
        return Err(none());
    }
    Ok((whole.select_columns(&fitting).map(f64::round), fitting))
}

/// Returns the shortest vector from each of the first points to another, distinct point.
fn neighbours(points: &DMatrix<f64>) -> Vec<DVector<f64>> {
    let n = points.ncols();
    let (same, d) = (RANK * RANK, points.nrows() as f64);
    let nearest = |i: usize| {
        let of = points.column(i);
        let square = |j: usize| {
            points.column(j).iter().zip(&of).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
        };
        let apart = (0..n).map(|j| (j, square(j)));
        let other =
            apart.filter(|(_, square)| *square > same * d).min_by(|a, b| a.1.total_cmp(&b.1));
        other.map(|(j, _)| points.column(j) - of)
    };
    (0..n.min(NEIGHBOURS)).into_par_iter().filter_map(nearest).collect()
}

/// Finds whole-number functionals whose ranges over the points (d × n whole numbers) are nearest to
/// these numbers of steps.
fn functionals(whole: &DMatrix<f64>, steps: &[f64]) -> Result<FunctionalBasis, String> {
    let failed = || "no functionals of the whole numbers have the public ranges".to_owned();
    let (candidates, all) = candidates(whole, steps).ok_or_else(failed)?;
    let choice = BasisSearch::of(&candidates, steps);
    let complete = all && choice.left > 0;
    let best = choice.best.ok_or_else(failed)?;
    Ok(FunctionalBasis { complete, ..best })
}

/// A functional of whole numbers, and its range over the points.
type Candidate = (DVector<f64>, f64);

/// Returns functionals whose ranges over the points are no wider than the widest of `steps`, with
/// these ranges, and true if the list is complete. Returns `None` if the points do not vary enough.
fn candidates(whole: &DMatrix<f64>, steps: &[f64]) -> Option<(Vec<Candidate>, bool)> {
    let d = steps.len();
    let seen = whole.columns(0, whole.ncols().min(SEEN));
    let few = seen.columns(0, seen.ncols().min(FEW));
    let root = Cholesky::new(covariance(&seen.into_owned()))?.l();
    let lattice =
        GridLattice::new(&DMatrix::zeros(1, d), &DMatrix::identity(1, 1), &root.transpose())
            .ok()?;
    let mut widths = steps.to_vec();
    widths.sort_by(f64::total_cmp);
    widths.dedup();
    let range = |of: &[i64], width: f64| {
        let functional = DVector::from_iterator(d, of.iter().map(|t| *t as f64));
        let spread = |values: DVector<f64>| values.max() - values.min();
        let rough = spread(few.tr_mul(&functional));
        let range = if rough > width { rough } else { spread(seen.tr_mul(&functional)) };
        (range <= width).then_some((functional, range))
    };
    let first_is_positive = |t: &[i64]| t.iter().find(|t| **t != 0).is_some_and(|first| *first > 0);
    let mut complete = true;
    // If some features are narrow, the range of a wide one holds too many functionals to list.
    let mut found = narrowed(&lattice, &seen.into_owned());
    for &width in &widths {
        // The variance of values within a range is at most a quarter of its square.
        let square = 0.25 * width * width;
        let mut listed = 0;
        let list = lattice.points_near(&[0.0], &vec![0.0; d], square, NODES, |point| {
            if first_is_positive(&point.t)
                && let Some(candidate) = range(&point.t, width)
            {
                found.push(candidate);
                listed += 1;
            }
            // A radius of 0 ends the search.
            (listed >= MOST_CANDIDATES).then_some(0.0)
        });
        complete &= list.complete && listed < MOST_CANDIDATES;
    }
    for (functional, _) in &mut found {
        if functional.iter().find(|v| **v != 0.0).is_some_and(|first| *first < 0.0) {
            functional.neg_mut();
        }
    }
    found.sort_by(|a, b| {
        a.1.total_cmp(&b.1)
            .then_with(|| a.0.iter().map(|v| *v as i64).cmp(b.0.iter().map(|v| *v as i64)))
    });
    found.dedup();
    Some((found, complete))
}

/// Returns the functionals of a reduced basis with their ranges. Multiples of the others are added
/// to each as long as that narrows its range.
fn narrowed(lattice: &GridLattice, points: &DMatrix<f64>) -> Vec<Candidate> {
    let basis: Vec<DVector<f64>> = lattice
        .basis()
        .map(|(t, _)| DVector::from_iterator(t.len(), t.iter().map(|t| *t as f64)))
        .collect();
    let values: Vec<DVector<f64>> =
        basis.iter().map(|functional| points.tr_mul(functional)).collect();
    let spread = |values: &DVector<f64>| values.max() - values.min();
    let narrow = |at: usize| {
        let (mut functional, mut of) = (basis[at].clone(), values[at].clone());
        let mut range = spread(&of);
        let others: Vec<usize> = (0..basis.len()).filter(|other| *other != at).collect();
        for _ in 0..NARROWINGS {
            let steps = others.iter().flat_map(|other| [(*other, 1.0), (*other, -1.0)]);
            let tried =
                steps.map(|(other, sign)| (spread(&(&of + sign * &values[other])), other, sign));
            let Some((less, other, sign)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            if less >= range {
                break;
            }
            (range, functional, of) =
                (less, functional + sign * &basis[other], of + sign * &values[other]);
        }
        (functional, range)
    };
    (0..basis.len()).map(narrow).collect()
}

/// The search for one functional for each feature, narrow features first.
struct BasisSearch<'a> {
    candidates: &'a [Candidate],
    steps: &'a [f64],
    /// The features, by the width of their ranges.
    order: Vec<usize>,
    best: Option<FunctionalBasis>,
    /// The number of candidates that may still be looked at.
    left: usize,
}

/// Functionals that are a basis, in the order of the features.
struct FunctionalBasis {
    rows: Vec<DVector<f64>>,
    /// The sum over the features of the share of the range that the functional's range lacks.
    missing: f64,
    /// The number of such bases that come as near to the ranges.
    ways: usize,
    /// True if all bases were tried.
    complete: bool,
}

impl<'a> BasisSearch<'a> {
    fn of(candidates: &'a [Candidate], steps: &'a [f64]) -> Self {
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by(|a, b| steps[*a].total_cmp(&steps[*b]));
        let mut choice = Self { candidates, steps, order, best: None, left: LOOKS };
        choice.next(&mut Vec::new(), &[], 0.0);
        choice
    }

    /// Returns the candidates whose ranges come nearest to `steps`, among those that the directions
    /// do not span. Each has the share of the range that it lacks, its index, and its part across
    /// the directions.
    fn near(&mut self, steps: f64, directions: &[DVector<f64>]) -> Vec<(f64, usize, DVector<f64>)> {
        let mut across = DVector::zeros(self.steps.len());
        let mut near = Vec::new();
        // Candidates are sorted by range.
        for at in (0..self.candidates.partition_point(|(_, range)| *range <= steps)).rev() {
            if near.len() == NEAREST || self.left == 0 {
                break;
            }
            self.left -= 1;
            let (functional, range) = &self.candidates[at];
            across.copy_from(functional);
            for direction in directions {
                across.axpy(-share(&across, direction), direction, 1.0);
            }
            if across.norm() > SAME {
                near.push((1.0 - range / steps, at, across.clone()));
            }
        }
        near
    }

    /// Continues from functionals for the first features, which span `directions`.
    fn next(&mut self, chosen: &mut Vec<usize>, directions: &[DVector<f64>], missing: f64) {
        let Some(&feature) = self.order.get(chosen.len()) else {
            return self.take(chosen, missing);
        };
        let steps = self.steps[feature];
        // Features with the same range may be swapped: one order is enough.
        let before =
            chosen.len().checked_sub(1).filter(|last| self.steps[self.order[*last]] == steps);
        let after = before.map(|last| chosen[last]);
        for (lacking, at, left) in self.near(steps, directions) {
            let missing = missing + lacking;
            if self.best.as_ref().is_some_and(|best| missing > best.missing + SAME) {
                return;
            }
            if after.is_none_or(|after| at < after) {
                chosen.push(at);
                self.next(chosen, &[directions, &[left]].concat(), missing);
                chosen.pop();
            }
        }
    }

    fn take(&mut self, chosen: &[usize], missing: f64) {
        let mut rows = vec![DVector::zeros(self.steps.len()); self.steps.len()];
        self.order
            .iter()
            .zip(chosen)
            .for_each(|(feature, at)| rows[*feature].clone_from(&self.candidates[*at].0));
        // Any other determinant leaves out points of the lattice.
        if (DMatrix::from_columns(&rows).determinant().abs() - 1.0).abs() > SAME {
            return;
        }
        match &mut self.best {
            Some(best) if missing > best.missing - SAME => best.ways += 1,
            _ => self.best = Some(FunctionalBasis { rows, missing, ways: 1, complete: true }),
        }
    }
}
