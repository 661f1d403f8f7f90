//! The logits of all steps as a product, in white coordinates.

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_numerics::ThinSvd;

use super::super::record::Step;

/// Columns of the random projection beyond the number of features.
const OVERSAMPLING: usize = 8;
/// The smallest singular value, in units of the largest, that counts as more than rounding.
const RANK_TOLERANCE: f64 = 1e-12;

/// The most steps whose weights are compared. Neighbouring steps of a long training have almost the
/// same weights.
const COMPARED_STEPS: usize = 128;

/// Returns the distance between the steps whose weights are compared.
pub(super) fn stride(steps: &[Step]) -> usize {
    steps.len().saturating_sub(1).div_ceil(COMPARED_STEPS).max(1)
}

/// Returns the steps whose weights are compared: every `stride`-th after the first.
pub(super) fn compared(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let stride = stride(steps);
    steps.iter().skip(stride).step_by(stride)
}

/// Weights and features of all steps, up to one invertible matrix.
///
/// The logits of T steps after the first, stacked, are U diag(s) C: U (k T × r) has orthonormal
/// columns, and C (r × n) has rows with mean square 1, orthogonal to each other.
pub(super) struct Span {
    /// U.
    pub(super) left: DMatrix<f64>,
    /// s, in falling order.
    pub(super) scales: DVector<f64>,
    /// C, one column per record of `records`.
    pub(super) columns: DMatrix<f64>,
    /// The records, in rising order: positions in the training's list.
    pub(super) records: Vec<u32>,
    /// The root mean square of what the product leaves of a logit.
    noise: f64,
}

impl Span {
    /// Factors the logits of a training whose every step has the same records. Returns `None` if a
    /// step has others, or there is nothing to factor.
    ///
    /// `features` bounds the rank. A random projection of the records' logits, drawn from `seed`,
    /// spans their space, as the rank is far below the number of steps.
    pub(super) fn of_full_batches(steps: &[Step], features: usize, seed: u64) -> Option<Self> {
        let mut records = steps.first()?.positions.clone();
        records.sort_unstable();
        let slot = |position: &u32| records.binary_search(position).ok();
        let (n, k) = (records.len(), steps.first()?.logits.nrows());
        // The weights are 0 before the first step.
        let seen: Vec<&Step> = compared(steps).collect();
        if seen.is_empty() || steps.iter().any(|step| step.positions.len() != n) {
            return None;
        }
        let mut logits = DMatrix::zeros(n, k * seen.len());
        for (t, step) in seen.iter().enumerate() {
            for (column, position) in step.logits.column_iter().zip(&step.positions) {
                logits.view_mut((slot(position)?, k * t), (1, k)).tr_copy_from(&column);
            }
        }
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let width = (features + OVERSAMPLING).min(n).min(logits.ncols());
        let probe = DMatrix::from_fn(logits.ncols(), width, |_, _| StandardNormal.sample(&mut rng));
        let once = (&logits * probe).qr().q();
        let basis = (&logits * logits.tr_mul(&once)).qr().q();
        let weights = logits.tr_mul(&basis);
        let rest = &logits - &basis * weights.transpose();
        let noise = rest.norm() / (rest.len().max(1) as f64).sqrt();
        Self::white(weights, basis, records, features, noise)
    }

    /// Brings the product of `weights` (k T × p) and the transpose of `basis` (n × p, with
    /// orthonormal columns) to white coordinates. Singular values at the rounding error are left
    /// out.
    pub(super) fn white(
        weights: DMatrix<f64>,
        basis: DMatrix<f64>,
        records: Vec<u32>,
        features: usize,
        noise: f64,
    ) -> Option<Self> {
        let ThinSvd { left, singular_values, right } = ThinSvd::new(&weights).ok()?;
        let least = RANK_TOLERANCE * singular_values.first()?;
        let rank = singular_values.iter().filter(|s| **s > least).count().min(features);
        let root = (basis.nrows() as f64).sqrt();
        (rank > 0).then(|| Self {
            left: left.columns(0, rank).into_owned(),
            scales: DVector::from_row_slice(&singular_values[..rank]) / root,
            columns: right.columns(0, rank).transpose() * basis.transpose() * root,
            records,
            noise,
        })
    }

    /// Returns the number of features that the logits show: at most their rank.
    pub(super) fn rank(&self) -> usize {
        self.scales.len()
    }

    /// Returns the error of the weights of a feature with this dual, a root mean square: the noise
    /// of the logits, over as many records as there are.
    pub(super) fn weight_error(&self, dual: &DVector<f64>) -> f64 {
        self.noise * dual.norm() / (self.records.len() as f64).sqrt()
    }

    /// Returns the gradients of each step but the last in white coordinates: C R_tᵀ, r × k.
    pub(super) fn gradients(&self, steps: &[Step]) -> Vec<DMatrix<f64>> {
        let seen = &steps[..steps.len().saturating_sub(1)];
        let maps = seen.iter().map(|step| {
            let slots = step.positions.iter().filter_map(|p| self.records.binary_search(p).ok());
            let columns = self.columns.select_columns(&slots.collect::<Vec<_>>());
            columns * step.gradient.transpose()
        });
        maps.collect()
    }

    /// Returns the part of weights or of slopes (k T × m) that is in no product of this span.
    pub(super) fn outside(&self, paths: &DMatrix<f64>) -> DMatrix<f64> {
        paths - &self.left * self.left.tr_mul(paths)
    }

    /// Returns the dual b of weights: the product of the span's left factor and b is the weights'
    /// part in the span. The features a_i and the duals b_j of a training have a_i · b_j = 1 for
    /// i = j and else 0.
    pub(super) fn dual(&self, weights: &DVector<f64>) -> DVector<f64> {
        self.left.tr_mul(weights).component_div(&self.scales)
    }
}
