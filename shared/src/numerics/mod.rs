//! Numerical building blocks. Plain functions on matrices with one record per column; nothing here knows of the wire.

mod box_system;
mod dense;
mod difference;
mod digits;
mod lbfgs;
mod polytope;
mod pseudo_inverse;
mod softmax;

pub use box_system::{BoxOutcome, BoxSolution, BoxSystem};
pub use difference::row_differences;
pub use digits::three_significant_digits;
pub use lbfgs::{Lbfgs, Minimum};
pub use polytope::{ActiveSet, LogDensity, Nearest, Polytope, Walk};
pub use pseudo_inverse::{DecompositionError, PseudoInverse, RANK_TOLERANCE};
pub use softmax::{arg_max, softmax_columns};
