//! The objectives V (39) and (48), on the part of R that they depend on.
//!
//! Both depend on R through Y = Rᵀ Q alone, where the columns of Q (d × r) are an orthonormal basis
//! of the space that the rows of W_pas span, r = rank W_pas ≤ min(k, d): W_pas R = C Yᵀ with C =
//! W_pas Q, and P = A⁺A = Q Π Qᵀ with Π = QᵀPQ. So the search is over the d × r matrices with
//! orthonormal columns, in O(d r) per value in place of O(d³). For r < d the two components of O(d)
//! meet there: the rest of R can be reflected freely.

use nalgebra::{DMatrix, DVector};

use crate::linear::{System, row_space};
use crate::moments::Moments;
use crate::{StiefelCase, TransformError};

/// The objective −f(R) + λ (g(R) − ε)² for case i, where f is the second term of V (38), f = (1/d)
/// Tr(P (K₀ − 2 K₀ Rᵀ + R M Rᵀ)), M = 1 (μ − ¼ 1)ᵀ; for case ii (2/d) Tr(R K₀ P) + λ (g − ε)²,
/// which is V (48) where A has full column rank (P = I) and V (28) with its K₀ where it has not. g
/// = (2/(dk)) Tr((I − R) W), V (34), W = W_pasᵀW_pas.
pub(super) struct Objective {
    case: StiefelCase,
    /// Q, d × r.
    basis: DMatrix<f64>,
    /// C = W_pas Q, k × r.
    coordinates: DMatrix<f64>,
    /// Π, r × r.
    projector: DMatrix<f64>,
    /// K₀ Q Π, d × r.
    drift: DMatrix<f64>,
    /// W_pasᵀ C, d × r: ⟨this, Q − Y⟩ · 2/(dk) = g.
    weights: DMatrix<f64>,
    /// μ − ¼ 1, d.
    lever: DVector<f64>,
    /// Tr(P K₀).
    constant: f64,
    epsilon: f64,
    penalty: f64,
    /// 2 / (dk).
    per_weight: f64,
}

impl Objective {
    pub(super) fn new(
        w_pas: &DMatrix<f64>,
        moments: &Moments,
        case: StiefelCase,
        epsilon: f64,
        penalty: f64,
    ) -> Result<Self, TransformError> {
        let (k, d) = w_pas.shape();
        let basis = row_space(w_pas)?;
        let coordinates = w_pas * &basis;
        let system = System::of(w_pas)?;
        let projector = (&basis.transpose() * &system.inverse.matrix) * (&system.a * &basis);
        let drift = &moments.about_zero * &basis * &projector;
        Ok(Self {
            case,
            constant: basis.dot(&drift),
            weights: w_pas.transpose() * &coordinates,
            lever: moments.mean.add_scalar(-0.25),
            basis,
            coordinates,
            projector,
            drift,
            epsilon,
            penalty,
            per_weight: 2.0 / (d * k) as f64,
        })
    }

    /// Returns the basis Q, d × r.
    pub(super) fn basis(&self) -> &DMatrix<f64> {
        &self.basis
    }

    /// Returns W_pas R = C Yᵀ, k × d.
    pub(super) fn weights(&self, y: &DMatrix<f64>) -> DMatrix<f64> {
        &self.coordinates * y.transpose()
    }

    pub(super) fn value(&self, y: &DMatrix<f64>) -> f64 {
        self.evaluate(y, None)
    }

    /// Returns the value at Y, and writes to `gradient` (d × r) its derivative by the entries of Y
    /// as if they were free: V (42), (43), times Q from the right.
    pub(super) fn value_and_gradient(&self, y: &DMatrix<f64>, gradient: &mut DMatrix<f64>) -> f64 {
        self.evaluate(y, Some(gradient))
    }

    fn evaluate(&self, y: &DMatrix<f64>, gradient: Option<&mut DMatrix<f64>>) -> f64 {
        let d = y.nrows() as f64;
        let along = self.drift.dot(y);
        // ⟨W_pasᵀC, Q − Y⟩ and not ⟨·, Q⟩ − ⟨·, Y⟩, which would cancel near the identity.
        let triple = self.weights.iter().zip(self.basis.iter().zip(y.iter()));
        let g = self.per_weight * triple.map(|(w, (q, y))| w * (q - y)).sum::<f64>();
        let miss = g - self.epsilon;
        let penalty = self.penalty * miss * miss;
        let by_weights = -2.0 * self.penalty * miss * self.per_weight;
        let (value, quadratic) = match self.case {
            StiefelCase::I => {
                let (a, b) = (y.tr_mul(&self.lever), y.row_sum_tr());
                let (pa, pb) = (&self.projector * &a, &self.projector * b);
                (-(self.constant - 2.0 * along + a.dot(&pb)) / d + penalty, Some((pa, pb)))
            }
            StiefelCase::Ii => (2.0 / d * along + penalty, None),
        };
        if let Some(gradient) = gradient {
            gradient.copy_from(&self.drift);
            *gradient *= 2.0 / d;
            gradient.zip_apply(&self.weights, |g, w| *g += by_weights * w);
            if let Some((pa, pb)) = quadratic {
                gradient.ger(-1.0 / d, &self.lever, &pb, 1.0);
                for (mut column, pa) in gradient.column_iter_mut().zip(&pa) {
                    column.add_scalar_mut(-pa / d);
                }
            }
        }
        value
    }
}
