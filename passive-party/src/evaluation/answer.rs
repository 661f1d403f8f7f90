//! The answers to openings and scorings, as they are sent.

use vfl_protocol::scoring::{ScoringInfo, ScoringReport};
use vfl_protocol::{Refusal, ShownParameters};

use super::scoring::ScoringAnswer;
use super::{Evaluation, RemainingBudget};
use crate::config::AuditMode;

/// Builds the answer to an opening.
///
/// # Errors
/// As [`Evaluation::baselines`].
pub(super) fn scoring_info(
    evaluation: &Evaluation,
    shown: ShownParameters,
    feature_names: Vec<String>,
) -> Result<ScoringInfo, Refusal> {
    let policy = evaluation.policy();
    let info = ScoringInfo {
        feature_names,
        shown,
        noised: policy.mode == AuditMode::Noised,
        moments: evaluation.plays(),
        scorings_left: 0,
        rho_total: None,
        rho_left: None,
        rho_per_scoring: None,
        half: None,
        column_mean: None,
    };
    Ok(match policy.mode {
        AuditMode::Noised => {
            let (total, left) = evaluation.rho();
            ScoringInfo {
                rho_total: Some(total),
                rho_left: Some(left),
                rho_per_scoring: Some(policy.rho_per_scoring),
                ..info
            }
        }
        AuditMode::Trusted => {
            let (half, column_mean) = evaluation.baselines()?.unzip();
            ScoringInfo { half, column_mean, scorings_left: evaluation.scorings_left(), ..info }
        }
    })
}

/// Builds the answer to a scoring; `clipped` has the number of clipped values of each candidate.
pub(super) fn scoring_report(
    answer: ScoringAnswer,
    left: RemainingBudget,
    clipped: Vec<u64>,
) -> ScoringReport {
    let ScoringAnswer { best, errors, control } = answer;
    let (rho_spent, rho_left, scorings_left) = match left {
        RemainingBudget::Noised { spent, left } => (Some(spent), Some(left), 0),
        RemainingBudget::Trusted { scorings } => (None, None, scorings),
    };
    ScoringReport { best, errors, control, clipped, rho_spent, rho_left, scorings_left }
}
