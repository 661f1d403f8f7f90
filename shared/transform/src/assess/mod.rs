//! The cost of releasing the true parameters: the error of the attacks on exact scores, in closed
//! form (R theorem 2), before any score is released.
//!
//! The adversary that knows W_pas and exact scores solves A x = b' with A = J W_pas. The solution
//! depends on A alone and not on the active party's parameters or features, so that the passive
//! party can compute the error from its own side (R remark 3). With P = A⁺A, K_z = E[(X − z)(X −
//! z)ᵀ] over the given records, d features:
//!
//! | attack | x̂ | MSE per feature |
//! |---|---|---|
//! | `least_squares` | A⁺A x | (1/d) Tr((I − P) K₀), R (50) |
//! | `half_star` | A⁺A x + ½ (I − P) 1 | (1/d) Tr((I − P) K_½), R (51) |
//! | `half` | ½ | (1/d) Tr K_½ |
//! | `zero` | 0 | (1/d) Tr K₀ |
//!
//! `informed.rs` has the adversary that knows the mean and the covariance of the features too.
//!
//! The expectations are means over the given records. The closed forms hold for these records up to
//! rounding, and for others as far as their moments are the same.

mod before_training;
mod bits;
mod candidates;
mod informed;
mod policy_bits;
mod release;
mod told;

use nalgebra::DMatrix;
use serde::Serialize;
use vfl_core::metrics::{MetricError, column_mean_error, half_error, mse};
use vfl_core::types::FeatureBlock;
use vfl_numerics::DecompositionError;

use crate::linear::{SquareSvd, System, symmetric_eigen};
use crate::moments::Moments;

pub use before_training::{PretrainingBounds, RankBounds, before_training};
pub use bits::bits_bounds;
pub use candidates::{Candidate, candidates};
pub use informed::BitsBound;
pub use policy_bits::{ReleasedBits, released_bits};
pub(crate) use release::of_moments;
pub use release::{AgnosticErrors, AttackErrors, agnostic_errors, release_errors};
pub use told::ToldFeatures;

use informed::InformedBounds;

/// Errors from assessing a release.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AssessError {
    /// Fewer than two classes.
    #[error(
        "the passive weights have {got} rows, a model has at least 2 classes (binary is k = 2)"
    )]
    TooFewClasses {
        /// Rows of W_pas.
        got: usize,
    },
    /// No feature to attack.
    #[error("the passive weights have no column, so there is no feature to attack")]
    NoFeature,
    /// No record to take moments over.
    #[error("there is no record to take moments over")]
    NoRecord,
    /// Records with another number of features than the weights.
    #[error("the records have {got} features, the passive weights have {expected} columns")]
    Features {
        /// Columns of W_pas.
        expected: usize,
        /// Features of the records.
        got: usize,
    },
    /// Released parameters of another shape than W_pas.
    #[error("the released parameters are {} × {}, the passive weights {} × {}", got.0, got.1, expected.0, expected.1)]
    Released {
        /// Shape of W_pas.
        expected: (usize, usize),
        /// Shape of the released parameters.
        got: (usize, usize),
    },
    /// Moments of score errors for another number of classes.
    #[error(
        "the moments of the score errors have {got} rows, A has {expected} (one less than classes)"
    )]
    Scores {
        /// Rows of A.
        expected: usize,
        /// Rows of the moments.
        got: usize,
    },
    /// NaN or infinity in W_pas.
    #[error("a passive weight is not finite")]
    Weight,
    /// Products of finite numbers that are not finite.
    #[error("{what} overflow: the values are too large, features are expected in [0, 1]")]
    Overflow {
        /// The quantity that overflows.
        what: &'static str,
    },
    /// A number of bits that is negative or not finite.
    #[error("bits must be finite and at least 0")]
    Bits,
    /// An iteration that did not converge.
    #[error("the decomposition of {what} did not converge")]
    NoConvergence {
        /// The matrix that was decomposed.
        what: &'static str,
    },
    /// Parameters that are no sub-model.
    #[error("{0}")]
    Model(String),
    /// A mean that is not defined. Shapes are checked before, so that this cannot happen.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

/// The errors of the attacks if the true parameters are released, over n given records. All errors
/// are per feature (R (7)), in squared units of the features. Fields are named as in the output of
/// `passive-party assess`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assessment {
    /// Number of classes k.
    pub classes: usize,
    /// Number of passive features d.
    pub features: usize,
    /// Number of records n that the moments are taken over.
    pub records: usize,
    /// Rank of A = J W_pas: of d unknowns, this many combinations are known exactly.
    pub rank: usize,
    /// d − rank; if 0, the features themselves are recovered.
    pub nul: usize,
    /// `least_squares`: (1/d) Tr((I − P) K₀), R (50).
    pub mse_ls: f64,
    /// `half_star`: (1/d) Tr((I − P) K_½), R (51).
    pub mse_half_star: f64,
    /// `half`: (1/d) Tr K_½; no attack that projects ½ on the solutions does worse (R theorem 1).
    pub mse_half: f64,
    /// `zero`: (1/d) Tr K₀.
    pub mse_zero: f64,
    /// (1/d) Tr((I − P) K_μ), R (52): at most the error of `least_squares` and of `half_star`, and
    /// of A⁺b' + (I − P) z for any fixed z. It is the error for z = μ, the means of the features.
    pub lb_mu: f64,
    /// Least error of `least_squares` for any A of this rank: (1/d) times the sum of the d − rank
    /// least eigenvalues of K₀, R (50). Known before training (R remark 4).
    pub lb_ls: f64,
    /// Greatest error of `least_squares` for any A of this rank: the d − rank greatest eigenvalues
    /// of K₀ in place of the least, R (50).
    pub ub_ls: f64,
    /// As `lb_ls` for `half_star` and K_½, R (51).
    pub lb_half_star: f64,
    /// As `ub_ls` for `half_star` and K_½, R (51).
    pub ub_half_star: f64,
    /// `informed_control`: (1/d) Tr S, S = K_μ the covariance: the error of an adversary that knows
    /// means and covariances of the features and no score.
    pub mse_informed_control: f64,
    /// `informed_linear`: (1/d) Tr(S − T), T = S Aᵀ (A S Aᵀ)⁺ A S: the least error of an affine
    /// estimate from exact scores by an adversary that knows means and covariances. If the features
    /// are Gaussian, the least error of any estimate.
    pub mse_informed_linear: f64,
    /// 1 − `mse_informed_linear` / `mse_informed_control`. Left out if no feature varies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub informed_added_risk: Option<f64>,
    /// Least `mse_informed_linear` for any A of this rank: (1/d) times the sum of the d − rank
    /// least eigenvalues of S.
    pub lb_informed_linear: f64,
    /// Greatest `mse_informed_linear` for any A of this rank: the d − rank greatest eigenvalues.
    pub ub_informed_linear: f64,
    /// The increase of the errors of `least_squares` and of `half_star`, each, if the model is
    /// trained on 1 − x in place of x: (4/d) Tr(P K_½), R section VIII-D.
    pub negate_mse_increase: f64,
    /// The error of `least_squares` after the best orthonormal transform, x → H* x before training:
    /// (1/d) [Tr((I + P) K₀) + 2 ‖P K₀‖_*], R theorem 3 with the factor 1/d that R (81) lacks.
    pub least_squares_optimal_mse: f64,
    /// Errors found by attacking the given records.
    pub empirical: Empirical,
}

/// Mean squared errors per feature of the estimates themselves, record by record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Empirical {
    /// x̂ = A⁺(A x).
    pub least_squares: f64,
    /// x̂ = A⁺(A x) + ½ (1 − A⁺(A 1)).
    pub half_star: f64,
    /// x̂ = ½.
    pub half: f64,
    /// x̂ = 0.
    pub zero: f64,
    /// x̂ = μ.
    pub informed_control: f64,
    /// x̂ = μ + S Aᵀ (A S Aᵀ)⁺ A (x − μ).
    pub informed_linear: f64,
}

/// Computes how much the release of `w_pas` (k × d) reveals of features with the moments of `x` (d
/// × n).
///
/// The adversary is taken to know exact scores and the active party's part of the model. Cost: O(n
/// d² + d³). Errors that rounding would make negative are 0.
///
/// # Errors
/// [`AssessError`] for fewer than two classes, no feature, no record, blocks that do not fit
/// together, and values that are not finite or so large that their squares are not.
pub fn assess(w_pas: &DMatrix<f64>, x: &FeatureBlock) -> Result<Assessment, AssessError> {
    let (k, d) = w_pas.shape();
    let moments = moments_of(w_pas, x)?;
    let x = x.matrix();
    let system = System::of(w_pas).map_err(|e| unsolved(&e))?;
    let (rank, nul) = (system.inverse.rank, d - system.inverse.rank);
    let empirical = attack(&system, &moments, x)?;

    let p = system.projector();
    let complement = DMatrix::identity(d, d) - &p;
    let per_feature = |trace: f64| trace.max(0.0) / d as f64;
    // Tr(Q K) = Σ Q ∘ K for symmetric matrices: d² products in place of d³.
    let error = |k: &DMatrix<f64>| per_feature(complement.dot(k));
    let (about_zero, about_half) = (spectrum(&moments.about_zero)?, spectrum(&moments.about_half)?);
    let (informed, about_mean) =
        (InformedBounds::of(&system.a, &moments.about_mean), spectrum(&moments.about_mean)?);
    let informed = informed.map_err(|e| unsolved(&e))?;
    let mse_informed_linear = informed.linear_mse();
    let pk = &p * &moments.about_zero;
    let nuclear: f64 = singular_values(&pk)?.iter().sum();
    let assessment = Assessment {
        classes: k,
        features: d,
        records: x.ncols(),
        rank,
        nul,
        mse_ls: error(&moments.about_zero),
        mse_half_star: error(&moments.about_half),
        mse_half: per_feature(moments.about_half.trace()),
        mse_zero: per_feature(moments.about_zero.trace()),
        lb_mu: error(&moments.about_mean),
        lb_ls: per_feature(about_zero[rank..].iter().sum()),
        ub_ls: per_feature(about_zero[..nul].iter().sum()),
        lb_half_star: per_feature(about_half[rank..].iter().sum()),
        ub_half_star: per_feature(about_half[..nul].iter().sum()),
        mse_informed_control: informed.control_mse(),
        mse_informed_linear,
        informed_added_risk: informed.added_risk(mse_informed_linear),
        lb_informed_linear: per_feature(about_mean[rank..].iter().sum()),
        ub_informed_linear: per_feature(about_mean[..nul].iter().sum()),
        negate_mse_increase: per_feature(4.0 * p.dot(&moments.about_half)),
        least_squares_optimal_mse: per_feature(
            moments.about_zero.trace() + pk.trace() + 2.0 * nuclear,
        ),
        empirical,
    };
    if assessment.errors().iter().all(|v| v.is_finite()) {
        Ok(assessment)
    } else {
        Err(AssessError::Overflow { what: "the sums of squares" })
    }
}

impl Assessment {
    /// Returns all numbers that could overflow.
    fn errors(&self) -> [f64; 21] {
        let Empirical { least_squares, half_star, half, zero, informed_control, informed_linear } =
            self.empirical;
        [
            self.mse_ls,
            self.mse_half_star,
            self.mse_half,
            self.mse_zero,
            self.lb_mu,
            self.lb_ls,
            self.ub_ls,
            self.lb_half_star,
            self.ub_half_star,
            self.mse_informed_control,
            self.mse_informed_linear,
            self.lb_informed_linear,
            self.ub_informed_linear,
            self.negate_mse_increase,
            self.least_squares_optimal_mse,
            least_squares,
            half_star,
            half,
            zero,
            informed_control,
            informed_linear,
        ]
    }
}

/// Checks the parameters and the records, and returns the moments of the records.
fn moments_of(w_pas: &DMatrix<f64>, x: &FeatureBlock) -> Result<Moments, AssessError> {
    let (k, d) = w_pas.shape();
    if k < 2 {
        return Err(AssessError::TooFewClasses { got: k });
    }
    if d == 0 {
        return Err(AssessError::NoFeature);
    }
    if x.features() != d {
        return Err(AssessError::Features { expected: d, got: x.features() });
    }
    if x.records() == 0 {
        return Err(AssessError::NoRecord);
    }
    if !w_pas.iter().all(|w| w.is_finite()) {
        return Err(AssessError::Weight);
    }
    Moments::of(x.matrix()).ok_or(AssessError::Overflow { what: "the moments of the records" })
}

/// Converts the error of a failed decomposition of A.
fn unsolved(error: &DecompositionError) -> AssessError {
    match error {
        DecompositionError::NotFinite => {
            AssessError::Overflow { what: "differences of passive weights" }
        }
        DecompositionError::NoConvergence => AssessError::NoConvergence { what: "A = J W_pas" },
    }
}

/// Computes the adversary's estimates from b' = A x, and returns their errors.
fn attack(system: &System, moments: &Moments, x: &DMatrix<f64>) -> Result<Empirical, AssessError> {
    let (a, inverse, d) = (&system.a, &system.inverse.matrix, x.nrows());
    let mut estimates = inverse * (a * x);
    let least_squares = mse(&estimates, x)?.overall;
    let half = DMatrix::from_element(d, 1, 0.5);
    let offset = &half - inverse * (a * &half);
    for mut estimate in estimates.column_iter_mut() {
        estimate += &offset;
    }
    let half_star = mse(&estimates, x)?.overall;
    estimates.fill(0.0);
    Ok(Empirical {
        least_squares,
        half_star,
        half: half_error(x)?.overall,
        zero: mse(&estimates, x)?.overall,
        informed_control: column_mean_error(x)?.overall,
        informed_linear: mse(&informed::estimates(a, moments, x).map_err(|e| unsolved(&e))?, x)?
            .overall,
    })
}

/// Returns the eigenvalues of a matrix of second moments, greatest first.
fn spectrum(k: &DMatrix<f64>) -> Result<Vec<f64>, AssessError> {
    let (values, _) =
        symmetric_eigen(k).map_err(|_| AssessError::NoConvergence { what: "the moments" })?;
    let mut values: Vec<f64> = values.iter().copied().collect();
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    Ok(values)
}

/// Returns the singular values of a square matrix.
fn singular_values(m: &DMatrix<f64>) -> Result<Vec<f64>, AssessError> {
    let svd = SquareSvd::of(m).map_err(|_| AssessError::NoConvergence { what: "A⁺A K₀" })?;
    Ok(svd.s.iter().copied().collect())
}

#[cfg(test)]
mod tests;
