//! Errors of moments.

/// Errors from moments that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriorError {
    /// The moments do not fit together.
    #[error("`{what}` is {rows} × {columns}, expected {expected}")]
    Shape {
        /// The name of the moment.
        what: &'static str,
        /// The number of its rows.
        rows: usize,
        /// The number of its columns.
        columns: usize,
        /// The expected shape.
        expected: String,
    },
    /// A value is not finite.
    #[error("`{what}` holds a value that is not finite")]
    NotFinite {
        /// The name of the moment.
        what: &'static str,
    },
    /// A matrix is no covariance.
    #[error("`{what}` is not symmetric")]
    Asymmetric {
        /// The name of the matrix.
        what: &'static str,
    },
}
