//! The matrices that may leave a party.

use nalgebra::DMatrix;
use vfl_core::types::{Estimates, LogitShare, OutputGradient, ReleasedWeights};

mod sealed {
    use nalgebra::DMatrix;

    pub trait Columns {
        /// Returns the matrix with one column for each row on the wire.
        fn columns(&self) -> &DMatrix<f64>;
    }
}

/// Matrices that may leave a party. The trait is sealed: a type that is not listed in this module
/// has no wire form. Features, stored parameters and plain matrices are not listed; released scores
/// have a message of their own ([`pb::Release`](super::pb::Release)).
pub trait Releasable: sealed::Columns {}

macro_rules! releasable {
    ($($type:ty),+) => {$(
        impl sealed::Columns for $type {
            fn columns(&self) -> &DMatrix<f64> {
                self.matrix()
            }
        }
        impl Releasable for $type {}
    )+};
}

releasable!(LogitShare, OutputGradient, ReleasedWeights, Estimates);
