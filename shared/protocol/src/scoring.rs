//! The messages by which an auditor has reconstructions scored by the party that holds the truth.

use vfl_core::metrics::{AttributeFigures, Metric, metrics_named};
use vfl_transform::scoring::{Gain, Halves};

use super::convert::{WireError, require};
use super::pb::{self, score as wire};
use super::refusal::Refusal;
use super::released_parameters::ShownParameters;

/// The answer of a party when the scorings of a set of records are opened.
#[derive(Debug, Clone)]
pub struct ScoringInfo {
    /// The names of its features.
    pub feature_names: Vec<String>,
    /// The parameters that it shows the active party.
    pub shown: ShownParameters,
    /// True if it answers with noise.
    pub noised: bool,
    /// True if it simulates the adversary that knows its moments.
    pub moments: bool,
    /// The number of further candidates that it scores, without noise.
    pub scorings_left: u32,
    /// The total budget of the records, with noise.
    pub rho_total: Option<f64>,
    /// The budget left, with noise.
    pub rho_left: Option<f64>,
    /// The cost of a scoring that names none, with noise.
    pub rho_per_scoring: Option<f64>,
    /// The error of guessing ½, if it is reported.
    pub half: Option<ReportedError>,
    /// The error of guessing each feature's mean over the records, if it is reported.
    pub column_mean: Option<ReportedError>,
}

/// A question about the candidates that came since the last scoring.
#[derive(Debug, Clone)]
pub struct Question {
    /// The choice of candidates whose errors are reported.
    pub told: ReportedCandidates,
    /// True if errors by feature are reported too.
    pub by_feature: bool,
    /// True if figures by attribute are reported too, for the candidates whose errors are. It needs
    /// `by_feature` and a control.
    pub by_attribute: bool,
    /// The control that the candidates are compared with.
    pub control: ControlKind,
    /// True if the party simulates the adversary that knows its moments: two more candidates after
    /// those that came.
    pub moments: bool,
    /// The ρ to spend; `None` for the party's default, and without noise.
    pub rho: Option<f64>,
    /// The metrics beside the mean squared error.
    pub metrics: Vec<&'static dyn Metric>,
}

/// The choice of candidates whose errors are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedCandidates {
    /// No candidate's error.
    Nobody,
    /// The best candidate's error.
    Best,
    /// Every candidate's error.
    All,
}

/// The control that errors are compared with; its own error is reported too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlKind {
    /// No control.
    None,
    /// The value ½ everywhere.
    Half,
    /// Each feature's mean over the records.
    ColumnMean,
    /// The estimates that came as the control.
    Given,
    /// Each feature's mean over the party's records that are not scored.
    Moments,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringReport {
    /// The place of the candidate with the smallest error.
    pub best: Option<usize>,
    /// The candidates whose errors were asked for.
    pub errors: Vec<ScoredCandidate>,
    /// The error of the control, if there is one.
    pub control: Option<ReportedError>,
    /// The number of values of each candidate that lay outside [0, 1] and were clipped.
    pub clipped: Vec<u64>,
    /// The cost of the scoring, with noise.
    pub rho_spent: Option<f64>,
    /// The budget left for the records, with noise.
    pub rho_left: Option<f64>,
    /// The number of further candidates that are scored, without noise.
    pub scorings_left: u32,
}

/// A candidate with its error.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredCandidate {
    /// The place among the candidates of the scoring.
    pub candidate: usize,
    /// The error of its estimates.
    pub error: ReportedError,
    /// The gain over the control, if there is one.
    pub gain: Option<Gain>,
    /// The figures by attribute of the party's schema, if they were asked for.
    pub attributes: Vec<AttributeFigures>,
}

/// An error as it is reported.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedError {
    /// The mean squared error over all records and features of the party.
    pub mse: f64,
    /// The mean squared error of each feature, if it was asked for.
    pub by_feature: Vec<f64>,
    /// The standard deviation of the noise in `mse`, if any.
    pub sigma: Option<f64>,
    /// The standard deviation of the noise in each of `by_feature`, if any.
    pub sigma_by_feature: Option<f64>,
    /// The figures by the metrics that were asked for, in that order.
    pub metrics: Vec<ReportedFigure>,
}

/// The figure of estimates by a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedFigure {
    /// The name of the metric.
    pub metric: String,
    /// The figure; `None` if it is not defined for these records.
    pub value: Option<f64>,
    /// The standard deviation of the noise in `value`, if any.
    pub sigma: Option<f64>,
}

impl From<ScoringInfo> for pb::EvaluationOpened {
    fn from(info: ScoringInfo) -> Self {
        let ScoringInfo {
            feature_names,
            shown,
            noised,
            moments,
            scorings_left,
            rho_total,
            rho_left,
            rho_per_scoring,
            half,
            column_mean,
        } = info;
        let mode = if noised { pb::ScoringMode::Noised } else { pb::ScoringMode::Trusted };
        Self {
            feature_names,
            half: half.map(Into::into),
            column_mean: column_mean.map(Into::into),
            scorings_left,
            shown: Some((&shown).into()),
            mode: mode.into(),
            rho_total,
            rho_left,
            rho_per_scoring,
            moments,
        }
    }
}

impl TryFrom<pb::EvaluationOpened> for ScoringInfo {
    type Error = WireError;

    fn try_from(opened: pb::EvaluationOpened) -> Result<Self, WireError> {
        let pb::EvaluationOpened {
            feature_names,
            half,
            column_mean,
            scorings_left,
            shown,
            mode,
            rho_total,
            rho_left,
            rho_per_scoring,
            moments,
        } = opened;
        Ok(Self {
            feature_names,
            shown: ShownParameters::try_from(&require("shown", shown)?)?,
            noised: pb::ScoringMode::try_from(mode) != Ok(pb::ScoringMode::Trusted),
            moments,
            scorings_left,
            rho_total,
            rho_left,
            rho_per_scoring,
            half: half.map(Into::into),
            column_mean: column_mean.map(Into::into),
        })
    }
}

impl From<Question> for pb::Score {
    fn from(question: Question) -> Self {
        let Question { told, by_feature, by_attribute, control, moments, rho, metrics } = question;
        let told = match told {
            ReportedCandidates::Nobody => wire::Told::Unspecified,
            ReportedCandidates::Best => wire::Told::Best,
            ReportedCandidates::All => wire::Told::All,
        };
        let control = match control {
            ControlKind::None => wire::Control::Unspecified,
            ControlKind::Half => wire::Control::Half,
            ControlKind::ColumnMean => wire::Control::ColumnMean,
            ControlKind::Given => wire::Control::Given,
            ControlKind::Moments => wire::Control::Moments,
        };
        Self {
            told: told.into(),
            by_feature,
            control: control.into(),
            rho,
            metrics: metrics.iter().map(|metric| metric.name().to_owned()).collect(),
            moments,
            by_attribute,
        }
    }
}

impl TryFrom<pb::Score> for Question {
    type Error = Refusal;

    /// Reads a question. The error is INVALID_ARGUMENT with the field.
    fn try_from(score: pb::Score) -> Result<Self, Refusal> {
        let pb::Score { told, by_feature, control, rho, metrics, moments, by_attribute } = score;
        let unknown = |field: &str, value: i32| {
            Refusal::invalid(format!("`{field}` is {value}, which says nothing"))
        };
        let told = match wire::Told::try_from(told) {
            Ok(wire::Told::Unspecified) => ReportedCandidates::Nobody,
            Ok(wire::Told::Best) => ReportedCandidates::Best,
            Ok(wire::Told::All) => ReportedCandidates::All,
            Err(_) => return Err(unknown("told", told)),
        };
        let control = match wire::Control::try_from(control) {
            Ok(wire::Control::Unspecified) => ControlKind::None,
            Ok(wire::Control::Half) => ControlKind::Half,
            Ok(wire::Control::ColumnMean) => ControlKind::ColumnMean,
            Ok(wire::Control::Given) => ControlKind::Given,
            Ok(wire::Control::Moments) => ControlKind::Moments,
            Err(_) => return Err(unknown("control", control)),
        };
        let metrics = metrics_named(metrics.iter().map(String::as_str));
        let metrics = metrics.map_err(|e| Refusal::invalid(format!("`metrics`: {e}")))?;
        Ok(Self { told, by_feature, by_attribute, control, moments, rho, metrics })
    }
}

impl From<ScoringReport> for pb::Scored {
    fn from(report: ScoringReport) -> Self {
        let ScoringReport { best, errors, control, clipped, rho_spent, rho_left, scorings_left } =
            report;
        Self {
            best: best.map(place),
            errors: errors.into_iter().map(Into::into).collect(),
            control: control.map(Into::into),
            clipped,
            rho_spent,
            rho_left,
            scorings_left,
        }
    }
}

impl TryFrom<pb::Scored> for ScoringReport {
    type Error = WireError;

    fn try_from(scored: pb::Scored) -> Result<Self, WireError> {
        let pb::Scored { best, errors, control, clipped, rho_spent, rho_left, scorings_left } =
            scored;
        let errors = errors.into_iter().map(ScoredCandidate::try_from);
        Ok(Self {
            best: best.map(|best| best as usize),
            errors: errors.collect::<Result<_, _>>()?,
            control: control.map(Into::into),
            clipped,
            rho_spent,
            rho_left,
            scorings_left,
        })
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl From<ScoredCandidate> for pb::scored::Candidate {
    fn from(scored: ScoredCandidate) -> Self {
        let ScoredCandidate { candidate, error, gain, attributes } = scored;
        Self {
            candidate: place(candidate),
            error: Some(error.into()),
            gain: gain.map(Into::into),
            attributes: attributes.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::scored::Candidate> for ScoredCandidate {
    type Error = WireError;

    fn try_from(scored: pb::scored::Candidate) -> Result<Self, WireError> {
        let pb::scored::Candidate { candidate, error, gain, attributes } = scored;
        let attributes = attributes.into_iter().map(AttributeFigures::try_from);
        Ok(Self {
            candidate: candidate as usize,
            error: require("error", error)?.into(),
            gain: gain.map(Into::into),
            attributes: attributes.collect::<Result<_, _>>()?,
        })
    }
}

impl From<ReportedError> for pb::ReconstructionError {
    fn from(error: ReportedError) -> Self {
        let ReportedError { mse, by_feature, sigma, sigma_by_feature, metrics } = error;
        let figure =
            |ReportedFigure { metric, value, sigma }| pb::MetricFigure { metric, value, sigma };
        let metrics = metrics.into_iter().map(figure).collect();
        Self { mse, mse_by_feature: by_feature, sigma, sigma_by_feature, metrics }
    }
}

impl From<pb::ReconstructionError> for ReportedError {
    fn from(error: pb::ReconstructionError) -> Self {
        let pb::ReconstructionError { mse, mse_by_feature, sigma, sigma_by_feature, metrics } =
            error;
        let figure =
            |pb::MetricFigure { metric, value, sigma }| ReportedFigure { metric, value, sigma };
        let metrics = metrics.into_iter().map(figure).collect();
        Self { mse, by_feature: mse_by_feature, sigma, sigma_by_feature, metrics }
    }
}

impl From<Gain> for pb::Gain {
    fn from(Gain { value, interval, halves }: Gain) -> Self {
        let (low, high) = interval.unzip();
        let halves = halves.map(|Halves { first, second }| pb::Halves { first, second });
        Self { value, low, high, halves }
    }
}

impl From<pb::Gain> for Gain {
    fn from(pb::Gain { value, low, high, halves }: pb::Gain) -> Self {
        let halves = halves.map(|pb::Halves { first, second }| Halves { first, second });
        Self { value, interval: low.zip(high), halves }
    }
}

#[cfg(test)]
mod tests;
