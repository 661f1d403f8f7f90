//! Facts of a system of equations that was solved.

/// Facts of a solved system.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// Rank of A.
    pub rank: usize,
    /// Dimension of the null space of A.
    pub nullity: usize,
    /// σ₁ / σ_rank of A.
    pub condition_number: f64,
    /// ‖A x̂ − b'‖₂ of each record.
    pub residuals: Vec<f64>,
    /// Where A is itself an estimate from auxiliary records: what they determined.
    pub auxiliary: Option<AuxiliarySystem>,
}

/// Facts of the auxiliary records that a system was estimated from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuxiliarySystem {
    /// Number of auxiliary records.
    pub records: usize,
    /// Unknowns of each log-ratio: d, and one more if the bias is unknown.
    pub unknowns: usize,
    /// How many of them the records determine: all of them if it equals `unknowns`.
    pub rank: usize,
    /// σ₁ / σ_rank of the auxiliary features: how much an error in the scores may grow, relative to them.
    pub condition_number: f64,
}
