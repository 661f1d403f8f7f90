//! Error bounds for every defense that releases a bounded number of bits of the scores.

use nalgebra::DMatrix;
use vfl_core::types::FeatureBlock;

use super::informed::{BitsBound, InformedBounds};
use super::{AssessError, moments_of, unsolved};
use crate::linear::System;

/// Returns the least error of any informed attack on a model with weights `w_pas` (k × d), if all
/// answers about a record reveal at most so many bits, for each of `bits`. The features have the
/// mean and covariance of `x` (d × n).
///
/// The bound is proved for Gaussian features. For others it is a guide: a nonlinear estimate may do
/// better.
///
/// # Errors
/// [`AssessError::Bits`] for bits that are negative or not finite; otherwise as
/// [`assess`](super::assess).
pub fn bits_bounds(
    w_pas: &DMatrix<f64>,
    x: &FeatureBlock,
    bits: &[f64],
) -> Result<Vec<BitsBound>, AssessError> {
    let moments = moments_of(w_pas, x)?;
    let system = System::of(w_pas).map_err(|e| unsolved(&e))?;
    let informed = InformedBounds::of(&system.a, &moments.about_mean).map_err(|e| unsolved(&e))?;
    let bound = |&bits: &f64| {
        informed.with_bits(bits).filter(|_| bits.is_finite()).ok_or(AssessError::Bits)
    };
    bits.iter().map(bound).collect()
}
