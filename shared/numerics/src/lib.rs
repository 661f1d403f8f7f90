//! Estimates of x from A x = b in the unit box, and the numerical methods behind them.
//!
//! An under-determined system A x = b (A is m × d) has many solutions in [0, 1]^d. This crate
//! computes points that represent all of them, for thousands of right sides b of one A:
//!
//! | estimate | definition | call |
//! |---|---|---|
//! | Half* | the solution nearest to ½, without the box | [`BoxSystem::half_star`] |
//! | RCC2 | the solution in the box nearest to ½ | [`BoxSystem::project_half`] |
//! | RCC1 | a semidefinite relaxation of the Chebyshev centre | [`BoxSystem::relaxed_chebyshev`] |
//! | CLS | constrained least squares: the point of the box with the smallest ‖A x − b‖ | [`BoxSystem::least_squares`] |
//!
//! The decomposition of A is computed once. A right side that has a solution in the box then costs
//! 0.3 to 1 µs for RCC2 and CLS and 34 to 185 µs for RCC1 (m = 5, d = 18 and 30). That is 470 to
//! 1750 times less than with a general interior point solver which is built for each right side. A
//! right side without a solution in the box costs 14 to 16 µs for CLS, 18 to 42 times less.
//! `docs/benchmarks.md` in the repository has the table and the command, `docs/rcc1.md` the
//! mathematics.
//!
//! The crate also has
//!
//! - [`GaussianSystem`]: the same points for an adversary who knows the mean and the covariance of
//!   x: conditional mean, likeliest point in the box, mean of the posterior; [`ConfinedGaussian`]:
//!   the mean between any linear bounds; [`SampleMoments`]: mean and covariance of a sample, shrunk
//!   where it is small;
//! - [`KernelRidge`]: regression, linear or not, that chooses kernel and penalty by leaving records
//!   out;
//! - [`WaterFilling`]: the least error of a Gaussian vector described by a number of bits;
//! - [`GridLattice`]: the points of a grid that satisfy equations known to many digits, by lattice
//!   reduction, and [`Matching`]: the same for choices out of lists;
//! - [`rounded_simplex_bits`], [`gaussian_simplex_bits`]: the maximal leakage of released
//!   confidence scores, in bits;
//! - [`Polytope`]: nearest point, analytic centre and mean of {x : lower ≤ x ≤ upper, l ≤ B x ≤ u};
//! - [`PseudoInverse`]: A⁺, rank and condition number with a relative cut-off;
//! - [`GaussianSampling`]: the (ε, δ) that a training with noise (DP-SGD) spends, and the noise for
//!   a wanted ε;
//! - [`Whitening`]: uncorrelated features of variance 1;
//! - [`LinearSvm`]: linear support vector machines, with the duality gap;
//! - [`Lbfgs`]: minimisation of a smooth function by limited-memory BFGS with a strong Wolfe line
//!   search;
//! - [`softmax_columns`], [`arg_max`], [`row_differences`], [`two_sided_normal`] and
//!   [`three_significant_digits`].
//!
//! The crate knows nothing of parties, models or messages, and depends on linear algebra, threads
//! and random numbers only. Matrices are `nalgebra`'s, in double precision, with one right side per
//! column.
//!
//! "R" is B. Rassouli, M. Varasteh, D. Gündüz, *Privacy Against Inference Attacks in Vertical
//! Federated Learning*, arXiv:2207.11788; "R (16)" is its equation 16. The names Half*, RCC1 and
//! RCC2 come from R.
//!
//! # Example
//!
//! Two equations for four unknowns, and a thousand right sides at once:
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_numerics::BoxSystem;
//!
//! let a = DMatrix::from_row_slice(2, 4, &[
//!     1.0, -2.0, 0.5, 3.0,
//!     0.0,  1.0, 1.0, 1.0,
//! ]);
//! let truth = DMatrix::from_fn(4, 1000, |i, j| ((7 * i + 3 * j) % 11) as f64 / 10.0);
//! let b = &a * &truth;
//!
//! let system = BoxSystem::new(&a)?;
//! let found = system.relaxed_chebyshev(&b);
//! for (j, outcome) in found.outcomes.iter().enumerate() {
//!     assert!(outcome.converged && outcome.consistent);
//!     // The objective bounds the squared distance to every solution in the box.
//!     assert!((found.x.column(j) - truth.column(j)).norm_squared() <= outcome.objective + 1e-9);
//! }
//! # Ok::<(), vfl_numerics::DecompositionError>(())
//! ```

mod accountant;
mod box_system;
pub mod dense;
mod difference;
mod digits;
mod gaussian;
mod kernel_ridge;
mod lattice;
mod lbfgs;
mod leakage;
mod linear_svm;
mod moments;
mod normal;
mod polytope;
mod pseudo_inverse;
mod softmax;
mod water_filling;
mod whitening;

pub use accountant::{
    AccountantError, GaussianSampling, PrivacyLoss, classic_epsilon, improved_epsilon,
};
pub use box_system::{BoxOutcome, BoxSolution, BoxSystem};
pub use difference::{determined_rows, row_differences};
pub use digits::three_significant_digits;
pub use gaussian::{
    ConfinedGaussian, ConfinedMean, FactoredCovariance, GaussianError, GaussianSystem,
};
pub use kernel_ridge::KernelRidge;
pub use lattice::{GridLattice, GridPoint, LatticeError, Listing, Match, Matching, MatchingError};
pub use lbfgs::{Lbfgs, Minimum};
pub use leakage::{
    RoundedSimplex, gaussian_simplex_bits, permutation_bits, randomized_response_bits,
    rounded_simplex_bits,
};
pub use linear_svm::{LinearSvm, SvmError, SvmSettings};
pub use moments::SampleMoments;
pub use normal::two_sided_normal;
pub use polytope::{ActiveSet, LogDensity, NearestOutcome, Polytope, Walk};
pub use pseudo_inverse::{DecompositionError, PseudoInverse, RANK_TOLERANCE, ThinSvd};
pub use softmax::{arg_max, softmax_columns};
pub use water_filling::WaterFilling;
pub use whitening::Whitening;
