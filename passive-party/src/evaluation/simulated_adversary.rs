//! The adversary that knows the moments of the features, simulated by their owner: the moments are
//! not sent, and no score is asked for.
//!
//! From exact scores and the true parameters the active party has A x, A = J W_pas, or w_pas x of a
//! number. The owner has
//! x, and so A x. It conditions the Gaussian that has its moments on A x, as the adversary would,
//! and scores the estimates. The control is the mean alone.
//!
//! The moments are those of all records here except the scored ones: one scored record changes its
//! own estimate and no other, so that noise for an error in [0, 1] of one record hides it
//! ([`super::sensitivity::Sensitivity::of_played`]). It does not hide what the figures reveal about
//! the moments: the owner consents to that (`[audit] moments`).

use nalgebra::DMatrix;
use vfl_core::data::table::FeatureTable;
use vfl_core::metrics::MetricError;
use vfl_core::types::RecordIds;
use vfl_numerics::{GaussianSystem, determined_rows};
use vfl_protocol::Refusal;
use vfl_transform::moments;

use super::scoring::ReducedEstimates;

/// The fewest records from which moments are taken.
const FEWEST_OTHERS: usize = 100;

/// Returns true if so many records of `table` are not among `ids`, all of which it holds.
pub(super) fn enough(table: &FeatureTable, ids: &RecordIds) -> bool {
    table.ids().len().saturating_sub(ids.len()) >= FEWEST_OTHERS
}

/// The estimates of the adversary and of its control, reduced for scoring.
#[derive(Debug, Clone)]
pub(super) struct SimulatedAdversary {
    /// The likeliest point of the box, and the mean in the box.
    pub(super) attacks: [ReducedEstimates; 2],
    /// The mean of the features.
    pub(super) control: ReducedEstimates,
}

impl SimulatedAdversary {
    /// Simulates the adversary with the weights (k × d) against `truth` (d × n), the records `ids`
    /// of `table`.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if fewer than [`FEWEST_OTHERS`] other records are held here; INTERNAL if
    /// numbers overflow.
    pub(super) fn new(
        weights: &DMatrix<f64>,
        table: &FeatureTable,
        ids: &RecordIds,
        truth: &DMatrix<f64>,
    ) -> Result<Self, Refusal> {
        let scored: std::collections::HashSet<&str> = ids.iter().collect();
        let others = || {
            table.ids().iter().enumerate().filter(|(_, id)| !scored.contains(id)).map(|(at, _)| at)
        };
        if !enough(table, ids) {
            return Err(Refusal::precondition(format!(
                "moments are those of the records that are not scored, and fewer than {FEWEST_OTHERS} of these are held here; score fewer"
            )));
        }
        let overflow = || Refusal::internal("the moments of the features overflow");
        let (mean, covariance) =
            moments::mean_and_covariance(table.block().matrix(), others).ok_or_else(overflow)?;
        let a = determined_rows(weights);
        let unsolved = |e: &dyn std::fmt::Display| Refusal::internal(e.to_string());
        let system = GaussianSystem::new(&a, &covariance).map_err(|e| unsolved(&e))?;
        let means = DMatrix::from_fn(truth.nrows(), truth.ncols(), |feature, _| mean[feature]);
        let known = &a * truth;
        let played = |estimates: DMatrix<f64>| {
            ReducedEstimates::played(estimates, truth).map_err(|e: MetricError| unsolved(&e))
        };
        Ok(Self {
            attacks: [
                played(system.likeliest_in_box(&means, &known).x)?,
                played(system.posterior_mean(&means, &known).x)?,
            ],
            control: played(means)?,
        })
    }
}
