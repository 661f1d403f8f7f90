//! Facts of a system of equations that was solved.

/// Facts of a system of equations that was solved.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemSummary {
    /// Rank of A.
    pub rank: usize,
    /// Dimension of the null space of A.
    pub nullity: usize,
    /// σ₁ / σ_rank of A.
    pub condition_number: f64,
    /// ‖A x̂ − b'‖₂ of each record.
    pub residuals: Vec<f64>,
    /// Facts of the auxiliary records, if A is itself an estimate from them.
    pub auxiliary: Option<AuxiliarySystem>,
}

/// Facts of the auxiliary records that a system was estimated from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuxiliarySystem {
    /// Number of auxiliary records.
    pub records: usize,
    /// Unknowns of each log-ratio: d, and one more if the bias is unknown.
    pub unknowns: usize,
    /// The number of unknowns that the records determine: all of them if it equals `unknowns`.
    pub rank: usize,
    /// σ₁ / σ_rank of the auxiliary features: the most by which an error in the scores may grow,
    /// relative to them.
    pub condition_number: f64,
}
