//! Converts messages to scorings, and answers to messages.

use vfl_core::metrics::metrics_named;
use vfl_protocol::{Refusal, ShownParameters, pb};
use vfl_transform::scoring::{Gain, Halves};

use super::scoring::{
    ReducedEstimates, ReportedCandidates, ReportedError, ReportedMetric, ScoringAnswer,
};
use super::{Control, Evaluation, RemainingBudget, ScoringRequest};
use crate::config::AuditMode;

/// Reads a request for a scoring of the candidates, and of the control, that came before it.
pub(super) fn asked(
    score: &pb::Score,
    candidates: Vec<ReducedEstimates>,
    given: Option<ReducedEstimates>,
) -> Result<ScoringRequest, Refusal> {
    use pb::score as wire;
    let unknown = |field: &str, value: i32| {
        Refusal::invalid(format!("`{field}` is {value}, which says nothing"))
    };
    let told = match wire::Told::try_from(score.told) {
        Ok(wire::Told::Unspecified) => ReportedCandidates::Nobody,
        Ok(wire::Told::Best) => ReportedCandidates::Best,
        Ok(wire::Told::All) => ReportedCandidates::All,
        Err(_) => return Err(unknown("told", score.told)),
    };
    let control = match (wire::Control::try_from(score.control), given) {
        (Ok(wire::Control::Given), Some(given)) => Control::Given(given),
        (Ok(wire::Control::Given), None) => {
            return Err(Refusal::invalid("no control came: mark its estimates"));
        }
        (Ok(_), Some(_)) => {
            return Err(Refusal::invalid("a control came that the scoring does not ask for"));
        }
        (Ok(wire::Control::Unspecified), None) => Control::None,
        (Ok(wire::Control::Half), None) => Control::Half,
        (Ok(wire::Control::ColumnMean), None) => Control::ColumnMean,
        (Ok(wire::Control::Moments), None) => Control::Moments,
        (Err(_), _) => return Err(unknown("control", score.control)),
    };
    let metrics = metrics_named(score.metrics.iter().map(String::as_str));
    let metrics = metrics.map_err(|e| Refusal::invalid(format!("`metrics`: {e}")))?;
    let pb::Score { by_feature, by_attribute, moments, rho, .. } = *score;
    Ok(ScoringRequest {
        candidates,
        moments,
        control,
        told,
        by_feature,
        by_attribute,
        metrics,
        rho,
    })
}

/// Builds the answer to an opening.
pub(super) fn opened(
    evaluation: &Evaluation,
    shown: &ShownParameters,
    feature_names: Vec<String>,
) -> Result<pb::EvaluationOpened, Refusal> {
    let policy = evaluation.policy();
    let moments = evaluation.plays();
    let opened = pb::EvaluationOpened {
        shown: Some(shown.into()),
        feature_names,
        moments,
        ..Default::default()
    };
    Ok(match policy.mode {
        AuditMode::Noised => {
            let (total, left) = evaluation.rho();
            pb::EvaluationOpened {
                mode: pb::ScoringMode::Noised.into(),
                rho_total: Some(total),
                rho_left: Some(left),
                rho_per_scoring: Some(policy.rho_per_scoring),
                ..opened
            }
        }
        AuditMode::Trusted => {
            let (half, column_mean) = evaluation.baselines()?.unzip();
            pb::EvaluationOpened {
                mode: pb::ScoringMode::Trusted.into(),
                half: half.map(error),
                column_mean: column_mean.map(error),
                scorings_left: evaluation.scorings_left(),
                ..opened
            }
        }
    })
}

fn error(told: ReportedError) -> pb::ReconstructionError {
    let ReportedError { mse, by_feature, sigma, sigma_by_feature, metrics } = told;
    let figure = |told: ReportedMetric| pb::MetricFigure {
        metric: told.metric.name().to_owned(),
        value: told.value,
        sigma: told.sigma,
    };
    let metrics = metrics.into_iter().map(figure).collect();
    pb::ReconstructionError { mse, mse_by_feature: by_feature, sigma, sigma_by_feature, metrics }
}

/// Builds the answer to a scoring; `clipped` has the number of clipped values of each candidate.
pub(super) fn scored(
    scored: ScoringAnswer,
    left: RemainingBudget,
    clipped: Vec<u64>,
) -> pb::Scored {
    let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let halves = |h: Halves| pb::Halves { first: h.first, second: h.second };
    let gain = |g: Gain| pb::Gain {
        value: g.value,
        low: g.interval.map(|i| i.0),
        high: g.interval.map(|i| i.1),
        halves: g.halves.map(halves),
    };
    let by_attribute = scored.attributes.into_iter().map(Some).chain(std::iter::repeat(None));
    let errors = scored.errors.into_iter().zip(by_attribute).map(|((at, e, g), told)| {
        pb::scored::Candidate {
            candidate: index(at),
            error: Some(error(e)),
            gain: g.map(gain),
            attributes: told.into_iter().flatten().map(pb::AttributeFigures::from).collect(),
        }
    });
    let (rho_spent, rho_left, scorings_left) = match left {
        RemainingBudget::Noised { spent, left } => (Some(spent), Some(left), 0),
        RemainingBudget::Trusted { scorings } => (None, None, scorings),
    };
    pb::Scored {
        best: scored.best.map(index),
        errors: errors.collect(),
        control: scored.control.map(error),
        clipped,
        rho_spent,
        rho_left,
        scorings_left,
    }
}
