//! A request for a scoring, and the budget that is left after its answer.

use vfl_core::metrics::Metric;
use vfl_protocol::Refusal;
use vfl_protocol::scoring::{ControlKind, Question, ReportedCandidates};

use super::scoring::ReducedEstimates;

/// The most candidates of one scoring.
pub const MAX_CANDIDATES: usize = 64;

/// The estimates that a scoring compares with.
#[derive(Debug, Clone)]
pub enum Control {
    /// No estimates.
    None,
    /// The value ½ everywhere.
    Half,
    /// Each feature's mean over the records.
    ColumnMean,
    /// Estimates that the auditor sends.
    Given(ReducedEstimates),
    /// Each feature's mean over the records here that are not scored.
    Moments,
}

/// A request for a scoring.
#[derive(Debug, Clone)]
pub struct ScoringRequest {
    /// The candidates to score.
    pub candidates: Vec<ReducedEstimates>,
    /// True if an adversary that knows the moments is simulated: its likeliest point and its mean
    /// are candidates after the others.
    pub moments: bool,
    /// The control of the scoring.
    pub control: Control,
    /// The choice of candidates whose errors are reported.
    pub told: ReportedCandidates,
    /// True if errors by feature are reported too.
    pub by_feature: bool,
    /// True if figures by attribute are reported too, for the candidates whose errors are. It needs
    /// `by_feature` and a control.
    pub by_attribute: bool,
    /// The further metrics of the candidates whose errors are reported, and in trusted mode of the
    /// control.
    pub metrics: Vec<&'static dyn Metric>,
    /// The ρ to spend, by default `rho_per_scoring`; none in trusted mode.
    pub rho: Option<f64>,
}

impl ScoringRequest {
    /// Creates the request of a question about the candidates, and the control, that came before
    /// it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if a control came that the question does not ask for, or none that it does.
    pub(super) fn new(
        question: Question,
        candidates: Vec<ReducedEstimates>,
        given: Option<ReducedEstimates>,
    ) -> Result<Self, Refusal> {
        let Question { told, by_feature, by_attribute, control, moments, rho, metrics } = question;
        let control = match (control, given) {
            (ControlKind::Given, Some(given)) => Control::Given(given),
            (ControlKind::Given, None) => {
                return Err(Refusal::invalid("no control came: mark its estimates"));
            }
            (_, Some(_)) => {
                return Err(Refusal::invalid("a control came that the scoring does not ask for"));
            }
            (ControlKind::None, None) => Control::None,
            (ControlKind::Half, None) => Control::Half,
            (ControlKind::ColumnMean, None) => Control::ColumnMean,
            (ControlKind::Moments, None) => Control::Moments,
        };
        Ok(Self { candidates, moments, control, told, by_feature, by_attribute, metrics, rho })
    }
}

/// The budget that is left after an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RemainingBudget {
    /// In noised mode.
    Noised {
        /// The ρ that this answer has cost.
        spent: f64,
        /// The ρ that the set has left.
        left: f64,
    },
    /// In trusted mode, in candidates.
    Trusted {
        /// The number of candidates that may still be scored.
        scorings: u32,
    },
}
