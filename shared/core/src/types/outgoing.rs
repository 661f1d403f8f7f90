//! The matrices that leave a party besides logit shares and released scores. Each kind has a type
//! of its own, so that a matrix of features or of parameters cannot be sent by mistake:
//! `vfl-protocol` encodes these types and no plain matrix.

use std::fmt;

use nalgebra::DMatrix;

macro_rules! outgoing {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq)]
        pub struct $type(DMatrix<f64>);

        impl $type {
            /// Returns the matrix as sent: one column for each row on the wire.
            #[must_use]
            pub fn matrix(&self) -> &DMatrix<f64> {
                &self.0
            }

            /// Returns the matrix by value.
            #[must_use]
            pub fn into_matrix(self) -> DMatrix<f64> {
                self.0
            }
        }

        /// Shows the shape only: the values are private.
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} × {}, values withheld)", stringify!($type), self.0.nrows(), self.0.ncols())
            }
        }
    };
}

outgoing! {
    /// The gradient of the mean loss with respect to one party's outputs of a batch: `w × B`, w the
    /// party's output width. The coordinator sends it to that party in training.
    OutputGradient
}
outgoing! {
    /// A party's weights as its release policy grants them to a role: `d × k`, the transpose of the
    /// weights, so that one class is one row on the wire.
    ReleasedWeights
}
outgoing! {
    /// An attacker's estimates of features: `d × n`, one record per column. They come from
    /// releases, never from the features.
    Estimates
}

impl OutputGradient {
    /// Marks a gradient (`w × B`) as one for a party.
    #[must_use]
    pub fn new(gradient: DMatrix<f64>) -> Self {
        Self(gradient)
    }
}

impl ReleasedWeights {
    /// Marks weights (`k × d`) as released. Call this only where a release policy has granted them.
    #[must_use]
    pub fn granted(weights: &DMatrix<f64>) -> Self {
        Self(weights.transpose())
    }
}

impl Estimates {
    /// Marks an attack's result (`d × n`) as one for the auditor.
    #[must_use]
    pub fn new(estimates: DMatrix<f64>) -> Self {
        Self(estimates)
    }
}
