//! The search for candidates whose weights are in the span of the factors'.

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::path::{Path, Paths};
use super::span::Span;

/// The starts of a round.
const STARTS: usize = 64;
/// The squared misfit below which a candidate is refined, and its start's signs are right.
const PROMISING: f64 = 1e-7;
/// The rounding error of a path, relative to the weights.
const PATH_ERROR: f64 = 1e-15;
/// The misfit of a feature, at most, in units of what noise and rounding explain.
const MARGIN: f64 = 100.0;
/// The spreads of the starts about the constant feature ½, in the feature's units.
const SPREADS: [f64; 4] = [0.2, 0.4, 0.8, 1.6];
/// The inner product of a feature and the dual of another one, at most.
const DISTINCT: f64 = 0.01;
/// The weight of the equation of the scale.
const SCALE_WEIGHT: f64 = 1e-3;
/// The times that a descent continues with the signs of its end.
const ADOPTIONS: usize = 8;
/// The dampings tried for one step.
const TRIES: usize = 12;

/// A feature in white coordinates.
#[derive(Clone)]
pub(super) struct Candidate {
    /// The feature is Cᵀ a.
    pub(super) a: DVector<f64>,
    /// The dual of its weights.
    pub(super) dual: DVector<f64>,
    /// The norm of the weights outside the span, over that of the weights.
    pub(super) misfit: f64,
    /// The misfit that noise and rounding explain.
    pub(super) error: f64,
}

impl Candidate {
    /// Returns true if noise and rounding explain the misfit.
    fn fits(&self) -> bool {
        self.misfit <= MARGIN * self.error
    }

    /// Returns true if the two cannot be different features.
    fn overlaps(&self, other: &Self) -> bool {
        self.a.dot(&other.dual).abs().max(other.a.dot(&self.dual).abs()) > DISTINCT
    }
}

/// The equations of one transcript.
pub(super) struct Search<'a> {
    pub(super) paths: &'a Paths,
    pub(super) span: &'a Span,
    /// The most Newton steps from one start.
    pub(super) iterations: usize,
}

impl Search<'_> {
    /// Returns the candidate's misfit and dual, with Adam's own first step.
    pub(super) fn candidate(&self, a: DVector<f64>) -> Candidate {
        let frame = DMatrix::zeros(a.len(), 0);
        let (residual, _, path) = self.outside(&a, &frame, None);
        let dual = self.span.dual(&path.weights);
        let level = path.weights.norm() / (path.weights.len() as f64).sqrt();
        let error = self.span.weight_error(&dual) / level.max(f64::MIN_POSITIVE) + PATH_ERROR;
        Candidate { dual, a, misfit: residual.norm(), error }
    }

    /// Returns the part of the candidate's weights outside the span, over their norm, with its
    /// slopes (one column per coordinate of `frame`), and the path.
    fn outside(
        &self,
        a: &DVector<f64>,
        frame: &DMatrix<f64>,
        signs: Option<&DVector<f64>>,
    ) -> (DVector<f64>, DMatrix<f64>, Path) {
        let path = self.paths.path(a, signs);
        let size = path.weights.norm().max(f64::MIN_POSITIVE);
        let weights = DMatrix::from_columns(std::slice::from_ref(&path.weights));
        let residual = self.span.outside(&weights).column(0) / size;
        // The norm of the weights hardly changes: steps are of one size.
        (residual, self.span.outside(&path.slopes.tr_mul(frame)) / size, path)
    }

    /// Minimises the misfit over the candidates `frame` z (`frame`: r × f, orthonormal columns) of
    /// the length of `a`. Returns the candidate and its misfit with these signs.
    fn descend(
        &self,
        a: &DVector<f64>,
        frame: &DMatrix<f64>,
        signs: &DVector<f64>,
    ) -> (DVector<f64>, f64) {
        let radius = a.norm();
        let equations = |z: &DVector<f64>| {
            // Only directions along the sphere count: the scale moves the weights hardly at all.
            let (residual, mut jacobian, _) = self.outside(&(frame * z), frame, Some(signs));
            let unit = z.normalize();
            let along = &jacobian * &unit;
            jacobian -= along * unit.transpose();
            let level = jacobian.norm() / (z.len() as f64).sqrt();
            let m = residual.len();
            let (mut residual, mut jacobian) = (residual.push(0.0), jacobian.insert_row(m, 0.0));
            jacobian.row_mut(m).tr_copy_from(&(unit * level));
            residual[m] = 0.0;
            (residual, jacobian)
        };
        let onto_sphere = |z: DVector<f64>| z.normalize() * radius;
        let start = frame.tr_mul(a);
        let (z, misfit) = levenberg_marquardt(start, equations, onto_sphere, self.iterations);
        (frame * z, misfit)
    }

    /// Refines a candidate of small misfit in all directions, with Adam's own first step. Its scale
    /// is the one at which a · b = 1 for its dual b. Returns `None` if the scale would be negative.
    fn refine(&self, a: &DVector<f64>) -> Option<Candidate> {
        let r = a.len();
        let whole = DMatrix::identity(r, r);
        let start = self.candidate(a.clone());
        let scale = a.dot(&start.dual);
        if scale <= 0.0 {
            return None;
        }
        let equations = |a: &DVector<f64>| {
            let (residual, jacobian, path) = self.outside(a, &whole, None);
            let dual = self.span.dual(&path.weights);
            let turned = &self.span.left * a.component_div(&self.span.scales);
            let slope = &dual + &path.slopes * turned;
            let m = residual.len();
            let residual = residual.push(SCALE_WEIGHT * (a.dot(&dual) - 1.0));
            let mut jacobian = jacobian.insert_row(m, 0.0);
            jacobian.row_mut(m).tr_copy_from(&(slope * SCALE_WEIGHT));
            (residual, jacobian)
        };
        let (a, _) = levenberg_marquardt(a / scale, equations, |a| a, self.iterations);
        Some(self.candidate(a))
    }

    /// Descends with the signs of the start, and again with those of where it ended, until it ends
    /// where its signs are.
    fn settle(&self, start: DVector<f64>, frame: &DMatrix<f64>) -> (DVector<f64>, f64) {
        let (mut a, mut misfit) = (start, f64::INFINITY);
        for _ in 0..ADOPTIONS {
            let signs = self.paths.signs(&a);
            (a, misfit) = self.descend(&a, frame, &signs);
            if misfit < PROMISING || signs == self.paths.signs(&a) {
                break;
            }
        }
        (a, misfit)
    }

    /// Finds features one after the other, until a round of starts finds none. The duals of the
    /// features found confine the search for the next: a · b = 0.
    pub(super) fn run(&self, seed: u64) -> Vec<Candidate> {
        let r = self.span.rank();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut features: Vec<Candidate> = Vec::new();
        // The constant feature 1 in white coordinates.
        let constant = self.span.columns.column_mean();
        while features.len() < r {
            let frame = complement(&features, r);
            let starts: Vec<DVector<f64>> = (0..STARTS)
                .map(|i| {
                    let spread = SPREADS[i % SPREADS.len()] / (r as f64).sqrt();
                    let noise =
                        DVector::from_fn(r, |_, _| -> f64 { StandardNormal.sample(&mut rng) });
                    let a = &constant * 0.5 + noise * spread;
                    (&frame * frame.tr_mul(&a)).normalize() * 0.5
                })
                .collect();
            let mut refined: Vec<Candidate> = starts
                .into_par_iter()
                .map(|start| self.settle(start, &frame))
                .filter(|(_, misfit)| *misfit < PROMISING)
                .filter_map(|(a, _)| self.refine(&a))
                .filter(Candidate::fits)
                .collect();
            refined.sort_by(|x, y| x.misfit.total_cmp(&y.misfit));
            let before = features.len();
            for candidate in refined {
                if features.len() < r && !features.iter().any(|f| f.overlaps(&candidate)) {
                    features.push(candidate);
                }
            }
            if features.len() == before {
                break;
            }
        }
        features
    }
}

/// Minimises the squared norm of the residual of `equations` (residual, and slopes as columns), by
/// the method of Levenberg and Marquardt. `retract` brings each step back to where z may be.
/// Returns z and the squared norm.
fn levenberg_marquardt(
    mut z: DVector<f64>,
    equations: impl Fn(&DVector<f64>) -> (DVector<f64>, DMatrix<f64>),
    retract: impl Fn(DVector<f64>) -> DVector<f64>,
    iterations: usize,
) -> (DVector<f64>, f64) {
    let (mut residual, mut jacobian) = equations(&z);
    let mut cost = residual.norm_squared();
    let mut damping = 1e-3;
    for _ in 0..iterations {
        let level = jacobian.norm_squared() / z.len() as f64;
        let reduced = jacobian.clone().qr();
        let (triangle, target) = (reduced.r(), reduced.q().tr_mul(&residual));
        let better = (0..TRIES).find_map(|_| {
            let step = damped(&triangle, &target, damping * level)?;
            let next = retract(&z - step);
            let (residual, jacobian) = equations(&next);
            let reached = residual.norm_squared();
            if reached < cost {
                damping = (damping * 0.1).max(1e-20);
                return Some((next, residual, jacobian, reached));
            }
            damping *= 6.0;
            None
        });
        let Some((next, r, j, reached)) = better else { break };
        let gain = cost - reached;
        (z, residual, jacobian, cost) = (next, r, j, reached);
        if gain < 1e-4 * cost && damping < 1e-8 {
            break;
        }
    }
    (z, cost)
}

/// Returns the δ that minimises ‖R δ − q‖² + λ ‖δ‖² for a triangular R. Normal equations would lose
/// half of the digits.
fn damped(triangle: &DMatrix<f64>, target: &DVector<f64>, damping: f64) -> Option<DVector<f64>> {
    let (rows, f) = triangle.shape();
    let mut system = DMatrix::zeros(rows + f, f);
    system.rows_mut(0, rows).copy_from(triangle);
    (0..f).for_each(|i| system[(rows + i, i)] = damping.sqrt());
    let mut right = DVector::zeros(rows + f);
    right.rows_mut(0, rows).copy_from(target);
    let factors = system.qr();
    factors.r().solve_upper_triangular(&factors.q().tr_mul(&right))
}

/// Returns an orthonormal basis (r × f) of the vectors orthogonal to all duals.
fn complement(features: &[Candidate], r: usize) -> DMatrix<f64> {
    let mut projector = DMatrix::identity(r, r);
    for feature in features {
        // One after the other, each less its part in the ones before.
        let b = (&projector * &feature.dual).normalize();
        projector -= &b * b.transpose();
    }
    let eigen = projector.symmetric_eigen();
    let kept: Vec<usize> = (0..r).filter(|&i| eigen.eigenvalues[i] > 0.5).collect();
    eigen.eigenvectors.select_columns(&kept)
}
