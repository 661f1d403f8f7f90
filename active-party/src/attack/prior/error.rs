//! Moments that cannot be used.

/// Why moments were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriorError {
    /// Moments that do not fit together.
    #[error("`{what}` is {rows} × {columns}, expected {expected}")]
    Shape {
        /// The moment.
        what: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
        /// What it should be.
        expected: String,
    },
    /// A value that is not finite.
    #[error("`{what}` holds a value that is not finite")]
    NotFinite {
        /// The moment.
        what: &'static str,
    },
    /// A matrix that is no covariance.
    #[error("`{what}` is not symmetric")]
    Asymmetric {
        /// The matrix.
        what: &'static str,
    },
}
