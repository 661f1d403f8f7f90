//! Exact scores of few features on a grid, without any parameter: the differences of their logarithms are a lattice.
//!
//! A x = b′ with d ≤ k − 1 features and x = lower + S t: between two records b′ differs by A S times whole numbers. The shortest such
//! vectors generate the lattice (Lenstra, Lenstra and Lovász 1982; of more vectors than dimensions: Pohst 1987), in whose basis every
//! record is a vector of whole numbers, whatever A is. The features are functionals of these with the public ranges. Which feature is
//! which is told by the width of its range, if no other has the same; its direction is not told.

use nalgebra::{Cholesky, DMatrix, DVector};
use rand::Rng;
use rayon::prelude::*;
use vfl_shared::numerics::GridLattice;
use vfl_shared::types::ReleasedScores;

use super::entry::{Entry, Group};
use super::{AdversaryView, Attack, AttackError, FeatureKnowledge, Needs, Reconstruction, StatedKnowledge, Status};

/// The most features: beyond, there are too many functionals.
const MOST_FEATURES: usize = 16;
/// Records whose nearest neighbours are looked for.
const NEIGHBOURS: usize = 1500;
/// What is shorter than this share of the shortest difference is round-off.
const ROUND_OFF: f64 = 1e-5;
/// A singular value below this share of the largest is 0.
const RANK: f64 = 1e-9;
/// How far a record may be from whole numbers.
const WHOLE: f64 = 0.05;
/// Larger whole numbers are round-off.
const LARGEST: f64 = 1e9;
/// Steps of the search for functionals, for each width of a range, and how many are kept.
const NODES: u64 = 300_000;
const MOST_CANDIDATES: usize = 2000;
/// Steps by which the range of a functional is narrowed.
const NARROWINGS: usize = 200;
/// Records that ranges are taken over, and those that are looked at first.
const SEEN: usize = 20_000;
const FEW: usize = 200;
/// Candidates for one feature, and those that are looked at for all choices together: a second of work at most.
const NEAREST: usize = 12;
const LOOKS: usize = 2_000_000;
/// What is as good as equal.
const SAME: f64 = 1e-6;
/// Steps of a reduction.
const STEPS: usize = 100_000;
const LOVASZ: f64 = 0.99;

/// Decodes exact scores without parameters, where fewer features than classes lie on known grids.
#[derive(Debug)]
pub struct BlackBoxLattice {
    /// The ranges and grids of the features.
    pub knowledge: StatedKnowledge,
}

/// `black_box_lattice`.
pub(super) static BLACK_BOX_LATTICE: Entry = Entry {
    informed: true,
    ..Entry::new("black_box_lattice", Group::Special, |settings| {
        Box::new(BlackBoxLattice { knowledge: settings.into() })
    })
};

impl BlackBoxLattice {
    /// Whether it may find anything of so many features behind so many classes, in so many records.
    #[must_use]
    pub fn fits(features: usize, classes: usize, records: usize) -> bool {
        (1..classes).contains(&features) && features <= MOST_FEATURES && records >= Self::records(features)
    }

    /// The records that it takes for so many features.
    fn records(features: usize) -> usize {
        3 * features + 10
    }
}

impl Attack for BlackBoxLattice {
    fn needs(&self) -> Needs {
        Needs::RELEASE
    }

    /// Records that are not decoded, all of them where no lattice is found, get the middle of the ranges. A remark says how many, or why.
    fn reconstruct(&self, view: &AdversaryView<'_>, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let known = self.knowledge.about(view.target_features())?;
        let mut estimates = DMatrix::from_fn(known.features(), view.records(), |i, _| {
            let (lower, upper) = known.ranges()[i];
            0.5 * (lower + upper)
        });
        let found = whole_scores(view).and_then(|(b, records)| Ok((decoded(&b, &known)?, records)));
        let (status, remark) = match found {
            Ok((Shares { shares, fitting, ways, complete }, records)) => {
                for (at, share) in fitting.iter().zip(shares.column_iter()) {
                    let units = share.iter().zip(known.ranges()).map(|(v, (lower, upper))| lower + v * (upper - lower));
                    estimates.set_column(records[*at], &DVector::from_iterator(share.len(), units));
                }
                (Status::GridPoint { rank: known.features() }, remark(fitting.len(), view.records(), ways, complete))
            }
            Err(why) => (Status::Baseline, format!("no lattice was found: {why}")),
        };
        Ok(Reconstruction { remarks: vec![remark], ..Reconstruction::new(estimates, status) })
    }
}

/// What is told of a lattice that was found.
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

/// b′ of the records whose scores are all there, (k − 1) × m, and their places. A score that was cut off at 0 lies beside the lattice.
fn whole_scores(view: &AdversaryView<'_>) -> Result<(DMatrix<f64>, Vec<usize>), String> {
    let Ok(ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores)) = view.released() else {
        return Err("no scores were released".into());
    };
    let b = view.b_prime().map_err(|e| e.to_string())?;
    let there = |j: &usize| scores.column(*j).iter().all(|c| *c >= f64::MIN_POSITIVE);
    let records: Vec<usize> = (0..scores.ncols()).filter(there).collect();
    Ok((b.select_columns(&records), records))
}

/// The features of records as shares of their ranges.
struct Shares {
    /// d × m.
    shares: DMatrix<f64>,
    /// The m records that were decoded.
    fitting: Vec<usize>,
    /// Choices of features that come equally near to the public ranges.
    ways: usize,
    /// Whether all choices were looked at.
    complete: bool,
}

/// The features of records, or why they cannot be told. `b` is b′, (k − 1) × n.
fn decoded(b: &DMatrix<f64>, known: &FeatureKnowledge) -> Result<Shares, String> {
    let (d, n) = (known.features(), b.ncols());
    if !BlackBoxLattice::fits(d, b.nrows() + 1, n) {
        return Err(format!(
            "it takes fewer features than classes, at most {MOST_FEATURES}, and {} records",
            BlackBoxLattice::records(d)
        ));
    }
    let steps: Option<Vec<f64>> = known.steps().iter().map(|step| step.map(|step| (1.0 / step).round())).collect();
    let steps = steps.ok_or("not all features lie on a known grid")?;
    let (whole, fitting) = whole_numbers(&whitened(b, d)?)?;
    let Chosen { rows, ways, complete, .. } = functionals(&whole, &steps)?;
    let rows: Vec<_> = rows.iter().map(DVector::transpose).collect();
    let mut shares = DMatrix::from_rows(&rows) * whole;
    for (mut row, steps) in shares.row_iter_mut().zip(&steps) {
        let (least, most) = (row.min(), row.max());
        // Where the records do not reach both ends of the range, it is taken to reach as far beyond either.
        row.iter_mut().for_each(|v| *v = (*v - least + 0.5 * (steps - (most - least))) / steps);
        // Counts and amounts are small more often than large.
        if row.mean() > 0.5 {
            row.iter_mut().for_each(|v| *v = 1.0 - *v);
        }
    }
    Ok(Shares { shares, fitting, ways, complete })
}

/// Independent rows of b′ less its first column, with unit covariance, d × n.
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

/// The covariance of rows, with divisor n.
fn covariance(rows: &DMatrix<f64>) -> DMatrix<f64> {
    let mut away = rows.clone();
    let mean = rows.column_mean();
    away.column_iter_mut().for_each(|mut column| column -= &mean);
    &away * away.transpose() / rows.ncols().max(1) as f64
}

/// The points in a basis of the lattice that their differences generate: whole numbers, d × m, of these m points. Some may lie beside it.
fn whole_numbers(points: &DMatrix<f64>) -> Result<(DMatrix<f64>, Vec<usize>), String> {
    let none = || "their differences lie on no lattice that the digits of the scores tell from others".to_owned();
    let mut short = neighbours(points);
    short.sort_by(|a, b| a.norm_squared().total_cmp(&b.norm_squared()));
    let round_off = ROUND_OFF * short.first().map_or(0.0, DVector::norm);
    // Neighbours may all share the values of a narrow feature; all points together do not.
    let first = points.columns(0, points.ncols().min(NEIGHBOURS));
    let all = short.into_iter().chain(first.column_iter().map(|point| point - points.column(0)));
    let basis = generated(all, points.nrows(), round_off).ok_or_else(none)?;
    let whole = basis.lu().solve(points).ok_or_else(none)?;
    let fits = |v: &f64| (v - v.round()).abs() < WHOLE && v.abs() < LARGEST;
    let fitting: Vec<usize> = (0..whole.ncols()).filter(|j| whole.column(*j).iter().all(fits)).collect();
    if fitting.len() < whole.ncols().div_ceil(2) {
        return Err(none());
    }
    Ok((whole.select_columns(&fitting).map(f64::round), fitting))
}

/// Of each of the first points the shortest vector to another that is not the same.
fn neighbours(points: &DMatrix<f64>) -> Vec<DVector<f64>> {
    let n = points.ncols();
    let (same, d) = (RANK * RANK, points.nrows() as f64);
    let nearest = |i: usize| {
        let of = points.column(i);
        let square = |j: usize| points.column(j).iter().zip(&of).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        let apart = (0..n).map(|j| (j, square(j)));
        let other = apart.filter(|(_, square)| *square > same * d).min_by(|a, b| a.1.total_cmp(&b.1));
        other.map(|(j, _)| points.column(j) - of)
    };
    (0..n.min(NEIGHBOURS)).into_par_iter().filter_map(nearest).collect()
}

/// A basis (columns) of the lattice of these vectors, if they make one of `d` dimensions.
fn generated(vectors: impl Iterator<Item = DVector<f64>>, d: usize, round_off: f64) -> Option<DMatrix<f64>> {
    let mut basis: Vec<DVector<f64>> = Vec::new();
    for vector in vectors {
        let inside = match basis.is_empty() {
            true => vector.norm() <= round_off,
            false => is_in(&DMatrix::from_columns(&basis), &vector, round_off),
        };
        if inside {
            continue;
        }
        basis.push(vector);
        reduce(&mut basis, round_off)?;
        if basis.len() > d {
            return None;
        }
    }
    (basis.len() == d).then(|| DMatrix::from_columns(&basis))
}

/// Whether a vector is in the lattice of a basis (columns), up to round-off.
fn is_in(basis: &DMatrix<f64>, vector: &DVector<f64>, round_off: f64) -> bool {
    let Some(square) = Cholesky::new(basis.tr_mul(basis)) else { return false };
    let nearest = square.solve(&basis.tr_mul(vector)).map(f64::round);
    (basis * nearest - vector).norm() <= round_off
}

/// Reduces vectors that may depend on each other to a basis. `None` if it takes too long.
fn reduce(basis: &mut Vec<DVector<f64>>, round_off: f64) -> Option<()> {
    let mut at = 1;
    for _ in 0..STEPS {
        if basis.first().is_some_and(|first| first.norm() <= round_off) {
            basis.remove(0);
            at = 1;
        }
        if at >= basis.len() {
            return Some(());
        }
        let directions = orthogonal(&basis[..at], round_off);
        let mut vector = basis[at].clone();
        for (earlier, direction) in basis[..at].iter().zip(&directions).rev() {
            vector.axpy(-share(&vector, direction).round(), earlier, 1.0);
        }
        if vector.norm() <= round_off {
            basis.remove(at);
            at = at.saturating_sub(1).max(1);
            continue;
        }
        let left = directions.iter().fold(vector.clone(), |left, direction| {
            let share = share(&vector, direction);
            left - direction * share
        });
        let before = &directions[at - 1];
        let along = share(&vector, before);
        basis[at] = vector;
        if left.norm_squared() >= (LOVASZ - along * along) * before.norm_squared() {
            at += 1;
        } else {
            basis.swap(at - 1, at);
            at = at.saturating_sub(1).max(1);
        }
    }
    None
}

/// How often a direction goes into a vector; 0 for a direction that is none.
fn share(vector: &DVector<f64>, direction: &DVector<f64>) -> f64 {
    let length = direction.norm_squared();
    if length > 0.0 { vector.dot(direction) / length } else { 0.0 }
}

/// Gram–Schmidt vectors; 0 for a vector that depends on those before it.
fn orthogonal(basis: &[DVector<f64>], round_off: f64) -> Vec<DVector<f64>> {
    let mut directions: Vec<DVector<f64>> = Vec::new();
    for vector in basis {
        let mut left = vector.clone();
        for direction in &directions {
            let share = share(&left, direction);
            left.axpy(-share, direction, 1.0);
        }
        directions.push(if left.norm() > round_off { left } else { DVector::zeros(vector.len()) });
    }
    directions
}

/// Whole-number functionals whose ranges over the points (d × n whole numbers) are nearest to so many steps.
fn functionals(whole: &DMatrix<f64>, steps: &[f64]) -> Result<Chosen, String> {
    let failed = || "no functionals of the whole numbers have the public ranges".to_owned();
    let (candidates, all) = candidates(whole, steps).ok_or_else(failed)?;
    let choice = Choice::of(&candidates, steps);
    let complete = all && choice.left > 0;
    let best = choice.best.ok_or_else(failed)?;
    Ok(Chosen { complete, ..best })
}

/// A functional of whole numbers, and its range over the points.
type Candidate = (DVector<f64>, f64);

/// Functionals whose ranges over the points are no wider than the widest of so many steps, with their ranges, and whether these are all.
/// `None` if the points do not vary enough.
fn candidates(whole: &DMatrix<f64>, steps: &[f64]) -> Option<(Vec<Candidate>, bool)> {
    let d = steps.len();
    let seen = whole.columns(0, whole.ncols().min(SEEN));
    let few = seen.columns(0, seen.ncols().min(FEW));
    let root = Cholesky::new(covariance(&seen.into_owned()))?.l();
    let lattice = GridLattice::new(&DMatrix::zeros(1, d), &DMatrix::identity(1, 1), &root.transpose()).ok()?;
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
    // Where some features are narrow, too much lies within the range of a wide one to be listed.
    let mut found = narrowed(&lattice, &seen.into_owned());
    for &width in &widths {
        // The variance of what lies within a range is at most a quarter of its square.
        let square = 0.25 * width * width;
        let mut listed = 0;
        let list = lattice.points_near(&[0.0], &vec![0.0; d], square, NODES, |point| {
            if first_is_positive(&point.t)
                && let Some(candidate) = range(&point.t, width)
            {
                found.push(candidate);
                listed += 1;
            }
            // Nothing lies within a radius of 0.
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
        a.1.total_cmp(&b.1).then_with(|| a.0.iter().map(|v| *v as i64).cmp(b.0.iter().map(|v| *v as i64)))
    });
    found.dedup();
    Some((found, complete))
}

/// The functionals of a reduced basis, each with multiples of the others added as long as that narrows its range; with their ranges.
fn narrowed(lattice: &GridLattice, points: &DMatrix<f64>) -> Vec<Candidate> {
    let basis: Vec<DVector<f64>> =
        lattice.basis().map(|(t, _)| DVector::from_iterator(t.len(), t.iter().map(|t| *t as f64))).collect();
    let values: Vec<DVector<f64>> = basis.iter().map(|functional| points.tr_mul(functional)).collect();
    let spread = |values: &DVector<f64>| values.max() - values.min();
    let narrow = |at: usize| {
        let (mut functional, mut of) = (basis[at].clone(), values[at].clone());
        let mut range = spread(&of);
        let others: Vec<usize> = (0..basis.len()).filter(|other| *other != at).collect();
        for _ in 0..NARROWINGS {
            let steps = others.iter().flat_map(|other| [(*other, 1.0), (*other, -1.0)]);
            let tried = steps.map(|(other, sign)| (spread(&(&of + sign * &values[other])), other, sign));
            let Some((less, other, sign)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            if less >= range {
                break;
            }
            (range, functional, of) = (less, functional + sign * &basis[other], of + sign * &values[other]);
        }
        (functional, range)
    };
    (0..basis.len()).map(narrow).collect()
}

/// The search for one functional for each feature, narrow features first.
struct Choice<'a> {
    candidates: &'a [Candidate],
    steps: &'a [f64],
    /// The features, by the width of their ranges.
    order: Vec<usize>,
    best: Option<Chosen>,
    /// Candidates that may still be looked at.
    left: usize,
}

/// Functionals that are a basis, in the order of the features.
struct Chosen {
    rows: Vec<DVector<f64>>,
    /// What their ranges lack of the features', as shares, in all.
    missing: f64,
    /// How many such bases come as near to the ranges.
    ways: usize,
    /// Whether all were looked at.
    complete: bool,
}

impl<'a> Choice<'a> {
    fn of(candidates: &'a [Candidate], steps: &'a [f64]) -> Self {
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by(|a, b| steps[*a].total_cmp(&steps[*b]));
        let mut choice = Self { candidates, steps, order, best: None, left: LOOKS };
        choice.next(&mut Vec::new(), &[], 0.0);
        choice
    }

    /// The candidates that come nearest to so many steps among those that the directions do not span: what is missing of the range, as a
    /// share, which it is, and its part across the directions.
    fn near(&mut self, steps: f64, directions: &[DVector<f64>]) -> Vec<(f64, usize, DVector<f64>)> {
        let mut across = DVector::zeros(self.steps.len());
        let mut near = Vec::new();
        // They stand in the order of their ranges.
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

    /// Goes on from functionals for the first features, which span `directions`.
    fn next(&mut self, chosen: &mut Vec<usize>, directions: &[DVector<f64>], missing: f64) {
        let Some(&feature) = self.order.get(chosen.len()) else { return self.take(chosen, missing) };
        let steps = self.steps[feature];
        // Of features with the same range any order is as good.
        let before = chosen.len().checked_sub(1).filter(|last| self.steps[self.order[*last]] == steps);
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
        self.order.iter().zip(chosen).for_each(|(feature, at)| rows[*feature].clone_from(&self.candidates[*at].0));
        // Any other determinant leaves out points of the lattice.
        if (DMatrix::from_columns(&rows).determinant().abs() - 1.0).abs() > SAME {
            return;
        }
        match &mut self.best {
            Some(best) if missing > best.missing - SAME => best.ways += 1,
            _ => self.best = Some(Chosen { rows, missing, ways: 1, complete: true }),
        }
    }
}
